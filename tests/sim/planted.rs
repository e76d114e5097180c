//! Which check has to catch which planted fault, within how many seeds. Each row is run as if its check
//! were the only one: a general check, such as P9's look at every disk, would often come first.
//!
//! Faults that random runs hardly show are planted in scripted ones ([`scripts`](super::scripts)), in the
//! engine's tests and in the models; `tests/proofs.rs` lists all of them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::faults::Plant::{self, *};
use super::run;

/// A fault, a check that must catch it, and the seeds that this may take: about three times what it
/// takes.
type Row = (Plant, &'static str, u64);

const PLANTED: [Row; 42] = [
    (NoOverlay, "P9", 9),
    (ReleaseEarly, "P1", 15),
    (LyingSync, "P9", 39),
    (NoIndex, "P4", 27),
    (NoIndex, "P4 (retries)", 12),
    (VectorPast, "P1", 27),
    (KnownPast, "P1", 3),
    (CountersAgain, "panic", 6),
    (CountersAgain, "P4 (events)", 9),
    (OneCopy, "P9", 3),
    (OneCopy, "P2", 3),
    (IndexAnswers, "P9", 54),
    (ReadsAlone, "P1 (reads)", 18),
    (PeersForget, "P11", 9),
    (ListsNothing, "P2", 3),
    (NoRepair, "convergence", 15),
    (UnsignedAncestor, "P8", 6),
    (PeersUnchecked, "P8", 30),
    (AnyAuthor, "P8", 9),
    (RetryRefused, "P4 (retries)", 6),
    (DoneIsNothing, "P4", 6),
    (DoneIsNothing, "progress", 3),
    (UnknownIsRefused, "P5 (registers)", 6),
    (UnknownIsFailed, "P5 (SDK)", 15),
    (PromiseInMemory, "P3", 3),
    (PromiseInMemory, "P6", 3),
    (VotesInMemory, "P9", 27),
    (PromiseInMemory, "P9", 3),
    (SaysNothing, "P3", 15),
    (SaysYes, "P3", 12),
    (AnsweredEarly, "P3", 9),
    (AnsweredEarly, "P9 (registers)", 3),
    (LookUnchecked, "P3", 3),
    (ShowsAccepted, "P3 (local)", 12),
    (WipedVotes, "P3", 3),
    (FenceForgotten, "P7", 12),
    (SlowOwner, "P6 (owners)", 27),
    (NoBan, "P6 (owners)", 60),
    (OrdinaryIntroduces, "P6 (owners)", 33),
    (ShortOfVotes, "P6", 3),
    (ClockWins, "P1", 3),
    (ClockWins, "P10", 12),
];

/// All checks of a seed; each has to catch something.
const CHECKS: [&str; 21] = [
    "P1",
    "P1 (reads)",
    "P2",
    "P3",
    "P3 (local)",
    "P4",
    "P4 (events)",
    "P4 (retries)",
    "P5 (registers)",
    "P5 (SDK)",
    "P6",
    "P6 (owners)",
    "P7",
    "P8",
    "P9",
    "P9 (registers)",
    "P10",
    "P11",
    "panic",
    "progress",
    "convergence",
];

/// What stops a run that makes no sense.
const OWN: [&str; 3] = ["driver", "start", "store"];

#[test]
fn planted_faults_are_caught() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut missed = Vec::new();
        while let Some((plant, check, budget)) = PLANTED.get(next.fetch_add(1, Relaxed)).copied() {
            match (1..=budget).find_map(|seed| Some((seed, run::alone(seed, plant, check)?))) {
                Some((seed, what)) => println!("{plant:?}: {check}, {seed} of {budget} seeds: {what}"),
                None => missed.push(format!("{plant:?} is not caught by {check} in {budget} seeds")),
            }
        }
        missed
    };
    let missed: Vec<String> = std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a panic of a seed is caught")).collect()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_check_has_a_fault_to_catch() {
    for check in CHECKS {
        assert!(PLANTED.iter().any(|(_, catches, _)| *catches == check), "{check} was never seen to catch");
    }
    for (plant, check, budget) in PLANTED {
        assert!(CHECKS.contains(&check), "{plant:?}: there is no check {check}");
        assert!((1..=60).contains(&budget), "{plant:?}: {budget} seeds are too many");
    }
    for entry in std::fs::read_dir("tests/sim").expect("the folder of this test") {
        let path = entry.expect("an entry").path();
        let text = if path.is_file() { std::fs::read_to_string(path).expect("text") } else { continue };
        for call in ["judge(\"", "fail(\""].iter().flat_map(|call| text.split(call).skip(1)) {
            let check = call.split('"').next().unwrap_or_default();
            assert!(CHECKS.contains(&check) || OWN.contains(&check), "`{check}` is in no list");
        }
    }
}

/// What each check objects to with the fault that `PLANT` names, alone and to the end of each seed: it
/// tells which row a fault deserves.
#[test]
fn explore() {
    let Ok(name) = std::env::var("PLANT") else { return };
    let plant = PLANTED.iter().map(|(plant, ..)| *plant).find(|plant| format!("{plant:?}") == name);
    let plant = plant.expect("the name of a planted fault");
    for seed in 1..=crate::from_env("SEEDS").unwrap_or(40) {
        for (check, what) in run::objections(seed, plant) {
            println!("{seed:>3} {check}: {what}");
        }
    }
}
