//! Much of everything: siblings, writers, bytes, clients.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tanist::client::resolvers::{decode_set, encode_set};
use tanist::client::{Client, Grant, Identity, Reading, Rights, Siblings, WriteError, Written};
use tanist::core::limits;
use tanist::core::object::Key;
use tanist::transport::Endpoint;
use tanist::wire::client::{Failure, Read};
use tanist::wire::registry::{Reply, Request};
use tokio::task::JoinSet;

use super::support::{Cluster, NAMESPACE, PATIENCE, now, run, since};

fn items(reading: &Reading) -> BTreeSet<Vec<u8>> {
    reading.siblings().iter().filter_map(|sibling| decode_set(sibling.value()?)).flatten().collect()
}

#[test]
fn case_19a_interleaved_writers_leave_two_siblings_at_most() {
    run(async {
        let cluster = Cluster::start().await;
        let clients = [cluster.open_at(0).await, cluster.open_at(1).await];
        // Each writes on what it read before the other's last write.
        let mut readings = [clients[0].get("k").await.unwrap(), clients[1].get("k").await.unwrap()];
        for n in 0..100 {
            let (client, reading) = (&clients[n % 2], &readings[n % 2]);
            let mut merged = items(reading);
            merged.insert(format!("{n}").into_bytes());
            let written = client.replace(reading, encode_set(merged)).or_sibling().await.unwrap();
            assert!(written.applied().is_some());
            readings[n % 2] = client.get("k").await.unwrap();
            assert!(readings[n % 2].siblings().len() <= 2, "after {n}: {:?}", readings[n % 2].versions());
        }
        let all = items(&cluster.open().await.get("k").await.unwrap());
        assert_eq!(all.len(), 100);
    });
}

#[test]
fn case_19b_ten_thousand_blind_writes_are_bounded() {
    const WRITES: usize = 10_000;
    run(async {
        let cluster = Cluster::start().await;
        let value = Bytes::from(vec![b'x'; 10_000]);
        let mut writers = JoinSet::new();
        for writer in 0..16 {
            let test = cluster.another().await.siblings(NAMESPACE).await.unwrap();
            let value = value.clone();
            writers.spawn(async move {
                let (mut applied, mut too_many) = (0, 0);
                for _ in (writer..WRITES).step_by(16) {
                    match test.create("k", value.clone()).or_sibling().await {
                        Ok(Written::Applied { .. }) => applied += 1,
                        Err(WriteError::Node(Failure::TooManySiblings(_))) => too_many += 1,
                        other => panic!("{other:?}"),
                    }
                }
                (applied, too_many)
            });
        }
        let (mut applied, mut too_many) = (0, 0);
        while let Some(writer) = writers.join_next().await {
            let (more, refused) = writer.unwrap();
            applied += more;
            too_many += refused;
        }
        let begun = now();
        let reading = cluster.open().await.get("k").await.unwrap();
        let took = since(begun);
        let live = reading.siblings().len();
        let memory: Vec<u64> = (0..3).map(|node| cluster.memory_mib(node, "VmHWM")).collect();
        println!(
            "{applied} applied, {too_many} refused, {live} live, read in {took:?}, at most {memory:?} MiB"
        );
        assert_eq!(applied + too_many, WRITES);
        assert_eq!(live, applied, "every acknowledged write is live");
        // Admission is each coordinator's own; a write that is hedged may pass two of them.
        assert!((limits::SIBLINGS_ADMITTED..2 * limits::SIBLINGS_ADMITTED).contains(&live), "{live}");
        assert!(memory.iter().all(|mib| *mib < 500), "{memory:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        let written = cluster.open().await.replace(&reading, "merged").await.unwrap();
        assert!(written.applied().is_some(), "who names live ones is taken");
    });
}

#[test]
fn case_20_writers_that_come_and_go_leave_nothing_behind() {
    run(async {
        let cluster = Cluster::start().await;
        let admin = cluster.client.admin(cluster.client.identity().clone());
        let grant = Grant {
            author: None,
            namespace: Some(cluster.open().await.id()),
            prefix: vec![],
            rights: Rights::ALL,
        };
        admin.add_grant(grant).await.unwrap();
        for n in 0..200 {
            let client = Client::builder().identity(Identity::generate());
            let client = client.connect(cluster.local.ticket()).await.unwrap();
            let node = format!("node-{}", n % 3 + 1);
            let test = client.at(&node).unwrap().siblings(NAMESPACE).await.unwrap();
            let reading = test.get("k").await.unwrap();
            let written = test.replace(&reading, format!("{n}")).or_sibling().await.unwrap();
            assert!(written.applied().is_some());
        }
        let size = |reading: &Reading| {
            let past = reading.siblings().iter().map(|sibling| sibling.version().causality().past());
            let sizes = past.map(|past| (past.actors(), past.ranges()));
            (reading.siblings().len(), sizes.collect::<Vec<_>>())
        };
        let first = size(&cluster.open_at(0).await.get("k").await.unwrap());
        assert_eq!(first.0, 1, "one after the other is no conflict");
        assert!(first.1.iter().all(|(actors, ranges)| *actors <= 3 && *ranges <= 8), "{first:?}");
        for _ in 0..10 {
            for node in 0..3 {
                assert_eq!(size(&cluster.open_at(node).await.get("k").await.unwrap()), first);
            }
        }
    });
}

#[test]
fn case_38_over_the_limit_is_refused_before_it_is_stored() {
    run(async {
        let mut cluster = Cluster::start().await;
        let test = cluster.open().await;
        let limit = limits::VALUE_LEN;
        let value = |len: usize| Bytes::from(vec![len as u8; len]);
        for len in [limit - 1, limit] {
            let written = test.create(format!("{len}"), value(len)).await.unwrap();
            assert!(written.applied().is_some());
        }
        for len in [limit + 1, 10 * limit] {
            let refused = test.create(format!("{len}"), value(len)).await.unwrap_err();
            assert!(matches!(refused, WriteError::TooLarge { .. }), "{refused}");
        }
        cluster.local.kill_all();
        cluster.heal().await;
        for node in 0..3 {
            let test = cluster.open_at(node).await;
            for len in [limit - 1, limit] {
                assert_eq!(test.get(format!("{len}")).await.unwrap().value().unwrap(), Some(&value(len)));
            }
            for len in [limit + 1, 10 * limit] {
                assert!(test.get(format!("{len}")).await.unwrap().siblings().is_empty());
            }
        }
    });
}

#[test]
fn case_39_a_slow_reader_does_not_hold_up_its_own_small_requests() {
    const ROUNDS: usize = 8;
    const AT_ONCE: usize = 8;
    run(async {
        let cluster = Cluster::start().await;
        let test = cluster.open().await;
        let value = Bytes::from(vec![7; limits::VALUE_LEN]);
        for n in 0..AT_ONCE {
            test.create(format!("large/{n}"), value.clone()).await.unwrap();
        }
        test.create("small", "s").await.unwrap();
        let endpoint = Endpoint::client(cluster.client.identity().secret()).unwrap();
        let member = cluster.local.member(0).unwrap();
        let key = cluster.client.configuration().member(member).unwrap().key;
        let connection = Arc::new(endpoint.dial(cluster.local.address(0).unwrap(), key).await.unwrap());
        let read = |name: String, test: &Siblings| {
            let key = Key::try_from(name.as_str()).unwrap();
            Request::Read(Read { namespace: test.id(), key, local: false, history: false }).encode()
        };

        let small = {
            let (connection, frame) = (connection.clone(), read("small".to_owned(), &test));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let begun = now();
                    let reply = connection.request(frame.clone()).await.unwrap();
                    assert!(matches!(Reply::decode(reply).unwrap(), Reply::Versions(_)));
                    latencies.push(since(begun));
                    if latencies.len() >= 100 && Arc::strong_count(&connection) == 1 {
                        return latencies;
                    }
                }
            })
        };
        let mut total = 0;
        for _ in 0..ROUNDS {
            let mut asked = Vec::new();
            for n in 0..AT_ONCE {
                asked.push(connection.ask(read(format!("large/{n}"), &test)).await.unwrap());
            }
            // The reader is stopped: what is tested is that nobody minds.
            tokio::time::sleep(Duration::from_millis(200)).await;
            for mut replies in asked {
                total += replies.next().await.unwrap().unwrap().body.len();
            }
        }
        drop(connection);
        let mut latencies = tokio::time::timeout(PATIENCE, small).await.unwrap().unwrap();
        assert_eq!(total, 64 << 20);
        latencies.sort_unstable();
        let p99 = latencies[latencies.len() * 99 / 100];
        println!("{} small requests meanwhile, p99 {p99:?}", latencies.len());
        assert!(p99 < Duration::from_secs(1), "{p99:?}");
    });
}

#[test]
fn case_39_what_was_acknowledged_to_a_client_that_exits_at_once_exists() {
    const CLIENTS: usize = 1_000;
    run(async {
        let cluster = Cluster::start().await;
        let mut acknowledged = Vec::new();
        let keys: Vec<String> = (0..CLIENTS).map(|n| format!("k/{n}")).collect();
        for wave in keys.chunks(20) {
            let started: Vec<_> = wave
                .iter()
                .map(|key| {
                    let mut command = cluster.command(&["create", NAMESPACE, key, key]);
                    command.stdout(std::process::Stdio::null()).spawn().unwrap()
                })
                .collect();
            for (key, mut client) in wave.iter().zip(started) {
                if client.wait().unwrap().code() == Some(0) {
                    acknowledged.push(key);
                }
            }
        }
        assert!(acknowledged.len() > CLIENTS * 9 / 10, "only {} were acknowledged", acknowledged.len());
        let test = cluster.open().await;
        for key in acknowledged {
            assert_eq!(test.get(key).await.unwrap().value().unwrap().unwrap(), key.as_str());
        }
    });
}
