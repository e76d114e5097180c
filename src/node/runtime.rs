//! A node: opened from its folder, then run until it is asked to stop.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::admission::Gate;
use super::arrivals::{Arrival, Arrivals};
use super::clock::Clock;
use super::config::{Config, NodeDir};
use super::desk::{self, Desk};
use super::disk::Data;
use super::driver::{Origin, Outlets, warn_of_new_actor};
use super::entropy;
use super::error::NodeError;
use super::found;
use super::mailbox::{Letter, Mailbox};
use super::running::Engine;
use super::tally::Tally;
use super::twins::Twins;
use crate::core::cluster::Configuration;
use crate::core::identity::{Incarnation, MemberId};
use crate::engine::machine::Machine;
use crate::engine::{Identity, Input, Timing};
use crate::storage::directory::Directory;
use crate::transport::{
    Admitted, Code, Endpoint, EndpointError, LinkEvent, LinkOptions, Links, Peer, Whoami,
};
use crate::wire::frame::Frame;

/// The newest level of the protocol that this software speaks.
const LEVEL: u32 = 1;
/// How long requests that are under way may take when the node stops.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// How long the other sides may take to hear that the node stops.
const GOODBYE: Duration = Duration::from_secs(1);

/// Addresses of members that override those in `node.toml`.
type Book = BTreeMap<MemberId, Vec<SocketAddr>>;

/// How a node is opened.
#[derive(Debug, Clone)]
pub struct Builder {
    dir: NodeDir,
    listen: Option<SocketAddr>,
    timing: Timing,
}

/// A node that holds its data and its socket, and does not answer yet.
pub struct Node {
    config: Config,
    origin: Origin,
    machine: Machine,
    data: Arc<dyn Data>,
    endpoint: Endpoint,
    clock: Clock,
    known: watch::Sender<Arc<Configuration>>,
    handle: Handle,
}

/// What others in the process may know and change of a node, while it runs too.
#[derive(Debug, Clone)]
pub struct Handle {
    member: MemberId,
    address: SocketAddr,
    book: watch::Sender<Book>,
    config: watch::Receiver<Arc<Configuration>>,
}

impl Handle {
    /// Which member it is.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `member` is from now on, whatever `node.toml` says.
    pub fn find(&self, member: MemberId, addresses: Vec<SocketAddr>) {
        self.book.send_modify(|book| drop(book.insert(member, addresses)));
    }

    /// The configuration as the node knows it; a change can be waited for.
    pub fn configuration(&self) -> watch::Receiver<Arc<Configuration>> {
        self.config.clone()
    }
}

impl Builder {
    /// Listens here, whatever `node.toml` says. Port 0 is any free one.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// How long the engine waits for what.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Opens the data, and the socket. Must be called within a tokio runtime.
    pub async fn open(self) -> Result<Node, NodeError> {
        let opened = spawn_blocking(move || self.load()).await;
        let Loaded { config, origin, machine, data, clock, socket } = match opened {
            Ok(loaded) => loaded?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let (known, config_now) = watch::channel(Arc::clone(machine.config()));
        let gate = Arc::new(Gate(config_now.clone()));
        let endpoint = Endpoint::server(&origin.identity.key, socket, gate)?;
        let handle = Handle {
            member: config.member,
            address: endpoint.local_addr()?,
            book: watch::Sender::default(),
            config: config_now,
        };
        Ok(Node { config, origin, machine, data, endpoint, clock, known, handle })
    }

    /// What waits for the disk.
    fn load(self) -> Result<Loaded, NodeError> {
        let config = Config::load(&self.dir.config())?;
        let key = super::files::load_key(&self.dir.key())?;
        let genesis = super::files::load_cluster(&self.dir.cluster())?;
        let settings = found::settings(&config.limits);
        let path = self.dir.path().join(&config.data);
        let opened = Directory::open(&path, &settings)?;
        let incarnation = match opened.incarnation {
            Some(incarnation) if !opened.amnesia.is_new_actor() => incarnation,
            found => {
                if found.is_none() && !opened.amnesia.is_new_actor() {
                    tracing::warn!(data = %path.display(), "there are no data of this node here");
                } else {
                    tracing::error!(data = %path.display(), "{}", opened.amnesia);
                }
                let incarnation = Incarnation(entropy::bytes()?);
                opened.directory.reset_incarnation(incarnation)?;
                incarnation
            }
        };
        let identity = Identity {
            member: config.member,
            incarnation,
            key,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            first_operation: u64::from_be_bytes(entropy::bytes()?),
        };
        let origin = Origin { identity, genesis, timing: self.timing };
        let data: Arc<dyn Data> = Arc::new(opened.directory);
        let clock = Clock::start();
        let machine = origin.machine(clock.now(), &*data)?;
        self.check_identity(&origin, machine.config())?;
        let address = self.listen.unwrap_or(config.listen);
        let socket = UdpSocket::bind(address).map_err(|source| NodeError::Listen { address, source })?;
        Ok(Loaded { config, origin, machine, data, clock, socket })
    }

    /// Whether this node is the member it says it is.
    fn check_identity(&self, origin: &Origin, config: &Configuration) -> Result<(), NodeError> {
        let Identity { member, incarnation, key, .. } = &origin.identity;
        let Some(listed) = config.member(*member) else {
            return Err(NodeError::NotAMember { path: self.dir.config(), member: *member });
        };
        if listed.key != key.public() {
            let name = listed.name.clone();
            return Err(NodeError::OtherKey { path: self.dir.key(), member: *member, name });
        }
        if listed.incarnation != *incarnation {
            warn_of_new_actor(*incarnation);
        }
        Ok(())
    }
}

/// What [`Builder::load`] finds.
struct Loaded {
    config: Config,
    origin: Origin,
    machine: Machine,
    data: Arc<dyn Data>,
    clock: Clock,
    socket: UdpSocket,
}

impl Node {
    /// A node in the folder `dir`.
    pub fn builder(dir: impl Into<PathBuf>) -> Builder {
        Builder { dir: NodeDir::new(dir), listen: None, timing: Timing::default() }
    }

    /// Opens the node in the folder `dir`, as its files say. Must be called within a tokio runtime.
    pub async fn open(dir: impl Into<PathBuf>) -> Result<Self, NodeError> {
        Node::builder(dir).open().await
    }

    /// What may be known and changed while the node runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until `shutdown` resolves, then ends what is under way and syncs.
    ///
    /// Dropping the future is like killing the process: what was acknowledged stays. An error is the end
    /// of this node, and the process should end with it.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), NodeError> {
        let Node { config, origin, machine, data, endpoint, clock, known, handle } = self;
        let member = config.member;
        let incarnation = origin.identity.incarnation;
        let own = Whoami { member, process: u64::from_be_bytes(entropy::bytes()?), level: LEVEL };
        let (links, events) = Links::new(endpoint.clone(), own, LinkOptions::default());
        let mailbox = Arc::new(Mailbox::default());
        let tally = Arc::new(Tally::new(clock));
        let threads = match config.limits.checkers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            chosen => chosen as usize,
        };
        let arrivals =
            Arrivals::start(threads, handle.configuration(), Arc::clone(&mailbox), Arc::clone(&tally));
        let arrivals = Arc::new(arrivals.map_err(NodeError::Thread)?);
        let outlets = Box::new(Network { links: links.clone(), known });
        let mut engine = Engine::start(machine, origin, data, Arc::clone(&mailbox), outlets, clock)?;
        tracing::info!(%member, name = config.name, address = %handle.address, %incarnation, "this node runs");

        let (stop, stopping) = watch::channel(false);
        let desk = Arc::new(Desk::new(Arc::clone(&arrivals), config.limits.requests_mib, tally));
        let room = desk::room(config.limits.messages_mib);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_peers(events, mailbox, arrivals, room, Twins::new(clock)));
        tasks.spawn(follow(handle, config, links.clone(), endpoint.clone()));
        let mut clients = tokio::spawn(serve_clients(endpoint.clone(), links.clone(), desk, stopping));
        let ended = tokio::select! {
            biased;
            error = engine.ended() => Err(error.into()),
            Some(ended) = tasks.join_next() => Err(ended.unwrap_or_else(|error| {
                NodeError::Engine(super::driver::EngineError::Failed(format!("a task ended: {error}")))
            })),
            () = shutdown => Ok(()),
        };
        match &ended {
            Ok(()) => tracing::info!("this node stops"),
            Err(error) => tracing::error!(%error, "this node ends"),
        }
        stop.send_replace(true);
        if ended.is_ok() && timeout(LAST_REQUESTS, &mut clients).await.is_err() {
            tracing::warn!("requests were still under way");
        }
        clients.abort();
        let synced = match &ended {
            Err(NodeError::Engine(_)) => Ok(()),
            _ => engine.stop().await.map_err(NodeError::from),
        };
        let _ = timeout(GOODBYE, endpoint.close(Code::SHUTTING_DOWN, "the node is shutting down")).await;
        tasks.shutdown().await;
        ended.and(synced)
    }
}

/// Where the engine's effects go.
struct Network {
    links: Links,
    known: watch::Sender<Arc<Configuration>>,
}

impl Outlets for Network {
    fn send(&self, to: MemberId, frame: Frame) {
        // A link that is down or full loses it; the engine asks again.
        self.links.send(to, frame);
    }

    fn configured(&self, config: Arc<Configuration>) {
        self.known.send_replace(config);
    }
}

/// Hands on what peers say, until a twin shows itself.
async fn serve_peers(
    mut events: mpsc::Receiver<LinkEvent>,
    mailbox: Arc<Mailbox>,
    arrivals: Arc<Arrivals>,
    room: Arc<Semaphore>,
    mut twins: Twins,
) -> NodeError {
    while let Some(event) = events.recv().await {
        match event {
            LinkEvent::Up(peer) => {
                tracing::info!(%peer, "a peer is connected");
                twins.linked();
                mailbox.post([Letter::news(Input::PeerUp(peer))]);
            }
            LinkEvent::Down(peer, reason) => {
                tracing::warn!(%peer, %reason, "a peer is gone");
                mailbox.post([Letter::news(Input::PeerDown(peer))]);
            }
            LinkEvent::Frame(from, frame) => {
                // While there is no room peers wait: nothing of theirs is refused.
                let weight = desk::weight(&frame);
                let Ok(room) = Arc::clone(&room).acquire_many_owned(weight).await else { break };
                arrivals.check(Arrival::Message { frame, from, room });
            }
            LinkEvent::Twin(twin) => {
                if let Some(error) = twins.met(twin) {
                    return error;
                }
            }
        }
    }
    NodeError::Endpoint(EndpointError::Socket(std::io::ErrorKind::BrokenPipe.into()))
}

/// Keeps the peer table and the admissions as the configuration and the address book say.
async fn follow(handle: Handle, settings: Config, links: Links, endpoint: Endpoint) -> NodeError {
    let Handle { book, mut config, .. } = handle;
    let mut book = book.subscribe();
    loop {
        let now = config.borrow_and_update().clone();
        let told = book.borrow_and_update().clone();
        let peers = now.current().members.iter().map(|member| {
            let addresses = told.get(&member.id);
            let addresses = addresses.or_else(|| settings.peers.get(&member.id.to_string()));
            let addresses = addresses.or_else(|| settings.peers.get(&member.name));
            Peer { member: member.id, key: member.key, addresses: addresses.cloned().unwrap_or_default() }
        });
        links.update(peers.collect());
        endpoint.recheck();
        let changed = tokio::select! {
            biased;
            changed = config.changed() => changed,
            changed = book.changed() => changed,
        };
        if changed.is_err() {
            // The engine has gone, and says why elsewhere.
            std::future::pending::<()>().await;
        }
    }
}

/// Takes connections: of members as links, of everybody else as clients, until told to stop. Then
/// waits for the clients.
async fn serve_clients(endpoint: Endpoint, links: Links, desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let mut clients = JoinSet::new();
    loop {
        let connection = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = clients.join_next() => continue,
            connection = endpoint.accept() => connection,
        };
        let Some(connection) = connection else { break };
        match connection.admitted() {
            Some(Admitted::Member(_)) => links.adopt(connection),
            _ => drop(clients.spawn(Arc::clone(&desk).serve(connection, stop.clone()))),
        }
    }
    while clients.join_next().await.is_some() {}
}
