//! P4: the same write has one id and one effect.

use tanist::wire::client::{Failure, Submitted};
use tanist::wire::registry::{PeerMessage, Reply};

use crate::healing::Final;
use crate::history::Verdict;
use crate::world::World;

/// A message leaves a node: no event is ever stamped twice. A disk that went back may make its actor
/// do it: until it is noticed, or if nobody remembers what it lost (seed 105609).
pub fn on_send(world: &mut World, message: &PeerMessage) -> Result<(), String> {
    let versions = match message {
        PeerMessage::Exchange(m) => &m.versions,
        PeerMessage::Exchanged(m) => &m.versions,
        _ => return Ok(()),
    };
    let excused = world.forgot_unnoticed() || world.twins;
    for version in versions {
        for stamp in version.stamps.iter() {
            let dot = stamp.stamp().dot();
            let first = *world.dots.entry(dot).or_insert(stamp.hash());
            if first != stamp.hash() && !excused {
                return Err(format!("event {dot:?} was stamped twice"));
            }
        }
    }
    Ok(())
}

/// After the heal phase: no version lives beside one that descends from it, and nothing lives that
/// every attempt said was not done.
pub fn at_end(world: &World, last: &Final) -> Result<(), String> {
    let ledger = world.history.ledger();
    for (key, live) in last {
        for id in live {
            if let Some(child) = live.iter().find(|other| world.history.descends(**other, *id)) {
                return Err(format!("{key}: {id:?} lives beside its own descendant {child:?}"));
            }
            if ledger.without_effect.contains(id) {
                let tries: Vec<usize> = world.history.submissions(*id).map(|(number, _)| number).collect();
                return Err(format!(
                    "{key}: {id:?} lives, and all attempts {tries:?} said that nothing was done"
                ));
            }
        }
    }
    Ok(())
}

/// Once a write was acknowledged, no later attempt says that it was refused. Not claimed when a disk
/// lost something, nor once the write's epoch is over.
pub fn of_retries(world: &World) -> Result<(), String> {
    if !world.damaged.is_empty() {
        return Ok(());
    }
    for id in world.history.writes.keys() {
        let first = world
            .history
            .submissions(*id)
            .filter(|(_, attempt)| matches!(attempt.verdict(), Verdict::Acknowledged(_)))
            .filter_map(|(_, attempt)| attempt.released.as_ref().map(|(at, _)| *at))
            .min();
        let Some(first) = first else { continue };
        for (number, attempt) in world.history.submissions(*id) {
            let refused = match &attempt.released {
                Some((_, Reply::Submitted(Submitted::Refused { .. }))) => true,
                Some((_, Reply::Failure(failure))) => matches!(
                    failure,
                    Failure::UnknownParents(_) | Failure::Generation | Failure::TooManySiblings(_)
                ),
                _ => false,
            };
            if refused && attempt.sent > first {
                return Err(format!("attempt {number} of {id:?} was refused after it had been acknowledged"));
            }
        }
    }
    Ok(())
}
