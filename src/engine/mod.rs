//! The protocol as state machines without I/O.
//!
//! A [`Machine`](machine::Machine) is one node. Time, what the disk holds, and what arrived are
//! arguments; what leaves is returned. The driver of a real node and the simulator call it alike:
//!
//! 1. Bytes that arrived pass [`arrival`], on any thread, and become an [`Input`].
//! 2. [`step`](machine::Machine::step) for each waiting input, at most
//!    [`limits::BATCH_INPUTS`](crate::core::limits::BATCH_INPUTS) of them.
//! 3. [`close`](machine::Machine::close): what was stepped becomes one [`Batch`](store::Batch), its
//!    stamps signed at once. There is at most one batch in flight: call it only when the last one is
//!    [`synced`](machine::Machine::synced).
//! 4. The driver writes and syncs the batch, then calls `synced`. A batch that may or may not be
//!    durable ends the process: a failed sync is never tried again.
//! 5. [`released`](machine::Machine::released) hands out the effects that may leave now. An effect
//!    waits for the newest batch whose changes its step read or wrote, and leaves at once if all of
//!    it was durable already (P9).
//!
//! A step reads the store overlaid with everything that was stepped and is not synced yet. Without
//! the overlay two writes drained together would both match the same parents; without the holding
//! back a refusal would show a winner that a crash then takes away (attack 1).

pub mod arrival;
pub mod batch;
mod chain;
mod exchange;
mod gather;
mod key;
mod list;
pub mod machine;
mod operation;
mod outcome;
mod read;
mod recall;
mod register;
pub mod rows;
pub mod store;
mod submit;

use std::sync::Arc;

use crate::core::cluster::Configuration;
use crate::core::identity::{Incarnation, MemberId, SecretKey};
use crate::wire::peer::{Envelope, Evidence};
use crate::wire::registry::{PeerMessage, Reply};

/// Milliseconds on the driver's monotonic clock. Only differences mean anything.
pub type Millis = u64;

/// Who the node is. Everything else it knows comes from its store and its peers.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Which member.
    pub member: MemberId,
    /// The life of its data.
    pub incarnation: Incarnation,
    /// Its key.
    pub key: SecretKey,
    /// The version of the software, for `status`.
    pub software: String,
    /// The first number of this start's operations, drawn at every start: an answer to a question of an
    /// earlier start must not answer one of this start.
    pub first_operation: u64,
}

/// How long the engine waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// An operation that is not finished is answered with what is known.
    pub deadline: Millis,
    /// A replica that did not answer is asked again.
    pub resend: Millis,
    /// A read that still waits asks all replicas.
    pub hedge: Millis,
    /// A write that was answered goes on to the replicas that miss it for so long.
    pub linger: Millis,
    /// The write epoch is advanced after so long.
    pub epoch: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { deadline: 4_000, resend: 250, hedge: 40, linger: 10_000, epoch: 300_000 }
    }
}

/// Something that happened to the node.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an input is moved once, to the engine")]
pub enum Input {
    /// A client of this node asks something. The reply bears the same token.
    Request {
        /// Chosen by the driver, unique among open requests.
        token: u64,
        /// The request, checked.
        request: arrival::Request,
    },
    /// Another node says something.
    Peer {
        /// Which member the connection belongs to.
        from: MemberId,
        /// What came in front of the message.
        envelope: Envelope,
        /// The message, checked.
        message: arrival::Message,
    },
    /// A message from this peer needs an entry of the configuration that is not known here.
    Behind {
        /// Whose message it was: it has the entry.
        from: MemberId,
    },
    /// Messages to and from this peer pass.
    PeerUp(MemberId),
    /// They no longer do.
    PeerDown(MemberId),
    /// Whether the disk is too full for writes.
    DiskFull(bool),
    /// Time passed.
    Tick,
}

/// Something that the driver is to do.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an effect is moved once, to the driver")]
pub enum Effect {
    /// Send this to a peer; it may be lost.
    Send {
        /// To whom.
        to: MemberId,
        /// What goes in front.
        envelope: Envelope,
        /// The message.
        message: PeerMessage,
    },
    /// Answer a client of this node.
    Reply {
        /// The request's.
        token: u64,
        /// The answer.
        reply: Reply,
    },
    /// The configuration changed: verify by this one from now on.
    Configured(Arc<Configuration>),
    /// This node's data went backwards (P11): end this machine, give the data a new incarnation,
    /// and start over as a new actor.
    Forgot {
        /// What showed it, for the log.
        why: String,
    },
    /// A node contradicted itself: keep this and show it.
    Equivocation(Box<Evidence>),
}

/// What the engine counts, by name; shown by `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes that got a stamp here.
    pub stamped: u64,
    /// Writes answered as applied.
    pub applied: u64,
    /// Writes refused.
    pub refused: u64,
    /// Writes answered as incomplete.
    pub incomplete: u64,
    /// Writes recognised as sent before.
    pub repeated: u64,
    /// Reads answered.
    pub reads: u64,
    /// Versions that came from peers and were new here.
    pub received: u64,
    /// Versions sent to a peer that turned out to lack them.
    pub repaired: u64,
    /// Requests handed to another node.
    pub forwarded: u64,
    /// Keys whose rows turned out to be damaged.
    pub damaged: u64,
    /// Stamps that contradict others.
    pub equivocations: u64,
    /// Fresh ballots that were begun for registers.
    pub ballots: u64,
    /// Rounds in which a register's state was chosen.
    pub rounds: u64,
    /// Times that a register was looked at without a ballot.
    pub looks: u64,
    /// Writes, seals and reads of registers refused by a fence.
    pub fenced: u64,
    /// Acceptances of other bytes at a ballot that was used already.
    pub contradictions: u64,
}

impl Counters {
    /// All counters with their names.
    pub fn named(&self) -> Vec<(String, u64)> {
        let Counters {
            stamped,
            applied,
            refused,
            incomplete,
            repeated,
            reads,
            received,
            repaired,
            forwarded,
            damaged,
            equivocations,
            ballots,
            rounds,
            looks,
            fenced,
            contradictions,
        } = *self;
        [
            ("stamped", stamped),
            ("applied", applied),
            ("refused", refused),
            ("incomplete", incomplete),
            ("repeated", repeated),
            ("reads", reads),
            ("received", received),
            ("repaired", repaired),
            ("forwarded", forwarded),
            ("damaged", damaged),
            ("equivocations", equivocations),
            ("ballots", ballots),
            ("rounds", rounds),
            ("looks", looks),
            ("fenced", fenced),
            ("contradictions", contradictions),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}
