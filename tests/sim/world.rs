//! The world of one seed: a queue of events, a clock, nodes, clients, links. One thread, no chance
//! but the seed's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::cluster::Configuration;
use tanist::core::hash::Hash;
use tanist::core::identity::PublicKey;
use tanist::core::object::Key;
use tanist::core::stamp::{Dot, SignedStamp};
use tanist::core::verified::RootCache;
use tanist::wire::registry::{Reply, Request};

use super::clients::Client;
use super::coverage::Coverage;
use super::dice::Dice;
use super::faults::Plant;
use super::founding::Founding;
use super::history::{Asked, Attempt, History};
use super::nemesis::Trouble;
use super::network::{Network, Place};
use super::nodes::Node;
use super::options::Options;
use super::registers::{Actor, Book};

/// Something that will happen.
#[derive(Debug, Clone)]
pub enum Event {
    /// A frame from one node reaches another.
    Frame { from: usize, to: usize, bytes: Bytes },
    /// A client's request reaches a node.
    Request { attempt: usize, bytes: Bytes },
    /// A node's answer reaches the client.
    Reply { attempt: usize },
    /// The client learns that the connection under its request is gone.
    Lost { attempt: usize },
    /// A node notices that its connection to a peer changed.
    Link { node: usize, peer: usize },
    /// A node takes what is waiting.
    Loop { node: usize, life: u64 },
    /// A node's sync is done.
    Synced { node: usize, life: u64 },
    /// A node's machine wants to be stepped.
    Tick { node: usize, life: u64 },
    /// A node starts.
    Start { node: usize },
    /// A client looks what to do.
    Client { client: usize },
    /// Something goes wrong.
    Trouble(Trouble),
}

/// A promise was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which check saw it.
    pub check: &'static str,
    /// What it saw.
    pub what: String,
}

/// Everything of one seed.
pub struct World {
    pub options: Options,
    pub plant: Plant,
    pub now: u64,
    pub dice: Dice,
    pub net: Network,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    /// Clients of registers and resources; their numbers follow those of the others.
    pub actors: Vec<Actor>,
    /// What was said of registers and resources.
    pub book: Book,
    pub founding: Founding,
    /// The newest configuration that any node had.
    pub config: Arc<Configuration>,
    pub history: History,
    /// What all nodes remember of signatures: it makes a run three times as fast.
    pub cache: RootCache,
    pub coverage: Coverage,
    pub violation: Option<Violation>,
    /// The one check that counts; all do, if there is none.
    pub heeded: Option<&'static str>,
    /// What each check objected to first, counted or not.
    pub objections: BTreeMap<&'static str, String>,
    /// Which stamp was seen for an event.
    pub dots: BTreeMap<Dot, Hash>,
    /// A scenario made an actor contradict itself.
    pub twins: bool,
    /// Stamps that a planted fault replaced.
    pub restamps: BTreeMap<Hash, Arc<SignedStamp>>,
    /// The nodes whose disk went wrong.
    pub damaged: BTreeSet<usize>,
    /// Clients act and things go wrong.
    pub unsafe_phase: bool,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    trace: Option<VecDeque<String>>,
    trace_lines: usize,
}

/// Lines of a trace that are kept, unless `LINES` says another number.
const TRACE: u64 = 160;

impl World {
    /// The world of `seed` before anything happened; nodes are about to start.
    pub fn new(seed: u64, options: Options, plant: Plant, traced: bool) -> Self {
        let mut dice = Dice::new(seed, 1);
        let mut actor_dice = Dice::new(seed, 2);
        let founding = Founding::new(&options, &mut dice);
        let nodes = (0..options.nodes).map(|n| Node::new(n, &founding)).collect();
        let clients = (0..options.clients).map(|_| Client::new()).collect();
        let net = Network::new(&options);
        let mut config = Configuration::found(founding.genesis.clone()).expect("the cluster is founded");
        config.extend(founding.namespace_entry.clone()).expect("the namespace is created");
        config.extend(founding.registers_entry.clone()).expect("the namespace is created");
        let mut world = World {
            config: Arc::new(config),
            plant,
            now: 0,
            dice,
            net,
            nodes,
            actors: Actor::all(&options, &mut actor_dice),
            book: Book::default(),
            clients,
            founding,
            history: History::default(),
            cache: RootCache::default(),
            coverage: Coverage::default(),
            violation: None,
            heeded: None,
            objections: BTreeMap::new(),
            dots: BTreeMap::new(),
            twins: false,
            restamps: BTreeMap::new(),
            damaged: BTreeSet::new(),
            unsafe_phase: false,
            queue: BTreeMap::new(),
            sequence: 0,
            trace: traced.then(VecDeque::new),
            trace_lines: crate::from_env("LINES").unwrap_or(TRACE) as usize,
            options,
        };
        for node in 0..world.options.nodes {
            if world.options.drift {
                world.nodes[node].rate = actor_dice.range(955, 1_049);
            }
            world.start(node);
        }
        world
    }

    /// Has `event` happen after `delay` milliseconds.
    pub fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), event);
    }

    /// Notes a broken promise; the first one counts.
    pub fn fail(&mut self, check: &'static str, what: String) {
        self.note(|| format!("VIOLATION of {check}: {what}"));
        self.objections.entry(check).or_insert_with(|| what.clone());
        if self.heeded.is_none_or(|heeded| heeded == check) {
            self.violation.get_or_insert(Violation { check, what });
        }
    }

    /// Notes what a check found.
    pub fn judge(&mut self, check: &'static str, result: Result<(), String>) {
        if let Err(what) = result {
            self.fail(check, what);
        }
    }

    /// Adds a line to the trace, if there is one.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            if trace.len() == self.trace_lines {
                trace.pop_front();
            }
            trace.push_back(format!("{:>7} {}", self.now, line()));
        }
    }

    /// Whether anybody reads the trace.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// The last lines of the trace.
    pub fn trace(&self) -> String {
        self.trace.iter().flatten().fold(String::new(), |all, line| all + line + "\n")
    }

    /// Runs until `end`, or until a promise is broken, or until `enough` holds.
    pub fn run_until(&mut self, end: u64, mut enough: impl FnMut(&World) -> bool) -> bool {
        while self.violation.is_none() {
            if enough(self) {
                return true;
            }
            let Some(entry) = self.queue.first_entry() else { break };
            let (at, _) = *entry.key();
            if at > end {
                break;
            }
            let event = entry.remove();
            self.now = at;
            self.happen(event);
        }
        if self.violation.is_none() {
            self.now = self.now.max(end);
        }
        enough(self)
    }

    /// Runs for so many milliseconds.
    pub fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        self.run_until(end, |_| false);
    }

    fn happen(&mut self, event: Event) {
        // What reaches a process that stopped waits for it.
        if let Some(wait) = self.frozen_for(&event) {
            return self.after(wait, event);
        }
        match event {
            Event::Frame { from, to, bytes } => self.receive(from, to, bytes),
            Event::Request { attempt, bytes } => self.serve(attempt, bytes),
            Event::Reply { attempt } => self.hear(attempt),
            Event::Lost { attempt } => self.lose(attempt),
            Event::Link { node, peer } => self.notice_link(node, peer),
            Event::Loop { node, life } => self.turn(node, life),
            Event::Synced { node, life } => self.sync(node, life),
            Event::Tick { node, life } => self.tick(node, life),
            Event::Start { node } => self.start(node),
            Event::Client { client } if client >= self.options.clients => self.act_on_register(client),
            Event::Client { client } => self.act(client),
            Event::Trouble(trouble) => self.trouble(trouble),
        }
    }

    /// How long the node that an event is for does nothing.
    fn frozen_for(&self, event: &Event) -> Option<u64> {
        let node = match event {
            Event::Frame { to, .. } => *to,
            Event::Request { attempt, .. } => self.history.attempts.get(*attempt)?.node,
            Event::Link { node, .. }
            | Event::Loop { node, .. }
            | Event::Synced { node, .. }
            | Event::Tick { node, .. } => *node,
            _ => return None,
        };
        let until = self.nodes.get(node)?.frozen_until;
        (until > self.now).then(|| until - self.now)
    }

    /// Sends a client's request to a node; the attempt's number comes back.
    pub fn ask(&mut self, client: usize, node: usize, asked: Asked, request: &Request) -> usize {
        let attempt = self.history.attempts.len();
        self.note(|| format!("client {client} asks node {node}: {asked:?} (attempt {attempt})"));
        let sent = self.now;
        self.history.attempts.push(Attempt {
            client,
            node,
            asked,
            sent,
            delivered: false,
            released: None,
            answered: None,
        });
        let mut bytes = bytes::BytesMut::new();
        request.encode().encode_into(&mut bytes);
        let bytes = bytes.freeze();
        for way in self.net.ways(&mut self.dice, Place::Client(client), Place::Node(node)) {
            self.after(way, Event::Request { attempt, bytes: bytes.clone() });
        }
        attempt
    }

    /// An answer reaches its client.
    fn hear(&mut self, number: usize) {
        let now = self.now;
        let Some(attempt) = self.history.attempts.get_mut(number) else { return };
        if attempt.answered.is_some() {
            return;
        }
        attempt.answered = Some(now);
        let Some((_, reply)) = attempt.released.clone() else { return };
        let (client, node) = (attempt.client, attempt.node);
        self.note(|| {
            format!("client {client} hears of attempt {number} from node {node}: {}", brief(&reply))
        });
        self.heard(number, Some(reply));
    }

    fn lose(&mut self, number: usize) {
        if self.history.attempts.get(number).is_some_and(|attempt| attempt.answered.is_none()) {
            self.heard(number, None);
        }
    }

    /// The key with index `n`.
    pub fn key(n: usize) -> Key {
        Key::try_from(["apple", "pear", "plum", "quince"][n % 4]).expect("a key")
    }

    /// The key of the client's connections.
    pub fn client_key(&self, client: usize) -> PublicKey {
        if self.clients.get(client).is_some_and(|client| client.stranger) {
            self.founding.stranger.public()
        } else {
            self.founding.client.public()
        }
    }

    /// Remembers the newest configuration, as clients do.
    pub fn learn_config(&mut self, config: &Arc<Configuration>) {
        let age = |config: &Configuration| {
            (config.config_epoch(), config.policy().revision(), config.write_epoch())
        };
        if age(config) > age(&self.config) {
            self.config = Arc::clone(config);
        }
    }

    /// The replicas of a key, as indices of nodes, the preferred one first.
    pub fn replicas(&self, key: &Key) -> Vec<usize> {
        let object = tanist::core::object::ObjectId::new(self.founding.namespace, key);
        let voters = self.config.current();
        let members = tanist::core::placement::replicas(voters, object);
        members.iter().map(|member| usize::from(member.0[0]) - 1).collect()
    }
}

/// A reply in one line.
pub fn brief(reply: &Reply) -> String {
    let text = format!("{reply:?}");
    match text.char_indices().nth(240) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text,
    }
}
