//! Nodes whose data, key or name is not what it was (P11).

use std::time::Duration;

use bytes::Bytes;
use tanist::node::NodeError;
use tanist::wire::client::{AskStatus, Failure, OnConflict};
use tanist::wire::registry::Reply;
use tokio::time::sleep;

use crate::house::{Cluster, applied, eventually, run, soon};

#[tokio::test(flavor = "multi_thread")]
async fn case_01_a_wiped_node_is_a_new_actor_that_forwards_and_nothing_is_lost() {
    let mut cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let mut last = cluster.create(1, namespace, "k", b"v0").await;
    for n in 1..10 {
        let write = cluster.write(namespace, "k", format!("v{n}").as_bytes(), &[last], OnConflict::Refuse);
        applied(cluster.ask(1, write.clone()).await);
        last = (write.signed.write().generation, write.signed.id());
    }
    let listed = cluster.status(1).await.incarnation;
    cluster.take(1).stop().await.unwrap();
    std::fs::remove_dir_all(cluster.founded.nodes[0].data()).unwrap();

    // Cut off, it knows nothing of the namespace: nothing is changed.
    cluster.start_alone(1).await;
    let status = cluster.status(1).await;
    assert_ne!(status.incarnation, listed);
    assert!(status.counts.unwrap_err().contains("new actor"));
    let new = cluster.write(namespace, "k", b"new", &[last], OnConflict::Refuse);
    let refused = cluster.ask(1, new.clone()).await;
    assert!(
        matches!(refused, Reply::Failure(Failure::Unavailable(_) | Failure::UnknownNamespace)),
        "{refused:?}"
    );

    // Healed, it forwards; the others acknowledge.
    cluster.introduce();
    let reply = eventually(async || match cluster.ask(1, new.clone()).await {
        Reply::Failure(Failure::Unavailable(_) | Failure::UnknownNamespace) => None,
        reply => Some(reply),
    })
    .await;
    assert_eq!(applied(reply), []);
    assert_eq!(cluster.counter(1, "stamped").await, 0, "it forwards, and mints nothing");
    assert!(cluster.counter(1, "forwarded").await > 0);
    assert!(cluster.status(1).await.counts.is_err());
    for n in 1..=3 {
        let live = [((11, new.signed.id()), Bytes::from_static(b"new"))];
        assert_eq!(cluster.read(n, namespace, "k").await, live, "through node {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_06_a_member_with_another_key_does_not_start() {
    let cluster = Cluster::three().await;
    let copy = tempfile::tempdir().unwrap();
    copy_node(&cluster, 2, copy.path());
    std::fs::copy(cluster.founded.nodes[0].key(), copy.path().join("node.key")).unwrap();
    match run(copy.path()).await {
        Err(error @ NodeError::OtherKey { .. }) => {
            assert!(error.to_string().contains("node-2"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_06_a_second_process_with_a_members_key_goes_and_the_first_one_stays() {
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    // Only a process that was there for a while can be told from one that just came.
    sleep(Duration::from_secs(2)).await;
    let copy = tempfile::tempdir().unwrap();
    copy_node(&cluster, 2, copy.path());
    let twin = run(copy.path()).await.unwrap();
    for n in [1, 3] {
        let handle = &cluster.node(n).handle;
        twin.handle.find(handle.member(), vec![handle.address()]);
    }
    let error = twin.ended().await.unwrap_err();
    assert!(matches!(error, NodeError::Twin { .. }), "{error}");
    assert!(error.to_string().contains("another process runs with the key of this node"), "{error}");
    for n in 1..=3 {
        cluster.counts(n).await;
    }
    for n in 1..=3 {
        let key = format!("k{n}");
        cluster.create(n, namespace, &key, key.as_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_serves_one_node_at_a_time() {
    let cluster = Cluster::three().await;
    let second = run(cluster.founded.nodes[0].path()).await;
    assert!(matches!(second, Err(NodeError::Data(_))));
    soon(cluster.counts(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_restored_from_an_old_copy_notices_it_and_becomes_a_new_actor_in_place() {
    let mut cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let before = cluster.create(1, namespace, "before", b"copy").await;
    let listed = cluster.status(1).await.incarnation;
    cluster.take(1).stop().await.unwrap();
    let data = cluster.founded.nodes[0].data();
    let copy = tempfile::tempdir().unwrap();
    copy_all(&data, copy.path());
    cluster.start(1).await;
    cluster.counts(1).await;
    let after = cluster.create(1, namespace, "after", b"copy").await;
    cluster.take(1).stop().await.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy_all(copy.path(), &data);

    cluster.start(1).await;
    // What was asked of the old actor stays without an answer.
    let status = eventually(async || match cluster.try_ask(1, AskStatus {}).await {
        Ok(Reply::Status(status)) if status.incarnation != listed => Some(status),
        _ => None,
    })
    .await;
    assert!(status.counts.unwrap_err().contains("new actor"));
    // It serves as before, by forwarding, and the same process keeps its clients and its links.
    for (key, id) in [("before", before), ("after", after)] {
        let live = cluster.read(1, namespace, key).await;
        assert_eq!(live, [(id, Bytes::from_static(b"copy"))]);
    }
    cluster.create(1, namespace, "new", b"by forwarding").await;
    assert_eq!(cluster.counter(1, "stamped").await, 0);
    // The new name is durable: after another start it is the same one.
    cluster.take(1).stop().await.unwrap();
    cluster.start(1).await;
    assert_eq!(cluster.status(1).await.incarnation, status.incarnation);
}

/// The folder of node `n`, without its data.
fn copy_node(cluster: &Cluster, n: usize, to: &std::path::Path) {
    let from = &cluster.founded.nodes[n - 1];
    for file in ["node.key", "node.toml", "cluster", "secret"] {
        std::fs::copy(from.path().join(file), to.join(file)).expect("copies");
    }
}

/// A folder with all that is in it.
fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("creates");
    for entry in std::fs::read_dir(from).expect("reads") {
        let entry = entry.expect("reads");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("reads").is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copies");
        }
    }
}
