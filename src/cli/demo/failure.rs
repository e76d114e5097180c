//! Processes that are killed or hang while sixteen writers write.

use std::time::Duration;

use rustix::process::Signal;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{MAJORITY, REGISTERS, World, name};
use crate::cli::load::{self, Load, Record};
use crate::client::{Client, Space};

const WRITERS: usize = 16;
const KEYS: usize = 100;
/// Writers that talk to a node that stays.
const ELSEWHERE: &str = "elsewhere";
/// Writers whose keys the node that goes is preferred for.
const TO_IT: &str = "to it";
/// The longest pause that is claimed, in milliseconds.
const PAUSE_ELSEWHERE: u64 = 300;
const PAUSE_TO_IT: u64 = 1_000;
/// How long is written before and after the blow.
const BEFORE: Duration = Duration::from_millis(800);
const AFTER: Duration = Duration::from_millis(2_500);

pub(super) async fn check_kill(world: &mut World) -> Result<Finding, Surprise> {
    let second = world.breaks(Rule::Kill);
    pause(world, MAJORITY, 0, "kill", second, |world| {
        world.local.kill(0);
        Ok(())
    })
    .await
}

pub(super) async fn check_kill_of_registers(world: &mut World) -> Result<Finding, Surprise> {
    let second = world.breaks(Rule::KillRegisters);
    pause(world, REGISTERS, 0, "kill", second, |world| {
        world.local.kill(0);
        Ok(())
    })
    .await
}

pub(super) async fn check_stop(world: &mut World) -> Result<Finding, Surprise> {
    let second = world.breaks(Rule::Stop);
    pause(world, MAJORITY, 1, "stop", second, |world| Ok(world.local.signal(1, Signal::STOP)?)).await
}

/// Has writers write, deals the blow, and measures the longest pause that a writer of either kind saw.
async fn pause(
    world: &mut World,
    namespace: &str,
    victim: usize,
    prefix: &'static str,
    second: bool,
    blow: fn(&mut World) -> Result<(), Surprise>,
) -> Result<Finding, Surprise> {
    let load = writers(world, namespace, victim, prefix).await?;
    tokio::time::sleep(BEFORE).await;
    let at = world.clock.now();
    blow(world)?;
    let other = (victim + 1) % world.local.len();
    if second {
        world.local.signal(other, Signal::STOP)?;
    }
    tokio::time::sleep(AFTER).await;
    let end = world.clock.now();
    for node in 0..world.local.len() {
        world.local.signal(node, Signal::CONT)?;
    }
    let records = load.finish().await;
    world.heal().await?;
    let lost = lost(&world.client.space(namespace).await?, &records).await?;

    let gap = |group| load::longest_gap(&records, group, at, end);
    let (elsewhere, to_it) = (gap(ELSEWHERE), gap(TO_IT));
    let writes = load::acknowledged(&records, at, end);
    let holds = elsewhere < PAUSE_ELSEWHERE && to_it < PAUSE_TO_IT && lost == 0;
    let found = format!(
        "the longest pause of any of {WRITERS} writers is {to_it} ms for those connected to {}, {elsewhere} ms for \
         those connected elsewhere; {writes} writes acknowledged meanwhile; {lost} of {KEYS} keys lost",
        name(victim),
    );
    let finding = Finding::new(holds, found).number("pause_to_it_ms", to_it);
    Ok(finding.number("pause_elsewhere_ms", elsewhere).number("writes", writes).number("lost", lost))
}

pub(super) async fn check_durable(world: &mut World) -> Result<Finding, Surprise> {
    let load = writers(world, MAJORITY, 2, "durable").await?;
    tokio::time::sleep(BEFORE).await;
    let at = world.clock.now();
    world.local.kill_all();
    if world.breaks(Rule::Durable) {
        lose_logs(world)?;
    }
    let records = tokio::time::timeout(Duration::from_secs(10), load.finish()).await?;
    let back = world.clock.now();
    world.heal().await?;
    let back = world.clock.now() - back;
    let lost = lost(&world.client.space(MAJORITY).await?, &records).await?;
    let writes = load::acknowledged(&records, 0, at);
    let keys = records.iter().flat_map(|record| record.keys.values());
    let keys = keys.filter(|last| last.acknowledged.is_some()).count();
    let found = format!(
        "{writes} writes acknowledged when all three died, back {back} ms after the start, {lost} of {keys} keys lost"
    );
    let finding = Finding::new(lost == 0 && keys > 0, found).number("writes", writes);
    Ok(finding.number("keys", keys).number("lost", lost).number("start_ms", back))
}

/// Half of the writers talk to nodes that stay, each over a connection of its own; the keys of the other
/// half prefer the node that goes.
async fn writers(world: &World, namespace: &str, victim: usize, prefix: &str) -> Result<Load, Surprise> {
    let member = world.local.member(victim).ok_or_else(|| Surprise::new("no such node"))?;
    let half = WRITERS / 2;
    let keys = KEYS / 2;
    let mut load = Load::new();
    let demo = world.client.space(namespace).await?;
    let preferring = load::keys_preferring(&demo, member, prefix, keys)?;
    for writer in 0..half {
        let own = preferring.iter().skip(writer).step_by(half).cloned().collect();
        load.add(TO_IT, demo.clone(), own, world.clock);
        let staying = (victim + 1 + writer % 2) % world.local.len();
        let own = (writer..keys).step_by(half).map(|n| format!("{prefix}/elsewhere/{n}")).collect();
        let client = world.connect_at(staying, Client::TIMEOUT).await?;
        load.add(ELSEWHERE, client.space(namespace).await?, own, world.clock);
    }
    Ok(load)
}

/// Keys that do not have what was acknowledged last.
async fn lost(demo: &Space, records: &[Record]) -> Result<usize, Surprise> {
    let mut lost = 0;
    for (key, last) in records.iter().flat_map(|record| &record.keys) {
        lost += usize::from(!last.is_kept(&demo.get(key).await?));
    }
    Ok(lost)
}

/// Removes what the dead nodes wrote last: their write-ahead logs.
fn lose_logs(world: &World) -> Result<(), Surprise> {
    for node in 0..world.local.len() {
        let Some(dir) = world.local.node_dir(node) else { continue };
        let mut open = vec![dir.data()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "log") {
                    std::fs::remove_file(path)?;
                }
            }
        }
    }
    Ok(())
}
