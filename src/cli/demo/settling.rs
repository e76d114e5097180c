//! The answer to a write is lost on its way. What became of the write is found out later, by somebody else.

use std::time::Duration;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::creating::shortened;
use super::world::{REGISTERS, World, name};
use crate::cli::relay::{Faults, Relay};
use crate::client::{Client, Ticket, WriteError, Written};

const KEY: &str = "invoice-7";
const NODE: usize = 0;
/// How long the writer waits for an answer.
const PATIENCE: Duration = Duration::from_millis(700);
const SEED: u64 = 7;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let jobs = world.registers().await?;
    let Written::Applied { .. } = jobs.overwrite(KEY, "open").await? else {
        return Err(Surprise::new("the first write was refused"));
    };
    let (Some(member), Some(address)) = (world.local.member(NODE), world.local.address(NODE)) else {
        return Err(Surprise::new("there is no node"));
    };
    // The writer knows one node, behind a wire that loses answers from some moment on.
    let wire = Relay::start("writer to node-1", address, SEED).await?;
    let addresses = [(member, vec![wire.address()])].into();
    let ticket = Ticket::new(world.local.ticket().genesis().clone(), addresses)?;
    let writer = Client::builder().identity(world.client.identity().clone()).timeout(PATIENCE);
    let through = writer.connect(&ticket).await?.at(&name(NODE))?.linearizable(REGISTERS).await?;
    let basis = through.get(KEY).await?;
    wire.back().set(Faults::CUT);
    let Err(WriteError::Unknown(unknown)) = through.replace(&basis, "paid").await else {
        return Err(Surprise::new("a write got an answer, though no answer could pass"));
    };
    let lost = wire.back().counts().lost;
    let receipt = world.local.dir().join("receipt");
    std::fs::write(&receipt, unknown.receipt().to_bytes())?;
    if world.breaks(Rule::Settle) {
        jobs.overwrite(KEY, "written over").await?;
    }

    let begun = world.clock.now();
    let receipt = receipt.to_string_lossy();
    let settle = ["outcome", REGISTERS, KEY, &receipt, "--settle"];
    let verdict = world.tanist(&settle).await?;
    let took = world.clock.now() - begun;
    let again = world.tanist(&settle).await?;
    let version = unknown.version().to_string();
    let applied = |output: &std::process::Output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).trim() == version
    };
    let read = jobs.get(KEY).await?;
    let value = read.value()?.cloned().unwrap_or_default();
    let once = read.siblings().iter().all(|sibling| sibling.version().to_string() == version);

    let holds = lost > 0 && applied(&verdict) && applied(&again) && value == "paid" && once;
    let found = format!(
        "{} took it, its answer was dropped: unknown after {} ms; `outcome --settle` says applied, as {}, in {took} ms, \
         and again; the value is {:?}",
        name(NODE),
        PATIENCE.as_millis(),
        shortened(&version),
        String::from_utf8_lossy(&value),
    );
    let found = if holds { found } else { format!("{found}; it says {}", said(&verdict)) };
    Ok(Finding::new(holds, found).number("packets_lost", lost).number("settle_ms", took))
}

fn said(output: &std::process::Output) -> String {
    let words = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    words.join(" ")
}
