//! One signed write, sent ten times through three nodes.

use std::collections::BTreeSet;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::creating::shortened;
use super::world::{MAJORITY, World};
use crate::client::Written;

const KEY: &str = "order-4711";
const TIMES: usize = 10;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let mut through = Vec::new();
    for node in 0..world.local.len() {
        through.push(world.open_at(MAJORITY, node).await?);
    }
    let namespace = world.open(MAJORITY).await?;
    let sign = async || namespace.create(KEY, "paid").or_sibling().prepare().await;
    let mut prepared = sign().await?;
    let mut ids = BTreeSet::new();
    let mut refused = 0;
    for namespace in through.iter().cycle().take(TIMES) {
        if world.breaks(Rule::Retry) {
            prepared = sign().await?;
        }
        match namespace.client().submit(&prepared).await? {
            Written::Applied { version, .. } => drop(ids.insert(version.to_string())),
            Written::Refused { .. } => refused += 1,
        }
    }
    let mut versions = BTreeSet::new();
    for namespace in &through {
        let reading = namespace.get(KEY).local().history().await?;
        let all = reading.siblings().iter().chain(reading.history());
        versions.extend(all.map(|sibling| sibling.version().to_string()));
    }
    let holds = refused == 0 && ids.len() == 1 && versions == ids;
    let found = format!(
        "{} of {TIMES} applied, under {} id{}; {} version{} on the three nodes: {}",
        TIMES - refused,
        ids.len(),
        if ids.len() == 1 { "" } else { "s" },
        versions.len(),
        if versions.len() == 1 { "" } else { "s" },
        versions.first().map(|id| shortened(id)).unwrap_or_default(),
    );
    let finding = Finding::new(holds, found).number("sent", TIMES).number("ids", ids.len());
    Ok(finding.number("versions", versions.len()))
}
