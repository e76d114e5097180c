//! Merging is a join, and loses nothing that no write names.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tanist::core::events::Past;
use tanist::core::limits;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::{Stamps, Version};

use crate::build;
use crate::history::{ACTORS, Fault, History, Replica, steps};

pub(crate) fn config(cases: u32) -> ProptestConfig {
    // PROPTEST_CASES asks for more, or fewer.
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn merged(parts: &[&Replica]) -> Replica {
    let mut all = Replica::default();
    for part in parts {
        all.merge(part);
    }
    all
}

proptest! {
    #![proptest_config(config(400))]

    /// P1 and convergence: after healing every replica has exactly the writes that nothing descends from.
    #[test]
    fn p1_what_no_write_names_is_live_everywhere(steps in steps(40)) {
        prop_assert_eq!(History::run(&steps, None).check(), Ok(()));
    }

    /// In whatever order, how often, and with whichever of their stamps versions come.
    #[test]
    fn the_order_of_delivery_does_not_matter(
        steps in steps(30),
        order in Just(()).prop_perturb(|(), mut rng| (0..400).map(|_| rng.next_u32() as usize).collect::<Vec<_>>()),
    ) {
        let history = History::run(&steps, None);
        let mut copies: Vec<Version> = Vec::new();
        for (write, stamps) in &history.writes {
            copies.extend(stamps.iter().map(|stamp| build::version(write, &[Arc::clone(stamp)])));
            copies.push(build::version(write, stamps));
        }
        let (mut one, mut other) = (Replica::default(), Replica::default());
        for copy in &copies {
            one.join(copy.clone());
        }
        // Everything at least once, in a random order, and some of it again.
        let mut rest = copies.clone();
        for n in &order {
            if !rest.is_empty() {
                other.join(rest.swap_remove(n % rest.len()));
            }
            if !copies.is_empty() && n % 3 == 0 {
                other.join(copies[n % copies.len()].clone());
            }
        }
        for copy in rest {
            other.join(copy);
        }
        prop_assert_eq!(one.siblings.live_ids(), history.maximal());
        prop_assert_eq!(one.shown(), other.shown());
    }

    #[test]
    fn merge_is_commutative_and_idempotent(steps in steps(40)) {
        let history = History::run(&steps, None);
        for a in &history.replicas {
            for b in &history.replicas {
                let ab = merged(&[a, b]);
                prop_assert_eq!(ab.shown(), merged(&[b, a]).shown());
                prop_assert_eq!(merged(&[&ab, b]).shown(), ab.shown());
                prop_assert_eq!(merged(&[&ab, &ab]).shown(), ab.shown());
            }
        }
    }

    /// For three replicas, each of which stamps. Of bystanders see `attacks.rs`, the forgotten stamp.
    #[test]
    fn merge_is_associative(steps in steps(40)) {
        let history = History::run(&steps, None);
        let [a, b, c] = &history.replicas[..] else { unreachable!() };
        let (ab, bc, ca) = (merged(&[a, b]), merged(&[b, c]), merged(&[c, a]));
        let all = merged(&[&ab, c]).shown();
        prop_assert_eq!(&all, &merged(&[a, &bc]).shown());
        prop_assert_eq!(&all, &merged(&[&ca, b]).shown());
    }

    /// S3: stamps are a set keyed by actor and counter, also past its limit and among contradictions.
    #[test]
    fn s3_the_set_of_stamps_does_not_depend_on_its_order(
        parts in prop::collection::vec((0..ACTORS, 1u64..9, 0u64..3), 0..40).prop_flat_map(|parts| {
            (Just(parts.clone()), Just(parts).prop_shuffle())
        }),
    ) {
        let write = build::write(1, &[]);
        let set = |parts: &[(usize, u64, u64)]| {
            let mut stamps = Stamps::default();
            for (n, counter, upto) in parts {
                let mut past = Past::new();
                past.insert(build::actor(9), tanist::core::events::Range { after: 0, upto: *upto });
                stamps.insert(build::stamp(&write, *n, counter - 1, *counter, past));
            }
            stamps
        };
        let (one, other) = (set(&parts.0), set(&parts.1));
        prop_assert!(one.iter().count() <= limits::STAMPS);
        prop_assert_eq!(&one, &other);
        let again: Vec<Arc<SignedStamp>> = one.clone().into();
        prop_assert_eq!(Stamps::try_from(again), Ok(one));
    }

    /// While nothing is missed, a past is as small as a version vector, however long the history.
    #[test]
    fn an_unbroken_history_takes_one_range_per_actor(
        actors in prop::collection::vec((0..ACTORS, 1u64..50), 1..200),
    ) {
        let (mut tip, mut counters) = (None::<Version>, [0u64; ACTORS]);
        let mut used = std::collections::BTreeSet::new();
        for (nonce, (n, skip)) in actors.iter().enumerate() {
            let parents: Vec<_> = tip.iter().collect();
            let write = build::write(nonce as u64, &parents.iter().map(|v| v.write()).collect::<Vec<_>>());
            let previous = counters[*n];
            counters[*n] += skip;
            let past = build::past_of(&parents);
            prop_assert_eq!(past.ranges(), used.len());
            tip = Some(build::version(&write, &[build::stamp(&write, *n, previous, counters[*n], past)]));
            used.insert(*n);
        }
    }
}

/// Runs random histories with a rule switched off until the checker of P1 objects.
fn objections(fault: Fault, histories: usize) -> usize {
    let mut runner = TestRunner::deterministic();
    let strategy = steps(40);
    (0..histories)
        .filter(|_| {
            let steps = strategy.new_tree(&mut runner).unwrap().current();
            History::run(&steps, Some(fault)).check().is_err()
        })
        .count()
}

#[test]
fn attack_02_the_checker_catches_a_version_vector() {
    assert!(objections(Fault::Vector, 2000) > 0);
}

#[test]
fn attack_02_the_checker_catches_the_coordinators_own_knowledge() {
    assert!(objections(Fault::OwnKnowledge, 2000) > 0);
}

#[test]
fn attack_04_the_checker_catches_a_missing_index() {
    assert!(objections(Fault::NoIndex, 2000) > 0);
}

#[test]
fn the_histories_are_worth_checking() {
    let mut runner = TestRunner::deterministic();
    let strategy = steps(40);
    let (mut siblings, mut several, mut superseded) = (0, 0, 0);
    for _ in 0..500 {
        let history = History::run(&strategy.new_tree(&mut runner).unwrap().current(), None);
        siblings += usize::from(history.replicas.iter().any(|r| r.siblings.live().count() > 1));
        several += usize::from(history.writes.iter().any(|(_, stamps)| stamps.len() > 1));
        superseded += usize::from(history.replicas.iter().any(|r| !r.index.is_empty()));
    }
    assert!(siblings > 250 && several > 100 && superseded > 250, "{siblings} {several} {superseded}");
}
