//! P7: once a register's state was chosen under a term, no write of a lower one is applied to it.

use std::collections::BTreeMap;

use super::p3::generations;
use crate::world::World;

/// After the heal phase.
pub fn at_end(world: &World) -> Result<(), String> {
    let book = &world.book;
    let mut terms: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    // Two writes of one generation are a matter of P3.
    let Ok(made) = generations(book) else { return Ok(()) };
    // In the order of registers and generations.
    for ((register, generation), id) in made {
        let write = book.entries[&id].signed.write();
        if write.namespace != world.founding.registers {
            continue;
        }
        let term = write.fence.as_ref().map_or(0, |fence| fence.term.number);
        let (before, at) = terms.get(&register).copied().unwrap_or((0, 0));
        if term < before {
            return Err(format!(
                "{}: generation {generation} was written under term {term}, generation {at} under {before}",
                write.key
            ));
        }
        for (sealed_at, sealed) in book.seals.get(&write.key).into_iter().flatten() {
            if generation > *sealed_at && term < *sealed {
                return Err(format!(
                    "{}: generation {generation} was written under term {term}, after term {sealed} had \
                     sealed generation {sealed_at}",
                    write.key
                ));
            }
        }
        terms.insert(register, (term, generation));
    }
    Ok(())
}
