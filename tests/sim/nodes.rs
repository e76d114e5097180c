//! A node: the engine's machine, and the loop that drives it exactly as the engine's contract says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tanist::core::cluster::Configuration;
use tanist::core::identity::{ActorId, ClusterId, Incarnation, SecretKey};
use tanist::core::limits;
use tanist::core::verified::RootCache;
use tanist::engine::machine::Machine;
use tanist::engine::rows::{self, KeyRow, RegisterRow};
use tanist::engine::store::{Batch, Change};
use tanist::engine::{Effect, Identity, Input, Timing, arrival};
use tanist::storage::{CommitError, Store as _};
use tanist::wire::frame::Frame;
use tanist::wire::peer::Envelope;
use tanist::wire::registry::{PeerMessage, Reply};

use super::checks::{p4, p9, p11};
use super::disk::{Disk, REGISTER_TABLE};
use super::faults::{self, Plant};
use super::founding::{Founding, first_incarnation, member_id};
use super::network::Place;
use super::world::{Event, World};

/// A member of the cluster.
pub struct Node {
    /// Its key.
    pub key: SecretKey,
    /// Its data directory.
    pub disk: Disk,
    /// Counts its starts and ends: events of an earlier life are void.
    pub life: u64,
    /// Its process, if it runs.
    pub running: Option<Running>,
    /// What peers durably remembered of it when its old disk came back, and where that disk ended.
    pub rollback: Option<p11::Rollback>,
    /// How often it found that it had forgotten something.
    pub forgot: u64,
    /// What its clock shows after a thousand milliseconds.
    pub rate: u64,
    /// Its process does nothing before this time.
    pub frozen_until: u64,
    /// Its disk has no room.
    pub full: bool,
}

/// The process of a node.
pub struct Running {
    /// The engine.
    pub machine: Machine,
    config: Arc<Configuration>,
    cache: RootCache,
    inbox: VecDeque<Input>,
    /// A turn of the loop is coming.
    turning: bool,
    /// A batch is being synced.
    syncing: bool,
    /// A batch that found no room; it is the one that is being synced.
    refused: Option<Batch>,
    /// Connections that the machine was told of.
    links: BTreeMap<usize, u64>,
    /// Effects that a planted fault let out of the machine too early.
    pub early: Vec<Effect>,
    tick_at: u64,
}

impl Node {
    /// A node that was just enrolled.
    pub fn new(index: usize, founding: &Founding) -> Self {
        let disk = Disk::founded(founding, first_incarnation(index));
        let key = founding.nodes[index].clone();
        Node {
            key,
            disk,
            life: 0,
            running: None,
            rollback: None,
            forgot: 0,
            rate: 1_000,
            frozen_until: 0,
            full: false,
        }
    }

    /// What its clock shows.
    pub fn clock(&self, now: u64) -> u64 {
        now * self.rate / 1_000
    }

    /// When its clock will show `clock`.
    fn when(&self, clock: u64) -> u64 {
        clock.saturating_mul(1_000).div_ceil(self.rate)
    }

    /// The actor that it is on its present disk.
    pub fn actor(&self, cluster: ClusterId) -> Option<ActorId> {
        let member = self.running.as_ref()?.machine.config().member_by_key(&self.key.public())?.id;
        Some(ActorId::new(cluster, member, self.disk.incarnation?))
    }

    /// Whether it counts.
    pub fn counts(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.machine.counts().is_ok())
    }
}

impl Running {
    /// Whether a batch is being synced.
    pub fn syncing(&self) -> bool {
        self.syncing
    }
}

impl World {
    /// Starts a node on its disk: as another actor, if the disk shows that it forgot something.
    pub fn start(&mut self, index: usize) {
        let fresh = Incarnation(self.dice.bytes());
        let timing = Timing { epoch: self.options.epoch_ms, ..Timing::default() };
        let plant = self.plant;
        let Some(node) = self.nodes.get_mut(index) else { return };
        let now = node.clock(self.now);
        if node.running.is_some() {
            return;
        }
        faults::before_start(plant, node);
        let verdict = node.disk.verdict();
        if verdict.is_new_actor() || node.disk.incarnation.is_none() {
            node.disk.rename(fresh);
        }
        let incarnation = node.disk.incarnation.unwrap_or(fresh);
        let identity = Identity {
            member: member_id(index),
            incarnation,
            key: node.key.clone(),
            software: "sim".into(),
            first_operation: node.life << 32,
        };
        let last = node.disk.rows.last_batch();
        let genesis = self.founding.genesis.clone();
        let machine = match Machine::new(identity, genesis, timing, now, last, &node.disk.rows) {
            Ok(machine) => machine,
            Err(error) => return self.fail("start", format!("node {index} does not start: {error}")),
        };
        node.life += 1;
        node.running = Some(Running {
            config: Arc::clone(machine.config()),
            machine,
            cache: self.cache.beside(),
            inbox: VecDeque::new(),
            turning: false,
            syncing: false,
            refused: None,
            links: BTreeMap::new(),
            early: Vec::new(),
            tick_at: u64::MAX,
        });
        self.note(|| format!("node {index} starts as {incarnation:?} at batch {last} ({verdict})"));
        if self.nodes[index].full {
            self.tell(index, Input::DiskFull(true));
        }
        self.wake(index);
        self.links_changed();
    }

    /// A node's process does nothing for so long; then it goes on as if nothing had been.
    pub fn freeze(&mut self, index: usize, ms: u64) {
        if self.nodes[index].running.is_some() {
            self.note(|| format!("node {index} stops for {ms} ms"));
            self.nodes[index].frozen_until = self.now + ms;
            self.coverage.freezes += 1;
        }
    }

    /// A node's disk fills up, or gets room again.
    pub fn fill_up(&mut self, index: usize, full: bool) {
        let node = &mut self.nodes[index];
        if node.full == full {
            return;
        }
        node.full = full;
        node.disk.rows.disk_full(full);
        self.coverage.full_disks += u64::from(full);
        self.tell(index, Input::DiskFull(full));
        let refused = self.nodes[index].running.as_mut().and_then(|running| running.refused.take());
        if let Some(batch) = refused {
            self.write(index, batch);
        }
    }

    /// Ends a node's process without warning. Of the batches that are not synced the disk keeps the
    /// first `keep`.
    pub fn crash(&mut self, index: usize, keep: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.running.take().is_none() {
            return;
        }
        node.life += 1;
        node.frozen_until = 0;
        let before = node.disk.rows.last_batch();
        let lost = node.disk.rows.crash(keep);
        let after = node.disk.rows.last_batch();
        if node.disk.lies && after < before {
            self.damaged.insert(index);
            self.note_rollback(index, after);
        }
        self.coverage.crashes += 1;
        self.coverage.lost_batches += lost as u64;
        self.note(|| format!("node {index} crashes, {lost} batches lost"));
        for attempt in 0..self.history.attempts.len() {
            let open = &self.history.attempts[attempt];
            if open.node == index && open.answered.is_none() {
                let delay = self.dice.range(1, 1_500);
                self.after(delay, Event::Lost { attempt });
            }
        }
        self.links_changed();
    }

    /// The nodes notice, some sooner than others, which connections changed.
    pub fn links_changed(&mut self) {
        for node in 0..self.nodes.len() {
            for peer in (0..self.nodes.len()).filter(|peer| *peer != node) {
                let delay = self.dice.range(1, 300);
                self.after(delay, Event::Link { node, peer });
            }
        }
    }

    /// A node notices the state of its connection to a peer.
    pub fn notice_link(&mut self, index: usize, peer: usize) {
        let alive = self.nodes[index].running.is_some() && self.nodes[peer].running.is_some();
        let connection = self.net.connection(index, peer, alive);
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        let known = running.links.get(&peer).copied();
        if known == connection {
            return;
        }
        if known.is_some() {
            running.links.remove(&peer);
            running.inbox.push_back(Input::PeerDown(member_id(peer)));
        }
        if let Some(number) = connection {
            running.links.insert(peer, number);
            running.inbox.push_back(Input::PeerUp(member_id(peer)));
        }
        self.wake(index);
    }

    /// A frame from a peer arrives.
    pub fn receive(&mut self, from: usize, to: usize, bytes: Bytes) {
        if !self.net.is_open(Place::Node(from), Place::Node(to)) {
            return;
        }
        let Some(bytes) = faults::arrives(self.plant, self, to, bytes) else { return };
        let Some(running) = self.nodes[to].running.as_mut() else { return };
        let frame = Frame::take(&mut BytesMut::from(&bytes[..]));
        let Ok(Some(frame)) = frame else { return };
        match arrival::message(frame, member_id(from), &running.config, &running.cache) {
            Ok(checked) => {
                self.coverage.rejected += checked.rejected.len() as u64;
                running.inbox.extend(checked.inputs);
            }
            Err(_) => self.coverage.malformed += 1,
        }
        self.wake(to);
    }

    /// A client's request arrives.
    pub fn serve(&mut self, attempt: usize, bytes: Bytes) {
        let Some(asked) = self.history.attempts.get(attempt) else { return };
        let (client, index) = (asked.client, asked.node);
        if !self.net.is_open(Place::Client(client), Place::Node(index)) {
            return;
        }
        let key = self.client_key(client);
        let bytes = faults::rewrite_request(self.plant, self, attempt, bytes);
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        self.history.attempts[attempt].delivered = true;
        let frame = match Frame::take(&mut BytesMut::from(&bytes[..])) {
            Ok(Some(frame)) => frame,
            _ => return,
        };
        match arrival::request(frame, key, &running.config, &running.cache) {
            Ok(request) => {
                running.inbox.push_back(Input::Request { token: attempt as u64, request });
                self.wake(index);
            }
            Err(failure) => {
                self.coverage.denied += 1;
                self.release_reply(index, attempt, Reply::from(failure));
            }
        }
    }

    /// Has a node take a turn of its loop soon.
    pub fn wake(&mut self, index: usize) {
        let life = self.nodes[index].life;
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        if !running.turning {
            running.turning = true;
            let delay = self.dice.range(0, 2);
            self.after(delay, Event::Loop { node: index, life });
        }
    }

    /// One turn of the loop: step what is waiting, close the batch, let effects out.
    pub fn turn(&mut self, index: usize, life: u64) {
        let (now, batch) = (self.nodes[index].clock(self.now), self.options.batch);
        let Some(running) = self.process(index, life) else { return };
        running.turning = false;
        for _ in 0..batch.min(limits::BATCH_INPUTS) {
            let Some(node) = self.nodes.get_mut(index) else { return };
            let Some(running) = node.running.as_mut() else { return };
            if running.machine.weight() >= limits::BATCH_LEN {
                break;
            }
            let Some(input) = running.inbox.pop_front() else { break };
            if let Err(error) = running.machine.step(now, input, &node.disk.rows) {
                return self.fail("store", format!("node {index} cannot go on: {error}"));
            }
        }
        self.close(index);
        self.release(index);
        let Some(running) = self.process(index, life) else { return };
        if !running.inbox.is_empty() {
            self.wake(index);
        }
        self.plan_tick(index);
    }

    fn close(&mut self, index: usize) {
        let plant = self.plant;
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        if running.syncing {
            return;
        }
        let Some(mut batch) = running.machine.close() else { return };
        running.syncing = true;
        faults::rewrite_batch(plant, self, index, &mut batch);
        self.coverage.batches += 1;
        self.write(index, batch);
    }

    /// Writes a batch, whose sync ends later.
    fn write(&mut self, index: usize, batch: Batch) {
        let (life, plant) = (self.nodes[index].life, self.plant);
        match self.nodes[index].disk.rows.write(&batch) {
            Ok(()) => {}
            Err(CommitError::DiskFull { .. }) => {
                // Nothing of it was written: it waits for room.
                if let Some(running) = self.nodes[index].running.as_mut() {
                    running.refused = Some(batch);
                }
                return;
            }
            Err(error) => return self.end_of_process(index, &error),
        }
        if self.is_traced() {
            let contents = contents(&batch);
            self.note(|| format!("node {index} writes batch {}: {contents}", batch.number));
        }
        faults::after_write(plant, &mut self.nodes[index]);
        let delay = self.dice.range(self.options.sync_ms.0, self.options.sync_ms.1);
        self.after(delay, Event::Synced { node: index, life });
    }

    /// The batch in flight is durable.
    pub fn sync(&mut self, index: usize, life: u64) {
        let plant = self.plant;
        let marks = self.dice.chance(50);
        let fails = self.options.failing_syncs > 0 && self.dice.range(0, 999) < self.options.failing_syncs;
        if self.process(index, life).is_none() {
            return;
        }
        if fails {
            self.coverage.failed_syncs += 1;
            self.nodes[index].disk.rows.fail_next_sync();
        }
        let node = &mut self.nodes[index];
        faults::before_sync(plant, node);
        let synced = node.disk.rows.sync();
        if let Err(error) = synced
            && plant != Plant::SyncRetried
        {
            return self.end_of_process(index, &error);
        }
        if marks {
            node.disk.note_mark();
        }
        let synced = node.disk.rows.last_batch();
        self.note(|| format!("node {index} synced batch {synced}"));
        let Some(node) = self.nodes.get_mut(index) else { return };
        let Some(running) = node.running.as_mut() else { return };
        running.syncing = false;
        if !plant.syncs_early() {
            running.machine.synced();
        }
        self.release(index);
        self.wake(index);
    }

    /// A write or a sync failed, so nobody knows what is durable: nothing is released, and the process
    /// ends. It is never tried again (attack 26).
    fn end_of_process(&mut self, index: usize, error: &CommitError) {
        self.note(|| format!("node {index} ends: {error}"));
        let keep = self.dice.range(0, 1) as usize;
        self.crash(index, keep);
        self.after(100, Event::Start { node: index });
    }

    fn plan_tick(&mut self, index: usize) {
        let now = self.now;
        let node = &self.nodes[index];
        let (life, Some(running)) = (node.life, &node.running) else { return };
        let next = node.when(running.machine.next_tick()).max(now + 1);
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        if next != u64::MAX && (next < running.tick_at || running.tick_at <= now) {
            running.tick_at = next;
            self.after(next - now, Event::Tick { node: index, life });
        }
    }

    /// The machine asked to be stepped about now.
    pub fn tick(&mut self, index: usize, life: u64) {
        let now = self.nodes[index].clock(self.now);
        let Some(running) = self.process(index, life) else { return };
        if running.machine.next_tick() <= now {
            running.inbox.push_back(Input::Tick);
            self.wake(index);
        } else {
            self.plan_tick(index);
        }
    }

    /// Lets out what may leave.
    fn release(&mut self, index: usize) {
        let plant = self.plant;
        let Some(running) = self.nodes[index].running.as_mut() else { return };
        let mut effects = running.machine.released();
        faults::hold(plant, running, &mut effects);
        if running.machine.counts().is_ok() {
            let counted = p11::on_counting(self, index);
            self.judge("P11", counted);
            let incarnation = self.nodes[index].disk.incarnation;
            if let Some(rollback) = &mut self.nodes[index].rollback
                && Some(rollback.incarnation) == incarnation
            {
                rollback.counted = true;
            }
        }
        for effect in effects {
            match effect {
                Effect::Send { to, envelope, message } => {
                    self.send(index, to.0[0] as usize - 1, envelope, message)
                }
                Effect::Reply { token, reply } => self.release_reply(index, token as usize, reply),
                Effect::Configured(config) => {
                    self.learn_config(&config);
                    if let Some(running) = self.nodes[index].running.as_mut() {
                        running.config = config;
                    }
                }
                Effect::Forgot { why } => return self.forget(index, &why),
                Effect::Equivocation(_) => self.coverage.equivocations += 1,
            }
        }
    }

    /// Tells a node something that is no message.
    pub fn tell(&mut self, index: usize, input: Input) {
        if let Some(running) = self.nodes[index].running.as_mut()
            && self.plant != Plant::FullUnnoticed
        {
            running.inbox.push_back(input);
        }
        self.wake(index);
    }

    /// The machine found that its data went backwards: another life begins.
    fn forget(&mut self, index: usize, why: &str) {
        self.note(|| format!("node {index} forgot something: {why}"));
        self.coverage.forgot += 1;
        self.crash(index, usize::MAX);
        let fresh = Incarnation(self.dice.bytes());
        let node = &mut self.nodes[index];
        node.forgot += 1;
        node.disk.rename(fresh);
        self.after(50, Event::Start { node: index });
    }

    fn send(&mut self, from: usize, to: usize, envelope: Envelope, message: PeerMessage) {
        let message = faults::rewrite_message(self.plant, self, from, to, message);
        let safe = p9::on_send(self, from, &message);
        self.judge("P9", safe);
        let events = p4::on_send(self, &message);
        self.judge("P4 (events)", events);
        self.note(|| format!("node {from} to node {to}: {}", brief(&message)));
        let mut bytes = BytesMut::new();
        message.encode(envelope).encode_into(&mut bytes);
        let bytes = bytes.freeze();
        self.coverage.messages += 1;
        let mut ways = self.net.ways(&mut self.dice, Place::Node(from), Place::Node(to));
        if matches!(message, PeerMessage::Forward(_)) {
            // A stream carries it once, and no node sends it again: its answer is what the client is told
            // (seed 402409).
            ways.truncate(1);
        }
        self.coverage.lost_messages += u64::from(ways.is_empty());
        for way in ways {
            self.after(way, Event::Frame { from, to, bytes: bytes.clone() });
        }
        self.forge(from, to, envelope, &message);
    }

    /// An answer leaves a node.
    fn release_reply(&mut self, index: usize, attempt: usize, reply: Reply) {
        let reply = faults::rewrite_reply(self.plant, self, attempt, reply);
        let safe = p9::on_reply(self, index, attempt, &reply);
        self.judge("P9", safe);
        self.write_into_book(index, attempt, &reply);
        let now = self.now;
        let Some(asked) = self.history.attempts.get_mut(attempt) else { return };
        let client = asked.client;
        if asked.released.is_some() {
            return self.fail("driver", format!("attempt {attempt} was answered twice by node {index}"));
        }
        asked.released = Some((now, reply));
        for way in self.net.ways(&mut self.dice, Place::Node(index), Place::Client(client)) {
            self.after(way, Event::Reply { attempt });
        }
    }

    fn process(&mut self, index: usize, life: u64) -> Option<&mut Running> {
        self.nodes.get_mut(index).filter(|node| node.life == life)?.running.as_mut()
    }
}

/// What a batch changes, for a reader: what each key looks like afterwards.
fn contents(batch: &Batch) -> String {
    let told = |change: &Change| {
        let Change::Put { key, value } = change else { return None };
        if Disk::is_key_row(key) {
            let row: KeyRow = rows::decode(value).ok()?;
            return Some(format!("{} = {:?}", rows::key_of(key).ok()?, row.siblings.live_ids()));
        }
        if key.first() == Some(&REGISTER_TABLE) {
            let row: RegisterRow = rows::decode(value).ok()?;
            let accepted = row.accepted.as_ref().map(|(ballot, state)| {
                format!(", accepted {:?} of generation {} at {ballot:?}", state.current(), state.generation)
            });
            let accepted = accepted.unwrap_or_default();
            return Some(format!("{} promised {:?}{accepted}", rows::key_of(key).ok()?, row.promised));
        }
        None
    };
    let told: Vec<String> = batch.changes.iter().filter_map(told).collect();
    if told.is_empty() { format!("{} other rows", batch.changes.len()) } else { told.join("; ") }
}

/// A message in one line.
fn brief(message: &PeerMessage) -> String {
    let text = format!("{message:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text,
    }
}
