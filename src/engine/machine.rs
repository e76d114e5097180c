//! One node, as a state machine: see [the engine](super) for how it is called.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arrival::{Ask, Message, Request};
use super::batch::{Overlay, Rows};
use super::chain::Proposals;
use super::key::At;
use super::operation::{Operations, Requester};
use super::recall::Recollection;
use super::register::Registers;
use super::rows;
use super::store::{Batch, StoreError, View};
use super::{Counters, Effect, Identity, Input, Millis, Timing};
use crate::core::chain::{Chain, Decided};
use crate::core::cluster::{ConfigError, Configuration};
use crate::core::hash::Hash;
use crate::core::identity::{ActorId, MemberId};
use crate::core::limits;
use crate::core::object::ObjectId;
use crate::core::placement;
use crate::core::signature::sign_batch;
use crate::core::stamp::SignedStamp;
use crate::wire::client::{Failure, Status};
use crate::wire::frame::Frame;
use crate::wire::peer::{Envelope, Forwarded};
use crate::wire::registry::{PeerMessage, Reply};
use crate::wire::values::Values;

/// One node.
pub struct Machine {
    pub(super) state: State,
    overlay: Overlay,
    /// Effects that wait for a batch, in the order of their batches.
    held: Vec<(u64, Out)>,
    /// Effects that may leave.
    free: Vec<Out>,
    /// Requests that leave when the current batch is signed.
    requests: Vec<Ahead>,
}

/// Why a machine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be read.
    #[error(
        "cannot read the data: {0}; try again, and if it stays, move `data` in the data directory away to come back as a new actor"
    )]
    Store(#[from] StoreError),
    /// A stored entry of the configuration does not verify.
    #[error(
        "the stored configuration is damaged: {0}; move `data` in the data directory away to come back as a new actor"
    )]
    Config(#[from] ConfigError),
}

/// What a node keeps in memory.
pub(super) struct State {
    pub(super) identity: Identity,
    pub(super) actor: ActorId,
    pub(super) timing: Timing,
    pub(super) config: Arc<Configuration>,
    pub(super) now: Millis,
    pub(super) disk_full: bool,
    pub(super) up: BTreeSet<MemberId>,
    pub(super) operations: Operations,
    pub(super) proposals: Proposals,
    pub(super) registers: Registers,
    pub(super) recollection: Recollection,
    pub(super) equivocators: BTreeSet<ActorId>,
    pub(super) counters: Counters,
    /// When the current batch got its first change, and when that was of the batch in flight.
    changed_since: Option<Millis>,
    in_flight_since: Option<Millis>,
    /// The next event or ballot number, and the end of those reserved durably.
    next_counter: u64,
    reserved: u64,
    /// The batch that reserved them.
    reserved_in: u64,
    /// Stamps of the current batch, to be signed when it is closed.
    unsigned: Vec<Arc<SignedStamp>>,
}

/// One step: what it reads and writes, and what it lets out.
pub(super) struct Step<'a> {
    pub(super) rows: Rows<'a>,
    out: Vec<Out>,
    requests: Vec<Ahead>,
}

/// A request: it may leave ahead of the batch that its step wrote into.
struct Ahead {
    /// The batch that it rests on.
    after: u64,
    /// Whether it bears a stamp that is signed when the current batch is closed.
    signed: bool,
    out: Out,
}

/// What a step lets out, as it is until it leaves.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "an effect is moved once, to the driver")]
enum Out {
    /// An effect.
    Effect(Effect),
    /// An answer for a client of another node. It is encoded when it leaves: it may show a version
    /// whose stamp is signed only when the batch is closed.
    Forwarded { to: MemberId, operation: u64, reply: Box<Reply> },
}

impl Machine {
    /// A node whose store's last batch is `last`, at `now`.
    ///
    /// `genesis` founds the cluster; later entries are read from the store.
    pub fn new(
        identity: Identity,
        genesis: Decided,
        timing: Timing,
        now: Millis,
        last: u64,
        view: &dyn View,
    ) -> Result<Self, StartError> {
        let mut config = Configuration::found(genesis)?;
        for chain in Chain::ALL {
            let mut after = None;
            loop {
                let page = view.scan(&rows::entries(chain), after.as_deref(), 256)?;
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                for (_, row) in &page {
                    config.extend(rows::decode(row)?)?;
                }
            }
        }
        let mut equivocators = BTreeSet::new();
        for (row, _) in view.scan(&rows::equivocators(), None, limits::VERSIONS)? {
            equivocators.insert(rows::equivocator_of(&row)?);
        }
        let reserved = view.get(&rows::counter())?.map_or(Ok(0), |row| rows::decode(&row))?;
        let actor = ActorId::new(config.cluster(), identity.member, identity.incarnation);
        let mut operations = Operations::new(identity.first_operation);
        for (_, row) in view.scan(&rows::all_mending(), None, usize::MAX)? {
            let (namespace, key) = rows::decode(&row)?;
            let at = At::new(namespace, key);
            operations.mending.insert(at.object);
            operations.unmended.push(at);
        }
        let recollection = Recollection::new(&config, &identity, last, view)?;
        let state = State {
            actor,
            timing,
            config: Arc::new(config),
            now,
            disk_full: false,
            up: BTreeSet::new(),
            operations,
            proposals: Proposals::new(now),
            registers: Registers::new(now),
            changed_since: None,
            in_flight_since: None,
            recollection,
            equivocators,
            counters: Counters::default(),
            // A fresh block at every start: what is left of the last one is never used.
            next_counter: reserved,
            reserved,
            reserved_in: 0,
            unsigned: Vec::new(),
            identity,
        };
        let free = vec![Out::Effect(Effect::Configured(Arc::clone(&state.config)))];
        Ok(Machine { state, overlay: Overlay::new(last), held: Vec::new(), free, requests: Vec::new() })
    }

    /// Takes one input. An error means that the store cannot be trusted: end the process.
    pub fn step(&mut self, now: Millis, input: Input, view: &dyn View) -> Result<(), StoreError> {
        self.state.now = self.state.now.max(now);
        let mut step =
            Step { rows: Rows::new(view, &mut self.overlay), out: Vec::new(), requests: Vec::new() };
        match input {
            Input::Request { token, request } => {
                self.state.request(&mut step, Requester::Client(token), request)?;
            }
            Input::Peer { from, envelope, message } => {
                self.state.peer(&mut step, from, envelope, message)?;
            }
            Input::Behind { from } => self.state.ask_config(&mut step, from),
            Input::PeerUp(peer) => {
                self.state.up.insert(peer);
                self.state.recall_from(&mut step, peer);
                self.state.resume_mending(&mut step)?;
                self.state.resume_with(&mut step, peer)?;
                self.state.resume_registers(&mut step, peer);
            }
            Input::PeerDown(peer) => {
                self.state.up.remove(&peer);
                self.state.go_on_without(&mut step, peer)?;
            }
            Input::DiskFull(full) => self.state.disk_full = full,
            Input::Tick => {
                self.state.resume_mending(&mut step)?;
                self.state.tick_operations(&mut step)?;
                self.state.tick_registers(&mut step)?;
                self.state.tick_proposals(&mut step)?;
            }
        }
        let Step { rows, out, requests } = step;
        let after = rows.touched();
        if after <= rows.synced() {
            self.free.extend(out);
        } else {
            self.held.extend(out.into_iter().map(|effect| (after, effect)));
        }
        let synced = self.overlay.synced();
        for request in requests {
            match request {
                Ahead { signed: true, .. } => self.requests.push(request),
                Ahead { after, out, .. } if after <= synced => self.free.push(out),
                Ahead { after, out, .. } => self.held.push((after, out)),
            }
        }
        if self.overlay.is_dirty() {
            self.state.changed_since.get_or_insert(self.state.now);
        }
        Ok(())
    }

    /// Closes the current batch, if it has changes and none is in flight: signs its stamps and
    /// returns it to be written and synced.
    pub fn close(&mut self) -> Option<Batch> {
        if self.overlay.is_busy() || !self.overlay.is_dirty() {
            return None;
        }
        self.sign();
        for (row, value) in self.state.recollection.take_rows() {
            Rows::new(&Nothing, &mut self.overlay).put(row, value);
        }
        self.state.in_flight_since = self.state.changed_since.take();
        let batch = self.overlay.close();
        self.let_requests_go();
        batch
    }

    /// Signs the stamps of the current batch.
    fn sign(&mut self) {
        let unsigned = std::mem::take(&mut self.state.unsigned);
        let leaves: Vec<Hash> = unsigned.iter().map(|stamp| stamp.hash()).collect();
        let proofs = sign_batch(&self.state.identity.key, self.state.config.cluster(), &leaves);
        for (stamp, proof) in unsigned.iter().zip(proofs) {
            stamp.attach(proof);
        }
    }

    /// Lets requests go whose stamps are signed; those that rest on a batch wait for it.
    fn let_requests_go(&mut self) {
        let synced = self.overlay.synced();
        for Ahead { after, out, .. } in std::mem::take(&mut self.requests) {
            if after <= synced {
                self.free.push(out);
            } else {
                self.held.push((after, out));
            }
        }
    }

    /// Bytes that the current batch will write, roughly: close it before
    /// [`limits::BATCH_LEN`].
    pub fn weight(&self) -> usize {
        self.overlay.weight()
    }

    /// The batch in flight is durable.
    pub fn synced(&mut self) {
        self.overlay.landed();
        self.state.in_flight_since = None;
        let synced = self.overlay.synced();
        let (free, held) =
            std::mem::take(&mut self.held).into_iter().partition(|(after, _)| *after <= synced);
        self.held = held;
        let free: Vec<(u64, Out)> = free;
        self.free.extend(free.into_iter().map(|(_, effect)| effect));
    }

    /// The effects that may leave now.
    pub fn released(&mut self) -> Vec<Effect> {
        if !self.overlay.is_dirty() {
            // Nothing is written, so no batch will be closed for them.
            self.sign();
            self.let_requests_go();
        }
        let synced = self.overlay.synced();
        let mut effects: Vec<Effect> = std::mem::take(&mut self.free).into_iter().map(Out::leave).collect();
        for effect in &mut effects {
            if let Effect::Send { to, envelope, .. } = effect {
                *envelope = self.state.envelope(*to, synced);
            }
        }
        effects
    }

    /// When to step [`Input::Tick`] next, at the latest.
    pub fn next_tick(&self) -> Millis {
        let registers = self.state.registers.next_tick();
        self.state.operations.next_tick().min(self.state.next_proposal_tick()).min(registers)
    }

    /// What the node counted so far.
    pub fn counters(&self) -> &Counters {
        &self.state.counters
    }

    /// The configuration as the newest step left it.
    pub fn config(&self) -> &Arc<Configuration> {
        &self.state.config
    }

    /// Whether the node mints, votes and counts; if not, why.
    pub fn counts(&self) -> Result<(), String> {
        self.state.counts()
    }
}

impl Step<'_> {
    pub(super) fn emit(&mut self, effect: Effect) {
        self.out.push(Out::Effect(effect));
    }

    /// Answers the node that forwarded a request.
    pub(super) fn send_forwarded(&mut self, to: MemberId, operation: u64, reply: Reply) {
        self.out.push(Out::Forwarded { to, operation, reply: Box::new(reply) });
    }

    pub(super) fn send(&mut self, to: MemberId, message: impl Into<PeerMessage>) {
        self.out.push(Out::Effect(to_send(to, message)));
    }

    /// Sends what asks and states nothing: it waits for the batch `after` that it rests on, but not for
    /// what this step wrote.
    pub(super) fn request(&mut self, to: MemberId, message: impl Into<PeerMessage>, after: u64) {
        self.requests.push(Ahead { after, signed: false, out: Out::Effect(to_send(to, message)) });
    }

    /// As [`request`](Self::request), for what bears a stamp of the current batch: it also waits until
    /// that is signed.
    pub(super) fn request_signed(&mut self, to: MemberId, message: impl Into<PeerMessage>, after: u64) {
        self.requests.push(Ahead { after, signed: true, out: Out::Effect(to_send(to, message)) });
    }
}

impl Out {
    fn leave(self) -> Effect {
        match self {
            Out::Effect(effect) => effect,
            Out::Forwarded { to, operation, reply } => {
                let Frame { kind, header, body } = reply.encode();
                let values = if body.is_empty() { Values::none() } else { [body].into_iter().collect() };
                to_send(to, Forwarded { operation, kind, header: header.to_vec(), values })
            }
        }
    }
}

/// A message whose envelope is filled in when it leaves.
fn to_send(to: MemberId, message: impl Into<PeerMessage>) -> Effect {
    let envelope = Envelope { incarnation: crate::core::identity::Incarnation([0; 16]), synced: 0 };
    Effect::Send { to, envelope, message: message.into() }
}

impl State {
    /// Routes a request to what serves it.
    pub(super) fn request(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
    ) -> Result<(), StoreError> {
        if self.operations.len() + self.registers.len() >= limits::OPERATIONS
            // Answered at once, without an operation; and an owner must not lose its lease to load.
            && !matches!(request.ask, Ask::Status | Ask::Config(_) | Ask::Renew(_))
        {
            self.fail(step, requester, Failure::Overloaded);
            return Ok(());
        }
        let namespace = request.ask.namespace();
        if namespace.is_some_and(|namespace| self.is_register(namespace)) {
            return match request.ask.clone() {
                Ask::List(list) => self.list_registers(step, requester, list),
                _ => self.register_request(step, requester, request),
            };
        }
        match request.ask.clone() {
            Ask::Submit { submission, on_conflict, may_read } => {
                self.submit(step, requester, request, submission, on_conflict, may_read)
            }
            Ask::Renew(renewal) => self.renew(step, requester, renewal),
            Ask::Verdict { .. } | Ask::Seal(_) | Ask::Campaign { .. } | Ask::Observe(_) => {
                self.register_request(step, requester, request)
            }
            Ask::Read(read) => self.read(step, requester, request, read),
            Ask::ReadValue(read) => self.read_value(step, requester, request, read),
            Ask::Outcome(ask) => self.outcome(step, requester, request, ask),
            Ask::List(list) => self.list(step, requester, list),
            Ask::Propose(signed) => self.propose(step, requester, request, *signed),
            Ask::Config(have) => {
                let config = self.entries_beyond(&have);
                self.reply(step, requester, config);
                Ok(())
            }
            Ask::Status => {
                let status = self.status(step);
                self.reply(step, requester, status);
                Ok(())
            }
        }
    }

    /// Routes a peer's message to what handles it.
    fn peer(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        envelope: Envelope,
        message: Message,
    ) -> Result<(), StoreError> {
        if let Message::Recall(recall) = &message {
            // The question is about what was known before it.
            self.recall(step, from, envelope.incarnation, *recall);
        }
        self.note_envelope(from, envelope);
        match message {
            Message::Exchange(m) => self.exchange(step, from, m),
            Message::Exchanged(m) => self.exchanged(step, from, m),
            Message::Forward { operation, request } => {
                let requester = Requester::Peer { member: from, operation };
                match *request {
                    Ok(request) => self.request(step, requester, request),
                    Err(failure) => {
                        self.reply(step, requester, failure);
                        Ok(())
                    }
                }
            }
            Message::Forwarded { operation, reply } => {
                self.forwarded(step, operation, *reply);
                Ok(())
            }
            Message::Prepare(m) => self.prepare(step, from, m),
            Message::PrepareRegister(m) => self.prepare_register(step, from, m),
            Message::PromisedRegister(m) => self.promised_register(step, from, m),
            Message::AcceptRegister(m) => self.accept_register(step, from, m),
            Message::AcceptedRegister(m) => self.accepted_register(step, from, m),
            Message::AskRegister(m) => self.ask_register(step, from, m),
            Message::ShowRegister(m) => self.shown_register(step, from, m),
            Message::ChosenRegister(m) => self.chosen_register(step, m),
            Message::Promise(m) => self.promise(step, from, m),
            Message::Accept(m) => self.accept(step, from, m),
            Message::Accepted(m) => self.accepted(step, from, m),
            Message::Learn(m) => self.learn(step, from, m.decided),
            Message::Recall(_) => Ok(()),
            Message::Recalled(m) => {
                // A member whose own data is new remembers nothing of anybody: that confirms nothing.
                if self.config.lists(from, envelope.incarnation) {
                    self.recalled(step, from, m);
                }
                Ok(())
            }
            Message::AskConfig(have) => {
                let config = self.entries_beyond(&have);
                step.send(from, config);
                Ok(())
            }
            Message::Config(m) => self.learn_all(step, from, m),
            Message::Evidence(m) => {
                self.evidence(step, &m);
                Ok(())
            }
        }
    }

    /// Answers whoever asked.
    pub(super) fn reply(&mut self, step: &mut Step<'_>, requester: Requester, reply: impl Into<Reply>) {
        let reply = reply.into();
        match requester {
            Requester::Client(token) => step.emit(Effect::Reply { token, reply }),
            Requester::Peer { member, operation } => step.send_forwarded(member, operation, reply),
            Requester::Nobody => {}
        }
    }

    /// Answers that nothing was done.
    pub(super) fn fail(&mut self, step: &mut Step<'_>, requester: Requester, failure: Failure) {
        self.reply(step, requester, failure);
    }

    /// The replicas of an object, the preferred coordinator first.
    pub(super) fn replicas(&self, object: ObjectId) -> Vec<MemberId> {
        placement::replicas(self.config.current(), object)
    }

    /// Whether a message to `member` has a chance, or `member` is this node itself.
    pub(super) fn reaches(&self, member: MemberId) -> bool {
        member == self.identity.member || self.up.contains(&member)
    }

    /// A number that this actor never used and never will again. It may be used at once: nothing
    /// that bears it leaves before the reservation is synced, since both are in one batch.
    pub(super) fn next_counter(&mut self, step: &mut Step<'_>) -> u64 {
        if self.next_counter >= self.reserved {
            self.reserved = self.next_counter.saturating_add(limits::COUNTER_BLOCK);
            step.rows.put(rows::counter(), rows::encode(&self.reserved));
            self.reserved_in = step.rows.current();
        }
        step.rows.depend(self.reserved_in);
        self.next_counter += 1;
        self.next_counter
    }

    /// The batch that reserved the numbers which are handed out now.
    pub(super) fn reserved_in(&self) -> u64 {
        self.reserved_in
    }

    /// When the oldest change was made that is not synced yet.
    pub(super) fn unsynced_since(&self) -> Option<Millis> {
        self.in_flight_since.or(self.changed_since)
    }

    /// Has a stamp of this batch signed when the batch is closed.
    pub(super) fn sign_later(&mut self, stamp: Arc<SignedStamp>) {
        self.unsigned.push(stamp);
    }

    /// Makes sure that the next counter is above one that was heard of.
    pub(super) fn raise_counter(&mut self, step: &mut Step<'_>, heard: u64) {
        if heard <= self.next_counter || heard >= limits::COUNTERS {
            return;
        }
        self.next_counter = heard;
        if heard >= self.reserved {
            self.reserved = heard.saturating_add(limits::COUNTER_BLOCK);
            step.rows.put(rows::counter(), rows::encode(&self.reserved));
            self.reserved_in = step.rows.current();
        }
    }

    fn status(&self, step: &Step<'_>) -> Status {
        let me = self.identity.member;
        let others = self.config.current().members.iter().filter(|member| member.id != me);
        Status {
            version: self.identity.software.clone(),
            member: me,
            incarnation: self.identity.incarnation,
            counts: self.counts(),
            synced: step.rows.synced(),
            chains: Chain::ALL.map(|chain| self.config.length(chain)),
            peers: others.map(|member| (member.id, self.up.contains(&member.id))).collect(),
            counters: self.counters.named(),
        }
    }
}

/// A store without rows: what is put when a batch is closed reads nothing.
struct Nothing;

impl View for Nothing {
    fn get(&self, _: &[u8]) -> Result<Option<bytes::Bytes>, StoreError> {
        Ok(None)
    }

    fn scan(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: usize,
    ) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, StoreError> {
        Ok(Vec::new())
    }
}
