//! The gate: nothing enters a replica unless it passed here (P8).
//!
//! Only this file makes a [`Verified`]. Signatures, membership, the author's right and the value's
//! hash are checked on every way in, whoever carries it: a client, a peer's replication, a repair.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::certificate::{NotProven, Proven, prove};
use super::chain::{Chain, Mode, Rights};
use super::cluster::Configuration;
use super::hash::Hash;
use super::identity::{ClusterId, PublicKey, Signature};
use super::limits;
use super::object::{Key, NamespaceId, ObjectId};
use super::register::RegisterState;
use super::signature::Proof;
use super::stamp::{SignedStamp, Stamp};
use super::tenure::{NotATenure, Renewal, Seal, Tenure, TenureProof, check_tenure, verifies_fence};
use super::version::{SignedWrite, Version};
use super::write::{Fence, Write, WriteId};

/// A value that passed the gate, and the configuration it was judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T> {
    value: T,
    policy_revision: u64,
}

impl<T> Verified<T> {
    fn new(value: T, config: &Configuration) -> Self {
        Verified { value, policy_revision: config.policy().revision() }
    }

    /// What was verified.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// A part of what was verified, judged by the same configuration.
    pub fn map<U>(verified: &Verified<T>, part: impl FnOnce(&T) -> U) -> Verified<U> {
        Verified { value: part(&verified.value), policy_revision: verified.policy_revision }
    }

    /// What was verified, by value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The policy revision that was the newest when it was verified. A right that has to hold *now*
    /// is judged again if there is a newer one.
    pub fn policy_revision(&self) -> u64 {
        self.policy_revision
    }
}

/// What a client submits: a signed write, its value, and stamps of the parents it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// What the author signed.
    pub signed: Arc<SignedWrite>,
    /// The value it announces; empty for a deletion.
    pub value: Bytes,
    /// Stamps of its parents, for a node that does not hold them.
    pub presented: Vec<Arc<SignedStamp>>,
}

/// What a candidate submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    /// The write that makes the tenure, and its value.
    pub submission: Submission,
    /// The tenure.
    pub tenure: Tenure,
}

/// A version with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The version, with at least one stamp.
    pub version: Version,
    /// Its value; empty for a deletion.
    pub value: Bytes,
}

/// A register's state with the value of its version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The state.
    pub state: RegisterState,
    /// The value of its version; empty for a deletion, and without a version.
    pub value: Bytes,
}

/// Why something did not pass the gate. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It was made for another cluster.
    #[error("made for another cluster")]
    Cluster,
    /// The author's signature is not one over this write.
    #[error("the author's signature does not fit the write")]
    AuthorSignature,
    /// A stamp's signature is not its node's over this stamp.
    #[error("a stamp's signature does not fit")]
    StampSignature,
    /// A stamp is of another object or another write.
    #[error("a stamp belongs to another key or another write")]
    StampObject,
    /// A stamp's actor was no member in the config epoch it names.
    #[error("a stamp's actor was not a member then")]
    UnknownActor,
    /// A version without a single stamp.
    #[error("a version without a stamp")]
    NoStamp,
    /// The value is not the one that the write announces.
    #[error("the value does not have the length and hash that the write announces")]
    Value,
    /// The author may not write here, or might not when it was stamped.
    #[error("the author has no right to write here")]
    NoRight,
    /// There is no such namespace now.
    #[error("unknown namespace")]
    UnknownNamespace,
    /// The namespace has another mode than the request needs.
    #[error("the namespace is in another mode")]
    Mode,
    /// Two stamps that do not contradict each other.
    #[error("the stamps do not contradict each other")]
    NoEvidence,
    /// A fence in a namespace that takes none.
    #[error("only linearizable namespaces take fenced writes")]
    Fenced,
    /// Presented stamps for a register, which needs none, or a stamp with a past in one.
    #[error("versions of registers have no past")]
    Past,
    /// A fenced write, seal or resignation whose tenure is not known here and was not proved.
    #[error("the tenure it is fenced by is not known here")]
    NeedsTenure,
    /// A tenure that the votes do not prove.
    #[error("the tenure is not proved: {0}")]
    NotProven(#[from] NotProven),
    /// The fence is not signed by the tenure's key, or names another resource or term than the tenure.
    #[error("the fence does not fit the tenure it names")]
    Fence,
    /// A write that does not make the tenure it carries.
    #[error(transparent)]
    Tenure(#[from] NotATenure),
    /// A tenure of another recovery number than the cluster's.
    #[error("the term is of another recovery of the cluster")]
    Recovery,
    /// Not signed by the tenure key that is shown.
    #[error("a renewal is not signed by its tenure's key")]
    Renewal,
    /// A stamp names a newer configuration than this side knows: fetch it, then judge.
    #[error("a stamp names entry {number} of the {chain:?} chain, which is not known here yet")]
    NeedsEntry {
        /// The chain.
        chain: Chain,
        /// The entry that is missing.
        number: u64,
    },
}

/// Remembers batch roots whose signature verified, so that the items of a batch cost one signature, and
/// what comes again costs none; and the tenures that were proved.
///
/// It remembers successes only, a bounded number of them, and never replaces a check of rights or
/// membership.
#[derive(Debug, Default)]
pub struct RootCache {
    roots: Arc<Mutex<Roots>>,
    tenures: Mutex<Tenures>,
}

#[derive(Debug, Default)]
struct Roots {
    known: BTreeSet<(PublicKey, Hash)>,
    order: VecDeque<(PublicKey, Hash)>,
}

/// Tenures that were proved, by id, and the order in which they were.
#[derive(Debug, Default)]
struct Tenures {
    proven: BTreeMap<WriteId, Proven>,
    order: VecDeque<WriteId>,
}

impl RootCache {
    const CAPACITY: usize = 8192;
    const TENURES: usize = 4096;

    /// Another cache that remembers the same signatures, for one more node in this process. Whether a
    /// signature verifies depends on nothing but its bytes; which tenures were proved to a node is its own.
    #[must_use]
    pub fn beside(&self) -> RootCache {
        RootCache { roots: Arc::clone(&self.roots), tenures: Mutex::default() }
    }

    /// Whether `proof` is `key`'s over `leaf`, by memory or by verifying.
    pub fn verifies(&self, proof: &Proof, key: &PublicKey, cluster: ClusterId, leaf: Hash) -> bool {
        let Some(root) = proof.root(leaf) else { return false };
        // The signed message, and with it the cluster and the count, is what is remembered.
        let message = proof.message(cluster, root);
        let entry = (*key, Hash::of_value(&[&message[..], &proof.signature.0].concat()));
        if lock(&self.roots).known.contains(&entry) {
            return true;
        }
        let verifies = key.verifies(&message, &proof.signature);
        if verifies {
            let mut roots = lock(&self.roots);
            if roots.known.insert(entry) {
                roots.order.push_back(entry);
            }
            if roots.order.len() > Self::CAPACITY
                && let Some(oldest) = roots.order.pop_front()
            {
                roots.known.remove(&oldest);
            }
        }
        verifies
    }

    /// What is proved of a tenure: by memory, or by the proof that came along.
    fn tenure(
        &self,
        id: WriteId,
        proof: Option<&TenureProof>,
        config: &Configuration,
    ) -> Result<Proven, Rejection> {
        if let Some(proven) = lock(&self.tenures).proven.get(&id) {
            return Ok(proven.clone());
        }
        let proof = proof.filter(|proof| proof.signed.id() == id).ok_or(Rejection::NeedsTenure)?;
        let proven = match prove(proof, config) {
            Err(NotProven::Epoch(number)) if number > config.config_epoch() => {
                return Err(Rejection::NeedsEntry { chain: Chain::Voters, number });
            }
            other => other?,
        };
        let mut tenures = lock(&self.tenures);
        if tenures.proven.insert(id, proven.clone()).is_none() {
            tenures.order.push_back(id);
        }
        if tenures.order.len() > Self::TENURES
            && let Some(oldest) = tenures.order.pop_front()
        {
            tenures.proven.remove(&oldest);
        }
        Ok(proven)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Judges what comes in by one configuration.
#[derive(Debug, Clone, Copy)]
pub struct Verifier<'a> {
    config: &'a Configuration,
    cache: &'a RootCache,
}

impl<'a> Verifier<'a> {
    /// A verifier that judges by `config`.
    pub fn new(config: &'a Configuration, cache: &'a RootCache) -> Self {
        Verifier { config, cache }
    }

    /// Judges a client's submission by the newest policy. `proof` proves the tenure that it is fenced by.
    pub fn submission(
        &self,
        submission: Submission,
        proof: Option<&TenureProof>,
    ) -> Result<Verified<Submission>, Rejection> {
        let write = submission.signed.write();
        if self.is_of_resources(write.namespace) {
            return Err(Rejection::Mode);
        }
        let mode = self.mode(write.namespace)?;
        if mode == Mode::Siblings && (write.fence.is_some() || submission.signed.fence().is_some()) {
            return Err(Rejection::Fenced);
        }
        if mode == Mode::Linearizable && !submission.presented.is_empty() {
            return Err(Rejection::Past);
        }
        let revision = self.config.policy().revision();
        if !self.may_write(write, revision) {
            return Err(Rejection::NoRight);
        }
        self.signed(&submission.signed, &submission.value)?;
        self.fence(&submission.signed, proof)?;
        if submission.presented.len() > write.parents.len() * limits::STAMPS {
            return Err(Rejection::StampObject);
        }
        for stamp in &submission.presented {
            if !write.names(stamp.stamp().write) {
                return Err(Rejection::StampObject);
            }
            self.stamp(stamp, write.object())?;
        }
        Ok(Verified::new(submission, self.config))
    }

    /// Judges a campaign by the newest policy. `proof` proves the tenure that a resignation ends.
    pub fn campaign(
        &self,
        signed: Arc<SignedWrite>,
        value: Bytes,
        proof: Option<&TenureProof>,
    ) -> Result<Verified<Campaign>, Rejection> {
        let tenure = Tenure::decode(&value).map_err(|_| Rejection::Value)?;
        check_tenure(&signed, &tenure)?;
        if tenure.term.recovery != self.config.current().recovery {
            return Err(Rejection::Recovery);
        }
        if !self.may_write(signed.write(), self.config.policy().revision()) {
            return Err(Rejection::NoRight);
        }
        self.signed(&signed, &value)?;
        self.fence(&signed, proof)?;
        let submission = Submission { signed, value, presented: Vec::new() };
        Ok(Verified::new(Campaign { submission, tenure }, self.config))
    }

    /// Judges a seal: the tenure's key signed it, and `sealer`, the key of the connection, may write.
    pub fn seal(
        &self,
        seal: Seal,
        signature: &Signature,
        sealer: &PublicKey,
        proof: Option<&TenureProof>,
    ) -> Result<Verified<Seal>, Rejection> {
        if self.is_of_resources(seal.namespace) || self.mode(seal.namespace)? != Mode::Linearizable {
            return Err(Rejection::Mode);
        }
        if seal.cluster != self.config.cluster() {
            return Err(Rejection::Cluster);
        }
        let policy = self.config.policy();
        let both = Rights { read: true, write: true, elect: false };
        if !policy.allowed(sealer, seal.namespace, &seal.key, both, policy.revision()) {
            return Err(Rejection::NoRight);
        }
        let key = self.tenure_key(&seal.fence, proof)?;
        if !seal.verifies(&key, signature) {
            return Err(Rejection::Fence);
        }
        Ok(Verified::new(seal, self.config))
    }

    /// Judges a heartbeat: `key` signed it. Whether that is the tenure's key, only a voter can tell.
    pub fn renewal(
        &self,
        renewal: Renewal,
        key: PublicKey,
        signature: &Signature,
    ) -> Result<Verified<(Renewal, PublicKey)>, Rejection> {
        if renewal.cluster != self.config.cluster() {
            return Err(Rejection::Cluster);
        }
        if !renewal.verifies(&key, signature) {
            return Err(Rejection::Renewal);
        }
        Ok(Verified::new((renewal, key), self.config))
    }

    /// Judges a write whose verdict is asked for: its author signed it for this cluster.
    pub fn asked(&self, signed: &SignedWrite) -> Result<(), Rejection> {
        let write = signed.write();
        if write.cluster != self.config.cluster() {
            return Err(Rejection::Cluster);
        }
        if self.mode(write.namespace)? != Mode::Linearizable {
            return Err(Rejection::Mode);
        }
        if self.cache.verifies(signed.proof(), &write.author, write.cluster, signed.id().into()) {
            Ok(())
        } else {
            Err(Rejection::AuthorSignature)
        }
    }

    /// Judges a register's state from another node by the configurations its stamp names. Its fence
    /// was judged by the node that took the write: nobody else needs the tenure's proof.
    pub fn held(&self, held: Held) -> Result<Verified<Held>, Rejection> {
        match &held.state.version {
            None if held.value.is_empty() => {}
            None => return Err(Rejection::Value),
            Some(version) => {
                let past = |stamp: &Stamp| !stamp.past.is_empty() || stamp.previous + 1 != stamp.counter;
                if version.stamps.iter().any(|stamp| past(stamp.stamp())) {
                    return Err(Rejection::Past);
                }
                if !self.is_register(version.write().namespace) {
                    return Err(Rejection::Mode);
                }
                self.version(version, &held.value)?;
            }
        }
        Ok(Verified::new(held, self.config))
    }

    /// Judges a version from another node by the configurations its stamps name.
    pub fn copy(&self, copy: Copy) -> Result<Verified<Copy>, Rejection> {
        if self.is_register(copy.version.write().namespace) {
            return Err(Rejection::Mode);
        }
        self.version(&copy.version, &copy.value)?;
        Ok(Verified::new(copy, self.config))
    }

    fn version(&self, version: &Version, value: &Bytes) -> Result<(), Rejection> {
        if version.stamps.is_empty() {
            return Err(Rejection::NoStamp);
        }
        for signed in version.stamps.iter() {
            let stamp = signed.stamp();
            if stamp.write != version.id() {
                return Err(Rejection::StampObject);
            }
            self.stamp(signed, version.write().object())?;
            if !self.may_write(version.write(), stamp.policy_revision) {
                return Err(Rejection::NoRight);
            }
        }
        self.signed(&version.signed, value)
    }

    /// Judges evidence: two different statements of one actor about one event, both signed.
    pub fn evidence(&self, first: &SignedStamp, second: &SignedStamp) -> Result<(), Rejection> {
        if first.stamp().dot() != second.stamp().dot() || first == second {
            return Err(Rejection::NoEvidence);
        }
        self.stamp(first, first.stamp().object)?;
        self.stamp(second, second.stamp().object)
    }

    /// Whether `reader` may read `key` now; in a namespace that exists.
    pub fn reader(&self, reader: &PublicKey, namespace: NamespaceId, key: &Key) -> Result<(), Rejection> {
        self.mode(namespace)?;
        let policy = self.config.policy();
        if policy.allowed(reader, namespace, key, Rights::READ, policy.revision()) {
            Ok(())
        } else {
            Err(Rejection::NoRight)
        }
    }

    /// The mode of a namespace that exists now.
    pub fn mode(&self, id: NamespaceId) -> Result<Mode, Rejection> {
        if id == NamespaceId::resources(self.config.cluster()) {
            return Ok(Mode::Linearizable);
        }
        let namespace = self.config.policy().namespace_by_id(id).filter(|n| n.dropped.is_none());
        namespace.map(|namespace| namespace.policy.mode).ok_or(Rejection::UnknownNamespace)
    }

    /// Whether it is the namespace of resources. Only campaigns change those: a write that came another
    /// way would take ownership without asking whether a lease runs, or at a term of its own choice
    /// (attack 17), and a seal would bind the resource itself.
    fn is_of_resources(&self, id: NamespaceId) -> bool {
        id == NamespaceId::resources(self.config.cluster())
    }

    /// Whether the keys of a namespace, dropped or not, are registers.
    fn is_register(&self, id: NamespaceId) -> bool {
        id == NamespaceId::resources(self.config.cluster())
            || self
                .config
                .policy()
                .namespace_by_id(id)
                .is_some_and(|namespace| namespace.policy.mode == Mode::Linearizable)
    }

    /// Whether the author had the right that this write needs: to elect, if it makes a tenure.
    fn may_write(&self, write: &Write, revision: u64) -> bool {
        let elects = write.namespace == NamespaceId::resources(self.config.cluster());
        let right = if elects { Rights::ELECT } else { Rights::WRITE };
        self.config.policy().allowed(&write.author, write.namespace, &write.key, right, revision)
    }

    /// Judges the fence of a write, if it has one.
    fn fence(&self, signed: &SignedWrite, proof: Option<&TenureProof>) -> Result<(), Rejection> {
        let (fence, signature) = match (&signed.write().fence, signed.fence()) {
            (None, None) => return Ok(()),
            (Some(fence), Some(signature)) => (fence, signature),
            _ => return Err(Rejection::Fence),
        };
        let key = self.tenure_key(fence, proof)?;
        if verifies_fence(&key, self.config.cluster(), signed.id(), signature) {
            Ok(())
        } else {
            Err(Rejection::Fence)
        }
    }

    /// The key of the tenure that a fence names, if the fence says the truth about it.
    fn tenure_key(&self, fence: &Fence, proof: Option<&TenureProof>) -> Result<PublicKey, Rejection> {
        let proven = self.cache.tenure(fence.tenure, proof, self.config)?;
        match proven.key {
            Some(key) if proven.resource == fence.resource && proven.term == fence.term => Ok(key),
            _ => Err(Rejection::Fence),
        }
    }

    fn signed(&self, signed: &SignedWrite, value: &Bytes) -> Result<(), Rejection> {
        let write = signed.write();
        if write.cluster != self.config.cluster() {
            return Err(Rejection::Cluster);
        }
        if !self.cache.verifies(signed.proof(), &write.author, write.cluster, signed.id().into()) {
            return Err(Rejection::AuthorSignature);
        }
        if write.body.matches(value) { Ok(()) } else { Err(Rejection::Value) }
    }

    fn stamp(&self, signed: &SignedStamp, object: ObjectId) -> Result<(), Rejection> {
        let stamp: &Stamp = signed.stamp();
        if stamp.cluster != self.config.cluster() {
            return Err(Rejection::Cluster);
        }
        if stamp.object != object {
            return Err(Rejection::StampObject);
        }
        if stamp.config_epoch > self.config.config_epoch() {
            return Err(Rejection::NeedsEntry { chain: Chain::Voters, number: stamp.config_epoch });
        }
        if stamp.policy_revision > self.config.policy().revision() {
            return Err(Rejection::NeedsEntry { chain: Chain::Policy, number: stamp.policy_revision });
        }
        let member = self.config.member_at(stamp.actor, stamp.config_epoch).ok_or(Rejection::UnknownActor)?;
        let proof = signed.proof().ok_or(Rejection::StampSignature)?;
        if self.cache.verifies(proof, &member.key, stamp.cluster, signed.hash()) {
            Ok(())
        } else {
            Err(Rejection::StampSignature)
        }
    }
}
