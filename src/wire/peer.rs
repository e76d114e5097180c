//! What nodes say to each other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::client::{AskConfig, Config};
use super::values::Values;
use crate::core::chain::{Ballot, Chain, Decided, SignedEntry};
use crate::core::hash::Hash;
use crate::core::identity::{ActorId, Incarnation, PublicKey, Signature};
use crate::core::object::{Key, NamespaceId};
use crate::core::stamp::SignedStamp;
use crate::core::version::Version;
use crate::core::write::WriteId;

/// In front of every message between nodes: who speaks, and how far its disk is (P11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The last batch it synced.
    pub synced: u64,
}

/// What I hold of a key, versions for you, and what I ask.
///
/// One message replicates, reads and repairs: each side names its live ids, and the other answers
/// for those that it knows superseded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ids that are live at the sender.
    pub live: Vec<WriteId>,
    /// A write that the sender wants to know about: held, superseded, or neither.
    pub about: Option<WriteId>,
    /// Versions for the receiver.
    pub versions: Vec<Version>,
    /// Their values, in order.
    pub values: Values,
    /// Writes that the sender knows superseded, and by which; complete up to a version that is live
    /// at the sender, or to a row of its index.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// Whether the receiver is to send the versions that the sender lacks.
    pub fetch: bool,
}

/// The answer to an [`Exchange`], sent when all that was merged is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchanged {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Whether the sender counts: it is listed, and has made sure that it forgot nothing.
    pub counts: bool,
    /// The ids that are live at the sender, after the merge.
    pub live: Vec<WriteId>,
    /// What the sender knows of the write it was asked about.
    pub about: Known,
    /// For ids that are live at the receiver, and the write it asked about: which write superseded
    /// them.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// Versions that the receiver lacks, as many as fit; the rest is asked for again.
    pub versions: Vec<Version>,
    /// Their values, in order.
    pub values: Values,
}

/// What a replica knows of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// It is held and live.
    Live,
    /// It is superseded, by this write.
    Superseded(WriteId),
}

/// Do this for a client of mine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Repeated in the answer.
    pub operation: u64,
    /// The key of the client's connection.
    pub client: PublicKey,
    /// The kind of the request.
    pub kind: u16,
    /// Its header.
    pub header: Vec<u8>,
    /// Its values.
    pub values: Values,
}

/// The answer to a [`Forward`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// The request's.
    pub operation: u64,
    /// The kind of the reply.
    pub kind: u16,
    /// Its header.
    pub header: Vec<u8>,
    /// Its values.
    pub values: Values,
}

/// Paxos for a place in a chain, phase 1: promise this ballot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// The chain.
    pub chain: Chain,
    /// The place.
    pub number: u64,
    /// The ballot.
    pub ballot: Ballot,
}

/// The answer to a [`Prepare`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The chain.
    pub chain: Chain,
    /// The place.
    pub number: u64,
    /// The ballot that was asked for.
    pub ballot: Ballot,
    /// Promised, with what was accepted before; or refused because of a higher promise.
    pub answer: Result<Option<(Ballot, SignedEntry)>, Ballot>,
}

/// Phase 2: accept this entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The ballot.
    pub ballot: Ballot,
    /// The entry; it names its chain and place.
    pub signed: SignedEntry,
}

/// The answer to an [`Accept`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The chain.
    pub chain: Chain,
    /// The place.
    pub number: u64,
    /// The ballot that was asked for.
    pub ballot: Ballot,
    /// The entry's hash.
    pub entry: Hash,
    /// The vote's signature, with its actor; or refused because of a higher promise.
    pub answer: Result<(ActorId, Signature), Ballot>,
}

/// This entry was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learn {
    /// The entry and the votes that prove it.
    pub decided: Decided,
}

/// What is the last batch that you remember of me?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// A number that the sender drew when it started: the answer to a question of an earlier start tells
    /// what was remembered then.
    pub start: u64,
    /// Lengths of the chains that the sender knows.
    pub chains: AskConfig,
}

/// The answer to a [`Recall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    /// The number of the start that the question came from.
    pub start: u64,
    /// The incarnation that the question came from.
    pub incarnation: Incarnation,
    /// The last batch of it that is remembered; 0 for none.
    pub batch: u64,
}

/// Give me entries of the configuration.
pub type AskPeerConfig = AskConfig;
/// Entries of the configuration.
pub type PeerConfig = Config;

/// Two stamps that contradict each other: evidence against their actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// One stamp.
    pub first: Arc<SignedStamp>,
    /// The other.
    pub second: Arc<SignedStamp>,
}
