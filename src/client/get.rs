//! Reads.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::error::ReadError;
use super::reading::Reading;
use super::siblings::Siblings;
use crate::core::object::{InvalidKey, Key};

/// A read that is about to be made: await it.
#[must_use = "a read is made when it is awaited"]
pub struct Get<'a> {
    handle: &'a Siblings,
    key: Result<Key, InvalidKey>,
    local: bool,
    history: bool,
}

impl<'a> Get<'a> {
    pub(super) fn new(handle: &'a Siblings, key: Result<Key, InvalidKey>) -> Self {
        Get { handle, key, local: false, history: false }
    }

    /// Takes one node's word instead of a read quorum's: faster, works in any partition, may be old.
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    /// Gives superseded versions too, as far as they are still held.
    pub fn history(mut self) -> Self {
        self.history = true;
        self
    }
}

impl<'a> IntoFuture for Get<'a> {
    type Output = Result<Reading, ReadError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let _ = (self.handle, self.key, self.local, self.history);
        unimplemented!()
    }
}
