//! Clients: what they read, what they write, and how often they send the same write.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tanist::client::attempt::{Action, Attempts, Heard, Pace, Verdict};
use tanist::core::object::Key;
use tanist::core::signature::sign_one;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use tanist::wire::client::{AskOutcome, List, OnConflict, Read, Submit};
use tanist::wire::registry::{Reply, Request};
use tanist::wire::values::Values;

use super::checks::p10;
use super::founding::member_id;
use super::history::{Asked, Prepared};
use super::world::{Event, World};

/// A version as a client remembers it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its id.
    pub id: WriteId,
    /// Its generation.
    pub generation: u64,
    /// Its stamps.
    pub stamps: Vec<Arc<SignedStamp>>,
}

/// One request of a client, with the SDK's machine that tries it at several nodes.
struct Operation {
    attempts: Attempts,
    request: Request,
    asked: Asked,
    /// Requests under way, and the node of each.
    sent: BTreeMap<usize, usize>,
    wake_at: u64,
}

/// How an operation ended for the application, by the SDK's word.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The write.
    pub write: WriteId,
    /// The attempts that were made of it.
    pub attempts: Vec<usize>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A client.
pub struct Client {
    /// It has no right to do anything.
    pub stranger: bool,
    /// What was read of each key, the newest reading last.
    readings: BTreeMap<Key, Vec<Vec<Seen>>>,
    /// Its writes, the newest last.
    writes: Vec<WriteId>,
    operation: Option<Operation>,
    /// What became of its writes.
    pub ended: Vec<Ended>,
}

impl Client {
    /// A client that knows nothing yet.
    pub fn new() -> Self {
        Client {
            stranger: false,
            readings: BTreeMap::new(),
            writes: Vec::new(),
            operation: None,
            ended: Vec::new(),
        }
    }

    fn reading(&self, key: &Key) -> Option<&Vec<Seen>> {
        self.readings.get(key)?.last()
    }
}

impl World {
    /// Signs a write of `key` that replaces `parents`.
    pub fn prepare(
        &mut self,
        key: &Key,
        parents: &[Seen],
        value: Option<Bytes>,
        on_conflict: OnConflict,
    ) -> Prepared {
        let author = &self.founding.client;
        let mut ids: Vec<WriteId> = parents.iter().map(|seen| seen.id).collect();
        ids.sort();
        ids.dedup();
        let nonce = self.dice.bytes();
        let write = Write {
            format: WRITE_FORMAT,
            cluster: self.founding.cluster,
            namespace: self.founding.namespace,
            key: key.clone(),
            epoch: self.config.write_epoch(),
            generation: 1 + parents.iter().map(|seen| seen.generation).max().unwrap_or(0),
            parents: ids,
            body: value.as_ref().map_or(Body::Delete, |value| Body::put(value)),
            author: author.public(),
            nonce,
            fence: None,
            wall_ms: p10::wild_clock(nonce),
        };
        let proof = sign_one(author, self.founding.cluster, write.id().into());
        let prepared = Prepared {
            signed: Arc::new(SignedWrite::new(write, proof, None)),
            value: value.unwrap_or_default(),
            presented: parents.iter().flat_map(|seen| seen.stamps.iter().cloned()).collect(),
            on_conflict,
        };
        self.history.add(prepared.clone());
        prepared
    }

    /// The request that submits a write.
    pub fn submission(prepared: &Prepared) -> Request {
        let mut value = Values::none();
        if !prepared.signed.write().is_delete() {
            value.push(prepared.value.clone());
        }
        Request::from(Submit {
            signed: Arc::clone(&prepared.signed),
            on_conflict: prepared.on_conflict,
            presented: prepared.presented.clone(),
            tenure: None,
            value,
        })
    }

    /// The request that reads a key.
    pub fn reading(&self, key: &Key, local: bool) -> Request {
        Request::from(Read { namespace: self.founding.namespace, key: key.clone(), local, history: false })
    }

    /// A client looks what to do.
    pub fn act(&mut self, index: usize) {
        if let Some(operation) = self.clients[index].operation.as_mut() {
            if self.now >= operation.wake_at {
                let actions = operation.attempts.on_tick(self.now);
                self.carry_out(index, actions);
            }
            return;
        }
        if self.unsafe_phase {
            self.choose(index);
        }
    }

    fn choose(&mut self, index: usize) {
        let key = World::key(self.dice.index(self.options.keys));
        let known = self.clients[index].reading(&key).cloned();
        let Some(known) = known else { return self.begin_read(index, &key, false) };
        let keep = OnConflict::KeepBoth;
        let roll = self.dice.range(0, 99);
        match roll {
            0..=19 => self.begin_read(index, &key, false),
            20..=22 => self.begin_read(index, &key, true),
            23..=27 => self.begin_write(index, &key, &[], true, OnConflict::Refuse),
            28..=44 => self.begin_write(index, &key, &known, true, OnConflict::Refuse),
            45..=58 => self.begin_write(index, &key, &known, true, keep),
            59..=66 => {
                let some: Vec<Seen> = known.iter().filter(|_| self.dice.chance(50)).cloned().collect();
                self.begin_write(index, &key, &some, true, keep);
            }
            67..=70 => self.begin_write(index, &key, &known, false, OnConflict::Refuse),
            71..=76 => {
                let old = self.clients[index].readings[&key].clone();
                let old = self.dice.pick(&old).clone();
                self.begin_write(index, &key, &old, true, keep);
            }
            77..=90 => self.repeat(index),
            91..=96 => self.begin_outcome(index),
            _ => {
                let list = List {
                    namespace: self.founding.namespace,
                    prefix: Vec::new(),
                    after: None,
                    limit: 10,
                    conflicts: self.dice.chance(50),
                };
                self.begin(index, Asked::Other, Request::from(list), &key);
            }
        }
    }

    fn begin_read(&mut self, index: usize, key: &Key, local: bool) {
        let request = self.reading(key, local);
        self.begin(index, Asked::Read { key: key.clone(), local }, request, key);
    }

    fn begin_write(&mut self, index: usize, key: &Key, parents: &[Seen], put: bool, on_conflict: OnConflict) {
        let text = format!("{} of client {index} at {}", self.history.writes.len(), self.now);
        let prepared = self.prepare(key, parents, put.then(|| text.into()), on_conflict);
        self.clients[index].writes.push(prepared.id());
        self.coverage.writes += 1;
        if self.dice.chance(15) {
            // The same bytes through several nodes at once, and nobody waits for the answers.
            for node in 0..self.options.nodes {
                if self.dice.chance(60) {
                    self.ask(index, node, Asked::Submit(prepared.id()), &World::submission(&prepared));
                    self.coverage.repeats += 1;
                }
            }
        }
        self.begin(index, Asked::Submit(prepared.id()), World::submission(&prepared), key);
    }

    /// Sends one of the client's writes again, perhaps long after it was built upon.
    fn repeat(&mut self, index: usize) {
        if self.clients[index].writes.is_empty() {
            return self.sleep(index);
        }
        let id = *self.dice.pick(&self.clients[index].writes);
        let Some(prepared) = self.history.writes.get(&id).cloned() else { return };
        let key = prepared.key().clone();
        self.coverage.repeats += 1;
        self.begin(index, Asked::Submit(id), World::submission(&prepared), &key);
    }

    fn begin_outcome(&mut self, index: usize) {
        if self.clients[index].writes.is_empty() {
            return self.sleep(index);
        }
        let write = *self.dice.pick(&self.clients[index].writes);
        let Some(prepared) = self.history.writes.get(&write) else { return };
        let key = prepared.key().clone();
        let ask = AskOutcome { namespace: self.founding.namespace, key: key.clone(), write };
        self.begin(index, Asked::Outcome(write), Request::from(ask), &key);
    }

    fn begin(&mut self, index: usize, asked: Asked, request: Request, key: &Key) {
        let mut order = self.replicas(key);
        if self.dice.chance(60) {
            order = (0..self.options.nodes).collect();
            self.dice.shuffle(&mut order);
        }
        let order = order.into_iter().map(member_id);
        let pace = Pace::default();
        let mut attempts = match asked {
            Asked::Submit(_) => Attempts::write(order, pace),
            _ => Attempts::read(order, pace),
        };
        let actions = attempts.start(self.now);
        let operation = Operation { attempts, request, asked, sent: BTreeMap::new(), wake_at: u64::MAX };
        self.clients[index].operation = Some(operation);
        self.carry_out(index, actions);
    }

    fn carry_out(&mut self, index: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node } => {
                    let node = usize::from(node.0[0]) - 1;
                    let Some(operation) = &self.clients[index].operation else { return };
                    let (asked, request) = (operation.asked.clone(), operation.request.clone());
                    let attempt = self.ask(index, node, asked, &request);
                    if let Some(operation) = &mut self.clients[index].operation {
                        operation.sent.insert(attempt, node);
                    }
                }
                Action::WakeAt(at) => {
                    if let Some(operation) = &mut self.clients[index].operation {
                        operation.wake_at = at;
                    }
                    self.after(at.saturating_sub(self.now), Event::Client { client: index });
                }
                Action::Done(verdict) => self.finish(index, *verdict),
            }
        }
    }

    fn finish(&mut self, index: usize, verdict: Verdict) {
        let Some(operation) = self.clients[index].operation.take() else { return };
        let verdict = super::faults::rewrite_verdict(self.plant, verdict);
        self.note(|| format!("client {index} is done with {:?}: {verdict:?}", operation.asked));
        self.coverage.verdict(&operation.asked, &verdict);
        if let Asked::Submit(write) = operation.asked {
            let attempts = operation.sent.into_keys().collect();
            self.clients[index].ended.push(Ended { write, attempts, verdict });
        }
        self.sleep(index);
    }

    fn sleep(&mut self, index: usize) {
        let pause = self.dice.range(1, self.options.pause_ms);
        self.after(pause, Event::Client { client: index });
    }

    /// An answer came, or the connection went.
    pub fn heard(&mut self, attempt: usize, reply: Option<Reply>) {
        let asked = &self.history.attempts[attempt];
        if asked.client >= self.options.clients && matches!(asked.asked, Asked::Register(_)) {
            return self.register_heard(attempt, reply);
        }
        let (index, node, asked) = (asked.client, asked.node, asked.asked.clone());
        let Some(client) = self.clients.get_mut(index) else { return };
        if let (Some(reply), Some(key)) = (&reply, self.history.key_of(&asked)) {
            learn(client, &key, reply);
        }
        let Some(operation) = &mut client.operation else { return };
        if !operation.sent.contains_key(&attempt) {
            return;
        }
        let heard = reply.map_or_else(|| Heard::Lost("gone".into()), |reply| Heard::Reply(Box::new(reply)));
        let actions = operation.attempts.on_reply(member_id(node), heard, self.now);
        self.carry_out(index, actions);
    }
}

/// What a client remembers of an answer.
fn learn(client: &mut Client, key: &Key, reply: &Reply) {
    let seen = match reply {
        Reply::Versions(read) => {
            let live = read.versions.iter().filter(|listed| listed.live);
            live.map(|listed| see(&listed.version)).collect()
        }
        Reply::Submitted(tanist::wire::client::Submitted::Refused { current: Some(current) }) => {
            current.iter().map(see).collect()
        }
        _ => return,
    };
    client.readings.entry(key.clone()).or_default().push(seen);
}

/// A version as a client remembers it.
pub fn see(version: &tanist::core::version::Version) -> Seen {
    let stamps = version.stamps.iter().cloned().collect();
    Seen { id: version.id(), generation: version.write().generation, stamps }
}
