//! Operators: two administrators at once, nodes that vote and crash.

use std::collections::BTreeSet;

use tanist::core::chain::{Chain, ConfigChange, Mode, NamespacePolicy, SignedEntry};
use tanist::wire::client::{Propose, Proposed};
use tanist::wire::registry::{Reply, Request};

use super::*;
use crate::founding::{next_entry, sign};

/// An administrator's next policy entry, as seen from the configuration of `world`.
fn create(world: &World, name: &str) -> SignedEntry {
    let policy =
        NamespacePolicy { name: name.parse().expect("a name"), mode: Mode::Siblings, write_quorum: None };
    let number = world.config.length(Chain::Policy) + 1;
    let previous = world.config.head(Chain::Policy);
    let entry = next_entry(Chain::Policy, number, previous, ConfigChange::CreateNamespace(policy));
    sign(&world.founding.admin, world.founding.cluster, entry)
}

/// What every running node has as the entries of the policy chain.
fn chains(world: &World) -> BTreeSet<Vec<tanist::core::hash::Hash>> {
    let running = world.nodes.iter().filter_map(|node| node.running.as_ref());
    running
        .map(|r| r.machine.config().entries(Chain::Policy).iter().map(|e| e.signed.entry.hash()).collect())
        .collect()
}

#[test]
pub fn attack_11_config_cannot_fork() {
    for round in 0..12 {
        let mut world = calm();
        world.dice = crate::dice::Dice::new(round, 9);
        world.net.delay_ms = (1, 60);
        world.net.loss = 10;
        let terminals = [create(&world, "left"), create(&world, "right")];
        let mut attempts = Vec::new();
        for (client, signed) in terminals.iter().enumerate() {
            for node in [client, 2] {
                let request = Request::from(Propose { signed: signed.clone() });
                attempts.push((client, world.ask(client, node, Asked::Other, &request)));
            }
        }
        if round % 3 == 2 {
            world.run_for(40);
            world.crash(2, 1);
            world.run_for(200);
            world.start(2);
        }
        world.run_for(8_000);
        assert!(world.violation.is_none(), "{:?}", world.violation);
        let chosen: BTreeSet<usize> = attempts
            .iter()
            .filter(|(_, n)| {
                matches!(world.history.attempts[*n].released, Some((_, Reply::Proposed(Proposed::Chosen))))
            })
            .map(|(client, _)| *client)
            .collect();
        assert!(chosen.len() <= 1, "both administrators were told that theirs was chosen");
        world.make_whole();
        world.run_for(5_000);
        // Whoever asks again finds the chain decided, and no node has another one.
        let signed = create(&world, "after");
        let reply = world.call(0, Asked::Other, &Request::from(Propose { signed }));
        assert!(matches!(reply, Some(Reply::Proposed(Proposed::Chosen))), "round {round}: {reply:?}");
        world.run_for(2_000);
        let chains = chains(&world);
        assert_eq!(chains.len(), 1, "round {round}: {chains:?}");
        let first = chains.first().expect("one chain");
        let theirs: Vec<usize> = (0..2).filter(|n| first.contains(&terminals[*n].entry.hash())).collect();
        assert!(theirs.len() <= 1 && chosen.iter().all(|client| theirs.contains(client)));
    }
}

#[test]
pub fn attack_11_a_readmission_does_not_undo_a_choice() {
    let mut world = calm();
    // An entry is chosen by nodes 0 and 1, and nobody but the proposer learns it.
    isolate(&mut world, 2);
    let left = create(&world, "left");
    let attempt = world.ask(0, 0, Asked::Other, &Request::from(Propose { signed: left.clone() }));
    world.run_until(world.now + 3_000, |world| world.history.attempts[attempt].released.is_some());
    world.crash(0, 0);
    // Node 1 loses its data and is listed anew, as long as that is possible at all.
    world.crash(1, 0);
    world.nodes[1].disk.wipe();
    world.damaged.insert(1);
    world.net.open_all();
    world.start(1);
    world.run_for(2_000);
    let right = create_beside(&world, "right");
    let reply = world.call(2, Asked::Other, &Request::from(Propose { signed: right }));
    assert!(
        !matches!(reply, Some(Reply::Proposed(Proposed::Chosen))),
        "one member that counts is no majority"
    );
    world.start(0);
    world.run_for(5_000);
    assert_eq!(chains(&world).len(), 1, "{:?}", chains(&world));
    assert!(chains(&world).first().expect("one").contains(&left.entry.hash()));
}

/// An entry for the same place as the last one of the newest configuration.
fn create_beside(world: &World, name: &str) -> SignedEntry {
    let policy =
        NamespacePolicy { name: name.parse().expect("a name"), mode: Mode::Siblings, write_quorum: None };
    let entries = world.config.entries(Chain::Policy);
    let last = &entries.last().expect("an entry").signed.entry;
    let entry = next_entry(Chain::Policy, last.number, last.previous, ConfigChange::CreateNamespace(policy));
    sign(&world.founding.admin, world.founding.cluster, entry)
}
