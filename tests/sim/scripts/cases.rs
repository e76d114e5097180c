//! Cases that happened to real systems; the number is that of `testing.md`'s list.

use tanist::core::write::Body;
use tanist::wire::client::{OnConflict, Submitted};
use tanist::wire::registry::Reply;

use super::*;

const REFUSE: OnConflict = OnConflict::Refuse;

#[test]
pub fn case_01_a_wiped_node_is_a_new_actor_and_forwards() {
    let mut world = calm();
    let mut tip: Vec<Seen> = Vec::new();
    for n in 0..10 {
        tip = vec![applied(&mut world, 0, &tip, &format!("value {n}"))];
    }
    world.crash(0, 0);
    world.nodes[0].disk.wipe();
    world.damaged.insert(0);
    cut_silently(&mut world, 0);
    world.start(0);
    world.run_for(1_000);
    let (lost, reply) = write(&mut world, 0, &tip, "new", REFUSE);
    assert!(matches!(reply, Some(Reply::Failure(_))), "cut off and empty it takes nothing: {reply:?}");
    assert_eq!(live(&world, 0), []);
    reconnect(&mut world);
    assert!(!world.nodes[0].counts());
    let reply = submit(&mut world, 0, &lost);
    assert!(is_applied(&reply), "forwarded to nodes that count: {reply:?}");
    let stamps = seen(&lost, &reply).stamps;
    let wiped = world.nodes[0].actor(world.founding.cluster);
    assert!(stamps.iter().all(|stamp| Some(stamp.stamp().actor) != wiped));
    assert_eq!(end(&mut world), [lost.id()]);
    assert!(!world.nodes[0].counts(), "until it is readmitted it forwards, and counts for nothing");
}

#[test]
pub fn case_11_a_lost_reply_is_unknown_not_failed() {
    let mut world = calm();
    let base = applied(&mut world, 0, &[], "base");
    for node in 0..3 {
        world.net.close(Place::Node(node), Place::Client(0));
    }
    let w = world.prepare(&key(), &[base], Some("w".into()), REFUSE);
    assert_eq!(submit(&mut world, 0, &w), None);
    world.net.open_all();
    // The same bytes again, through another node.
    assert!(is_applied(&submit(&mut world, 1, &w)));
    assert_eq!(end(&mut world), [w.id()]);
}

#[test]
pub fn case_12_an_append_whose_reply_is_lost_happens_once() {
    let mut world = calm();
    let mut read: Vec<Seen> = Vec::new();
    for n in 0..40 {
        let w = world.prepare(&key(), &read, Some(format!("element {n}").into()), REFUSE);
        let node = n % 3;
        if n % 2 == 0 {
            world.net.close(Place::Node(node), Place::Client(0));
            assert_eq!(submit(&mut world, node, &w), None);
            world.net.open_all();
        }
        let reply = submit(&mut world, (node + 1) % 3, &w);
        assert!(is_applied(&reply), "{n}: {reply:?}");
        let next = world.read_through((node + 2) % 3, &key()).expect("a read");
        assert_eq!(
            next.iter().map(|seen| (seen.id, seen.generation)).collect::<Vec<_>>(),
            [(w.id(), n as u64 + 1)]
        );
        read = next;
    }
    assert_eq!(end(&mut world), [read[0].id], "forty appends are forty generations");
}

#[test]
pub fn case_13_the_same_write_ten_times_is_one_version() {
    let mut world = calm();
    let w = world.prepare(&key(), &[], Some("once".into()), REFUSE);
    let attempts: Vec<usize> =
        (0..10).map(|n| world.ask(n % 3, n % 3, Asked::Submit(w.id()), &World::submission(&w))).collect();
    world.run_for(6_000);
    for attempt in attempts {
        let reply = world.history.attempts[attempt].reply().cloned();
        let Some(Reply::Submitted(Submitted::Applied { stamps, siblings })) = &reply else {
            panic!("attempt {attempt}: {reply:?}");
        };
        assert!(!stamps.is_empty() && siblings.is_empty());
    }
    let reply = submit(&mut world, 2, &w);
    assert!(is_applied(&reply), "long after, too: {reply:?}");
    assert_eq!(end(&mut world), [w.id()]);
}

#[test]
pub fn case_18_a_version_from_before_the_delete_revives_nothing() {
    let mut world = calm();
    let put = applied(&mut world, 0, &[], "put");
    let delete = world.prepare(&key(), &[put.clone()], None, REFUSE);
    let reply = submit(&mut world, 1, &delete);
    assert!(is_applied(&reply), "{reply:?}");
    for node in 0..3 {
        let (_, reply) = write(&mut world, node, &[put.clone()], "revived", REFUSE);
        let Some(Reply::Submitted(Submitted::Refused { current: Some(current) })) = &reply else {
            panic!("{reply:?}");
        };
        assert!(current.iter().all(|version| version.write().body == Body::Delete));
    }
    assert_eq!(end(&mut world), [delete.id()]);
}

#[test]
pub fn case_20_siblings_and_clocks_stay_small_however_many_write() {
    let mut world = calm();
    for n in 0..120 {
        let read = world.read_through(n % 3, &key()).expect("a read");
        assert!(read.len() <= 2, "two writers race at most: {}", read.len());
        applied(&mut world, n % 3, &read, &format!("writer {n}"));
        if n % 3 == 0 {
            applied(&mut world, (n + 1) % 3, &read, &format!("racer {n}"));
        }
    }
    let sizes = |world: &mut World| {
        let read = world.read_through(0, &key()).expect("a read");
        let stamps: Vec<_> = read.iter().flat_map(|seen| &seen.stamps).collect();
        let ranges: usize = stamps.iter().map(|stamp| stamp.stamp().past.ranges()).sum();
        (read.len(), stamps.len(), ranges)
    };
    let quiet = sizes(&mut world);
    assert!(quiet.2 <= 3 * quiet.1, "unbroken histories are one range per actor: {quiet:?}");
    for _ in 0..10 {
        for node in 0..3 {
            world.read_through(node, &key()).expect("a read");
        }
    }
    assert_eq!(sizes(&mut world), quiet);
    end(&mut world);
}
