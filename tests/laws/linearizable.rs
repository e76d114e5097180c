//! The judge of histories is judged: by histories whose answer is known, and by trying all orders.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::linear::{Action, Came, Operation, order};

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
