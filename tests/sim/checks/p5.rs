//! P5: outcomes are typed; what is unknown is never told as refused, and what is refused never happens.

use tanist::client::attempt::Verdict as Told;
use tanist::core::write::WriteId;
use tanist::wire::client::Submitted;
use tanist::wire::registry::Reply;

use super::p3;
use crate::history::Verdict;
use crate::world::World;

/// A register never takes what was refused, fenced or forbidden.
pub fn of_registers(world: &World) -> Result<(), String> {
    // Two writes of one generation are a matter of P3.
    let Ok(made) = p3::generations(&world.book) else { return Ok(()) };
    for id in made.values() {
        if world.book.refused.contains(id) {
            return Err(format!("{id:?} was refused for good, and applied"));
        }
    }
    Ok(())
}

/// What the SDK told the application holds: "nothing changed" is said only when no attempt changed
/// anything.
pub fn of_siblings(world: &World) -> Result<(), String> {
    for ended in world.clients.iter().flat_map(|client| &client.ended) {
        let nothing = match &ended.verdict {
            Told::Answer(Reply::Submitted(Submitted::Refused { .. }) | Reply::Failure(_)) => true,
            Told::Unavailable(_) => true,
            Told::Answer(_) | Told::Unknown(_) | Told::Forged(_) => false,
        };
        let effect =
            ended.attempts.iter().find(|n| world.history.attempts[**n].verdict() != Verdict::Nothing);
        if let (true, Some(attempt)) = (nothing, effect) {
            let write: WriteId = ended.write;
            return Err(format!(
                "the application was told that {write:?} changed nothing, and attempt {attempt} may have: {:?}",
                ended.verdict
            ));
        }
    }
    Ok(())
}
