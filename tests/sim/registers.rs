//! Clients of registers and candidates for resources, and the book of what nodes said to them.
//!
//! Candidates drive the SDK's own machine ([`Owner`]) on clocks of their own, which run up to a tenth
//! faster or slower than those of the nodes: as much as two clocks may differ (O5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tanist::client::attempt::{Action, Attempts, Heard, Pace, Verdict as Told};
use tanist::client::owner::{Act, Afresh, Office, Owner};
use tanist::core::certificate::prove;
use tanist::core::identity::SecretKey;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::tenure::{self, Claim, Tenure, TenureProof, sign_fence};
use tanist::core::version::{SignedWrite, Version};
use tanist::core::write::{Body, Fence, WRITE_FORMAT, Write, WriteId};
use tanist::wire::client::{OnConflict, Read, Submit, Submitted};
use tanist::wire::ownership::{Ballots, Campaign, Campaigned, Observe, Observed};
use tanist::wire::register::{AskVerdict, Seal, Sealed, Verdict};
use tanist::wire::registry::{Reply, Request};

use super::checks::{p3, p10};
use super::dice::Dice;
use super::founding::member_id;
use super::history::Asked;
use super::options::Options;
use super::world::{Event, World};

/// What a request of an actor is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// To apply a write, a tenure included.
    Write(WriteId),
    /// What became of a write.
    Verdict(WriteId),
    /// To read a register, or a resource.
    Read { namespace: NamespaceId, key: Key },
    /// To read what one node knows to be chosen.
    Local,
    /// To seal a register.
    Seal { key: Key, term: u64 },
    /// A heartbeat: its sequence.
    Renewal(u64),
}

/// A write that somebody signed.
#[derive(Debug, Clone)]
pub struct Entry {
    pub signed: Arc<SignedWrite>,
    pub value: Bytes,
    pub proof: Option<Arc<TenureProof>>,
}

/// What a node said at one moment about a register.
#[derive(Debug, Clone)]
pub struct Said {
    /// When it was asked, and when the answer left.
    pub asked: u64,
    pub answered: u64,
    /// The generation that was current at some moment between, and its write.
    pub generation: u64,
    pub current: Option<WriteId>,
}

/// Everything that nodes said of registers and resources.
#[derive(Default)]
pub struct Book {
    /// The writes that were ever signed.
    pub entries: BTreeMap<WriteId, Entry>,
    /// When each was sent first.
    pub first_sent: BTreeMap<WriteId, u64>,
    /// When nodes said first that it was applied.
    pub applied: BTreeMap<WriteId, u64>,
    /// Writes that were refused, fenced or forbidden: for good.
    pub refused: BTreeSet<WriteId>,
    /// What was shown, by register.
    pub shown: BTreeMap<(NamespaceId, Key), Vec<Said>>,
    /// Seals that took: the generation they met, and the term.
    pub seals: BTreeMap<Key, Vec<(u64, u64)>>,
    /// Proven tenures by resource and term.
    pub tenures: BTreeMap<(Key, u64), WriteId>,
    /// A contradiction that was seen while it ran.
    pub broken: Option<String>,
}

/// A client of registers, or a candidate.
pub struct Actor {
    /// What its clock shows after a thousand milliseconds.
    rate: u64,
    candidate: bool,
    operation: Option<Operation>,
    known: BTreeMap<Key, (u64, Option<WriteId>)>,
    writes: Vec<WriteId>,
    mine: Option<Mine>,
    /// It does nothing until then, whatever comes.
    asleep_until: u64,
}

/// A tenure that it campaigns for or holds.
struct Mine {
    claim: Arc<SignedWrite>,
    tenure: Tenure,
    key: SecretKey,
    owner: Owner,
    proof: Option<Arc<TenureProof>>,
    /// Attempts that carry heartbeats.
    renewals: BTreeMap<usize, (usize, u64)>,
    wants_afresh: bool,
    afresh: bool,
}

struct Operation {
    attempts: Attempts,
    request: Request,
    about: About,
    sent: BTreeMap<usize, usize>,
    wake_at: u64,
}

impl Actor {
    /// The actors of a seed.
    pub fn all(options: &Options, dice: &mut Dice) -> Vec<Actor> {
        let actor = |n: usize, dice: &mut Dice| Actor {
            rate: if options.drift { dice.range(955, 1_049) } else { dice.range(910, 1_099) },
            candidate: n.is_multiple_of(2),
            operation: None,
            known: BTreeMap::new(),
            writes: Vec::new(),
            mine: None,
            asleep_until: 0,
        };
        (0..options.actors).map(|n| actor(n, dice)).collect()
    }
}

/// What candidates campaign for.
pub fn resource() -> Key {
    Key::try_from("billing").expect("a key")
}

/// The registers; the last one is guarded by the resource.
pub fn register(n: usize) -> Key {
    Key::try_from(["one", "two", "guarded"][n % 3]).expect("a key")
}

impl World {
    fn actor(&mut self, client: usize) -> &mut Actor {
        &mut self.actors[client - self.options.clients]
    }

    /// What an actor's own clock shows.
    fn own_clock(&self, client: usize) -> u64 {
        let rate = self.actors[client - self.options.clients].rate;
        let rate = if self.plant == super::faults::Plant::SlowOwner { 600 } else { rate };
        self.now * rate / 1_000
    }

    fn resources(&self) -> NamespaceId {
        NamespaceId::resources(self.founding.cluster)
    }

    /// An actor looks what to do.
    pub fn act_on_register(&mut self, client: usize) {
        let now = self.now;
        if self.actor(client).asleep_until > now {
            return;
        }
        if let Some(operation) = &mut self.actor(client).operation
            && now >= operation.wake_at
        {
            let actions = operation.attempts.on_tick(now);
            self.carry_out_for(client, actions);
        }
        let clock = self.own_clock(client);
        if let Some(mine) = &mut self.actor(client).mine {
            let acts = mine.owner.on_tick(clock);
            self.do_acts(client, acts);
        }
        if self.actor(client).operation.is_some() || !self.unsafe_phase {
            return;
        }
        if self.actor(client).candidate {
            self.act_as_candidate(client);
        } else {
            self.act_as_writer(client);
        }
    }

    fn act_as_writer(&mut self, client: usize) {
        let key = register(self.dice.index(2));
        let known = self.actor(client).known.get(&key).copied();
        match self.dice.range(0, 99) {
            0..=24 => self.read_register(client, self.founding.registers, &key),
            25..=29 => {
                let request = self.register_read(&key, true);
                self.begin_for(client, About::Local, request, &key, self.founding.registers);
            }
            30..=69 => {
                let (generation, current) = known.unwrap_or((0, None));
                let put = self.dice.chance(85);
                self.write_register(client, &key, generation, current, None, put);
            }
            // Ahead of what is there: names a write that may never be applied.
            70..=74 => {
                let Some(last) = self.actor(client).writes.last().copied() else { return self.rest(client) };
                let write = self.book.entries[&last].signed.write();
                let (generation, key) = (write.generation, write.key.clone());
                self.write_register(client, &key, generation, Some(last), None, true);
            }
            75..=87 => self.send_again(client),
            _ => self.ask_for_verdict(client),
        }
    }

    fn act_as_candidate(&mut self, client: usize) {
        let clock = self.own_clock(client);
        let guarded = register(2);
        let Some(mine) = &self.actor(client).mine else {
            return match self.actor(client).known.contains_key(&resource()) {
                true => self.stand(client),
                false => self.observe(client),
            };
        };
        if mine.proof.is_none() {
            return self.campaign(client, false);
        }
        if mine.wants_afresh {
            return self.campaign(client, true);
        }
        let acts = mine.owner.may_act(clock);
        match self.dice.range(0, 99) {
            0..=9 => {
                // It is stopped, and does not know when it goes on that time has passed.
                let pause = self.dice.range(100, 6_000);
                self.actor(client).asleep_until = self.now + pause;
                self.after(pause, Event::Client { client });
            }
            10..=14 if acts => self.resign(client),
            15..=18 => {
                // It dies.
                self.actor(client).mine = None;
                self.actor(client).known.remove(&resource());
                self.rest(client);
            }
            19..=49 => self.seal(client, &guarded),
            50..=84 => {
                // Whether it still may is not asked again: a process that slept would not either.
                self.coverage.paused_writes += u64::from(!acts);
                let known = self.actor(client).known.get(&guarded).copied();
                let (generation, current) = known.unwrap_or((0, None));
                self.write_register(client, &guarded, generation, current, Some(()), true);
            }
            85..=90 => self.send_again(client),
            _ => self.rest(client),
        }
        if !acts
            && self.actor(client).mine.as_ref().is_some_and(|mine| mine.proof.is_some())
            && self.dice.chance(40)
        {
            self.actor(client).mine = None;
            self.actor(client).known.remove(&resource());
        }
    }

    fn register_read(&self, key: &Key, local: bool) -> Request {
        Read { namespace: self.founding.registers, key: key.clone(), local, history: false }.into()
    }

    fn read_register(&mut self, client: usize, namespace: NamespaceId, key: &Key) {
        let request = self.register_read(key, false);
        self.begin_for(client, About::Read { namespace, key: key.clone() }, request, key, namespace);
    }

    fn observe(&mut self, client: usize) {
        let (namespace, key) = (self.resources(), resource());
        let request = Observe { resource: key.clone() }.into();
        self.begin_for(client, About::Read { namespace, key: key.clone() }, request, &key, namespace);
    }

    fn write_register(
        &mut self,
        client: usize,
        key: &Key,
        generation: u64,
        current: Option<WriteId>,
        fenced: Option<()>,
        put: bool,
    ) {
        let value = Bytes::from(format!("{} of {client}", self.book.entries.len()));
        let mine = self.actor(client).mine.as_ref().filter(|_| fenced.is_some());
        let fence = mine.map(|mine| (fence_of(mine), mine.key.clone(), mine.proof.clone()));
        let author = self.founding.client.clone();
        let nonce = self.dice.bytes();
        let write = Write {
            format: WRITE_FORMAT,
            cluster: self.founding.cluster,
            namespace: self.founding.registers,
            key: key.clone(),
            epoch: self.config.write_epoch(),
            generation: generation + 1,
            parents: current.into_iter().collect(),
            body: if put { Body::put(&value) } else { Body::Delete },
            author: author.public(),
            nonce,
            fence: fence.as_ref().map(|(fence, _, _)| fence.clone()),
            wall_ms: p10::wild_clock(nonce),
        };
        let proof = sign_one(&author, write.cluster, write.id().into());
        let signature = fence.as_ref().map(|(_, key, _)| sign_fence(key, write.cluster, write.id()));
        let signed = Arc::new(SignedWrite::new(write, proof, signature));
        let value = if put { value } else { Bytes::new() };
        let id = signed.id();
        let proof = fence.and_then(|(_, _, proof)| proof);
        self.book.entries.insert(id, Entry { signed, value, proof });
        self.actor(client).writes.push(id);
        self.submit_register(client, id);
    }

    fn submit_register(&mut self, client: usize, id: WriteId) {
        let Some(entry) = self.book.entries.get(&id).cloned() else { return };
        let key = entry.signed.write().key.clone();
        let value = (!entry.signed.write().is_delete()).then_some(entry.value);
        let request = Submit {
            signed: entry.signed,
            on_conflict: OnConflict::Refuse,
            presented: Vec::new(),
            tenure: entry.proof,
            value: value.into_iter().collect(),
        };
        self.begin_for(client, About::Write(id), request.into(), &key, self.founding.registers);
    }

    fn send_again(&mut self, client: usize) {
        if self.actor(client).writes.is_empty() {
            return self.rest(client);
        }
        let writes = self.actor(client).writes.clone();
        let id = *self.dice.pick(&writes);
        self.submit_register(client, id);
    }

    fn ask_for_verdict(&mut self, client: usize) {
        if self.actor(client).writes.is_empty() {
            return self.rest(client);
        }
        let writes = self.actor(client).writes.clone();
        let id = *self.dice.pick(&writes);
        let signed = Arc::clone(&self.book.entries[&id].signed);
        let key = signed.write().key.clone();
        let forbid = self.dice.chance(40);
        let request = AskVerdict { signed, forbid }.into();
        self.begin_for(client, About::Verdict(id), request, &key, self.founding.registers);
    }

    fn seal(&mut self, client: usize, key: &Key) {
        let Some(mine) = &self.actor(client).mine else { return };
        let (fence, tenure_key, proof) = (fence_of(mine), mine.key.clone(), mine.proof.clone());
        let (cluster, namespace) = (self.founding.cluster, self.founding.registers);
        let term = fence.term.number;
        let seal = tenure::Seal { cluster, namespace, key: key.clone(), fence };
        let signature = seal.sign(&tenure_key);
        let request = Seal { seal, signature, tenure: proof }.into();
        self.begin_for(client, About::Seal { key: key.clone(), term }, request, key, namespace);
    }

    fn claim(&mut self, client: usize) -> Claim {
        let (generation, current) = self.actor(client).known.get(&resource()).copied().unwrap_or((0, None));
        Claim {
            cluster: self.founding.cluster,
            resource: resource(),
            current: current.map(|id| (generation, id)),
            recovery: 0,
            key: None,
            lease_ms: 1_000 + 500 * self.dice.range(0, 2) as u32,
            epoch: self.config.write_epoch(),
            author: self.founding.client.public(),
            nonce: self.dice.bytes(),
            wall_ms: 0,
        }
    }

    fn stand(&mut self, client: usize) {
        let key = SecretKey::from_seed(&self.dice.bytes());
        let claim = Claim { key: Some(key.public()), ..self.claim(client) };
        let (write, tenure) = claim.write();
        let proof = sign_one(&self.founding.client, write.cluster, write.id().into());
        let claim = Arc::new(SignedWrite::new(write, proof, None));
        let office = Office {
            cluster: self.founding.cluster,
            voters: self.config.current().electorate.clone(),
            resource: resource(),
            tenure: claim.id(),
            key: key.clone(),
            lease_ms: tenure.lease_ms,
        };
        let owner = Owner::new(office, self.own_clock(client));
        let entry = Entry { signed: Arc::clone(&claim), value: tenure.encode().into(), proof: None };
        self.book.entries.insert(claim.id(), entry);
        self.actor(client).mine = Some(Mine {
            claim,
            tenure,
            key,
            owner,
            proof: None,
            renewals: BTreeMap::new(),
            wants_afresh: false,
            afresh: false,
        });
        self.campaign(client, false);
    }

    fn campaign(&mut self, client: usize, afresh: bool) {
        let Some(mine) = &mut self.actor(client).mine else { return };
        mine.wants_afresh = false;
        mine.afresh = afresh;
        let value = [Bytes::from(mine.tenure.encode())].into_iter().collect();
        let request = Campaign { signed: Arc::clone(&mine.claim), tenure: None, afresh, value };
        let id = mine.claim.id();
        let namespace = self.resources();
        self.begin_for(client, About::Write(id), request.into(), &resource(), namespace);
    }

    fn resign(&mut self, client: usize) {
        let Some(mut mine) = self.actor(client).mine.take() else { return };
        mine.owner.end();
        let generation = mine.claim.write().generation;
        self.actor(client).known.insert(resource(), (generation, Some(mine.claim.id())));
        let (write, tenure) = self.claim(client).write();
        self.actor(client).known.remove(&resource());
        let id = write.id();
        let proof = sign_one(&self.founding.client, write.cluster, id.into());
        let signature = sign_fence(&mine.key, write.cluster, id);
        let signed = Arc::new(SignedWrite::new(write, proof, Some(signature)));
        let value = Bytes::from(tenure.encode());
        let entry = Entry { signed: Arc::clone(&signed), value: value.clone(), proof: mine.proof.clone() };
        self.book.entries.insert(id, entry);
        self.coverage.resigned += 1;
        let request =
            Campaign { signed, tenure: mine.proof, afresh: false, value: [value].into_iter().collect() };
        let namespace = self.resources();
        self.begin_for(client, About::Write(id), request.into(), &resource(), namespace);
    }

    /// Begins a request, at the replicas or at any nodes in any order.
    fn begin_for(&mut self, client: usize, about: About, request: Request, key: &Key, at: NamespaceId) {
        let object = tanist::core::object::ObjectId::new(at, key);
        let replicas = self.config.replicas(at, object);
        let mut order: Vec<usize> = replicas.iter().map(|id| usize::from(id.0[0]) - 1).collect();
        if self.dice.chance(60) {
            order = (0..self.options.nodes).collect();
            self.dice.shuffle(&mut order);
        }
        let order = order.into_iter().map(member_id);
        let pace = Pace { deadline_ms: 3_000, ..Pace::default() };
        let mut attempts = match about {
            About::Write(_) => Attempts::register(order, pace),
            _ => Attempts::read(order, pace),
        };
        let actions = attempts.start(self.now);
        let operation = Operation { attempts, request, about, sent: BTreeMap::new(), wake_at: u64::MAX };
        self.actor(client).operation = Some(operation);
        self.carry_out_for(client, actions);
    }

    fn carry_out_for(&mut self, client: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node } => {
                    let node = usize::from(node.0[0]) - 1;
                    let Some(operation) = &self.actor(client).operation else { return };
                    let (about, request) = (operation.about.clone(), operation.request.clone());
                    if let About::Write(id) = about {
                        let now = self.now;
                        self.book.first_sent.entry(id).or_insert(now);
                    }
                    let attempt = self.ask(client, node, Asked::Register(about), &request);
                    if let Some(operation) = &mut self.actor(client).operation {
                        operation.sent.insert(attempt, node);
                    }
                }
                Action::WakeAt(at) => {
                    if let Some(operation) = &mut self.actor(client).operation {
                        operation.wake_at = at;
                    }
                    self.after(at.saturating_sub(self.now), Event::Client { client });
                }
                Action::Done(verdict) => self.done(client, *verdict),
            }
        }
    }

    fn rest(&mut self, client: usize) {
        let pause = self.dice.range(1, self.options.pause_ms.min(400));
        self.after(pause, Event::Client { client });
    }

    fn do_acts(&mut self, client: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Renew { voter, renew } => {
                    let node = usize::from(voter.0[0]) - 1;
                    let sequence = renew.renewal.sequence;
                    let asked = Asked::Register(About::Renewal(sequence));
                    let attempt = self.ask(client, node, asked, &Request::from(*renew));
                    if let Some(mine) = &mut self.actor(client).mine {
                        mine.renewals.insert(attempt, (node, sequence));
                    }
                }
                Act::Afresh => {
                    if let Some(mine) = &mut self.actor(client).mine {
                        mine.wants_afresh = true;
                    }
                    self.after(1, Event::Client { client });
                }
                Act::WakeAt(at) => {
                    let left = at.saturating_sub(self.own_clock(client));
                    self.after(left.max(1), Event::Client { client });
                }
                Act::Owned => self.nobody_else_owns(client),
                Act::Lost => {
                    self.coverage.lost_tenures += 1;
                    // A process that does not look at its clock may go on for a while.
                    if self.dice.chance(50)
                        && let Some(mine) = &self.actor(client).mine
                        && mine.proof.is_some()
                    {
                        continue;
                    }
                    self.actor(client).mine = None;
                    self.actor(client).known.remove(&resource());
                }
            }
        }
    }

    /// While clocks differ by no more than they may, one process at a time believes that it is the owner.
    fn nobody_else_owns(&mut self, client: usize) {
        for other in (self.options.clients..self.options.clients + self.actors.len()).filter(|o| *o != client)
        {
            let clock = self.own_clock(other);
            let believes = self.actor(other).mine.as_ref().is_some_and(|mine| mine.owner.may_act(clock));
            if believes && !self.forgot_unnoticed() {
                self.fail("P6 (owners)", format!("clients {client} and {other} both own the resource"));
            }
        }
    }

    /// An answer came to an actor, or the connection went. One that sleeps hears it late or never.
    pub fn register_heard(&mut self, attempt: usize, reply: Option<Reply>) {
        let asked = &self.history.attempts[attempt];
        let (client, node, asked) = (asked.client, asked.node, asked.asked.clone());
        let Asked::Register(about) = asked else { return };
        if client - self.options.clients >= self.actors.len() || self.actor(client).asleep_until > self.now {
            return;
        }
        let clock = self.own_clock(client);
        if let About::Renewal(_) = about {
            if let Some(mine) = &mut self.actor(client).mine
                && let Some((node, sequence)) = mine.renewals.remove(&attempt)
                && let Some(Reply::Renewed(renewed)) = reply
            {
                let acts = mine.owner.on_renewed(member_id(node), sequence, renewed, clock);
                self.do_acts(client, acts);
            }
            return;
        }
        if let Some(reply) = &reply
            && let Some((key, generation, current)) = self.shown_by(&about, reply)
        {
            self.actor(client).known.insert(key, (generation, current));
        }
        let Some(operation) = &mut self.actor(client).operation else { return };
        if !operation.sent.contains_key(&attempt) {
            return;
        }
        let heard = reply.map_or_else(|| Heard::Lost("gone".into()), |reply| Heard::Reply(Box::new(reply)));
        let now = self.now;
        let Some(operation) = &mut self.actor(client).operation else { return };
        let actions = operation.attempts.on_reply(member_id(node), heard, now);
        self.carry_out_for(client, actions);
    }

    fn done(&mut self, client: usize, verdict: Told) {
        let Some(operation) = self.actor(client).operation.take() else { return };
        self.note(|| format!("client {client} is done with {:?}: {verdict:?}", operation.about));
        match (&operation.about, &verdict) {
            (About::Write(id), Told::Answer(Reply::Campaigned(campaigned))) => {
                self.campaigned(client, *id, campaigned);
            }
            (About::Write(id), Told::Answer(Reply::Submitted(Submitted::Applied { .. }))) => {
                let write = self.book.entries[id].signed.write();
                let (key, generation) = (write.key.clone(), write.generation);
                self.actor(client).known.insert(key, (generation, Some(*id)));
                self.coverage.register_applied += 1;
            }
            (About::Write(_), Told::Answer(Reply::Submitted(Submitted::Fenced(_)))) => {
                self.coverage.fenced += 1
            }
            (About::Write(_), Told::Answer(_)) => self.coverage.register_refused += 1,
            (About::Write(_), Told::Unknown(_)) => self.coverage.register_unknown += 1,
            (About::Read { .. }, Told::Answer(Reply::Versions(_) | Reply::Observed(_))) => {
                self.coverage.register_reads += 1;
            }
            (About::Seal { .. }, Told::Answer(Reply::Sealed(sealed))) => {
                self.coverage.seals += u64::from(sealed.result.is_ok());
                self.coverage.fenced += u64::from(sealed.result.is_err());
            }
            (About::Verdict(_), Told::Answer(Reply::Verdict(verdict))) => {
                self.coverage.verdicts += 1;
                self.coverage.forbidden += u64::from(matches!(verdict, Verdict::Refused { .. }));
            }
            _ => {}
        }
        self.rest(client);
    }

    fn campaigned(&mut self, client: usize, id: WriteId, campaigned: &Campaigned) {
        let clock = self.own_clock(client);
        let Some(mine) = self.actor(client).mine.as_mut().filter(|mine| mine.claim.id() == id) else {
            return;
        };
        let afresh = std::mem::take(&mut mine.afresh);
        let acts = match &campaigned.result {
            Ballots::Chosen { ballot, votes } => {
                let (signed, tenure) = (SignedWrite::clone(&mine.claim), mine.tenure.clone());
                let proof = TenureProof { signed, tenure, ballot: *ballot, votes: votes.clone() };
                let first = mine.proof.is_none();
                mine.proof.get_or_insert(Arc::new(proof));
                let acts = if afresh {
                    mine.owner.on_afresh(Afresh::Chosen, clock)
                } else {
                    mine.owner.on_chosen(clock)
                };
                let takeover = mine.tenure.term.number > 1;
                self.coverage.elections += u64::from(first);
                self.coverage.takeovers += u64::from(first && takeover);
                acts
            }
            Ballots::Refused if afresh => mine.owner.on_afresh(Afresh::Refused, clock),
            Ballots::Refused => {
                self.actor(client).mine = None;
                Vec::new()
            }
            Ballots::Running { .. } | Ballots::Incomplete if afresh => {
                mine.owner.on_afresh(Afresh::Failed, clock)
            }
            Ballots::Running { .. } | Ballots::Incomplete => Vec::new(),
        };
        self.do_acts(client, acts);
    }

    /// What a reply shows of a register: its key, generation and current write.
    fn shown_by(&self, about: &About, reply: &Reply) -> Option<(Key, u64, Option<WriteId>)> {
        let key = match about {
            About::Write(id) | About::Verdict(id) => self.book.entries.get(id)?.signed.write().key.clone(),
            About::Read { key, .. } | About::Seal { key, .. } => key.clone(),
            About::Local | About::Renewal(_) => return None,
        };
        let version: Option<&Version> = match reply {
            Reply::Versions(read) => read.versions.first().map(|listed| &listed.version),
            Reply::Submitted(Submitted::Refused { current: Some(current) }) => current.first(),
            Reply::Sealed(Sealed { result: Ok(()), version, .. }) => version.as_ref(),
            Reply::Observed(Observed { version, .. }) => version.as_ref(),
            Reply::Verdict(Verdict::Refused { current: Some(current) }) => Some(current),
            Reply::Campaigned(Campaigned { result: Ballots::Refused, version: Some(version), .. }) => {
                Some(version)
            }
            _ => return None,
        };
        Some((key, version.map_or(0, |v| v.write().generation), version.map(Version::id)))
    }

    /// An answer leaves a node: what it says goes into the book.
    pub fn write_into_book(&mut self, node: usize, attempt: usize, reply: &Reply) {
        let asked = &self.history.attempts[attempt];
        let (sent, now) = (asked.sent, self.now);
        let Asked::Register(about) = asked.asked.clone() else { return };
        if let Some((key, generation, current)) = self.shown_by(&about, reply) {
            let namespace = match &about {
                About::Read { namespace, .. } => *namespace,
                About::Write(id) | About::Verdict(id) => self.book.entries[id].signed.write().namespace,
                _ => self.founding.registers,
            };
            // A refused write that nothing stands against was forbidden: it shows nothing else.
            let said = Said { asked: sent, answered: now, generation, current };
            self.book.shown.entry((namespace, key)).or_default().push(said);
        }
        match (&about, reply) {
            (About::Write(id), Reply::Submitted(Submitted::Applied { .. }))
            | (About::Verdict(id), Reply::Verdict(Verdict::Applied { .. })) => {
                self.book.applied.entry(*id).or_insert(now);
                let durable = p3::is_chosen(self, *id, self.book.entries[id].signed.write());
                self.judge("P9 (registers)", durable);
            }
            (About::Write(id), Reply::Submitted(Submitted::Refused { .. } | Submitted::Fenced(_)))
            | (About::Verdict(id), Reply::Verdict(Verdict::Refused { .. } | Verdict::Fenced(_))) => {
                self.book.refused.insert(*id);
            }
            (
                About::Write(id),
                Reply::Campaigned(Campaigned { result: Ballots::Chosen { ballot, votes }, .. }),
            ) => {
                self.book.applied.entry(*id).or_insert(now);
                let durable = p3::is_chosen(self, *id, self.book.entries[id].signed.write());
                self.judge("P9 (registers)", durable);
                let entry = &self.book.entries[id];
                let signed = SignedWrite::clone(&entry.signed);
                self.proved(node, signed, &entry.value.clone(), *ballot, votes.clone());
            }
            (
                About::Read { .. },
                Reply::Observed(Observed {
                    version: Some(version), ballot: Some(ballot), votes, value, ..
                }),
            ) => {
                let signed = SignedWrite::clone(&version.signed);
                let value = value.as_slice().first().cloned().unwrap_or_default();
                self.proved(node, signed, &value, *ballot, votes.clone());
            }
            (About::Local, Reply::Versions(read)) => {
                for listed in &read.versions {
                    let chosen = p3::on_local_reply(self, node, &listed.version);
                    self.judge("P3 (local)", chosen);
                }
            }
            (About::Seal { key, term }, Reply::Sealed(Sealed { result: Ok(()), version, .. })) => {
                let generation = version.as_ref().map_or(0, |version| version.write().generation);
                self.book.seals.entry(key.clone()).or_default().push((generation, *term));
            }
            _ => {}
        }
    }

    /// A tenure with its votes: they prove it, and no other of its term.
    fn proved(
        &mut self,
        node: usize,
        signed: SignedWrite,
        value: &[u8],
        ballot: tanist::core::chain::Ballot,
        votes: Vec<tenure::SignedVote>,
    ) {
        let Ok(tenure) = Tenure::decode(value) else {
            self.book.broken.get_or_insert(format!("node {node} showed a tenure that does not decode"));
            return;
        };
        let (term, id) = (tenure.term.number, signed.id());
        let proof = TenureProof { signed, tenure, ballot, votes };
        if let Err(error) = prove(&proof, &self.config) {
            self.book
                .broken
                .get_or_insert(format!("node {node} showed a certificate that proves nothing: {error}"));
        }
        let first = *self.book.tenures.entry((resource(), term)).or_insert(id);
        if first != id {
            self.book.broken.get_or_insert(format!("term {term} has two tenures: {first:?} and {id:?}"));
        }
    }

    /// After healing: every register and the resource can be read, written and owned through some node,
    /// and everybody shows the same.
    pub fn progress_of_registers(&mut self) {
        if self.actors.is_empty() {
            return;
        }
        let client = self.options.clients;
        for actor in &mut self.actors {
            (actor.operation, actor.mine, actor.asleep_until) = (None, None, u64::MAX);
        }
        for key in (0..3).map(register) {
            let mut views = Vec::new();
            for node in 0..self.options.nodes {
                let namespace = self.founding.registers;
                let about = About::Read { namespace, key: key.clone() };
                let request = self.register_read(&key, false);
                let mut view = None;
                for _ in 0..8 {
                    let reply = self.call_as(client, node, about.clone(), &request);
                    if let Some(Reply::Versions(read)) = reply {
                        view = Some(read.versions.first().map(|listed| listed.version.id()));
                        break;
                    }
                    self.run_for(500);
                }
                let Some(view) = view else {
                    return self
                        .fail("progress", format!("node {node} does not answer a read of register {key}"));
                };
                views.push(view);
            }
            if views.windows(2).any(|pair| pair[0] != pair[1]) {
                return self.fail("P3", format!("register {key} is shown differently in peace: {views:?}"));
            }
        }
        // Leases of whoever died have run out by now.
        self.run_for(6_000);
        let node = self.dice.index(self.options.nodes);
        for _ in 0..10 {
            let (namespace, key) = (self.resources(), resource());
            let about = About::Read { namespace, key: key.clone() };
            let reply = self.call_as(client, node, about, &Observe { resource: key }.into());
            let Some(Reply::Observed(observed)) = reply else {
                self.run_for(500);
                continue;
            };
            let current = observed.version.map(|version| (version.write().generation, version.id()));
            let key = SecretKey::from_seed(&self.dice.bytes());
            let claim = Claim { current, key: Some(key.public()), ..self.claim(client) };
            let (write, tenure) = claim.write();
            let id = write.id();
            let proof = sign_one(&self.founding.client, write.cluster, id.into());
            let signed = Arc::new(SignedWrite::new(write, proof, None));
            let value = Bytes::from(tenure.encode());
            let entry = Entry { signed: Arc::clone(&signed), value: value.clone(), proof: None };
            self.book.entries.insert(id, entry);
            let value = [value].into_iter().collect();
            let campaign = Campaign { signed, tenure: None, afresh: false, value };
            let reply = self.call_as(client, node, About::Write(id), &campaign.into());
            if let Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. })) = reply {
                return;
            }
            self.run_for(1_000);
        }
        self.fail("progress", "nobody can be elected after healing".to_owned());
    }

    fn call_as(&mut self, client: usize, node: usize, about: About, request: &Request) -> Option<Reply> {
        let attempt = self.ask(client, node, Asked::Register(about), request);
        let end = self.now + 10_000;
        self.run_until(end, |world| world.history.attempts[attempt].answered.is_some());
        self.history.attempts[attempt].reply().cloned()
    }
}

fn fence_of(mine: &Mine) -> Fence {
    Fence { resource: resource(), term: mine.tenure.term, tenure: mine.claim.id() }
}
