//! The handle of a `siblings` namespace.

use std::ops::Deref;
use std::sync::Arc;

use super::error::WriteError;
use super::list::List;
use super::reading::{Conflict, Resolution};
use super::space::Space;
use super::write::{Pending, Written};

/// A namespace in `siblings` mode: available, and concurrent writes are kept side by side. It can what a
/// [`Space`] can, and merge siblings.
///
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Siblings(pub(super) Space);

impl Siblings {
    /// The handle with a resolver: reads merge siblings with it, in memory. A read writes nothing; a
    /// write based on the reading names, and so replaces, every sibling that was merged.
    pub fn resolve_with(self, resolver: impl Fn(&Conflict) -> Resolution + Send + Sync + 'static) -> Self {
        Siblings(Space { resolver: Some(Arc::new(resolver)), ..self.0 })
    }

    /// Writes what the handle's resolver makes of a key's siblings. `None` if there is nothing to resolve,
    /// or the resolver keeps them.
    pub async fn resolve(&self, key: impl AsRef<[u8]>) -> Result<Option<Written>, WriteError> {
        let reading = self.get(key).await?;
        let Some(resolved) = reading.resolved.clone() else { return Ok(None) };
        Pending::replace(&self.0, reading.basis(), resolved).await.map(Some)
    }

    /// The keys that begin with `prefix` and have several live versions.
    pub fn conflicts(&self, prefix: impl AsRef<[u8]>) -> List<'_> {
        List::new(&self.0, prefix.as_ref(), true)
    }
}

impl From<Siblings> for Space {
    fn from(siblings: Siblings) -> Self {
        siblings.0
    }
}

impl Deref for Siblings {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.0
    }
}
