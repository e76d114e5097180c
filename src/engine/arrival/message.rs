//! What passed the check.

use std::sync::Arc;

use crate::core::chain::{Ballot, SignedEntry};
use crate::core::hash::Hash;
use crate::core::identity::PublicKey;
use crate::core::object::{Key, NamespaceId};
use crate::core::tenure::{Renewal, Seal, SignedVote};
use crate::core::verified::{Campaign, Copy, Held, Submission, Verified};
use crate::core::version::SignedWrite;
use crate::core::write::WriteId;
use crate::wire::client::{AskConfig, AskOutcome, Failure, List, OnConflict, Read, ReadValue};
use crate::wire::frame::Frame;
use crate::wire::peer::{Accept, Accepted, Evidence, Known, Learn, Prepare, Promise, Recall, Recalled};
use crate::wire::register::{AcceptedRegister, AskRegister, ChosenRegister, PrepareRegister};
use crate::wire::registry::Reply;

/// A client's request that may be served: its signatures and the client's rights were checked.
#[derive(Debug, Clone)]
pub struct Request {
    /// The key of the client's connection.
    pub client: PublicKey,
    /// The request as it came, to be forwarded as it is.
    pub frame: Frame,
    /// What it asks.
    pub ask: Ask,
}

/// What a client asks.
#[derive(Debug, Clone)]
pub enum Ask {
    /// To take a write.
    Submit {
        /// The write.
        submission: Verified<Submission>,
        /// What to do if its parents are not the live versions.
        on_conflict: OnConflict,
        /// Whether a refusal may show the current versions.
        may_read: bool,
    },
    /// What became of a write to a register.
    Verdict {
        /// The write.
        signed: Arc<SignedWrite>,
        /// Whether to decide that it is never applied, if nothing is decided yet.
        forbid: bool,
        /// Whether the answer may show the current version.
        may_read: bool,
    },
    /// To seal a register.
    Seal(Verified<Seal>),
    /// To have a tenure chosen.
    Campaign {
        /// The tenure.
        campaign: Verified<Campaign>,
        /// Whether to run a full round even if it is the current one.
        afresh: bool,
    },
    /// Who owns a resource.
    Observe(Key),
    /// To hear an owner.
    Renew(Verified<(Renewal, PublicKey)>),
    /// To read a key.
    Read(Read),
    /// To read a version's value.
    ReadValue(ReadValue),
    /// What became of a write.
    Outcome(AskOutcome),
    /// To list keys.
    List(List),
    /// To change the configuration.
    Propose(Box<SignedEntry>),
    /// For the configuration.
    Config(AskConfig),
    /// How the node is.
    Status,
}

impl Ask {
    /// The namespace that it is about, if it is about one.
    pub fn namespace(&self) -> Option<NamespaceId> {
        match self {
            Ask::Submit { submission, .. } => Some(submission.get().signed.write().namespace),
            Ask::Verdict { signed, .. } => Some(signed.write().namespace),
            Ask::Seal(seal) => Some(seal.get().namespace),
            Ask::Read(read) => Some(read.namespace),
            Ask::ReadValue(read) => Some(read.namespace),
            Ask::Outcome(ask) => Some(ask.namespace),
            Ask::List(list) => Some(list.namespace),
            Ask::Campaign { .. }
            | Ask::Observe(_)
            | Ask::Renew(_)
            | Ask::Propose(_)
            | Ask::Config(_)
            | Ask::Status => None,
        }
    }
}

/// A peer's message whose versions were checked.
#[derive(Debug, Clone)]
pub enum Message {
    /// See [`crate::wire::peer::Exchange`].
    Exchange(Exchange),
    /// See [`crate::wire::peer::Exchanged`].
    Exchanged(Exchanged),
    /// A client's request that another node could not serve.
    Forward {
        /// Repeated in the answer.
        operation: u64,
        /// The request, or why it cannot be served.
        request: Box<Result<Request, Failure>>,
    },
    /// The answer to a forwarded request.
    Forwarded {
        /// The request's.
        operation: u64,
        /// The answer.
        reply: Box<Reply>,
    },
    /// Chains, phase 1.
    Prepare(Prepare),
    /// Its answer.
    Promise(Promise),
    /// Chains, phase 2.
    Accept(Accept),
    /// Its answer.
    Accepted(Accepted),
    /// A chosen entry.
    Learn(Learn),
    /// What is remembered of the sender?
    Recall(Recall),
    /// Its answer.
    Recalled(Recalled),
    /// Asks for entries.
    AskConfig(AskConfig),
    /// Entries.
    Config(crate::wire::client::Config),
    /// Evidence against an actor, both stamps verified.
    Evidence(Evidence),
    /// Registers, phase 1.
    PrepareRegister(PrepareRegister),
    /// Its answer.
    PromisedRegister(RegisterPromise),
    /// Registers, phase 2.
    AcceptRegister(RegisterAccept),
    /// Its answer.
    AcceptedRegister(AcceptedRegister),
    /// What is accepted?
    AskRegister(AskRegister),
    /// Its answer.
    ShowRegister(RegisterShow),
    /// A register's ballot was chosen.
    ChosenRegister(ChosenRegister),
}

/// A checked [`crate::wire::register::PromisedRegister`].
#[derive(Debug, Clone)]
pub struct RegisterPromise {
    /// The request's.
    pub operation: u64,
    /// The ballot that was asked for.
    pub ballot: Ballot,
    /// Promised, with what was accepted before; or not.
    pub answer: Answer,
}

/// A checked [`crate::wire::register::Promised`].
#[derive(Debug, Clone)]
pub enum Answer {
    /// Promised, with what was accepted before.
    Yes(Option<(Ballot, Verified<Held>)>),
    /// This ballot, or a higher one, was promised before.
    Higher(Ballot),
    /// A lease runs for so many milliseconds more.
    Running(u64),
    /// The acceptor takes no part.
    Abstains,
}

/// A checked [`crate::wire::register::AcceptRegister`].
#[derive(Debug, Clone)]
pub struct RegisterAccept {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ballot.
    pub ballot: Ballot,
    /// The proposer's next ballot.
    pub next: Option<Ballot>,
    /// The highest ballot that is known to be chosen.
    pub chosen: Option<Ballot>,
    /// The state and the value of its version.
    pub held: Verified<Held>,
}

/// A checked [`crate::wire::register::ShowRegister`].
#[derive(Debug, Clone)]
pub struct RegisterShow {
    /// The request's.
    pub operation: u64,
    /// At which ballot; absent, if nothing was accepted yet.
    pub ballot: Option<Ballot>,
    /// The highest ballot that was promised.
    pub promised: Option<Ballot>,
    /// The hash of the state.
    pub hash: Hash,
    /// The state, unless its hash is the known one.
    pub held: Option<Verified<Held>>,
    /// The vote for a tenure.
    pub vote: Option<SignedVote>,
    /// How long the lease of the tenure still runs there.
    pub left_ms: u64,
}

/// A checked [`crate::wire::peer::Exchange`].
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ids that are live at the sender.
    pub live: Vec<WriteId>,
    /// A write that the sender wants to know about.
    pub about: Option<WriteId>,
    /// The versions that passed.
    pub copies: Vec<Verified<Copy>>,
    /// What the sender knows superseded.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// Whether to send what the sender lacks.
    pub fetch: bool,
}

/// A checked [`crate::wire::peer::Exchanged`].
#[derive(Debug, Clone)]
pub struct Exchanged {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Whether the sender counts.
    pub counts: bool,
    /// The ids that are live at the sender.
    pub live: Vec<WriteId>,
    /// What it knows of the write it was asked about.
    pub about: Known,
    /// For ids that were live here: what superseded them.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// The versions that passed.
    pub copies: Vec<Verified<Copy>>,
}
