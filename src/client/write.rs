//! Writes: create, replace, delete, overwrite; what becomes of them.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;

use super::error::WriteError;
use super::prepare::Prepared;
use super::reading::Head;
use super::siblings::Siblings;
use super::version::{Basis, Version};
use crate::core::object::{InvalidKey, Key};
use crate::core::write::WriteId;
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
        /// The live versions. `None` if this identity may not read.
        current: Option<Vec<Head>>,
    },
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedReason {
    /// A `create` found a live value.
    Exists,
    /// What the write names is not what is there.
    Changed,
}

/// A write that is about to be made: [await](IntoFuture) it to submit it, or [`prepare`](Self::prepare) it
/// for later.
#[must_use = "a write is made when it is awaited"]
pub struct Pending<'a> {
    handle: &'a Siblings,
    kind: Kind,
    /// `None` deletes.
    value: Option<Bytes>,
    on_conflict: OnConflict,
    operation: Option<String>,
    hook: Option<Hook<'a>>,
}

type Hook<'a> = Box<dyn FnMut(&Prepared) -> std::io::Result<()> + Send + 'a>;

/// What the write names as its parents.
enum Kind {
    Create(Result<Key, InvalidKey>),
    Replace(Basis),
    /// Whatever is there.
    Overwrite(Result<Key, InvalidKey>),
}

impl<'a> Pending<'a> {
    /// Keeps the write beside the live versions if they are not those it names, instead of refusing it.
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

    /// Calls `hook` with every write before it is first sent, to save its receipt; an error keeps it from
    /// being sent. (A `create` over a deletion, or an `overwrite` that lost a race, sends a second one, after
    /// the first was refused.)
    pub fn before_send(mut self, hook: impl FnMut(&Prepared) -> std::io::Result<()> + Send + 'a) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Signs the write without sending it. A `create` names nothing then.
    pub async fn prepare(self) -> Result<Prepared, WriteError> {
        unimplemented!()
    }
}

impl<'a> IntoFuture for Pending<'a> {
    type Output = Result<Written, WriteError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        unimplemented!()
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
        })
    }
}
