//! Nodes that are killed, one or all, and nodes that are asked to stop.

use std::time::Duration;

use tanist::cli::load::{self, Load, Record};
use tanist::client::Siblings;
use tanist::node::clock::Clock;

use super::support::{Cluster, NAMESPACE, run};

const WRITERS: usize = 16;
const KEYS: usize = 100;
const ELSEWHERE: &str = "elsewhere";
const TO_IT: &str = "to it";
const RUNS: usize = 3;

/// Sixteen writers: half talk to nodes that stay, the keys of the others prefer the one that goes.
async fn writers(cluster: &Cluster, victim: usize, prefix: &str, clock: Clock) -> Load {
    let half = WRITERS / 2;
    let test = cluster.open().await;
    let member = cluster.local.member(victim).unwrap();
    let preferring = load::keys_preferring(&test, member, prefix, KEYS / 2).unwrap();
    let mut load = Load::new();
    for writer in 0..half {
        let own = preferring.iter().skip(writer).step_by(half).cloned().collect();
        load.add(TO_IT, test.clone(), own, clock);
        let staying = format!("node-{}", (victim + 1 + writer % 2) % 3 + 1);
        let pinned = cluster.another().await.at(&staying).unwrap().siblings(NAMESPACE).await.unwrap();
        let own = (writer..KEYS / 2).step_by(half).map(|n| format!("{prefix}/elsewhere/{n}")).collect();
        load.add(ELSEWHERE, pinned, own, clock);
    }
    load
}

/// Waits until `more` writes were acknowledged anywhere, by looking at what the nodes count.
async fn work(cluster: &Cluster, more: u64) {
    let before = applied(cluster).await;
    while applied(cluster).await < before + more {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn applied(cluster: &Cluster) -> u64 {
    let mut sum = 0;
    for node in 0..3 {
        if let Some(status) = cluster.local.status(&cluster.client, node).await {
            sum += status.counters.iter().filter(|(name, _)| name == "applied").map(|(_, n)| n).sum::<u64>();
        }
    }
    sum
}

async fn assert_kept(test: &Siblings, records: &[Record]) {
    let mut keys = 0;
    for (key, last) in records.iter().flat_map(|record| &record.keys) {
        let reading = test.get(key).await.unwrap();
        assert!(
            last.is_kept(&reading),
            "{key}: {:?} was acknowledged, {reading:?} is there",
            last.acknowledged
        );
        keys += usize::from(last.acknowledged.is_some());
    }
    assert!(keys > KEYS / 2, "only {keys} keys were written");
}

#[test]
fn every_acknowledged_write_survives_kill_9_of_all_three_at_once() {
    run(async {
        let mut cluster = Cluster::start().await;
        let clock = Clock::start();
        for round in 0..3 {
            let load = writers(&cluster, round, &format!("all/{round}"), clock).await;
            work(&cluster, 300).await;
            cluster.local.kill_all();
            let records = load.finish().await;
            cluster.heal().await;
            assert_kept(&cluster.open().await, &records).await;
        }
    });
}

#[test]
fn kill_9_of_one_node_hardly_shows() {
    run(async {
        let mut cluster = Cluster::start().await;
        let clock = Clock::start();
        let (mut elsewhere, mut to_it) = (Vec::new(), Vec::new());
        for round in 0..RUNS {
            let victim = round % 3;
            let load = writers(&cluster, victim, &format!("one/{round}"), clock).await;
            work(&cluster, 300).await;
            let at = clock.now();
            cluster.local.kill(victim);
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            let end = clock.now();
            let records = load.finish().await;
            elsewhere.push(load::longest_gap(&records, ELSEWHERE, at, end));
            to_it.push(load::longest_gap(&records, TO_IT, at, end));
            cluster.heal().await;
            assert_kept(&cluster.open().await, &records).await;
        }
        println!("longest gaps in ms: elsewhere {elsewhere:?}, to it {to_it:?}");
        elsewhere.sort_unstable();
        to_it.sort_unstable();
        assert!(elsewhere[RUNS / 2] < 300, "{elsewhere:?}");
        assert!(to_it[RUNS / 2] < 1_000, "{to_it:?}");
    });
}

#[test]
fn sigterm_ends_a_node_in_order_and_loses_nothing() {
    run(async {
        let mut cluster = Cluster::start().await;
        let load = writers(&cluster, 0, "term", Clock::start()).await;
        work(&cluster, 200).await;
        let status = cluster.local.terminate(0).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
        let records = load.finish().await;
        for node in 1..3 {
            let status = cluster.local.terminate(node).await.unwrap().unwrap();
            assert_eq!(status.code(), Some(0));
        }
        cluster.heal().await;
        assert_kept(&cluster.open().await, &records).await;
    });
}
