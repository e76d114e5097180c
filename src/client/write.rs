//! Writes: create, replace, delete, overwrite; what becomes of them.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::error::WriteError;
use super::exchange::{Deadline, pauses};
use super::fence::FenceKey;
use super::prepare::{Draft, Prepared, operation_nonce};
use super::reading::{Head, Reading, Sibling};
use super::space::Space;
use super::version::{Basis, Version, Versions};
use crate::core::object::{InvalidKey, Key};
use crate::core::register::Bound;
use crate::core::version::SignedWrite;
use crate::core::write::{Body, WriteId};
use crate::wire::client::OnConflict;

/// The verdict on a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is durable on as many replicas as the namespace asks for.
    Applied {
        /// What it made.
        version: Version,
        /// The other live versions that its replicas listed: it met these, or they came after.
        siblings: Vec<WriteId>,
    },
    /// Nothing changed.
    Refused {
        /// Why.
        reason: RefusedReason,
        /// The live versions. `None` if this identity may not read, or a register's fence said no, or so many
        /// writes came in between that the refusal did not show them and they could not be read.
        current: Option<Vec<Head>>,
    },
}

/// Why a write was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedReason {
    /// A `create` found a live value.
    Exists,
    /// What the write names is not what is there.
    Changed,
    /// The register is bound to an ownership that the write does not have, or no longer.
    Fenced(Bound),
}

/// A write that is about to be made: [await](IntoFuture) it to submit it, or [`prepare`](Self::prepare) it
/// for later.
#[must_use = "a write is made when it is awaited"]
pub struct Pending<'a> {
    handle: &'a Space,
    kind: Kind,
    /// `None` deletes.
    value: Option<Bytes>,
    on_conflict: OnConflict,
    operation: Option<String>,
    fence: Option<FenceKey>,
    hook: Option<Hook<'a>>,
}

type Hook<'a> = Box<dyn FnMut(&Prepared) -> std::io::Result<()> + Send + Sync + 'a>;

/// What the write names as its parents.
enum Kind {
    Create(Result<Key, InvalidKey>),
    Replace(Basis),
    /// Whatever is there.
    Overwrite(Result<Key, InvalidKey>),
}

impl<'a> Pending<'a> {
    /// Keeps the write beside the live versions if they are not those it names, instead of refusing it.
    /// Nothing is kept beside the version of a register: there it changes nothing.
    pub fn or_sibling(mut self) -> Self {
        self.on_conflict = OnConflict::KeepBoth;
        self
    }

    /// Says what to do if the live versions are not those it names.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Makes the write the one write of this operation: done again with the same id, key, value and
    /// basis, in this process or another, it is the same write with one effect.
    pub fn operation(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }

    /// Fences the write by a tenure: it is applied only while no higher term of its resource has written
    /// or sealed the key. Only registers take fenced writes.
    pub fn fenced_by(mut self, fence: impl AsRef<FenceKey>) -> Self {
        self.fence = Some(fence.as_ref().clone());
        self
    }

    /// Calls `hook` with every write before it is first sent, to save its receipt; an error keeps it from
    /// being sent. (A `create` over a deletion, or an `overwrite` that lost a race, sends a second one, after
    /// the first was refused.)
    pub fn before_send(
        mut self,
        hook: impl FnMut(&Prepared) -> std::io::Result<()> + Send + Sync + 'a,
    ) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Signs the write without sending it. A `create` names nothing then.
    pub async fn prepare(self) -> Result<Prepared, WriteError> {
        let (key, replaces) = self.parents().await?;
        self.draft(&key, replaces)
    }

    pub(super) fn create(handle: &'a Space, key: Result<Key, InvalidKey>, value: Bytes) -> Self {
        Self::new(handle, Kind::Create(key), Some(value))
    }

    pub(super) fn replace(handle: &'a Space, basis: Basis, value: Option<Bytes>) -> Self {
        Self::new(handle, Kind::Replace(basis), value)
    }

    pub(super) fn overwrite(handle: &'a Space, key: Result<Key, InvalidKey>, value: Option<Bytes>) -> Self {
        Self::new(handle, Kind::Overwrite(key), value)
    }

    fn new(handle: &'a Space, kind: Kind, value: Option<Bytes>) -> Self {
        let on_conflict = OnConflict::Refuse;
        Pending { handle, kind, value, on_conflict, operation: None, fence: handle.fence.clone(), hook: None }
    }

    fn draft(&self, key: &Key, replaces: Versions) -> Result<Prepared, WriteError> {
        self.handle.sign(Draft {
            key,
            replaces,
            value: self.value.clone(),
            on_conflict: self.on_conflict,
            operation: self.operation.as_deref(),
            fence: self.fence.as_ref(),
        })
    }

    /// The key, and what the write names first.
    async fn parents(&self) -> Result<(Key, Versions), WriteError> {
        if self.operation.is_some() {
            // An operation is looked for in the epoch that is current and the one before.
            self.handle.client.refresh().await?;
        }
        match &self.kind {
            Kind::Create(key) => Ok((key.clone()?, Versions::absent())),
            Kind::Replace(basis) => {
                if basis.namespace.is_some_and(|namespace| namespace != self.handle.namespace.id) {
                    return Err(WriteError::OtherNamespace);
                }
                let key = basis.key()?.clone();
                // Without stamps a node that does not hold a parent has to take the others' word for it; who
                // may not read has to hope that it holds them.
                let basis = self.handle.complete(basis.clone()).await.unwrap_or_else(|_| basis.clone());
                Ok((key, basis.versions))
            }
            Kind::Overwrite(key) => {
                let key = key.clone()?;
                let deadline = Deadline::after(self.handle.client.timeout());
                let reading = self.handle.read(&key, false, false, deadline).await?;
                Ok((key, reading.versions()))
            }
        }
    }

    async fn make(mut self) -> Result<Written, WriteError> {
        let client = &self.handle.client;
        let deadline = Deadline::after(client.timeout());
        let mut pauses = pauses();
        let mut expired = false;
        let (key, mut replaces) = self.parents().await?;
        loop {
            let anything = matches!(self.kind, Kind::Overwrite(_));
            if anything && self.value.is_none() && replaces.is_absent() {
                return Ok(Written::Refused { reason: RefusedReason::Changed, current: Some(Vec::new()) });
            }
            let prepared = self.draft(&key, replaces.clone())?;
            if let Some(hook) = &mut self.hook {
                hook(&prepared).map_err(|error| WriteError::Receipt(error.to_string()))?;
            }
            let current = match client.submit_by(&prepared, deadline).await {
                Ok(Written::Refused { reason, current }) => match self.own(&key, current.as_deref()) {
                    // Sent again it is applied once more: the verdict has to come from enough replicas.
                    Some(signed) => {
                        let own = Prepared { signed, operation: false, ..prepared }.doubted();
                        return client.submit_by(&own, deadline).await;
                    }
                    None => (reason, current),
                },
                // The write is new and no attempt of it is in doubt: what nobody remembers was never done.
                Err(WriteError::Forgotten) if self.operation.is_none() => {
                    let reading = self.handle.read(&key, false, false, deadline).await.ok();
                    let heads =
                        |reading: Reading| reading.siblings.into_iter().map(Sibling::into_head).collect();
                    (RefusedReason::Changed, reading.map(heads))
                }
                // Nothing was done, and the write is new: it may as well be signed for the next epoch.
                Err(WriteError::Expired { .. }) if !expired && client.refresh().await.is_ok() => {
                    expired = true;
                    continue;
                }
                verdict => return verdict,
            };
            let (reason, current) = current;
            let fenced = matches!(reason, RefusedReason::Fenced(_));
            let next = if anything && !fenced { None } else { self.again(&replaces, current.as_deref()) };
            if (next.is_none() && !anything) || fenced || !deadline.pause(&mut pauses).await {
                return Ok(Written::Refused { reason, current });
            }
            replaces = match next {
                Some(next) => next,
                // What was current at the refusal is old after the pause.
                None => self.parents().await?.1,
            };
        }
    }

    /// What a refused write names next, if it is made again.
    fn again(&self, replaces: &Versions, current: Option<&[Head]>) -> Option<Versions> {
        let current = current?;
        let versions: Versions = current.iter().map(|head| head.version().clone()).collect();
        match self.kind {
            Kind::Replace(_) => None,
            Kind::Overwrite(_) => None,
            Kind::Create(_) => {
                let deleted = !current.is_empty() && current.iter().all(Head::is_delete);
                (deleted && versions.ids() != replaces.ids()).then_some(versions)
            }
        }
    }

    /// The current version that an earlier run of this operation made.
    fn own(&self, key: &Key, current: Option<&[Head]>) -> Option<Arc<SignedWrite>> {
        let nonce = operation_nonce(self.operation.as_deref()?, self.handle.namespace.id, key);
        let body = self.value.as_deref().map_or(Body::Delete, Body::put);
        let author = self.handle.client.identity().public();
        let own = current?.iter().map(Head::signed).find(|signed| {
            let write = signed.write();
            write.nonce == nonce && write.author == author && write.body == body
        })?;
        Some(own.clone())
    }
}

impl<'a> IntoFuture for Pending<'a> {
    type Output = Result<Written, WriteError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl Written {
    /// The version it made, if it was applied.
    pub fn applied(&self) -> Option<&Version> {
        match self {
            Written::Applied { version, .. } => Some(version),
            Written::Refused { .. } => None,
        }
    }

    /// Whether it was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self, Written::Refused { .. })
    }
}

impl fmt::Display for RefusedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusedReason::Exists => "a live value exists",
            RefusedReason::Changed => "what was named is not what is there",
            RefusedReason::Fenced(bound) => {
                return write!(f, "fenced: the key is bound to {} of term {}", bound.resource, bound.term);
            }
        })
    }
}
