//! P6: one tenure per term, and certificates that prove it. That no two processes believe that they
//! own a resource is looked at whenever one begins to.

use crate::world::World;

/// After the heal phase.
pub fn at_end(world: &World) -> Result<(), String> {
    match &world.book.broken {
        Some(what) => Err(what.clone()),
        None => Ok(()),
    }
}
