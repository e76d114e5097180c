//! Read-modify-write.

use std::future::Future;

use bytes::Bytes;

use super::error::{UpdateError, WriteError};
use super::exchange::{Deadline, pauses};
use super::get::Get;
use super::prepare::Draft;
use super::space::Space;
use super::version::Version;
use super::write::{RefusedReason, Written};
use crate::core::write::WriteId;
use crate::wire::client::OnConflict;

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

/// An update goes on for at most this many times the client's time-out.
const PATIENCE: u32 = 6;

impl Space {
    /// [`update`](Self::update) with a `change` that waits for something.
    pub async fn update_with<F: Future<Output = Change>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<Bytes>) -> F,
    ) -> Result<Updated, UpdateError> {
        let key = key.as_ref();
        let timeout = self.client.timeout();
        let deadline = Deadline::after(timeout * PATIENCE);
        let mut pauses = pauses();
        let mut attempts = 0;
        loop {
            let reading = Get::new(self, key.to_vec().try_into()).await.map_err(WriteError::Read)?;
            let current = reading.value().map_err(|unresolved| UpdateError::Siblings(unresolved.count))?;
            let value = match change(current.cloned()).await {
                Change::Put(value) => Some(value),
                Change::Delete => None,
                Change::Keep => return Ok(Updated::Kept),
                Change::Abort => return Ok(Updated::Aborted),
            };
            attempts += 1;
            let draft = Draft {
                key: reading.key(),
                replaces: reading.versions(),
                value,
                on_conflict: OnConflict::Refuse,
                operation: None,
                fence: self.fence.as_ref(),
            };
            let prepared = self.sign(draft)?;
            let verdict = match self.client.submit(&prepared).await {
                // It may be there already: another write would come on top of it. The same one again.
                Err(WriteError::Unknown(unknown)) if self.is_linearizable() => {
                    self.client.settle_register(unknown.receipt(), Deadline::after(timeout)).await
                }
                Err(WriteError::Unknown(unknown)) => {
                    self.client.insist(unknown.receipt(), Deadline::after(timeout)).await
                }
                // Nothing was done, and the epoch that is signed was too old.
                Err(WriteError::Expired { .. }) if self.client.refresh().await.is_ok() => {
                    Ok(Written::Refused { reason: RefusedReason::Changed, current: None })
                }
                // The write is new and no attempt of it is in doubt: what nobody remembers was never done.
                Err(WriteError::Forgotten) => {
                    Ok(Written::Refused { reason: RefusedReason::Changed, current: None })
                }
                verdict => verdict,
            };
            match verdict? {
                Written::Applied { version, siblings } => return Ok(Updated::Applied { version, siblings }),
                Written::Refused { reason: RefusedReason::Fenced(bound), .. } => {
                    return Err(UpdateError::Fenced(bound));
                }
                Written::Refused { .. } => {
                    if !deadline.pause(&mut pauses).await {
                        return Err(UpdateError::Contended { attempts });
                    }
                }
            }
        }
    }
}
