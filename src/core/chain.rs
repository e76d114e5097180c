//! The three chains of signed changes that configure a cluster.
//!
//! Each entry names the hash of the one before, and is chosen by single-decree Paxos among the
//! electorate, so that a chain can neither fork nor wedge (attack 11). An entry is believed when a
//! majority of the electorate voted for it at one ballot and, in the voters and policy chains, an
//! administrator signed it.

use serde::{Deserialize, Serialize};

use super::codec;
use super::hash::{Context, Hash};
use super::identity::{ActorId, ClusterId, Incarnation, MemberId, PublicKey, SecretKey, Signature};
use super::object::{Key, NamespaceId, NamespaceName};
use super::signature::{Proof, VOTE};

/// The number in front of every encoded [`Entry`].
pub const ENTRY_FORMAT: u8 = 1;

/// Which chain an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Chain {
    /// Members and the electorate; an entry's number is the config epoch.
    Voters,
    /// Namespaces and grants; an entry's number is the policy revision.
    Policy,
    /// Write epochs; entry n advances from epoch n to epoch n + 1.
    WriteEpochs,
}

impl Chain {
    /// All chains, in the order of their numbers.
    pub const ALL: [Chain; 3] = [Chain::Voters, Chain::Policy, Chain::WriteEpochs];
}

/// One change of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`ENTRY_FORMAT`].
    pub format: u8,
    /// The chain.
    pub chain: Chain,
    /// Its place in the chain, from 1.
    pub number: u64,
    /// The hash of the entry before. For the first voters entry zero; for the first entry of the
    /// other chains the cluster id, so that every entry belongs to one cluster only.
    pub previous: Hash,
    /// What changes.
    pub change: ConfigChange,
}

/// What an entry changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigChange {
    /// Voters: the whole new membership. The first entry founds the cluster.
    Voters(Voters),
    /// Policy: a new namespace; its id is the hash of this entry.
    CreateNamespace(NamespacePolicy),
    /// Policy: the namespace takes no more requests.
    DropNamespace(NamespaceId),
    /// Policy: an author may do more.
    AddGrant(Grant),
    /// Policy: exactly this grant ends.
    RemoveGrant(Grant),
    /// Write epochs: the next epoch begins.
    AdvanceEpoch,
    /// Policy: as [`CreateNamespace`](Self::CreateNamespace), linearizable, with every key bound from
    /// birth to this resource: it takes writes of the resource's owner only.
    CreateOwnedNamespace(NamespacePolicy, Key),
}

/// The membership of a cluster in one config epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voters {
    /// Random bytes that keep two clusters of the same members apart; zero after the first entry.
    #[serde(with = "codec::fixed")]
    pub nonce: [u8; 16],
    /// How often the cluster was restored from a backup: the high part of every term.
    pub recovery: u32,
    /// All members, sorted by id.
    pub members: Vec<Member>,
    /// Who votes: 1, 3, 5 or 7 of the members, sorted.
    pub electorate: Vec<MemberId>,
    /// How many replicas a key has, if there are as many members.
    pub replicas: u8,
    /// Whose signatures the voters and policy chains need, sorted.
    pub admins: Vec<PublicKey>,
    /// Grants that hold from the first entry on.
    pub grants: Vec<Grant>,
}

/// A member of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Survives a change of key.
    pub id: MemberId,
    /// A name for people, unique in the cluster.
    pub name: String,
    /// Signs for the member, and identifies it in TLS.
    pub key: PublicKey,
    /// The life of its data that counts: any other is a new actor.
    pub incarnation: Incarnation,
    /// Where it stands; replicas spread over zones.
    pub zone: String,
}

impl Member {
    /// The actor that the member is.
    pub fn actor(&self, cluster: ClusterId) -> ActorId {
        ActorId::new(cluster, self.id, self.incarnation)
    }
}

/// The policy of a namespace, fixed when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespacePolicy {
    /// Its name.
    pub name: NamespaceName,
    /// What its keys promise.
    pub mode: Mode,
    /// Durable copies before a write is acknowledged; a majority of the replicas, if absent.
    pub write_quorum: Option<u8>,
}

/// What the keys of a namespace promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Available: concurrent writes are kept side by side.
    Siblings,
    /// Linearizable registers.
    Linearizable,
}

/// Who may do what where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grant {
    /// Whose right it is; everybody's with a valid key, if absent.
    pub author: Option<PublicKey>,
    /// Where; in every namespace, if absent.
    pub namespace: Option<NamespaceId>,
    /// For the keys that begin so.
    pub prefix: Vec<u8>,
    /// What.
    pub rights: Rights,
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rights {
    /// To read values and what is known of them.
    pub read: bool,
    /// To write and delete.
    pub write: bool,
    /// To campaign for resources.
    pub elect: bool,
}

impl Rights {
    /// Every right.
    pub const ALL: Rights = Rights { read: true, write: true, elect: true };
    /// The right to read alone.
    pub const READ: Rights = Rights { read: true, write: false, elect: false };
    /// The right to write alone.
    pub const WRITE: Rights = Rights { read: false, write: true, elect: false };

    /// The right to campaign alone.
    pub const ELECT: Rights = Rights { read: false, write: false, elect: true };

    /// Whether every right of `wanted` is among these.
    pub fn include(&self, wanted: Rights) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write) && (self.elect || !wanted.elect)
    }
}

impl Entry {
    /// The entry's hash. Of the first voters entry it is the cluster id, of one that creates a namespace
    /// the namespace id.
    pub fn hash(&self) -> Hash {
        Hash::of(Context::Entry, self)
    }
}

/// A number of an attempt: unique, because its counter was reserved durably by its actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// The voters entry whose electorate is asked.
    pub config_epoch: u64,
    /// From the actor's durable reservation.
    pub counter: u64,
    /// Whose attempt it is.
    pub actor: ActorId,
}

/// "At this ballot I durably hold this entry as accepted."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The cluster.
    pub cluster: ClusterId,
    /// The chain.
    pub chain: Chain,
    /// The place in the chain.
    pub number: u64,
    /// The ballot.
    pub ballot: Ballot,
    /// The entry's hash.
    pub entry: Hash,
    /// Who votes.
    pub actor: ActorId,
}

impl Vote {
    /// Signs the vote with its member's key: singly, so that a third party needs no trees.
    pub fn sign(&self, key: &SecretKey) -> Signature {
        key.sign(&self.message())
    }

    /// Whether `key` signed this vote.
    pub fn verifies(&self, key: &PublicKey, signature: &Signature) -> bool {
        key.verifies(&self.message(), signature)
    }

    fn message(&self) -> Vec<u8> {
        [VOTE, &codec::encode(self)].concat()
    }
}

/// An entry with an administrator's signature, where its chain needs one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedEntry {
    /// The entry.
    pub entry: Entry,
    /// The administrator and the proof over the entry's hash. Absent in the write-epochs chain.
    pub admin: Option<(PublicKey, Proof)>,
}

/// An entry that was chosen: with the votes that prove it.
///
/// The first voters entry founds the cluster and needs none: whoever trusts a cluster id trusts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The entry and its administrator's signature.
    pub signed: SignedEntry,
    /// The ballot of all votes.
    pub ballot: Ballot,
    /// Voters and their signatures, sorted by actor.
    pub votes: Vec<(ActorId, Signature)>,
}

impl Decided {
    /// The founding entry, which needs no votes.
    pub fn genesis(signed: SignedEntry) -> Self {
        let ballot = Ballot { config_epoch: 0, counter: 0, actor: ActorId([0; 16]) };
        Decided { signed, ballot, votes: Vec::new() }
    }
}
