//! Clients that connect, do nothing, and are gone without a word.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tanist::client::{Client, Identity, Siblings, Ticket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::support::{Cluster, now, run, since};

const CLIENTS: usize = 2_000;
const ROUNDS: usize = 5;
/// Where the process of the clients finds the folder of the cluster.
const VARIABLE: &str = "TANIST_TEST_IDLE";

/// The clients, in a process of their own that the test below starts; alone it does nothing.
#[test]
fn idle_clients() {
    let Ok(folder) = std::env::var(VARIABLE) else { return };
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let folder = std::path::PathBuf::from(folder);
    let ticket: Ticket = std::fs::read_to_string(folder.join("ticket")).unwrap().parse().unwrap();
    let identity = Identity::load(folder.join("client.key")).unwrap();
    run(async {
        // All at once they would be in each other's way.
        let doors = Arc::new(Semaphore::new(32));
        let mut connecting = JoinSet::new();
        for _ in 0..CLIENTS {
            let (ticket, identity, doors) = (ticket.clone(), identity.clone(), doors.clone());
            connecting.spawn(async move {
                let _door = doors.acquire().await.unwrap();
                let client = Client::builder().identity(identity).timeout(Duration::from_secs(30));
                client.connect(&ticket).await.unwrap()
            });
        }
        let clients = connecting.join_all().await;
        println!("\nconnected");
        std::future::pending::<()>().await;
        drop(clients);
    });
}

/// A process of clients that are all connected.
fn connected(cluster: &Cluster) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["idle::idle_clients", "--exact", "--nocapture"]).env(VARIABLE, cluster.local.dir());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "connected"), "the clients do not connect");
    child
}

/// Memory in MiB and open descriptors of all nodes.
fn level(cluster: &Cluster) -> [u64; 2] {
    let nodes = 0..cluster.local.len();
    nodes.fold([0, 0], |sum, node| {
        let pid = cluster.local.pid(node).unwrap().as_raw_nonzero();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        [sum[0] + cluster.memory_mib(node, "VmRSS"), sum[1] + descriptors]
    })
}

/// The 99th of a hundred times that writes take.
async fn slowest(test: &Siblings, prefix: &str) -> Duration {
    let mut times = Vec::new();
    for n in 0..300 {
        let begun = now();
        assert!(test.create(format!("{prefix}/{n}"), "x").await.unwrap().applied().is_some());
        times.push(since(begun));
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn case_30_idle_clients_that_are_killed_again_and_again_leave_nothing_behind() {
    run(async {
        let cluster = Cluster::start().await;
        let test = cluster.open().await;
        let alone = slowest(&test, "alone").await;
        let mut levels = Vec::new();
        let mut among = Duration::MAX;
        for round in 0..ROUNDS {
            let mut child = connected(&cluster);
            let full = level(&cluster);
            if round == 0 {
                among = slowest(&test, "among").await;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            levels.push(full);
        }
        println!(
            "with {CLIENTS} clients: MiB and descriptors {levels:?}; a write's p99 {alone:?} alone, {among:?} among them"
        );
        // Those that were killed are noticed when they have been silent for as long as a client may be. What
        // they had is used again: each round that left something behind would need as much as the first one.
        sleep(Duration::from_secs(32)).await;
        let mut child = connected(&cluster);
        let again = level(&cluster);
        child.kill().unwrap();
        child.wait().unwrap();
        println!("once more, when all of them are forgotten: {again:?}");
        let most = |of: usize| levels.iter().map(|level| level[of]).max().unwrap_or(0);
        assert!(10 * again[0] <= 11 * most(0), "memory: {levels:?}, then {again:?} MiB");
        assert!(10 * most(0) <= 11 * levels[2][0].max(2 * levels[0][0]), "memory grows: {levels:?}");
        assert!(
            again[1] <= most(1) + 6 && most(1) <= levels[0][1] + 6,
            "descriptors: {levels:?}, then {again:?}"
        );
        assert!(
            among <= 3 * alone + Duration::from_millis(30),
            "p99 {alone:?} alone, {among:?} among idle clients"
        );
    });
}
