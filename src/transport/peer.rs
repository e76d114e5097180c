//! What links are told about peers, and what they tell.

use std::net::SocketAddr;
use std::time::Duration;

use super::{ConnectionError, Timing};
use crate::core::identity::{MemberId, PublicKey};
use crate::wire::frame::Frame;

/// Who this process is to its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whoami {
    /// This member.
    pub member: MemberId,
    /// Drawn at random at every start of the process.
    pub process: u64,
    /// The newest level of the protocol that this process speaks.
    pub level: u32,
}

/// A peer and where it may be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The member.
    pub member: MemberId,
    /// The key that speaks for it.
    pub key: PublicKey,
    /// Where it may be, tried in this order; empty if it can only call us.
    pub addresses: Vec<SocketAddr>,
}

/// Settings of all links of a process.
#[derive(Debug, Clone, Copy)]
pub struct LinkOptions {
    /// Timing of dialled links. Default [`Timing::LINK`].
    pub timing: Timing,
    /// Bytes that wait for one peer at most. Default 64 MiB.
    pub queue_len: usize,
    /// Events that wait for the node at most; then peers wait too. Default 1024.
    pub events: usize,
    /// How long the other side's hello may take. Default 5 s.
    pub patience: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            timing: Timing::LINK,
            queue_len: 64 << 20,
            events: 1024,
            patience: Duration::from_secs(5),
        }
    }
}

/// What links report. Of one member: `Up` first, `Frame`s then, `Down` last, and from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The peer has answered; what is sent to it from now on goes out.
    Up(MemberId),
    /// The link broke. Whatever was sent and not answered may be lost, or may have arrived.
    Down(MemberId, DownReason),
    /// A frame from a peer. Small ones come in the order they were sent in, except where one
    /// connection of two gives way to the other; large ones (over 64 KiB) come whenever they are complete.
    Frame(MemberId, Frame),
    /// Another process holds this member's key: this one may be working on copied data.
    Twin(Twin),
}

/// Why a link is down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownReason {
    /// Its connection is gone.
    #[error(transparent)]
    Lost(#[from] ConnectionError),
    /// The peer has connected from a new process: it has restarted, or there are two of it.
    #[error("the peer has connected from another process: it was restarted, or two run with its key")]
    Restarted,
}

/// How another holder of this member's key was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin {
    /// It is at the other end of a connection with this process.
    Met,
    /// A peer has dropped this process's link in favour of one from the other process.
    ReportedBy(MemberId),
    /// No other process: a dial came back to this very one, so the peer table lists our own key as another
    /// member's.
    Mirror,
}
