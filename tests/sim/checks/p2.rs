//! P2: if 2W > N and two writes that read the same are both acknowledged, at least one
//! acknowledgement lists the other or a version after it.

use std::collections::BTreeMap;

use crate::world::World;

/// After the heal phase. Not claimed when a disk lost something.
pub fn at_end(world: &World) -> Result<u64, String> {
    if !world.damaged.is_empty() {
        return Ok(0);
    }
    let ledger = world.history.ledger();
    let mut readers = BTreeMap::new();
    for id in ledger.acknowledged.keys() {
        if let Some(prepared) = world.history.writes.get(id) {
            let write = prepared.signed.write();
            readers.entry((write.key.clone(), write.parents.clone())).or_insert_with(Vec::new).push(*id);
        }
    }
    let mut pairs = 0;
    for writes in readers.values() {
        for (n, one) in writes.iter().enumerate() {
            for other in &writes[n + 1..] {
                pairs += 1;
                for (first, of_one) in &ledger.acknowledged[one] {
                    for (second, of_other) in &ledger.acknowledged[other] {
                        let told =
                            world.history.covered(*other, of_one) || world.history.covered(*one, of_other);
                        if !told {
                            return Err(format!(
                                "{one:?} and {other:?} read the same and were both acknowledged (attempts \
                                 {first} and {second}), and nobody was told"
                            ));
                        }
                    }
                }
            }
        }
    }
    Ok(pairs)
}
