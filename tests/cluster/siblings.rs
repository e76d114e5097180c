//! Writes on a cluster whose nodes come and go.

use bytes::Bytes;
use tanist::wire::client::{Failure, OnConflict, Submitted};
use tanist::wire::registry::Reply;

use crate::house::{Cluster, applied, limits, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_read_back_on_all_nodes_and_a_stale_one_is_refused() {
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let first = cluster.create(1, namespace, "k", b"one").await;
    for n in 1..=3 {
        assert_eq!(cluster.read(n, namespace, "k").await, [(first, Bytes::from_static(b"one"))]);
    }
    let second = cluster.write(namespace, "k", b"two", &[first], OnConflict::Refuse);
    assert_eq!(applied(cluster.ask(2, second.clone()).await), []);
    let stale = cluster.write(namespace, "k", b"late", &[first], OnConflict::Refuse);
    match cluster.ask(3, stale).await {
        Reply::Submitted(Submitted::Refused { current: Some(current) }) => {
            assert_eq!(current.iter().map(|v| v.id()).collect::<Vec<_>>(), [second.signed.id()]);
        }
        other => panic!("{other:?}"),
    }
    for n in 1..=3 {
        let live = [((2, second.signed.id()), Bytes::from_static(b"two"))];
        assert_eq!(cluster.read(n, namespace, "k").await, live);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writes_that_read_the_same_are_kept_side_by_side_and_resolved() {
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace(2, "carts").await;
    let base = cluster.create(1, namespace, "k", b"base").await;
    let a = cluster.write(namespace, "k", b"a", &[base], OnConflict::KeepBoth);
    let b = cluster.write(namespace, "k", b"b", &[base], OnConflict::KeepBoth);
    let (met_a, met_b) = tokio::join!(cluster.ask(1, a.clone()), cluster.ask(2, b.clone()));
    let (met_a, met_b) = (applied(met_a), applied(met_b));
    assert!(
        met_a.contains(&b.signed.id()) || met_b.contains(&a.signed.id()),
        "at least one is told at once (P2)"
    );
    let mut live: Vec<_> = cluster.read(3, namespace, "k").await.into_iter().map(|(id, _)| id).collect();
    live.sort();
    let mut both = [(2, a.signed.id()), (2, b.signed.id())];
    both.sort();
    assert_eq!(live, both);
    let merged = cluster.write(namespace, "k", b"both", &live, OnConflict::Refuse);
    assert_eq!(applied(cluster.ask(3, merged.clone()).await), []);
    for n in 1..=3 {
        let live = [((3, merged.signed.id()), Bytes::from_static(b"both"))];
        assert_eq!(cluster.read(n, namespace, "k").await, live);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_13_one_write_sent_ten_times_through_three_nodes_is_one_version() {
    let cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let write = cluster.write(namespace, "k", b"once", &[], OnConflict::Refuse);
    for n in [1, 2, 3, 1, 2, 3, 1, 2, 3, 1] {
        assert_eq!(applied(cluster.ask(n, write.clone()).await), []);
    }
    for n in 1..=3 {
        let live = [((1, write.signed.id()), Bytes::from_static(b"once"))];
        assert_eq!(cluster.read(n, namespace, "k").await, live);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_without_one_node_and_nothing_is_lost_when_all_are_killed() {
    let mut cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let mut acknowledged = Vec::new();
    for n in 0..20 {
        let key = format!("before-{n}");
        acknowledged.push((key.clone(), cluster.create(1 + n % 3, namespace, &key, key.as_bytes()).await));
    }
    cluster.kill(3).await;
    for n in 0..20 {
        let key = format!("without-{n}");
        acknowledged.push((key.clone(), cluster.create(1 + n % 2, namespace, &key, key.as_bytes()).await));
    }
    cluster.kill(1).await;
    cluster.kill(2).await;
    for n in 1..=3 {
        cluster.start(n).await;
    }
    for n in 1..=3 {
        cluster.counts(n).await;
        for (key, id) in &acknowledged {
            assert_eq!(cluster.read(n, namespace, key).await, [(*id, Bytes::from(key.clone()))], "{n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_asked_to_stop_answers_what_is_under_way() {
    let mut cluster = Cluster::three().await;
    let namespace = cluster.namespace(1, "carts").await;
    let writes: Vec<_> =
        (0..16).map(|n| cluster.write(namespace, &format!("k{n}"), &[n], &[], OnConflict::Refuse)).collect();
    let connection = cluster.connection(1).await;
    let node = cluster.take(1);
    let mut asked = Vec::new();
    for write in &writes {
        let frame = tanist::wire::registry::Request::from(write.clone()).encode();
        let mut replies = connection.ask(frame).await.unwrap();
        asked.push(tokio::spawn(async move { replies.next().await }));
    }
    // The first one is answered, so all are under way or were never taken.
    let first = soon(asked.remove(0)).await.unwrap().unwrap().unwrap();
    applied(Reply::decode(first).unwrap());
    node.stop().await.unwrap();
    let mut answered = 1;
    for reply in asked {
        if let Ok(Some(frame)) = soon(reply).await.unwrap() {
            applied(Reply::decode(frame).unwrap());
            answered += 1;
        }
    }
    assert!(answered > 1, "only the first was answered");
    cluster.start(1).await;
    cluster.counts(1).await;
    for (n, write) in writes.iter().enumerate() {
        // What was not answered may be there or not; sent again, it is.
        applied(cluster.ask(1, write.clone()).await);
        assert_eq!(cluster.read(2, namespace, &format!("k{n}")).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_what_a_node_may_work_on_it_says_so_and_nothing_is_half_done() {
    let cluster = Cluster::with(tanist::node::config::Limits { requests_mib: 4, ..limits() }).await;
    let namespace = cluster.namespace(1, "carts").await;
    let value = vec![7; 1 << 20];
    let asks = (0..24).map(|n| {
        let write = cluster.write(namespace, &format!("k{n}"), &value, &[], OnConflict::Refuse);
        let cluster = &cluster;
        async move { (cluster.ask(1, write.clone()).await, write) }
    });
    let mut overloaded = 0;
    let mut again = Vec::new();
    for (reply, write) in join_all(asks).await {
        match reply {
            Reply::Failure(Failure::Overloaded) => {
                overloaded += 1;
                again.push(write);
            }
            reply => drop(applied(reply)),
        }
    }
    assert!(overloaded > 0, "4 MiB of room took 24 MiB at once");
    assert!(cluster.counter(1, "rejected_overloaded").await >= overloaded);
    for write in again {
        let key = write.signed.write().key.to_string();
        assert_eq!(cluster.read(2, namespace, &key).await, [], "an overloaded node changes nothing");
        applied(cluster.ask(1, write).await);
    }
}

/// Runs all at once, in this task.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut futures {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if futures.iter().all(|(_, done)| done.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    futures.into_iter().filter_map(|(_, done)| done).collect()
}
