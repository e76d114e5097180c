//! Attacks on the writes of a healthy disk.

use std::collections::BTreeMap;

use tanist::client::attempt::{Attempts, Heard, Pace, Verdict};
use tanist::engine::Input;
use tanist::wire::client::{Failure, OnConflict, Submitted};
use tanist::wire::registry::{Reply, Request};
use tanist::wire::values::Values;

use super::*;
use crate::founding::member_id;
use crate::history::Prepared;

const REFUSE: OnConflict = OnConflict::Refuse;
const KEEP: OnConflict = OnConflict::KeepBoth;

#[test]
pub fn attack_01_two_winners_in_one_batch() {
    two_creators(0);
}

#[test]
pub fn attack_01_two_winners_while_a_batch_is_in_flight() {
    two_creators(50);
}

/// Two writes that read the same come to one node, the second `gap` after the first.
fn two_creators(gap: u64) {
    let mut world = calm();
    world.net.delay_ms = (1, 1);
    world.options.sync_ms = (300, 300);
    let mut attempts = Vec::new();
    let mut writes: Vec<Prepared> = Vec::new();
    for text in ["one", "two"] {
        let write = world.prepare(&key(), &[], Some(text.into()), REFUSE);
        attempts.push(world.ask(0, 0, Asked::Submit(write.id()), &World::submission(&write)));
        writes.push(write);
        world.run_for(gap);
    }
    world.run_for(3_000);
    let replies: Vec<Option<Reply>> =
        attempts.iter().map(|n| world.history.attempts[*n].reply().cloned()).collect();
    assert!(is_applied(&replies[0]), "{replies:?}");
    let Some(Reply::Submitted(Submitted::Refused { current: Some(current) })) = &replies[1] else {
        panic!("the second of two creates is not refused: {replies:?}");
    };
    assert_eq!(current.iter().map(|v| v.id()).collect::<Vec<_>>(), [writes[0].id()]);
    assert_eq!(end(&mut world), [writes[0].id()]);
}

#[test]
pub fn attack_01_a_refusal_waits_for_the_winner_that_it_shows() {
    let mut world = calm();
    world.net.delay_ms = (1, 1);
    world.options.sync_ms = (500, 500);
    let winner = world.prepare(&key(), &[], Some("winner".into()), REFUSE);
    let loser = world.prepare(&key(), &[], Some("loser".into()), REFUSE);
    for write in [&winner, &loser] {
        world.ask(0, 0, Asked::Submit(write.id()), &World::submission(write));
    }
    world.run_for(300);
    assert!(
        world.history.attempts.iter().all(|attempt| attempt.released.is_none()),
        "nothing is durable yet"
    );
    world.crash(0, 0);
    world.start(0);
    world.options.sync_ms = (1, 3);
    world.run_for(2_000);
    assert_eq!(end(&mut world), [], "the winner never was, and nobody saw it");
}

#[test]
pub fn attack_02_vector_past_loses_sibling() {
    let mut world = calm();
    // X and Y are siblings of node 0; node 1 misses X.
    let base = applied(&mut world, 0, &[], "base");
    world.net.close_both(Place::Node(0), Place::Node(1));
    world.links_changed();
    world.run_for(400);
    let x = applied(&mut world, 0, &[base.clone()], "x");
    reconnect(&mut world);
    world.net.close_both(Place::Node(2), Place::Node(1));
    world.links_changed();
    let y = applied(&mut world, 0, &[base], "y");
    // Whoever read Y alone writes Z through node 1.
    let z = applied(&mut world, 1, &[y.clone()], "z");
    let stamp = z.stamps[0].stamp();
    assert!(y.stamps.iter().all(|s| stamp.past.covers(s.stamp().actor, s.stamp().event())));
    assert!(!x.stamps.iter().any(|s| stamp.past.covers(s.stamp().actor, s.stamp().event())));
    let mut expected = vec![x.id, z.id];
    expected.sort();
    assert_eq!(end(&mut world), expected, "X was acknowledged, and Z does not name it");
}

#[test]
pub fn attack_03_foreign_stamp() {
    let mut world = calm();
    let x = applied(&mut world, 0, &[], "x");
    // A genuine version of another key, with a high stamp.
    let other = World::key(1);
    let mut foreign: Vec<Seen> = Vec::new();
    for round in 0..3 {
        let prepared = world.prepare(&other, &foreign, Some(format!("{round}").into()), REFUSE);
        let reply = submit(&mut world, 0, &prepared);
        foreign = vec![seen(&prepared, &reply)];
    }
    for node in 0..3 {
        let (_, reply) = write(&mut world, node, &foreign, "stolen", KEEP);
        assert!(matches!(reply, Some(Reply::Failure(Failure::Rejected(_)))), "{reply:?}");
        let bare = [Seen { stamps: Vec::new(), ..foreign[0].clone() }];
        let (_, reply) = write(&mut world, node, &bare, "stolen", KEEP);
        assert!(matches!(reply, Some(Reply::Failure(Failure::UnknownParents(_)))), "{reply:?}");
    }
    assert_eq!(end(&mut world), [x.id]);
}

/// W, then Z that names W, then Y that names Z; node 2 misses all of it, and W is sent to it again.
fn retry_after_being_built_upon(on_conflict: OnConflict) {
    for grandchild in [false, true] {
        let mut world = calm();
        let base = applied(&mut world, 0, &[], "base");
        world.run_for(500);
        isolate(&mut world, 2);
        let (w, reply) = write(&mut world, 0, &[base], "w", on_conflict);
        let mut newest = seen(&w, &reply);
        newest = applied(&mut world, 1, &[newest], "z");
        if grandchild {
            newest = applied(&mut world, 1, &[newest], "y");
        }
        reconnect(&mut world);
        let reply = submit(&mut world, 2, &w);
        let Some(Reply::Submitted(Submitted::Applied { siblings, .. })) = &reply else {
            panic!("W was applied, and its retry through a node that missed it says {reply:?}");
        };
        assert!(siblings.contains(&newest.id) || !grandchild, "{siblings:?}");
        assert_eq!(end(&mut world), [newest.id], "W is no sibling of its own descendant");
    }
}

#[test]
pub fn attack_04a_retry_after_being_built_upon() {
    retry_after_being_built_upon(REFUSE);
    retry_after_being_built_upon(KEEP);
}

#[test]
pub fn attack_05_two_stamps_one_write() {
    let mut world = calm();
    let base = applied(&mut world, 0, &[], "base");
    world.run_for(500);
    // W through node 0 reaches node 1 only, and the client hears nothing.
    world.net.close_both(Place::Node(0), Place::Node(2));
    world.net.close(Place::Node(0), Place::Client(0));
    let w = world.prepare(&key(), &[base], Some("w".into()), KEEP);
    assert_eq!(submit(&mut world, 0, &w), None);
    // Node 1 is out of sight of node 2, which stamps W again, and cannot finish.
    isolate(&mut world, 0);
    cut_silently(&mut world, 1);
    let again = world.ask(0, 2, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(200);
    assert_eq!(live(&world, 2), [w.id()], "stamped a second time");
    cut_silently(&mut world, 2);
    world.net.open_all();
    cut_silently(&mut world, 2);
    world.run_for(6_000);
    assert!(world.history.attempts[again].reply().is_none_or(|reply| !is_applied(&Some(reply.clone()))));
    // Its first stamp is built upon twice where the second one is not known.
    let read = world.read_through(1, &key()).expect("two nodes are a quorum");
    let z = applied(&mut world, 1, &read, "z");
    let z2 = applied(&mut world, 1, &[z], "z2");
    reconnect(&mut world);
    assert_eq!(end(&mut world), [z2.id], "no false sibling survives");
}

#[test]
pub fn attack_06a_refuse_is_a_check_not_a_guarantee() {
    let mut world = calm();
    world.net.delay_ms = (20, 20);
    let w = world.prepare(&key(), &[], Some("w".into()), REFUSE);
    let y = world.prepare(&key(), &[], Some("y".into()), REFUSE);
    let one = world.ask(0, 0, Asked::Submit(w.id()), &World::submission(&w));
    let two = world.ask(1, 2, Asked::Submit(y.id()), &World::submission(&y));
    world.run_for(3_000);
    let told: Vec<bool> = [(one, y.id()), (two, w.id())]
        .map(|(attempt, other)| match world.history.attempts[attempt].reply() {
            Some(Reply::Submitted(Submitted::Applied { siblings, .. })) => siblings.contains(&other),
            reply => panic!("both met nothing when they were stamped: {reply:?}"),
        })
        .to_vec();
    assert!(told.contains(&true), "at least one of them learns of the other (P2)");
    let mut both = vec![w.id(), y.id()];
    both.sort();
    assert_eq!(end(&mut world), both);
}

#[test]
pub fn attack_06b_a_later_refusal_of_an_unknown_write_is_unknown() {
    let mut world = calm();
    world.net.close(Place::Node(0), Place::Client(0));
    let w = world.prepare(&key(), &[], Some("w".into()), REFUSE);
    let mut attempts = Attempts::write([0, 2].map(member_id), Pace::default());
    attempts.start(world.now);
    // Attempt 1: stamped by node 0, which is then cut off.
    cut_silently(&mut world, 0);
    world.ask(0, 0, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(500);
    assert_eq!(live(&world, 0), [w.id()]);
    attempts.on_tick(world.now);
    // Somebody else writes; attempt 2 is refused.
    let y = applied(&mut world, 1, &[], "y");
    let reply = submit(&mut world, 2, &w);
    assert!(is_refused(&reply), "{reply:?}");
    let heard = Heard::Reply(Box::new(reply.expect("refused")));
    let mut actions = attempts.on_reply(member_id(2), heard, world.now);
    actions.extend(attempts.on_reply(member_id(0), Heard::Lost("cut off".into()), world.now));
    actions.extend(attempts.on_tick(world.now + 60_000));
    let verdict = actions.into_iter().find_map(|action| match action {
        tanist::client::attempt::Action::Done(verdict) => Some(*verdict),
        _ => None,
    });
    assert!(
        matches!(verdict, Some(Verdict::Unknown(_))),
        "never `failed`, and then it happened: {verdict:?}"
    );
    let mut both = vec![w.id(), y.id];
    both.sort();
    assert_eq!(end(&mut world), both);
}

#[test]
pub fn attack_12_counters_are_unique_over_keys_and_rise_over_restarts() {
    let mut world = calm();
    let mut last: BTreeMap<Key, u64> = BTreeMap::new();
    let mut all = std::collections::BTreeSet::new();
    let mut tips: BTreeMap<Key, Vec<Seen>> = BTreeMap::new();
    for round in 0..6 {
        for key in [World::key(0), World::key(1)] {
            let parents = tips.get(&key).cloned().unwrap_or_default();
            let prepared = world.prepare(&key, &parents, Some(format!("{round}").into()), REFUSE);
            let reply = submit(&mut world, 0, &prepared);
            let written = seen(&prepared, &reply);
            let stamp = written.stamps[0].stamp();
            assert!(all.insert(stamp.counter), "one counter, two events");
            assert!(last.insert(key.clone(), stamp.counter).is_none_or(|before| before < stamp.counter));
            assert!(stamp.previous < stamp.counter);
            tips.insert(key, vec![written]);
        }
        world.crash(0, 0);
        world.start(0);
        world.run_for(1_500);
    }
    end(&mut world);
}

#[test]
pub fn attack_14_an_acknowledgement_lists_the_other_or_a_version_after_it() {
    let mut world = calm();
    isolate(&mut world, 2);
    let w1 = applied(&mut world, 0, &[], "w1");
    let z = applied(&mut world, 0, &[w1.clone()], "z");
    // Node 2 knows neither, and now sees node 1 only.
    reconnect_but(&mut world, 0);
    let (w2, reply) = write(&mut world, 2, &[], "w2", KEEP);
    let Some(Reply::Submitted(Submitted::Applied { siblings, .. })) = &reply else { panic!("{reply:?}") };
    assert!(siblings.contains(&z.id), "W1 is named by Z, and Z is what is listed: {siblings:?}");
    let mut expected = vec![w2.id(), z.id];
    expected.sort();
    assert_eq!(end(&mut world), expected);
}

/// Opens all links except those of one node.
fn reconnect_but(world: &mut World, node: usize) {
    world.net.open_all();
    cut_silently(world, node);
    world.run_for(400);
}

#[test]
pub fn attack_14_a_copy_on_a_node_that_is_no_replica_does_not_count() {
    let mut world = with(Options { nodes: 5, ..Options::calm() });
    let replicas = world.replicas(&key());
    let bystanders: Vec<usize> = (0..5).filter(|node| !replicas.contains(node)).collect();
    // The coordinator stamps, then sees nobody, then nobody but bystanders.
    let coordinator = replicas[0];
    cut_silently(&mut world, coordinator);
    let w = world.prepare(&key(), &[], Some("w".into()), KEEP);
    let attempt = world.ask(0, coordinator, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(400);
    world.net.open_all();
    replicas[1..].iter().for_each(|r| world.net.close_both(Place::Node(coordinator), Place::Node(*r)));
    world.links_changed();
    world.run_for(6_000);
    let reply = world.history.attempts[attempt].reply().cloned();
    assert!(reply.is_some() && !is_applied(&reply), "one replica has it: {reply:?}");
    for node in bystanders {
        assert_eq!(live(&world, node), [], "what is no replica's is not sent there");
    }
    assert_eq!(end(&mut world), [w.id()]);
}

#[test]
pub fn attack_08_whoever_has_no_right_writes_nothing() {
    let mut world = calm();
    for node in 0..3 {
        let reply = world.submit_as_stranger(node);
        assert!(matches!(reply, Some(Reply::Failure(Failure::Denied(_)))), "{reply:?}");
    }
    assert_eq!(end(&mut world), []);
}

#[test]
pub fn attack_23_a_merge_has_no_cap() {
    let mut world = calm();
    for n in 0..60 {
        applied(&mut world, n % 3, &[], &format!("sibling {n}"));
    }
    // All three admit more before any hears of the others'.
    world.net.delay_ms = (60, 60);
    for n in 0..12 {
        let prepared = world.prepare(&key(), &[], Some(format!("late {n}").into()), KEEP);
        world.ask(0, n % 3, Asked::Submit(prepared.id()), &World::submission(&prepared));
    }
    world.run_for(5_000);
    world.net.delay_ms = (1, 3);
    let read = world.read_through(0, &key()).expect("a read of all that was admitted");
    assert!(read.len() > 64, "admitted apart, kept together: {}", read.len());
    let (_, reply) = write(&mut world, 0, &[], "one more", KEEP);
    assert!(matches!(reply, Some(Reply::Failure(Failure::TooManySiblings(_)))), "{reply:?}");
    let one = applied(&mut world, 1, &read[..1], "names a live one");
    let read = world.read_through(2, &key()).expect("a read");
    assert!(read.iter().any(|seen| seen.id == one.id));
    let all = applied(&mut world, 2, &read, "resolved");
    assert_eq!(end(&mut world), [all.id]);
}

#[test]
pub fn attack_25_a_value_comes_with_its_write_and_goes_with_its_version() {
    let mut world = calm();
    let first = world.prepare(&key(), &[], Some("secret".into()), REFUSE);
    let reply = submit(&mut world, 0, &first);
    let first = seen(&first, &reply);
    // Whoever knows the hash alone cannot write it.
    let copied = world.prepare(&World::key(1), &[], Some("secret".into()), REFUSE);
    let Request::Submit(mut bare) = World::submission(&copied) else { unreachable!("a submission") };
    bare.value = Values::none();
    let reply = world.call(0, Asked::Submit(copied.id()), &Request::from(bare));
    assert!(matches!(reply, Some(Reply::Failure(Failure::Rejected(_)))), "{reply:?}");
    // A version that nothing names any more takes its value with it.
    let second = applied(&mut world, 1, &[first.clone()], "second");
    let third = applied(&mut world, 2, &[second], "third");
    assert_eq!(end(&mut world), [third.id]);
    let object = tanist::core::object::ObjectId::new(world.founding.namespace, &key());
    for node in &world.nodes {
        use tanist::engine::store::View as _;
        let row = tanist::engine::rows::value(object, first.id);
        assert_eq!(node.disk.rows.get(&row), Ok(None));
    }
}

#[test]
pub fn attack_26_a_full_disk_refuses_writes_and_serves_reads() {
    let mut world = calm();
    let before = applied(&mut world, 0, &[], "before");
    world.tell(0, Input::DiskFull(true));
    let (_, reply) = write(&mut world, 0, &[before.clone()], "no room", REFUSE);
    assert!(matches!(reply, Some(Reply::Failure(Failure::DiskFull))), "{reply:?}");
    assert_eq!(world.read_through(0, &key()).expect("a read")[0].id, before.id);
    let other = applied(&mut world, 1, &[before], "elsewhere there is room");
    world.tell(0, Input::DiskFull(false));
    let after = applied(&mut world, 0, &[other], "there is room again");
    assert_eq!(end(&mut world), [after.id]);
}

#[test]
pub fn attack_26_a_failed_sync_releases_nothing() {
    let mut world = calm();
    let before = applied(&mut world, 0, &[], "before");
    world.run_for(1_000);
    world.nodes[0].disk.rows.fail_next_sync();
    let w = world.prepare(&key(), &[before], Some("w".into()), REFUSE);
    let attempt = world.ask(0, 0, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(2_000);
    assert!(world.history.attempts[attempt].released.is_none(), "the process ended instead");
    assert_eq!(world.coverage.crashes, 1, "a process goes on after a failed sync");
    assert!(is_applied(&submit(&mut world, 1, &w)));
    assert_eq!(end(&mut world), [w.id()]);
}
