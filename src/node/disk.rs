//! The data of a running node, and the two threads that wait for its disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::mailbox::{Mailbox, Signal, Watch};
use crate::core::identity::Incarnation;
use crate::core::limits;
use crate::engine::store::{Batch, StoreError};
use crate::storage::directory::Directory;
use crate::storage::{CommitError, Store};

/// How often the mark is synced and the free space looked at.
const ROUND: Duration = Duration::from_secs(1);

/// Writes are refused while so much less is free than a batch needs: what was stepped already still
/// finds room.
const MARGIN: u64 = 2 * limits::BATCH_LEN as u64;

/// What a driver needs of a node's data, besides the rows.
pub(super) trait Data: Store {
    /// Gives the data a new incarnation, durably.
    fn renew(&self, incarnation: Incarnation) -> Result<(), StoreError>;

    /// Makes the mark of the last synced batch durable.
    fn sync_mark(&self) -> Result<(), StoreError>;

    /// Whether there is too little space for more writes.
    fn is_short(&self) -> Result<bool, StoreError>;
}

impl Data for Directory {
    fn renew(&self, incarnation: Incarnation) -> Result<(), StoreError> {
        self.reset_incarnation(incarnation)
    }

    fn sync_mark(&self) -> Result<(), StoreError> {
        self.sync_high_water()
    }

    fn is_short(&self) -> Result<bool, StoreError> {
        Ok(self.short_of(MARGIN)? > 0)
    }
}

/// The threads beside the engine's. They end when this is dropped.
pub(super) struct Hands {
    /// Takes the one batch that is in flight.
    pub(super) batches: SyncSender<Batch>,
    _keeping: Sender<()>,
}

/// Starts the threads, which report to `mailbox`.
pub(super) fn start(
    data: &Arc<dyn Data>,
    mailbox: &Arc<Mailbox>,
) -> std::io::Result<(Hands, [JoinHandle<()>; 2])> {
    let (batches, handed) = sync_channel(1);
    let (keeping, kept) = channel();
    let (writer, keeper) = (Arc::clone(data), Arc::clone(data));
    let (told_by_writer, told_by_keeper) = (Arc::clone(mailbox), Arc::clone(mailbox));
    let write = thread::Builder::new()
        .name("tanist-disk".to_owned())
        .spawn(move || write(&*writer, &handed, told_by_writer))?;
    let keep = thread::Builder::new()
        .name("tanist-keeper".to_owned())
        .spawn(move || keep(&*keeper, &kept, told_by_keeper))?;
    Ok((Hands { batches, _keeping: keeping }, [write, keep]))
}

/// Commits one batch after the other, until one fails.
fn write(data: &dyn Data, batches: &Receiver<Batch>, mailbox: Arc<Mailbox>) {
    let watch = Watch(mailbox);
    while let Ok(batch) = batches.recv() {
        let signal = match data.commit(&batch) {
            Ok(()) => Signal::Committed,
            Err(CommitError::DiskFull { short_of }) => {
                tracing::debug!(batch = batch.number, short_of, "no space for a batch");
                Signal::Refused(batch)
            }
            Err(error) => Signal::Failed(error.to_string()),
        };
        // After a failed sync nothing is known any more: no batch may follow.
        let failed = matches!(signal, Signal::Failed(_));
        watch.0.signal(signal);
        if failed {
            return;
        }
    }
}

/// Looks after the disk once a second.
fn keep(data: &dyn Data, ended: &Receiver<()>, mailbox: Arc<Mailbox>) {
    let watch = Watch(mailbox);
    let mut synced = 0;
    let mut short = false;
    loop {
        let look = || {
            let last = data.last_batch();
            if last != synced {
                data.sync_mark()?;
            }
            Ok((last, data.is_short()?))
        };
        match look() {
            Ok((last, now_short)) => {
                synced = last;
                if now_short != short {
                    watch.0.signal(Signal::Short(now_short));
                    short = now_short;
                }
            }
            Err(StoreError::Damaged(why) | StoreError::Failed(why)) => {
                return watch.0.signal(Signal::Failed(why));
            }
        }
        match ended.recv_timeout(ROUND) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
