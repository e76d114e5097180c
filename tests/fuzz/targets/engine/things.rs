//! What liars have to speak about: keys, ids, ballots, writes, stamps, states. Genuine ones more often
//! than others, since what is senseless is refused at the door.

use std::sync::Arc;

use bytes::Bytes;
use tanist::core::chain::{Ballot, Chain, ConfigChange, ENTRY_FORMAT, Entry, Grant, Mode, SignedEntry};
use tanist::core::chain::{NamespacePolicy, Rights};
use tanist::core::events::{Past, Range};
use tanist::core::hash::Hash;
use tanist::core::identity::{ActorId, SecretKey, Signature};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::register::{Bound, RegisterState};
use tanist::core::signature::sign_one;
use tanist::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use tanist::core::tenure::{Claim, TenureProof, sign_fence};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Body, Fence, Term, WRITE_FORMAT, Write, WriteId};
use tanist::wire::values::Values;

use super::house::{House, NODE};
use super::node::Node;
use crate::targets::source::Source;

/// What was made so far.
pub struct Things {
    pub house: &'static House,
    /// Signed writes and their values: the house's, then those made on the way.
    writes: Vec<(Arc<SignedWrite>, Vec<u8>)>,
    nonce: u8,
}

/// Writes that are remembered.
const WRITES: usize = 64;

impl Things {
    pub fn new() -> Self {
        let house = House::get();
        Things { house, writes: house.writes.clone(), nonce: 0 }
    }

    pub fn client(&self, source: &mut Source<'_>) -> SecretKey {
        let House { author, admin, reader, stranger, tenure_key, .. } = self.house;
        let all = [author, author, author, admin, reader, stranger, tenure_key];
        SecretKey::clone(source.pick(&all).copied().unwrap_or(author))
    }

    pub fn namespace(&self, source: &mut Source<'_>) -> NamespaceId {
        source.pick(&self.house.namespaces).copied().unwrap_or(self.house.namespaces[0])
    }

    pub fn key(&self, source: &mut Source<'_>) -> Key {
        source.pick(&self.house.keys).cloned().unwrap_or_else(|| self.house.keys[0].clone())
    }

    pub fn written(&self, source: &mut Source<'_>) -> (Arc<SignedWrite>, Vec<u8>) {
        source.pick(&self.writes).cloned().unwrap_or_else(|| self.writes[0].clone())
    }

    pub fn id(&self, source: &mut Source<'_>) -> WriteId {
        if source.rarely() { WriteId(source.array()) } else { self.written(source).0.id() }
    }

    pub fn ids(&self, source: &mut Source<'_>, most: usize) -> Vec<WriteId> {
        (0..source.below(most + 1)).map(|_| self.id(source)).collect()
    }

    pub fn pairs(&self, source: &mut Source<'_>) -> Vec<(WriteId, WriteId)> {
        (0..source.below(4)).map(|_| (self.id(source), self.id(source))).collect()
    }

    pub fn actor(&self, source: &mut Source<'_>) -> ActorId {
        match source.below(8) {
            7 => ActorId(source.array()),
            n => {
                let member = [NODE, 2, 3][n % 3];
                ActorId::new(self.house.cluster, House::member(member), House::incarnation(member))
            }
        }
    }

    pub fn ballot(&self, source: &mut Source<'_>) -> Ballot {
        let config_epoch = if source.rarely() { source.number() } else { 1 };
        Ballot { config_epoch, counter: source.number(), actor: self.actor(source) }
    }

    pub fn signature(&self, source: &mut Source<'_>) -> Signature {
        Signature([source.byte(); 64])
    }

    fn past(&self, source: &mut Source<'_>) -> Past {
        let mut past = Past::new();
        for _ in 0..source.below(4) {
            past.insert(self.actor(source), Range { after: source.number(), upto: source.number() });
        }
        past
    }

    /// A stamp that a member signed for itself, and now and then for somebody else.
    pub fn stamp(&self, source: &mut Source<'_>, write: &SignedWrite) -> Arc<SignedStamp> {
        let signer = [2, 3, NODE][source.below(3)];
        // The node under test signs only what it stamps itself.
        let key = if signer == NODE { self.house.stranger.clone() } else { House::member_key(signer) };
        let actor = match source.rarely() {
            true => self.actor(source),
            false => ActorId::new(self.house.cluster, House::member(signer), House::incarnation(signer)),
        };
        let previous = source.number();
        let revision = self.house.config.length(Chain::Policy);
        let stamp = Stamp {
            format: STAMP_FORMAT,
            cluster: self.house.cluster,
            object: write.write().object(),
            write: write.id(),
            config_epoch: if source.rarely() { source.number() } else { 1 },
            policy_revision: if source.rarely() { source.number() } else { revision },
            actor,
            previous,
            counter: previous.saturating_add(1 + u64::from(source.byte())),
            past: self.past(source),
        };
        let proof = sign_one(&key, self.house.cluster, stamp.hash());
        Arc::new(SignedStamp::new(stamp, proof))
    }

    pub fn stamps(&self, source: &mut Source<'_>, write: &SignedWrite) -> Vec<Arc<SignedStamp>> {
        (0..source.below(4)).map(|_| self.stamp(source, write)).collect()
    }

    pub fn version(&mut self, source: &mut Source<'_>) -> (Version, Bytes) {
        let (signed, value) = self.any_write(source);
        let mut stamps = Stamps::default();
        for _ in 0..=source.below(3) {
            stamps.insert(self.stamp(source, &signed));
        }
        (Version { signed, stamps }, self.value(source, value))
    }

    /// The value of a write, or another one.
    pub fn value(&self, source: &mut Source<'_>, genuine: Vec<u8>) -> Bytes {
        if source.rarely() { source.bytes(32).into() } else { genuine.into() }
    }

    /// A write that is known or a new one.
    fn any_write(&mut self, source: &mut Source<'_>) -> (Arc<SignedWrite>, Vec<u8>) {
        if source.coin() {
            return self.written(source);
        }
        let author = self.client(source);
        self.new_write(source, &author)
    }

    /// A write that `author` signs.
    pub fn new_write(&mut self, source: &mut Source<'_>, author: &SecretKey) -> (Arc<SignedWrite>, Vec<u8>) {
        let (namespace, key) = (self.namespace(source), self.key(source));
        let mut parents = self.ids(source, 2);
        parents.sort();
        parents.dedup();
        let known = |id: &WriteId| self.writes.iter().find(|(signed, _)| signed.id() == *id);
        let highest = parents.iter().filter_map(known).map(|(signed, _)| signed.write().generation).max();
        let generation = match (parents.is_empty(), source.rarely()) {
            (true, _) => 1,
            (false, true) => source.number().max(2),
            (false, false) => highest.unwrap_or(1).saturating_add(1),
        };
        let value = source.bytes(24);
        let fenced = source.below(3) == 0;
        let write = Write {
            format: WRITE_FORMAT,
            cluster: self.house.cluster,
            namespace,
            key,
            epoch: if source.rarely() { source.number() } else { 1 },
            generation,
            parents,
            body: if source.below(8) == 7 { Body::Delete } else { Body::put(&value) },
            author: author.public(),
            nonce: [self.next_nonce(); 16],
            fence: fenced.then(|| self.fence(source)),
            wall_ms: source.number(),
        };
        let value = if write.is_delete() { Vec::new() } else { value };
        let id = write.id();
        let fence = fenced.then(|| sign_fence(&self.house.tenure_key, self.house.cluster, id));
        let proof = sign_one(author, self.house.cluster, id.into());
        let signed = Arc::new(SignedWrite::new(write, proof, fence));
        self.keep(&signed, &value);
        (signed, value)
    }

    /// A write that makes somebody the owner of a resource, or ends the tenure.
    pub fn claim(&mut self, source: &mut Source<'_>, author: &SecretKey) -> (Arc<SignedWrite>, Vec<u8>) {
        let proof = &self.house.proof;
        let claim = Claim {
            cluster: self.house.cluster,
            resource: self.key(source),
            current: source.coin().then(|| (proof.tenure.term.number, proof.signed.id())),
            recovery: if source.rarely() { u32::MAX } else { 0 },
            key: source.coin().then(|| self.house.tenure_key.public()),
            lease_ms: *source.pick(&[1_000, 2_000, 300_000, 0, u32::MAX]).expect("leases"),
            epoch: 1,
            author: author.public(),
            nonce: [self.next_nonce(); 16],
            wall_ms: 0,
        };
        let (write, tenure) = claim.write();
        let id = write.id();
        let fence = write.fence.is_some().then(|| sign_fence(&self.house.tenure_key, self.house.cluster, id));
        let signed = SignedWrite::new(write, sign_one(author, self.house.cluster, id.into()), fence);
        let signed = Arc::new(signed);
        self.keep(&signed, &tenure.encode());
        (signed, tenure.encode())
    }

    fn next_nonce(&mut self) -> u8 {
        self.nonce = self.nonce.wrapping_add(1);
        self.nonce
    }

    fn keep(&mut self, signed: &Arc<SignedWrite>, value: &[u8]) {
        if self.writes.len() < WRITES {
            self.writes.push((Arc::clone(signed), value.to_vec()));
        }
    }

    pub fn fence(&self, source: &mut Source<'_>) -> Fence {
        let genuine = self.house.fence();
        if !source.rarely() {
            return genuine;
        }
        Fence { resource: self.key(source), term: self.term(source), tenure: self.id(source) }
    }

    fn term(&self, source: &mut Source<'_>) -> Term {
        Term { recovery: u32::from(source.rarely()), number: source.number() }
    }

    pub fn proof(&self, source: &mut Source<'_>) -> Option<Arc<TenureProof>> {
        match source.byte() {
            0..=99 => None,
            100..=239 => Some(Arc::clone(&self.house.proof)),
            _ => {
                let mut proof = TenureProof::clone(&self.house.proof);
                proof.ballot = self.ballot(source);
                proof.votes.truncate(source.below(4));
                Some(Arc::new(proof))
            }
        }
    }

    /// A state of a register that its own check takes, and the values that go with it.
    pub fn state(&mut self, source: &mut Source<'_>) -> (RegisterState, Values) {
        let bound =
            source.coin().then(|| Bound { resource: self.house.keys[2].clone(), term: self.term(source) });
        if source.below(4) == 0 {
            return (RegisterState { bound, ..RegisterState::default() }, Values::none());
        }
        let (mut version, value) = self.version(source);
        // One stamp, as a chosen state has.
        let first = version.stamps.iter().next().cloned();
        version.stamps = Stamps::default();
        if let Some(stamp) = first {
            version.stamps.insert(stamp);
        }
        let generation = version.write().generation;
        let most = generation.min(32);
        let mut recent = vec![version.id()];
        recent.extend((1..most).map(|_| self.id(source)));
        let mut void: Vec<(u64, WriteId)> = (0..source.below(3))
            .map(|_| (generation.saturating_add(source.number().max(1)), self.id(source)))
            .collect();
        void.sort();
        void.dedup();
        let state = RegisterState { generation, version: Some(version), bound, recent, void };
        (state, [value].into_iter().collect())
    }

    /// The next entry of a chain, or another one.
    pub fn entry(&self, source: &mut Source<'_>, node: &Node) -> SignedEntry {
        let config = &node.config;
        let chain = self.chain(source);
        let rarely = source.rarely();
        let house = self.house;
        let change = match (chain, source.below(6)) {
            (Chain::WriteEpochs, _) => ConfigChange::AdvanceEpoch,
            (Chain::Voters, _) => house.genesis.signed.entry.change.clone(),
            (Chain::Policy, 0) => ConfigChange::DropNamespace(self.namespace(source)),
            (Chain::Policy, 1) => ConfigChange::AddGrant(self.grant(source)),
            (Chain::Policy, 2) => ConfigChange::RemoveGrant(self.grant(source)),
            (Chain::Policy, n) => {
                let mode = if n == 3 { Mode::Siblings } else { Mode::Linearizable };
                let name = ["new", "carts", "other"][source.below(3)].parse().expect("a name");
                let write_quorum = source.coin().then(|| source.byte());
                let policy = NamespacePolicy { name, mode, write_quorum };
                match n {
                    5 => ConfigChange::CreateOwnedNamespace(policy, self.key(source)),
                    _ => ConfigChange::CreateNamespace(policy),
                }
            }
        };
        let number = config.length(chain) + 1;
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain,
            number: if rarely { source.number() } else { number },
            previous: if source.rarely() { Hash(source.array()) } else { config.head(chain) },
            change,
        };
        let signer = if source.rarely() { &house.stranger } else { &house.admin };
        let admin = (chain != Chain::WriteEpochs || source.rarely())
            .then(|| (signer.public(), sign_one(signer, house.cluster, entry.hash())));
        SignedEntry { entry, admin }
    }

    pub fn chain(&self, source: &mut Source<'_>) -> Chain {
        Chain::ALL[source.below(3)]
    }

    fn grant(&self, source: &mut Source<'_>) -> Grant {
        let who = [&self.house.author, &self.house.reader, &self.house.stranger][source.below(3)];
        Grant {
            author: source.coin().then(|| who.public()),
            namespace: source.coin().then(|| self.namespace(source)),
            prefix: source.bytes(4),
            rights: [Rights::ALL, Rights::READ, Rights::WRITE, Rights::ELECT][source.below(4)],
        }
    }
}
