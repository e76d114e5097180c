//! Read-modify-write.

use bytes::Bytes;

use super::version::Version;
use crate::core::write::WriteId;

/// What an update makes of the current value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This is the new value.
    Put(Bytes),
    /// The key is to be deleted.
    Delete,
    /// It is right as it is.
    Keep,
    /// The update is given up.
    Abort,
}

/// How an update ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// Its write was applied.
    Applied {
        /// What it made.
        version: Version,
        /// Other live versions that its replicas listed.
        siblings: Vec<WriteId>,
    },
    /// The current value was kept: nothing was written.
    Kept,
    /// It was given up: nothing was written.
    Aborted,
}

impl Change {
    /// [`Change::Put`] of anything that turns into bytes.
    pub fn put(value: impl Into<Bytes>) -> Self {
        Change::Put(value.into())
    }
}
