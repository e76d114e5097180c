//! What can go wrong between two ends, and the numbers that say so on the wire.

use std::{fmt, io, net::SocketAddr};

use quinn::VarInt;

use crate::core::identity::PublicKey;
use crate::wire::frame::FrameError;

/// Why a connection was closed or a stream was reset, as its number on the wire.
///
/// The set is open: a number that this side does not know is shown as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u32);

impl Code {
    /// Nothing is wrong; this side has no further use for it.
    pub const DONE: Code = Code(0);
    /// The key at the other end has no right here.
    pub const DENIED: Code = Code(1);
    /// This side has as many connections of the kind as it takes; another node may have room.
    pub const BUSY: Code = Code(2);
    /// The first frame, or the rest of a begun one, did not come in time.
    pub const TOO_SLOW: Code = Code(3);
    /// What came is not a frame, or not one that belongs there.
    pub const BAD_FRAME: Code = Code(4);
    /// The asker no longer waits for the answer.
    pub const CANCELLED: Code = Code(5);
    /// The request was taken but the handler went away without an answer.
    pub const UNANSWERED: Code = Code(6);
    /// Two connections between the same two peers: the other one stays.
    pub const DUPLICATE: Code = Code(7);
    /// Another process has connected with the same member's key.
    pub const OTHER_PROCESS: Code = Code(8);
    /// The member named in the hello is not the one whose key this is, or is not known here (yet).
    pub const WRONG_MEMBER: Code = Code(9);
    /// The configuration has changed what this connection is; dial again.
    pub const CHANGED: Code = Code(10);
    /// The process is shutting down.
    pub const SHUTTING_DOWN: Code = Code(11);

    pub(super) fn varint(self) -> VarInt {
        VarInt::from_u32(self.0)
    }

    pub(super) fn from_varint(code: VarInt) -> Self {
        // A foreign implementation may send more than 32 bits; such a number names nothing of ours.
        Code(u32::try_from(code.into_inner()).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Code::DONE => "done",
            Code::DENIED => "denied",
            Code::BUSY => "busy",
            Code::TOO_SLOW => "too slow",
            Code::BAD_FRAME => "bad frame",
            Code::CANCELLED => "cancelled",
            Code::UNANSWERED => "unanswered",
            Code::DUPLICATE => "duplicate",
            Code::OTHER_PROCESS => "other process",
            Code::WRONG_MEMBER => "wrong member",
            Code::CHANGED => "changed",
            Code::SHUTTING_DOWN => "shutting down",
            Code(number) => return write!(f, "code {number}"),
        })
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}: {self})", self.0)
    }
}

/// A request or a connection failed.
///
/// `Denied` and `Busy` as the answer to a connection's first request mean that nothing happened. After
/// any other variant, and later in a connection's life, the request may have been carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The other side does not admit this side's key, or no longer.
    #[error("denied: {reason}")]
    Denied {
        /// The other side's words.
        reason: String,
    },
    /// The other side has no room for a connection like this one.
    #[error("the node is busy, try another one or later: {reason}")]
    Busy {
        /// The other side's words.
        reason: String,
    },
    /// The other side closed the connection for another reason.
    #[error("closed by the other side ({code}): {reason}")]
    Closed {
        /// Why, as a number.
        code: Code,
        /// Why, in words.
        reason: String,
    },
    /// This side closed the connection.
    #[error("the connection was closed on this side; dial again")]
    ClosedHere,
    /// Nothing came for the idle time.
    #[error("nothing came from the other side in time; it is down, paused or cut off")]
    TimedOut,
    /// The connection broke below the frames.
    #[error("the connection broke: {0}")]
    Lost(String),
    /// The other side gave up this one stream.
    #[error("the other side dropped the request ({0})")]
    Dropped(Code),
    /// What came, or what was to be sent, is not an acceptable frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The answer ends without a frame.
    #[error("the answer is empty: the other side does not speak this protocol")]
    NoFrame,
    /// The answer goes on after its one frame.
    #[error("the answer goes on after its frame: the other side does not speak this protocol")]
    LeftOver,
}

impl From<quinn::ConnectionError> for ConnectionError {
    fn from(error: quinn::ConnectionError) -> Self {
        match error {
            quinn::ConnectionError::ApplicationClosed(close) => {
                let code = Code::from_varint(close.error_code);
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                match code {
                    Code::DENIED => ConnectionError::Denied { reason },
                    Code::BUSY => ConnectionError::Busy { reason },
                    code => ConnectionError::Closed { code, reason },
                }
            }
            quinn::ConnectionError::LocallyClosed => ConnectionError::ClosedHere,
            quinn::ConnectionError::TimedOut => ConnectionError::TimedOut,
            other => ConnectionError::Lost(other.to_string()),
        }
    }
}

impl From<quinn::WriteError> for ConnectionError {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(code) => ConnectionError::Dropped(Code::from_varint(code)),
            quinn::WriteError::ConnectionLost(error) => error.into(),
            other => ConnectionError::Lost(other.to_string()),
        }
    }
}

impl From<quinn::ReadError> for ConnectionError {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(code) => ConnectionError::Dropped(Code::from_varint(code)),
            quinn::ReadError::ConnectionLost(error) => error.into(),
            other => ConnectionError::Lost(other.to_string()),
        }
    }
}

impl From<quinn::StoppedError> for ConnectionError {
    fn from(error: quinn::StoppedError) -> Self {
        match error {
            quinn::StoppedError::ConnectionLost(error) => error.into(),
            other => ConnectionError::Lost(other.to_string()),
        }
    }
}

/// A dial did not lead to a connection; nothing was asked of anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Somebody else answers at this address.
    #[error("{addr} holds the key {found}, expected was {expected}: check the address and the ticket")]
    WrongKey {
        /// The address that was dialled.
        addr: SocketAddr,
        /// The key that was demanded.
        expected: PublicKey,
        /// The key that the other side proved it has.
        found: PublicKey,
    },
    /// The socket cannot send to this address at all.
    #[error("{addr} cannot be dialled from this socket: {reason}")]
    Address {
        /// The address that was dialled.
        addr: SocketAddr,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answered in time.
    #[error("no answer from {addr}: is the node running and UDP let through?")]
    TimedOut {
        /// The address that was dialled.
        addr: SocketAddr,
    },
    /// The other side answered but the handshake failed.
    #[error("the handshake with {addr} failed: {reason}")]
    Handshake {
        /// The address that was dialled.
        addr: SocketAddr,
        /// What the handshake ended with.
        reason: String,
    },
    /// TLS cannot be set up from this identity.
    #[error("no TLS for this identity: {0}")]
    Tls(String),
}

/// An endpoint cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The socket cannot be bound or used.
    #[error("the UDP socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// TLS cannot be set up from this identity.
    #[error("no TLS for this identity: {0}")]
    Tls(String),
}
