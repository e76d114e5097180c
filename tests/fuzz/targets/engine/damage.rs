//! A node on a disk of which something is not as it was written.

use bytes::Bytes;
use tanist::core::verified::RootCache;
use tanist::engine::machine::Machine;
use tanist::engine::store::View as _;
use tanist::engine::{Effect, Input, Timing, arrival};
use tanist::storage::Store as _;
use tanist::storage::memory::Memory;
use tanist::wire::client::{List, Read};
use tanist::wire::registry::Request;

use super::house::{House, NODE, PEERS};
use super::node::identity;
use super::things::Things;
use crate::targets::source::Source;

/// Damages rows, starts a node, and has it read, write and list what is damaged. It may refuse to start
/// and it may end, but not by a panic.
pub fn on_damaged_disk(bytes: &[u8]) {
    let house = House::get();
    let mut source = Source::new(bytes);
    let store = Memory::from_snapshot(house.disk.clone());
    let rows = store.scan(&[], None, usize::MAX).expect("memory reads");
    for _ in 0..=source.below(3) {
        let (name, value) = &rows[source.below(rows.len())];
        let damaged = damage(&mut source, value);
        store.rot(name, |row| *row = damaged);
    }
    let (timing, last) = (Timing::default(), store.last_batch());
    let started = Machine::new(identity(NODE, 1), house.genesis.clone(), timing, 0, last, &store);
    let Ok(mut machine) = started else { return };
    let _ = run(&mut machine, &store, &mut source);
}

fn damage(source: &mut Source<'_>, value: &Bytes) -> Vec<u8> {
    let mut row = value.to_vec();
    let at = usize::from(u16::from_be_bytes(source.array())) % row.len().max(1);
    match source.below(4) {
        0 => row.truncate(at),
        1 => row.iter_mut().skip(at).take(1).for_each(|byte| *byte = source.byte()),
        2 => {
            // A length or a number.
            let number = source.number().to_be_bytes();
            row.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
        }
        _ => {
            let new = source.bytes(64);
            row.truncate(1);
            row.extend(new);
        }
    }
    row
}

/// The machine, until it says that its store cannot be trusted.
fn run(
    machine: &mut Machine,
    store: &Memory,
    source: &mut Source<'_>,
) -> Result<(), tanist::engine::store::StoreError> {
    let house = House::get();
    let (cache, mut things) = (RootCache::default(), Things::new());
    let mut now = 0;
    for peer in PEERS {
        machine.step(now, Input::PeerUp(House::member(peer)), store)?;
    }
    let mut requests: Vec<Request> = Vec::new();
    for namespace in house.namespaces.into_iter().take(4) {
        let list = List { namespace, prefix: Vec::new(), after: None, limit: 10, conflicts: false };
        requests.push(list.into());
        for key in house.keys.iter().take(3) {
            for local in [true, false] {
                requests.push(Read { namespace, key: key.clone(), local, history: true }.into());
            }
        }
    }
    let mut frames: Vec<_> = requests.iter().map(Request::encode).collect();
    for _ in 0..source.below(8) {
        frames.push(super::requests::frame(source, &mut things, &house.author));
    }
    for (token, frame) in (1..).zip(frames) {
        let config = machine.config().clone();
        if let Ok(request) = arrival::request(frame, house.author.public(), &config, &cache) {
            machine.step(now, Input::Request { token, request }, store)?;
        }
        now += 1_000;
        machine.step(now, Input::Tick, store)?;
        if let Some(batch) = machine.close() {
            store.commit(&batch).expect("memory writes");
            machine.synced();
        }
        for effect in machine.released() {
            if let Effect::Send { envelope, message, .. } = effect {
                let _ = message.encode(envelope);
            }
        }
    }
    Ok(())
}
