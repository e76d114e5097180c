//! Planted faults in what reaches the disk.

use std::sync::Arc;

use bytes::Bytes;
use tanist::core::events::Range;
use tanist::core::identity::ActorId;
use tanist::core::object::ObjectId;
use tanist::core::signature::{Proof, sign_one};
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::engine::rows::{self, Chosen, RegisterRow};
use tanist::engine::store::{Batch, Change, View as _};

use super::super::disk::{ACCEPTOR_TABLE, Disk, INDEX_TABLE, REGISTER_TABLE};
use super::super::world::World;
use super::Plant;

/// What reaches the disk instead of a batch.
pub fn rewrite_batch(plant: Plant, world: &mut World, node: usize, batch: &mut Batch) {
    if plant == Plant::Nothing {
        return;
    }
    let table = |change: &Change| match change {
        Change::Put { key, .. } => key.first().copied(),
        Change::Delete { .. } => None,
    };
    match plant {
        Plant::NoIndex => batch.changes.retain(|change| table(change) != Some(INDEX_TABLE)),
        Plant::VotesInMemory => batch.changes.retain(|change| table(change) != Some(ACCEPTOR_TABLE)),
        Plant::PromiseInMemory => batch.changes.retain(|change| match change {
            Change::Put { key, value } if key.first() == Some(&REGISTER_TABLE) => {
                let before = world.nodes[node].disk.rows.get(key).expect("memory reads");
                let accepted = |bytes: &Bytes| register_row(bytes).accepted.map(|(ballot, _)| ballot);
                before.map(|bytes| accepted(&bytes)).unwrap_or_default() != accepted(value)
            }
            _ => true,
        }),
        Plant::TombstonesGo if world.dice.chance(40) => collect_tombstones(world, node, batch),
        _ => {}
    }
    for change in &mut batch.changes {
        let Change::Put { key, value } = change else { continue };
        if Disk::is_key_row(key) {
            rewrite_key_row(plant, world, node, value);
        } else if key.first() == Some(&REGISTER_TABLE) {
            let of_registers = key.get(1..33) == Some(&world.founding.registers.0[..]);
            rewrite_register_row(plant, of_registers, value);
        }
    }
}

fn rewrite_key_row(plant: Plant, world: &mut World, node: usize, value: &mut Bytes) {
    let mut row: Row = rows::decode(value).expect("the row decodes");
    match plant {
        Plant::KnownPast | Plant::VectorPast => {
            let known: Vec<Arc<SignedStamp>> =
                row.0.iter().flat_map(|(v, _)| v.stamps.iter().cloned()).collect();
            for (version, _) in &mut row.0 {
                version.stamps = restamped(plant, world, node, &version.stamps, &known);
            }
        }
        Plant::OneStamp => {
            for (version, _) in &mut row.0 {
                let first: Vec<_> = version.stamps.iter().take(1).cloned().collect();
                version.stamps = Stamps::try_from(first).expect("one stamp is sorted");
            }
        }
        Plant::PreviousFromPeers if row.1.is_none() => {
            let actor = world.nodes[node].actor(world.founding.cluster);
            let own = row.0.iter().flat_map(|(version, _)| version.stamps.iter());
            let own = own.map(|stamp| stamp.stamp()).filter(|stamp| Some(stamp.actor) == actor);
            row.1 = own.map(|stamp| (stamp.actor, stamp.counter)).max();
        }
        Plant::ClockWins => {
            let clock = |version: &Version| version.write().wall_ms;
            let latest = row.0.iter().map(|(version, _)| clock(version)).max();
            row.0.retain(|(version, live)| !live || Some(clock(version)) == latest);
        }
        Plant::UnsignedAncestor => {
            for (version, _) in row.0.iter_mut().filter(|(_, live)| !live) {
                let mut proof: Proof = version.signed.proof().clone();
                proof.signature.0[3] ^= 4;
                version.signed = Arc::new(SignedWrite::new(version.write().clone(), proof, None));
            }
        }
        _ => return,
    }
    *value = rows::encode(&row);
}

/// Whether a register's row holds a promise and nothing else.
pub(super) fn is_promise(value: &[u8]) -> bool {
    rows::decode::<RegisterRow>(&Bytes::copy_from_slice(value)).is_ok_and(|row| row.accepted.is_none())
}

fn register_row(bytes: &Bytes) -> RegisterRow {
    rows::decode(bytes).expect("the row decodes")
}

fn rewrite_register_row(plant: Plant, of_registers: bool, value: &mut Bytes) {
    let mut row = register_row(value);
    match plant {
        Plant::ShowsAccepted if row.accepted.is_some() => row.chosen = Chosen::Accepted,
        Plant::FenceForgotten if of_registers => {
            if let Some((_, state)) = &mut row.accepted {
                state.bound = None;
            }
            if let Chosen::Earlier(state) = &mut row.chosen {
                state.bound = None;
            }
        }
        _ => return,
    }
    *value = rows::encode(&row);
}

/// Keys of which nothing but deletions is left go, and all that is known of them.
fn collect_tombstones(world: &World, node: usize, batch: &mut Batch) {
    let namespace = world.founding.namespace;
    let disk = &world.nodes[node].disk;
    for (key, row) in disk.all_keys(namespace) {
        let at = rows::key(namespace, &key);
        let touched = batch.changes.iter().any(|change| match change {
            Change::Put { key, .. } | Change::Delete { key } => *key == at,
        });
        if touched || row.siblings.is_empty() || row.siblings.live().any(|v| !v.write().is_delete()) {
            continue;
        }
        let index = rows::index_of(ObjectId::new(namespace, &key));
        let index = disk.rows.scan(&index, None, usize::MAX).expect("memory scans");
        batch.changes.extend(index.into_iter().map(|(key, _)| Change::Delete { key }));
        batch.changes.push(Change::Delete { key: at });
    }
}

/// A key's row as it lies on the disk.
type Row = (Vec<(Version, bool)>, Option<(ActorId, u64)>, Vec<Arc<SignedStamp>>);

/// The node's own stamps with the past that the planted fault gives them; always the same one.
pub(super) fn restamped(
    plant: Plant,
    world: &mut World,
    node: usize,
    stamps: &Stamps,
    known: &[Arc<SignedStamp>],
) -> Stamps {
    let mut changed = Stamps::default();
    for stamp in stamps.iter() {
        let own = world.nodes[node].actor(world.founding.cluster) == Some(stamp.stamp().actor);
        let dot = stamp.stamp().dot();
        let hash = stamp.hash();
        let replacement = match world.restamps.get(&hash) {
            Some(done) => Arc::clone(done),
            None if own && !world.dots.contains_key(&dot) => {
                let new = Arc::new(spoil(plant, world, node, stamp, known));
                world.restamps.insert(hash, Arc::clone(&new));
                // The machine still holds the stamp it made; what is on the disk may come back.
                world.restamps.insert(new.hash(), Arc::clone(&new));
                new
            }
            None => Arc::clone(stamp),
        };
        changed.insert(replacement);
    }
    changed
}

fn spoil(
    plant: Plant,
    world: &World,
    node: usize,
    stamp: &SignedStamp,
    known: &[Arc<SignedStamp>],
) -> SignedStamp {
    let mut spoilt: Stamp = stamp.stamp().clone();
    if plant == Plant::KnownPast {
        for other in known.iter().map(|other| other.stamp()).filter(|other| other.write != spoilt.write) {
            spoilt.past.union(&other.past);
            spoilt.past.insert(other.actor, other.event());
        }
    } else {
        let ends: Vec<_> =
            spoilt.past.iter().map(|(actor, ranges)| (actor, ranges.last().copied())).collect();
        for (actor, last) in ends {
            let upto = last.map_or(0, |range| range.upto);
            spoilt.past.insert(actor, Range { after: 0, upto });
        }
    }
    let proof = sign_one(&world.nodes[node].key, world.founding.cluster, spoilt.hash());
    SignedStamp::new(spoilt, proof)
}
