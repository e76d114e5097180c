//! The one registry of message numbers. A number is never used for anything else again.
//!
//! 0 belongs to the transport's link greeting; 1 to 99 go from client to node, 101 to 199 from node
//! to client, 201 to 299 between nodes.

use bytes::Bytes;

use super::client::{
    AskConfig, AskOutcome, AskStatus, Config, Failure, List, Outcome, Page, Propose, Proposed, Read,
    ReadValue, Status, Submit, Submitted, Value, Versions,
};
use super::frame::Frame;
use super::ownership::{Campaign, Campaigned, Observe, Observed, Renew, Renewed};
use super::peer::{
    Accept, Accepted, Envelope, Evidence, Exchange, Exchanged, Forward, Forwarded, Learn, Prepare, Promise,
    Recall, Recalled,
};
use super::register::{
    AcceptRegister, AcceptedRegister, AskRegister, AskVerdict, ChosenRegister, PrepareRegister,
    PromisedRegister, Seal, Sealed, ShowRegister, Verdict,
};
use super::values::{BodyMismatch, Values};
use crate::core::codec::{self, DecodeError};

/// A frame is not a message that this side understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The kind is not one that comes from this direction.
    #[error("message kind {0} is not known here")]
    Kind(u16),
    /// The header does not decode.
    #[error(transparent)]
    Header(#[from] DecodeError),
    /// The body is not what the header announces.
    #[error(transparent)]
    Body(#[from] BodyMismatch),
}

/// Declares the messages of one direction: their numbers, and whether they carry values.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($number:literal $variant:ident ($(#[$variant_doc:meta])*) $(carries $values:ident)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant, reason = "a message is moved once, to whoever handles it")]
        pub enum $name {
            $($(#[$variant_doc])* $variant($variant),)*
        }

        impl $name {
            /// The message's number.
            pub fn kind(&self) -> u16 {
                match self {
                    $($name::$variant(_) => $number,)*
                }
            }

            /// The numbers and names of this direction.
            pub const KINDS: &'static [(u16, &'static str)] = &[$(($number, stringify!($variant)),)*];

            fn header(&self) -> Vec<u8> {
                match self {
                    $($name::$variant(message) => codec::encode(message),)*
                }
            }

            fn values(&self) -> Option<&Values> {
                match self {
                    $($(messages!(@pattern $name::$variant, message $values) => Some(&message.$values),)?)*
                    _ => None,
                }
            }

            fn decode_parts(kind: u16, header: &[u8], body: Bytes) -> Result<Self, MessageError> {
                match kind {
                    $($number => {
                        #[allow(unused_mut, reason = "only messages with values are changed")]
                        let mut message: $variant = codec::decode(header)?;
                        messages!(@fill message, body $(, $values)?);
                        Ok($name::$variant(message))
                    })*
                    other => Err(MessageError::Kind(other)),
                }
            }
        }

        $(impl From<$variant> for $name {
            fn from(message: $variant) -> Self {
                $name::$variant(message)
            }
        })*
    };
    (@pattern $name:ident :: $variant:ident, $message:ident $values:ident) => { $name::$variant($message) };
    (@fill $message:ident, $body:ident, $values:ident) => { $message.$values.fill($body)? };
    (@fill $message:ident, $body:ident) => { Values::none().fill($body)? };
}

messages! {
    /// From client to node.
    Request {
        1 Submit(/** Take a write. */) carries value;
        2 Read(/** Read a key. */);
        3 ReadValue(/** Read one version's value. */);
        4 AskOutcome(/** Ask what became of a write. */);
        5 List(/** List keys. */);
        6 Propose(/** Change the configuration. */);
        7 AskConfig(/** Ask for the configuration. */);
        8 AskStatus(/** Ask how the node is. */);
        9 AskVerdict(/** Ask what became of a write to a register, or have it forbidden. */);
        10 Seal(/** Read a register and raise its fence. */);
        11 Campaign(/** Have a tenure chosen. */) carries value;
        12 Observe(/** Ask who owns a resource. */);
        13 Renew(/** Tell a voter that the owner is alive. */);
    }
}

messages! {
    /// From node to client.
    Reply {
        101 Submitted(/** Answers `Submit`. */);
        102 Versions(/** Answers `Read`. */) carries values;
        103 Value(/** Answers `ReadValue`. */) carries value;
        104 Outcome(/** Answers `AskOutcome`. */);
        105 Page(/** Answers `List`. */);
        106 Proposed(/** Answers `Propose`. */);
        107 Config(/** Answers `AskConfig`. */);
        108 Status(/** Answers `AskStatus`. */);
        109 Failure(/** Answers any request: nothing was done. */);
        110 Verdict(/** Answers `AskVerdict`. */);
        111 Sealed(/** Answers `Seal`. */) carries value;
        112 Campaigned(/** Answers `Campaign`. */) carries value;
        113 Observed(/** Answers `Observe`. */) carries value;
        114 Renewed(/** Answers `Renew`. */);
    }
}

messages! {
    /// Between nodes.
    PeerMessage {
        201 Exchange(/** Versions, ids and questions about a key. */) carries values;
        202 Exchanged(/** Answers `Exchange`. */) carries values;
        203 Forward(/** A client's request for another node. */) carries values;
        204 Forwarded(/** Answers `Forward`. */) carries values;
        205 Prepare(/** Chains, phase 1. */);
        206 Promise(/** Answers `Prepare`. */);
        207 Accept(/** Chains, phase 2. */);
        208 Accepted(/** Answers `Accept`. */);
        209 Learn(/** A chosen entry. */);
        210 Recall(/** Asks what is remembered of the sender. */);
        211 Recalled(/** Answers `Recall`. */);
        212 AskConfig(/** Asks for entries of the configuration. */);
        213 Config(/** Answers `AskConfig`. */);
        214 Evidence(/** Two stamps that contradict each other. */);
        215 PrepareRegister(/** Registers, phase 1. */);
        216 PromisedRegister(/** Answers `PrepareRegister`. */) carries value;
        217 AcceptRegister(/** Registers, phase 2. */) carries value;
        218 AcceptedRegister(/** Answers `AcceptRegister`. */);
        219 AskRegister(/** Asks what is accepted. */);
        220 ShowRegister(/** Answers `AskRegister`. */) carries value;
        221 ChosenRegister(/** A register's ballot was chosen. */);
    }
}

impl Request {
    /// The request as a frame.
    pub fn encode(&self) -> Frame {
        frame(self.kind(), self.header(), self.values())
    }

    /// The request that `frame` holds.
    pub fn decode(frame: Frame) -> Result<Self, MessageError> {
        Self::decode_parts(frame.kind, &frame.header, frame.body)
    }
}

impl Reply {
    /// The reply as a frame.
    pub fn encode(&self) -> Frame {
        frame(self.kind(), self.header(), self.values())
    }

    /// The reply that `frame` holds.
    pub fn decode(frame: Frame) -> Result<Self, MessageError> {
        Self::decode_parts(frame.kind, &frame.header, frame.body)
    }
}

impl PeerMessage {
    /// The message as a frame, behind its envelope.
    pub fn encode(&self, envelope: Envelope) -> Frame {
        let mut header = codec::encode(&envelope);
        header.extend(self.header());
        frame(self.kind(), header, self.values())
    }

    /// The message that `frame` holds, and its envelope.
    pub fn decode(frame: Frame) -> Result<(Envelope, Self), MessageError> {
        /// An envelope is two fields of fixed length.
        const ENVELOPE: usize = 24;
        let (envelope, message) = frame.header.split_at(ENVELOPE.min(frame.header.len()));
        let envelope = codec::decode(envelope)?;
        let message = Self::decode_parts(frame.kind, message, frame.body)?;
        Ok((envelope, message))
    }
}

fn frame(kind: u16, header: Vec<u8>, values: Option<&Values>) -> Frame {
    Frame { kind, header: header.into(), body: values.map(Values::body).unwrap_or_default() }
}
