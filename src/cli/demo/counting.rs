//! A thousand increments of one register.

use bytes::Bytes;
use tokio::task::JoinSet;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::World;
use crate::client::{Change, Linearizable, Updated, Written};

const WRITERS: u64 = 8;
const EACH: u64 = 125;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let jobs = world.registers().await?;
    let begun = world.clock.now();
    let plain = count(&jobs, "plain", |_| false).await?;
    let plain_ms = world.clock.now() - begun;
    let clumsy = world.breaks(Rule::Count);
    let begun = world.clock.now();
    let named = count(&jobs, "named", move |writer| !(clumsy && writer == 0)).await?;
    let named_ms = world.clock.now() - begun;
    let all = WRITERS * EACH;
    let lost = |value: u64| all.saturating_sub(value);
    // Had the plain way lost nothing either, there was no race, and nothing is shown.
    let holds = lost(plain) > 0 && named == all;
    let found = format!(
        "of {all} increments by {WRITERS} writers {} are lost by read and write ({plain_ms} ms), {} by `update` \
         ({named_ms} ms)",
        lost(plain),
        lost(named),
    );
    let finding = Finding::new(holds, found).number("increments", all).number("named_ms", named_ms);
    Ok(finding.number("lost_plain", lost(plain)).number("lost_named", lost(named)))
}

/// Has all writers count in `key` at once, each by `update` or by reading and writing; what it says afterwards.
async fn count(
    jobs: &Linearizable,
    key: &'static str,
    updates: impl Fn(u64) -> bool,
) -> Result<u64, Surprise> {
    jobs.overwrite(key, "0").await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (jobs, updates) = (jobs.clone(), updates(writer));
        writers.spawn(async move {
            for _ in 0..EACH {
                if updates {
                    update(&jobs, key).await?;
                } else {
                    overwrite(&jobs, key).await?;
                }
            }
            Ok::<(), Surprise>(())
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    Ok(number(jobs.get(key).await?.value()?))
}

/// What most code does: what was read may be old when it is written back.
async fn overwrite(jobs: &Linearizable, key: &str) -> Result<(), Surprise> {
    let next = number(jobs.get(key).await?.value()?) + 1;
    loop {
        if let Written::Applied { .. } = jobs.overwrite(key, next.to_string()).await? {
            return Ok(());
        }
    }
}

async fn update(jobs: &Linearizable, key: &str) -> Result<(), Surprise> {
    let increment = |current: Option<Bytes>| Change::put((number(current.as_ref()) + 1).to_string());
    match jobs.update(key, increment).await? {
        Updated::Applied { .. } => Ok(()),
        Updated::Kept | Updated::Aborted => Err(Surprise::new("an increment was not written")),
    }
}

fn number(value: Option<&Bytes>) -> u64 {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}
