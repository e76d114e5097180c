//! Clients: their connections, and each request with its answer.

use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use super::arrivals::{Arrival, Arrivals};
use super::tally::Tally;
use crate::transport::{Connection, Responder};
use crate::wire::client::Failure;
use crate::wire::frame::Frame;
use crate::wire::registry::Reply;

/// Bytes that one unit of room stands for.
const UNIT: usize = 4 << 10;

/// Serves clients.
pub(super) struct Desk {
    arrivals: Arc<Arrivals>,
    room: Arc<Semaphore>,
    tally: Arc<Tally>,
}

impl Desk {
    /// A desk that works on requests of `mib` MiB at a time.
    pub(super) fn new(arrivals: Arc<Arrivals>, mib: u32, tally: Arc<Tally>) -> Self {
        Desk { arrivals, room: room(mib), tally }
    }

    /// Serves one client until it is gone or `stop` turns true; then what is under way is finished.
    pub(super) async fn serve(self: Arc<Self>, client: Connection, mut stop: watch::Receiver<bool>) {
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                Some(_) = requests.join_next() => {}
                request = client.accept_request() => match request {
                    Ok((frame, responder)) => {
                        requests.spawn(Arc::clone(&self).answer(client.clone(), frame, responder));
                    }
                    Err(error) => return tracing::debug!(client = %client.peer_key(), %error, "a client left"),
                }
            }
        }
        while requests.join_next().await.is_some() {}
    }

    async fn answer(self: Arc<Self>, client: Connection, frame: Frame, responder: Responder) {
        let client = client.peer_key();
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(weight(&frame)) else {
            self.tally.overloaded(&client);
            return respond(responder, Failure::Overloaded.into()).await;
        };
        let (reply, answer) = oneshot::channel();
        self.arrivals.check(Arrival::Request { frame, client, reply, room });
        // Without an answer the responder tells the client that there is none: what became of its
        // request is not known.
        let Ok(mut answer) = answer.await else { return };
        if let Reply::Status(status) = &mut answer {
            self.tally.add_to(status);
        }
        respond(responder, answer).await;
    }
}

async fn respond(responder: Responder, reply: Reply) {
    if let Err(error) = responder.respond(reply.encode()).await {
        tracing::debug!(%error, "an answer did not arrive");
    }
}

/// Room for `mib` MiB.
pub(super) fn room(mib: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(((mib as usize) << 20) / UNIT))
}

/// How much room a frame takes.
pub(super) fn weight(frame: &Frame) -> u32 {
    // A frame is far shorter than 2^32 units.
    u32::try_from(frame.encoded_len().div_ceil(UNIT)).unwrap_or(u32::MAX)
}
