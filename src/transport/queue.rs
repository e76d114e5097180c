//! What waits to be written to one peer: bounded in bytes, and empty while the link is down.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use super::lock;
use crate::core::limits;
use crate::wire::frame::Frame;

/// A frame longer than this travels on a stream of its own, past which the small ones flow.
pub(super) const SMALL: usize = 64 << 10;

/// Bytes of small frames that go into one write at most.
const BATCH: usize = 256 << 10;

pub(super) struct Queue {
    limit: usize,
    state: Mutex<State>,
    ready: Notify,
    dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    open: bool,
    frames: VecDeque<Frame>,
    /// Bytes of `frames` and of batches that are being written.
    held: usize,
}

/// Frames taken off the queue; their bytes count against its limit until this is dropped.
pub(super) struct Batch {
    /// Small frames, encoded end to end in the order they were sent in.
    pub(super) small: Option<(Bytes, Held)>,
    /// Large frames.
    pub(super) large: Vec<(Frame, Held)>,
}

/// Bytes that are on their way out.
pub(super) struct Held {
    queue: Arc<Queue>,
    len: usize,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let dropped = AtomicU64::new(0);
        Arc::new(Queue { limit, state: Mutex::default(), ready: Notify::new(), dropped })
    }

    /// Queues `frame`, or counts it as dropped if the link is down, the queue full or the frame too large.
    pub(super) fn push(&self, frame: Frame) -> bool {
        let len = frame.encoded_len();
        let mut state = lock(&self.state);
        let fits = state.held.saturating_add(len) <= self.limit;
        if !state.open || !fits || frame.header.len() + frame.body.len() > limits::FRAME_LEN {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        state.held += len;
        state.frames.push_back(frame);
        drop(state);
        self.ready.notify_one();
        true
    }

    /// Frames are taken from now on.
    pub(super) fn open(&self) {
        lock(&self.state).open = true;
    }

    /// No frames are taken from now on, and those that wait are dropped: whoever sent them hears that the
    /// link is down, and a peer that comes back is not met by a flood of old news.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.open = false;
        let waiting = std::mem::take(&mut state.frames);
        state.held -= waiting.iter().map(Frame::encoded_len).sum::<usize>();
        self.dropped.fetch_add(waiting.len() as u64, Ordering::Relaxed);
    }

    /// Frames dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// What waits, once something does. Cancel-safe.
    pub(super) async fn take(self: &Arc<Self>) -> Batch {
        loop {
            if let Some(batch) = self.take_now() {
                return batch;
            }
            self.ready.notified().await;
        }
    }

    fn take_now(self: &Arc<Self>) -> Option<Batch> {
        let mut state = lock(&self.state);
        let mut small = BytesMut::new();
        let mut large = Vec::new();
        while small.len() < BATCH
            && let Some(frame) = state.frames.pop_front()
        {
            let len = frame.encoded_len();
            if len > SMALL {
                large.push((frame, self.hold(len)));
            } else {
                frame.encode_into(&mut small);
            }
        }
        drop(state);
        if small.is_empty() && large.is_empty() {
            return None;
        }
        let len = small.len();
        Some(Batch { small: (len > 0).then(|| (small.freeze(), self.hold(len))), large })
    }

    fn hold(self: &Arc<Self>, len: usize) -> Held {
        Held { queue: self.clone(), len }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.queue.state).held -= self.len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Frame {
        Frame { kind: 9, header: Bytes::new(), body: Bytes::from(vec![0; len]) }
    }

    #[tokio::test]
    async fn bytes_count_until_they_are_written_and_overflow_is_counted() {
        let queue = Queue::new(100);
        assert!(!queue.push(frame(10)), "closed at first");
        queue.open();
        assert!(queue.push(frame(50)));
        assert!(!queue.push(frame(50)), "two preludes on top");
        let batch = queue.take().await;
        assert!(!queue.push(frame(50)), "the first is still being written");
        drop(batch);
        assert!(queue.push(frame(50)));
        assert_eq!(queue.dropped(), 3);
        queue.close();
        assert_eq!(queue.dropped(), 4, "what waited is dropped with the link");
        queue.open();
        assert!(queue.push(frame(80)), "and its bytes are free again");
    }

    #[tokio::test]
    async fn small_frames_are_coalesced_and_large_ones_set_apart() {
        let queue = Queue::new(4 << 20);
        queue.open();
        for len in [1, 2, SMALL, 3, limits::FRAME_LEN] {
            assert!(queue.push(frame(len)));
        }
        assert!(!queue.push(frame(limits::FRAME_LEN + 1)), "no receiver would take it");
        let batch = queue.take().await;
        let (bytes, _held) = batch.small.expect("three small frames wait");
        let mut bytes = BytesMut::from(&bytes[..]);
        let mut small = Vec::new();
        while let Ok(Some(frame)) = Frame::take(&mut bytes) {
            small.push(frame.body.len());
        }
        assert_eq!(small, [1, 2, 3]);
        assert_eq!(
            batch.large.iter().map(|(frame, _)| frame.body.len()).collect::<Vec<_>>(),
            [SMALL, 2 << 20]
        );
    }
}
