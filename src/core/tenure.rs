//! Ownership: tenures, the votes that prove them, and what a tenure key signs.
//!
//! A resource is a register on the electorate, in the namespace
//! [`NamespaceId::resources`]. Its value is a [`Tenure`]; the
//! resource is the write's key, the owner its author. Every tenure has a term of its own, a
//! resignation included, and a fresh key: whoever lacks that key is not the owner, whatever its
//! author key (attack 13).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::chain::Ballot;
use super::codec::{self, DecodeError};
use super::hash::Hash;
use super::identity::{ActorId, ClusterId, PublicKey, SecretKey, Signature};
use super::limits;
use super::object::{Key, NamespaceId};
use super::signature::{FENCE, RENEWAL, SEAL, TENURE_VOTE};
use super::version::SignedWrite;
use super::write::{Body, Fence, Term, WRITE_FORMAT, Write, WriteId};

/// The number in front of every encoded [`Tenure`].
pub const TENURE_FORMAT: u8 = 1;

/// The value of a resource: one ownership of it, or that nobody owns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Tenure {
    /// [`TENURE_FORMAT`].
    pub format: u8,
    /// The fencing token: the cluster's recovery number, and the generation of the write.
    pub term: Term,
    /// The key of this tenure; absent, if the owner resigned.
    pub key: Option<PublicKey>,
    /// How long the owner is trusted after it was last heard, in milliseconds.
    pub lease_ms: u32,
}

/// A decoded tenure breaks a rule of its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTenure {
    /// Another format than this version knows.
    #[error("tenure format {0} is not supported: this side knows format {TENURE_FORMAT}")]
    Format(u8),
    /// A lease out of bounds.
    #[error("a lease is {} ms to {} ms", limits::LEASE_MIN_MS, limits::LEASE_MAX_MS)]
    Lease,
}

impl Tenure {
    /// Checks the rules of the form, as a decoder does.
    pub fn check(&self) -> Result<(), InvalidTenure> {
        if self.format != TENURE_FORMAT {
            return Err(InvalidTenure::Format(self.format));
        }
        if (limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS).contains(&self.lease_ms) {
            Ok(())
        } else {
            Err(InvalidTenure::Lease)
        }
    }

    /// The bytes that the write of this tenure puts.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// The tenure whose encoding is `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }
}

impl Serialize for Tenure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived form, which `remote` makes an associated function.
        Tenure::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Tenure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tenure = Tenure::deserialize(deserializer)?;
        tenure.check().map_err(serde::de::Error::custom)?;
        Ok(tenure)
    }
}

/// "At this ballot I durably hold this tenure as accepted." Signed singly, so that a third party
/// needs no trees and a certificate stays small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenureVote {
    /// The cluster.
    pub cluster: ClusterId,
    /// The hash of the voters entry whose electorate is asked; its number is the ballot's.
    pub config: Hash,
    /// The ballot.
    pub ballot: Ballot,
    /// The tenure, as a version of its resource.
    pub tenure: WriteId,
    /// Who votes.
    pub actor: ActorId,
}

impl TenureVote {
    /// Signs the vote with its member's key.
    pub fn sign(&self, key: &SecretKey) -> Signature {
        key.sign(&self.message())
    }

    /// Whether `key` signed this vote.
    pub fn verifies(&self, key: &PublicKey, signature: &Signature) -> bool {
        key.verifies(&self.message(), signature)
    }

    fn message(&self) -> Vec<u8> {
        [TENURE_VOTE, &codec::encode(self)].concat()
    }
}

/// A voter and its signature over the [`TenureVote`].
pub type SignedVote = (ActorId, Signature);

/// A tenure with the votes of a majority at one ballot: what proves, to anyone who knows the
/// electorate, that it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenureProof {
    /// The write that made it.
    pub signed: SignedWrite,
    /// Its value.
    pub tenure: Tenure,
    /// The ballot of all votes.
    pub ballot: Ballot,
    /// Voters and their signatures, sorted by actor.
    pub votes: Vec<SignedVote>,
}

/// "I am still here": the heartbeat of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// The cluster.
    pub cluster: ClusterId,
    /// What is owned.
    pub resource: Key,
    /// The tenure.
    pub tenure: WriteId,
    /// Rises with every renewal of this tenure: an old one that is sent again counts for nothing.
    pub sequence: u64,
}

impl Renewal {
    /// Signs with the tenure's key.
    pub fn sign(&self, key: &SecretKey) -> Signature {
        key.sign(&self.message())
    }

    /// Whether `key`, the tenure's, signed this.
    pub fn verifies(&self, key: &PublicKey, signature: &Signature) -> bool {
        key.verifies(&self.message(), signature)
    }

    fn message(&self) -> Vec<u8> {
        [RENEWAL, &codec::encode(self)].concat()
    }
}

/// "From now on this key takes no write of a lower term": a fenced read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The cluster.
    pub cluster: ClusterId,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ownership that it is sealed under.
    pub fence: Fence,
}

impl Seal {
    /// Signs with the tenure's key.
    pub fn sign(&self, key: &SecretKey) -> Signature {
        key.sign(&self.message())
    }

    /// Whether `key`, the tenure's, signed this.
    pub fn verifies(&self, key: &PublicKey, signature: &Signature) -> bool {
        key.verifies(&self.message(), signature)
    }

    fn message(&self) -> Vec<u8> {
        [SEAL, &codec::encode(self)].concat()
    }
}

/// Signs a fenced write with the key of the tenure that its fence names.
pub fn sign_fence(key: &SecretKey, cluster: ClusterId, write: WriteId) -> Signature {
    key.sign(&fence_message(cluster, write))
}

/// Whether `key`, the tenure's, signed the fenced write `write`.
pub fn verifies_fence(key: &PublicKey, cluster: ClusterId, write: WriteId, signature: &Signature) -> bool {
    key.verifies(&fence_message(cluster, write), signature)
}

fn fence_message(cluster: ClusterId, write: WriteId) -> Vec<u8> {
    [FENCE, &cluster.0, &write.0].concat()
}

/// A write is not one that makes a tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotATenure {
    /// It is for another namespace than the resources of its cluster, or deletes.
    #[error("a tenure is a value in the namespace of resources")]
    Place,
    /// The value is not the one the write announces.
    #[error("the tenure is not the value that the write announces")]
    Value,
    /// The term's number is not the write's generation.
    #[error("the number of a term is the generation of its write")]
    Term,
    /// A fence that is not exactly a resignation's.
    #[error("a resignation is fenced by the tenure it ends, and no other tenure is fenced")]
    Fence,
}

/// Checks that `signed`, whose value is `tenure`, makes this tenure of its resource. Signatures and
/// votes are not looked at.
pub fn check_tenure(signed: &SignedWrite, tenure: &Tenure) -> Result<(), NotATenure> {
    let write = signed.write();
    if write.namespace != NamespaceId::resources(write.cluster) || write.body == Body::Delete {
        return Err(NotATenure::Place);
    }
    if !write.body.matches(&tenure.encode()) {
        return Err(NotATenure::Value);
    }
    if tenure.term.number != write.generation {
        return Err(NotATenure::Term);
    }
    let resigned = match (&write.fence, write.parents.as_slice()) {
        (None, _) => false,
        (Some(fence), [parent]) if fence.tenure == *parent && fence.resource == write.key => true,
        (Some(_), _) => return Err(NotATenure::Fence),
    };
    if resigned == tenure.key.is_none() { Ok(()) } else { Err(NotATenure::Fence) }
}

/// What a candidate or a resigning owner claims, before it is signed.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The cluster.
    pub cluster: ClusterId,
    /// What is to be owned.
    pub resource: Key,
    /// The current tenure and its generation, if the resource was ever owned.
    pub current: Option<(u64, WriteId)>,
    /// The cluster's recovery number.
    pub recovery: u32,
    /// The tenure's fresh key; none, to resign.
    pub key: Option<PublicKey>,
    /// The lease in milliseconds.
    pub lease_ms: u32,
    /// The current write epoch.
    pub epoch: u64,
    /// Who claims it.
    pub author: PublicKey,
    /// Keeps two equal claims apart.
    pub nonce: [u8; 16],
    /// When, for people.
    pub wall_ms: u64,
}

impl Claim {
    /// The write and the tenure that it makes. A resignation is fenced by the tenure that it ends.
    pub fn write(&self) -> (Write, Tenure) {
        let generation = self.current.map_or(0, |(generation, _)| generation).saturating_add(1);
        let term = Term { recovery: self.recovery, number: generation };
        let tenure = Tenure { format: TENURE_FORMAT, term, key: self.key, lease_ms: self.lease_ms };
        let ended = self.current.filter(|_| self.key.is_none());
        let write = Write {
            format: WRITE_FORMAT,
            cluster: self.cluster,
            namespace: NamespaceId::resources(self.cluster),
            key: self.resource.clone(),
            epoch: self.epoch,
            generation,
            parents: self.current.map(|(_, id)| id).into_iter().collect(),
            body: Body::put(&tenure.encode()),
            author: self.author,
            nonce: self.nonce,
            fence: ended.map(|(number, id)| Fence {
                resource: self.resource.clone(),
                term: Term { recovery: self.recovery, number },
                tenure: id,
            }),
            wall_ms: self.wall_ms,
        };
        (write, tenure)
    }
}
