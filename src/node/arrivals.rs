//! The threads that check what came in, so that the engine's thread never verifies a signature.
//!
//! Not on the runtime's threads: a flood of signatures there would delay the keep-alives of links.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::mailbox::{Letter, Mailbox, Watch};
use super::tally::Tally;
use crate::core::cluster::Configuration;
use crate::core::identity::{MemberId, PublicKey};
use crate::core::verified::RootCache;
use crate::engine::Input;
use crate::engine::arrival::{self, Message};
use crate::wire::frame::Frame;
use crate::wire::registry::Reply;

/// What came in.
pub(super) enum Arrival {
    /// A client's request.
    Request {
        /// The request.
        frame: Frame,
        /// The key of the client's connection.
        client: PublicKey,
        /// Where the answer goes.
        reply: oneshot::Sender<Reply>,
        /// Its share of what may be worked on.
        room: OwnedSemaphorePermit,
    },
    /// A peer's message.
    Message {
        /// The message.
        frame: Frame,
        /// Whose connection it came on.
        from: MemberId,
        /// Its share of what may wait.
        room: OwnedSemaphorePermit,
    },
}

/// The checking threads. They end, with what waits for them, when this is dropped.
pub(super) struct Arrivals {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    news: Condvar,
    config: watch::Receiver<Arc<Configuration>>,
    cache: RootCache,
    mailbox: Arc<Mailbox>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct Waiting {
    ended: bool,
    messages: VecDeque<Arrival>,
    requests: VecDeque<Arrival>,
}

impl Arrivals {
    /// Starts `threads` threads that put into `mailbox` what passes by the newest configuration.
    pub(super) fn start(
        threads: usize,
        config: watch::Receiver<Arc<Configuration>>,
        mailbox: Arc<Mailbox>,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            news: Condvar::new(),
            config,
            cache: RootCache::default(),
            mailbox,
            tally,
        });
        let mut arrivals = Arrivals { shared, threads: Vec::new() };
        for number in 1..=threads.max(1) {
            let shared = Arc::clone(&arrivals.shared);
            let thread = thread::Builder::new().name(format!("tanist-check-{number}"));
            arrivals.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(arrivals)
    }

    /// Has `arrival` checked.
    pub(super) fn check(&self, arrival: Arrival) {
        let mut waiting = self.shared.lock();
        match arrival {
            Arrival::Request { .. } => waiting.requests.push_back(arrival),
            Arrival::Message { .. } => waiting.messages.push_back(arrival),
        }
        drop(waiting);
        self.shared.news.notify_one();
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.news.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let _watch = Watch(Arc::clone(&self.mailbox));
        while let Some(arrival) = self.next() {
            let config = self.config.borrow().clone();
            match arrival {
                Arrival::Request { frame, client, reply, room } => {
                    self.request(&config, frame, client, reply, room);
                }
                Arrival::Message { frame, from, room } => self.message(&config, frame, from, room),
            }
        }
    }

    /// What came first; peers go before clients, as their answers end what is under way.
    fn next(&self) -> Option<Arrival> {
        let idle = |waiting: &mut Waiting| {
            !waiting.ended && waiting.messages.is_empty() && waiting.requests.is_empty()
        };
        let waited = self.news.wait_while(self.lock(), idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        if waiting.ended {
            return None;
        }
        waiting.messages.pop_front().or_else(|| waiting.requests.pop_front())
    }

    fn request(
        &self,
        config: &Configuration,
        frame: Frame,
        client: PublicKey,
        reply: oneshot::Sender<Reply>,
        room: OwnedSemaphorePermit,
    ) {
        let len = frame.encoded_len();
        match arrival::request(frame, client, config, &self.cache) {
            Ok(request) => {
                self.mailbox.post([Letter::Request { request: Box::new(request), len, reply, room }]);
            }
            Err(failure) => {
                self.tally.request(&failure, &client);
                let _ = reply.send(failure.into());
            }
        }
    }

    fn message(&self, config: &Configuration, frame: Frame, from: MemberId, room: OwnedSemaphorePermit) {
        let len = frame.encoded_len();
        let checked = match arrival::message(frame, from, config, &self.cache) {
            Ok(checked) => checked,
            Err(error) => return self.tally.message(&error, &from),
        };
        for rejection in &checked.rejected {
            self.tally.version(rejection, &from);
        }
        let mut room = Some(room);
        let letter = |input: Input| {
            if let Input::Peer { message: Message::Forward { request, .. }, .. } = &input
                && let Err(failure) = &**request
            {
                self.tally.request(failure, &from);
            }
            // The message itself comes last in what follows from it, and frees the room.
            let last = matches!(input, Input::Peer { .. });
            let room = if last { room.take() } else { None };
            Letter::Input { input: Box::new(input), len: if last { len } else { 0 }, room }
        };
        self.mailbox.post(checked.inputs.into_iter().map(letter).collect::<Vec<_>>());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
