//! Whether what is on disk is all that was on disk (P11).
//!
//! A node that forgot a promise, a vote or an acknowledged write, and goes on under the same name,
//! breaks every majority it was part of. So whoever cannot show that nothing is missing comes back
//! as a new actor. This is the part a node can tell alone; what it cannot, its peers' memory can.

use crate::core::identity::Incarnation;

/// What the high-water file remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// The incarnation that wrote the batch.
    pub incarnation: Incarnation,
    /// The last batch that was synced, or a slightly earlier one.
    pub batch: u64,
}

/// Whether the data forgot something, and how that shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amnesia {
    /// Nothing shows that something is missing.
    None,
    /// There was an incarnation, but its store is gone.
    Missing,
    /// The store lost batches that had been synced.
    Behind {
        /// The last batch in the store.
        store: u64,
        /// The last batch that is known to have been synced.
        high_water: u64,
    },
    /// The store, or a file that tells whether it is complete, cannot be read.
    Unreadable(String),
}

impl Amnesia {
    /// The verdict on what was found: the incarnation, the last batch of the store, and the mark
    /// beside it.
    ///
    /// An incarnation whose mark is missing or is another one's cannot show that its store is
    /// complete, so it counts as forgetful.
    pub fn judge(incarnation: Option<Incarnation>, store: Option<u64>, mark: Option<Mark>) -> Amnesia {
        match (incarnation, store, mark) {
            // A directory nobody ever wrote to.
            (None, None | Some(0), None) => Amnesia::None,
            (_, None, _) => Amnesia::Missing,
            (None, Some(_), _) => {
                Amnesia::Unreadable("the incarnation file is missing or damaged".to_owned())
            }
            (Some(_), Some(_), None) => {
                Amnesia::Unreadable("the high-water file is missing or damaged".to_owned())
            }
            (Some(incarnation), Some(_), Some(mark)) if mark.incarnation != incarnation => {
                Amnesia::Unreadable("the high-water file is of another incarnation".to_owned())
            }
            (Some(_), Some(store), Some(mark)) if store < mark.batch => {
                Amnesia::Behind { store, high_water: mark.batch }
            }
            (Some(_), Some(_), Some(_)) => Amnesia::None,
        }
    }

    /// Whether the node must come back as a new actor.
    pub fn is_new_actor(&self) -> bool {
        *self != Amnesia::None
    }
}

impl std::fmt::Display for Amnesia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amnesia::None => f.write_str("the data is complete as far as this node can tell"),
            Amnesia::Missing => f.write_str("the store is gone: this node comes back as a new actor"),
            Amnesia::Behind { store, high_water } => write!(
                f,
                "the store ends at batch {store}, but batch {high_water} had been synced: this node comes back as a new actor"
            ),
            Amnesia::Unreadable(why) => write!(f, "{why}: this node comes back as a new actor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Incarnation = Incarnation([1; 16]);

    fn mark(batch: u64) -> Option<Mark> {
        Some(Mark { incarnation: ME, batch })
    }

    #[test]
    fn only_a_complete_store_or_a_blank_one_is_no_new_actor() {
        assert_eq!(Amnesia::judge(None, None, None), Amnesia::None);
        assert_eq!(Amnesia::judge(None, Some(0), None), Amnesia::None, "created, never named");
        assert_eq!(Amnesia::judge(Some(ME), Some(7), mark(7)), Amnesia::None);
        assert_eq!(Amnesia::judge(Some(ME), Some(8), mark(7)), Amnesia::None, "synced before its mark was");
        assert_eq!(Amnesia::judge(Some(ME), Some(6), mark(7)), Amnesia::Behind { store: 6, high_water: 7 });
        assert_eq!(Amnesia::judge(Some(ME), None, mark(7)), Amnesia::Missing);
        assert_eq!(Amnesia::judge(None, None, mark(7)), Amnesia::Missing);
        for (incarnation, mark) in
            [(Some(ME), None), (Some(Incarnation([2; 16])), mark(7)), (None, mark(7)), (None, None)]
        {
            let verdict = Amnesia::judge(incarnation, Some(7), mark);
            assert!(matches!(verdict, Amnesia::Unreadable(_)), "{incarnation:?} {mark:?}: {verdict}");
        }
    }
}
