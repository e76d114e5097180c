//! Ready-made resolvers, for [`Siblings::resolve_with`](super::Siblings::resolve_with).

use super::reading::{Conflict, Resolution};

/// Keeps every sibling: reads show all of them, and the application decides.
pub fn union_keep_all(conflict: &Conflict) -> Resolution {
    let _ = conflict;
    Resolution::Keep
}

/// Takes the sibling of the highest generation, and of the greatest id among these.
///
/// **It discards every other sibling**, acknowledged writes among them.
pub fn longest_chain(conflict: &Conflict) -> Resolution {
    let _ = conflict;
    unimplemented!()
}

/// Merges sets of byte strings with observed-remove semantics.
pub fn add_remove_set(conflict: &Conflict) -> Resolution {
    let _ = conflict;
    unimplemented!()
}
