//! A cluster of processes for one test.

use std::future::Future;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tanist::cli::local::{Local, Plan, Scratch, scratch};
use tanist::client::{Client, Linearizable, Mode, Siblings};

/// The binary under test.
pub(crate) const TANIST: &str = env!("CARGO_BIN_EXE_tanist");
/// How long anything may take that takes a moment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The namespace that every test has.
pub(crate) const NAMESPACE: &str = "test";

static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test has processes.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cluster, and whose turn it is.
pub(crate) struct Cluster {
    // Dropped in this order: the processes before the folder that they work in, and the turn last.
    pub(crate) local: Local,
    pub(crate) client: Client,
    pub(crate) folder: Scratch,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Three nodes, a client that may do everything, and a namespace.
    pub(crate) async fn start() -> Self {
        Self::start_with(Plan::default(), &[]).await
    }

    /// The same as `plan` says, with these variables in the environment of the first node.
    #[allow(clippy::await_holding_lock, reason = "a turn is a test, and each test has a thread")]
    pub(crate) async fn start_with(plan: Plan, first: &[(&str, &str)]) -> Self {
        let turn = turn();
        let folder = scratch("tanist-test").unwrap();
        let mut local = Local::found(&folder.path().join("cluster"), Path::new(TANIST), &plan).await.unwrap();
        local.start_with(0, first).unwrap();
        local.start_all().unwrap();
        let client = local.connect(PATIENCE).await.unwrap();
        local.ready(&client, PATIENCE).await.unwrap();
        client
            .admin(client.identity().clone())
            .create_namespace(NAMESPACE, Mode::Siblings, None)
            .await
            .unwrap();
        Cluster { local, client, folder, _turn: turn }
    }

    /// Creates the namespace "jobs" of registers, and opens it.
    pub(crate) async fn registers(&self) -> Linearizable {
        let admin = self.client.admin(self.client.identity().clone());
        admin.create_namespace("jobs", Mode::Linearizable, None).await.unwrap();
        self.client.linearizable("jobs").await.unwrap()
    }

    /// The namespace, through whichever node is best.
    pub(crate) async fn open(&self) -> Siblings {
        self.client.siblings(NAMESPACE).await.unwrap()
    }

    /// The namespace through one node.
    pub(crate) async fn open_at(&self, node: usize) -> Siblings {
        self.client.at(&format!("node-{}", node + 1)).unwrap().siblings(NAMESPACE).await.unwrap()
    }

    /// Another client with connections of its own.
    pub(crate) async fn another(&self) -> Client {
        let client = Client::builder().identity(self.client.identity().clone());
        client.connect(self.local.ticket()).await.unwrap()
    }

    /// Starts what does not run, and waits until all count and reach each other.
    pub(crate) async fn heal(&mut self) {
        self.local.start_all().unwrap();
        self.local.ready(&self.client, PATIENCE).await.unwrap();
    }

    /// Runs `tanist` as the client.
    pub(crate) fn tanist(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `tanist` as the client, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(TANIST);
        command.args(arguments);
        command.env("TANIST_TICKET", self.local.ticket_file()).env("TANIST_KEY", self.local.key_file());
        command
    }

    /// A field of `/proc/PID/status` of a node, in MiB.
    pub(crate) fn memory_mib(&self, node: usize, field: &str) -> u64 {
        let pid = self.local.pid(node).unwrap().as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }
}

/// Runs an asynchronous test.
pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn eventually<T, F: Future<Output = Option<T>>>(
    what: &'static str,
    patience: Duration,
    mut ask: impl FnMut() -> F,
) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    async move {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(patience, asking).await {
            Ok(answer) => answer,
            Err(_) => panic!("{place}: not within {patience:?}: {what}"),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test measures")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn since(begun: Instant) -> Duration {
    now() - begun
}

/// How long a test that goes on for a while does so; `TANIST_TEST_SECONDS` says otherwise.
pub(crate) fn seconds(default: u64) -> Duration {
    let asked = std::env::var("TANIST_TEST_SECONDS").ok();
    Duration::from_secs(asked.map_or(default, |text| text.parse().expect("TANIST_TEST_SECONDS is a number")))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
