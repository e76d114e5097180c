//! The versions of one key that a replica holds, and the join that merges what replicas know.
//!
//! A replica knows versions (with their stamps) and, in its applied index, which writes were
//! superseded and by which. Merging two replicas' knowledge is the union of both, then pruning:
//! commutative, associative, idempotent. A version is superseded when a known version names it, when
//! **any one** of its stamps lies in the past of a known version, or when the index says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::events::Past;
use super::identity::ActorId;
use super::stamp::SignedStamp;
use super::version::Version;
use super::write::WriteId;

/// What a replica's applied index says of one key: which writes are superseded, by which write.
///
/// Only the writes of this key are ever asked for.
pub trait Index {
    /// The write that superseded `id`, if the index has it as superseded.
    fn superseded_by(&self, id: WriteId) -> Option<WriteId>;
}

impl Index for BTreeMap<WriteId, WriteId> {
    fn superseded_by(&self, id: WriteId) -> Option<WriteId> {
        self.get(&id).copied()
    }
}

/// A version and whether it is live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    version: Version,
    live: bool,
}

/// The held versions of one key: the live ones, and the superseded ones that a live one names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Held>", into = "Vec<Held>")]
pub struct Siblings(BTreeMap<WriteId, Held>);

/// Versions are not in the one form: of each at most one, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the held versions of a key are sorted by id, each held once")]
struct InvalidSiblings;

impl TryFrom<Vec<Held>> for Siblings {
    type Error = InvalidSiblings;

    fn try_from(held: Vec<Held>) -> Result<Self, InvalidSiblings> {
        let sorted = held.windows(2).all(|pair| matches!(pair, [a, b] if a.version.id() < b.version.id()));
        if !sorted {
            return Err(InvalidSiblings);
        }
        Ok(Siblings(held.into_iter().map(|held| (held.version.id(), held)).collect()))
    }
}

impl From<Siblings> for Vec<Held> {
    fn from(siblings: Siblings) -> Self {
        siblings.0.into_values().collect()
    }
}

/// What a merge changed, for the caller to write down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Joined {
    /// Whether the held versions, their stamps or their liveness changed.
    pub changed: bool,
    /// The given version is held now and was not before: its value must be stored.
    pub added: bool,
    /// New rows of the applied index: (superseded write, by which write).
    pub superseded: Vec<(WriteId, WriteId)>,
    /// Versions that were held and no longer are: their values go.
    pub dropped: Vec<WriteId>,
}

impl Siblings {
    /// The live versions, by id.
    pub fn live(&self) -> impl Iterator<Item = &Version> {
        self.0.values().filter(|held| held.live).map(|held| &held.version)
    }

    /// The ids of the live versions, sorted.
    pub fn live_ids(&self) -> Vec<WriteId> {
        self.live().map(Version::id).collect()
    }

    /// All held versions, live or not, by id.
    pub fn held(&self) -> impl Iterator<Item = &Version> {
        self.0.values().map(|held| &held.version)
    }

    /// The held version with this id, live or not.
    pub fn version(&self, id: WriteId) -> Option<&Version> {
        self.0.get(&id).map(|held| &held.version)
    }

    /// Whether `id` is held and live.
    pub fn is_live(&self, id: WriteId) -> bool {
        self.0.get(&id).is_some_and(|held| held.live)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Merges one version into what is held.
    pub fn join(
        &mut self,
        version: Version,
        index: &dyn Index,
        distrusted: &dyn Fn(ActorId) -> bool,
    ) -> Joined {
        let id = version.id();
        let mut joined = Joined::default();
        for parent in &version.write().parents {
            if index.superseded_by(*parent).is_none() {
                joined.superseded.push((*parent, id));
            }
        }
        match self.0.get_mut(&id) {
            Some(held) => {
                for stamp in version.stamps.iter() {
                    joined.changed |= held.version.stamps.insert(Arc::clone(stamp));
                }
                if !joined.changed {
                    return Joined::default();
                }
            }
            None => {
                self.0.insert(id, Held { version, live: true });
                joined.added = true;
                joined.changed = true;
            }
        }
        self.prune(index, distrusted, &mut joined);
        if joined.added && !self.0.contains_key(&id) {
            // It came too late: only the index learns of it.
            joined.added = false;
            joined.dropped.retain(|dropped| *dropped != id);
        }
        joined
    }

    /// Takes a peer's word that `id` was superseded by `by`. The caller has made sure that `by` is
    /// held or itself superseded: a dangling claim is what a lost row looks like (S1).
    pub fn supersede(
        &mut self,
        id: WriteId,
        by: WriteId,
        index: &dyn Index,
        distrusted: &dyn Fn(ActorId) -> bool,
    ) -> Joined {
        let mut joined = Joined::default();
        if index.superseded_by(id).is_none() {
            joined.superseded.push((id, by));
            self.prune(index, distrusted, &mut joined);
        }
        joined
    }

    /// The union of the events and pasts of the versions `parents` names, over the stamps held for
    /// them and the `presented` ones: the past of a write that names them.
    pub fn past_of(&self, parents: &[WriteId], presented: &[Arc<SignedStamp>]) -> Past {
        let mut past = Past::new();
        let held = parents.iter().filter_map(|id| self.version(*id)).flat_map(|v| v.stamps.iter());
        let presented = presented.iter().filter(|s| parents.contains(&s.stamp().write));
        for stamp in held.chain(presented) {
            let stamp = stamp.stamp();
            past.union(&stamp.past);
            past.insert(stamp.actor, stamp.event());
        }
        past
    }

    /// Finds who is superseded by whom, and drops what nothing needs any more.
    fn prune(&mut self, index: &dyn Index, distrusted: &dyn Fn(ActorId) -> bool, joined: &mut Joined) {
        let known: BTreeMap<WriteId, WriteId> = joined.superseded.iter().copied().collect();
        let pasts: Vec<(WriteId, Past)> =
            self.0.values().map(|held| (held.version.id(), held.version.past())).collect();
        let mut now_dead = Vec::new();
        for (id, held) in &self.0 {
            let by_index = known.get(id).copied().or_else(|| index.superseded_by(*id));
            let by_name = || {
                let namer = self.0.values().find(|other| other.version.write().names(*id));
                namer.map(|other| other.version.id())
            };
            let by_past = || {
                pasts.iter().find_map(|(other, past)| {
                    (other != id && held.version.lies_in(past, distrusted)).then_some(*other)
                })
            };
            let Some(by) = by_index.or_else(by_name).or_else(by_past) else { continue };
            if by_index.is_none() {
                joined.superseded.push((*id, by));
            }
            if held.live {
                now_dead.push(*id);
            }
        }
        for id in now_dead {
            if let Some(held) = self.0.get_mut(&id) {
                held.live = false;
                joined.changed = true;
            }
        }
        let named: BTreeSet<WriteId> =
            self.live().flat_map(|version| version.write().parents.iter().copied()).collect();
        let before = self.0.len();
        self.0.retain(|id, held| {
            let kept = held.live || named.contains(id);
            if !kept {
                joined.dropped.push(*id);
            }
            kept
        });
        joined.changed |= self.0.len() != before;
    }
}
