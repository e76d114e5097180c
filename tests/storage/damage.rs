//! Every kind of file in a data directory, damaged in every way.
//!
//! A start has three honest ends: everything acknowledged is there, or the node refuses and says
//! what to do, or it comes back as a new actor and says why. A read has two: what was written, or an
//! error. That something acknowledged is missing and nobody says so is none of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tanist::engine::store::{StoreError, View as _};
use tanist::node::Node;
use tanist::node::found::ClusterPlan;
use tanist::storage::amnesia::Amnesia;
use tanist::storage::directory::{Directory, OpenError, Opened, Settings};
use tanist::storage::reserve::Room;
use tanist::storage::rocks::Tuning;
use tanist::storage::{CommitError, Store as _};

use super::{FIRST, SECOND, batch, commit_up_to, copy, noise};

/// Enough for several tables and a log.
const MANY: u64 = 2_000;
/// Bytes of a table whose middle is rows. That of a table of one row is its properties, which no start
/// does without; and how many rows a table holds is a matter of time.
const TABLE: u64 = 8 << 10;

/// A folder in memory where there is one: these tests are not about syncs, and make thousands.
fn ground() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a directory")
}

/// The least write buffer that RocksDB takes.
fn settings() -> Settings {
    Settings {
        room: Room { reserve: 1 << 20, threshold: 1 << 20 },
        tuning: Tuning { write_buffer: 64 << 10, block_cache: 1 << 20 },
    }
}

/// A data directory, made once and copied for each damage.
struct World {
    _dir: tempfile::TempDir,
    path: PathBuf,
    last: u64,
}

impl World {
    /// What one process leaves. Whether tables are still being written then is a matter of time.
    fn new() -> Self {
        let dir = ground();
        let path = dir.path().join("node");
        let directory = Directory::create(&path, FIRST, &settings()).expect("creates");
        commit_up_to(&directory, MANY);
        World { _dir: dir, path, last: MANY }
    }

    /// A file of each kind: two tables of many rows at least, and one log.
    fn of_all_kinds() -> Self {
        let mut world = Self::new();
        for _ in 0..20 {
            // A start brings what is in the log to a table.
            let opened = Directory::open(&world.path, &settings()).expect("opens");
            world.last += 100;
            commit_up_to(&opened.directory, world.last);
            drop(opened);
            if tables(&world.path).len() >= 2 && files(&world.path, "log").len() == 1 {
                return world;
            }
        }
        panic!("never two tables and one log");
    }

    /// A copy of it, with a name for the damage.
    fn image(&self, name: &str) -> PathBuf {
        let image = self.path.with_file_name(name);
        if image.exists() {
            fs::remove_dir_all(&image).expect("removes");
        }
        copy(&self.path, &image);
        image
    }
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Damage {
    Deleted,
    Half,
    Emptied,
    FlippedInTheMiddle,
    FlippedNearTheEnd,
    Garbage,
    Longer,
    Folder,
    Unreadable,
}

const DAMAGES: [Damage; 9] = [
    Damage::Deleted,
    Damage::Half,
    Damage::Emptied,
    Damage::FlippedInTheMiddle,
    Damage::FlippedNearTheEnd,
    Damage::Garbage,
    Damage::Longer,
    Damage::Folder,
    Damage::Unreadable,
];

impl Damage {
    fn inflict(self, path: &Path) {
        let mut bytes = fs::read(path).expect("reads");
        let len = bytes.len();
        fs::remove_file(path).expect("removes");
        match self {
            Damage::Deleted => return,
            Damage::Folder => return fs::create_dir(path).expect("creates"),
            // Not even root reads a link to itself.
            Damage::Unreadable => return symlink(path, path).expect("links"),
            Damage::Half => bytes.truncate(len / 2),
            Damage::Emptied => bytes.clear(),
            Damage::FlippedInTheMiddle if len > 0 => bytes[len / 2] ^= 0x10,
            Damage::FlippedNearTheEnd if len > 0 => bytes[len - 1 - len.min(20) / 2] ^= 0x10,
            Damage::FlippedInTheMiddle | Damage::FlippedNearTheEnd => {}
            Damage::Garbage => bytes = noise(99, len.max(64)),
            Damage::Longer => bytes.extend(noise(98, 64)),
        }
        fs::write(path, bytes).expect("writes");
    }
}

/// How a start on damaged data ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// As if nothing had happened: everything is there, and the next batch is taken.
    Whole,
    /// Everything that can be read is right, and some of it says that it is damaged.
    Partly,
    /// A new actor, on what is there or on nothing, with the reason.
    NewActor,
    /// Refused, with a word on which file, and nothing changed.
    Refused,
}

/// Opens `path` and holds the result against what was acknowledged.
fn judge(path: &Path, last: u64, what: &str) -> (End, String) {
    let before = names(path);
    match Directory::open(path, &settings()) {
        Err(error) => {
            let said = error.to_string();
            assert!(says_where(&error, &said), "{what}: the operator is not told what to do: {said}");
            assert_eq!(names(path), before, "{what}: refused, and yet files went or came");
            (End::Refused, said)
        }
        Ok(Opened { directory, amnesia: Amnesia::None, incarnation }) => {
            assert_eq!(incarnation, Some(FIRST), "{what}");
            assert_eq!(directory.last_batch(), last, "{what}");
            let damage = read_all(&directory, last, what);
            let next = directory.commit(&batch(last + 1));
            if damage.is_none() {
                assert_eq!(next, Ok(()), "{what}");
                drop(directory);
                let again = match Directory::open(path, &settings()) {
                    Ok(again) => again,
                    Err(error) => return (End::Refused, error.to_string()),
                };
                assert_eq!(
                    (again.amnesia, again.directory.last_batch()),
                    (Amnesia::None, last + 1),
                    "{what}"
                );
                assert_eq!(read_all(&again.directory, last, what), None, "{what}: after another start");
                return (End::Whole, String::new());
            }
            (End::Partly, damage.unwrap_or_default())
        }
        Ok(Opened { directory, amnesia, .. }) => {
            let said = amnesia.to_string();
            assert!(said.contains("new actor"), "{what}: {said}");
            let next = batch(directory.last_batch() + 1);
            assert_eq!(directory.commit(&next), Err(CommitError::NoIncarnation), "{what}: {said}");
            read_some(&directory, last, what);
            directory.reset_incarnation(SECOND).expect("writes");
            directory.commit(&next).expect("commits as a new actor");
            (End::NewActor, said)
        }
    }
}

fn says_where(error: &OpenError, said: &str) -> bool {
    match error {
        OpenError::OtherFormat { .. } => true,
        OpenError::Database(_) => said.contains("move `data` away"),
        _ => said.contains('/'),
    }
}

/// Reads every row by its name and all of them in order: each is right or an error. Returns an error.
fn read_all(directory: &Directory, last: u64, what: &str) -> Option<String> {
    let mut damage = None;
    for number in 1..=last {
        match directory.get(format!("row {number}").as_bytes()) {
            Ok(value) => {
                assert_eq!(value, Some(noise(number, 100).into()), "{what}: row {number} of {last}");
            }
            Err(StoreError::Damaged(why)) => damage = Some(why),
            Err(error) => panic!("{what}: {error}"),
        }
    }
    match directory.scan(b"row ", None, usize::MAX) {
        Ok(rows) => {
            let own = |key: &[u8]| key == format!("row {}", last + 1).as_bytes();
            assert_eq!(rows.iter().filter(|(key, _)| !own(key)).count() as u64, last, "{what}: a scan");
        }
        Err(StoreError::Damaged(why)) => damage = Some(why),
        Err(error) => panic!("{what}: {error}"),
    }
    damage
}

/// What is read of data that forgot something was written once.
fn read_some(directory: &Directory, last: u64, what: &str) {
    for number in (1..=last).step_by(7) {
        if let Ok(Some(value)) = directory.get(format!("row {number}").as_bytes()) {
            assert_eq!(value, noise(number, 100), "{what}: row {number} was never that");
        }
    }
}

/// The names of all files below `dir`, but for what RocksDB notes for people, and our temporaries.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("lists").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            found.extend(names(&path));
        } else if !name.starts_with("LOG") && !name.starts_with("LOCK") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file of each kind, by the name of its kind.
fn kinds(path: &Path) -> BTreeMap<&'static str, PathBuf> {
    let mut kinds = BTreeMap::new();
    for name in ["FORMAT", "LOCK", "incarnation", "high-water", "reserve"] {
        kinds.insert(name, path.join(name));
    }
    for entry in fs::read_dir(path.join("data")).expect("lists") {
        let path = entry.expect("lists").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let kind = match name.as_str() {
            "CURRENT" => "data/CURRENT",
            "IDENTITY" => "data/IDENTITY",
            "LOCK" => "data/LOCK",
            "LOG" => "data/LOG",
            name if name.starts_with("MANIFEST-") => "data/MANIFEST-*",
            name if name.starts_with("OPTIONS-") => "data/OPTIONS-*",
            name if name.ends_with(".log") => "data/*.log",
            name if name.ends_with(".sst") || name.starts_with("LOG.old") => continue,
            _ => panic!("{name} is of a kind that this test does not know"),
        };
        if kinds.get(kind).is_none_or(|other: &PathBuf| size(other) < size(&path)) {
            kinds.insert(kind, path);
        }
    }
    let tables = tables(path);
    assert!(tables.len() >= 2, "too few tables: {tables:?}");
    kinds.insert("data/*.sst, oldest", tables[0].clone());
    kinds.insert("data/*.sst, newest", tables[tables.len() - 1].clone());
    kinds
}

/// The files of the database with this extension and some content.
fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(path.join("data")).expect("lists").map(|entry| entry.expect("lists").path());
    let is_one = |file: &PathBuf| file.extension().is_some_and(|found| found == extension) && size(file) > 0;
    let mut found: Vec<PathBuf> = files.filter(is_one).collect();
    found.sort();
    found
}

/// The tables whose middle is rows, oldest first.
fn tables(path: &Path) -> Vec<PathBuf> {
    files(path, "sst").into_iter().filter(|table| size(table) >= TABLE).collect()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// What a start on each kind of file makes of each damage, in the order of [`DAMAGES`].
#[rustfmt::skip]
fn expected(kind: &str) -> [End; 9] {
    use End::{NewActor as N, Partly as P, Refused as R, Whole as W};
    match kind {
        //  gone half empty mid end garbage longer folder unreadable
        "FORMAT"          => [R, R, R, R, R, R, R, R, R],
        "LOCK"            => [W, W, W, W, W, W, W, R, R],
        "incarnation"     => [N, N, N, N, N, N, N, R, R],
        // One of its two slots is enough.
        "high-water"      => [N, W, N, W, W, N, W, R, R],
        "reserve"         => [W, W, W, W, W, W, W, R, R],
        "data/CURRENT"    => [N, N, N, N, N, N, N, R, R],
        "data/IDENTITY"   => [W, W, W, W, W, W, W, R, W],
        "data/LOCK"       => [W, W, W, W, W, W, W, R, R],
        "data/LOG"        => [W, W, W, W, W, W, W, R, R],
        "data/MANIFEST-*" => [N, N, N, N, N, N, W, R, R],
        "data/OPTIONS-*"  => [W, W, W, W, W, W, W, W, W],
        "data/*.log"      => [N, N, N, N, N, N, W, N, R],
        "data/*.sst, oldest" | "data/*.sst, newest" => [N, N, N, P, N, N, N, N, R],
        _ => panic!("no expectation of {kind}"),
    }
}

#[test]
fn every_kind_of_file_damaged_in_every_way() {
    let world = World::of_all_kinds();
    let kinds = kinds(&world.path);
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    let mut wrong = Vec::new();
    for (kind, file) in kinds {
        for (damage, expected) in DAMAGES.into_iter().zip(expected(kind)) {
            let image = world.image("image");
            damage.inflict(&image.join(file.strip_prefix(&world.path).expect("inside")));
            let (end, said) = judge(&image, world.last, &format!("{kind} {damage:?}"));
            if end != expected {
                wrong.push(format!("{kind} {damage:?}: {end:?}, not {expected:?}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Cut anywhere, and changed anywhere. A manifest that lost its end names an earlier time: what was
/// written to tables since then is no part of it, while the last log still has the newest batches.
#[test]
fn no_damage_to_the_manifest_drops_synced_batches_silently() {
    let world = World::new();
    let files =
        fs::read_dir(world.path.join("data")).expect("lists").map(|entry| entry.expect("lists").path());
    let manifest = files.filter(|path| path.to_string_lossy().contains("MANIFEST-")).max().expect("is there");
    let manifest = manifest.strip_prefix(&world.path).expect("inside").to_owned();
    let len = usize::try_from(size(&world.path.join(&manifest))).expect("is short");
    let (mut noticed, mut whole) = (0, 0);
    // Both are prime to everything in there.
    let cuts = (0..len).step_by(23).map(|at| (at, true));
    for (at, cut) in cuts.chain((0..len).step_by(41).map(|at| (at, false))) {
        let image = world.image("image");
        let mut bytes = fs::read(image.join(&manifest)).expect("reads");
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 0x55;
        }
        fs::write(image.join(&manifest), bytes).expect("writes");
        match judge(&image, world.last, &format!("{at} of {len}, cut: {cut}")).0 {
            End::NewActor => noticed += 1,
            End::Whole => whole += 1,
            other => panic!("{at} of {len}, cut: {cut}: {other:?}"),
        }
    }
    assert!(noticed > 50, "{noticed} noticed, {whole} harmless");
}

/// A crash in the middle of a batch, after few of them and after many: nothing is lost, and there is no
/// alarm over the end of a log, nor at the start after that.
#[test]
fn crash_after_crash_is_no_damage() {
    let dir = ground();
    let path = dir.path().join("node");
    let mut directory = Directory::create(&path, FIRST, &settings()).expect("creates");
    let mut last = 0;
    for round in 0..12 {
        last += [3, 700, 1, 0][round % 4];
        commit_up_to(&directory, last);
        let mark = fs::read(path.join("high-water")).expect("reads");
        directory.commit(&batch(last + 1)).expect("commits");
        // Closing writes nothing to the log.
        drop(directory);
        let log = files(&path, "log").pop().expect("a log");
        let bytes = fs::read(&log).expect("reads");
        fs::write(&log, &bytes[..bytes.len() - 5]).expect("cuts");
        fs::write(path.join("high-water"), mark).expect("writes");
        let opened = Directory::open(&path, &settings()).expect("opens");
        assert_eq!((&opened.amnesia, opened.directory.last_batch()), (&Amnesia::None, last), "round {round}");
        super::assert_holds(&opened.directory, last);
        directory = opened.directory;
    }
}

/// A file of the node itself, beside its data.
#[test]
fn damaged_files_of_a_node_are_named() {
    let dir = ground();
    let founded = ClusterPlan::local(1, 0).found(&dir.path().join("cluster")).expect("founds");
    let node = &founded.nodes[0];
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let open = || runtime.block_on(Node::open(node.path())).map(drop);
    open().expect("opens");
    for file in [node.config(), node.key(), node.cluster()] {
        let kept = dir.path().join("kept");
        fs::copy(&file, &kept).expect("copies");
        for damage in DAMAGES {
            damage.inflict(&file);
            match open() {
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains(&*file.to_string_lossy()), "{file:?} {damage:?}: {said}");
                }
                // Settings may have more lines, or another comment.
                Ok(()) => {
                    let harmless = [Damage::Longer, Damage::FlippedInTheMiddle, Damage::FlippedNearTheEnd];
                    assert!(harmless.contains(&damage), "{file:?} {damage:?}");
                }
            }
            if file.is_dir() {
                fs::remove_dir(&file).expect("removes");
            }
            let _ = fs::remove_file(&file);
            fs::copy(&kept, &file).expect("copies");
        }
        open().expect("opens again");
    }
}
