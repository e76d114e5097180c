//! What clients ask and nodes answer: one request and one reply on each stream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::values::Values;
use crate::core::chain::{Chain, Decided, Mode, SignedEntry};
use crate::core::identity::{Incarnation, MemberId};
use crate::core::object::{Key, NamespaceId};
use crate::core::register::Bound;
use crate::core::stamp::SignedStamp;
use crate::core::tenure::TenureProof;
use crate::core::version::{SignedWrite, Version};
use crate::core::write::WriteId;

/// Take this write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// The write, as its author signed it.
    pub signed: Arc<SignedWrite>,
    /// What to do when its parents are not the live versions.
    pub on_conflict: OnConflict,
    /// Stamps of the parents, on retries too; none in a linearizable namespace.
    pub presented: Vec<Arc<SignedStamp>>,
    /// The proof of the tenure that the write is fenced by, for a node that has not seen it yet.
    pub tenure: Option<Arc<TenureProof>>,
    /// The value; one, or none for a deletion.
    pub value: Values,
}

/// What to do with a write whose parents are not the live versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    /// Refuse it. A check at the coordinator, not a guarantee.
    Refuse,
    /// Keep it beside them.
    KeepBoth,
}

/// What became of a [`Submit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Submitted {
    /// It is durable on as many replicas as the namespace asks for.
    Applied {
        /// The stamps it has, to be presented by writes that name it.
        stamps: Vec<Arc<SignedStamp>>,
        /// The other live versions that its replicas listed: concurrent writes, or later ones.
        siblings: Vec<WriteId>,
    },
    /// Its parents were not the live versions; nothing changed by this attempt.
    Refused {
        /// The live versions, without values. Absent if the author may not read.
        current: Option<Vec<Version>>,
    },
    /// It was stamped, but fewer replicas than needed have said that they hold it. It may yet be
    /// seen; sending the same write again drives it on.
    Incomplete {
        /// Replicas that hold it.
        copies: u8,
        /// Replicas that are needed.
        needed: u8,
    },
    /// It was not applied and never will be: the register is bound to this.
    Fenced(Bound),
    /// It can no longer be applied to the register; whether it was is no longer remembered. A node that
    /// has proposed the write itself says `Incomplete` instead: it may be why it was applied.
    Forgotten,
}

/// Read a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Ask this node alone instead of a read quorum.
    pub local: bool,
    /// Superseded versions that are still held, too.
    pub history: bool,
}

/// A key's versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// By id: the live ones, and superseded ones if they were asked for.
    pub versions: Vec<Listed>,
    /// The values of those with `inline`, in order. The others are fetched one by one.
    pub values: Values,
    /// Stamps that contradict others of their actor: evidence of a cloned or lying node.
    pub evidence: Vec<Arc<SignedStamp>>,
}

/// One version of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The version.
    pub version: Version,
    /// Whether it is live.
    pub live: bool,
    /// Whether its value is in this message.
    pub inline: bool,
}

/// Give the value of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadValue {
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Which version.
    pub version: WriteId,
}

/// The value of one version: one, or none if it is not held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The value.
    pub value: Values,
}

/// What became of a write?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOutcome {
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Which write.
    pub write: WriteId,
}

/// What is known of a write after a read quorum was asked and, if anybody held it, it was brought to
/// as many replicas as needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was applied.
    Applied {
        /// Its stamps, if it is still held.
        stamps: Vec<Arc<SignedStamp>>,
        /// The other live versions.
        siblings: Vec<WriteId>,
        /// The write that superseded it, if one did.
        superseded_by: Option<WriteId>,
    },
    /// Somebody holds it, but fewer than needed could be reached.
    Incomplete {
        /// Replicas that hold it.
        copies: u8,
        /// Replicas that are needed.
        needed: u8,
    },
    /// Nobody that answered knows it. It may still arrive.
    Unknown,
}

/// List keys that this node holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Where.
    pub namespace: NamespaceId,
    /// Keys that begin so.
    pub prefix: Vec<u8>,
    /// Keys after this one.
    pub after: Option<Key>,
    /// At most so many.
    pub limit: u32,
    /// Only keys with more than one live version.
    pub conflicts: bool,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// In the order of their bytes.
    pub keys: Vec<ListedKey>,
    /// Where to go on, if there is more.
    pub next: Option<Key>,
}

/// One key of a listing. A key whose live versions are all deletions is not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedKey {
    /// The key.
    pub key: Key,
    /// Its live versions: generation, id, bytes of value (absent for a deletion).
    pub live: Vec<(u64, WriteId, Option<u64>)>,
}

/// Have the electorate choose this entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Propose {
    /// The entry, signed by an administrator.
    pub signed: SignedEntry,
}

/// What became of a [`Propose`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proposed {
    /// It was chosen.
    Chosen,
    /// Another entry has its place, or it does not fit; the chain goes on without it.
    Refused {
        /// Why.
        why: String,
    },
    /// No majority answered in time. It may yet be chosen: ask for the chain later.
    Unknown,
}

/// Give the configuration's entries beyond what I have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskConfig {
    /// Lengths of the voters, policy and write-epochs chains that are known.
    pub have: [u64; 3],
}

/// Entries of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The next entries of each chain: voters first, as the others are verified by them.
    pub entries: Vec<Decided>,
    /// The lengths of the chains as the sender knows them; more entries follow on request.
    pub lengths: [u64; 3],
}

/// How are you?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskStatus {}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of its software.
    pub version: String,
    /// Which member it is.
    pub member: MemberId,
    /// The life of its data.
    pub incarnation: Incarnation,
    /// Whether it mints, votes and counts; if not, why.
    pub counts: Result<(), String>,
    /// The last batch it synced.
    pub synced: u64,
    /// Lengths of its chains.
    pub chains: [u64; 3],
    /// The other members, and whether it is connected to them.
    pub peers: Vec<(MemberId, bool)>,
    /// Its counters, by name.
    pub counters: Vec<(String, u64)>,
}

/// Nothing was done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// The key of the connection, or the author of the write, may not do this.
    #[error("denied: {0}")]
    Denied(String),
    /// No such namespace.
    #[error("unknown namespace")]
    UnknownNamespace,
    /// The namespace is in this mode.
    #[error("the namespace is in {0:?} mode")]
    Mode(Mode),
    /// The write's epoch has passed, or has not come.
    #[error("expired: the write is of epoch {epoch}, and it is epoch {now}; prepare it anew")]
    Expired {
        /// The write's.
        epoch: u64,
        /// The node's.
        now: u64,
    },
    /// Parents that are neither held nor presented.
    #[error("unknown parents: read the key again")]
    UnknownParents(Vec<WriteId>),
    /// The write's generation is not one more than its parents'.
    #[error("the generation of the write is not one more than the highest of its parents")]
    Generation,
    /// Too many live siblings to take one more.
    #[error("too many siblings: {0} are live; resolve them, or name a live one")]
    TooManySiblings(u32),
    /// Forged, or otherwise not acceptable.
    #[error("rejected: {0}")]
    Rejected(String),
    /// The bytes are not a request.
    #[error("malformed: {0}")]
    Malformed(String),
    /// Too few replicas can be reached.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Too much is waiting.
    #[error("overloaded: try again later")]
    Overloaded,
    /// The disk is full; reads go on.
    #[error("the disk is full")]
    DiskFull,
    /// This part of the protocol is not built yet.
    #[error("not built yet: {0}")]
    NotBuilt(String),
    /// The write or seal is fenced by a tenure whose proof is not known to the node: send it along.
    #[error("the proof of the tenure is not known here: send the certificate along")]
    NeedsTenure,
}

impl AskConfig {
    /// The known length of `chain`.
    pub fn have(&self, chain: Chain) -> u64 {
        let [voters, policy, epochs] = self.have;
        match chain {
            Chain::Voters => voters,
            Chain::Policy => policy,
            Chain::WriteEpochs => epochs,
        }
    }
}
