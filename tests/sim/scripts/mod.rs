//! Named scenarios: the attacks of the design and the cases from real systems, step by step, on the
//! same world as the seeds. All checks of a seed hold at their end, too. [`without`] plays some of them
//! again with their rule switched off.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "a scenario says which versions a write names")]

mod attacks;
mod cases;
mod damage;
mod operators;
mod registers;
mod rules;
mod siblings;
mod without;

use std::cell::Cell;

use bytes::Bytes;
use tanist::core::object::Key;
use tanist::core::write::WriteId;
use tanist::wire::client::{OnConflict, Submitted};
use tanist::wire::registry::Reply;

use crate::clients::Seen;
use crate::faults::Plant;
use crate::history::{Asked, Prepared};
use crate::network::Place;
use crate::options::Options;
use crate::world::World;

thread_local! {
    /// The rule that is switched off in the scenarios of this thread.
    static PLANT: Cell<Plant> = const { Cell::new(Plant::Nothing) };
}

/// Three nodes that are up, know each other and count.
fn calm() -> World {
    with(Options::calm())
}

fn with(options: Options) -> World {
    let mut world = World::new(1, options, PLANT.get(), true);
    world.run_for(1_500);
    for node in 0..world.options.nodes {
        assert!(world.nodes[node].counts(), "node {node} counts");
    }
    world
}

/// The key of the scenario, and its replicas in the order of placement.
fn key() -> Key {
    World::key(0)
}

/// Heals, checks everything, and gives what is live in the end.
fn end(world: &mut World) -> Vec<WriteId> {
    let last = world.heal_phase();
    if let Some(last) = &last {
        crate::run::verdict(world, last);
    }
    if let Some(violation) = &world.violation {
        panic!("{}\n{} is broken: {}", world.trace(), violation.check, violation.what);
    }
    let mut last = last.expect("no promise was broken, so there is an end");
    last.remove(&key()).unwrap_or_default()
}

/// Signs a write and sends it to a node; the answer comes back.
fn write(
    world: &mut World,
    node: usize,
    parents: &[Seen],
    value: &str,
    on_conflict: OnConflict,
) -> (Prepared, Option<Reply>) {
    let prepared = world.prepare(&key(), parents, Some(Bytes::from(value.to_owned())), on_conflict);
    let reply = submit(world, node, &prepared);
    (prepared, reply)
}

/// A write that has to be applied.
fn applied(world: &mut World, node: usize, parents: &[Seen], value: &str) -> Seen {
    let (prepared, reply) = write(world, node, parents, value, OnConflict::KeepBoth);
    seen(&prepared, &reply)
}

/// Sends a signed write to a node.
fn submit(world: &mut World, node: usize, prepared: &Prepared) -> Option<Reply> {
    world.call(node, Asked::Submit(prepared.id()), &World::submission(prepared))
}

/// What a client knows of its write after it was applied.
fn seen(prepared: &Prepared, reply: &Option<Reply>) -> Seen {
    let Some(Reply::Submitted(Submitted::Applied { stamps, .. })) = reply else {
        panic!("the write {:?} is not applied: {reply:?}", prepared.id());
    };
    let generation = prepared.signed.write().generation;
    Seen { id: prepared.id(), generation, stamps: stamps.clone() }
}

fn is_applied(reply: &Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Submitted(Submitted::Applied { .. })))
}

fn is_refused(reply: &Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Submitted(Submitted::Refused { .. })))
}

/// Cuts a node off from the other nodes; clients still reach it. Everybody notices.
fn isolate(world: &mut World, node: usize) {
    cut_silently(world, node);
    world.run_for(400);
}

/// Cuts a node off, and nobody notices for a moment.
fn cut_silently(world: &mut World, node: usize) {
    for peer in (0..world.options.nodes).filter(|peer| *peer != node) {
        world.net.close_both(Place::Node(node), Place::Node(peer));
    }
    world.links_changed();
}

/// Opens all links; everybody notices.
fn reconnect(world: &mut World) {
    world.net.open_all();
    world.links_changed();
    world.run_for(400);
}

/// The ids that a node holds as live.
fn live(world: &World, node: usize) -> Vec<WriteId> {
    world.nodes[node].disk.key_row(world.founding.namespace, &key()).siblings.live_ids()
}
