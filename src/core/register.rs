//! Registers: the state that the replicas of a key agree on, and how a write stands to it.
//!
//! What is agreed on is the whole state, fence and memory included (CASPaxos: Rystsov, "CASPaxos:
//! Replicated State Machines without logs", 2018). Acceptors judge ballots and signatures only; terms
//! and parents are judged here, by whoever proposes. An acceptor that vetoed a term would wedge the
//! key as soon as recovery had to carry that value (attack 8).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hash::{Context, Hash};
use super::limits;
use super::object::{Key, NamespaceId};
use super::version::Version;
use super::write::{Fence, Term, Write, WriteId};

/// The agreed state of one register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct RegisterState {
    /// How many writes were applied since the key was first written.
    pub generation: u64,
    /// The current version, a deletion included; none, if the key was never written. It has one stamp.
    pub version: Option<Version>,
    /// The ownership that the key is bound to, once a fenced write or read bound it.
    pub bound: Option<Bound>,
    /// The newest applied writes, the newest first. Every applied write raises the generation by one,
    /// so the i-th of them is the one of generation - i (R3).
    pub recent: Vec<WriteId>,
    /// Writes of later generations that must never be applied, by generation and id.
    pub void: Vec<(u64, WriteId)>,
}

/// The ownership that a key is bound to: only writes of this resource and of this or a higher term
/// are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// What must be owned.
    pub resource: Key,
    /// The highest term that was seen.
    pub term: Term,
}

/// How a write stands to a register's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It was applied: it is the current version, or an earlier one that is still remembered.
    Applied,
    /// It can be applied to this state.
    Open,
    /// It was not applied and never will be.
    Refused,
    /// As [`Refused`](Self::Refused), because the key is bound to this.
    Fenced(Bound),
    /// It names a later generation than the state can take next: nothing is decided about it.
    Ahead,
    /// It can no longer be applied; whether it was is no longer remembered.
    Expired,
}

/// A decoded state breaks a rule of its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a register's generation, version, recent and void writes do not fit each other")]
pub struct InvalidState;

/// No more writes can be made void for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} writes of this key are void already", limits::VOID)]
pub struct VoidIsFull;

impl RegisterState {
    /// The hash that two equal states share, whatever proofs their signatures carry.
    pub fn hash(&self) -> Hash {
        let version = self.version.as_ref().map(|version| {
            let stamps: Vec<Hash> = version.stamps.iter().map(|stamp| stamp.hash()).collect();
            (version.id(), stamps)
        });
        Hash::of(Context::Register, &(self.generation, version, &self.bound, &self.recent, &self.void))
    }

    /// The id of the current version.
    pub fn current(&self) -> Option<WriteId> {
        self.version.as_ref().map(Version::id)
    }

    /// How `write`, whose id is `id`, stands to this state. `owned_by` is the resource that the
    /// namespace binds its keys to from birth.
    ///
    /// The order matters: first what was applied, by its place; then the fence, the void writes, the
    /// generation, the parents.
    pub fn standing(&self, write: &Write, id: WriteId, owned_by: Option<&Key>) -> Standing {
        if write.generation <= self.generation {
            let age = usize::try_from(self.generation - write.generation).unwrap_or(usize::MAX);
            return match self.recent.get(age) {
                Some(applied) if *applied == id => Standing::Applied,
                Some(_) => Standing::Refused,
                None => Standing::Expired,
            };
        }
        if let Some(bound) = self.fences(write.fence.as_ref(), owned_by) {
            return Standing::Fenced(bound);
        }
        if self.void.contains(&(write.generation, id)) {
            return Standing::Refused;
        }
        if write.generation > self.generation.saturating_add(1) {
            return Standing::Ahead;
        }
        let named = write.parents.as_slice();
        let fits = match self.current() {
            Some(current) => named == [current],
            None => named.is_empty(),
        };
        if fits { Standing::Open } else { Standing::Refused }
    }

    /// What keeps `fence` out, if anything does. Terms only rise, so what is kept out stays out (P7).
    pub fn fences(&self, fence: Option<&Fence>, owned_by: Option<&Key>) -> Option<Bound> {
        let bound = match (&self.bound, owned_by) {
            (Some(bound), _) => bound.clone(),
            (None, Some(resource)) => {
                Bound { resource: resource.clone(), term: Term { recovery: 0, number: 0 } }
            }
            (None, None) => return None,
        };
        let passes = fence.is_some_and(|fence| fence.resource == bound.resource && fence.term >= bound.term);
        (!passes).then_some(bound)
    }

    /// The state after a version whose write is [`Open`](Standing::Open).
    #[must_use]
    pub fn apply(&self, version: Version) -> RegisterState {
        let write = version.write();
        let generation = write.generation;
        let mut recent = Vec::with_capacity(limits::RECENT.min(self.recent.len() + 1));
        recent.push(version.id());
        recent.extend(self.recent.iter().take(limits::RECENT - 1));
        // A resignation is fenced by the tenure that it ends; resources themselves are never bound.
        let binds = write.namespace != NamespaceId::resources(write.cluster);
        let bound = match &write.fence {
            Some(fence) if binds => Some(raised(self.bound.as_ref(), fence)),
            _ => self.bound.clone(),
        };
        let void = self.void.iter().filter(|(at, _)| *at > generation).copied().collect();
        RegisterState { generation, version: Some(version), bound, recent, void }
    }

    /// The state after it was sealed by `fence`, which it must let [pass](Self::fences).
    #[must_use]
    pub fn seal(&self, fence: &Fence) -> RegisterState {
        RegisterState { bound: Some(raised(self.bound.as_ref(), fence)), ..self.clone() }
    }

    /// The state in which a write of a later generation is never applied.
    pub fn forbid(&self, generation: u64, id: WriteId) -> Result<RegisterState, VoidIsFull> {
        let mut changed = self.clone();
        let Err(place) = changed.void.binary_search(&(generation, id)) else { return Ok(changed) };
        if generation <= self.generation {
            return Ok(changed);
        }
        if changed.void.len() >= limits::VOID {
            return Err(VoidIsFull);
        }
        changed.void.insert(place, (generation, id));
        Ok(changed)
    }

    /// Checks the rules of the form, as a decoder does.
    pub fn check(&self) -> Result<(), InvalidState> {
        let remembered = u64::try_from(self.recent.len()).unwrap_or(u64::MAX);
        let fits = match &self.version {
            None => self.generation == 0,
            Some(version) => {
                let mut stamps = version.stamps.iter();
                version.write().generation == self.generation
                    && self.recent.first() == Some(&version.id())
                    && stamps.next().is_some_and(|stamp| stamp.stamp().write == version.id())
                    && stamps.next().is_none()
            }
        };
        let sorted = self.void.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
        let later = self.void.first().is_none_or(|(generation, _)| *generation > self.generation);
        let whole = remembered == self.generation.min(limits::RECENT as u64);
        if fits && whole && sorted && later && self.void.len() <= limits::VOID {
            Ok(())
        } else {
            Err(InvalidState)
        }
    }
}

fn raised(bound: Option<&Bound>, fence: &Fence) -> Bound {
    let term = bound.map_or(fence.term, |bound| bound.term.max(fence.term));
    Bound { resource: fence.resource.clone(), term }
}

impl Serialize for RegisterState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived form, which `remote` makes an associated function.
        RegisterState::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for RegisterState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let state = RegisterState::deserialize(deserializer)?;
        state.check().map_err(serde::de::Error::custom)?;
        Ok(state)
    }
}
