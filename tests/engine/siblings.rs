//! Siblings: what one request does, step by step.

use std::sync::Arc;

use bytes::Bytes;
use tanist::core::chain::{Chain, ConfigChange, ENTRY_FORMAT, Entry, Mode, NamespacePolicy, SignedEntry};
use tanist::core::hash::Hash;
use tanist::core::object::Key;
use tanist::core::signature::sign_one;
use tanist::core::write::WriteId;
use tanist::engine::Effect;
use tanist::wire::client::{
    AskOutcome, AskStatus, Failure, List, OnConflict, Outcome, Propose, Proposed, Submitted,
};
use tanist::wire::registry::Reply;
use tanist::wire::values::Values;

use crate::cluster::{Cluster, applied, id};

#[test]
fn a_write_is_read_back_everywhere_and_costs_one_batch_a_replica() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    let before: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    let sent = cluster.sent;
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    assert_eq!(applied(cluster.ask(id(1), second.clone())), []);
    let after: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    for (before, after) in before.iter().zip(after) {
        assert_eq!(after - before, 1, "one batch, one sync");
    }
    assert_eq!(cluster.sent - sent, 4, "one message to each of two replicas, and their answers");
    for n in 1..=3 {
        assert_eq!(cluster.live(id(n), namespace, "k"), [(2, second.signed.id())]);
    }
}

#[test]
fn two_hundred_and_fifty_six_waiting_writes_cost_a_replica_few_syncs() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let author = cluster.author.clone();
    let before: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    let tokens: Vec<u64> = (0..256)
        .map(|n| {
            let write = cluster.write(namespace, &format!("k{n}"), "v", &[]);
            cluster.start(id(1), write, &author)
        })
        .collect();
    cluster.run();
    for token in tokens {
        assert_eq!(applied(cluster.replies.remove(&token).expect("an answer")), []);
    }
    let after: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    for (before, after) in before.iter().zip(after) {
        assert!(after - before <= 8, "{} syncs", after - before);
    }
}

#[test]
fn attack_01_two_writes_drained_together_do_not_both_win() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let (a, b) = (cluster.write(namespace, "k", "a", &[]), cluster.write(namespace, "k", "b", &[]));
    let author = cluster.author.clone();
    let (first, second) = (cluster.start(id(1), a.clone(), &author), cluster.start(id(1), b, &author));
    assert!(
        cluster
            .nodes
            .get_mut(&id(1))
            .unwrap()
            .machine
            .released()
            .iter()
            .all(|effect| { !matches!(effect, Effect::Reply { .. }) }),
        "nothing is answered before the winner is synced"
    );
    cluster.run();
    applied(cluster.replies.remove(&first).unwrap());
    match cluster.replies.remove(&second).unwrap() {
        Reply::Submitted(Submitted::Refused { current: Some(current) }) => {
            assert_eq!(current.iter().map(|v| v.id()).collect::<Vec<_>>(), [a.signed.id()]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keep_both_leaves_two_siblings_and_a_write_naming_both_replaces_them() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let base = cluster.write(namespace, "k", "base", &[]);
    applied(cluster.ask(id(1), base.clone()));
    let parent = [(1, base.signed.id())];
    let mut a = cluster.write(namespace, "k", "a", &parent);
    let mut b = cluster.write(namespace, "k", "b", &parent);
    (a.on_conflict, b.on_conflict) = (OnConflict::KeepBoth, OnConflict::KeepBoth);
    applied(cluster.ask(id(1), a.clone()));
    let met = applied(cluster.ask(id(2), b.clone()));
    assert_eq!(met, [a.signed.id()], "the second writer is told at once (P2)");
    let live = cluster.live(id(3), namespace, "k");
    assert_eq!(live.len(), 2);
    let merged = cluster.write(namespace, "k", "both", &live);
    assert_eq!(applied(cluster.ask(id(3), merged.clone())), []);
    for n in 1..=3 {
        assert_eq!(cluster.live(id(n), namespace, "k"), [(3, merged.signed.id())]);
    }
}

#[test]
fn attack_04a_a_retry_after_being_built_upon_is_applied_not_refused() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let first = cluster.write(namespace, "k", "one", &[]);
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    applied(cluster.ask(id(1), first.clone()));
    applied(cluster.ask(id(2), second.clone()));
    for n in [3, 1, 2] {
        applied(cluster.ask(id(n), first.clone()));
        assert_eq!(cluster.live(id(n), namespace, "k"), [(2, second.signed.id())]);
    }
    let key = Key::try_from("k").unwrap();
    match cluster.ask(id(3), AskOutcome { namespace, key, write: first.signed.id() }) {
        Reply::Outcome(Outcome::Applied { superseded_by, .. }) => {
            assert_eq!(superseded_by, Some(second.signed.id()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_parents_wrong_generations_and_forged_values_change_nothing() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let orphan = cluster.write(namespace, "k", "x", &[(4, WriteId([9; 32]))]);
    assert_eq!(cluster.ask(id(1), orphan), Reply::Failure(Failure::UnknownParents(vec![WriteId([9; 32])])));
    let base = cluster.write(namespace, "k", "base", &[]);
    applied(cluster.ask(id(1), base.clone()));
    let jump = cluster.write(namespace, "k", "jump", &[(7, base.signed.id())]);
    assert_eq!(cluster.ask(id(1), jump), Reply::Failure(Failure::Generation));
    let mut forged = cluster.write(namespace, "k", "good", &[(1, base.signed.id())]);
    forged.value = [Bytes::from_static(b"evil")].into_iter().collect();
    assert!(matches!(cluster.ask(id(1), forged), Reply::Failure(Failure::Rejected(_))));
    let mut empty = cluster.write(namespace, "k", "good", &[(1, base.signed.id())]);
    empty.value = Values::none();
    assert!(matches!(cluster.ask(id(1), empty), Reply::Failure(Failure::Rejected(_))));
    assert_eq!(cluster.live(id(2), namespace, "k"), [(1, base.signed.id())]);
}

#[test]
fn a_listing_shows_keys_in_order_and_status_counts() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    for key in ["b", "a", "ab", "c"] {
        let write = cluster.write(namespace, key, "v", &[]);
        applied(cluster.ask(id(1), write));
    }
    let list = List { namespace, prefix: b"a".to_vec(), after: None, limit: 10, conflicts: false };
    match cluster.ask(id(2), list) {
        Reply::Page(page) => {
            let keys: Vec<String> = page.keys.iter().map(|k| k.key.to_string()).collect();
            assert_eq!((keys, page.next), (vec!["a".to_owned(), "ab".to_owned()], None));
        }
        other => panic!("{other:?}"),
    }
    match cluster.ask(id(1), AskStatus {}) {
        Reply::Status(status) => {
            assert_eq!(status.counts, Ok(()));
            assert!(status.counters.contains(&("stamped".to_owned(), 4)), "{:?}", status.counters);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn attack_11_one_of_two_administrators_gets_the_place() {
    let mut cluster = Cluster::new();
    let config = Arc::clone(&cluster.nodes[&id(1)].config);
    let admin = cluster.admin.clone();
    let propose = |name: &str| {
        let policy =
            NamespacePolicy { name: name.parse().unwrap(), mode: Mode::Siblings, write_quorum: None };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: 1,
            previous: config.head(Chain::Policy),
            change: ConfigChange::CreateNamespace(policy),
        };
        let proof = sign_one(&admin, config.cluster(), entry.hash());
        Propose { signed: SignedEntry { entry, admin: Some((admin.public(), proof)) } }
    };
    let author = cluster.author.clone();
    let a = cluster.start(id(1), propose("one"), &author);
    let b = cluster.start(id(2), propose("two"), &author);
    cluster.run();
    let chosen = [a, b]
        .into_iter()
        .filter(|token| cluster.replies.get(token) == Some(&Reply::Proposed(Proposed::Chosen)))
        .count();
    assert!(chosen <= 1, "a chain cannot fork");
    let heads: Vec<Hash> = cluster.nodes.values().map(|n| n.config.head(Chain::Policy)).collect();
    assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{heads:?}");
}
