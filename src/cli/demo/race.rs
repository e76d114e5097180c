//! Several writers count on one key, with and without naming what they read.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{MAJORITY, World};
use crate::client::{Change, Conflict, Resolution, Sibling, Siblings, Updated, Written};

const WRITERS: u64 = 8;
const EACH: u64 = 25;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let demo = world.open(MAJORITY).await?.resolve_with(add_up);
    let plain = count(&demo, "plain", |_| How::Overwrite).await?;
    let clumsy = world.breaks(Rule::Update);
    let how = move |writer| if clumsy && writer == 0 { How::Overwrite } else { How::Update };
    let named = count(&demo, "named", how).await?;
    let all = WRITERS * EACH;
    let lost = |value: u64| all.saturating_sub(value);
    // Had the plain way lost nothing either, there was no race, and nothing is shown.
    let holds = lost(plain) > 0 && named == all;
    let found = format!(
        "of {all} acknowledged increments by {WRITERS} writers {} are lost by read and overwrite, {} by `update`",
        lost(plain),
        lost(named),
    );
    let finding = Finding::new(holds, found).number("increments", all);
    Ok(finding.number("lost_plain", lost(plain)).number("lost_named", lost(named)))
}

#[derive(Clone, Copy)]
enum How {
    Overwrite,
    Update,
}

/// Has all writers count on `key` at once; what it says afterwards.
async fn count(demo: &Siblings, key: &'static str, how: impl Fn(u64) -> How) -> Result<u64, Surprise> {
    demo.overwrite(key, "0").await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (demo, how) = (demo.clone(), how(writer));
        writers.spawn(async move {
            for _ in 0..EACH {
                match how {
                    How::Overwrite => overwrite(&demo, key).await?,
                    How::Update => update(&demo, key).await?,
                }
            }
            Ok::<(), Surprise>(())
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    let read = demo.get(key).await?;
    Ok(number(read.value()?))
}

/// What most code does.
async fn overwrite(demo: &Siblings, key: &str) -> Result<(), Surprise> {
    let read = demo.get(key).await?;
    let next = number(read.value()?) + 1;
    loop {
        match demo.overwrite(key, next.to_string()).await? {
            Written::Applied { .. } => return Ok(()),
            Written::Refused { .. } => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn update(demo: &Siblings, key: &str) -> Result<(), Surprise> {
    let increment = |current: Option<Bytes>| Change::put((number(current.as_ref()) + 1).to_string());
    match demo.update(key, increment).await? {
        Updated::Applied { .. } => Ok(()),
        Updated::Kept | Updated::Aborted => Err(Surprise::new("an increment was not written")),
    }
}

/// Two increments that met side by side are both counted: each is what was added to the common ancestor.
fn add_up(conflict: &Conflict) -> Resolution {
    let Some(ancestor) = &conflict.ancestor else {
        return Resolution::Abort("what the counts have in common is not held any more".to_owned());
    };
    let base = number(ancestor.value());
    let added = conflict.siblings.iter().map(Sibling::value).map(|value| number(value).saturating_sub(base));
    Resolution::Merge((base + added.sum::<u64>()).to_string().into())
}

fn number(value: Option<&Bytes>) -> u64 {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}
