//! Registers that many processes write at once, while nodes are killed.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tanist::client::{Change, Linearizable, UpdateError, Updated, WriteError};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::support::{Cluster, now, run, seconds, since, text};

#[test]
fn of_fifty_creators_exactly_one_wins_and_the_others_are_told_who() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.registers().await;
        for round in 0..10usize {
            let key = format!("seat-{round}");
            let spawn = |n: usize| -> Child {
                let mut command = cluster.command(&["create", "jobs", &key, &format!("creator-{n}")]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let creators: Vec<Child> = (0..50).map(spawn).collect();
            let victim = round % 3;
            if round % 2 == 1 {
                // Some have begun by then, and none or some have ended.
                sleep(Duration::from_millis(50 * round as u64)).await;
                cluster.local.kill(victim);
            }
            let ended = tokio::task::spawn_blocking(|| {
                creators.into_iter().map(|child| child.wait_with_output().unwrap()).collect::<Vec<_>>()
            });
            let ended = ended.await.unwrap();
            let winners: Vec<_> = ended.iter().filter(|output| output.status.code() == Some(0)).collect();
            let codes: Vec<_> = ended.iter().map(|output| output.status.code()).collect();
            assert_eq!(winners.len(), 1, "round {round}: {codes:?}");
            let winner = text(&winners[0].stdout).trim().to_owned();
            for output in ended.iter().filter(|output| output.status.code() != Some(0)) {
                assert_eq!(output.status.code(), Some(3), "round {round}: {}", text(&output.stderr));
                assert!(text(&output.stderr).contains(&winner), "{}", text(&output.stderr));
            }
            cluster.heal().await;
        }
    });
}

#[test]
fn a_counter_is_exactly_the_increments_that_were_applied() {
    run(async {
        let mut cluster = Cluster::start().await;
        let jobs = cluster.registers().await;
        let stop = Arc::new(AtomicBool::new(false));
        let applied = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..16 {
            let jobs = cluster.another().await.linearizable("jobs").await.unwrap();
            clients.spawn(count(jobs, stop.clone(), applied.clone()));
        }
        let begun = now();
        for victim in (0..3).cycle() {
            if since(begun) > seconds(15) {
                break;
            }
            sleep(Duration::from_millis(1_500)).await;
            cluster.local.kill(victim);
            sleep(Duration::from_millis(700)).await;
            cluster.heal().await;
        }
        stop.store(true, Ordering::Relaxed);
        let mut settled = 0;
        while let Some(doubts) = clients.join_next().await {
            for doubt in doubts.unwrap() {
                // What nobody answered is asked for until there is a verdict.
                let verdict = doubt.settle().await.unwrap();
                settled += 1;
                applied.fetch_add(u64::from(verdict.applied().is_some()), Ordering::Relaxed);
            }
        }
        let counted = number(jobs.get("n").await.unwrap().value().unwrap());
        assert_eq!(counted, applied.load(Ordering::Relaxed), "{settled} were settled");
        assert!(counted > 200, "too few increments to show anything: {counted}");
    });
}

/// Increments until it is told to stop; the increments whose outcome is unknown come back.
async fn count(
    jobs: Linearizable,
    stop: Arc<AtomicBool>,
    applied: Arc<AtomicU64>,
) -> Vec<tanist::client::Unknown> {
    let mut doubts = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next = |current: Option<bytes::Bytes>| Change::put((number(current.as_ref()) + 1).to_string());
        match jobs.update("n", next).await {
            Ok(Updated::Applied { .. }) => drop(applied.fetch_add(1, Ordering::Relaxed)),
            Ok(other) => panic!("{other:?}"),
            Err(UpdateError::Write(WriteError::Unknown(unknown))) => doubts.push(*unknown),
            Err(UpdateError::Contended { .. } | UpdateError::Write(_)) => {
                sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
    doubts
}

fn number(value: Option<&bytes::Bytes>) -> u64 {
    value.map_or(0, |value| text(value).parse().unwrap())
}
