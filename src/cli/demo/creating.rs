//! Two processes create the same key.

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{REGISTERS, World};

const KEY: &str = "seat-12";
/// Refused: what was named is not what is there.
const REFUSED: i32 = 3;

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let first = world.tanist(&["create", REGISTERS, KEY, "alice", "--at", "node-1"]).await?;
    if world.breaks(Rule::Create) {
        world.registers().await?.delete_any(KEY).await?;
    }
    let second = world.tanist(&["create", REGISTERS, KEY, "bob", "--at", "node-2"]).await?;
    let winner = String::from_utf8_lossy(&first.stdout).trim().to_owned();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    let there = world.registers().await?.get(KEY).await?;
    let value = there.value()?.cloned().unwrap_or_default();

    let (won, lost) = (first.status.code(), second.status.code());
    let named = !winner.is_empty() && told.contains(&winner);
    let holds = won == Some(0) && lost == Some(REFUSED) && named && value == "alice";
    let code = |code: Option<i32>| code.map_or("none".to_owned(), |code| code.to_string());
    let found = format!(
        "exit codes {} and {}; the second was {} the winner {}; the value is {:?}",
        code(won),
        code(lost),
        if named { "told" } else { "not told" },
        shortened(&winner),
        String::from_utf8_lossy(&value),
    );
    Ok(Finding::new(holds, found)
        .number("first_exit", won)
        .number("second_exit", lost)
        .number("named", named))
}

/// The beginning of a version's name: enough to recognise it.
pub(super) fn shortened(version: &str) -> String {
    match version.char_indices().nth(12) {
        Some((at, _)) => format!("{}..", &version[..at]),
        None => version.to_owned(),
    }
}
