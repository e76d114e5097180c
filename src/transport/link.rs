//! One connection between two peers while it serves as their link.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quinn::RecvStream;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::peer::{LinkEvent, Whoami};
use super::queue::{Batch, Held, Queue};
use super::stream::{self, Outgoing};
use super::{Code, Connection, ConnectionError};
use crate::core::codec;
use crate::core::identity::MemberId;
use crate::wire::frame::Frame;

/// The kind of the frame that opens a link in each direction; no other frame has it.
const HELLO: u16 = 0;

/// Large frames that are read from one peer at a time; times the largest frame, it is the memory that a
/// peer can make this side hold.
const LARGE_AT_ONCE: usize = 32;

/// How long a link that gave way to another may take to bring across what is already on it.
const RETIREMENT: Duration = Duration::from_secs(1);

/// The first frame on a link, from either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The newest level of the protocol that the sender speaks.
    pub(super) level: u32,
    pub(super) member: MemberId,
    /// Drawn at each start, so that a restart, or a second process with the same key, can be told apart.
    pub(super) process: u64,
}

/// A connection on which both sides have said hello.
pub(super) struct Greeted {
    pub(super) hello: Hello,
    pub(super) streams: Streams,
}

/// The two long-lived streams of a link, past the hello.
pub(super) struct Streams {
    outgoing: Outgoing,
    incoming: RecvStream,
}

/// A link as the peer's slot knows it.
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) connection: Connection,
    pub(super) process: u64,
    pub(super) dialled_by: MemberId,
    pub(super) level: u32,
    pub(super) retired: watch::Sender<bool>,
    /// Set after the link's last frame has been handed on.
    pub(super) ended: watch::Sender<bool>,
}

/// Exchanges hellos. On failure the connection has been closed with the reason.
pub(super) async fn greet(
    connection: &Connection,
    own: &Whoami,
    patience: Duration,
) -> Result<Greeted, ConnectionError> {
    let hello = Hello { level: own.level, member: own.member, process: own.process };
    match timeout(patience, exchange(connection, hello)).await {
        Ok(Ok(greeted)) => Ok(greeted),
        Ok(Err(error)) => {
            connection.close(Code::BAD_FRAME, &format!("no hello: {error}"));
            // Had the other side closed first, its reason is the one that helps.
            Err(match connection.close_reason() {
                Some(ConnectionError::ClosedHere) | None => error,
                Some(theirs) => theirs,
            })
        }
        Err(_) => {
            connection.close(Code::TOO_SLOW, "no hello came in time");
            Err(ConnectionError::TimedOut)
        }
    }
}

async fn exchange(connection: &Connection, own: Hello) -> Result<Greeted, ConnectionError> {
    let quinn = &connection.0.quinn;
    let mut outgoing = Outgoing::new(quinn.open_uni().await?, Code::DONE);
    // Votes and acknowledgements go ahead of large values.
    outgoing.prefer();
    outgoing
        .write(&Frame { kind: HELLO, header: Bytes::from(codec::encode(&own)), body: Bytes::new() })
        .await?;
    // Streams are accepted in the order they were opened in, so this one is the other side's first.
    let mut incoming = quinn.accept_uni().await?;
    let frame = stream::read_frame(&mut incoming).await?.ok_or(ConnectionError::NoFrame)?;
    if frame.kind != HELLO || !frame.body.is_empty() {
        return Err(ConnectionError::NoFrame);
    }
    let hello = codec::decode(&frame.header).map_err(|_| ConnectionError::NoFrame)?;
    Ok(Greeted { hello, streams: Streams { outgoing, incoming } })
}

/// Carries frames both ways until the connection is gone; returns why it is. All frames that came have been handed
/// on by then.
pub(super) async fn drive(
    link: &Link,
    streams: Streams,
    queue: Arc<Queue>,
    member: MemberId,
    events: mpsc::Sender<LinkEvent>,
) -> ConnectionError {
    let Streams { outgoing, incoming } = streams;
    let inbox = Inbox { member, events };
    let small = async {
        let overdue = async {
            // The sender lives in `link`, so waiting can only end well.
            let _ = link.retired.subscribe().wait_for(|retired| *retired).await;
            sleep(RETIREMENT).await;
        };
        let both = async { tokio::join!(write(link, outgoing, queue), read(link, incoming, &inbox)) };
        tokio::select! {
            biased;
            _ = both => {}
            () = overdue => {}
        }
        link.connection.close(Code::DUPLICATE, "another connection between these two peers stays");
    };
    tokio::join!(small, read_large(link, &inbox));
    link.connection.closed().await
}

#[derive(Clone)]
struct Inbox {
    member: MemberId,
    events: mpsc::Sender<LinkEvent>,
}

impl Inbox {
    /// Waits while the node is behind; the peer then feels it through QUIC's flow control.
    async fn deliver(&self, frame: Frame) {
        let _ = self.events.send(LinkEvent::Frame(self.member, frame)).await;
    }
}

/// Writes what is queued until the link retires, and then sees it across.
async fn write(link: &Link, mut outgoing: Outgoing, queue: Arc<Queue>) {
    let mut retired = link.retired.subscribe();
    let mut large = JoinSet::new();
    loop {
        let Batch { small, large: apart } = tokio::select! {
            biased;
            _ = retired.wait_for(|retired| *retired) => break,
            _ = link.connection.closed() => return,
            Some(_) = large.join_next() => continue,
            batch = queue.take() => batch,
        };
        for (frame, held) in apart {
            large.spawn(write_large(link.connection.0.quinn.clone(), frame, held));
        }
        if let Some((bytes, _held)) = small
            && outgoing.write_bytes(bytes).await.is_err()
        {
            return;
        }
    }
    outgoing.finish();
    let _ = outgoing.acknowledged().await;
    while large.join_next().await.is_some() {}
}

async fn write_large(quinn: quinn::Connection, frame: Frame, _held: Held) {
    let Ok(stream) = quinn.open_uni().await else { return };
    let mut outgoing = Outgoing::new(stream, Code::CANCELLED);
    if outgoing.write(&frame).await.is_ok() {
        outgoing.finish();
        let _ = outgoing.acknowledged().await;
    }
}

/// Hands on small frames, in their order, until the other side ends the stream.
async fn read(link: &Link, mut incoming: RecvStream, inbox: &Inbox) {
    let mut bytes = BytesMut::new();
    loop {
        match incoming.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            // A torn frame at the end of a stream is lost with its connection.
            Ok(None) | Err(_) => return,
        }
        loop {
            match Frame::take(&mut bytes) {
                Ok(Some(frame)) if frame.kind != HELLO => inbox.deliver(frame).await,
                Ok(None) => break,
                Ok(Some(_)) => return link.connection.close(Code::BAD_FRAME, "a second hello"),
                Err(error) => return link.connection.close(Code::BAD_FRAME, &error.to_string()),
            }
        }
    }
}

/// Hands on the large frames, each from its own stream, until the connection is gone.
async fn read_large(link: &Link, inbox: &Inbox) {
    let mut reading = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = reading.join_next() => {}
            stream = link.connection.0.quinn.accept_uni(), if reading.len() < LARGE_AT_ONCE => {
                let Ok(incoming) = stream else { break };
                reading.spawn(read_one(link.connection.clone(), incoming, inbox.clone()));
            }
        }
    }
    while reading.join_next().await.is_some() {}
}

async fn read_one(connection: Connection, mut incoming: RecvStream, inbox: Inbox) {
    match stream::read_frame(&mut incoming).await {
        Ok(Some(frame)) if frame.kind != HELLO => inbox.deliver(frame).await,
        Ok(None) | Err(ConnectionError::Dropped(_)) => {}
        Ok(Some(_)) => connection.close(Code::BAD_FRAME, "a second hello"),
        Err(error) => connection.close(Code::BAD_FRAME, &error.to_string()),
    }
}
