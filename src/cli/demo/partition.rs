//! The wires of one node are cut; both sides write the same cart; the cut heals.

use std::collections::BTreeSet;
use std::time::Duration;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{ONE, World, name};
use crate::cli::relay::Faults;
use crate::client::resolvers::{add_remove_set, decode_set, encode_set};
use crate::client::{Siblings, Written};

const KEY: &str = "cart-7";
/// How long it may take until all nodes have both versions.
const HEALING: u64 = 15_000;
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let mut nodes = Vec::new();
    for node in 0..world.local.len() {
        nodes.push(world.open_at(ONE, node).await?);
    }
    let [alone, _, majority] = &nodes[..] else { return Err(Surprise::new("there must be three nodes")) };
    // Milk is there when the cut comes: one side takes it out, the other adds bread.
    alone.create(KEY, encode_set(["milk", "eggs"])).await?;
    let begun = world.clock.now();
    until_all_have(world, &nodes, 1, begun).await?;

    let wires = world.local.network().ok_or_else(|| Surprise::new("there are no wires"))?;
    if !world.breaks(Rule::Partition) {
        wires.set_around(0, Faults::CUT);
    }
    let here = alone.get(KEY).local().await?;
    let there = majority.get(KEY).local().await?;
    let first = alone.replace(&here, encode_set(["eggs"])).await?;
    let second = majority.replace(&there, encode_set(["milk", "eggs", "bread"])).await?;
    let acknowledged = [&first, &second].iter().filter(|written| written.applied().is_some()).count();
    let lost = wires.counts().lost;

    wires.set_around(0, Faults::default());
    let healed = world.clock.now();
    let siblings = until_all_have(world, &nodes, 2, healed).await?;
    let healing = world.clock.now() - healed;

    let merging = world.open(ONE).await?.resolve_with(add_remove_set);
    let read = merging.get(KEY).await?;
    let merged = read.value()?.and_then(|value| decode_set(value)).unwrap_or_default();
    let written = merging.replace(&read, encode_set(&merged)).await?;
    let parents = read.versions().ids();
    let begun = world.clock.now();
    let left = until_all_have(world, &nodes, 1, begun).await?;
    let descends = names_both(&merging, &written, &[&first, &second]).await?;

    let wanted: BTreeSet<Vec<u8>> = [b"bread".to_vec(), b"eggs".to_vec()].into();
    let holds = acknowledged == 2 && siblings == 2 && left == 1 && merged == wanted && descends;
    let found = format!(
        "{acknowledged} of 2 writes acknowledged while {} was cut off; {siblings} siblings on all nodes {healing} ms \
         after; merged to {} by one version naming {}, {left} live on every node",
        name(0),
        text(&merged),
        parents.len(),
    );
    let finding =
        Finding::new(holds, found).number("acknowledged", acknowledged).number("siblings", siblings);
    Ok(finding.number("healing_ms", healing).number("packets_lost", lost).number("left", left))
}

/// Waits until every node by itself has so many live versions; how many they have at the end.
async fn until_all_have(
    world: &World,
    nodes: &[Siblings],
    wanted: usize,
    from: u64,
) -> Result<usize, Surprise> {
    loop {
        let mut live = Vec::new();
        for node in nodes {
            live.push(node.get(KEY).local().await?.siblings().len());
        }
        if live.iter().all(|count| *count == wanted) {
            return Ok(wanted);
        }
        if world.clock.now() > from + HEALING {
            let other = live.into_iter().find(|count| *count != wanted);
            return Ok(other.unwrap_or(wanted));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether what is there now is `written`, and names every one of `parents`.
async fn names_both(namespace: &Siblings, written: &Written, parents: &[&Written]) -> Result<bool, Surprise> {
    let now = namespace.get(KEY).await?;
    let [only] = now.siblings() else { return Ok(false) };
    let ids = parents.iter().filter_map(|parent| Some(parent.applied()?.id()));
    let all = ids.filter(|id| only.head().parents().contains(id)).count() == parents.len();
    Ok(all && written.applied().is_some_and(|version| version.id() == only.head().id()))
}

fn text(set: &BTreeSet<Vec<u8>>) -> String {
    set.iter().map(|item| String::from_utf8_lossy(item)).collect::<Vec<_>>().join(" + ")
}
