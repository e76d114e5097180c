//! Attacks on deletions and on rights that were taken back.

use std::sync::Arc;

use tanist::core::chain::{Chain, ConfigChange, Grant, Rights};
use tanist::core::identity::SecretKey;
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::Write;
use tanist::wire::client::{OnConflict, Propose, Proposed};
use tanist::wire::registry::{Reply, Request};

use super::*;
use crate::founding::{next_entry, sign};

/// However long it is ago, a replica that slept through a deletion does not undo it.
#[test]
pub fn attack_16_a_deletion_outlives_a_replica_that_slept_through_it() {
    let mut world = calm();
    let put = applied(&mut world, 0, &[], "put");
    world.run_for(500);
    isolate(&mut world, 2);
    let delete = world.prepare(&key(), &[put], None, OnConflict::Refuse);
    assert!(is_applied(&submit(&mut world, 0, &delete)));
    // Time passes, and other keys are written.
    let other = World::key(1);
    let mut tip: Vec<Seen> = Vec::new();
    for n in 0..20 {
        let prepared = world.prepare(&other, &tip, Some(format!("{n}").into()), OnConflict::Refuse);
        let reply = submit(&mut world, n % 2, &prepared);
        tip = vec![seen(&prepared, &reply)];
        world.run_for(1_000);
    }
    reconnect(&mut world);
    assert_eq!(end(&mut world), [delete.id()], "the deleted value does not return");
}

/// A right is judged once, by the coordinator; who hears of the write after the right was taken back
/// takes it all the same.
#[test]
pub fn attack_08_a_right_that_was_taken_back_makes_no_replica_differ() {
    let mut world = calm();
    let guest = SecretKey::from_seed(&[77; 32]);
    let grant = Grant {
        author: Some(guest.public()),
        namespace: Some(world.founding.namespace),
        prefix: Vec::new(),
        rights: Rights { read: true, write: true, elect: false },
    };
    change(&mut world, ConfigChange::AddGrant(grant.clone()));
    isolate(&mut world, 2);
    let by_guest = guests(&mut world, &guest, "one");
    assert!(is_applied(&submit(&mut world, 0, &by_guest)));
    change(&mut world, ConfigChange::RemoveGrant(grant));
    reconnect(&mut world);
    for node in 0..3 {
        world.read_through(node, &key());
    }
    world.run_for(2_000);
    for node in 0..3 {
        assert_eq!(live(&world, node), [by_guest.id()], "node {node} differs from the others");
    }
    let late = guests(&mut world, &guest, "two");
    assert!(!is_applied(&submit(&mut world, 0, &late)), "the right is gone");
}

/// A write that a guest signed.
fn guests(world: &mut World, guest: &SecretKey, value: &str) -> Prepared {
    let prepared = world.prepare(&key(), &[], Some(Bytes::from(value.to_owned())), OnConflict::KeepBoth);
    let write = Write { author: guest.public(), ..prepared.signed.write().clone() };
    let proof = sign_one(guest, world.founding.cluster, write.id().into());
    Prepared { signed: Arc::new(SignedWrite::new(write, proof, None)), ..prepared }
}

/// Changes the policy.
fn change(world: &mut World, change: ConfigChange) {
    let number = world.config.length(Chain::Policy) + 1;
    let entry = next_entry(Chain::Policy, number, world.config.head(Chain::Policy), change);
    let signed = sign(&world.founding.admin, world.founding.cluster, entry);
    let reply = world.call(0, Asked::Other, &Request::from(Propose { signed }));
    assert!(matches!(reply, Some(Reply::Proposed(Proposed::Chosen))), "{reply:?}");
    world.run_for(1_000);
}
