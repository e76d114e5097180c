//! What can go wrong, one enum for each operation. Each variant says what state is left and whether
//! it is safe to try again.

use std::fmt;
use std::time::Duration;

use super::attempt::Verdict;
use super::client::Client;
use super::prepare::{Prepared, Receipt};
use super::version::Version;
use crate::core::chain::Mode;
use crate::core::cluster::ConfigError;
use crate::core::codec::DecodeError;
use crate::core::identity::PublicKey;
use crate::core::limits;
use crate::core::object::{InvalidKey, InvalidNamespaceName};
use crate::core::register::Bound;
use crate::core::write::Term;
use crate::transport::EndpointError;
use crate::wire::client::Failure;
use crate::wire::registry::Reply;

/// A file is not an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("cannot read the key {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not an ed25519 key in PKCS#8 PEM.
    #[error("not an ed25519 private key in PKCS#8 PEM (`tanist keygen` makes one): {0}")]
    Pem(String),
}

/// A text is not a ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The first line is not a ticket's.
    #[error("not a ticket: a ticket begins with the line {}", super::ticket::FIRST_LINE)]
    NotATicket,
    /// A ticket of another format.
    #[error("this ticket begins with {0:?}, which this version does not know")]
    Format(String),
    /// The second line is not base64.
    #[error("the ticket is damaged: its second line is not base64")]
    Base64,
    /// The bytes are not a ticket's.
    #[error("the ticket is damaged: {0}")]
    Malformed(#[from] DecodeError),
    /// The founding entry is not one.
    #[error("the ticket founds no cluster: {0}")]
    Founding(#[from] ConfigError),
    /// Addresses of somebody who is no founding member, or of nobody at all.
    #[error("the ticket has no address of any founding member, or addresses of others")]
    Addresses,
}

/// The client cannot connect. Nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No identity was given.
    #[error("no identity: give the builder a key")]
    NoIdentity,
    /// The UDP socket or TLS cannot be set up.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The founding entry of the ticket does not hold.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Nodes do not admit this identity.
    #[error("denied: {0}")]
    Denied(String),
    /// No node could be asked. Safe to retry.
    #[error("no node of the ticket answers: {0}")]
    Unavailable(String),
    /// Nodes answer with a configuration that does not follow from the ticket.
    #[error("the configuration does not follow from the ticket: {0}")]
    Forged(String),
    /// There is no member of this name or id.
    #[error("no member {0:?} in this cluster")]
    NoSuchMember(String),
}

/// A namespace cannot be opened. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The text cannot name a namespace.
    #[error(transparent)]
    Name(#[from] InvalidNamespaceName),
    /// There is no such namespace.
    #[error("no namespace {0:?}: create it first (`tanist namespace create {0} --mode siblings`)")]
    Unknown(String),
    /// It has another mode.
    #[error("{name:?} is {mode}: open it with `client.{method}(..)`", mode = mode_name(*.mode), method = mode_name(*.mode))]
    Mode {
        /// The namespace.
        name: String,
        /// Its mode.
        mode: Mode,
    },
    /// No node could be asked. Safe to retry.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// A read failed. Nothing changed; retrying is always safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The key cannot be one.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// This identity may not read here.
    #[error("denied: {0}")]
    Denied(String),
    /// The namespace was dropped.
    #[error("the namespace does not exist any more")]
    UnknownNamespace,
    /// Too few replicas could be reached before the deadline.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Every replica that answered sent something forged or damaged.
    #[error("the answers are not genuine: {0}")]
    Forged(String),
    /// The register is bound to an ownership that the seal does not have, or no longer.
    #[error("fenced: the key is bound to {} of term {}", .0.resource, .0.term)]
    Fenced(Bound),
    /// A fenced read in a siblings namespace.
    #[error("only keys of linearizable namespaces can be sealed")]
    NotFenced,
    /// The resolver gave up.
    #[error("the resolver gave up: {0}")]
    Resolver(String),
    /// The node refused for another reason.
    #[error(transparent)]
    Node(Failure),
}

/// A write came to no verdict, or nothing was tried.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// It may have been applied, or may yet be. Submit the same write again or settle it; a new write
    /// could happen beside it.
    #[error(transparent)]
    Unknown(Box<Unknown>),
    /// The key cannot be one. Nothing changed.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The basis was read from another namespace. Nothing changed.
    #[error("what was read comes from another namespace")]
    OtherNamespace,
    /// The value is over the limit. Nothing was sent.
    #[error("a value of {len} bytes is over the limit of {limit}", limit = limits::VALUE_LEN)]
    TooLarge {
        /// Its length.
        len: usize,
    },
    /// The author may not write here. Nothing changed.
    #[error("denied: {0}")]
    Denied(String),
    /// The namespace was dropped. Nothing changed.
    #[error("the namespace does not exist any more")]
    UnknownNamespace,
    /// The write was prepared too long ago. Nothing changed by this attempt; read again and write anew.
    #[error("expired: the write is of epoch {epoch}, and it is epoch {now}; read again and write anew")]
    Expired {
        /// The write's epoch.
        epoch: u64,
        /// The cluster's.
        now: u64,
    },
    /// So many writes of the register came after it that nobody remembers whether it was applied. It
    /// never will be from now on.
    #[error(
        "too many writes came after it: whether it was applied is no longer remembered; it never will be now"
    )]
    Forgotten,
    /// No replica took it before the deadline. Nothing changed; safe to retry.
    #[error("unavailable, nothing changed: {0}")]
    Unavailable(String),
    /// A read that the write needs failed. Nothing changed.
    #[error("the key could not be read first, nothing changed: {0}")]
    Read(#[from] ReadError),
    /// The prepared write could not be saved before it was sent. Nothing changed.
    #[error("the receipt could not be saved, so nothing was sent: {0}")]
    Receipt(String),
    /// The node refused for another reason. Nothing changed.
    #[error(transparent)]
    Node(Failure),
}

/// A write whose outcome is not known, and the means to find out.
#[derive(Clone)]
pub struct Unknown {
    pub(super) client: Client,
    pub(super) receipt: Prepared,
    pub(super) why: String,
}

/// The outcome of a write could not be asked for. Nothing changed; safe to retry.
pub type OutcomeError = ReadError;

/// An update ended without a verdict on its last write.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpdateError {
    /// The key has siblings and the handle no resolver, or its resolver keeps them. Nothing changed.
    #[error("{0} versions are live side by side: resolve them, or open the namespace with a resolver")]
    Siblings(usize),
    /// The register is bound to an ownership that the write does not have, or no longer. Nothing changed.
    #[error("fenced: the key is bound to {} of term {}", .0.resource, .0.term)]
    Fenced(Bound),
    /// Others were faster every time until the deadline. Nothing changed; safe to retry.
    #[error("others were faster {attempts} times, until the deadline; nothing changed")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// The write failed or its outcome is unknown: see there.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A campaign did not end in an ownership.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// Somebody else owns the resource, and did not let go of it in time.
    #[error("owned by {by}, term {term}, for {:.1} s more without a renewal", .left.as_secs_f32())]
    Owned {
        /// Whose tenure it is.
        by: PublicKey,
        /// Its term.
        term: Term,
        /// About how long its lease still runs if it is not renewed.
        left: Duration,
    },
    /// Too few voters could be reached in time. A tenure that was submitted may yet be chosen; as nobody
    /// renews it, its lease runs out.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A resignation may have been taken, or may yet be.
    #[error("not known: {0}")]
    Unknown(String),
    /// This identity may not campaign, or the resource could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A listing is not complete. Nothing changed; safe to retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// So many members could not be asked that keys may be missing.
    #[error("{missing} members do not answer, and at most {tolerated} may be missing: {why}")]
    Unavailable {
        /// How many do not answer.
        missing: usize,
        /// How many may be missing.
        tolerated: usize,
        /// What the last of them said.
        why: String,
    },
    /// This identity may not list here, the namespace was dropped, or a key could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A change of the configuration failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The text cannot name a namespace. Nothing changed.
    #[error(transparent)]
    Name(#[from] InvalidNamespaceName),
    /// The change cannot be made as things are. Nothing changed.
    #[error(transparent)]
    Refused(ConfigError),
    /// A node refused the change. Nothing changed.
    #[error("refused: {0}")]
    Node(Failure),
    /// Not part of this version. Nothing changed.
    #[error("not built yet: {0}")]
    NotBuilt(&'static str),
    /// No majority decided in time: the change may yet be made. Doing it again is safe.
    #[error("not decided in time; it may yet be: {0}")]
    Unknown(String),
    /// No node took the proposal. Nothing changed; safe to retry.
    #[error("unavailable, nothing changed: {0}")]
    Unavailable(String),
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Siblings => "siblings",
        Mode::Linearizable => "linearizable",
    }
}

impl WriteError {
    /// Whether the cluster is certainly as it was before.
    pub fn nothing_changed(&self) -> bool {
        !matches!(self, WriteError::Unknown(_) | WriteError::Forgotten)
    }

    /// The receipt of a write whose outcome is unknown.
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            WriteError::Unknown(unknown) => Some(&unknown.receipt),
            _ => None,
        }
    }

    pub(super) fn from_failure(failure: Failure) -> Self {
        match failure {
            Failure::Denied(why) => WriteError::Denied(why),
            Failure::UnknownNamespace => WriteError::UnknownNamespace,
            Failure::Expired { epoch, now } => WriteError::Expired { epoch, now },
            Failure::Unavailable(why) => WriteError::Unavailable(why),
            Failure::Overloaded => WriteError::Unavailable(Failure::Overloaded.to_string()),
            other => WriteError::Node(other),
        }
    }
}

impl ReadError {
    /// What a verdict means that is not the answer that was hoped for.
    pub(super) fn from_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Answer(Reply::Failure(failure)) => Self::from_failure(failure),
            Verdict::Answer(_) => ReadError::Forged("the answer does not belong to the question".into()),
            Verdict::Forged(why) => ReadError::Forged(why),
            Verdict::Unavailable(why) | Verdict::Unknown(why) => ReadError::Unavailable(why),
        }
    }

    pub(super) fn from_failure(failure: Failure) -> Self {
        match failure {
            Failure::Denied(why) => ReadError::Denied(why),
            Failure::UnknownNamespace => ReadError::UnknownNamespace,
            Failure::Unavailable(why) => ReadError::Unavailable(why),
            Failure::Overloaded => ReadError::Unavailable(Failure::Overloaded.to_string()),
            other => ReadError::Node(other),
        }
    }
}

impl Unknown {
    /// The write, for a file or another process.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The version that the write makes if it is applied.
    pub fn version(&self) -> Version {
        self.receipt.version()
    }

    /// Drives the write until it is applied, beside whatever it meets; of a register until it is applied or
    /// refused for good. See [`Client::settle`].
    pub async fn settle(&self) -> Result<super::Written, WriteError> {
        self.client.settle(&self.receipt).await
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unknown").field("write", &self.receipt.id()).field("why", &self.why).finish()
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the outcome of write {} is unknown: {}; settle it with its receipt",
            self.version(),
            self.why
        )
    }
}

impl std::error::Error for Unknown {}
