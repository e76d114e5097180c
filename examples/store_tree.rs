//! Stores whole trees of files in a cluster of three node processes, kills one half-way, and reads every
//! file back through each of the three.
//!
//! ```text
//! cargo run --release --example store_tree [FOLDER ..]
//! ```
//!
//! Without arguments: this repository, and the sources of every package that `cargo metadata` names.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use tanist::client::{Client, Siblings, WriteError, Written};
use tokio::task::JoinSet;

use common::{Cluster, create_namespace};

const NAMESPACE: &str = "files";
const WRITERS: usize = 8;
/// The node that is killed.
const VICTIM: usize = 1;
/// How long the nodes may take to find each other again.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a write that nobody takes is tried again.
const TRIES: u32 = 1_000;

/// A file, and the key it is stored under.
struct Found {
    key: String,
    path: PathBuf,
}

/// What the writers say.
#[derive(Default)]
struct Tally {
    next: AtomicUsize,
    stored: AtomicU64,
    bytes: AtomicU64,
    /// Refused because they are too large.
    refused: AtomicU64,
    /// Attempts that changed nothing and were made again, and attempts whose outcome was unknown.
    repeated: AtomicU64,
    settled: AtomicU64,
    /// The longest that one file took.
    slowest_ms: AtomicU64,
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let roots = if folders.is_empty() { default_folders()? } else { folders };
    let found = Arc::new(files(&roots)?);
    println!("{} files in {} folders", HumanCount(found.len() as u64), roots.len());

    let (mut cluster, client) = Cluster::start(false).await?;
    create_namespace(&client, NAMESPACE, None).await?;
    let stored = store(&mut cluster, &client, &found).await?;
    read_back(&client, &found, stored).await
}

/// Stores every file with eight writers; half-way one node is killed, and started again when three
/// quarters are stored. Returns how many are stored.
async fn store(
    cluster: &mut Cluster,
    client: &Client,
    found: &Arc<Vec<Found>>,
) -> Result<u64, Box<dyn Error>> {
    let tally = Arc::new(Tally::default());
    let bar = bar(found.len(), "storing");
    let begun = now();
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        // Each writer has connections of its own.
        let own = Client::builder().identity(client.identity().clone());
        let files = own.connect(cluster.local.ticket()).await?.siblings(NAMESPACE).await?;
        writers.spawn(write(files, found.clone(), tally.clone(), bar.clone()));
    }
    let reached = async |part: usize| {
        while tally.next.load(Relaxed) < found.len() * part / 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    reached(2).await;
    cluster.local.kill(VICTIM);
    bar.suspend(|| println!("{:>8.1} s  kill -9 of node-{}", begun.elapsed_s(), VICTIM + 1));
    reached(3).await;
    cluster.local.start(VICTIM)?;
    bar.suspend(|| println!("{:>8.1} s  node-{} is started again", begun.elapsed_s(), VICTIM + 1));
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    bar.finish_and_clear();
    cluster.local.ready(client, PATIENCE).await?;

    let seconds = begun.elapsed_s();
    let [stored, bytes, refused] =
        [&tally.stored, &tally.bytes, &tally.refused].map(|count| count.load(Relaxed));
    println!(
        "stored     {} files, {}, in {seconds:.1} s by {WRITERS} writers: {:.0} files/s, {}/s",
        HumanCount(stored),
        HumanBytes(bytes),
        stored as f64 / seconds,
        HumanBytes((bytes as f64 / seconds) as u64),
    );
    println!("refused    {refused} files over 1 MiB, before anything was stored");
    println!(
        "meanwhile  {} attempts made again, {} in doubt and settled; the slowest file took {} ms",
        tally.repeated.load(Relaxed),
        tally.settled.load(Relaxed),
        tally.slowest_ms.load(Relaxed),
    );
    Ok(stored)
}

async fn write(
    files: Siblings,
    found: Arc<Vec<Found>>,
    tally: Arc<Tally>,
    bar: ProgressBar,
) -> Result<(), String> {
    loop {
        let Some(file) = found.get(tally.next.fetch_add(1, Relaxed)) else { return Ok(()) };
        let content = read(&file.path).map_err(|error| error.to_string())?;
        let len = content.len() as u64;
        let begun = now();
        match insist(&files, &file.key, content, &tally).await {
            Ok(true) => {
                tally.stored.fetch_add(1, Relaxed);
                tally.bytes.fetch_add(len, Relaxed);
            }
            Ok(false) => drop(tally.refused.fetch_add(1, Relaxed)),
            Err(why) => return Err(format!("{}: {why}", file.key)),
        }
        tally.slowest_ms.fetch_max((begun.elapsed_s() * 1000.0) as u64, Relaxed);
        bar.inc(1);
    }
}

/// Creates a key; `false` if the value is too large.
async fn insist(files: &Siblings, key: &str, content: Vec<u8>, tally: &Tally) -> Result<bool, String> {
    let content = bytes::Bytes::from(content);
    let mut why = String::new();
    for _ in 0..TRIES {
        let mut outcome = files.create(key, content.clone()).await;
        if let Err(WriteError::Unknown(unknown)) = &outcome {
            tally.settled.fetch_add(1, Relaxed);
            outcome = unknown.settle().await;
        }
        match outcome {
            Ok(Written::Applied { .. }) => return Ok(true),
            Ok(Written::Refused { reason, .. }) => return Err(reason.to_string()),
            Err(WriteError::TooLarge { .. }) => return Ok(false),
            // Whoever is in doubt must not write anew; only who knows that nothing changed may.
            Err(error) if error.nothing_changed() => why = error.to_string(),
            Err(error) => return Err(error.to_string()),
        }
        tally.repeated.fetch_add(1, Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(why)
}

/// Reads every file through each node, and compares it with what is on the disk.
async fn read_back(client: &Client, found: &Arc<Vec<Found>>, stored: u64) -> Result<(), Box<dyn Error>> {
    let mut wrong = 0;
    for member in client.configuration().current().members.clone() {
        let node = member.name;
        let files = client.at(&node)?.siblings(NAMESPACE).await?;
        let bar = bar(found.len(), "reading");
        let begun = now();
        let next = Arc::new(AtomicUsize::new(0));
        let mut readers = JoinSet::new();
        for _ in 0..WRITERS {
            readers.spawn(compare(files.clone(), found.clone(), next.clone(), bar.clone()));
        }
        let (mut same, mut absent) = (0, 0);
        while let Some(reader) = readers.join_next().await {
            let compared = reader??;
            same += compared.same;
            absent += compared.absent;
            compared.different.iter().for_each(|key| println!("DIFFERENT through {node}: {key}"));
            wrong += compared.different.len();
        }
        bar.finish_and_clear();
        let seconds = begun.elapsed_s();
        println!(
            "{node}     {} files byte-identical, {absent} that were refused are absent, in {seconds:.1} s: {:.0} files/s",
            HumanCount(same),
            found.len() as f64 / seconds,
        );
        wrong += usize::from(same != stored);
    }
    if wrong > 0 { Err(format!("{wrong} differences").into()) } else { Ok(()) }
}

#[derive(Default)]
struct Compared {
    same: u64,
    absent: u64,
    different: Vec<String>,
}

async fn compare(
    files: Siblings,
    found: Arc<Vec<Found>>,
    next: Arc<AtomicUsize>,
    bar: ProgressBar,
) -> Result<Compared, String> {
    let mut compared = Compared::default();
    while let Some(file) = found.get(next.fetch_add(1, Relaxed)) {
        let content = read(&file.path).map_err(|error| error.to_string())?;
        let reading = files.get(&file.key).await.map_err(|error| format!("{}: {error}", file.key))?;
        match reading.value() {
            Ok(Some(value)) if *value == content => compared.same += 1,
            Ok(None) if content.len() > tanist::core::limits::VALUE_LEN => compared.absent += 1,
            _ => compared.different.push(file.key.clone()),
        }
        bar.inc(1);
    }
    Ok(compared)
}

/// This repository, and the folders of all packages it is built from.
fn default_folders() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(here)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let manifests = packages.iter().filter_map(|package| package["manifest_path"].as_str());
    Ok(manifests.filter_map(|manifest| Path::new(manifest).parent().map(Path::to_owned)).collect())
}

/// All files below `roots`, by key: the folder's name, and the path in it. Build products, links and
/// the insides of git are left out.
fn files(roots: &[PathBuf]) -> Result<Vec<Found>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for root in roots {
        let root = root.canonicalize()?;
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut open = vec![(root, name)];
        while let Some((folder, key)) = open.pop() {
            if folder.join("CACHEDIR.TAG").exists() {
                continue;
            }
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let key = format!("{key}/{}", entry.file_name().to_string_lossy());
                let kind = entry.file_type()?;
                if kind.is_dir() && entry.file_name() != ".git" {
                    open.push((entry.path(), key));
                } else if kind.is_file() && key.len() <= tanist::core::limits::KEY_LEN {
                    found.insert(key, entry.path());
                }
            }
        }
    }
    Ok(found.into_iter().map(|(key, path)| Found { key, path }).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn bar(len: usize, what: &'static str) -> ProgressBar {
    let style = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(len as u64).with_style(style).with_message(what)
}

struct Begun(Instant);

impl Begun {
    #[allow(clippy::disallowed_methods, reason = "an example measures")]
    fn elapsed_s(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

#[allow(clippy::disallowed_methods, reason = "an example measures")]
fn now() -> Begun {
    Begun(Instant::now())
}
