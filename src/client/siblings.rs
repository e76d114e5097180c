//! The handle of a `siblings` namespace.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::client::Client;
use super::error::{ReadError, UpdateError, WriteError};
use super::exchange::Deadline;
use super::get::Get;
use super::list::List;
use super::reading::{Conflict, Resolution, Sibling};
use super::update::{Change, Updated};
use super::version::{Basis, Version};
use super::write::{Pending, Written};
use crate::core::object::{NamespaceId, NamespaceName};
use crate::core::policy::Namespace;
use crate::core::write::WriteId;

pub(super) type Resolver = dyn Fn(&Conflict) -> Resolution + Send + Sync;

/// A namespace in `siblings` mode: available, and concurrent writes are kept side by side.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct Siblings {
    pub(super) client: Client,
    pub(super) namespace: Arc<Namespace>,
    pub(super) resolver: Option<Arc<Resolver>>,
}

impl Siblings {
    /// The handle with a resolver: reads merge siblings with it, in memory. A read writes nothing; a
    /// write based on the reading names, and so replaces, every sibling that was merged.
    pub fn resolve_with(self, resolver: impl Fn(&Conflict) -> Resolution + Send + Sync + 'static) -> Self {
        Siblings { resolver: Some(Arc::new(resolver)), ..self }
    }

    /// The namespace's name.
    pub fn name(&self) -> &NamespaceName {
        &self.namespace.policy.name
    }

    /// The namespace's id.
    pub fn id(&self) -> NamespaceId {
        self.namespace.id
    }

    /// The client that opened it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads a key: every live version, verified, with its value.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Get<'_> {
        Get::new(self, key.as_ref().to_vec().try_into())
    }

    /// Puts a value where none is: refused if a live value exists. It names nothing; where only deletions
    /// are, it is refused once and made again naming these.
    pub fn create(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Pending<'_> {
        Pending::create(self, key.as_ref().to_vec().try_into(), value.into())
    }

    /// Compare-and-set: puts `value` in the place of exactly what was read.
    pub fn replace(&self, basis: impl Into<Basis>, value: impl Into<Bytes>) -> Pending<'_> {
        Pending::replace(self, basis.into(), Some(value.into()))
    }

    /// Deletes exactly what was read.
    pub fn delete(&self, basis: impl Into<Basis>) -> Pending<'_> {
        Pending::replace(self, basis.into(), None)
    }

    /// Puts `value` in the place of whatever is there: reads, replaces, and again if others were faster.
    pub fn overwrite(&self, key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Pending<'_> {
        Pending::overwrite(self, key.as_ref().to_vec().try_into(), Some(value.into()))
    }

    /// Deletes whatever is there. A key that is absent stays so: the verdict is then `Refused` with nothing current.
    pub fn delete_any(&self, key: impl AsRef<[u8]>) -> Pending<'_> {
        Pending::overwrite(self, key.as_ref().to_vec().try_into(), None)
    }

    /// Reads, has `change` compute, compares and sets, and again if others were faster, with growing pauses.
    ///
    /// `change` runs again only after a refusal. While the outcome of its last try is unknown, the same
    /// write is submitted until there is a verdict; if there is none by the deadline the error carries
    /// the receipt.
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<Bytes>) -> Change,
    ) -> Result<Updated, UpdateError> {
        self.update_with(key, |current| std::future::ready(change(current))).await
    }

    /// Writes what the handle's resolver makes of a key's siblings. `None` if there is nothing to resolve,
    /// or the resolver keeps them.
    pub async fn resolve(&self, key: impl AsRef<[u8]>) -> Result<Option<Written>, WriteError> {
        let reading = self.get(key).await?;
        let Some(resolved) = reading.resolved.clone() else { return Ok(None) };
        Pending::replace(self, reading.basis(), resolved).await.map(Some)
    }

    /// Completes a basis that was given as text with the stamps that nodes hold of its versions: with
    /// these, any node can take a write that names them. Writes do this by themselves.
    pub async fn complete(&self, basis: Basis) -> Result<Basis, ReadError> {
        let bare = |version: &Version| version.causality().stamps().next().is_none();
        if !basis.versions.iter().any(bare) {
            return Ok(basis);
        }
        let deadline = Deadline::after(self.client.timeout());
        let reading = self.read(basis.key()?, false, true, deadline).await?;
        let held = reading.siblings.iter().chain(&reading.history).map(Sibling::version);
        let held: BTreeMap<WriteId, &Version> = held.map(|version| (version.id(), version)).collect();
        let versions = basis.versions.iter().map(|version| match held.get(&version.id()) {
            Some(held) if held.generation() == version.generation() => (*held).clone(),
            _ => version.clone(),
        });
        Ok(Basis { versions: versions.collect(), ..basis })
    }

    /// The keys that begin with `prefix`, in the order of their bytes, page by page. Not a snapshot.
    pub fn list(&self, prefix: impl AsRef<[u8]>) -> List<'_> {
        List::new(self, prefix.as_ref(), false)
    }

    /// The keys that begin with `prefix` and have several live versions.
    pub fn conflicts(&self, prefix: impl AsRef<[u8]>) -> List<'_> {
        List::new(self, prefix.as_ref(), true)
    }
}

impl fmt::Debug for Siblings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Siblings")
            .field("name", self.name())
            .field("id", &self.id())
            .field("resolves", &self.resolver.is_some())
            .finish_non_exhaustive()
    }
}
