//! A cluster on this machine whose nodes are child processes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::relay::Network;
use crate::client::{Client, ConnectError, Identity, IdentityError, Ticket, TicketError};
use crate::core::identity::MemberId;
use crate::node::config::{Config, ConfigFileError, Limits, NodeDir};
use crate::node::{ClusterPlan, FoundError};
use crate::wire::client::Status;

/// How often it is looked whether something has happened that nobody tells.
const LOOK: Duration = Duration::from_millis(10);
/// How long a node may take to end when it is asked to.
const STOPPING: Duration = Duration::from_secs(15);

/// What a new cluster on this machine is to be like.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many nodes.
    pub nodes: usize,
    /// Whether its nodes talk through relays that can be cut, and the seed of what is lost there.
    pub relays: Option<u64>,
    /// Bounds for each node.
    pub limits: Limits,
    /// A data directory elsewhere, for some nodes.
    pub data: BTreeMap<usize, PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        // Three nodes share one small machine here.
        let limits = Limits { disk_free_mib: 16, disk_reserve_mib: 8, ..Limits::default() };
        Plan { nodes: 3, relays: None, limits, data: BTreeMap::new() }
    }
}

/// A cluster on this machine. Its processes end with it, whatever ends it but SIGKILL.
#[derive(Debug)]
pub struct Local {
    dir: PathBuf,
    program: PathBuf,
    ticket: Ticket,
    nodes: Vec<Node>,
    network: Option<Network>,
}

#[derive(Debug)]
struct Node {
    dir: NodeDir,
    member: MemberId,
    child: Option<Child>,
}

/// A cluster on this machine does not work.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// It cannot be founded.
    #[error(transparent)]
    Found(#[from] FoundError),
    /// A node's settings cannot be read or written.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// Its ticket is damaged.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Its client's key cannot be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It does not answer.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A node ended that should not.
    #[error("node-{node} ended with {status}; its log is {log}")]
    Ended {
        /// Its number.
        node: usize,
        /// How.
        status: ExitStatus,
        /// Where it says why.
        log: PathBuf,
    },
    /// The nodes do not find each other, or do not count yet.
    #[error("the nodes were not ready in time: {0}")]
    NotReady(String),
    /// The operating system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
}

fn io_error(action: impl Into<String>) -> impl FnOnce(io::Error) -> LocalError {
    let action = action.into();
    move |source| LocalError::Io { action, source }
}

impl Local {
    /// Founds a cluster in `dir`, which must not exist; `program` is the `tanist` binary. The client's
    /// key is an administrator's too. No node runs yet.
    pub async fn found(dir: &Path, program: &Path, plan: &Plan) -> Result<Self, LocalError> {
        let listen = free_addresses(plan.nodes).map_err(io_error("find free ports"))?;
        let mut cluster = ClusterPlan::local(plan.nodes, 0);
        cluster.client_is_admin = true;
        cluster.limits = plan.limits;
        for (node, address) in cluster.nodes.iter_mut().zip(&listen) {
            node.address = *address;
        }
        let founded = cluster.found(dir)?;
        let network = match plan.relays {
            Some(seed) => Some(Network::between(&listen, seed).await.map_err(io_error("start relays"))?),
            None => None,
        };
        let ticket = Ticket::new(founded.genesis, founded.addresses.iter().cloned().collect())?;
        fs::write(dir.join("ticket"), ticket.to_string()).map_err(io_error("write the ticket"))?;
        for (number, node) in founded.nodes.iter().enumerate() {
            let mut config = Config::load(&node.config())?;
            if let Some(network) = &network {
                let name = |other: usize| cluster.nodes.get(other).map(|node| node.name.clone());
                config.peers = network
                    .addresses(number)
                    .filter_map(|(other, address)| Some((name(other)?, vec![address])))
                    .collect();
            }
            if let Some(data) = plan.data.get(&number) {
                fs::rename(node.data(), data).or_else(|_| move_folder(&node.data(), data)).map_err(
                    io_error(format!("move the data of node-{} to {}", number + 1, data.display())),
                )?;
                config.data = data.clone();
            }
            fs::remove_file(node.config()).map_err(io_error("replace node.toml"))?;
            config.save(&node.config())?;
        }
        let members = founded.addresses.iter().map(|(member, _)| *member);
        let nodes = founded.nodes.into_iter().zip(members);
        let nodes = nodes.map(|(dir, member)| Node { dir, member, child: None }).collect();
        Ok(Local { dir: dir.to_owned(), program: program.to_owned(), ticket, nodes, network })
    }

    /// A cluster that was founded in `dir` before.
    pub fn open(dir: &Path, program: &Path) -> Result<Self, LocalError> {
        let text = fs::read_to_string(dir.join("ticket")).map_err(io_error("read the ticket"))?;
        let ticket: Ticket = text.parse()?;
        let mut nodes = Vec::new();
        for number in 1.. {
            let node = NodeDir::new(dir.join(format!("node-{number}")));
            if !node.path().exists() {
                break;
            }
            let member = Config::load(&node.config())?.member;
            nodes.push(Node { dir: node, member, child: None });
        }
        Ok(Local { dir: dir.to_owned(), program: program.to_owned(), ticket, nodes, network: None })
    }

    /// Starts every node that does not run.
    pub fn start_all(&mut self) -> Result<(), LocalError> {
        (0..self.nodes.len()).try_for_each(|node| self.start(node))
    }

    /// Starts a node, if it does not run.
    pub fn start(&mut self, node: usize) -> Result<(), LocalError> {
        self.start_with(node, &[])
    }

    /// Starts a node with these variables in its environment, if it does not run.
    pub fn start_with(&mut self, node: usize, env: &[(&str, &str)]) -> Result<(), LocalError> {
        let (log, program) = (self.log(node), self.program.clone());
        let Some(found) = self.nodes.get_mut(node) else { return Ok(()) };
        if found.child.is_some() {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(&log).map_err(io_error("open a log"))?;
        let output = log.try_clone().map_err(io_error("open a log"))?;
        let mut command = Command::new(program);
        command.arg("node").arg(found.dir.path()).envs(env.iter().copied());
        // Ctrl-C in a terminal goes to whoever runs the cluster, not to its nodes.
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(log);
        found.child = Some(command.spawn().map_err(io_error(format!("start node-{}", node + 1)))?);
        Ok(())
    }

    /// Sends a signal to a node's process.
    pub fn signal(&self, node: usize, signal: Signal) -> Result<(), LocalError> {
        let Some(pid) = self.pid(node) else { return Ok(()) };
        let sent = kill_process(pid, signal);
        sent.map_err(io::Error::from).map_err(io_error(format!("send {signal:?} to node-{}", node + 1)))
    }

    /// Ends a node's process as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self, node: usize) {
        if let Some(Node { child, .. }) = self.nodes.get_mut(node)
            && let Some(mut child) = child.take()
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends several nodes' processes as `kill -9` does: all are dead before the first is waited for.
    pub fn kill_all(&mut self) {
        for node in 0..self.nodes.len() {
            let _ = self.signal(node, Signal::KILL);
        }
        (0..self.nodes.len()).for_each(|node| self.kill(node));
    }

    /// Asks a node's process to end, and waits for it.
    pub async fn terminate(&mut self, node: usize) -> Result<Option<ExitStatus>, LocalError> {
        self.signal(node, Signal::TERM)?;
        self.ended(node).await
    }

    /// Asks all nodes' processes to end, and waits for them; those that take too long are killed.
    pub async fn stop_all(&mut self) {
        for node in 0..self.nodes.len() {
            let _ = self.signal(node, Signal::TERM);
        }
        for node in 0..self.nodes.len() {
            let _ = tokio::time::timeout(STOPPING, self.ended(node)).await;
            self.kill(node);
        }
    }

    /// Waits until a node's process has ended; `None` if it did not run.
    pub async fn ended(&mut self, node: usize) -> Result<Option<ExitStatus>, LocalError> {
        loop {
            let Some(Node { child: running @ Some(_), .. }) = self.nodes.get_mut(node) else {
                return Ok(None);
            };
            let Some(child) = running else { return Ok(None) };
            if let Some(status) = child.try_wait().map_err(io_error("wait for a node"))? {
                *running = None;
                return Ok(Some(status));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// An error if a node that should run does not.
    pub fn check(&mut self) -> Result<(), LocalError> {
        for node in 0..self.nodes.len() {
            let log = self.log(node);
            let Some(Node { child: running @ Some(_), .. }) = self.nodes.get_mut(node) else { continue };
            let Some(child) = running else { continue };
            if let Ok(Some(status)) = child.try_wait() {
                *running = None;
                return Err(LocalError::Ended { node: node + 1, status, log });
            }
        }
        Ok(())
    }

    /// Waits until every node that runs says that it counts and reaches the others that run.
    pub async fn ready(&mut self, client: &Client, patience: Duration) -> Result<(), LocalError> {
        let mut why = String::new();
        let waiting = async {
            loop {
                self.check()?;
                match self.not_ready(client).await {
                    None => return Ok(()),
                    Some(reason) => why = reason,
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let ready = tokio::time::timeout(patience, waiting).await;
        ready.unwrap_or(Err(LocalError::NotReady(why)))
    }

    async fn not_ready(&self, client: &Client) -> Option<String> {
        let running: Vec<&Node> = self.nodes.iter().filter(|node| node.child.is_some()).collect();
        for node in &running {
            let name = node.dir.path().display();
            let status = match client.status(node.member).await {
                Ok(status) => status,
                Err(error) => return Some(format!("{name}: {error}")),
            };
            if let Err(why) = status.counts {
                return Some(format!("{name} does not count: {why}"));
            }
            let up = |member| status.peers.iter().any(|(peer, up)| *peer == member && *up);
            let away = running.iter().find(|peer| peer.member != node.member && !up(peer.member));
            if let Some(peer) = away {
                return Some(format!("{name} does not reach {}", peer.dir.path().display()));
            }
        }
        None
    }

    /// Connects with the client's key.
    pub async fn connect(&mut self, patience: Duration) -> Result<Client, LocalError> {
        let identity = self.identity()?;
        let ticket = self.ticket.clone();
        let connecting = async {
            loop {
                self.check()?;
                let attempt = Client::builder().identity(identity.clone()).connect(&ticket).await;
                match attempt {
                    Err(ConnectError::Unavailable(_)) => tokio::time::sleep(LOOK).await,
                    other => return Ok(other?),
                }
            }
        };
        let connected = tokio::time::timeout(patience, connecting).await;
        connected.unwrap_or_else(|_| Err(LocalError::NotReady("no node answers".to_owned())))
    }

    /// How a node is.
    pub async fn status(&self, client: &Client, node: usize) -> Option<Status> {
        client.status(self.nodes.get(node)?.member).await.ok()
    }

    /// The client's key, which may do everything.
    pub fn identity(&self) -> Result<Identity, LocalError> {
        Ok(Identity::load(self.key_file())?)
    }

    /// The file of the client's key.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join("client.key")
    }

    /// The file of the ticket.
    pub fn ticket_file(&self) -> PathBuf {
        self.dir.join("ticket")
    }

    /// The ticket.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has no node at all.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node's member id.
    pub fn member(&self, node: usize) -> Option<MemberId> {
        self.nodes.get(node).map(|node| node.member)
    }

    /// A node's folder.
    pub fn node_dir(&self, node: usize) -> Option<&NodeDir> {
        self.nodes.get(node).map(|node| &node.dir)
    }

    /// Where clients find a node.
    pub fn address(&self, node: usize) -> Option<SocketAddr> {
        self.ticket.addresses().get(&self.member(node)?)?.first().copied()
    }

    /// A node's process, if it runs.
    pub fn pid(&self, node: usize) -> Option<Pid> {
        Some(Pid::from_child(self.nodes.get(node)?.child.as_ref()?))
    }

    /// The wires between the nodes, if there are relays.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Where a node's process logs to.
    pub fn log(&self, node: usize) -> PathBuf {
        self.dir.join(format!("node-{}.log", node + 1))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// So many addresses on this machine that were free a moment ago.
fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    // All are held until the last one is found, so that they differ.
    let sockets: Vec<UdpSocket> =
        (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    sockets.iter().map(UdpSocket::local_addr).collect()
}

/// Moves a folder to another file system.
fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            move_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    fs::remove_dir_all(from)
}

/// A temporary folder; it goes when the value does, unless it is [kept](Scratch::keep).
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    kept: bool,
}

/// Makes a temporary folder whose name begins with `name`.
pub fn scratch(name: &str) -> Result<Scratch, LocalError> {
    let drawn: [u8; 8] = crate::node::entropy::bytes().map_err(FoundError::from)?;
    let path = std::env::temp_dir().join(format!("{name}-{}", data_encoding::HEXLOWER.encode(&drawn)));
    // Secrets are kept there.
    let created = fs::DirBuilder::new().mode(0o700).create(&path);
    created.map_err(io_error(format!("create {}", path.display())))?;
    Ok(Scratch { path, kept: false })
}

impl Scratch {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it there.
    pub fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is left to the system.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
