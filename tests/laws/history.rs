//! Random histories: actors that write, lose messages, retry, and exchange what they know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tanist::core::events::{Past, Range};
use tanist::core::identity::ActorId;
use tanist::core::siblings::Siblings;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::Version;
use tanist::core::write::{Write, WriteId};

use crate::build;

pub(crate) const ACTORS: usize = 3;

/// One step of a history. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// An actor takes a new write that names those of its live versions whose bit is set.
    Write { at: usize, names: u8, skip: u64 },
    /// The author of an earlier write sends it again, with the stamps of its parents.
    Retry { write: usize, at: usize },
    /// One version, with all stamps that its sender has for it, reaches an actor.
    Send { from: usize, version: usize, to: usize },
    /// Two actors exchange everything.
    Exchange { one: usize, other: usize },
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..ACTORS, any::<u8>(), 0u64..4).prop_map(|(at, names, skip)| Step::Write { at, names, skip }),
        2 => (any::<usize>(), 0..ACTORS).prop_map(|(write, at)| Step::Retry { write, at }),
        4 => (0..ACTORS, any::<usize>(), 0..ACTORS)
            .prop_map(|(from, version, to)| Step::Send { from, version, to }),
        1 => (0..ACTORS, 0..ACTORS).prop_map(|(one, other)| Step::Exchange { one, other }),
    ];
    prop::collection::vec(step, 1..most)
}

/// A rule that is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Pasts are plain version vectors (attack 2).
    Vector,
    /// A past is everything that the coordinator holds, named or not (attack 2).
    OwnKnowledge,
    /// Nothing is remembered of superseded writes (attacks 4 and 5).
    NoIndex,
}

/// What one actor knows of the key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replica {
    pub(crate) siblings: Siblings,
    pub(crate) index: BTreeMap<WriteId, WriteId>,
    last: Option<u64>,
    counter: u64,
}

fn trusted(_: ActorId) -> bool {
    false
}

impl Replica {
    pub(crate) fn join(&mut self, version: Version) {
        let joined = self.siblings.join(version, &self.index, &trusted);
        self.index.extend(joined.superseded);
    }

    /// Everything that `other` knows: its superseded ids first, then its versions.
    pub(crate) fn merge(&mut self, other: &Replica) {
        for (id, by) in &other.index {
            let joined = self.siblings.supersede(*id, *by, &self.index, &trusted);
            self.index.extend(joined.superseded);
        }
        for version in other.siblings.held() {
            self.join(version.clone());
        }
    }

    /// What must be equal wherever the same is known: live versions with their stamps, superseded ids.
    pub(crate) fn shown(&self) -> (Vec<Version>, BTreeSet<WriteId>) {
        (self.siblings.live().cloned().collect(), self.index.keys().copied().collect())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) replicas: Vec<Replica>,
    /// All writes, and every stamp that each ever got.
    pub(crate) writes: Vec<(Write, Vec<Arc<SignedStamp>>)>,
    fault: Option<Fault>,
}

impl History {
    pub(crate) fn run(steps: &[Step], fault: Option<Fault>) -> Self {
        let mut history = History { replicas: vec![Replica::default(); ACTORS], writes: Vec::new(), fault };
        for step in steps {
            history.step(step);
        }
        history
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { at, names, skip } => {
                let live: Vec<WriteId> = self.replicas[at].siblings.live_ids();
                let named = live.iter().enumerate().filter(|(n, _)| names >> (n % 8) & 1 == 1);
                let parents: Vec<Write> = named.map(|(_, id)| self.write(*id).clone()).collect();
                let write = build::write(self.writes.len() as u64, &parents.iter().collect::<Vec<_>>());
                self.writes.push((write, Vec::new()));
                self.replicas[at].counter += skip;
                self.stamp(self.writes.len() - 1, at);
            }
            Step::Retry { write, at } if !self.writes.is_empty() => {
                let n = write % self.writes.len();
                let (id, replica) = (self.writes[n].0.id(), &self.replicas[at]);
                let index = self.fault != Some(Fault::NoIndex) && replica.index.contains_key(&id);
                if !index && replica.siblings.version(id).is_none() {
                    self.stamp(n, at);
                }
            }
            Step::Send { from, version, to } => {
                let held: Vec<Version> = self.replicas[from].siblings.live().cloned().collect();
                if !held.is_empty() {
                    self.replicas[to].join(held[version % held.len()].clone());
                    self.forget(to);
                }
            }
            Step::Exchange { one, other } => self.exchange(one, other),
            Step::Retry { .. } => {}
        }
    }

    /// Actor `at` takes write `n` as its next event.
    fn stamp(&mut self, n: usize, at: usize) {
        let write = self.writes[n].0.clone();
        let presented: Vec<Arc<SignedStamp>> = self
            .writes
            .iter()
            .filter(|(parent, _)| write.names(parent.id()))
            .flat_map(|(_, stamps)| stamps.iter().cloned())
            .collect();
        let replica = &mut self.replicas[at];
        let mut past = replica.siblings.past_of(&write.parents, &presented);
        match self.fault {
            Some(Fault::Vector) => past = vector(&past),
            Some(Fault::OwnKnowledge) => {
                past.union(&build::past_of(&Vec::from_iter(replica.siblings.held())))
            }
            _ => {}
        }
        replica.counter += 1;
        let previous = replica.last.unwrap_or(replica.counter - 1);
        replica.last = Some(replica.counter);
        let stamp = build::stamp(&write, at, previous, replica.counter, past);
        replica.join(build::version(&write, &[Arc::clone(&stamp)]));
        self.writes[n].1.push(stamp);
        self.forget(at);
    }

    fn exchange(&mut self, one: usize, other: usize) {
        let known = self.replicas[one].clone();
        self.replicas[other].merge(&known);
        let known = self.replicas[other].clone();
        self.replicas[one].merge(&known);
        self.forget(one);
        self.forget(other);
    }

    fn forget(&mut self, at: usize) {
        if self.fault == Some(Fault::NoIndex) {
            self.replicas[at].index.clear();
        }
    }

    fn write(&self, id: WriteId) -> &Write {
        self.writes.iter().map(|(write, _)| write).find(|write| write.id() == id).unwrap()
    }

    /// Lets everybody exchange with everybody, twice.
    pub(crate) fn heal(&mut self) {
        for _ in 0..2 {
            for one in 0..ACTORS {
                for other in 0..one {
                    self.exchange(one, other);
                }
            }
        }
    }

    /// P1, by names alone: the writes from which no other write descends.
    pub(crate) fn maximal(&self) -> Vec<WriteId> {
        let named: BTreeSet<WriteId> =
            self.writes.iter().flat_map(|(write, _)| write.parents.iter().copied()).collect();
        let ids: BTreeSet<WriteId> = self.writes.iter().map(|(write, _)| write.id()).collect();
        ids.difference(&named).copied().collect()
    }

    /// What is wrong after healing, if anything is.
    pub(crate) fn check(mut self) -> Result<(), String> {
        self.heal();
        let expected = self.maximal();
        for (n, replica) in self.replicas.iter().enumerate() {
            let found = replica.siblings.live_ids();
            if found != expected {
                return Err(format!("replica {n} has {found:?} live; by names it is {expected:?}"));
            }
        }
        Ok(())
    }
}

/// The version vector of a past: everything up to the highest counter.
pub(crate) fn vector(past: &Past) -> Past {
    let mut vector = Past::new();
    for (actor, ranges) in past.iter() {
        let upto = ranges.iter().map(|range| range.upto).max().unwrap_or(0);
        vector.insert(actor, Range { after: 0, upto });
    }
    vector
}
