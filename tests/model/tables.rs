//! The configurations, and what each of them must and must not find.
//!
//! A broken rule is looked for in a configuration that is also explored intact (or in a part of one), so
//! that what was found is the rule's doing. Together they take about a minute of one core; a configuration
//! that grows past that wants a narrower one, directed at the same rule, as `overtaken` and `retried` are.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

use super::Fault;
use super::change::{Limits, Operation, Write};
use super::ownership::Ownership;
use super::register::Register;

/// Visits every state of `model`, or stops at a counterexample: the number of states, and what was found.
#[allow(clippy::print_stdout, reason = "the numbers are what the test has to say")]
fn explore<M>(name: &str, model: M) -> (usize, Option<String>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.unique_state_count();
    let found = checker.model().properties().into_iter().find_map(|property| {
        let found = checker.discovery(property.name);
        match (property.expectation.discovery_is_failure(), found) {
            (true, Some(path)) => Some((path.into_actions(), property.name.to_owned())),
            (false, None) => Some((Vec::new(), format!("never: {}", property.name))),
            _ => None,
        }
    });
    let text = found.map(|(steps, name)| format!("{name}, after {} steps: {steps:?}", steps.len()));
    let short = text.as_deref().map_or("nothing", |text| text.split(" steps").next().unwrap_or(text));
    println!("{name}: {states} states, {} deep, found {short}", checker.max_depth());
    (states, text)
}

/// An intact configuration must be explored to its end, be as large as it was when it was written down,
/// and hold every promise.
fn holds<M>(name: &str, least: usize, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let (states, found) = explore(name, model);
    assert_eq!(found, None, "{name}");
    assert!(states >= least, "{name} explored {states} states, not {least}: its bounds have shrunk");
}

/// A configuration with a broken rule must find a promise broken.
fn breaks<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let (_, found) = explore(name, model);
    let found = found.expect("a broken rule is found");
    assert!(!found.starts_with("never"), "{name}: {found}");
}

/// Two first writes, of different terms; two that both name the first of them.
const WRITES: [Write; 4] = [
    Write { generation: 1, parent: 0, term: 1 },
    Write { generation: 1, parent: 0, term: 2 },
    Write { generation: 2, parent: 1, term: 2 },
    Write { generation: 2, parent: 1, term: 1 },
];

/// Three ballots, no piggyback, no quick reads.
fn plain(operations: &[Operation], fault: Option<Fault>) -> Register {
    Register {
        ballots: 3,
        writes: WRITES.to_vec(),
        operations: operations.to_vec(),
        piggyback: false,
        quick_read: false,
        limits: Limits { recent: 2, void: 2, fault },
    }
}

fn piggyback(operations: &[Operation], fault: Option<Fault>) -> Register {
    Register { piggyback: true, ..plain(operations, fault) }
}

fn quick(operations: &[Operation], fault: Option<Fault>) -> Register {
    Register { quick_read: true, ..plain(operations, fault) }
}

fn four(register: Register) -> Register {
    Register { ballots: 4, ..register }
}

fn limited(register: Register, recent: u8, void: u32) -> Register {
    let limits = Limits { recent, void, ..register.limits };
    Register { limits, ..register }
}

const RACE: [Operation; 2] = [Operation::Write(1), Operation::Write(2)];
const CHAIN: [Operation; 3] = [Operation::Write(1), Operation::Write(3), Operation::Read];
const HEIRS: [Operation; 3] = [Operation::Write(1), Operation::Write(3), Operation::Write(4)];
const FORK: [Operation; 3] = [Operation::Write(1), Operation::Write(2), Operation::Write(3)];
const FENCE: [Operation; 3] = [Operation::Write(1), Operation::Seal(2), Operation::Read];
const SETTLE: [Operation; 3] = [Operation::Write(1), Operation::Settle(1), Operation::Settle(2)];
const LATER: [Operation; 3] = [Operation::Write(1), Operation::Write(3), Operation::Settle(3)];

#[test]
fn registers_hold_in_every_state() {
    holds("race", 79_000, plain(&RACE, None));
    holds("race, four ballots", 1_600_000, four(plain(&RACE, None)));
    holds("race, quick read", 2_400_000, quick(&RACE, None));
    holds("chain", 60_000, plain(&CHAIN, None));
    holds("heirs, piggyback", 90_000, piggyback(&HEIRS, None));
    holds("fork, short recent", 160_000, limited(plain(&FORK, None), 1, 1));
    holds("fence, piggyback", 160_000, piggyback(&FENCE, None));
    holds("settle, full void", 180_000, limited(plain(&SETTLE, None), 2, 1));
    holds("settle of a later write", 150_000, plain(&LATER, None));
}

#[test]
fn every_broken_rule_of_registers_is_found() {
    let found = |fault, register: fn(Option<Fault>) -> Register| {
        breaks(&format!("{fault:?}"), register(Some(fault)));
    };
    found(Fault::BallotReused, |fault| Register { ballots: 2, ..plain(&RACE, fault) });
    found(Fault::CachedAfterFailure, |fault| piggyback(&HEIRS, fault));
    found(Fault::AcceptIgnoresPromise, |fault| plain(&RACE, fault));
    found(Fault::LowerCarried, |fault| plain(&RACE, fault));
    found(Fault::RecentIgnored, |fault| plain(&RACE, fault));
    found(Fault::ParentsUnchecked, |fault| plain(&FORK, fault));
    found(Fault::FenceUnchecked, |fault| plain(&FENCE, fault));
    found(Fault::VoidUnchecked, |fault| plain(&SETTLE, fault));
    found(Fault::RefusedBeyondRecent, |fault| limited(plain(&FORK, fault), 1, 1));
    found(Fault::RefusedBelow, |fault| plain(&CHAIN, fault));
    found(Fault::VoidDropsOldest, |fault| limited(plain(&SETTLE, fault), 2, 1));
    found(Fault::AppliedEarly, |fault| plain(&RACE, fault));
    found(Fault::ShownEarly, |fault| plain(&RACE, fault));
    found(Fault::QuickReadAnyBallot, |fault| quick(&[Operation::Write(1)], fault));
    found(Fault::QuickReadStateOnly, |fault| quick(&RACE, fault));
    found(Fault::RepeatTakesPromise, |fault| piggyback(&FENCE, fault));
}

/// While ballots are never reused, comparing the hash as well as the ballot only detects: the design keeps it.
#[test]
fn the_hash_in_a_quick_read_is_a_second_line() {
    holds("QuickReadBallotOnly", 340_000, quick(&[Operation::Write(1)], Some(Fault::QuickReadBallotOnly)));
}

/// The first tenure is held by `holders` acceptors; `ballots` counts its ballot, if there is one.
fn owned(holders: usize, ballots: u8, fault: Option<Fault>) -> Ownership {
    Ownership {
        ballots,
        tenures: 2,
        lease: 2,
        deadline: 2,
        holders,
        restarts: false,
        resignations: false,
        takeover_to: ballots,
        ordinary_from: 1,
        fault,
    }
}

/// One takeover, and above it two ordinary ballots.
fn overtaken(fault: Option<Fault>) -> Ownership {
    Ownership { takeover_to: 2, ordinary_from: 3, ..owned(3, 4, fault) }
}

/// Takeovers only, three of them, from nothing.
fn retried(fault: Option<Fault>) -> Ownership {
    Ownership { ordinary_from: 4, ..owned(0, 3, fault) }
}

fn resigning(ownership: Ownership) -> Ownership {
    Ownership { resignations: true, ..ownership }
}

fn restarting(ownership: Ownership) -> Ownership {
    Ownership { restarts: true, ..ownership }
}

#[test]
fn ownership_holds_in_every_state() {
    holds("blank, restarts", 180_000, restarting(owned(0, 2, None)));
    holds("owned, restarts", 10_000, restarting(owned(3, 2, None)));
    holds("owned", 450_000, owned(3, 3, None));
    holds("resigned", 820_000, Ownership { tenures: 3, ..resigning(owned(3, 3, None)) });
    holds("retried", 950_000, retried(None));
    holds("overtaken", 2_700_000, overtaken(None));
}

#[test]
fn every_broken_rule_of_ownership_is_found() {
    let found = |fault, ownership: fn(Option<Fault>) -> Ownership| {
        breaks(&format!("{fault:?}"), ownership(Some(fault)));
    };
    found(Fault::TakeoverUnasked, |fault| owned(3, 2, fault));
    found(Fault::NoBan, |fault| owned(3, 2, fault));
    found(Fault::MixedIntroduces, |fault| owned(3, 2, fault));
    found(Fault::OrdinaryIntroduces, |fault| owned(3, 2, fault));
    found(Fault::RestartUnheard, |fault| restarting(owned(3, 2, fault)));
    found(Fault::FirstAcceptanceUnheard, |fault| owned(0, 2, fault));
    found(Fault::DeadlineOfTheWinner, retried);
    found(Fault::DeadlineFromReceipt, |fault| owned(3, 2, fault));
    found(Fault::RenewedFromReceipt, |fault| owned(3, 2, fault));
    found(Fault::ResignationKeepsTerm, |fault| resigning(owned(3, 2, fault)));
    found(Fault::ResignedGoesOn, |fault| Ownership { tenures: 3, ..resigning(owned(3, 3, fault)) });
    found(Fault::RenewalOfAnother, |fault| owned(3, 2, fault));
    breaks("clocks too far apart", Ownership { deadline: 3, ..owned(3, 2, None) });
    found(Fault::BanInOneSlot, overtaken);
    found(Fault::RenewalsOfAnyBallot, overtaken);
}
