//! Ownership: campaigning, observing, staying owner.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::values::Values;
use crate::core::chain::Ballot;
use crate::core::identity::{PublicKey, Signature};
use crate::core::object::Key;
use crate::core::tenure::{Renewal, SignedVote, TenureProof};
use crate::core::version::{SignedWrite, Version};

/// Have this tenure chosen; a resignation, too.
///
/// Sent again for a tenure that is already the current one, it collects its votes again, after a full
/// round to all voters if `afresh` says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Campaign {
    /// The write that makes the tenure.
    pub signed: Arc<SignedWrite>,
    /// The proof of the tenure that a resignation ends, for a node that has not seen it yet.
    pub tenure: Option<Arc<TenureProof>>,
    /// Run a full round even if the tenure is the current one: for an owner whose renewals do not
    /// count because voters hold its tenure at different ballots, or promised a takeover.
    pub afresh: bool,
    /// The tenure, as the write announces it.
    pub value: Values,
}

/// What became of a [`Campaign`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Campaigned {
    /// What became of it.
    pub result: Ballots,
    /// The current tenure, if it is another one.
    pub version: Option<Version>,
    /// Its value: one, if there is a version; else none.
    pub value: Values,
}

/// The result of a [`Campaign`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ballots {
    /// It is the current tenure: with the votes that prove it.
    Chosen {
        /// The ballot of all votes.
        ballot: Ballot,
        /// The votes of a majority, sorted by actor.
        votes: Vec<SignedVote>,
    },
    /// The current tenure's lease has not run out; about so many milliseconds are left of it. Nothing
    /// was decided: the same campaign may be sent again then.
    Running {
        /// Until a majority of the voters would let go of it.
        left_ms: u64,
    },
    /// Another tenure has its place: it is not the current one, and never will be again.
    Refused,
    /// No majority said so in time. It may yet be chosen: send the same again.
    Incomplete,
}

/// Who owns this resource?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// The resource.
    pub resource: Key,
}

/// The current tenure of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The write that made it; absent, if the resource was never owned.
    pub version: Option<Version>,
    /// The ballot of all votes.
    pub ballot: Option<Ballot>,
    /// The votes of a majority for it, sorted by actor.
    pub votes: Vec<SignedVote>,
    /// About how many milliseconds are left until a majority of the voters lets go of it.
    pub left_ms: u64,
    /// The tenure: one, if there is a version; else none.
    pub value: Values,
}

/// I am still here. For one voter: it is not passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// What is signed.
    pub renewal: Renewal,
    /// The tenure's key.
    pub key: PublicKey,
    /// Its signature.
    pub signature: Signature,
}

/// A voter's answer to a [`Renew`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewed {
    /// Heard. It counts when a majority says so with one and the same ballot.
    Heard {
        /// The ballot at which the voter holds the tenure.
        ballot: Ballot,
    },
    /// The voter holds another tenure, or none. The owner has a round of its own tenure run.
    OtherTenure,
    /// The voter promised a takeover above its ballot. The owner has a round of its own tenure run.
    TakeoverPromised {
        /// The takeover's ballot.
        ballot: Ballot,
    },
    /// A renewal with this or a higher sequence was heard already.
    Repeated,
    /// The voter's disk hangs, or it takes no part: it hears nothing now.
    Stalled,
}
