//! What the model of siblings found (S1 to S5).

use tanist::wire::client::{AskOutcome, OnConflict, Outcome};
use tanist::wire::registry::{Reply, Request};

use super::*;

#[test]
pub fn s1_a_claim_does_not_outlive_the_write_that_superseded() {
    let mut world = calm();
    let w1 = applied(&mut world, 0, &[], "w1");
    world.run_for(1_000);
    // Node 0 stamps W4, which names W1, and cannot send it.
    cut_silently(&mut world, 0);
    let w4 = world.prepare(&key(), &[w1.clone()], Some("w4".into()), OnConflict::Refuse);
    let attempt = world.ask(0, 0, Asked::Submit(w4.id()), &World::submission(&w4));
    world.run_for(100);
    assert_eq!(live(&world, 0), [w4.id()]);
    // Its row is lost; the index row "W1 was superseded by W4" is not.
    world.crash(0, 0);
    world.damaged.insert(0);
    assert!(world.nodes[0].disk.lose_key(world.founding.namespace, &key(), false));
    assert!(world.history.attempts[attempt].released.is_none());
    world.net.open_all();
    world.start(0);
    world.run_for(2_000);
    assert_eq!(end(&mut world), [w1.id], "acknowledged, and superseded by nothing that exists");
}

#[test]
pub fn s2_an_event_does_not_cover_what_a_lost_row_knew() {
    let mut world = calm();
    let w1 = applied(&mut world, 0, &[], "w1");
    world.run_for(1_000);
    world.net.close_both(Place::Node(0), Place::Node(1));
    world.links_changed();
    let w2 = applied(&mut world, 0, &[], "w2");
    world.run_for(1_000);
    // Node 0 loses its row, and hears of W1 only before it stamps again.
    world.crash(0, 0);
    world.damaged.insert(0);
    assert!(world.nodes[0].disk.lose_key(world.founding.namespace, &key(), true));
    world.net.open_all();
    cut_silently(&mut world, 2);
    world.start(0);
    world.run_for(1_500);
    let read = world.read_through(0, &key()).expect("two nodes are a quorum");
    assert_eq!(read.iter().map(|seen| seen.id).collect::<Vec<_>>(), [w1.id]);
    let w3 = applied(&mut world, 0, &[], "w3");
    let event = w3.stamps[0].stamp().event();
    let upto = w2.stamps[0].stamp().counter;
    assert!(event.after >= upto, "{event:?} covers the event {upto} that its actor forgot");
    let child = applied(&mut world, 1, &[w3], "child");
    let mut expected = vec![w1.id, w2.id, child.id];
    expected.sort();
    assert_eq!(end(&mut world), expected);
}

#[test]
pub fn s3_stamps_are_a_set_whatever_their_order() {
    let mut world = calm();
    isolate(&mut world, 2);
    let (w, reply) = write(&mut world, 0, &[], "w", OnConflict::KeepBoth);
    let first = seen(&w, &reply).stamps[0].stamp().dot();
    // Node 0 loses all it knows of the key, and stamps the same write again.
    world.crash(0, 0);
    world.damaged.insert(0);
    assert!(world.nodes[0].disk.lose_key(world.founding.namespace, &key(), true));
    world.start(0);
    world.run_for(1_500);
    world.net.close_both(Place::Node(0), Place::Node(1));
    let again = world.ask(0, 0, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(100);
    assert_eq!(live(&world, 0), [w.id()]);
    reconnect(&mut world);
    world.run_for(5_000);
    let reply = world.history.attempts[again].reply().cloned();
    assert!(is_applied(&reply), "{reply:?}");
    assert_eq!(end(&mut world), [w.id()]);
    let stamps = |world: &World, node: usize| {
        let row = world.nodes[node].disk.key_row(world.founding.namespace, &key());
        let version = row.siblings.version(w.id()).expect("it is held").clone();
        version.stamps.iter().map(|stamp| stamp.stamp().dot()).collect::<Vec<_>>()
    };
    // Exchanges compare ids, so a replica that holds the write asks nobody for further stamps; whoever
    // met both of them has both, in whichever order they came.
    let (one, two) = (stamps(&world, 1), stamps(&world, 2));
    assert!(one.contains(&first) && one.len() == 2, "both stamps are kept: {one:?}");
    assert_eq!(one, two);
}

#[test]
pub fn s4_an_answer_from_the_index_has_its_copies() {
    let mut world = calm();
    cut_silently(&mut world, 0);
    let w = world.prepare(&key(), &[], Some("w".into()), OnConflict::KeepBoth);
    world.ask(0, 0, Asked::Submit(w.id()), &World::submission(&w));
    world.run_for(100);
    assert_eq!(live(&world, 0), [w.id()], "one copy");
    for _ in 0..3 {
        let reply = submit(&mut world, 0, &w);
        assert!(!is_applied(&reply), "one copy is no acknowledgement: {reply:?}");
        assert!(world.violation.is_none(), "{:?}", world.violation);
        let ask = AskOutcome { namespace: world.founding.namespace, key: key(), write: w.id() };
        let reply = world.call(0, Asked::Outcome(w.id()), &Request::from(ask));
        assert!(!matches!(reply, Some(Reply::Outcome(Outcome::Applied { .. }))), "{reply:?}");
    }
    reconnect(&mut world);
    assert!(is_applied(&submit(&mut world, 0, &w)));
    assert_eq!(end(&mut world), [w.id()]);
}

#[test]
pub fn s5_the_stamps_of_a_superseded_parent_are_presented() {
    let mut world = calm();
    let parent = applied(&mut world, 0, &[], "parent");
    let child = applied(&mut world, 0, &[parent.clone()], "child");
    let grandchild = applied(&mut world, 0, &[child], "grandchild");
    world.run_for(1_000);
    let row = world.nodes[2].disk.key_row(world.founding.namespace, &key());
    assert!(row.siblings.version(parent.id).is_none(), "only its index row is left");
    let late = applied(&mut world, 2, &[parent.clone()], "late");
    let past = &late.stamps[0].stamp().past;
    let of_parent = parent.stamps[0].stamp();
    assert!(past.covers(of_parent.actor, of_parent.event()), "its past holds its parent");
    let mut expected = vec![grandchild.id, late.id];
    expected.sort();
    assert_eq!(end(&mut world), expected);
}
