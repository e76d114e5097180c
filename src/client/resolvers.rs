//! Ready-made resolvers, for [`Siblings::resolve_with`](super::Siblings::resolve_with).

use std::collections::BTreeSet;

use bytes::Bytes;

use super::reading::{Conflict, Resolution, Sibling};
use crate::core::codec;

/// Keeps every sibling: reads show all of them, and the application decides.
pub fn union_keep_all(_: &Conflict) -> Resolution {
    Resolution::Keep
}

/// Takes the sibling of the highest generation, and of the greatest id among these.
///
/// **It discards every other sibling**: writes that were acknowledged are superseded without a trace in
/// the value. A deletion can win. The highest generation has been written most often, not last.
pub fn longest_chain(conflict: &Conflict) -> Resolution {
    let order = |sibling: &&Sibling| (sibling.version().generation(), sibling.version().id());
    match conflict.siblings.iter().max_by_key(order).map(Sibling::value) {
        Some(Some(value)) => Resolution::Merge(value.clone()),
        Some(None) => Resolution::Delete,
        None => Resolution::Keep,
    }
}

/// Merges [sets](encode_set) with observed-remove semantics: an element is in the result if a sibling
/// added it, or if no sibling removed it.
///
/// What a sibling added or removed is told by the common ancestor. An element that one sibling removed
/// and another, not knowing, still has is removed; one that another added anew without the ancestor
/// having it stays. **Without a known ancestor nothing is removed**: the result is the union of all
/// elements, and a removal that was made on one side may be undone. A deleted key is the empty set; the
/// merged set of nothing is an empty set, not a deletion. Siblings that are not sets abort the read.
pub fn add_remove_set(conflict: &Conflict) -> Resolution {
    let decoded = conflict.siblings.iter().map(|sibling| set_of(Some(sibling)));
    let Some(sets) = decoded.collect::<Option<Vec<_>>>() else {
        return Resolution::Abort(format!("a sibling of {} is not an encoded set", conflict.key));
    };
    let Some(ancestor) = set_of(conflict.ancestor.as_ref()) else {
        return Resolution::Abort(format!("the common ancestor of {} is not an encoded set", conflict.key));
    };
    let everything: BTreeSet<&Vec<u8>> = sets.iter().flatten().collect();
    let merged = everything.into_iter().filter(|element| {
        let added = !ancestor.contains(*element);
        added || sets.iter().all(|set| set.contains(*element))
    });
    Resolution::Merge(encode_set(merged))
}

/// A set as a value: an 8-byte big-endian number of elements, then each with its 8-byte big-endian
/// length, sorted by their bytes, none twice.
pub fn encode_set<E: AsRef<[u8]>>(elements: impl IntoIterator<Item = E>) -> Bytes {
    let elements: BTreeSet<Vec<u8>> = elements.into_iter().map(|element| element.as_ref().to_vec()).collect();
    codec::encode(&elements.into_iter().collect::<Vec<_>>()).into()
}

/// The set that [`encode_set`] made a value of, or `None` if `value` is something else.
pub fn decode_set(value: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let elements: Vec<Vec<u8>> = codec::decode(value).ok()?;
    let sorted = elements.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
    sorted.then(|| elements.into_iter().collect())
}

/// The set of a sibling; the empty one if there is none or it is a deletion.
fn set_of(sibling: Option<&Sibling>) -> Option<BTreeSet<Vec<u8>>> {
    match sibling.and_then(Sibling::value) {
        None => Some(BTreeSet::new()),
        Some(value) => decode_set(value),
    }
}
