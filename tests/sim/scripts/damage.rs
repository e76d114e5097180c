//! Disks that went backwards, and nodes that contradict themselves.

use std::sync::Arc;

use bytes::BytesMut;
use tanist::core::signature::sign_one;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::{Stamps, Version};
use tanist::wire::client::OnConflict;
use tanist::wire::peer::{Envelope, Exchange};
use tanist::wire::registry::PeerMessage;
use tanist::wire::values::Values;

use super::*;
use crate::options::Damage;
use crate::world::Event;

fn restored(mark: bool, isolated: bool) -> World {
    let mut world = calm();
    let old = applied(&mut world, 0, &[], "old");
    world.run_for(1_000);
    world.nodes[0].disk.back_up();
    let mut tip = old;
    for n in 0..5 {
        tip = applied(&mut world, 0, &[tip], &format!("newer {n}"));
    }
    world.run_for(1_000);
    if isolated {
        isolate(&mut world, 0);
    }
    world.damage(0, Damage::Restored { mark });
    world
}

#[test]
pub fn attack_15_a_disk_that_came_back_is_noticed_by_its_own_mark() {
    let mut world = restored(false, true);
    let before = crate::founding::first_incarnation(0);
    world.run_for(500);
    assert_ne!(world.nodes[0].disk.incarnation, Some(before), "its high-water file remembers more");
    assert!(!world.nodes[0].counts());
    end(&mut world);
}

#[test]
pub fn attack_15_a_disk_that_came_back_is_noticed_by_its_peers() {
    let mut world = restored(true, false);
    let before = crate::founding::first_incarnation(0);
    world.run_until(world.now + 3_000, |world| world.nodes[0].forgot > 0);
    assert_eq!(world.nodes[0].forgot, 1, "its peers remember more");
    assert_ne!(world.nodes[0].disk.incarnation, Some(before));
    world.run_for(1_000);
    assert!(!world.nodes[0].counts());
    let (w, reply) = write(&mut world, 0, &[], "forwarded", OnConflict::KeepBoth);
    assert!(is_applied(&reply), "{reply:?}");
    assert!(end(&mut world).contains(&w.id()));
    assert!(!world.nodes[0].counts(), "until it is readmitted it forwards, and counts for nothing");
}

#[test]
pub fn attack_15_a_node_that_can_ask_nobody_does_not_count() {
    let mut world = restored(true, true);
    world.run_for(8_000);
    assert!(!world.nodes[0].counts(), "nobody said that nothing is missing");
    let (_, reply) = write(&mut world, 0, &[], "minted from an old disk", OnConflict::KeepBoth);
    assert!(!is_applied(&reply), "{reply:?}");
    end(&mut world);
    assert_eq!(world.nodes[0].forgot, 1, "noticed as soon as somebody can be asked");
}

#[test]
pub fn attack_29_an_actor_that_contradicts_itself_is_caught() {
    let mut world = calm();
    let base = applied(&mut world, 1, &[], "base");
    let (w, reply) = write(&mut world, 0, &[base.clone()], "w", OnConflict::KeepBoth);
    let written = seen(&w, &reply);
    world.run_for(1_000);
    // A copy of node 0's disk stamps another write with the same event.
    let twin = world.prepare(&key(), &[base], Some("twin".into()), OnConflict::KeepBoth);
    let mut stamp = written.stamps[0].stamp().clone();
    stamp.write = twin.id();
    let proof = sign_one(&world.nodes[0].key, world.founding.cluster, stamp.hash());
    let mut stamps = Stamps::default();
    stamps.insert(Arc::new(SignedStamp::new(stamp, proof)));
    let message = PeerMessage::from(Exchange {
        operation: 0,
        namespace: world.founding.namespace,
        key: key(),
        live: vec![twin.id()],
        about: None,
        versions: vec![Version { signed: Arc::clone(&twin.signed), stamps }],
        values: [twin.value.clone()].into_iter().collect::<Values>(),
        superseded: Vec::new(),
        fetch: false,
    });
    let incarnation = world.nodes[0].disk.incarnation.expect("it has one");
    let mut bytes = BytesMut::new();
    message.encode(Envelope { incarnation, synced: 3 }).encode_into(&mut bytes);
    // The twin write was sent, and nobody knows what became of it.
    let attempt = world.ask(0, 0, Asked::Submit(twin.id()), &World::submission(&twin));
    world.history.attempts[attempt].delivered = true;
    world.net.close(Place::Client(0), Place::Node(0));
    world.damaged.insert(0);
    world.twins = true;
    world.after(1, Event::Frame { from: 0, to: 1, bytes: bytes.freeze() });
    world.run_for(3_000);
    world.net.open_all();
    assert!(world.coverage.equivocations > 0, "the contradiction is reported");
    assert!(live(&world, 1).contains(&w.id()) && live(&world, 1).contains(&twin.id()), "both are kept");
    assert_eq!(world.nodes[0].forgot, 1, "the victim takes another incarnation");
    // Whoever read one of them does not replace the other unread.
    let (z, reply) = write(&mut world, 1, &[written], "z", OnConflict::KeepBoth);
    assert!(is_applied(&reply), "{reply:?}");
    let last = end(&mut world);
    assert!(last.contains(&z.id()) && last.contains(&twin.id()), "{last:?}");
}
