//! What the handles of both modes share: a namespace that was opened, and what can be done in either mode.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::client::Client;
use super::error::{ReadError, UpdateError};
use super::exchange::Deadline;
use super::fence::FenceKey;
use super::get::Get;
use super::list::List;
use super::reading::{Conflict, Resolution, Sibling};
use super::update::{Change, Updated};
use super::version::{Basis, Version};
use super::write::Pending;
use crate::core::chain::Mode;
use crate::core::object::{Key, NamespaceId, NamespaceName};
use crate::core::policy::Namespace;
use crate::core::write::WriteId;

pub(super) type Resolver = dyn Fn(&Conflict) -> Resolution + Send + Sync;

/// An opened namespace in whichever mode it has: for tools that serve both. Programs open
/// [`Siblings`](super::Siblings) or [`Linearizable`](super::Linearizable), which promise more.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct Space {
    pub(super) client: Client,
    pub(super) namespace: Arc<Namespace>,
    /// What merges siblings.
    pub(super) resolver: Option<Arc<Resolver>>,
    /// What fences every read and write.
    pub(super) fence: Option<FenceKey>,
}

impl Space {
    pub(super) fn new(client: &Client, namespace: &Namespace) -> Self {
        let namespace = Arc::new(namespace.clone());
        Space { client: client.clone(), namespace, resolver: None, fence: None }
    }

    /// Whether its keys are registers.
    pub fn is_linearizable(&self) -> bool {
        self.mode() == Mode::Linearizable
    }

    /// The namespace's mode.
    pub fn mode(&self) -> Mode {
        self.namespace.policy.mode
    }

    /// The namespace's name.
    pub fn name(&self) -> &NamespaceName {
        &self.namespace.policy.name
    }

    /// The namespace's id.
    pub fn id(&self) -> NamespaceId {
        self.namespace.id
    }

    /// The resource whose owner alone may write here, if there is one.
    pub fn owned_by(&self) -> Option<&Key> {
        self.namespace.owned_by.as_ref()
    }

    /// The client that opened it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace with every read and write fenced by a tenure; see
    /// [`Linearizable::fenced_by`](super::Linearizable::fenced_by).
    pub fn fenced_by(&self, fence: impl AsRef<FenceKey>) -> Self {
        Space { fence: Some(fence.as_ref().clone()), ..self.clone() }
    }

    /// Reads a key: what is live, verified, with its value. Of a register: the version that was current at
    /// some moment of this call.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Get<'_> {
        Get::new(self, key.as_ref().to_vec().try_into())
    }

    /// Puts a value where none is: refused if a live value exists. It names nothing; where only deletions
    /// are, it is refused once and made again naming these. Of any number of creators of a register exactly
    /// one is applied.
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

    /// Reads, has `change` compute, compares and sets, and again if others were faster, with growing
    /// pauses. Of a register: every `change` that ends in `Applied` had exactly one effect.
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

    /// The keys that begin with `prefix`, in the order of their bytes, page by page. Not a snapshot; a write
    /// of the last moments may be missing.
    pub fn list(&self, prefix: impl AsRef<[u8]>) -> List<'_> {
        List::new(self, prefix.as_ref(), false)
    }

    /// Completes a basis that was given as text with the stamps that nodes hold of its versions: with
    /// these, any node can take a write that names them. Writes do this by themselves; a register needs
    /// none.
    pub async fn complete(&self, basis: Basis) -> Result<Basis, ReadError> {
        let bare = |version: &Version| version.causality().stamps().next().is_none();
        if self.is_linearizable() || !basis.versions.iter().any(bare) {
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
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("name", &self.namespace.policy.name)
            .field("id", &self.namespace.id)
            .field("resolves", &self.resolver.is_some())
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
