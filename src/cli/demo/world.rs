//! The cluster of the demonstration: three processes, wires between them, and who talks to them.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::broken::Rule;
use super::claims::Surprise;
use crate::cli::local::{Local, LocalError, Plan};
use crate::client::{Client, Linearizable, Mode, Siblings};
use crate::node::clock::Clock;

/// A namespace where a majority of the replicas must have a write.
pub(super) const MAJORITY: &str = "demo";
/// A namespace where one replica is enough: it goes on on both sides of a cut.
pub(super) const ONE: &str = "carts";
/// A namespace of registers.
pub(super) const REGISTERS: &str = "jobs";
/// How long nodes may take to start, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is lost on the wires besides what is cut: nothing. The seed names the run all the same.
const SEED: u64 = 1;

pub(super) struct World {
    pub(super) local: Local,
    pub(super) client: Client,
    pub(super) clock: Clock,
    broken: Vec<Rule>,
    program: std::path::PathBuf,
}

impl World {
    pub(super) async fn start(dir: &Path, broken: &[Rule], clock: Clock) -> Result<Self, LocalError> {
        let program = std::env::current_exe()
            .map_err(|source| LocalError::Io { action: "find the tanist binary".to_owned(), source })?;
        let plan = Plan { relays: Some(SEED), ..Plan::default() };
        let mut local = Local::found(dir, &program, &plan).await?;
        local.start_all()?;
        let client = local.connect(PATIENCE).await?;
        local.ready(&client, PATIENCE).await?;
        let admin = client.admin(client.identity().clone());
        let create = async {
            admin.create_namespace(MAJORITY, Mode::Siblings, None).await?;
            admin.create_namespace(ONE, Mode::Siblings, Some(1)).await?;
            admin.create_namespace(REGISTERS, Mode::Linearizable, None).await
        };
        create.await.map_err(|error| LocalError::NotReady(error.to_string()))?;
        Ok(World { local, client, clock, broken: broken.to_vec(), program })
    }

    /// Whether a test has this broken.
    pub(super) fn breaks(&self, rule: Rule) -> bool {
        self.broken.contains(&rule)
    }

    pub(super) fn processes(&self) -> String {
        let pids = (0..self.local.len()).filter_map(|node| self.local.pid(node));
        pids.map(|pid| pid.as_raw_nonzero().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The registers, through whichever node is best.
    pub(super) async fn registers(&self) -> Result<Linearizable, Surprise> {
        Ok(self.client.linearizable(REGISTERS).await?)
    }

    /// A namespace of siblings, through whichever node is best.
    pub(super) async fn open(&self, namespace: &str) -> Result<Siblings, Surprise> {
        Ok(self.client.siblings(namespace).await?)
    }

    /// A namespace of siblings through one node, over a connection of its own.
    pub(super) async fn open_at(&self, namespace: &str, node: usize) -> Result<Siblings, Surprise> {
        Ok(self.connect_at(node, Client::TIMEOUT).await?.siblings(namespace).await?)
    }

    /// A client of one node, over a connection of its own.
    pub(super) async fn connect_at(&self, node: usize, timeout: Duration) -> Result<Client, Surprise> {
        let client = Client::builder().identity(self.client.identity().clone()).timeout(timeout);
        Ok(client.connect(self.local.ticket()).await?.at(&name(node))?)
    }

    /// A command of `tanist` with these arguments, not started yet.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.env("TANIST_TICKET", self.local.ticket_file()).env("TANIST_KEY", self.local.key_file());
        command
    }

    /// Waits until all nodes run, count and reach each other.
    pub(super) async fn heal(&mut self) -> Result<(), Surprise> {
        self.local.start_all()?;
        let client = self.client.clone();
        Ok(self.local.ready(&client, PATIENCE).await?)
    }

    /// Runs `tanist` with these arguments.
    pub(super) async fn tanist(&self, arguments: &[&str]) -> Result<Output, Surprise> {
        Ok(self.command(arguments).output().await?)
    }

    /// The sum of those counters of all nodes that `counts` names.
    pub(super) async fn counted(&self, counts: impl Fn(&str) -> bool) -> Result<u64, Surprise> {
        let mut sum = 0;
        for node in 0..self.local.len() {
            let status = self.local.status(&self.client, node).await;
            let status = status.ok_or_else(|| Surprise::new(format!("{} has no status", name(node))))?;
            sum +=
                status.counters.iter().filter(|(name, _)| counts(name)).map(|(_, count)| count).sum::<u64>();
        }
        Ok(sum)
    }
}

/// A node's name.
pub(super) fn name(node: usize) -> String {
    format!("node-{}", node + 1)
}
