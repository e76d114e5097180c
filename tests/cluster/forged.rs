//! What is forged is refused on every way in, counted, and in nobody's way (P8).

use std::net::SocketAddr;

use bytes::Bytes;
use tanist::core::identity::SecretKey;
use tanist::core::object::Key;
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::WriteId;
use tanist::node::files;
use tanist::transport::{ConnectionError, Endpoint, LinkEvent, LinkOptions, Links, Peer, Whoami};
use tanist::wire::client::{Failure, OnConflict, Read, Submit};
use tanist::wire::peer::{Envelope, Exchange};
use tanist::wire::registry::{PeerMessage, Reply, Request};

use crate::house::{Cluster, applied, eventually, limits, soon};

/// The same write with another signature, in another's name, or with another value.
fn forge(cluster: &Cluster, write: &Submit, how: usize) -> Submit {
    let mut forged = write.clone();
    let mut content = write.signed.write().clone();
    let stranger = SecretKey::from_seed(&[13; 32]);
    match how % 3 {
        0 => {
            let proof = sign_one(&stranger, content.cluster, content.id().into());
            forged.signed = SignedWrite::new(content, proof, None).into();
        }
        1 => {
            content.author = stranger.public();
            let proof = sign_one(&stranger, content.cluster, content.id().into());
            forged.signed = SignedWrite::new(content, proof, None).into();
        }
        _ => forged.value = [Bytes::from_static(b"another value")].into_iter().collect(),
    }
    assert_ne!((&forged.signed, &forged.value), (&write.signed, &write.value), "{:?}", cluster.author);
    forged
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_forged_among_a_thousand_good_writes_every_good_one_is_acknowledged() {
    const EACH: usize = 1_000;
    let cluster = std::sync::Arc::new(Cluster::three().await);
    let namespace = cluster.namespace(1, "carts").await;
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..25 {
        let cluster = cluster.clone();
        workers.spawn(async move {
            for n in (worker..EACH).step_by(25) {
                let key = format!("k{n}");
                let write = cluster.write(namespace, &key, key.as_bytes(), &[], OnConflict::Refuse);
                let forged = forge(&cluster, &write, n);
                let (bad, good) = tokio::join!(cluster.ask(1, forged), cluster.ask(1, write));
                assert!(
                    matches!(bad, Reply::Failure(Failure::Rejected(_) | Failure::Denied(_))),
                    "{key}: {bad:?}"
                );
                applied(good);
            }
        });
    }
    while let Some(done) = soon(workers.join_next()).await {
        done.unwrap();
    }
    let refused = cluster.counter(1, "rejected_forged").await + cluster.counter(1, "rejected_denied").await;
    assert_eq!(refused, EACH as u64);
    assert_eq!(cluster.counter(1, "stamped").await, EACH as u64, "and nothing of theirs was stamped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_version_from_a_peer_is_left_out_and_counted() {
    let mut cluster = Cluster::founded(limits());
    cluster.start(1).await;
    cluster.start(2).await;
    cluster.counts(1).await;
    cluster.counts(2).await;
    let namespace = cluster.namespace(1, "carts").await;
    cluster.create(1, namespace, "good", b"value").await;
    let key = Key::try_from("good").unwrap();
    let read = Read { namespace, key: key.clone(), local: true, history: false };
    let Reply::Versions(mut held) = cluster.ask(1, read).await else { panic!("no versions") };
    let version = held.versions.remove(0).version;

    // This test is node 3, which lies.
    let secret = files::load_key(&cluster.founded.nodes[2].key()).unwrap();
    let member = cluster.founded.addresses[2].0;
    let endpoint = Endpoint::client(&secret).unwrap();
    let own = Whoami { member, process: 3, level: 1 };
    let (links, mut events) = Links::new(endpoint, own, LinkOptions::default());
    let target = cluster.node(1).handle.clone();
    let address: SocketAddr = target.address();
    let config = target.configuration().borrow().clone();
    let target = config.member(target.member()).unwrap();
    links.update(vec![Peer { member: target.id, key: target.key, addresses: vec![address] }]);
    loop {
        match soon(events.recv()).await.unwrap() {
            LinkEvent::Up(peer) if peer == target.id => break,
            _ => {}
        }
    }
    let exchange = |version, value: &'static [u8], operation| {
        let exchange = Exchange {
            operation,
            namespace,
            key: key.clone(),
            live: vec![WriteId([1; 32])],
            about: None,
            versions: vec![version],
            values: [Bytes::from_static(value)].into_iter().collect(),
            superseded: Vec::new(),
            fetch: false,
        };
        let envelope = Envelope { incarnation: config.member(member).unwrap().incarnation, synced: 0 };
        PeerMessage::from(exchange).encode(envelope)
    };
    // Another value; an author's signature that is not one; a version without a stamp.
    assert!(links.send(target.id, exchange(version.clone(), b"other", 1)));
    let mut resigned = version.clone();
    let write = version.write().clone();
    let proof = sign_one(&secret, write.cluster, write.id().into());
    resigned.signed = SignedWrite::new(write, proof, None).into();
    assert!(links.send(target.id, exchange(resigned, b"value", 2)));
    let bare = tanist::core::version::Version { signed: version.signed.clone(), stamps: Default::default() };
    assert!(links.send(target.id, exchange(bare, b"value", 3)));
    for name in ["rejected_peer_value", "rejected_peer_author_signature", "rejected_peer_other"] {
        eventually(async || (cluster.counter(1, name).await == 1).then_some(())).await;
    }
    assert_eq!(cluster.read(1, namespace, "good").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_grant_is_not_let_in() {
    let cluster = Cluster::three().await;
    let stranger = Endpoint::client(&SecretKey::from_seed(&[13; 32])).unwrap();
    let handle = &cluster.node(1).handle;
    let key = handle.configuration().borrow().member(handle.member()).unwrap().key;
    let connection = soon(stranger.dial(handle.address(), key)).await.unwrap();
    let request = Request::from(tanist::wire::client::AskStatus {}).encode();
    let refused = soon(connection.request(request)).await;
    assert!(matches!(refused, Err(ConnectionError::Denied { .. })), "{refused:?}");
}
