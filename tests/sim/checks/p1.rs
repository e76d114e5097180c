//! P1: an acknowledged write is live, or was superseded by a write that names it or descends from
//! one that does.
//!
//! The final set is exactly the maximal elements of the acknowledged writes' history; writes whose
//! outcome nobody knows may be in it or not.

use tanist::core::write::WriteId;

use crate::healing::Final;
use crate::world::World;

/// After the heal phase.
pub fn at_end(world: &World, last: &Final) -> Result<(), String> {
    let ledger = world.history.ledger();
    for (key, live) in last {
        for (write, _) in ledger.acknowledged_of(key) {
            if !world.history.covered(write, live) {
                return Err(format!("{write:?} of {key} was acknowledged and is gone: live are {live:?}"));
            }
        }
        for id in live {
            if !world.history.writes.contains_key(id) {
                return Err(format!("{id:?} of {key} is live, and no client wrote it"));
            }
        }
    }
    Ok(())
}

/// A read that a quorum answered shows every write that was acknowledged before it began, or what
/// came after. Not claimed when a disk lost something.
pub fn of_reads(world: &World) -> Result<(), String> {
    use crate::history::{Asked, Verdict};
    use tanist::wire::registry::Reply;
    if !world.damaged.is_empty() {
        return Ok(());
    }
    let attempts = &world.history.attempts;
    for (number, read) in attempts.iter().enumerate() {
        let Asked::Read { key, local: false } = &read.asked else { continue };
        let Some((_, Reply::Versions(shown))) = &read.released else { continue };
        let live: Vec<WriteId> =
            shown.versions.iter().filter(|listed| listed.live).map(|listed| listed.version.id()).collect();
        for earlier in attempts {
            let Asked::Submit(write) = earlier.asked else { continue };
            let before = earlier.released.as_ref().is_some_and(|(at, _)| *at < read.sent);
            let acknowledged = matches!(earlier.verdict(), Verdict::Acknowledged(_));
            let same = world.history.writes.get(&write).is_some_and(|w| w.key() == key);
            if before && acknowledged && same && !world.history.covered(write, &live) {
                return Err(format!("attempt {number} read {live:?} after {write:?} was acknowledged"));
            }
        }
    }
    Ok(())
}
