//! The gate: nothing enters a replica unless it passed here (P8).
//!
//! Only this file makes a [`Verified`]. Signatures, membership, the author's right and the value's
//! hash are checked on every way in, whoever carries it: a client, a peer's replication, a repair.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::chain::{Chain, Mode, Rights};
use super::cluster::Configuration;
use super::hash::Hash;
use super::identity::{ClusterId, PublicKey};
use super::limits;
use super::object::{Key, NamespaceId, ObjectId};
use super::signature::Proof;
use super::stamp::{SignedStamp, Stamp};
use super::version::{SignedWrite, Version};
use super::write::Write;

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

/// A version with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The version, with at least one stamp.
    pub version: Version,
    /// Its value; empty for a deletion.
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
    /// A stamp names a newer configuration than this side knows: fetch it, then judge.
    #[error("a stamp names entry {number} of the {chain:?} chain, which is not known here yet")]
    NeedsEntry {
        /// The chain.
        chain: Chain,
        /// The entry that is missing.
        number: u64,
    },
}

/// Remembers batch roots whose signature verified, so that the items of a batch cost one signature.
///
/// It remembers successes only, a bounded number of them, and never replaces a check of rights or
/// membership.
#[derive(Debug, Default)]
pub struct RootCache(Mutex<Roots>);

#[derive(Debug, Default)]
struct Roots {
    known: BTreeSet<(PublicKey, Hash)>,
    order: VecDeque<(PublicKey, Hash)>,
}

impl RootCache {
    const CAPACITY: usize = 8192;

    /// Whether `proof` is `key`'s over `leaf`, by memory or by verifying.
    pub fn verifies(&self, proof: &Proof, key: &PublicKey, cluster: ClusterId, leaf: Hash) -> bool {
        let Some(root) = proof.root(leaf) else { return false };
        if proof.count == 1 {
            return key.verifies(&proof.message(cluster, root), &proof.signature);
        }
        // The signed message, and with it the cluster and the count, is what is remembered.
        let message = proof.message(cluster, root);
        let entry = (*key, Hash::of_value(&[&message[..], &proof.signature.0].concat()));
        if self.lock().known.contains(&entry) {
            return true;
        }
        let verifies = key.verifies(&message, &proof.signature);
        if verifies {
            let mut roots = self.lock();
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Roots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    /// Judges a client's submission by the newest policy.
    pub fn submission(&self, submission: Submission) -> Result<Verified<Submission>, Rejection> {
        let write = submission.signed.write();
        self.namespace(write.namespace, Mode::Siblings)?;
        if write.fence.is_some() || submission.signed.fence().is_some() {
            return Err(Rejection::Fenced);
        }
        let revision = self.config.policy().revision();
        if !self.may_write(write, revision) {
            return Err(Rejection::NoRight);
        }
        self.signed(&submission.signed, &submission.value)?;
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

    /// Judges a version from another node by the configurations its stamps name.
    pub fn copy(&self, copy: Copy) -> Result<Verified<Copy>, Rejection> {
        let version = &copy.version;
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
        self.signed(&version.signed, &copy.value)?;
        Ok(Verified::new(copy, self.config))
    }

    /// Judges evidence: two different statements of one actor about one event, both signed.
    pub fn evidence(&self, first: &SignedStamp, second: &SignedStamp) -> Result<(), Rejection> {
        if first.stamp().dot() != second.stamp().dot() || first == second {
            return Err(Rejection::NoEvidence);
        }
        self.stamp(first, first.stamp().object)?;
        self.stamp(second, second.stamp().object)
    }

    /// Whether `reader` may read `key` now; in a namespace that exists and has `mode`.
    pub fn reader(&self, reader: &PublicKey, namespace: NamespaceId, key: &Key) -> Result<(), Rejection> {
        self.namespace(namespace, Mode::Siblings)?;
        let policy = self.config.policy();
        if policy.allowed(reader, namespace, key, Rights::READ, policy.revision()) {
            Ok(())
        } else {
            Err(Rejection::NoRight)
        }
    }

    fn namespace(&self, id: NamespaceId, mode: Mode) -> Result<(), Rejection> {
        let namespace = self.config.policy().namespace_by_id(id).filter(|n| n.dropped.is_none());
        match namespace {
            None => Err(Rejection::UnknownNamespace),
            Some(namespace) if namespace.policy.mode != mode => Err(Rejection::Mode),
            Some(_) => Ok(()),
        }
    }

    fn may_write(&self, write: &Write, revision: u64) -> bool {
        self.config.policy().allowed(&write.author, write.namespace, &write.key, Rights::WRITE, revision)
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
