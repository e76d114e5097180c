//! Whole clusters in one thread: the engine, the arrival checks, the store's contract and the SDK's
//! attempts, on a virtual network, disk and clock. One seed decides everything.
//!
//! ```text
//! world      events, the clock           founding   keys, the first configuration
//! network    links                       disk       the store and what goes wrong with it
//! nodes      the driver's loop           clients    who reads and writes what, and how often
//! registers  clients of registers, owners
//! nemesis    what goes wrong             healing    nothing does any more: converge, progress
//! history    what was asked, answered    checks/    the promises, one file each
//! tamper     forgeries                   faults     planted faults; planted: who must catch them, how soon
//! scripts/   named scenarios: attacks and cases, step by step
//! ```
//!
//! `make sim SEEDS=1000` runs more, `make sim DURATION=60` for so many seconds; `make sim SEED=7 LINES=100000` runs one again, with its trace.

#![allow(unreachable_pub, reason = "everything here is private to the test")]
#![allow(missing_docs, reason = "counters are named after what they count")]
#![allow(clippy::disallowed_methods, reason = "how long seeds take is measured; no seed knows a clock")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a failing seed must show how it is run again")]

mod checks;
mod clients;
mod coverage;
mod dice;
mod disk;
mod faults;
mod founding;
mod healing;
mod history;
mod nemesis;
mod network;
mod nodes;
mod options;
mod planted;
mod registers;
mod run;
mod scripts;
mod tamper;
mod world;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use coverage::Coverage;
use faults::Plant;

/// A number from the environment.
fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn seeds() {
    let time = from_env("DURATION").map(Duration::from_secs);
    let count = from_env("SEEDS").unwrap_or(if time.is_some() { u64::MAX / 2 } else { 100 });
    let first = from_env("FIRST").unwrap_or(1);
    let begun = Instant::now();
    let (seeds, all) = match many(first..first + count, time.map(|time| begun + time)) {
        Ok(done) => done,
        Err(seed) => panic!("{}", run::explain(seed, Plant::Nothing).0),
    };
    println!("{seeds:>9} seeds from {first} on, in {:.1} s", begun.elapsed().as_secs_f64());
    for (name, count) in all.named() {
        println!("{count:>9} {name}");
    }
    if seeds >= 100 || time.is_some() {
        all.is_enough().expect("too little happened for the checks to mean anything");
    }
}

/// Runs seeds on all processors, until all are done or time is over: how many, and what happened; or the
/// lowest one that fails, if any does.
fn many(seeds: Range<u64>, until: Option<Instant>) -> Result<(u64, Coverage), u64> {
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let (mut done, mut all) = (0, Coverage::default());
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end || until.is_some_and(|until| Instant::now() >= until) {
                return Ok((done, all));
            }
            match run::seed(seed, Plant::Nothing, false) {
                Ok(coverage) => {
                    done += 1;
                    all.add(&coverage);
                }
                Err(_) => {
                    // Those below it that others are at are still run to their end.
                    next.fetch_max(seeds.end, Relaxed);
                    return Err(seed);
                }
            }
            progress(seed - seeds.start + 1);
        }
    };
    let ends: Vec<Result<(u64, Coverage), u64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a panic of a seed is caught")).collect()
    });
    let (mut done, mut all) = (0, Coverage::default());
    let mut failed = None;
    for end in ends {
        match end {
            Ok((seeds, coverage)) => {
                done += seeds;
                all.add(&coverage);
            }
            Err(seed) => failed = Some(failed.map_or(seed, |lowest: u64| lowest.min(seed))),
        }
    }
    failed.map_or(Ok((done, all)), Err)
}

/// A line now and then, if it takes long; seen with `--nocapture`.
fn progress(done: u64) {
    if done.is_multiple_of(500) {
        println!("{done:>9} seeds");
    }
}

#[test]
fn replay() {
    let Some(seed) = from_env("SEED") else { return };
    let (told, broken) = run::explain(seed, Plant::Nothing);
    println!("{told}");
    assert!(!broken, "a promise is broken");
}

/// Determinism: a seed that fails must fail again.
#[test]
fn a_seed_is_a_whole_run() {
    let counts = |seed| run::seed(seed, Plant::Nothing, false).map(|c| c.named()).map_err(|v| v.what);
    for seed in 1..4 {
        assert_eq!(counts(seed), counts(seed));
    }
}
