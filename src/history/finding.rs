//! What a judge found wrong.

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule: a few words that never change.
    pub rule: &'static str,
    /// The operations that show it, as places in the list that was judged: as few as could be found, in
    /// the order in which they explain it.
    pub operations: Vec<usize>,
}

impl Finding {
    pub(super) fn new(rule: &'static str, operations: impl IntoIterator<Item = usize>) -> Self {
        Finding { rule, operations: operations.into_iter().collect() }
    }
}
