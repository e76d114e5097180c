//! Versions: a write, its author's signature, and every stamp it ever got.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::events::Past;
use super::identity::{ActorId, Signature};
use super::limits;
use super::signature::Proof;
use super::stamp::{Dot, SignedStamp};
use super::write::{Write, WriteId};

/// A write as it was signed, before any node stamped it: what a client sends, keeps in a receipt,
/// and may send again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Write, Proof, Option<Signature>)", into = "(Write, Proof, Option<Signature>)")]
pub struct SignedWrite {
    id: WriteId,
    write: Write,
    proof: Proof,
    fence: Option<Signature>,
}

impl SignedWrite {
    /// Puts a write and its signatures together; nothing is verified by this.
    pub fn new(write: Write, proof: Proof, fence: Option<Signature>) -> Self {
        SignedWrite { id: write.id(), write, proof, fence }
    }

    /// The write's id.
    pub fn id(&self) -> WriteId {
        self.id
    }

    /// The write.
    pub fn write(&self) -> &Write {
        &self.write
    }

    /// The author's signature.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// The tenure key's signature over the id, for a fenced write.
    pub fn fence(&self) -> Option<&Signature> {
        self.fence.as_ref()
    }
}

impl From<(Write, Proof, Option<Signature>)> for SignedWrite {
    fn from((write, proof, fence): (Write, Proof, Option<Signature>)) -> Self {
        SignedWrite::new(write, proof, fence)
    }
}

impl From<SignedWrite> for (Write, Proof, Option<Signature>) {
    fn from(signed: SignedWrite) -> Self {
        (signed.write, signed.proof, signed.fence)
    }
}

/// The stamps of one write: a set keyed by actor and counter (S3), of which merging keeps the 16
/// lowest.
///
/// Two stamps under one key are evidence against their actor; the set keeps the one with the lower
/// hash, so that a merge does not depend on its order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Arc<SignedStamp>>", into = "Vec<Arc<SignedStamp>>")]
pub struct Stamps(BTreeMap<Dot, Arc<SignedStamp>>);

/// A decoded list of stamps is not in its one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stamps of a version are sorted by actor and counter, at most {}", limits::STAMPS)]
pub struct InvalidStamps;

impl Stamps {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stamps, by actor and counter.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SignedStamp>> {
        self.0.values()
    }

    /// The stamp that is this event, if there is one.
    pub fn at(&self, dot: Dot) -> Option<&Arc<SignedStamp>> {
        self.0.get(&dot)
    }

    /// Adds a stamp. Returns whether the set changed.
    pub fn insert(&mut self, stamp: Arc<SignedStamp>) -> bool {
        let dot = stamp.stamp().dot();
        if self.0.get(&dot).is_some_and(|held| held.hash() <= stamp.hash()) {
            return false;
        }
        self.0.insert(dot, stamp);
        if self.0.len() <= limits::STAMPS {
            return true;
        }
        self.0.pop_last().is_some_and(|(last, _)| last != dot)
    }
}

impl TryFrom<Vec<Arc<SignedStamp>>> for Stamps {
    type Error = InvalidStamps;

    fn try_from(stamps: Vec<Arc<SignedStamp>>) -> Result<Self, InvalidStamps> {
        let sorted =
            stamps.windows(2).all(|pair| matches!(pair, [a, b] if a.stamp().dot() < b.stamp().dot()));
        if !sorted || stamps.len() > limits::STAMPS {
            return Err(InvalidStamps);
        }
        Ok(Stamps(stamps.into_iter().map(|stamp| (stamp.stamp().dot(), stamp)).collect()))
    }
}

impl From<Stamps> for Vec<Arc<SignedStamp>> {
    fn from(stamps: Stamps) -> Self {
        stamps.0.into_values().collect()
    }
}

/// A version of a key: the write, its signatures, its stamps. Its value is kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// What the author signed.
    pub signed: Arc<SignedWrite>,
    /// What nodes said of it.
    pub stamps: Stamps,
}

impl Version {
    /// The version's id: its write's.
    pub fn id(&self) -> WriteId {
        self.signed.id()
    }

    /// The write.
    pub fn write(&self) -> &Write {
        self.signed.write()
    }

    /// The events that the version descends from: the pasts of all its stamps.
    pub fn past(&self) -> Past {
        let mut past = Past::new();
        for stamp in self.stamps.iter() {
            past.union(&stamp.stamp().past);
        }
        past
    }

    /// Bytes of the version's encoding, roughly and not below; its value aside.
    pub fn footprint(&self) -> usize {
        let write = self.write();
        let stamps: usize = self
            .stamps
            .iter()
            .map(|stamp| 1024 + stamp.stamp().past.actors() * 32 + stamp.stamp().past.ranges() * 16)
            .sum();
        512 + write.key.as_bytes().len() + write.parents.len() * 32 + stamps
    }

    /// Whether any event of this version lies in `past`, stamps of `distrusted` actors aside.
    pub fn lies_in(&self, past: &Past, distrusted: &dyn Fn(ActorId) -> bool) -> bool {
        self.stamps.iter().any(|stamp| {
            let stamp = stamp.stamp();
            !distrusted(stamp.actor) && past.covers(stamp.actor, stamp.event())
        })
    }
}
