//! Storms: clusters under load while everything goes wrong, and the judgement of what clients were told.
//!
//! ```text
//! recorder   what clients were told         load     the clients
//! nemesis    what goes wrong, by a seed
//! ```
//!
//! `make chaos DURATION=600 NODES=5 SEED=7` makes a long one. The history stays in a file if it is wrong.

mod load;
mod nemesis;
mod recorder;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tanist::cli::local::Plan;
use tanist::cli::relay::Relay;
use tanist::client::{Client, Ticket};
use tanist::core::object::{Key, ObjectId};
use tanist::history::record::{Call, End, Kind, Recording};
use tanist::node::config::Limits;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::disks::Tmpfs;
use crate::support::{Cluster, NAMESPACE, PATIENCE, TANIST, eventually, run, text};
use load::{KEYS, LEDGER, Worker};
use nemesis::{Blow, Nemesis, ODD, SMALL, odd_clock};
use recorder::Recorder;

/// How long an operation may take before the client goes on without an answer.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Clients of registers, of siblings, and candidates.
const CLIENTS: [usize; 3] = [5, 4, 3];

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn storm_of_three_nodes() {
    if number("CHAOS_NODES").is_none_or(|nodes| nodes == 3) {
        storms(3);
    }
}

#[test]
fn storm_of_five_nodes() {
    if number("CHAOS_NODES").is_none_or(|nodes| nodes == 5) {
        storms(5);
    }
}

/// Storms of at most five minutes, for as long as the environment says; a short one if it says nothing. In
/// the first one a node's data are lost, in the next one they are replaced by old ones.
fn storms(nodes: usize) {
    let seconds = number("CHAOS_SECONDS").unwrap_or(24);
    let seed = number("CHAOS_SEED").unwrap_or(1);
    let storms = seconds.div_ceil(300).max(1);
    for storm in 0..storms {
        let length = Duration::from_secs(seconds / storms);
        let amnesia = [Blow::Wipe, Blow::Restore][(storm as usize + nodes / 2 + seed as usize) % 2];
        let _again = Again(format!("make chaos DURATION={seconds} NODES={nodes} SEED={seed}"));
        run(storm_of(nodes, length, seed + storm, amnesia));
    }
}

/// Says how to run a storm again, if it fails.
struct Again(String);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("again: {}", self.0);
        }
    }
}

async fn storm_of(nodes: usize, length: Duration, seed: u64, amnesia: Blow) {
    println!("{nodes} nodes, {length:?}, seed {seed}");
    let disk = Tmpfs::mount(96);
    let limits = Limits { disk_free_mib: 8, disk_reserve_mib: 8, ..Limits::default() };
    let data = BTreeMap::from([(SMALL, disk.path().join("data"))]);
    let clock = disk.path().join("clock");
    let env = odd_clock(&clock);
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let plan = Plan { nodes, relays: Some(seed), limits, data };
    let mut cluster = Cluster::start_with(plan, &env).await;
    cluster.registers().await;
    let (wires, ticket) = wires(&cluster, seed).await;
    let recorder = Arc::new(Recorder::new(&cluster.folder.path().join("history.jsonl")));
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for number in 0..CLIENTS.iter().sum() {
        let client = client(&cluster, &ticket, number, nodes).await;
        let siblings = (CLIENTS[0]..CLIENTS[0] + CLIENTS[1]).contains(&number);
        let space = client.space(if siblings { NAMESPACE } else { "jobs" }).await.unwrap();
        let name = format!("client-{number}");
        let (recorder, stop) = (recorder.clone(), stopped.clone());
        let worker = Worker { name, space, recorder, stop };
        if number < CLIENTS[0] + CLIENTS[1] {
            workers.spawn(worker.work(seed ^ number as u64));
        } else {
            workers.spawn(worker.own(client, number));
        }
    }
    // So much of memory and descriptors is needed when all is well.
    sleep(Duration::from_secs(2)).await;
    let immortal = nodes - 1;
    let before = level(&cluster, immortal);

    let fired = BTreeMap::new();
    let dice = seed;
    let mut nemesis =
        Nemesis { cluster: &mut cluster, wires: &wires, disk: &disk, clock, dice, amnesiac: false, fired };
    nemesis.torment(length, amnesia).await;
    let fired = nemesis.fired;
    sleep(Duration::from_secs(1)).await;
    stop.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    converge(&cluster, &recorder, nodes).await;
    let after = level(&cluster, immortal);

    let recording = recorder.recording();
    let packets = cluster.local.network().unwrap().counts();
    println!("  blows: {fired:?}; packets: {packets:?}");
    println!(
        "  memory of node-{nodes}: {} -> {} MiB, descriptors {} -> {}",
        before[0], after[0], before[1], after[1]
    );
    let told = Told::of(&recording);
    println!("  {told}");
    judge(&recorder);
    assert!(told.is_enough(length), "too little happened: {told}");
    let enough = length.as_secs() >= 120;
    assert!(!enough || fired.len() == 18, "not every blow was dealt: {fired:?}");
    assert!(packets.lost > 0 && (!enough || packets.flipped.min(packets.doubled).min(packets.overtaken) > 0));
    assert!(after[0] <= 2 * before[0] + 64, "memory grew from {} to {} MiB", before[0], after[0]);
    assert!(after[1] <= before[1] + 16, "descriptors grew from {} to {}", before[1], after[1]);
}

/// Wires from clients to nodes, and a ticket of their ends.
async fn wires(cluster: &Cluster, seed: u64) -> (Vec<Relay>, Ticket) {
    let (mut wires, mut addresses) = (Vec::new(), BTreeMap::new());
    for node in 0..cluster.local.len() {
        let address = cluster.local.address(node).unwrap();
        let name = format!("clients to node-{}", node + 1);
        let wire = Relay::start(&name, address, seed + 100 + node as u64).await.unwrap();
        addresses.insert(cluster.local.member(node).unwrap(), vec![wire.address()]);
        wires.push(wire);
    }
    (wires, Ticket::new(cluster.local.ticket().genesis().clone(), addresses).unwrap())
}

/// Every third client knows one node only, also while nobody else reaches it.
async fn client(cluster: &Cluster, ticket: &Ticket, number: usize, nodes: usize) -> Client {
    let client = Client::builder().identity(cluster.client.identity().clone()).timeout(TIMEOUT);
    let client = client.connect(ticket).await.unwrap();
    if number.is_multiple_of(3) {
        client.at(&format!("node-{}", number / 3 % nodes + 1)).unwrap()
    } else {
        client
    }
}

/// Memory in MiB, and open descriptors.
fn level(cluster: &Cluster, node: usize) -> [u64; 2] {
    let pid = cluster.local.pid(node).unwrap().as_raw_nonzero();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    [cluster.memory_mib(node, "VmRSS"), descriptors as u64]
}

/// Reads every key until all of its replicas that count hold the same; then writes down what they hold.
async fn converge(cluster: &Cluster, recorder: &Recorder, nodes: usize) {
    let client = cluster.another().await;
    let siblings = client.siblings(NAMESPACE).await.unwrap();
    let registers = client.linearizable("jobs").await.unwrap();
    for key in (0..KEYS).map(|key| format!("key-{key}")) {
        let object = ObjectId::new(siblings.id(), &Key::try_from(key.as_bytes().to_vec()).unwrap());
        let replicas = client.configuration().replicas(siblings.id(), object);
        let amnesiac = async |node: usize| {
            node == ODD
                && cluster.local.status(&client, node).await.is_none_or(|status| status.counts.is_err())
        };
        let mut holders = Vec::new();
        for node in 0..nodes {
            if replicas.contains(&cluster.local.member(node).unwrap()) && !amnesiac(node).await {
                let at = client.at(&format!("node-{}", node + 1)).unwrap();
                holders.push((node, at.siblings(NAMESPACE).await.unwrap()));
            }
        }
        let held = eventually("all replicas hold the same", PATIENCE, || async {
            // A read by quorum repairs what it meets.
            siblings.get(&key).await.ok()?;
            let mut held = Vec::new();
            for (node, at) in &holders {
                held.push((*node, at.get(&key).local().await.ok()?.versions().ids()));
            }
            held.iter().all(|(_, ids)| *ids == held[0].1).then_some(held)
        })
        .await;
        assert!(held.len() >= 2, "{key} has {} replicas that count", held.len());
        for (node, ids) in held {
            let call = Call::Final { siblings: key.clone(), node: format!("node-{}", node + 1) };
            let op = recorder.invoke("last", call);
            recorder.ok(op, Some(load::names(ids)));
        }
    }
    for key in (0..KEYS).map(|key| format!("key-{key}")).chain([LEDGER.to_owned()]) {
        let op = recorder.invoke("last", Call::Get { register: key.clone(), term: None });
        let reading = eventually("a register is read", PATIENCE, || async { registers.get(&key).await.ok() });
        recorder.ok(op, Some(load::names(reading.await.versions().ids())));
    }
}

/// What happened, in numbers.
#[derive(Default)]
struct Told {
    operations: usize,
    done: usize,
    conflicts: usize,
    unknown: usize,
    elections: usize,
    /// The longest time in which no operation of any client was done, in milliseconds: of registers, of
    /// siblings.
    unavailable_ms: [u64; 2],
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Told { operations, done, conflicts, unknown, elections, unavailable_ms } = self;
        write!(
            f,
            "{operations} operations: {done} done, {conflicts} conflicts, {unknown} unknown; {elections} elections; \
             longest unavailability {} ms (registers), {} ms (siblings)",
            unavailable_ms[0], unavailable_ms[1]
        )
    }
}

impl Told {
    fn of(recording: &Recording) -> Self {
        let mut told = Told { operations: recording.operations().len(), ..Told::default() };
        let mut answers = [vec![], vec![]];
        for one in recording.operations() {
            let (kind, _) = one.call.about();
            match &one.end {
                End::Ok(_) => {
                    told.done += 1;
                    match kind {
                        Kind::Register => answers[0].extend(one.answered),
                        Kind::Siblings => answers[1].extend(one.answered),
                        Kind::Resource => {}
                    }
                }
                End::Fail(Some(_)) => told.conflicts += 1,
                End::Fail(None) => {}
                End::Unknown => told.unknown += 1,
            }
            told.elections += usize::from(one.won.is_some());
        }
        for (answers, longest) in answers.iter_mut().zip(&mut told.unavailable_ms) {
            answers.sort_unstable();
            let gaps = answers.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000);
            *longest = gaps.max().unwrap_or(u64::MAX);
        }
        told
    }

    fn is_enough(&self, length: Duration) -> bool {
        let seconds = usize::try_from(length.as_secs()).unwrap();
        self.done >= 30 * seconds && self.conflicts >= seconds && self.elections >= 2 + seconds / 20
    }
}

/// The command that everybody has judges; and it is not blind.
fn judge(recorder: &Recorder) {
    let check = |file: &Path| Command::new(TANIST).arg("check").arg(file).output().unwrap();
    let file = recorder.file().to_owned();
    let judged = check(&file);
    print!("{}", text(&judged.stdout).lines().map(|line| format!("  {line}\n")).collect::<String>());
    if !judged.status.success() {
        let kept = std::env::temp_dir().join("tanist-chaos-history.jsonl");
        std::fs::copy(&file, &kept).unwrap();
        panic!("{} (kept in {})", text(&judged.stderr), kept.display());
    }
    // A register that was written to is read as if it never was.
    let op = recorder.invoke("blind", Call::Get { register: LEDGER.to_owned(), term: None });
    recorder.ok(op, Some(Vec::new()));
    let judged = check(recorder.file());
    assert_eq!(judged.status.code(), Some(1), "the judge is blind: {}", text(&judged.stdout));
}
