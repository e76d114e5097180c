//! Listings.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::error::ListError;
use super::siblings::Siblings;
use super::version::Version;
use crate::core::object::Key;

/// A listing that is about to be asked for: await it for one page.
#[must_use = "a listing is made when it is awaited"]
pub struct List<'a> {
    handle: &'a Siblings,
    prefix: Vec<u8>,
    after: Option<Key>,
    limit: u32,
    conflicts: bool,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In the order of their bytes.
    pub keys: Vec<Listed>,
    /// Where to go on, if there may be more: pass it to [`List::after`].
    pub next: Option<Key>,
}

/// A key of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// Its live versions, each with the bytes of its value; `None` for a deletion.
    pub live: Vec<(Version, Option<u64>)>,
}

impl<'a> List<'a> {
    pub(super) fn new(handle: &'a Siblings, prefix: &[u8], conflicts: bool) -> Self {
        let limit = crate::core::limits::LIST_PAGE as u32;
        List { handle, prefix: prefix.to_vec(), after: None, limit, conflicts }
    }

    /// Goes on after this key.
    pub fn after(mut self, key: Key) -> Self {
        self.after = Some(key);
        self
    }

    /// At most so many keys; 1,000 by default and at most.
    pub fn limit(mut self, keys: u32) -> Self {
        self.limit = keys.clamp(1, self.limit);
        self
    }
}

impl<'a> IntoFuture for List<'a> {
    type Output = Result<Listing, ListError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let _ = (self.handle, self.prefix, self.after, self.limit, self.conflicts);
        unimplemented!()
    }
}
