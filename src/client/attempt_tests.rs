//! The rules of the attempts, one by one.

use super::*;
use crate::core::register::Bound;
use crate::core::write::Term;
use crate::wire::client::{Value, Versions};
use crate::wire::values::Values;

fn node(n: u8) -> MemberId {
    MemberId([n; 16])
}

fn write() -> Attempts {
    Attempts::write([node(1), node(2), node(3)], Pace::default())
}

fn send(n: u8) -> Action {
    Action::Send { node: node(n) }
}

fn reply(reply: impl Into<Reply>) -> Heard {
    Heard::Reply(Box::new(reply.into()))
}

fn applied() -> Heard {
    reply(Submitted::Applied { stamps: Vec::new(), siblings: Vec::new() })
}

fn refused() -> Heard {
    reply(Submitted::Refused { current: None })
}

fn lost() -> Heard {
    Heard::Lost("the connection was lost".into())
}

fn verdict(actions: &[Action]) -> Option<&Verdict> {
    actions.iter().find_map(|action| match action {
        Action::Done(verdict) => Some(&**verdict),
        _ => None,
    })
}

fn sends(actions: &[Action]) -> Vec<Action> {
    actions.iter().filter(|action| matches!(action, Action::Send { .. })).cloned().collect()
}

#[test]
fn the_preferred_replica_first_and_the_next_after_150_ms() {
    let mut attempts = write();
    assert_eq!(attempts.start(1000), [send(1), Action::WakeAt(1150)]);
    assert_eq!(attempts.on_tick(1149), [Action::WakeAt(1150)]);
    assert_eq!(attempts.on_tick(1150), [send(2), Action::WakeAt(1300)]);
    assert_eq!(attempts.on_tick(1300), [send(3), Action::WakeAt(6000)]);
    let done = attempts.on_reply(node(1), applied(), 1400);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Applied { .. })))));
    assert_eq!(attempts.on_reply(node(2), applied(), 1401), [], "after the verdict nothing happens");
}

#[test]
fn the_next_replica_at_once_when_a_node_cannot() {
    for cannot in [reply(Failure::Overloaded), reply(Failure::Unavailable("alone".into())), lost()] {
        let mut attempts = write();
        attempts.start(0);
        assert_eq!(sends(&attempts.on_reply(node(1), cannot, 10)), [send(2)]);
        let again = attempts.on_tick(60);
        assert_eq!(sends(&again), [send(1)], "and the first again after a pause");
    }
}

#[test]
fn attack_06b_a_refusal_after_a_lost_attempt_is_unknown() {
    let mut attempts = write();
    attempts.start(0);
    attempts.on_reply(node(1), lost(), 10);
    let done = attempts.on_reply(node(2), refused(), 20);
    assert!(matches!(verdict(&done), Some(Verdict::Unknown(_))), "{done:?}");
}

#[test]
fn attack_06b_a_refusal_waits_for_an_attempt_in_flight() {
    let mut attempts = write();
    attempts.start(0);
    attempts.on_tick(150);
    let waits = attempts.on_reply(node(2), refused(), 160);
    assert_eq!(waits, [Action::WakeAt(5000)], "and nobody else is asked");
    let done = attempts.clone().on_reply(node(1), applied(), 170);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Applied { .. })))));
    let done = attempts.clone().on_reply(node(1), refused(), 170);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Refused { .. })))));
    let done = attempts.clone().on_reply(node(1), lost(), 170);
    assert!(matches!(verdict(&done), Some(Verdict::Unknown(_))));
    assert!(matches!(verdict(&attempts.on_tick(5000)), Some(Verdict::Unknown(_))));
}

#[test]
fn attack_06b_an_incomplete_write_is_sent_again_until_the_deadline() {
    let mut attempts = write();
    attempts.start(0);
    let incomplete = || reply(Submitted::Incomplete { copies: 1, needed: 2 });
    assert_eq!(sends(&attempts.on_reply(node(1), incomplete(), 10)), [send(2)]);
    let waits = attempts.on_reply(node(2), refused(), 20);
    assert_eq!(verdict(&waits), None, "the first may still finish it");
    assert_eq!(sends(&attempts.on_tick(60)), [send(1)]);
    let done = attempts.clone().on_reply(node(1), applied(), 70);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Applied { .. })))));
    attempts.on_reply(node(1), incomplete(), 70);
    assert!(matches!(verdict(&attempts.on_tick(5000)), Some(Verdict::Unknown(_))));
}

#[test]
fn attack_06b_a_failure_after_a_lost_attempt_is_unknown_too() {
    let mut attempts = write();
    attempts.start(0);
    attempts.on_reply(node(1), lost(), 10);
    let done = attempts.on_reply(node(2), reply(Failure::TooManySiblings(64)), 20);
    assert!(matches!(verdict(&done), Some(Verdict::Unknown(_))));
}

#[test]
fn a_refusal_alone_is_final_at_once() {
    let mut attempts = write();
    attempts.start(0);
    attempts.on_reply(node(1), reply(Failure::Overloaded), 10);
    let done = attempts.on_reply(node(2), refused(), 20);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Refused { .. })))));
}

#[test]
fn nobody_waits_for_an_attempt_that_was_not_sent() {
    let mut attempts = write();
    attempts.start(0);
    attempts.waits(node(1));
    attempts.on_tick(150);
    let done = attempts.on_reply(node(2), refused(), 160);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Refused { .. })))));
    assert!(!attempts.sent(node(1)), "and it must not leave any more");
}

#[test]
fn at_the_deadline_unknown_if_anything_was_sent_and_unavailable_otherwise() {
    let mut attempts = write();
    attempts.start(0);
    assert!(matches!(verdict(&attempts.on_tick(5000)), Some(Verdict::Unknown(_))));

    let mut attempts = write();
    attempts.start(0);
    attempts.waits(node(1));
    attempts.on_tick(150);
    attempts.on_reply(node(2), Heard::Unreached("refused".into()), 160);
    attempts.on_reply(node(3), reply(Failure::Overloaded), 170);
    assert!(matches!(verdict(&attempts.on_tick(5000)), Some(Verdict::Unavailable(_))));

    let mut read = Attempts::read([node(1)], Pace::default());
    read.start(0);
    assert!(matches!(verdict(&read.on_tick(5000)), Some(Verdict::Unavailable(_))));
}

#[test]
fn a_node_that_lags_behind_does_not_speak_for_the_others() {
    let mut attempts = write();
    attempts.start(0);
    let next = attempts.on_reply(node(1), reply(Failure::UnknownNamespace), 10);
    assert_eq!(sends(&next), [send(2)]);
    assert_eq!(sends(&attempts.on_reply(node(2), reply(Failure::UnknownNamespace), 20)), [send(3)]);
    let done = attempts.on_reply(node(3), reply(Failure::UnknownNamespace), 30);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Failure(Failure::UnknownNamespace)))));
}

#[test]
fn a_forged_answer_is_none() {
    let forged = || Heard::Forged("the author's signature does not fit".into());
    let mut read = Attempts::read([node(1), node(2)], Pace::default());
    read.start(0);
    assert_eq!(sends(&read.on_reply(node(1), forged(), 10)), [send(2)]);
    let mut other = read.clone();
    assert!(matches!(verdict(&read.on_reply(node(2), forged(), 20)), Some(Verdict::Forged(_))));
    let versions = Versions { versions: Vec::new(), values: Values::none(), evidence: Vec::new() };
    assert!(matches!(verdict(&other.on_reply(node(2), reply(versions), 20)), Some(Verdict::Answer(_))));

    let mut attempts = write();
    attempts.start(0);
    attempts.on_reply(node(1), forged(), 10);
    let done = attempts.on_reply(node(2), refused(), 20);
    assert!(matches!(verdict(&done), Some(Verdict::Unknown(_))), "a liar may have stamped it");
}

#[test]
fn a_value_is_asked_of_the_next_replica_if_one_does_not_hold_it() {
    let mut read = Attempts::read([node(1), node(2)], Pace::default());
    read.start(0);
    let none = reply(Value { value: Values::none() });
    assert_eq!(sends(&read.on_reply(node(1), none, 10)), [send(2)]);
}

fn register() -> Attempts {
    Attempts::register([node(1), node(2), node(3)], Pace::default())
}

fn fenced() -> Heard {
    let resource = "billing".try_into().unwrap();
    reply(Submitted::Fenced(Bound { resource, term: Term { recovery: 0, number: 2 } }))
}

#[test]
fn p5_a_register_s_refusal_is_final_whatever_other_attempts_did() {
    for no in [refused(), fenced()] {
        // After one that was lost, one that was incomplete, and beside one that is under way.
        let mut attempts = register();
        attempts.start(0);
        attempts.on_reply(node(1), lost(), 10);
        attempts.on_reply(node(2), reply(Submitted::Incomplete { copies: 0, needed: 2 }), 20);
        let Heard::Reply(said) = no.clone() else { panic!() };
        assert_eq!(verdict(&attempts.on_reply(node(3), no.clone(), 30)), Some(&Verdict::Answer(*said)));
        let mut attempts = register();
        attempts.start(0);
        attempts.on_tick(150);
        assert!(matches!(verdict(&attempts.on_reply(node(2), no, 160)), Some(Verdict::Answer(_))));
    }
}

#[test]
fn a_register_that_forgot_may_be_remembered_by_an_attempt_under_way() {
    let forgotten = || reply(Submitted::Forgotten);
    let mut attempts = register();
    attempts.start(0);
    let alone = attempts.clone().on_reply(node(1), forgotten(), 10);
    assert!(matches!(verdict(&alone), Some(Verdict::Answer(Reply::Submitted(Submitted::Forgotten)))));
    attempts.on_tick(150);
    assert_eq!(verdict(&attempts.on_reply(node(2), forgotten(), 160)), None);
    let done = attempts.clone().on_reply(node(1), applied(), 170);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Applied { .. })))));
    let done = attempts.on_reply(node(1), lost(), 170);
    assert!(matches!(verdict(&done), Some(Verdict::Unknown(_))), "it is why nobody remembers, perhaps");
}

#[test]
fn a_register_that_is_behind_decides_nothing() {
    let ahead = || reply(Failure::UnknownParents(Vec::new()));
    let mut attempts = register();
    attempts.start(0);
    assert_eq!(sends(&attempts.on_reply(node(1), ahead(), 10)), [send(2)], "another may know more");
    attempts.on_reply(node(2), lost(), 20);
    let done = attempts.clone().on_reply(node(3), ahead(), 30);
    assert!(
        matches!(verdict(&done), Some(Verdict::Unknown(_))),
        "the lost one may have been taken: {done:?}"
    );
    attempts.on_tick(70);
    attempts.on_reply(node(3), ahead(), 80);
    let done = attempts.on_reply(node(2), applied(), 90);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Submitted(Submitted::Applied { .. })))));
}

#[test]
fn a_proof_that_is_missing_is_not_asked_of_others() {
    let mut attempts = register();
    attempts.start(0);
    let done = attempts.on_reply(node(1), reply(Failure::NeedsTenure), 10);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Failure(Failure::NeedsTenure)))));
}

#[test]
fn a_verdict_that_is_not_known_is_asked_of_the_next() {
    let mut read = Attempts::read([node(1), node(2)], Pace::default());
    read.start(0);
    assert_eq!(sends(&read.on_reply(node(1), reply(RegisterVerdict::Unknown), 10)), [send(2)]);
    let done = read.clone().on_reply(node(2), reply(RegisterVerdict::Open), 20);
    assert!(matches!(verdict(&done), Some(Verdict::Answer(Reply::Verdict(RegisterVerdict::Open)))));
    assert!(matches!(verdict(&read.on_tick(5000)), Some(Verdict::Unavailable(_))));
}

#[test]
fn a_campaign_is_decided_by_the_voters_not_by_an_attempt() {
    let campaigned = |result| reply(Campaigned { result, version: None, value: Values::none() });
    for decided in [Ballots::Refused, Ballots::Running { left_ms: 7 }] {
        let mut attempts = register();
        attempts.start(0);
        attempts.on_reply(node(1), campaigned(Ballots::Incomplete), 10);
        let done = attempts.on_reply(node(2), campaigned(decided.clone()), 20);
        let Some(Verdict::Answer(Reply::Campaigned(answer))) = verdict(&done) else { panic!("{done:?}") };
        assert_eq!(answer.result, decided);
    }
    let mut attempts = register();
    attempts.start(0);
    attempts.on_reply(node(1), campaigned(Ballots::Incomplete), 10);
    assert_eq!(sends(&attempts.on_tick(60)), [send(1)], "the same again");
    assert!(matches!(verdict(&attempts.on_tick(5000)), Some(Verdict::Unknown(_))));
}
