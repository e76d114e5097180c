//! Registers: what clients ask beyond reading and writing, and how replicas agree.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::values::Values;
use crate::core::chain::Ballot;
use crate::core::hash::Hash;
use crate::core::identity::Signature;
use crate::core::object::{Key, NamespaceId};
use crate::core::register::{Bound, RegisterState};
use crate::core::stamp::SignedStamp;
use crate::core::tenure::{self, SignedVote, TenureProof};
use crate::core::version::{SignedWrite, Version};
use crate::core::write::WriteId;

/// What became of this write to a register?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskVerdict {
    /// The write, as its author signed it.
    pub signed: Arc<SignedWrite>,
    /// If nothing is decided yet, decide: the write is never applied. Needs the right to write.
    pub forbid: bool,
}

/// What became of a write to a register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It was applied.
    Applied {
        /// Its stamp, if it is the current version.
        stamps: Vec<Arc<SignedStamp>>,
        /// The current version, if it is another one by now.
        superseded_by: Option<WriteId>,
    },
    /// It was not applied and never will be.
    Refused {
        /// The current version, without its value. Absent if the asker may not read, or the key was
        /// never written.
        current: Option<Version>,
    },
    /// As `Refused`, because the key is bound to this.
    Fenced(Bound),
    /// It was not applied, and still may be: send it again, or have it forbidden.
    Open,
    /// It can no longer be applied; whether it was is no longer remembered.
    Forgotten,
    /// Nothing could be found out in time.
    Unknown,
}

/// Read a register and raise its fence: from then on no write of a lower term is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// What is sealed, and under which ownership.
    pub seal: tenure::Seal,
    /// The tenure key's signature over it.
    pub signature: Signature,
    /// The proof of the tenure, for a node that has not seen it yet.
    pub tenure: Option<Arc<TenureProof>>,
}

/// The answer to a [`Seal`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Whether it is sealed; if not, what it is bound to.
    pub result: Result<(), Bound>,
    /// The current version; absent if it was not sealed, or the key was never written.
    pub version: Option<Version>,
    /// Its value: one, if there is a version (empty for a deletion); else none.
    pub value: Values,
}

/// Phase 1: promise this ballot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareRegister {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot, of the sender.
    pub ballot: Ballot,
    /// Whether it is to introduce a tenure: promised only if no lease runs.
    pub takeover: bool,
}

/// The answer to a [`PrepareRegister`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedRegister {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot that was asked for.
    pub ballot: Ballot,
    /// Promised or not.
    pub answer: Promised,
    /// The value of the accepted state's version: one, if there is one; else none.
    pub value: Values,
}

/// What an acceptor says to a prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Promised {
    /// Promised, with what was accepted before.
    Yes(Option<(Ballot, RegisterState)>),
    /// This ballot, or a higher one, was promised before.
    Higher(Ballot),
    /// A lease runs for so many milliseconds more; nothing was promised.
    Running(u64),
    /// The row is damaged, or the node does not count: it takes no part.
    Abstains,
}

/// Phase 2: accept this state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptRegister {
    /// Repeated in the answer; 0 if none is needed.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot.
    pub ballot: Ballot,
    /// The proposer's next ballot, to be promised with the acceptance.
    pub next: Option<Ballot>,
    /// The highest ballot that is known to be chosen.
    pub chosen: Option<Ballot>,
    /// The state.
    pub state: RegisterState,
    /// The value of its version: one, if there is one; else none.
    pub value: Values,
}

/// The answer to an [`AcceptRegister`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedRegister {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot that was asked for.
    pub ballot: Ballot,
    /// Accepted or not.
    pub answer: Accepted,
}

/// What an acceptor says to an accept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accepted {
    /// It is held durably.
    Yes {
        /// Whether the next ballot was promised with it.
        next: bool,
        /// The vote for a tenure; only of resources.
        vote: Option<SignedVote>,
    },
    /// A higher ballot was promised before.
    Higher(Ballot),
    /// At this ballot other bytes are held: somebody used a ballot twice.
    OtherBytes,
    /// The row is damaged, or the node does not count: it takes no part.
    Abstains,
}

/// What have you accepted?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRegister {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The hash of the state that the sender holds: the answer leaves an equal one out.
    pub known: Hash,
}

/// The answer to an [`AskRegister`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowRegister {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// What is accepted; an acceptor that takes no part says nothing.
    pub shown: Option<Shown>,
    /// The value of the state's version: one, if the state is here and has a version; else none.
    pub value: Values,
}

/// What an acceptor has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// At which ballot; absent, if nothing was accepted yet.
    pub ballot: Option<Ballot>,
    /// The highest ballot that was promised: whoever begins one takes a higher counter.
    pub promised: Option<Ballot>,
    /// The hash of the state; of the empty one, if nothing was accepted yet.
    pub hash: Hash,
    /// The state, unless its hash is the known one.
    pub state: Option<RegisterState>,
    /// The vote for a tenure; only of resources.
    pub vote: Option<SignedVote>,
    /// How long the lease of the tenure still runs here, in milliseconds; 0 without one.
    pub left_ms: u64,
}

/// This ballot of yours, if you accepted exactly it, is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenRegister {
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot.
    pub ballot: Ballot,
}
