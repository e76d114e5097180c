//! Three machines, a network that loses nothing, and a clock that moves by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::chain::{
    Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Mode, NamespacePolicy, Rights,
    SignedEntry, Voters,
};
use tanist::core::cluster::Configuration;
use tanist::core::hash::Hash;
use tanist::core::identity::{Incarnation, MemberId, SecretKey};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::verified::RootCache;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use tanist::engine::machine::Machine;
use tanist::engine::store::Batch;
use tanist::engine::{Effect, Identity, Input, Timing, arrival};
use tanist::storage::memory::Memory;
use tanist::storage::{CommitError, Store as _};
use tanist::wire::client::{OnConflict, Propose, Proposed, Read, Submit, Submitted};
use tanist::wire::peer::Envelope;
use tanist::wire::registry::{PeerMessage, Reply, Request};
use tanist::wire::values::Values;

use super::disk::Failing;

/// How long a batch waits that found no space.
const RETRY: u64 = 1_000;

pub struct Node {
    pub machine: Machine,
    pub store: Failing,
    pub config: Arc<Configuration>,
    pub batches: u64,
    /// Why it ended, if it did: from then on it takes nothing in and lets nothing out.
    pub ended: Option<String>,
    /// The batch that found no space, and when it is tried again.
    refused: Option<(Batch, u64)>,
}

pub struct Cluster {
    pub nodes: BTreeMap<MemberId, Node>,
    wire: VecDeque<(MemberId, MemberId, tanist::wire::frame::Frame)>,
    pub replies: BTreeMap<u64, Reply>,
    cache: RootCache,
    pub sent: u64,
    token: u64,
    pub admin: SecretKey,
    pub author: SecretKey,
    /// The clock of all nodes.
    pub now: u64,
    /// Nodes that get no messages and send none.
    pub cut: BTreeSet<MemberId>,
    /// What was lost because of that.
    pub dropped: Vec<(MemberId, MemberId, Envelope, PeerMessage)>,
    /// What becomes of messages between nodes, to break a rule.
    pub spoil: Option<Spoil>,
    /// Whether a node may end; otherwise that is a panic.
    pub may_end: bool,
    /// How often nodes were started again.
    starts: u64,
}

/// What reaches a node instead of a message: at a time, from a node, to a node with this store.
pub type Spoil = Box<dyn FnMut(u64, MemberId, (MemberId, &Memory), PeerMessage) -> Option<PeerMessage>>;

pub fn id(n: u8) -> MemberId {
    MemberId([n; 16])
}

impl Cluster {
    pub fn new() -> Self {
        let admin = SecretKey::from_seed(&[100; 32]);
        let author = SecretKey::from_seed(&[101; 32]);
        let members: Vec<Member> = (1..=3u8)
            .map(|n| Member {
                id: id(n),
                name: format!("node-{n}"),
                key: SecretKey::from_seed(&[n; 32]).public(),
                incarnation: Incarnation([n; 16]),
                zone: String::new(),
            })
            .collect();
        let all =
            Grant { author: Some(author.public()), namespace: None, prefix: vec![], rights: Rights::ALL };
        let voters = Voters {
            nonce: [7; 16],
            recovery: 0,
            electorate: members.iter().map(|m| m.id).collect(),
            members,
            replicas: 3,
            admins: vec![admin.public()],
            grants: vec![all],
        };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Voters,
            number: 1,
            previous: Hash([0; 32]),
            change: ConfigChange::Voters(voters),
        };
        let cluster = tanist::core::identity::ClusterId(entry.hash().0);
        let proof = sign_one(&admin, cluster, entry.hash());
        let genesis = Decided::genesis(SignedEntry { entry, admin: Some((admin.public(), proof)) });
        let nodes = (1..=3u8)
            .map(|n| {
                let store = Failing::default();
                let identity = identity(n, 0);
                let machine =
                    Machine::new(identity, genesis.clone(), Timing::default(), 0, 0, &store).unwrap();
                let config = Arc::clone(machine.config());
                (id(n), Node { machine, store, config, batches: 0, ended: None, refused: None })
            })
            .collect();
        let mut cluster = Cluster {
            nodes,
            wire: VecDeque::new(),
            replies: BTreeMap::new(),
            cache: RootCache::default(),
            sent: 0,
            token: 0,
            admin,
            author,
            now: 0,
            cut: BTreeSet::new(),
            dropped: Vec::new(),
            spoil: None,
            may_end: false,
            starts: 0,
        };
        for a in 1..=3 {
            for b in 1..=3 {
                if a != b {
                    cluster.input(id(a), Input::PeerUp(id(b)));
                }
            }
        }
        cluster.run();
        cluster
    }

    pub fn input(&mut self, at: MemberId, input: Input) {
        let node = self.nodes.get_mut(&at).unwrap();
        if node.ended.is_some() {
            return;
        }
        if let Err(error) = node.machine.step(self.now, input, &node.store) {
            self.end(at, error.to_string());
        }
    }

    /// A node ends, as its driver would end it.
    fn end(&mut self, member: MemberId, why: String) {
        assert!(self.may_end, "{member} ended: {why}");
        let node = self.nodes.get_mut(&member).unwrap();
        (node.ended, node.refused) = (Some(why), None);
        for other in [id(1), id(2), id(3)] {
            self.input(other, Input::PeerDown(member));
        }
    }

    /// Hands the next batch to the disk, or again the one that found no space.
    fn commit(&mut self, member: MemberId) -> bool {
        let node = self.nodes.get_mut(&member).unwrap();
        let again = node.refused.take();
        let batch = match again {
            Some((batch, retry)) if retry > self.now => {
                node.refused = Some((batch, retry));
                return false;
            }
            Some((batch, _)) => Some(batch),
            None => node.machine.close(),
        };
        let Some(batch) = batch else { return false };
        match node.store.commit(&batch) {
            Ok(()) => {
                node.batches += 1;
                node.machine.synced();
                self.input(member, Input::DiskFull(false));
            }
            Err(CommitError::DiskFull { .. }) => {
                node.refused = Some((batch, self.now + RETRY));
                self.input(member, Input::DiskFull(true));
            }
            Err(error) => self.end(member, error.to_string()),
        }
        true
    }

    /// Syncs and delivers until nothing moves.
    pub fn run(&mut self) {
        loop {
            let mut moved = false;
            for member in [id(1), id(2), id(3)] {
                if self.nodes[&member].ended.is_some() {
                    continue;
                }
                moved |= self.commit(member);
                if self.nodes[&member].ended.is_some() {
                    continue;
                }
                let mut forgot = None;
                let released = self.nodes.get_mut(&member).unwrap().machine.released();
                for effect in released {
                    moved = true;
                    match effect {
                        Effect::Send { to, envelope, message } => {
                            if self.cut.contains(&member) || self.cut.contains(&to) {
                                self.dropped.push((member, to, envelope, message));
                                continue;
                            }
                            self.sent += 1;
                            let message = match &mut self.spoil {
                                Some(spoil) => {
                                    spoil(self.now, member, (to, &self.nodes[&to].store.memory), message)
                                }
                                None => Some(message),
                            };
                            let frame = message.map(|message| (member, to, message.encode(envelope)));
                            self.wire.extend(frame);
                        }
                        Effect::Reply { token, reply } => {
                            self.replies.insert(token, reply);
                        }
                        Effect::Configured(config) => self.nodes.get_mut(&member).unwrap().config = config,
                        Effect::Forgot { why } => forgot = Some(why),
                        other => panic!("{other:?}"),
                    }
                }
                if let Some(why) = forgot {
                    self.end(member, why);
                }
            }
            while let Some((from, to, frame)) = self.wire.pop_front() {
                moved = true;
                let node = &self.nodes[&to];
                if node.ended.is_some() {
                    continue;
                }
                let checked = arrival::message(frame, from, &node.config, &self.cache).unwrap();
                assert!(self.may_end || checked.rejected.is_empty(), "{:?}", checked.rejected);
                for input in checked.inputs {
                    self.input(to, input);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass on all nodes.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now = (self.now + 10).min(end);
            for member in [id(1), id(2), id(3)] {
                if self.nodes[&member].machine.next_tick() <= self.now {
                    self.input(member, Input::Tick);
                }
            }
            self.run();
        }
    }

    /// A node loses what is not synced, and starts again.
    pub fn restart(&mut self, member: MemberId) {
        let genesis = Decided::clone(&self.nodes[&member].config.entries(Chain::Voters)[0]);
        let node = self.nodes.get_mut(&member).unwrap();
        let identity = identity(member.0[0], 1 + self.token);
        let last = node.store.last_batch();
        node.machine =
            Machine::new(identity, genesis, Timing::default(), self.now, last, &node.store).unwrap();
        for peer in [id(1), id(2), id(3)].into_iter().filter(|peer| *peer != member) {
            self.input(member, Input::PeerUp(peer));
        }
        self.run();
    }

    /// A node starts on what is durable, and on `keep` of the batches that may or may not be. Says whether
    /// it runs.
    pub fn revive(&mut self, member: MemberId, keep: usize) -> bool {
        self.starts += 1;
        let genesis = Decided::clone(&self.nodes[&member].config.entries(Chain::Voters)[0]);
        let node = self.nodes.get_mut(&member).unwrap();
        node.store.memory.crash(keep);
        let identity = identity(member.0[0], (self.starts << 32) + self.token);
        let last = node.store.last_batch();
        let started = Machine::new(identity, genesis, Timing::default(), self.now, last, &node.store);
        node.refused = None;
        node.ended = started.as_ref().err().map(ToString::to_string);
        let Ok(machine) = started else { return false };
        node.machine = machine;
        for other in [id(1), id(2), id(3)].into_iter().filter(|other| *other != member) {
            self.input(other, Input::PeerDown(member));
            if self.nodes[&other].ended.is_none() {
                self.input(member, Input::PeerUp(other));
                self.input(other, Input::PeerUp(member));
            }
        }
        self.run();
        self.nodes[&member].ended.is_none()
    }

    pub fn start(&mut self, at: MemberId, request: impl Into<Request>, key: &SecretKey) -> u64 {
        self.token += 1;
        let token = self.token;
        let node = self.nodes.get_mut(&at).unwrap();
        match arrival::request(request.into().encode(), key.public(), &node.config, &self.cache) {
            Ok(request) => self.input(at, Input::Request { token, request }),
            Err(failure) => {
                self.replies.insert(token, failure.into());
            }
        }
        token
    }

    pub fn ask(&mut self, at: MemberId, request: impl Into<Request>) -> Reply {
        let author = self.author.clone();
        let token = self.start(at, request, &author);
        self.run();
        // What met another ballot tries again after a pause.
        for _ in 0..500 {
            if self.replies.contains_key(&token) {
                break;
            }
            self.pass(10);
        }
        self.replies.remove(&token).expect("an answer")
    }

    /// As [`ask`](Self::ask); `None` if the node ends first.
    pub fn try_ask(&mut self, at: MemberId, request: impl Into<Request>) -> Option<Reply> {
        let author = self.author.clone();
        let token = self.start(at, request, &author);
        self.run();
        for _ in 0..600 {
            if self.replies.contains_key(&token) || self.nodes[&at].ended.is_some() {
                break;
            }
            self.pass(10);
        }
        let reply = self.replies.remove(&token);
        assert!(reply.is_some() || self.nodes[&at].ended.is_some(), "{at} lives and does not answer");
        reply
    }

    pub fn namespace(&mut self, name: &str) -> NamespaceId {
        self.namespace_of(name, Mode::Siblings, None)
    }

    /// A namespace in a mode, owned by a resource if one is named.
    pub fn namespace_of(&mut self, name: &str, mode: Mode, owned_by: Option<&str>) -> NamespaceId {
        let policy = NamespacePolicy { name: name.parse().unwrap(), mode, write_quorum: None };
        let change = match owned_by {
            None => ConfigChange::CreateNamespace(policy),
            Some(resource) => ConfigChange::CreateOwnedNamespace(policy, Key::try_from(resource).unwrap()),
        };
        NamespaceId(self.change(change).0)
    }

    /// Changes the policy; the entry's hash comes back.
    pub fn change(&mut self, change: ConfigChange) -> Hash {
        let signed = self.policy(change);
        let hash = signed.entry.hash();
        let reply = self.ask(MemberId([2; 16]), Propose { signed });
        assert_eq!(reply, Reply::Proposed(Proposed::Chosen));
        hash
    }

    /// The next entry of the policy.
    pub fn policy(&self, change: ConfigChange) -> SignedEntry {
        let configs = self.nodes.values().map(|node| &node.config);
        let config = configs.max_by_key(|config| config.length(Chain::Policy)).unwrap();
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: config.length(Chain::Policy) + 1,
            previous: config.head(Chain::Policy),
            change,
        };
        let proof = sign_one(&self.admin, config.cluster(), entry.hash());
        SignedEntry { entry, admin: Some((self.admin.public(), proof)) }
    }

    /// Delivers a message as if `from` had sent it to `to`.
    pub fn deliver(&mut self, from: MemberId, to: MemberId, envelope: Envelope, message: &PeerMessage) {
        self.wire.push_back((from, to, message.encode(envelope)));
        self.run();
    }

    pub fn write(
        &self,
        namespace: NamespaceId,
        key: &str,
        value: &str,
        parents: &[(u64, WriteId)],
    ) -> Submit {
        let cluster = self.nodes[&id(1)].config.cluster();
        let mut ids: Vec<WriteId> = parents.iter().map(|(_, id)| *id).collect();
        ids.sort();
        let write = Write {
            format: WRITE_FORMAT,
            cluster,
            namespace,
            key: Key::try_from(key).unwrap(),
            epoch: 1,
            generation: 1 + parents.iter().map(|(g, _)| *g).max().unwrap_or(0),
            parents: ids,
            body: Body::put(value.as_bytes()),
            author: self.author.public(),
            nonce: Hash::of_value(value.as_bytes()).0[..16].try_into().unwrap(),
            fence: None,
            wall_ms: 0,
        };
        let proof = sign_one(&self.author, cluster, write.id().into());
        Submit {
            signed: Arc::new(SignedWrite::new(write, proof, None)),
            on_conflict: OnConflict::Refuse,
            presented: vec![],
            tenure: None,
            value: [Bytes::copy_from_slice(value.as_bytes())].into_iter().collect(),
        }
    }

    /// The same request with another write, signed by the author.
    pub fn resigned(&self, submit: Submit, write: Write) -> Submit {
        let value = match write.body {
            Body::Put { .. } => submit.value,
            Body::Delete => Values::none(),
        };
        let proof = sign_one(&self.author, write.cluster, write.id().into());
        Submit { signed: Arc::new(SignedWrite::new(write, proof, None)), value, ..submit }
    }

    pub fn live(&mut self, at: MemberId, namespace: NamespaceId, key: &str) -> Vec<(u64, WriteId)> {
        let key = Key::try_from(key).unwrap();
        match self.ask(at, Read { namespace, key, local: false, history: false }) {
            Reply::Versions(v) => {
                v.versions.iter().map(|l| (l.version.write().generation, l.version.id())).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn identity(n: u8, first_operation: u64) -> Identity {
    Identity {
        member: id(n),
        incarnation: Incarnation([n; 16]),
        key: SecretKey::from_seed(&[n; 32]),
        software: "test".to_owned(),
        first_operation,
    }
}

pub fn applied(reply: Reply) -> Vec<WriteId> {
    match reply {
        Reply::Submitted(Submitted::Applied { siblings, .. }) => siblings,
        other => panic!("not applied: {other:?}"),
    }
}
