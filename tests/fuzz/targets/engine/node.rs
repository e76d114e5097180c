//! The node under test, driven as the engine's contract says, and watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use tanist::core::cluster::Configuration;
use tanist::core::identity::{PublicKey, SecretKey};
use tanist::core::limits;
use tanist::core::verified::RootCache;
use tanist::engine::machine::Machine;
use tanist::engine::store::Batch;
use tanist::engine::{Effect, Identity, Input, Timing, arrival};
use tanist::storage::Store as _;
use tanist::storage::memory::Memory;
use tanist::wire::client::Read;
use tanist::wire::frame::Frame;
use tanist::wire::peer::{Envelope, Recalled};
use tanist::wire::registry::{PeerMessage, Reply, Request};

use super::checks;
use super::house::{House, NODE, PEERS};

/// A fault planted in what surrounds the engine, to show that it would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    None,
    /// What waits for a batch leaves before the batch is on the disk.
    EarlyRelease,
    /// The disk leaves changes out.
    LosesChanges,
    /// A stranger is taken for the author.
    OpenDoor,
}

/// Something that the node sent to a peer.
pub struct Sent {
    pub to: u8,
    pub message: PeerMessage,
    pub frame: Frame,
}

/// The node under test.
pub struct Node {
    pub house: &'static House,
    pub store: Memory,
    pub machine: Machine,
    pub config: Arc<Configuration>,
    cache: RootCache,
    pub now: u64,
    /// What it sent, oldest first; only the newest are kept.
    pub sent: Vec<Sent>,
    /// What it answered to clients.
    pub replies: Vec<(u64, Reply)>,
    /// What somebody without any right asked, by token: the kind of the request.
    pub strangers: BTreeMap<u64, u16>,
    /// It handed a request to another node, so an answer may be that node's lie.
    pub forwarded: bool,
    /// It found that its data went backwards: it takes no more input.
    pub forgot: bool,
    in_flight: Option<Batch>,
    token: u64,
    starts: u64,
    inputs: usize,
    effects: usize,
    plant: Plant,
}

/// How many of the sent messages are kept.
const KEPT: usize = 32;

/// Effects that one input may cause, on average over an input and beside those of time that passes.
const EFFECTS: usize = 64;

impl Node {
    /// Starts on a copy of the house's disk; both peers are up and remember nothing later.
    pub fn start(timing: Timing, plant: Plant) -> Node {
        let house = House::get();
        let store = Memory::from_snapshot(house.disk.clone());
        let machine = machine(house, &store, 1, 0, timing);
        let mut node = Node {
            house,
            store,
            config: Arc::clone(machine.config()),
            machine,
            cache: RootCache::default(),
            now: 0,
            sent: Vec::new(),
            replies: Vec::new(),
            strangers: BTreeMap::new(),
            forwarded: false,
            forgot: false,
            in_flight: None,
            token: 0,
            starts: 1,
            inputs: 0,
            effects: 0,
            plant,
        };
        node.meet_peers();
        node
    }

    /// Both peers come up and say that they remember nothing later.
    pub fn meet_peers(&mut self) {
        for peer in PEERS {
            self.step(Input::PeerUp(House::member(peer)));
            let start = first_operation(self.starts);
            let recalled = Recalled { start, incarnation: House::incarnation(NODE), batch: 0 };
            let envelope = Envelope { incarnation: House::incarnation(peer), synced: 1 };
            self.peer(peer, PeerMessage::from(recalled).encode(envelope));
        }
        self.settle();
    }

    /// Loses what is not synced, except for `keep` batches, and starts again.
    pub fn restart(&mut self, keep: usize, timing: Timing) {
        self.store.crash(keep);
        self.in_flight = None;
        self.starts += 1;
        self.machine = machine(self.house, &self.store, self.starts, self.now, timing);
        self.config = Arc::clone(self.machine.config());
        self.cache = RootCache::default();
        self.forwarded = false;
        self.release();
    }

    /// Takes one input.
    pub fn step(&mut self, input: Input) {
        if self.forgot {
            return;
        }
        self.inputs += 1;
        let stepped = self.machine.step(self.now, input, &self.store);
        assert!(stepped.is_ok(), "an input ends the process: {stepped:?}");
        if self.machine.weight() >= limits::BATCH_LEN {
            self.settle();
        }
    }

    /// A frame comes from a peer.
    pub fn peer(&mut self, from: u8, frame: Frame) {
        // As from a stream: what has no frame's lengths never gets here.
        let mut bytes = BytesMut::new();
        frame.encode_into(&mut bytes);
        let Ok(Some(frame)) = Frame::take(&mut bytes) else { return };
        let Ok(checked) = arrival::message(frame, House::member(from), &self.config, &self.cache) else {
            return;
        };
        for input in checked.inputs {
            self.step(input);
        }
    }

    /// A frame comes from a client; the token of the answer, if the gate let it pass.
    pub fn client(&mut self, client: &SecretKey, frame: Frame) -> Option<u64> {
        self.client_as(client.public(), frame)
    }

    fn client_as(&mut self, client: PublicKey, frame: Frame) -> Option<u64> {
        let client = if self.plant == Plant::OpenDoor { self.house.author.public() } else { client };
        self.token += 1;
        let token = self.token;
        let mut bytes = BytesMut::new();
        frame.encode_into(&mut bytes);
        let Ok(Some(frame)) = Frame::take(&mut bytes) else { return None };
        let request = arrival::request(frame, client, &self.config, &self.cache).ok()?;
        self.step(Input::Request { token, request });
        Some(token)
    }

    /// Closes and writes a batch, and lets out what may leave.
    pub fn turn(&mut self) {
        if let Some(batch) = self.machine.close() {
            if self.plant == Plant::EarlyRelease {
                self.machine.synced();
                self.release();
            }
            checks::batch(&self.store, &batch);
            let mut written = batch.clone();
            if self.plant == Plant::LosesChanges {
                written.changes.pop();
            }
            self.store.write(&written).expect("memory writes");
            self.in_flight = Some(batch);
        }
        self.release();
    }

    /// The batch in flight becomes durable.
    pub fn sync(&mut self) {
        if self.in_flight.take().is_some() {
            self.store.sync().expect("memory syncs");
            if self.plant != Plant::EarlyRelease {
                self.machine.synced();
            }
        }
        self.release();
    }

    /// Everything waiting becomes durable.
    pub fn settle(&mut self) {
        for _ in 0..3 {
            self.turn();
            self.sync();
        }
    }

    /// Time goes on, in steps as the machine asks for them.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now.saturating_add(ms);
        for _ in 0..64 {
            let next = self.machine.next_tick().max(self.now + 1);
            if next > end {
                break;
            }
            self.now = next;
            self.step(Input::Tick);
            self.turn();
        }
        self.now = self.now.max(end);
    }

    fn release(&mut self) {
        for effect in self.machine.released() {
            self.effects += 1;
            match effect {
                Effect::Send { to, envelope, message } => {
                    checks::sent(self, &envelope, &message);
                    self.forwarded |= matches!(message, PeerMessage::Forward(_));
                    let frame = message.encode(envelope);
                    let len = frame.encoded_len();
                    assert!(len <= limits::FRAME_LEN, "a frame of {len} bytes: no peer would take it");
                    self.sent.push(Sent { to: to.0[0], message, frame });
                }
                Effect::Reply { token, reply } => {
                    checks::replied(self, &reply);
                    self.replies.push((token, reply));
                }
                Effect::Configured(config) => self.config = config,
                Effect::Forgot { .. } => self.forgot = true,
                Effect::Equivocation(_) => {}
            }
        }
        let waiting = self.sent.len().saturating_sub(KEPT);
        self.sent.drain(..waiting);
        let most = EFFECTS * (self.inputs + 4);
        assert!(self.effects <= most, "{} effects of {} inputs", self.effects, self.inputs);
    }

    /// What must hold when all is over: a well-formed read is answered, the rows are sound, and the node
    /// starts on them and answers again.
    pub fn finish(mut self, timing: Timing) {
        self.settle();
        if !self.forgot {
            self.is_alive();
        }
        self.settle();
        checks::disk(&self.store, &self.config);
        self.forgot = false;
        self.restart(0, timing);
        self.is_alive();
        self.settle();
        checks::disk(&self.store, &self.config);
    }

    /// A read of this node alone is answered at once, others before their deadline.
    fn is_alive(&mut self) {
        for namespace in self.house.namespaces.into_iter().take(2) {
            for local in [true, false] {
                let key = self.house.keys[0].clone();
                let frame = Request::from(Read { namespace, key, local, history: false }).encode();
                let author = self.house.author.clone();
                // Dropped, or the author's right taken back: then nothing is promised.
                let Some(token) = self.client(&author, frame) else { continue };
                self.settle();
                let answered = |node: &Node| node.replies.iter().any(|(of, _)| *of == token);
                for _ in 0..20 {
                    if local || answered(self) {
                        break;
                    }
                    self.pass(500);
                    self.settle();
                }
                assert!(answered(self), "a read (local: {local}) gets no answer");
            }
        }
    }
}

/// The machine on this disk.
fn machine(house: &House, store: &Memory, starts: u64, now: u64, timing: Timing) -> Machine {
    let started =
        Machine::new(identity(NODE, starts), house.genesis.clone(), timing, now, store.last_batch(), store);
    started.expect("a node starts on what it wrote itself")
}

/// The identity of a member that starts for so many times.
pub fn identity(member: u8, starts: u64) -> Identity {
    Identity {
        member: House::member(member),
        incarnation: House::incarnation(member),
        key: House::member_key(member),
        software: "fuzz".to_owned(),
        first_operation: first_operation(starts),
    }
}

/// The number that a start draws.
fn first_operation(starts: u64) -> u64 {
    starts << 32
}
