//! What waits for the engine's thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::engine::Input;
use crate::engine::arrival::Request;
use crate::engine::store::Batch;
use crate::wire::registry::Reply;

/// One queue that any thread puts into, and the engine's thread empties.
///
/// What it holds is bounded by the permits in its letters: whoever has none waits, or is refused.
#[derive(Default)]
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    signals: VecDeque<Signal>,
    letters: VecDeque<Letter>,
}

/// An input for the engine.
pub(super) enum Letter {
    /// A client waits for an answer.
    Request {
        /// What it asks, checked.
        request: Box<Request>,
        /// Bytes of its frame.
        len: usize,
        /// Where the answer goes.
        reply: oneshot::Sender<Reply>,
        /// Its share of what may be worked on, until it is answered.
        room: OwnedSemaphorePermit,
    },
    /// Anything else.
    Input {
        /// The input.
        input: Box<Input>,
        /// Bytes of its frame, if it came in one.
        len: usize,
        /// Its share of what may wait, until it is stepped.
        room: Option<OwnedSemaphorePermit>,
    },
}

/// Something about the node itself.
pub(super) enum Signal {
    /// The batch in flight is durable.
    Committed,
    /// The batch in flight was refused before anything of it was written.
    Refused(Batch),
    /// Whether the disk is short of space.
    Short(bool),
    /// What this node rests on does not work any more.
    Failed(String),
    /// Sync what was stepped, and end.
    Stop,
    /// End at once.
    Abandon,
}

/// What was waiting.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) signals: VecDeque<Signal>,
    pub(super) letters: Vec<Letter>,
}

impl Letter {
    /// An input that needs no room.
    pub(super) fn news(input: Input) -> Self {
        Letter::Input { input: Box::new(input), len: 0, room: None }
    }

    fn len(&self) -> usize {
        match self {
            Letter::Request { len, .. } | Letter::Input { len, .. } => *len,
        }
    }
}

impl Mailbox {
    /// Puts letters at the end, in order.
    pub(super) fn post(&self, letters: impl IntoIterator<Item = Letter>) {
        self.lock().letters.extend(letters);
        self.news.notify_one();
    }

    /// Puts a signal, which is taken before any letter.
    pub(super) fn signal(&self, signal: Signal) {
        self.lock().signals.push_back(signal);
        self.news.notify_one();
    }

    /// Takes all signals, and letters from the front: at most `count` of them and `bytes` bytes. Waits until
    /// there is something to take, but at most for `patience`, if that is given.
    pub(super) fn take(&self, count: usize, bytes: usize, patience: Option<Duration>) -> Taken {
        let fits = |letter: &Letter, left: usize| letter.len() <= left;
        let idle = |waiting: &mut Waiting| {
            let next = waiting.letters.front().filter(|letter| count > 0 && fits(letter, bytes));
            waiting.signals.is_empty() && next.is_none()
        };
        let waiting = self.lock();
        let mut waiting = match patience {
            Some(patience) => {
                let waited = self.news.wait_timeout_while(waiting, patience, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.news.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner),
        };
        let mut taken = Taken { signals: std::mem::take(&mut waiting.signals), letters: Vec::new() };
        let mut left = bytes;
        while taken.letters.len() < count
            && waiting.letters.front().is_some_and(|letter| fits(letter, left))
            && let Some(letter) = waiting.letters.pop_front()
        {
            left -= letter.len();
            taken.letters.push(letter);
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whole between any two statements, also after a panic elsewhere.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the mailbox if the thread that holds this ends by a panic: its work is done by nobody else.
pub(super) struct Watch(pub(super) std::sync::Arc<Mailbox>);

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            self.0.signal(Signal::Failed(format!("the thread {thread} panicked; the log says where")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(len: usize) -> Letter {
        Letter::Input { input: Box::new(Input::Tick), len, room: None }
    }

    #[test]
    fn what_is_taken_is_bounded_in_number_and_bytes_and_stays_in_order() {
        let mailbox = Mailbox::default();
        mailbox.post([10, 20, 30, 40].map(letter));
        let lens = |taken: Taken| taken.letters.iter().map(Letter::len).collect::<Vec<_>>();
        assert_eq!(lens(mailbox.take(1, 100, None)), [10]);
        assert_eq!(lens(mailbox.take(9, 50, None)), [20, 30]);
        let nothing = Some(Duration::from_millis(1));
        assert!(lens(mailbox.take(9, 39, nothing)).is_empty(), "the next one does not fit");
        assert!(lens(mailbox.take(0, 100, nothing)).is_empty());
        mailbox.signal(Signal::Committed);
        let taken = mailbox.take(0, 0, None);
        assert_eq!((taken.signals.len(), taken.letters.len()), (1, 0), "signals pass when letters wait");
        assert_eq!(lens(mailbox.take(9, 40, None)), [40]);
    }
}
