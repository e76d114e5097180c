//! Where the rows are: RocksDB in a data directory, or memory with crash semantics.
//!
//! A store is a [`View`] that one writer changes in numbered batches. Both implementations pass one
//! conformance suite (`conformance.rs`), so that what a simulation shows of the memory holds for the
//! disk.
//!
//! ```text
//! directory    the data directory of a node: format, lock, incarnation, verdict on amnesia
//! files        its small files, and how one is replaced durably
//! highwater    the last synced batch, remembered beside the database
//! reserve      room kept back, so that a full disk refuses a batch before anything of it is written
//! rocks        the rows, in RocksDB
//! memory       the rows, in memory; what a crash loses is an argument
//! amnesia      whether what is there is all that was there
//! ```

use crate::engine::store::{Batch, Change, View};

pub mod amnesia;
#[cfg(test)]
mod conformance;
#[cfg(feature = "node")]
pub mod directory;
#[cfg(feature = "node")]
mod files;
#[cfg(feature = "node")]
pub mod highwater;
pub mod memory;
#[cfg(feature = "node")]
pub mod reserve;
#[cfg(feature = "node")]
pub mod rocks;

/// An ordered map of bytes, changed by one writer in numbered batches.
///
/// Reads may run beside a commit. They see a batch whole, and only once it is durable (P9).
pub trait Store: View + Send + Sync {
    /// Writes `batch` with its number and syncs; returns only when it is durable.
    ///
    /// Batches are numbered without a gap: the next one is [`last_batch`](Store::last_batch) + 1.
    fn commit(&self, batch: &Batch) -> Result<(), CommitError>;

    /// The number of the last durable batch; 0 before the first one.
    fn last_batch(&self) -> u64;
}

/// A batch was not committed, or nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Refused before anything was written: nothing changed, the same batch may be tried again, and
    /// reads go on.
    #[error(
        "disk full: at least {short_of} bytes more must be free; make room, and writing goes on by itself"
    )]
    DiskFull {
        /// Bytes that must become free before this batch is taken.
        short_of: u64,
    },
    /// Refused before anything was written: batches come without gaps or repeats.
    #[error("batch {given} is out of order: the next one is {expected}")]
    OutOfOrder {
        /// The only number that would have been taken.
        expected: u64,
        /// The number of the refused batch.
        given: u64,
    },
    /// Refused before anything was written: the data forgot something, or has no incarnation yet.
    #[error("the data has no incarnation of its own yet: draw a new one before anything is written")]
    NoIncarnation,
    /// Whether the batch is durable is unknown, and so for all later ones: the process must end.
    ///
    /// Trying again would be wrong even if it worked: after a failed sync the kernel may have
    /// dropped the pages, and a second sync that succeeds says nothing about them.
    #[error("storage failed, end this process and start it again: {0}")]
    Failed(String),
}

/// Bytes that the keys and values of `batch` take, about what its log record takes.
pub(crate) fn batch_len(batch: &Batch) -> u64 {
    let len = |change: &Change| match change {
        Change::Put { key, value } => key.len() + value.len(),
        Change::Delete { key } => key.len(),
    };
    // 16: tag and lengths of an entry in the log, rounded up.
    batch.changes.iter().map(|change| len(change) as u64 + 16).sum()
}

/// `Ok` if `given` is the batch after `last`.
fn check_order(last: u64, given: u64) -> Result<(), CommitError> {
    let expected = last.saturating_add(1);
    if given == expected { Ok(()) } else { Err(CommitError::OutOfOrder { expected, given }) }
}
