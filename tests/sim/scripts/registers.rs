//! Attacks on registers that need a node to lose its memory at the wrong moment.

use std::sync::Arc;

use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, WRITE_FORMAT, Write};
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::View as _;
use tanist::wire::client::{Read, Submit};

use super::*;
use crate::registers::{About, Entry, register};

/// Asks a node to create a register; the attempt's number and the write's id come back.
fn create(world: &mut World, node: usize, key: &Key, text: &str) -> (usize, WriteId) {
    let author = world.founding.client.clone();
    let value = Bytes::from(text.to_owned());
    let write = Write {
        format: WRITE_FORMAT,
        cluster: world.founding.cluster,
        namespace: world.founding.registers,
        key: key.clone(),
        epoch: 1,
        generation: 1,
        parents: Vec::new(),
        body: Body::put(&value),
        author: author.public(),
        nonce: [node as u8; 16],
        fence: None,
        wall_ms: 0,
    };
    let proof = sign_one(&author, write.cluster, write.id().into());
    let signed = Arc::new(SignedWrite::new(write, proof, None));
    let id = signed.id();
    world.book.entries.insert(id, Entry { signed: Arc::clone(&signed), value: value.clone(), proof: None });
    world.book.first_sent.insert(id, world.now);
    let value = [value].into_iter().collect();
    let submit =
        Submit { signed, on_conflict: OnConflict::Refuse, presented: Vec::new(), tenure: None, value };
    (world.ask(0, node, Asked::Register(About::Write(id)), &submit.into()), id)
}

/// What is durable of a register on a node.
fn row(world: &World, node: usize, key: &Key) -> RegisterRow {
    let row = world.nodes[node].disk.rows.get(&rows::register(world.founding.registers, key));
    row.expect("memory reads").map_or_else(RegisterRow::default, |row| rows::decode(&row).expect("a row"))
}

/// Node 0 proposes to node 2 only, and crashes before its own acceptance is durable; then it proposes
/// something else to node 1. The two proposals never share a ballot.
#[test]
pub fn attack_09_a_ballot_is_not_used_again_after_a_restart() {
    let mut world = calm();
    let [first, second, key] = [0, 2, 1].map(register);
    (world.net.delay_ms, world.options.sync_ms) = ((10, 10), (5, 5));
    create(&mut world, 0, &first, "counters are at hand");
    world.run_for(1_000);
    let (_, one) = create(&mut world, 0, &key, "one");
    let promised = |world: &World| [0, 1, 2].iter().all(|node| row(world, *node, &key).promised.is_some());
    let end_of_wait = world.now + 1_000;
    assert!(world.run_until(end_of_wait, promised), "all promise");
    world.options.sync_ms = (200, 200);
    world.net.close(Place::Node(0), Place::Node(1));
    world.run_for(100);
    world.crash(0, 0);
    world.options.sync_ms = (5, 5);
    world.run_for(400);
    let held = [0, 1, 2].map(|node| row(&world, node, &key).accepted.is_some());
    assert_eq!(held, [false, false, true], "node 2 alone accepted the first proposal");
    // Node 2 is out of sight; node 0 is back, and asks node 1.
    world.net.open_all();
    cut_silently(&mut world, 2);
    world.start(0);
    world.run_for(1_500);
    create(&mut world, 0, &second, "counters are at hand again");
    world.run_for(1_000);
    let (attempt, two) = create(&mut world, 0, &key, "two");
    world.run_for(3_000);
    let reply = world.history.attempts[attempt].reply().cloned();
    assert!(is_applied(&reply), "{reply:?}");
    // Whoever asks nodes 1 and 2 finds what was applied.
    world.net.open_all();
    cut_silently(&mut world, 0);
    world.run_for(1_000);
    let about = About::Read { namespace: world.founding.registers, key: key.clone() };
    let read = Read { namespace: world.founding.registers, key, local: false, history: false };
    let reply = world.call(1, Asked::Register(about), &read.into());
    let Some(Reply::Versions(read)) = reply else { panic!("{reply:?}") };
    assert_eq!(read.versions[0].version.id(), two, "a ballot was used for {one:?}, too");
    end(&mut world);
}
