//! What was read of a key: its live versions, their values, and what a resolver made of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::version::{Basis, Version, Versions};
use crate::core::identity::PublicKey;
use crate::core::object::{Key, NamespaceId};
use crate::core::stamp::SignedStamp;
use crate::core::version::{self, SignedWrite};
use crate::core::write::{Body, WriteId};

/// A version without its value: who wrote what when. Its signatures were verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    signed: Arc<SignedWrite>,
    version: Version,
}

/// A version with its value. Its signatures and the value's hash were verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    head: Head,
    value: Bytes,
}

/// What is there under a key: all live versions, and the value to work with.
///
/// A reading says what a write replaces: pass it to [`replace`](super::Space::replace) or
/// [`delete`](super::Space::delete). It can be kept for later as a [`Basis`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub(super) namespace: NamespaceId,
    pub(super) key: Key,
    pub(super) siblings: Vec<Sibling>,
    pub(super) history: Vec<Sibling>,
    pub(super) evidence: Vec<Arc<SignedStamp>>,
    pub(super) resolved: Option<Option<Bytes>>,
}

/// Siblings for a resolver to merge: at least two live versions, of which at least one has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The key.
    pub key: Key,
    /// The live versions, by id. All replicas give them in this order.
    pub siblings: Vec<Sibling>,
    /// The newest version that all siblings descend from, if it is still held and they do.
    pub ancestor: Option<Sibling>,
}

/// What a resolver decides.
///
/// A resolver is pure: it may run twice, on the siblings of any moment, and nobody waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// This is the value; a write based on the reading replaces every sibling.
    Merge(Bytes),
    /// They stay side by side; the reading shows all of them.
    Keep,
    /// The key is to be deleted.
    Delete,
    /// The siblings do not make sense; the read fails with this message.
    Abort(String),
}

/// A key has siblings, and nothing has merged them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{count} versions are live side by side; resolve them, or open the namespace with a resolver")]
pub struct Unresolved {
    /// How many.
    pub count: usize,
}

impl Head {
    pub(super) fn new(version: version::Version) -> Self {
        let generation = version.write().generation;
        Head { version: Version::new(version.id(), generation, version.stamps), signed: version.signed }
    }

    /// How it is named.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Its id.
    pub fn id(&self) -> WriteId {
        self.version.id()
    }

    /// Who signed it.
    pub fn author(&self) -> PublicKey {
        self.signed.write().author
    }

    /// When its author wrote it, by the author's own clock, in milliseconds since 1970; 0 if it
    /// was written with an operation id. For people: nothing is decided by it.
    pub fn wall_ms(&self) -> u64 {
        self.signed.write().wall_ms
    }

    /// Whether it is a deletion.
    pub fn is_delete(&self) -> bool {
        self.signed.write().is_delete()
    }

    /// Bytes of its value; `None` for a deletion.
    pub fn value_len(&self) -> Option<u64> {
        match self.signed.write().body {
            Body::Put { len, .. } => Some(len),
            Body::Delete => None,
        }
    }

    /// The versions that it replaced.
    pub fn parents(&self) -> &[WriteId] {
        &self.signed.write().parents
    }

    /// The write, as its author signed it.
    pub fn signed(&self) -> &Arc<SignedWrite> {
        &self.signed
    }
}

impl Sibling {
    pub(super) fn new(head: Head, value: Bytes) -> Self {
        Sibling { head, value }
    }

    pub(super) fn into_head(self) -> Head {
        self.head
    }

    /// Who wrote it and when.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How it is named.
    pub fn version(&self) -> &Version {
        &self.head.version
    }

    /// Its value; `None` for a deletion.
    pub fn value(&self) -> Option<&Bytes> {
        (!self.head.is_delete()).then_some(&self.value)
    }
}

impl Reading {
    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The namespace.
    pub fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    /// The value: the only one there is, or what the handle's resolver made of several. `None` if
    /// the key is absent or deleted.
    pub fn value(&self) -> Result<Option<&Bytes>, Unresolved> {
        if let Some(resolved) = &self.resolved {
            return Ok(resolved.as_ref());
        }
        match &self.siblings[..] {
            [] => Ok(None),
            [one] => Ok(one.value()),
            many if many.iter().all(|sibling| sibling.head.is_delete()) => Ok(None),
            many => Err(Unresolved { count: many.len() }),
        }
    }

    /// Whether nothing but deletions is there, or nothing at all.
    pub fn is_absent(&self) -> bool {
        self.siblings.iter().all(|sibling| sibling.head.is_delete())
    }

    /// Whether several versions are live and at least one of them is a value, merged or not.
    pub fn is_conflict(&self) -> bool {
        self.siblings.len() > 1 && !self.is_absent()
    }

    /// Whether [`value`](Self::value) is what a resolver made of several siblings.
    pub fn is_merged(&self) -> bool {
        self.resolved.is_some()
    }

    /// The live versions, by id: deletions too.
    pub fn siblings(&self) -> &[Sibling] {
        &self.siblings
    }

    /// The live versions' names: what a write based on this replaces.
    pub fn versions(&self) -> Versions {
        self.siblings.iter().map(|sibling| sibling.version().clone()).collect()
    }

    /// Superseded versions that are still held, by id; only if [asked for](super::Get::history).
    pub fn history(&self) -> &[Sibling] {
        &self.history
    }

    /// Stamps that contradict others of their actor: evidence of a cloned or lying node.
    pub fn evidence(&self) -> &[Arc<SignedStamp>] {
        &self.evidence
    }

    /// The reading without its values, to be saved.
    pub fn basis(&self) -> Basis {
        Basis { namespace: Some(self.namespace), key: Ok(self.key.clone()), versions: self.versions() }
    }

    /// The siblings as a resolver gets them, if there is anything to resolve.
    pub fn conflict(&self) -> Option<Conflict> {
        self.is_conflict().then(|| Conflict {
            key: self.key.clone(),
            siblings: self.siblings.clone(),
            ancestor: self.common_ancestor().cloned(),
        })
    }

    /// The held version of the highest generation from which every live version descends.
    fn common_ancestor(&self) -> Option<&Sibling> {
        let held: BTreeMap<WriteId, &Sibling> =
            self.siblings.iter().chain(&self.history).map(|sibling| (sibling.head.id(), sibling)).collect();
        let descends = |from: &Sibling, to: WriteId| {
            let mut open = from.head.parents().to_vec();
            let mut seen = std::collections::BTreeSet::new();
            while let Some(id) = open.pop() {
                if id == to {
                    return true;
                }
                if seen.insert(id)
                    && let Some(parent) = held.get(&id)
                {
                    open.extend_from_slice(parent.head.parents());
                }
            }
            false
        };
        let common = self
            .history
            .iter()
            .filter(|candidate| self.siblings.iter().all(|sibling| descends(sibling, candidate.head.id())));
        common.max_by_key(|candidate| (candidate.version().generation(), candidate.head.id()))
    }
}

impl Conflict {
    /// The values among the siblings, deletions left out.
    pub fn values(&self) -> impl Iterator<Item = &Bytes> {
        self.siblings.iter().filter_map(Sibling::value)
    }

    /// Whether one of the siblings is a deletion.
    pub fn has_deletion(&self) -> bool {
        self.siblings.iter().any(|sibling| sibling.head.is_delete())
    }
}

impl From<&Reading> for Basis {
    fn from(reading: &Reading) -> Self {
        reading.basis()
    }
}

impl From<&Basis> for Basis {
    fn from(basis: &Basis) -> Self {
        basis.clone()
    }
}
