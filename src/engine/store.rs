//! What the engine asks of a store: an ordered map of bytes that is read at any time and changed in
//! batches.
//!
//! The engine never waits for a store. It reads through a [`View`], and writes by returning
//! [`Change`]s that the driver puts into one batch, syncs, and reports back. What a batch changed is
//! visible in the store's `View` only once its log is synced: what is read from a store is durable,
//! everything else is in the engine's overlay.

use bytes::Bytes;

/// Reads what is durable.
pub trait View {
    /// The value under `key`, or `None` if there is none.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Up to `limit` pairs whose key starts with `prefix` and is greater than `after` (from the
    /// first one if `None`), in the order of the keys' bytes.
    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;
}

/// One change to the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `key` now has `value`, whatever it had before.
    Put {
        /// The row's key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// `key` is gone; nothing happens if it was not there.
    Delete {
        /// The row's key.
        key: Bytes,
    },
}

/// Changes that become durable together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// One more than the batch before; the first batch of a store is 1. Stored with the batch, so
    /// that a store knows how far it got.
    pub number: u64,
    /// Applied in order: of two changes to one key the later one stays.
    pub changes: Vec<Change>,
}

/// A store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A row or a file is not what was written: it must not be served.
    #[error("damaged data: {0}")]
    Damaged(String),
    /// The device or the database failed. Whether an interrupted batch is durable is not known.
    #[error("storage failed: {0}")]
    Failed(String),
}
