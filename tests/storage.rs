//! Data directories after crashes, damage and full disks; and stores against a model.
#![cfg(feature = "node")]

#[path = "storage/damage.rs"]
mod damage;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tanist::core::identity::Incarnation;
use tanist::engine::store::{Batch, Change};
use tanist::storage::amnesia::Amnesia;
use tanist::storage::directory::{Directory, OpenError, Opened, Settings};
use tanist::storage::memory::Memory;
use tanist::storage::reserve::Room;
use tanist::storage::rocks::{Rocks, Tuning};
use tanist::storage::{CommitError, Store};

const FIRST: Incarnation = Incarnation([1; 16]);
const SECOND: Incarnation = Incarnation([2; 16]);

fn settings() -> Settings {
    Settings {
        room: Room { reserve: 10 << 20, threshold: 12 << 20 },
        tuning: Tuning { write_buffer: 2 << 20, block_cache: 4 << 20 },
    }
}

fn open(path: &Path) -> Opened {
    Directory::open(path, &settings()).expect("opens")
}

/// The batch `number`: its row, and one that every batch overwrites.
fn batch(number: u64) -> Batch {
    let row = |key: String, value: Vec<u8>| Change::Put { key: key.into(), value: value.into() };
    let changes =
        vec![row(format!("row {number}"), noise(number, 100)), row("last".into(), noise(number, 8))];
    Batch { number, changes }
}

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| step()).collect()
}

fn commit_up_to(store: &impl Store, last: u64) {
    for number in store.last_batch() + 1..=last {
        store.commit(&batch(number)).expect("commits");
    }
}

fn assert_holds(store: &impl Store, last: u64) {
    assert_eq!(store.last_batch(), last);
    for number in 1..=last {
        let value = store.get(format!("row {number}").as_bytes()).expect("reads");
        assert_eq!(value, Some(noise(number, 100).into()), "row {number} of {last}");
    }
}

/// A directory of `FIRST` with batches up to `last`, closed.
fn written(last: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("node");
    let directory = Directory::create(&path, FIRST, &settings()).expect("creates");
    commit_up_to(&directory, last);
    (dir, path)
}

/// Copies `from` as it is now: of an open directory that is what a killed process leaves.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("creates");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("has a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("copies");
        }
    }
}

/// Every file below `dir` with its content and time of change.
fn content(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("lists").path();
        if path.is_dir() {
            files.extend(content(&path));
        } else {
            let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("has a time");
            files.insert(path.clone(), (fs::read(&path).expect("reads"), changed));
        }
    }
    files
}

/// The log of the database that has something in it.
fn log(path: &Path) -> PathBuf {
    let files = fs::read_dir(path.join("data")).expect("lists").map(|entry| entry.expect("lists").path());
    let is_log = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "log");
    files
        .filter(is_log)
        .max_by_key(|file| fs::metadata(file).map_or(0, |metadata| metadata.len()))
        .expect("a log")
}

#[test]
fn case_09_another_format_is_refused_and_left_untouched() {
    let (_dir, path) = written(3);
    fs::write(path.join("FORMAT"), "tanist data format 2\n").expect("writes");
    fs::remove_file(path.join("LOCK")).expect("removes");
    let before = content(&path);
    let refused = [
        Directory::open(&path, &settings()).expect_err("refuses").to_string(),
        Directory::create(&path, SECOND, &settings()).expect_err("refuses").to_string(),
    ];
    for message in refused {
        assert!(message.starts_with("format 2, need 1: "), "{message}");
    }
    assert!(content(&path) == before, "the directory changed");
    fs::write(path.join("FORMAT"), "tanist data format 1\n").expect("writes");
    let opened = open(&path);
    assert_eq!(opened.amnesia, Amnesia::None);
    assert_holds(&opened.directory, 3);
}

#[test]
fn data_that_names_no_format_is_refused_and_left_untouched() {
    let (_dir, path) = written(1);
    for text in [Some("a file of somebody else"), Some("tanist data format -1"), Some(""), None] {
        match text {
            Some(text) => fs::write(path.join("FORMAT"), text).expect("writes"),
            None => fs::remove_file(path.join("FORMAT")).expect("removes"),
        }
        let before = content(&path);
        let refused = Directory::open(&path, &settings()).expect_err("refuses");
        assert!(matches!(refused, OpenError::UnknownFormat { .. }), "{text:?}: {refused}");
        assert!(content(&path) == before, "{text:?}: the directory changed");
    }
}

#[test]
fn one_process_at_a_time() {
    let (_dir, path) = written(1);
    let opened = open(&path);
    let refused = Directory::open(&path, &settings()).expect_err("refuses");
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("in use by another process: stop that one"), "{refused}");
    drop(opened);
    assert_holds(&open(&path).directory, 1);
}

#[test]
fn a_new_directory_takes_nothing_before_it_has_an_incarnation() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("deep/node");
    drop(open(&path));
    let opened = open(&path);
    assert_eq!((opened.incarnation, &opened.amnesia), (None, &Amnesia::None));
    assert_eq!(opened.directory.commit(&batch(1)), Err(CommitError::NoIncarnation));
    opened.directory.reset_incarnation(FIRST).expect("writes");
    commit_up_to(&opened.directory, 2);
    drop(opened);
    let opened = open(&path);
    assert_eq!((opened.incarnation, &opened.amnesia), (Some(FIRST), &Amnesia::None));
    assert_eq!(fs::read_to_string(path.join("incarnation")).expect("reads").trim_end(), FIRST.to_string());
    drop(opened);
    let refused = Directory::create(&path, SECOND, &settings()).expect_err("refuses");
    assert!(matches!(refused, OpenError::Exists { .. }), "{refused}");
}

/// Opens a directory that forgot something: the verdict stays until a new incarnation is named.
fn assert_forgetful(path: &Path, expected: impl Fn(&Amnesia) -> bool) {
    for _ in 0..2 {
        let opened = open(path);
        assert!(expected(&opened.amnesia), "{:?}", opened.amnesia);
        assert!(opened.amnesia.to_string().contains("new actor"));
        let next = batch(opened.directory.last_batch() + 1);
        assert_eq!(opened.directory.commit(&next), Err(CommitError::NoIncarnation));
    }
    let opened = open(path);
    let last = opened.directory.last_batch();
    opened.directory.reset_incarnation(SECOND).expect("writes");
    opened.directory.commit(&batch(last + 1)).expect("commits as a new actor");
    drop(opened);
    let opened = open(path);
    assert_eq!((opened.incarnation, &opened.amnesia), (Some(SECOND), &Amnesia::None));
    assert_eq!(opened.directory.last_batch(), last + 1);
}

#[test]
fn a_lost_store_is_noticed() {
    let (_dir, path) = written(5);
    fs::remove_dir_all(path.join("data")).expect("removes");
    let verdict = open(&path).amnesia;
    assert_eq!(verdict, Amnesia::Missing);
    // From then on there is a store, an empty one.
    assert_forgetful(&path, |verdict| *verdict == Amnesia::Behind { store: 0, high_water: 5 });
}

#[test]
fn an_older_store_is_noticed() {
    let (dir, path) = written(5);
    copy(&path.join("data"), &dir.path().join("backup"));
    commit_up_to(&open(&path).directory, 9);
    fs::remove_dir_all(path.join("data")).expect("removes");
    copy(&dir.path().join("backup"), &path.join("data"));
    assert_forgetful(&path, |verdict| *verdict == Amnesia::Behind { store: 5, high_water: 9 });
}

#[test]
fn a_lost_or_foreign_mark_or_name_is_noticed() {
    let unreadable = |verdict: &Amnesia| matches!(verdict, Amnesia::Unreadable(_));
    let (_dir, path) = written(5);
    fs::remove_file(path.join("high-water")).expect("removes");
    assert_forgetful(&path, unreadable);
    let (_dir, path) = written(5);
    fs::write(path.join("incarnation"), "not one").expect("writes");
    assert_forgetful(&path, unreadable);
    let (_dir, path) = written(5);
    fs::write(path.join("incarnation"), Incarnation([7; 16]).to_string()).expect("writes");
    assert_forgetful(&path, unreadable);
}

#[test]
fn a_damaged_database_is_moved_aside_and_never_deleted() {
    let (_dir, path) = written(5);
    for number in 1..=2 {
        let current = path.join("data/CURRENT");
        fs::write(&current, "garbage").expect("writes");
        let opened = open(&path);
        assert!(matches!(opened.amnesia, Amnesia::Unreadable(_)), "{:?}", opened.amnesia);
        let aside = path.join(format!("data.damaged-{number}"));
        assert!(opened.amnesia.to_string().contains(aside.to_str().expect("a name")), "{}", opened.amnesia);
        assert_eq!(fs::read(aside.join("CURRENT")).expect("is kept"), b"garbage");
        opened.directory.reset_incarnation(FIRST).expect("writes");
        commit_up_to(&opened.directory, 5);
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("node");
    let directory = Directory::create(&path, FIRST, &settings()).expect("creates");
    for last in [1, 2, 40] {
        commit_up_to(&directory, last);
        let image = dir.path().join(format!("killed after {last}"));
        copy(&path, &image);
        let opened = open(&image);
        assert_eq!((opened.incarnation, &opened.amnesia), (Some(FIRST), &Amnesia::None));
        assert_holds(&opened.directory, last);
    }
}

#[test]
fn a_torn_batch_is_a_crash_and_a_lost_one_is_amnesia() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("node");
    let directory = Directory::create(&path, FIRST, &settings()).expect("creates");
    commit_up_to(&directory, 19);
    let mark = fs::read(path.join("high-water")).expect("reads");
    commit_up_to(&directory, 20);
    for (name, mark) in [("torn", Some(mark)), ("lost", None)] {
        let image = dir.path().join(name);
        copy(&path, &image);
        let log = log(&image);
        let bytes = fs::read(&log).expect("reads");
        fs::write(&log, &bytes[..bytes.len() - 5]).expect("cuts");
        if let Some(mark) = &mark {
            fs::write(image.join("high-water"), mark).expect("writes");
        }
        let opened = open(&image);
        assert_holds(&opened.directory, 19);
        let lost = Amnesia::Behind { store: 19, high_water: 20 };
        assert_eq!(opened.amnesia, if mark.is_some() { Amnesia::None } else { lost });
    }
}

#[test]
fn no_damage_to_the_log_drops_synced_batches_silently() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("node");
    let directory = Directory::create(&path, FIRST, &settings()).expect("creates");
    commit_up_to(&directory, 20);
    let len = fs::read(log(&path)).expect("reads").len();
    let (mut aside, mut behind) = (0, 0);
    // 61 is prime to the length of a record: every part of one is hit.
    for position in (0..len).step_by(61) {
        let image = dir.path().join(format!("damage {position}"));
        copy(&path, &image);
        let mut bytes = fs::read(log(&image)).expect("reads");
        bytes[position] ^= 0x55;
        fs::write(log(&image), bytes).expect("writes");
        let opened = open(&image);
        match opened.amnesia {
            Amnesia::None => {
                panic!("damage at {position} went unnoticed, at {}", opened.directory.last_batch())
            }
            Amnesia::Unreadable(_) => aside += 1,
            Amnesia::Behind { .. } => behind += 1,
            Amnesia::Missing => panic!("damage at {position} is no loss of a store"),
        }
        drop(opened);
        fs::remove_dir_all(image).expect("removes");
    }
    assert!(aside > behind, "damage must be an error first: {aside} errors, {behind} caught by the mark");
}

/// A small file system of its own. Needs the right to mount one.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(dir.path()).output();
        let mount = mount.expect("`mount` can be started");
        let why = String::from_utf8_lossy(&mount.stderr);
        assert!(mount.status.success(), "this test needs root, to mount a tmpfs of 64 MB: {why}");
        Tmpfs(dir)
    }

    fn node(&self) -> PathBuf {
        self.0.path().join("node")
    }

    /// Takes every byte that is left but for `slack`.
    fn fill(&self, slack: u64) {
        let mut file = fs::File::create(self.0.path().join("filler")).expect("creates");
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|written| written > 0) {}
        let len = file.metadata().expect("has a length").len();
        file.set_len(len.saturating_sub(slack)).expect("cuts");
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("filler")).expect("removes");
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn big(number: u64) -> Batch {
    let key = format!("big {number}").into();
    Batch { number, changes: vec![Change::Put { key, value: noise(number, 256 << 10).into() }] }
}

fn assert_holds_big(store: &impl Store, last: u64) {
    assert!(store.last_batch() >= last);
    for number in 1..=last {
        let value = store.get(format!("big {number}").as_bytes()).expect("reads");
        assert!(value == Some(noise(number, 256 << 10).into()), "value {number} of {last}");
    }
}

#[test]
fn case_33_a_full_disk_refuses_reads_on_and_recovers() {
    let disk = Tmpfs::new();
    let directory = Directory::create(&disk.node(), FIRST, &settings()).expect("creates");
    for number in 1..=32 {
        directory.commit(&big(number)).expect("commits");
    }
    disk.fill(0);
    for _ in 0..3 {
        assert!(matches!(directory.commit(&big(33)), Err(CommitError::DiskFull { .. })));
    }
    assert_holds_big(&directory, 32);

    // Killed while full: the start has nothing but the reserve to live on, twice.
    let other = Tmpfs::new();
    copy(&disk.node(), &other.node());
    other.fill(0);
    for _ in 0..2 {
        let opened = open(&other.node());
        assert_eq!((opened.incarnation, &opened.amnesia), (Some(FIRST), &Amnesia::None));
        assert_holds_big(&opened.directory, 32);
        assert!(matches!(opened.directory.commit(&big(33)), Err(CommitError::DiskFull { .. })));
    }

    for (disk, directory) in [(&disk, directory), (&other, open(&other.node()).directory)] {
        assert!(matches!(directory.commit(&big(33)), Err(CommitError::DiskFull { .. })));
        disk.free();
        directory.commit(&big(33)).expect("commits again, without a restart");
        assert_holds_big(&directory, 33);
        let reserve = fs::metadata(disk.node().join("reserve")).expect("is there");
        assert_eq!(reserve.len(), 10 << 20, "the reserve was taken back");
    }
}

/// The database alone, with nothing that keeps room for its own work, on a disk that has `slack`
/// bytes left. Returns how the first refused commit ended.
fn commit_until_full(slack: u64) -> CommitError {
    let disk = Tmpfs::new();
    let tuning = settings().tuning;
    Rocks::create(&disk.node(), &tuning).expect("creates");
    let rocks = Rocks::open(&disk.node(), &tuning).expect("opens");
    rocks.commit(&big(1)).expect("commits");
    disk.fill(slack);
    let mut acknowledged = 1;
    let error = loop {
        match rocks.commit(&big(acknowledged + 1)) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000, "the disk never was full");
    };
    assert_holds_big(&rocks, acknowledged);
    disk.free();
    if matches!(error, CommitError::DiskFull { .. }) {
        // RocksDB looks for room every five seconds.
        let mut tries = 0;
        while let Err(error) = rocks.commit(&big(acknowledged + 1)) {
            assert!(matches!(error, CommitError::DiskFull { .. }), "{error}");
            tries += 1;
            assert!(tries < 300, "still full after 30 seconds");
            // RocksDB says nothing when it has found room: the only event is that a commit passes.
            std::thread::park_timeout(Duration::from_millis(100));
        }
        acknowledged += 1;
    } else {
        let again = rocks.commit(&big(acknowledged + 1));
        assert!(matches!(again, Err(CommitError::Failed(_))), "after {error}: {again:?}");
    }
    drop(rocks);
    let rocks = Rocks::open(&disk.node(), &tuning).expect("opens");
    assert_holds_big(&rocks, acknowledged);
    rocks.commit(&big(rocks.last_batch() + 1)).expect("commits");
    error
}

#[test]
fn case_33_a_log_without_room_ends_the_process_and_loses_nothing() {
    let error = commit_until_full(0);
    assert!(matches!(error, CommitError::Failed(_)), "{error}");
}

#[test]
fn case_33_tables_without_room_only_refuse_until_there_is_some() {
    // Whether the log or the table of the one before it meets the end of the disk is a matter of who
    // comes first. With a few megabytes left it is the table, nearly always.
    let refused =
        (3..16).any(|quarter| matches!(commit_until_full(quarter << 18), CommitError::DiskFull { .. }));
    assert!(refused, "no table ever lacked room");
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Reopen,
    Get(Vec<u8>),
    Scan { prefix: Vec<u8>, after: Option<Vec<u8>>, limit: usize },
}

/// Short keys of few different bytes, so that they meet, and with both extremes among them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xfe, 0xff]), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let change = (key(), prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..20)));
    prop_oneof![
        4 => prop::collection::vec(change, 0..12).prop_map(Step::Commit),
        1 => Just(Step::Reopen),
        2 => key().prop_map(Step::Get),
        4 => (key(), prop::option::of(key()), 0usize..20)
            .prop_map(|(prefix, after, limit)| Step::Scan { prefix, after, limit }),
    ]
}

/// Runs `steps` on the store that `reopen` closes and opens, and on a plain map beside it.
fn agrees_with_a_map<S: Store>(steps: Vec<Step>, mut reopen: impl FnMut(Option<S>) -> S) {
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut store = reopen(None);
    let mut batches = 0;
    for step in steps {
        match step {
            Step::Commit(changes) => {
                batches += 1;
                let mut batch = Batch { number: batches, changes: Vec::new() };
                for (key, value) in changes {
                    batch.changes.push(match &value {
                        Some(value) => Change::Put { key: key.clone().into(), value: value.clone().into() },
                        None => Change::Delete { key: key.clone().into() },
                    });
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
                store.commit(&batch).expect("commits");
            }
            Step::Reopen => store = reopen(Some(store)),
            Step::Get(key) => {
                let expected = model.get(&key).cloned().map(Bytes::from);
                assert_eq!(store.get(&key).expect("reads"), expected, "get {key:?}");
            }
            Step::Scan { prefix, after, limit } => {
                let rows = store.scan(&prefix, after.as_deref(), limit).expect("scans");
                let rows: Vec<_> =
                    rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                let matches =
                    |key: &[u8]| key.starts_with(&prefix) && after.as_deref().is_none_or(|after| key > after);
                let expected = model.iter().filter(|(key, _)| matches(key)).take(limit);
                let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(rows, expected, "scan {prefix:?} after {after:?} limit {limit}");
            }
        }
        assert_eq!(store.last_batch(), batches);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn the_memory_agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let disk = Memory::new();
        agrees_with_a_map(steps, |_| {
            disk.crash(0);
            disk.clone()
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn a_directory_agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().expect("a directory");
        drop(Directory::create(dir.path(), FIRST, &settings()).expect("creates"));
        agrees_with_a_map(steps, |open_one| {
            drop(open_one);
            open(dir.path()).directory
        });
    }
}
