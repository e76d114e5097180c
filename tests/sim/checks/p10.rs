//! P10: no wall clock decides. Clients stamp their writes with clocks that have nothing to do with each
//! other, and what replaces a write is as often earlier by them as later.

use crate::healing::Final;
use crate::world::World;

/// Milliseconds of a hundred years.
const CENTURY: u64 = 100 * 365 * 86_400_000;

/// A time since 1970 that is as random as the nonce of what it is for.
pub fn wild_clock(nonce: [u8; 16]) -> u64 {
    u64::from_be_bytes(*nonce.first_chunk().expect("8 of 16 bytes")) % CENTURY
}

/// After the heal phase: acknowledged writes that are earlier, by the clocks, than one that they replace,
/// stand like all others. How many there are.
pub fn at_end(world: &World, last: &Final) -> Result<u64, String> {
    let ledger = world.history.ledger();
    let mut behind = 0;
    for (key, live) in last {
        for (id, _) in ledger.acknowledged_of(key) {
            let write = world.history.writes[&id].signed.write();
            let clock = |id| world.history.writes.get(id).map(|parent| parent.signed.write().wall_ms);
            if write.parents.iter().filter_map(clock).any(|before| before > write.wall_ms) {
                behind += 1;
                if !world.history.covered(id, live) {
                    return Err(format!(
                        "{id:?} of {key} is gone, and by the clocks it is earlier than what it replaced"
                    ));
                }
            }
        }
    }
    Ok(behind)
}
