//! Registers under processes that are killed, stopped and cut off.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tanist::cli::local::Plan;
use tanist::cli::relay::Faults;
use tanist::client::{Change, Linearizable, UpdateError, Updated, WriteError, Written};
use tanist::core::write::WriteId;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::support::{Cluster, now, run, since, text};

/// How long the longer tests run; `TANIST_TEST_SECONDS` says otherwise.
fn span(default: u64) -> Duration {
    let seconds = std::env::var("TANIST_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(default))
}

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
            if since(begun) > span(12) {
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

/// What was said of one register between two moments: which generation was current, and its write.
struct Said {
    key: usize,
    asked: Instant,
    answered: Instant,
    generation: u64,
    id: Option<WriteId>,
    applied: bool,
}

#[test]
fn case_15_registers_are_linearizable_through_kills_pauses_and_cuts() {
    run(async {
        let plan = Plan { relays: Some(15), ..Plan::default() };
        let mut cluster = Cluster::start_with(plan, &[]).await;
        cluster.registers().await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for client in 0..8u64 {
            let jobs = cluster.another().await.linearizable("jobs").await.unwrap();
            clients.spawn(work(jobs, client, stop.clone()));
        }
        let begun = now();
        for round in 0usize.. {
            if since(begun) > span(20) {
                break;
            }
            sleep(Duration::from_millis(600)).await;
            let victim = round % 3;
            match round % 4 {
                0 => cluster.local.kill(victim),
                1 => cluster.local.signal(victim, Signal::STOP).unwrap(),
                2 => cluster.local.network().unwrap().set(victim, (victim + 1) % 3, Faults::CUT),
                _ => cluster.local.network().unwrap().set_around(victim, Faults::CUT),
            }
            sleep(Duration::from_millis(900)).await;
            let network = cluster.local.network().unwrap();
            (0..3).for_each(|node| network.set_around(node, Faults::default()));
            if round % 4 == 1 {
                cluster.local.signal(victim, Signal::CONT).unwrap();
            }
            cluster.heal().await;
        }
        stop.store(true, Ordering::Relaxed);
        let mut said = Vec::new();
        let mut conflicts = 0;
        while let Some(done) = clients.join_next().await {
            let (more, refused) = done.unwrap();
            said.extend(more);
            conflicts += refused;
        }
        let mut made: BTreeMap<(usize, u64), WriteId> = BTreeMap::new();
        for one in &said {
            if let Some(id) = one.id {
                assert_eq!(
                    *made.entry((one.key, one.generation)).or_insert(id),
                    id,
                    "two writes of a generation"
                );
            }
        }
        for key in 0..5 {
            monotone(said.iter().filter(|one| one.key == key));
        }
        assert!(said.len() >= 500 && conflicts >= 50, "{} operations, {conflicts} conflicts", said.len());
    });
}

/// No answer shows less than what an answer showed before it was asked for, and no write was applied
/// whose place had been taken before.
fn monotone<'a>(said: impl Iterator<Item = &'a Said>) {
    let mut by_end: Vec<&Said> = said.collect();
    by_end.sort_by_key(|one| one.answered);
    let mut highest = 0;
    let highest: Vec<(Instant, u64)> = by_end
        .iter()
        .map(|one| {
            highest = highest.max(one.generation);
            (one.answered, highest)
        })
        .collect();
    for one in &by_end {
        let known = highest.partition_point(|(answered, _)| *answered < one.asked);
        let least = known.checked_sub(1).map_or(0, |at| highest[at].1);
        let least = least + u64::from(one.applied && least > 0);
        assert!(one.generation >= least, "generation {} after {least} of key {}", one.generation, one.key);
    }
}

async fn work(jobs: Linearizable, client: u64, stop: Arc<AtomicBool>) -> (Vec<Said>, usize) {
    let mut said = Vec::new();
    let mut conflicts = 0;
    for turn in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = ((turn * 7 + client * 3) % 5) as usize;
        let name = format!("key-{key}");
        let asked = now();
        let Ok(reading) = jobs.get(&name).await else { continue };
        let version = reading.versions().iter().next().cloned();
        let (generation, id) =
            version.map_or((0, None), |version| (version.generation(), Some(version.id())));
        said.push(Said { key, asked, answered: now(), generation, id, applied: false });
        let asked = now();
        match jobs.replace(&reading, format!("{client} {turn}")).await {
            Ok(Written::Applied { version, .. }) => {
                let (generation, id) = (version.generation(), Some(version.id()));
                said.push(Said { key, asked, answered: now(), generation, id, applied: true });
            }
            Ok(Written::Refused { current, .. }) => {
                conflicts += 1;
                if let Some(head) = current.as_deref().and_then(<[_]>::first) {
                    let (generation, id) = (head.version().generation(), Some(head.id()));
                    said.push(Said { key, asked, answered: now(), generation, id, applied: false });
                }
            }
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
    (said, conflicts)
}
