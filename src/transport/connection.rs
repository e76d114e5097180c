//! A connection: requests out, requests in, one stream each.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::admission::{Admitted, Registry, Seat};
use super::stream::{self, Outgoing, ReadError};
use super::{Code, ConnectionError, lock};
use crate::core::identity::PublicKey;
use crate::wire::frame::Frame;

/// A QUIC connection whose other end has proved a key. Clones are handles of the same connection, which
/// closes when the last of them, and of the requests under way on it, is gone.
#[derive(Clone)]
pub struct Connection(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) quinn: quinn::Connection,
    pub(super) peer: PublicKey,
    /// `None` on the side that dialled: it chose whom to call.
    pub(super) seat: Mutex<Option<Seat>>,
    registry: Option<Arc<Registry>>,
    requests: AsyncMutex<Requests>,
    patience: Duration,
}

/// Streams that were opened by the other side and whose frames are still coming in.
struct Requests {
    // Only QUIC's own handles live in here: a handle of this connection would keep itself alive.
    reading: JoinSet<Option<(Frame, Responder)>>,
    first_by: Option<Instant>,
}

impl Connection {
    pub(super) fn dialled(quinn: quinn::Connection, peer: PublicKey, patience: Duration) -> Self {
        Connection::new(quinn, peer, None, None, patience)
    }

    pub(super) fn accepted(
        quinn: quinn::Connection,
        peer: PublicKey,
        seat: Seat,
        registry: Arc<Registry>,
        patience: Duration,
    ) -> Self {
        Connection::new(quinn, peer, Some(seat), Some(registry), patience)
    }

    fn new(
        quinn: quinn::Connection,
        peer: PublicKey,
        seat: Option<Seat>,
        registry: Option<Arc<Registry>>,
        patience: Duration,
    ) -> Self {
        // Whoever was called has to hear something soon; whoever called may never be asked anything.
        let first_by = registry.is_some().then(|| Instant::now() + patience);
        let requests = AsyncMutex::new(Requests { reading: JoinSet::new(), first_by });
        Connection(Arc::new(Shared { quinn, peer, seat: Mutex::new(seat), registry, requests, patience }))
    }

    /// The key that the other end proved.
    pub fn peer_key(&self) -> PublicKey {
        self.0.peer
    }

    /// As what the other end was admitted; `None` if this side dialled.
    pub fn admitted(&self) -> Option<Admitted> {
        lock(&self.0.seat).as_ref().map(|seat| seat.admitted)
    }

    /// Whether this side dialled.
    pub fn is_dialled(&self) -> bool {
        self.0.registry.is_none()
    }

    /// Where the other end is now.
    pub fn remote_addr(&self) -> SocketAddr {
        self.0.quinn.remote_address()
    }

    /// The current estimate of the round-trip time.
    pub fn rtt(&self) -> Duration {
        self.0.quinn.rtt()
    }

    /// Asks one question and waits for its one answer, without a limit of time.
    ///
    /// Dropping the future resets the stream: the other side learns that nobody waits any more, though
    /// it may have carried the request out.
    pub async fn request(&self, frame: Frame) -> Result<Frame, ConnectionError> {
        let mut replies = self.ask(frame).await?;
        let answer = replies.next().await?.ok_or(ConnectionError::NoFrame)?;
        if stream::at_end(&mut replies.incoming).await? { Ok(answer) } else { Err(ConnectionError::LeftOver) }
    }

    /// Asks one question whose answer is any number of frames, such as a watch. Dropping the result
    /// tells the other side to stop.
    pub async fn ask(&self, frame: Frame) -> Result<Replies, ConnectionError> {
        let (send, incoming) = self.0.quinn.open_bi().await?;
        let mut outgoing = Outgoing::new(send, Code::CANCELLED);
        outgoing.write(&frame).await?;
        outgoing.finish();
        Ok(Replies { outgoing, incoming })
    }

    /// The next request whose frame has come in whole, and the means to answer it.
    ///
    /// Streams with garbage, or slower than their size excuses, are reset and do not show here. A
    /// connection whose first request does not come in time is closed. An error means that the connection is gone.
    /// Cancel-safe: no request is lost.
    pub async fn accept_request(&self) -> Result<(Frame, Responder), ConnectionError> {
        let mut requests = self.0.requests.lock().await;
        loop {
            let first_by = requests.first_by;
            tokio::select! {
                biased;
                Some(read) = requests.reading.join_next() => {
                    if let Ok(Some(request)) = read {
                        requests.first_by = None;
                        return Ok(request);
                    }
                }
                stream = self.0.quinn.accept_bi() => {
                    let (send, recv) = stream?;
                    requests.reading.spawn(read_request(send, recv, self.0.patience));
                }
                () = sleep_until(first_by.unwrap_or_else(Instant::now)), if first_by.is_some() => {
                    self.close(Code::TOO_SLOW, "no request came in time after the handshake");
                    return Err(ConnectionError::ClosedHere);
                }
            }
        }
    }

    /// Closes the connection at once, if it still is one. What was written but not yet acknowledged may be lost; see
    /// [`Responder::respond`].
    pub fn close(&self, code: Code, reason: &str) {
        // A second close would put "closed here" in the place of the reason the other side gave.
        if self.0.quinn.close_reason().is_none() {
            self.0.quinn.close(code.varint(), reason.as_bytes());
        }
    }

    /// Waits until the connection is gone, and says why.
    pub async fn closed(&self) -> ConnectionError {
        self.0.quinn.closed().await.into()
    }

    /// Why the connection is gone, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.quinn.close_reason().map(ConnectionError::from)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.0.peer)
            .field("remote", &self.remote_addr())
            .field("admitted", &self.admitted())
            .finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(registry) = &self.registry {
            registry.forget(self.quinn.stable_id());
        }
    }
}

async fn read_request(
    send: SendStream,
    mut recv: RecvStream,
    patience: Duration,
) -> Option<(Frame, Responder)> {
    let outgoing = Outgoing::new(send, Code::UNANSWERED);
    let code = match stream::read_frame_in_time(&mut recv, patience).await {
        Ok(Some(frame)) => return Some((frame, Responder { outgoing, incoming: recv })),
        Err(ReadError::TooSlow) => Code::TOO_SLOW,
        Err(ReadError::Broken(ConnectionError::Dropped(_))) => Code::CANCELLED,
        Ok(None) | Err(ReadError::Broken(_)) => Code::BAD_FRAME,
    };
    tracing::debug!(%code, "a stream without a usable request");
    let _ = recv.stop(code.varint());
    outgoing.reset(code);
    None
}

/// The answers to one question, in order.
pub struct Replies {
    outgoing: Outgoing,
    incoming: RecvStream,
}

impl Replies {
    /// The next answer, or `None` after the last one. Not cancel-safe: after a dropped call the next one
    /// may start in the middle of a frame.
    pub async fn next(&mut self) -> Result<Option<Frame>, ConnectionError> {
        let frame = stream::read_frame(&mut self.incoming).await?;
        // An answer shows that the question has arrived, so nothing of it is left to take back.
        self.outgoing.done();
        Ok(frame)
    }
}

/// The means to answer one request. Dropped without [`respond`](Responder::respond), the asker learns
/// that there will be no answer.
pub struct Responder {
    outgoing: Outgoing,
    #[allow(dead_code, reason = "held so that the asker is not told to stop while its request is worked on")]
    incoming: RecvStream,
}

impl Responder {
    /// Sends the last or only answer; returns when the asker has acknowledged all of it, so that closing the
    /// connection afterwards loses nothing. Spawn it where that wait is in the way.
    pub async fn respond(mut self, frame: Frame) -> Result<(), ConnectionError> {
        self.outgoing.write(&frame).await?;
        self.end().await
    }

    /// Sends one of several answers, waiting while the asker is slow. End with
    /// [`respond`](Responder::respond) or [`end`](Responder::end).
    pub async fn send(&mut self, frame: &Frame) -> Result<(), ConnectionError> {
        self.outgoing.write(frame).await
    }

    /// Ends a series of answers; returns when all are acknowledged.
    pub async fn end(mut self) -> Result<(), ConnectionError> {
        self.outgoing.finish();
        self.outgoing.acknowledged().await
    }

    /// Waits until the asker has gone away, or the connection has.
    pub async fn abandoned(&self) {
        self.outgoing.abandoned().await;
    }
}
