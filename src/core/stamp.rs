//! Stamps: what a coordinating node claims about a write it took.

use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::events::{Past, Range};
use super::hash::{Context, Hash};
use super::identity::{ActorId, ClusterId};
use super::object::ObjectId;
use super::signature::Proof;
use super::write::WriteId;

/// The number in front of every encoded [`Stamp`].
pub const STAMP_FORMAT: u8 = 1;

/// "This write is that event of mine on that object, after those events."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Stamp {
    /// [`STAMP_FORMAT`].
    pub format: u8,
    /// The cluster.
    pub cluster: ClusterId,
    /// The object: a stamp of one key says nothing about another (attack 3).
    pub object: ObjectId,
    /// The write.
    pub write: WriteId,
    /// The voters entry under which the node took it.
    pub config_epoch: u64,
    /// The policy revision under which the node judged the author's right.
    pub policy_revision: u64,
    /// Whose event it is.
    pub actor: ActorId,
    /// The actor's last event on this object before it, as far as the actor's own row says;
    /// else `counter - 1`.
    pub previous: u64,
    /// The event's number, unique for the actor over all objects.
    pub counter: u64,
    /// The union of the events and pasts of the versions that the write names, and nothing else.
    pub past: Past,
}

/// The identity of an event: whose, and which.
pub type Dot = (ActorId, u64);

/// A decoded stamp breaks a rule of its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStamp {
    /// Another format than this version knows.
    #[error("stamp format {0} is not supported: this side knows format {STAMP_FORMAT}")]
    Format(u8),
    /// The event's range is empty.
    #[error("a stamp's event comes after the one before it")]
    EmptyEvent,
}

impl Stamp {
    /// Checks the rules of the form, as a decoder does.
    pub fn check(&self) -> Result<(), InvalidStamp> {
        if self.format != STAMP_FORMAT {
            return Err(InvalidStamp::Format(self.format));
        }
        if self.previous >= self.counter {
            return Err(InvalidStamp::EmptyEvent);
        }
        Ok(())
    }

    /// The stamp's hash: what its node signs.
    pub fn hash(&self) -> Hash {
        Hash::of(Context::Stamp, self)
    }

    /// Whose event it is, and which.
    pub fn dot(&self) -> Dot {
        (self.actor, self.counter)
    }

    /// The event as a range.
    pub fn event(&self) -> Range {
        Range { after: self.previous, upto: self.counter }
    }
}

/// A stamp with its node's signature.
///
/// A node signs all stamps of a storage batch at once, so a stamp exists for a moment before its
/// proof does: it is [attached](Self::attach) when the batch is closed, before the stamp is encoded
/// for the disk or the network.
#[derive(Debug, Clone)]
pub struct SignedStamp {
    stamp: Stamp,
    hash: Hash,
    proof: OnceLock<Proof>,
}

impl SignedStamp {
    /// A stamp whose proof is still to come.
    pub fn unsigned(stamp: Stamp) -> Self {
        SignedStamp { hash: stamp.hash(), stamp, proof: OnceLock::new() }
    }

    /// A stamp with the proof that came with it, which is not verified by this.
    pub fn new(stamp: Stamp, proof: Proof) -> Self {
        let signed = Self::unsigned(stamp);
        signed.attach(proof);
        signed
    }

    /// Attaches the proof; a stamp that has one keeps it.
    pub fn attach(&self, proof: Proof) {
        // The error is the proof that was not needed.
        let _ = self.proof.set(proof);
    }

    /// The stamp.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The stamp's hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The proof, once attached.
    pub fn proof(&self) -> Option<&Proof> {
        self.proof.get()
    }
}

/// Two stamps are equal when they say the same: one stamp can have several valid proofs (attack 28).
impl PartialEq for SignedStamp {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for SignedStamp {}

impl Serialize for SignedStamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let proof = self.proof().ok_or_else(|| serde::ser::Error::custom("a stamp without its proof"))?;
        (&self.stamp, proof).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SignedStamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (stamp, proof) = Deserialize::deserialize(deserializer)?;
        Ok(Self::new(stamp, proof))
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived form, which `remote` makes an associated function.
        Stamp::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stamp = Stamp::deserialize(deserializer)?;
        stamp.check().map_err(serde::de::Error::custom)?;
        Ok(stamp)
    }
}
