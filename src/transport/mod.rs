//! QUIC between peers and clients: who is at the other end, frames over streams, links that stay up.
//!
//! ```text
//! tls         raw ed25519 keys in TLS 1.3, and the verifiers of either side
//! admission   who may connect, asked after the handshake and again when the configuration changes
//! endpoint    one UDP socket: dial, accept
//! connection  one request per stream, both ends of it
//! stream      one frame on or off a stream, within bounds of size and time
//! links       one connection per peer, dialled again whenever it breaks
//! peer        what links are told about peers, and what they tell
//! link        one such connection: its hello, its writer, its readers
//! queue       what waits to be written to a peer
//! ```
//!
//! A key is proved by the handshake, but the client of a handshake is done before its own key has been
//! judged. So a dialled connection is a promise only: that a client is denied shows at its first
//! request, as [`ConnectionError::Denied`], and a link is up after the first answer.

mod admission;
mod connection;
mod endpoint;
mod error;
mod link;
mod links;
mod peer;
mod queue;
mod stream;
mod tls;

#[cfg(test)]
mod fixtures;

pub use admission::{Admission, Admitted};
pub use connection::{Connection, Replies, Responder};
pub use endpoint::{Endpoint, Options};
pub use error::{Code, ConnectionError, DialError, EndpointError};
pub use links::Links;
pub use peer::{DownReason, LinkEvent, LinkOptions, Peer, Twin, Whoami};

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How soon a connection notices that nobody is there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// After this long without traffic the side that dialled sends a packet that must be acknowledged.
    pub keep_alive: Duration,
    /// After this long without a packet the connection is lost. The shorter of both sides' counts.
    pub idle: Duration,
}

impl Timing {
    /// For clients: keep-alive every 5 s, lost after 30 s.
    pub const CLIENT: Timing = Timing { keep_alive: Duration::from_secs(5), idle: Duration::from_secs(30) };
    /// For links between peers: keep-alive every 250 ms, lost after 1.5 s.
    pub const LINK: Timing =
        Timing { keep_alive: Duration::from_millis(250), idle: Duration::from_millis(1500) };
}

impl Default for Timing {
    fn default() -> Self {
        Timing::CLIENT
    }
}

/// Locks, also after a panic elsewhere: what these mutexes guard is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
