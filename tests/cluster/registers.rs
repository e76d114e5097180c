//! Registers on a cluster whose nodes come and go.

use std::time::Duration;

use bytes::Bytes;
use tanist::core::chain::Mode;
use tanist::core::object::NamespaceId;
use tanist::core::write::WriteId;
use tanist::wire::client::{Failure, OnConflict, Submitted};
use tanist::wire::registry::Reply;
use tokio::time::sleep;

use crate::house::{Cluster, applied, soon};

/// Raises the number in a register by one, through node `n`, however many others do. How many writes were
/// refused on the way, and how many were in doubt until nobody could tell any more.
async fn increment(cluster: &Cluster, n: usize, namespace: NamespaceId, who: usize) -> (usize, usize) {
    let mut untold = 0;
    for tried in 0.. {
        let (parent, number) = match cluster.read(n, namespace, "n").await.as_slice() {
            [] => (Vec::new(), 0),
            [(at, value)] => (vec![*at], number(value).0),
            more => panic!("a register has one version: {more:?}"),
        };
        // Two increments of one number are two writes, whoever makes them.
        let value = format!("{} {who} {tried}", number + 1);
        let write = cluster.write(namespace, "n", value.as_bytes(), &parent, OnConflict::Refuse);
        let mut doubt = false;
        loop {
            match cluster.ask(n, write.clone()).await {
                Reply::Submitted(Submitted::Applied { .. }) => return (tried - untold, untold),
                Reply::Submitted(Submitted::Refused { .. }) => break,
                // Others were faster 32 times.
                Reply::Submitted(Submitted::Forgotten) => {
                    untold += usize::from(doubt);
                    break;
                }
                Reply::Submitted(Submitted::Incomplete { .. }) => doubt = true,
                Reply::Failure(Failure::Unavailable(_) | Failure::Overloaded) => {
                    sleep(Duration::from_millis(20)).await;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    unreachable!("it tries for ever")
}

fn number(value: &Bytes) -> (u64, String) {
    let text = String::from_utf8(value.to_vec()).expect("text");
    let number = text.split(' ').next().expect("a number");
    (number.parse().expect("a number"), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_through_three_nodes_at_once_are_all_counted() {
    const EACH: usize = 60;
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace_in(1, "jobs", Mode::Linearizable).await;
    let cluster = &cluster;
    let by = |n: usize| async move {
        let (mut refused, mut untold) = (0, 0);
        for round in 0..EACH {
            let told = increment(cluster, n, namespace, n * 1000 + round).await;
            (refused, untold) = (refused + told.0, untold + told.1);
        }
        (refused, untold)
    };
    let (a, b, c) = tokio::join!(by(1), by(2), by(3));
    assert!(a.0 + b.0 + c.0 > 0, "somebody was refused, or nothing was shown");
    let (least, untold) = (3 * EACH, a.1 + b.1 + c.1);
    for n in 1..=3 {
        let read = cluster.read(n, namespace, "n").await;
        let found = number(&read[0].1).0;
        assert!((least..=least + untold).contains(&(found as usize)), "{found}, and {untold} in doubt");
        assert_eq!(read[0].0.0, found, "the generation counts the writes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_outlives_any_one_node_and_a_restart_of_all() {
    let mut cluster = Cluster::three().await;
    let namespace = cluster.namespace_in(1, "jobs", Mode::Linearizable).await;
    let mut at: (u64, WriteId) = cluster.create(1, namespace, "k", b"0").await;
    for n in 1..=3usize {
        cluster.take(n).stop().await.expect("it stops");
        let through = 1 + n % 3;
        let write = cluster.write(namespace, "k", n.to_string().as_bytes(), &[at], OnConflict::Refuse);
        soon(async {
            loop {
                match cluster.ask(through, write.clone()).await {
                    Reply::Submitted(Submitted::Applied { .. }) => return,
                    Reply::Failure(Failure::Unavailable(_))
                    | Reply::Submitted(Submitted::Incomplete { .. }) => {
                        sleep(Duration::from_millis(20)).await;
                    }
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        at = (at.0 + 1, write.signed.id());
        cluster.start(n).await;
        cluster.counts(n).await;
    }
    for n in 1..=3 {
        cluster.take(n).stop().await.expect("it stops");
    }
    for n in 1..=3 {
        cluster.start(n).await;
    }
    for n in 1..=3 {
        cluster.counts(n).await;
        assert_eq!(cluster.read(n, namespace, "k").await, [(at, Bytes::from_static(b"3"))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_a_mebibyte_and_an_empty_one_are_read_back() {
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace_in(1, "jobs", Mode::Linearizable).await;
    let large = vec![7u8; 1 << 20];
    let at = cluster.create(1, namespace, "k", &large).await;
    for n in 1..=3 {
        assert_eq!(cluster.read(n, namespace, "k").await, [(at, Bytes::from(large.clone()))]);
    }
    let empty = cluster.write(namespace, "k", b"", &[at], OnConflict::Refuse);
    applied(cluster.ask(2, empty.clone()).await);
    for n in 1..=3 {
        assert_eq!(cluster.read(n, namespace, "k").await, [((2, empty.signed.id()), Bytes::new())]);
    }
}
