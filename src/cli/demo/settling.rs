//! A node is cut off while it takes a write, so that the writer gets no answer.

use std::time::Duration;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{REGISTERS, World, name};
use crate::cli::relay::Faults;
use crate::client::{WriteError, Written};

const KEY: &str = "invoice-7";
/// How long the writer waits for an answer.
const PATIENCE: Duration = Duration::from_millis(700);

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let jobs = world.registers().await?;
    let Written::Applied { version, .. } = jobs.overwrite(KEY, "open").await? else {
        return Err(Surprise::new("the first write was refused"));
    };
    let basis = jobs.get(KEY).await?;
    let through = world.connect_at(0, PATIENCE).await?.linearizable(REGISTERS).await?;
    // Connected, so that it is the answer that is lost, not the request.
    through.get(KEY).await?;
    let wires = world.local.network().ok_or_else(|| Surprise::new("there are no wires"))?;
    wires.set_around(0, Faults::CUT);
    let answer = through.replace(&basis, "paid").await;
    wires.set_around(0, Faults::default());
    let Err(WriteError::Unknown(unknown)) = answer else {
        return Err(Surprise::new("a write through a node that was cut off got an answer"));
    };
    if world.breaks(Rule::Settle) {
        jobs.overwrite(KEY, "written over").await?;
    }
    let healed = world.clock.now();
    let verdict = world.client.settle(unknown.receipt()).await?;
    let took = world.clock.now() - healed;
    let again = world.client.settle(unknown.receipt()).await?;
    let read = jobs.get(KEY).await?;
    let value = read.value()?.cloned().unwrap_or_default();

    let applied = verdict.applied().is_some();
    let expected = if applied { "paid" } else { "open" };
    let holds = applied == again.applied().is_some() && value == expected;
    let found = format!(
        "written through {}, which was cut off: no answer in {} ms; settled as {} {took} ms after the cut healed, and \
         so again; the value is {:?}, after {}",
        name(0),
        PATIENCE.as_millis(),
        if applied { "applied" } else { "refused" },
        String::from_utf8_lossy(&value),
        super::creating::shortened(&version.to_string()),
    );
    Ok(Finding::new(holds, found).number("applied", applied).number("settle_ms", took))
}
