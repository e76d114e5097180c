//! P3: reads and writes of one register are linearizable.
//!
//! Every applied write raises the generation by one, so the order of a register's states is known: it
//! is enough to see that every generation has one write, that each names the one before, and that no answer
//! shows less than what an answer showed before it was asked for.

use std::collections::BTreeMap;

use tanist::core::identity::MemberId;
use tanist::core::limits;
use tanist::core::object::ObjectId;
use tanist::core::version::Version;
use tanist::core::write::{Write, WriteId};
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::View as _;

use crate::registers::{Book, Said};
use crate::world::World;

/// Which write made each generation of each register, as far as anybody was told.
pub fn generations(book: &Book) -> Result<BTreeMap<(Vec<u8>, u64), WriteId>, String> {
    let mut made: BTreeMap<(Vec<u8>, u64), WriteId> = BTreeMap::new();
    let name = |namespace: &[u8], key: &[u8]| [namespace, key].concat();
    let mut note = |name: Vec<u8>, generation: u64, id: WriteId| {
        let first = *made.entry((name, generation)).or_insert(id);
        if first == id {
            Ok(())
        } else {
            Err(format!("generation {generation} is of {first:?} and of {id:?}"))
        }
    };
    for id in book.applied.keys() {
        let write = book.entries[id].signed.write();
        note(name(&write.namespace.0, write.key.as_bytes()), write.generation, *id)?;
    }
    for ((namespace, key), said) in &book.shown {
        for said in said {
            if let Some(current) = said.current {
                note(name(&namespace.0, key.as_bytes()), said.generation, current)?;
            }
        }
    }
    Ok(made)
}

/// After the heal phase.
pub fn at_end(world: &World) -> Result<(), String> {
    let book = &world.book;
    let made = generations(book)?;
    for ((register, generation), id) in &made {
        let Some(entry) = book.entries.get(id) else { return Err(format!("nobody signed {id:?}")) };
        let before = made.get(&(register.clone(), generation - 1));
        if let (Some(before), [parent]) = (before, entry.signed.write().parents.as_slice())
            && before != parent
        {
            return Err(format!("{id:?} was applied on {before:?}, and names {parent:?}"));
        }
    }
    for ((namespace, key), said) in &book.shown {
        let mut all: Vec<Said> = said.clone();
        for (id, at) in &book.applied {
            let write = book.entries[id].signed.write();
            if (write.namespace, &write.key) == (*namespace, key) {
                let (generation, current) = (write.generation, Some(*id));
                // The register had come to this generation when the answer left.
                all.push(Said { asked: u64::MAX, answered: *at, generation, current });
            }
        }
        monotone(&all).map_err(|why| format!("{key}: {why}"))?;
        for (id, first) in &book.first_sent {
            let write = book.entries[id].signed.write();
            let passed = all.iter().any(|said| said.answered < *first && said.generation >= write.generation);
            if book.applied.contains_key(id) && passed && (write.namespace, &write.key) == (*namespace, key) {
                return Err(format!(
                    "{key}: {id:?} was applied, though its place was taken before it was sent"
                ));
            }
        }
    }
    Ok(())
}

/// What a node shows without asking anybody is chosen (attack 20).
pub fn on_local_reply(world: &World, node: usize, version: &Version) -> Result<(), String> {
    is_chosen(world, version.id(), version.write()).map_err(|why| format!("node {node} shows alone: {why}"))
}

/// A majority has a write on its disks, or what came after it. A state remembers the last writes, so that
/// later ones show it, too. Not claimed when a disk lost something.
pub fn is_chosen(world: &World, id: WriteId, write: &Write) -> Result<(), String> {
    if !world.damaged.is_empty() {
        return Ok(());
    }
    let replicas = world.config.replicas(write.namespace, ObjectId::new(write.namespace, &write.key));
    let row = rows::register(write.namespace, &write.key);
    let remembers = |member: &MemberId| {
        let disk = &world.nodes[usize::from(member.0[0]) - 1].disk;
        let row = disk.rows.get(&row).expect("memory reads");
        let row: Option<RegisterRow> = row.map(|row| rows::decode(&row).expect("the row decodes"));
        let state = row.and_then(|row| row.accepted).map(|(_, state)| state).unwrap_or_default();
        let passed = state.generation >= write.generation + limits::RECENT as u64;
        passed || state.recent.contains(&id)
    };
    let count = replicas.iter().filter(|member| remembers(member)).count();
    if count > replicas.len() / 2 {
        Ok(())
    } else {
        Err(format!("{count} of the replicas of {} hold {id:?}", write.key))
    }
}

/// No answer shows less than an answer that had left before it was asked for.
fn monotone(all: &[Said]) -> Result<(), String> {
    let mut by_end: Vec<&Said> = all.iter().collect();
    by_end.sort_by_key(|said| said.answered);
    let mut highest: Vec<(u64, u64)> = Vec::with_capacity(by_end.len());
    for said in &by_end {
        let before = highest.last().map_or(0, |(_, generation)| *generation);
        highest.push((said.answered, before.max(said.generation)));
    }
    for said in all.iter().filter(|said| said.asked < u64::MAX) {
        let known = highest.partition_point(|(answered, _)| *answered < said.asked);
        let least =
            known.checked_sub(1).and_then(|at| highest.get(at)).map_or(0, |(_, generation)| *generation);
        if said.generation < least {
            return Err(format!(
                "an answer asked for at {} shows generation {}, and {least} had been shown before",
                said.asked, said.generation
            ));
        }
    }
    Ok(())
}
