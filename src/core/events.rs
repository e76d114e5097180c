//! Causality: events as ranges of an actor's counter, and pasts that are exact.
//!
//! A version vector says "everything up to 17"; it cannot say "17, but not 9", and a replica that
//! missed 9 would take the vector's word and drop an acknowledged sibling (attack 2). Here an event
//! is a half-open range `(previous, counter]`, in which the actor states to have made no other event
//! on the object, and a past is a union of such ranges. While nothing was missed, adjacent ranges
//! join into one per actor: the size of a vector.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::identity::ActorId;
use super::limits;

/// The counters after `after` up to and including `upto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    /// The greatest counter below the range.
    pub after: u64,
    /// The last counter in it.
    pub upto: u64,
}

/// How two pasts relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Causality {
    /// They hold the same events.
    Equal,
    /// The first lacks events of the second, and not the other way round.
    Before,
    /// The second lacks events of the first, and not the other way round.
    After,
    /// Each has events that the other lacks.
    Concurrent,
}

/// A vector clock: for each actor the events that something descends from, as sorted, disjoint
/// ranges of which no two touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Past(BTreeMap<ActorId, Vec<Range>>);

type Form = Vec<(ActorId, Vec<Range>)>;

/// A decoded past is not in its one form, or too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPast {
    /// Actors or ranges are out of order, empty, overlapping or touching.
    #[error("the actors and ranges of a past are sorted, and no two ranges touch")]
    NotCanonical,
    /// More actors or ranges than a past may have.
    #[error("a past has at most {} actors and {} ranges", limits::PAST_ACTORS, limits::PAST_RANGES)]
    TooLarge,
}

impl Past {
    /// Whether there is no event in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The past of something that descends from nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the events `range` of `actor`. An empty range adds nothing.
    pub fn insert(&mut self, actor: ActorId, range: Range) {
        if range.after >= range.upto {
            return;
        }
        let ranges = self.0.entry(actor).or_default();
        let first = ranges.partition_point(|held| held.upto < range.after);
        let last = ranges.partition_point(|held| held.after <= range.upto);
        let mut joined = range;
        if let Some(touched) = ranges.get(first..last) {
            for held in touched {
                joined.after = joined.after.min(held.after);
                joined.upto = joined.upto.max(held.upto);
            }
            ranges.splice(first..last, [joined]);
        }
    }

    /// Adds all events of `other`.
    pub fn union(&mut self, other: &Past) {
        for (actor, ranges) in &other.0 {
            for range in ranges {
                self.insert(*actor, *range);
            }
        }
    }

    /// Whether every event of `range` is in this past.
    pub fn covers(&self, actor: ActorId, range: Range) -> bool {
        self.0.get(&actor).is_some_and(|ranges| {
            let at = ranges.partition_point(|held| held.upto < range.upto);
            ranges.get(at).is_some_and(|held| held.after <= range.after)
        })
    }

    /// How this past relates to `other`.
    pub fn compare(&self, other: &Past) -> Causality {
        match (self.includes(other), other.includes(self)) {
            (true, true) => Causality::Equal,
            (false, true) => Causality::Before,
            (true, false) => Causality::After,
            (false, false) => Causality::Concurrent,
        }
    }

    /// Whether `actor` has an event in this past.
    pub fn names(&self, actor: ActorId) -> bool {
        self.0.contains_key(&actor)
    }

    /// How many actors have events in this past.
    pub fn actors(&self) -> usize {
        self.0.len()
    }

    /// How many ranges it takes, over all actors.
    pub fn ranges(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// The events, by actor.
    pub fn iter(&self) -> impl Iterator<Item = (ActorId, &[Range])> {
        self.0.iter().map(|(actor, ranges)| (*actor, ranges.as_slice()))
    }

    fn includes(&self, other: &Past) -> bool {
        other.0.iter().all(|(actor, ranges)| ranges.iter().all(|range| self.covers(*actor, *range)))
    }
}

impl TryFrom<Form> for Past {
    type Error = InvalidPast;

    fn try_from(form: Form) -> Result<Self, InvalidPast> {
        let ranges: usize = form.iter().map(|(_, ranges)| ranges.len()).sum();
        if form.len() > limits::PAST_ACTORS || ranges > limits::PAST_RANGES {
            return Err(InvalidPast::TooLarge);
        }
        let sorted = form.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0));
        let canonical = form.iter().all(|(_, ranges)| {
            !ranges.is_empty()
                && ranges.iter().all(|range| range.after < range.upto)
                && ranges.windows(2).all(|pair| matches!(pair, [a, b] if a.upto < b.after))
        });
        if sorted && canonical {
            Ok(Past(form.into_iter().collect()))
        } else {
            Err(InvalidPast::NotCanonical)
        }
    }
}

impl From<Past> for Form {
    fn from(past: Past) -> Self {
        past.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::core::codec;

    const A: ActorId = ActorId([1; 16]);
    const B: ActorId = ActorId([2; 16]);

    fn past(ranges: &[(ActorId, u64, u64)]) -> Past {
        let mut past = Past::new();
        for (actor, after, upto) in ranges {
            past.insert(*actor, Range { after: *after, upto: *upto });
        }
        past
    }

    #[test]
    fn attack_02_seventeen_but_not_nine() {
        let z = past(&[(A, 16, 17), (A, 0, 3)]);
        assert!(z.covers(A, Range { after: 16, upto: 17 }));
        assert!(!z.covers(A, Range { after: 8, upto: 9 }), "an event that was missed is not claimed");
        assert_eq!(z.ranges(), 2);
    }

    #[test]
    fn an_unbroken_history_is_one_range() {
        let joined = past(&[(A, 5, 9), (A, 0, 5), (A, 9, 100)]);
        assert_eq!(joined, past(&[(A, 0, 100)]));
    }

    #[test]
    fn comparison_has_four_answers() {
        let small = past(&[(A, 0, 5)]);
        let large = past(&[(A, 0, 5), (B, 0, 1)]);
        assert_eq!(small.compare(&small.clone()), Causality::Equal);
        assert_eq!(small.compare(&large), Causality::Before);
        assert_eq!(large.compare(&small), Causality::After);
        assert_eq!(small.compare(&past(&[(B, 0, 1)])), Causality::Concurrent);
    }

    #[test]
    fn other_spellings_of_a_past_are_refused() {
        let range = |after, upto| Range { after, upto };
        let refused = |form: Form| codec::decode::<Past>(&codec::encode(&form)).is_err();
        assert!(refused(vec![(B, vec![range(0, 1)]), (A, vec![range(0, 1)])]));
        assert!(refused(vec![(A, vec![range(0, 1)]), (A, vec![range(3, 4)])]));
        assert!(refused(vec![(A, vec![])]));
        assert!(refused(vec![(A, vec![range(2, 2)])]));
        assert!(refused(vec![(A, vec![range(0, 2), range(2, 3)])]), "touching ranges are one");
        assert!(refused(vec![(A, vec![range(4, 5), range(0, 1)])]));
        assert!(!refused(vec![(A, vec![range(0, 2), range(3, 4)]), (B, vec![range(0, 1)])]));
    }

    proptest! {
        /// A past of ranges behaves as the set of its counters does.
        #[test]
        fn ranges_are_a_set_of_counters(ranges in prop::collection::vec((0u64..40, 1u64..8), 0..12),
                                        probe in (0u64..45, 1u64..6)) {
            let mut set = BTreeSet::new();
            let mut past = Past::new();
            for (after, len) in ranges {
                past.insert(A, Range { after, upto: after + len });
                set.extend(after + 1..=after + len);
            }
            let (after, len) = probe;
            let covered = (after + 1..=after + len).all(|n| set.contains(&n));
            prop_assert_eq!(past.covers(A, Range { after, upto: after + len }), covered);
            prop_assert_eq!(codec::decode::<Past>(&codec::encode(&past)), Ok(past));
        }

        #[test]
        fn union_is_a_join(parts in prop::collection::vec(prop::collection::vec((0u8..3, 0u64..30, 1u64..6), 0..6), 3)) {
            let build = |part: &[(u8, u64, u64)]| {
                let mut past = Past::new();
                for (actor, after, len) in part {
                    past.insert(ActorId([*actor; 16]), Range { after: *after, upto: after + len });
                }
                past
            };
            let pasts: Vec<Past> = parts.iter().map(|part| build(part)).collect();
            let join = |a: &Past, b: &Past| { let mut joined = a.clone(); joined.union(b); joined };
            let [a, b, c] = &pasts[..] else { unreachable!() };
            prop_assert_eq!(join(a, b), join(b, a));
            prop_assert_eq!(join(&join(a, b), c), join(a, &join(b, c)));
            prop_assert_eq!(join(a, a), a.clone());
            prop_assert!(matches!(a.compare(&join(a, b)), Causality::Before | Causality::Equal));
        }
    }
}
