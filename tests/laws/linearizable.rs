//! The judge of histories is judged: by histories whose answer is known, and by trying all orders.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use tanist::history::linear::{Action, Came, Operation, order};
use tanist::history::register::{self, judge};

fn read(asked: u64, answered: u64, saw: Option<u8>) -> Operation<u8> {
    Operation { asked, answered: Some(answered), action: Action::Read(saw) }
}

fn swap(asked: u64, answered: Option<u64>, from: Option<u8>, to: u8, came: Came<u8>) -> Operation<u8> {
    Operation { asked, answered, action: Action::Swap { from, to, came } }
}

#[test]
fn answers_that_a_register_could_have_given_pass() {
    assert_eq!(order::<u8>(&[]), Some(vec![]));
    // Two overlap, and the second is done first.
    let overlapping = [swap(0, Some(9), Some(2), 1, Came::Applied), swap(1, Some(8), None, 2, Came::Applied)];
    assert_eq!(order(&overlapping), Some(vec![1, 0]));
    // Nobody was told, and it happened, or will, or will not.
    let unknown = swap(0, None, None, 1, Came::Unknown);
    assert_eq!(order(&[unknown.clone(), read(5, 6, Some(1))]), Some(vec![0, 1]));
    assert!(order(&[unknown.clone(), read(5, 6, None), read(7, 8, Some(1))]).is_some());
    assert!(order(&[unknown, read(5, 6, None)]).is_some());
}

#[test]
fn answers_that_no_register_gives_do_not() {
    let first = swap(0, Some(1), None, 1, Came::Applied);
    let wrong: [(&str, Vec<Operation<u8>>); 6] = [
        ("a stale read", vec![first.clone(), read(2, 3, None)]),
        (
            "a read that goes back",
            vec![swap(0, Some(9), None, 1, Came::Applied), read(1, 2, Some(1)), read(3, 4, None)],
        ),
        ("two winners", vec![first.clone(), swap(0, Some(1), None, 2, Came::Applied)]),
        (
            "a refusal that names what was not there",
            vec![first.clone(), swap(2, Some(3), None, 3, Came::Refused(Some(2)))],
        ),
        (
            "a refusal without a reason",
            vec![first.clone(), swap(2, Some(3), Some(1), 3, Came::Refused(Some(1)))],
        ),
        ("what nobody wrote", vec![first, read(2, 3, Some(9))]),
    ];
    for (what, history) in wrong {
        assert_eq!(order(&history), None, "{what}");
    }
}

/// Any operations, right and wrong ones, so close together that many overlap.
fn histories() -> impl Strategy<Value = Vec<Operation<u8>>> {
    let version = || prop_oneof![Just(None), (0u8..4).prop_map(Some)];
    let came = prop_oneof![
        4 => Just(Came::Applied),
        2 => version().prop_map(Came::Refused),
        2 => Just(Came::Unknown),
        1 => Just(Came::Failed),
    ];
    let action = prop_oneof![
        version().prop_map(Action::Read),
        (version(), 0u8..4, came).prop_map(|(from, to, came)| Action::Swap { from, to, came }),
    ];
    let operation = (0u64..12, 0u64..6, action).prop_map(|(asked, takes, action)| {
        let unknown = matches!(action, Action::Swap { came: Came::Unknown, .. });
        Operation { asked, answered: (!unknown).then_some(asked + takes), action }
    });
    prop::collection::vec(operation, 0..7)
}

/// Tries all orders.
fn brute(operations: &[Operation<u8>], done: &mut Vec<usize>, held: Option<u8>) -> bool {
    let left = || (0..operations.len()).filter(|number| !done.contains(number));
    if left().all(|number| operations[number].answered.is_none()) {
        return true;
    }
    let first_answer = left().filter_map(|number| operations[number].answered).min().unwrap_or(u64::MAX);
    for number in left().collect::<Vec<_>>() {
        let Operation { asked, action, .. } = &operations[number];
        let after = match action {
            Action::Read(saw) if *saw == held => held,
            Action::Swap { from, to, came: Came::Applied | Came::Unknown } if *from == held => Some(*to),
            Action::Swap { from, came: Came::Refused(saw), .. } if *saw == held && *from != held => held,
            Action::Swap { came: Came::Failed, .. } => held,
            _ => continue,
        };
        if *asked <= first_answer {
            done.push(number);
            if brute(operations, done, after) {
                return true;
            }
            done.pop();
        }
    }
    false
}

#[test]
fn the_judge_agrees_with_all_orders_on_a_hundred_thousand_histories() {
    let mut runner =
        TestRunner::new(Config { cases: 100_000, failure_persistence: None, ..Config::default() });
    let counts = std::cell::Cell::new((0u32, 0u32));
    let outcome = runner.run(&histories(), |history| {
        let found = order(&history);
        prop_assert_eq!(found.is_some(), brute(&history, &mut Vec::new(), None));
        let (yes, no) = counts.get();
        counts.set(if found.is_some() { (yes + 1, no) } else { (yes, no + 1) });
        if let Some(found) = found {
            explains(&history, &found)?;
        }
        Ok(())
    });
    outcome.unwrap();
    let (yes, no) = counts.get();
    assert!(yes > 5_000 && no > 5_000, "{yes} pass, {no} do not");
}

/// The order that was found keeps to real time and leaves out nothing that was answered.
fn explains(history: &[Operation<u8>], found: &[usize]) -> Result<(), TestCaseError> {
    for (place, one) in found.iter().enumerate() {
        for earlier in &found[..place] {
            let in_time = history[*one].answered.is_none_or(|at| at >= history[*earlier].asked);
            prop_assert!(in_time && one != earlier);
        }
    }
    let answered = (0..history.len()).filter(|number| history[*number].answered.is_some());
    prop_assert!(answered.into_iter().all(|number| found.contains(&number)));
    Ok(())
}

/// Histories whose every write makes another version. Versions are drawn mostly as a register would give
/// them, so that many histories are right, and many almost.
fn chains() -> impl Strategy<Value = Vec<Operation<u8>>> {
    let one = (0u64..30, 0u64..9, 0u8..4, 0u8..16, 0u8..3);
    prop::collection::vec(one, 0..9).prop_map(|drawn| {
        let mut held: Option<u8> = None;
        let mut operations = Vec::new();
        for (number, (asked, takes, what, other, odd)) in drawn.into_iter().enumerate() {
            let to = number as u8 + 1;
            // What is asked for one after the other is often told in that order.
            let asked = if odd == 0 { asked } else { 4 * number as u64 };
            let other = (other < 9).then_some(other);
            let version = if odd == 1 && takes > 4 { other } else { held };
            let (action, applied) = match what {
                0 => (Action::Read(version), false),
                1 => (Action::Swap { from: other, to, came: Came::Refused(version) }, false),
                2 => (Action::Swap { from: version, to, came: Came::Unknown }, takes % 2 == 0),
                _ => (Action::Swap { from: version, to, came: Came::Applied }, true),
            };
            held = if applied { Some(to) } else { held };
            let unknown = matches!(action, Action::Swap { came: Came::Unknown, .. });
            operations.push(Operation { asked, answered: (!unknown).then_some(asked + takes), action });
        }
        operations
    })
}

#[test]
fn the_judge_of_chains_agrees_with_the_search_and_explains_itself() {
    let mut runner =
        TestRunner::new(Config { cases: 100_000, failure_persistence: None, ..Config::default() });
    let seen = std::cell::RefCell::new(std::collections::BTreeMap::new());
    let outcome = runner.run(&chains(), |history| {
        let found = judge(&history);
        prop_assert_eq!(found.is_ok(), order(&history).is_some(), "{:?}", found);
        let rule = match &found {
            Ok(found) => {
                explains(&history, found)?;
                replays(&history, found)?;
                "right"
            }
            Err(finding) => {
                // What is shown is wrong by itself, as long as the chain it is on is there.
                prop_assert!(!finding.operations.is_empty());
                prop_assert!(finding.operations.iter().all(|number| *number < history.len()));
                finding.rule
            }
        };
        *seen.borrow_mut().entry(rule).or_insert(0) += 1;
        Ok(())
    });
    outcome.unwrap();
    let seen = seen.into_inner();
    for rule in [
        "right",
        register::UNWRITTEN,
        register::REFUSED_AND_SEEN,
        register::TWO_WINNERS,
        register::STALE,
        register::NO_REASON,
    ] {
        assert!(seen.get(rule).is_some_and(|count| *count > 300), "{rule}: {seen:?}");
    }
}

/// A register that does the operations in this order answers so.
fn replays(history: &[Operation<u8>], found: &[usize]) -> Result<(), TestCaseError> {
    let mut held = None;
    for number in found {
        match &history[*number].action {
            Action::Read(saw) => prop_assert_eq!(*saw, held),
            Action::Swap { from, to, came: Came::Applied | Came::Unknown } => {
                prop_assert_eq!(*from, held);
                held = Some(*to);
            }
            Action::Swap { from, came: Came::Refused(saw), .. } => {
                prop_assert!(*saw == held && *from != held);
            }
            Action::Swap { came: Came::Failed, .. } => {}
        }
    }
    Ok(())
}

/// Explanations are as short as they can be.
#[test]
fn what_is_wrong_is_shown_by_few_operations() {
    let mut history = vec![swap(0, Some(1), None, 1, Came::Applied)];
    for version in 1..100u8 {
        let at = 10 * u64::from(version);
        history.push(swap(at, Some(at + 3), Some(version), version + 1, Came::Applied));
        history.push(read(at + 4, at + 5, Some(version + 1)));
    }
    assert!(judge(&history).is_ok());
    let place = |history: &[Operation<u8>], version: u8| {
        history.iter().position(|one| matches!(one.action, Action::Swap { to, .. } if to == version)).unwrap()
    };
    // A reader sees what had been replaced: the write that replaced it, and the reader.
    let mut stale = history.clone();
    stale.push(read(606, 607, Some(60)));
    let finding = judge(&stale).unwrap_err();
    assert_eq!(
        (finding.rule, finding.operations),
        (register::STALE, vec![place(&stale, 61), stale.len() - 1])
    );
    // Two winners are two writes.
    let mut twice = history.clone();
    twice.push(swap(300, Some(400), Some(30), 200, Came::Applied));
    let finding = judge(&twice).unwrap_err();
    assert_eq!(finding.rule, register::TWO_WINNERS);
    assert_eq!(finding.operations, [place(&twice, 31), twice.len() - 1]);
    // Values that come again: the search decides, and leaves out what is not needed.
    let again = [
        swap(0, Some(1), None, 1, Came::Applied),
        read(2, 3, Some(1)),
        swap(4, Some(5), Some(1), 2, Came::Applied),
        read(6, 7, Some(2)),
        swap(8, Some(9), Some(2), 1, Came::Applied),
        read(10, 11, Some(2)),
        read(12, 13, Some(1)),
    ];
    let finding = judge(&again).unwrap_err();
    assert_eq!((finding.rule, finding.operations), (register::UNEXPLAINED, vec![0, 2, 4, 5]));
}
