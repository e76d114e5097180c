//! The interleavings of the design's attacks, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tanist::core::codec;
use tanist::core::events::{Past, Range};
use tanist::core::identity::ActorId;
use tanist::core::limits;
use tanist::core::siblings::Siblings;
use tanist::core::version::Version;
use tanist::core::write::WriteId;

use crate::build::{actor, past_of, stamp, version, write};
use crate::history::vector;

fn live(versions: &[&Version], distrusted: &[ActorId]) -> Vec<WriteId> {
    let (mut siblings, mut index) = (Siblings::default(), BTreeMap::new());
    for version in versions {
        let joined = siblings.join((*version).clone(), &index, &|actor| distrusted.contains(&actor));
        index.extend(joined.superseded);
    }
    siblings.live_ids()
}

fn sorted(versions: &[&Version]) -> Vec<WriteId> {
    let mut ids: Vec<WriteId> = versions.iter().map(|version| version.id()).collect();
    ids.sort();
    ids
}

fn past(ranges: &[(usize, u64, u64)]) -> Past {
    let mut past = Past::new();
    for (n, after, upto) in ranges {
        past.insert(actor(*n), Range { after: *after, upto: *upto });
    }
    past
}

#[test]
fn attack_02_an_acknowledged_sibling_outlives_a_write_that_missed_it() {
    // X = (A,9) and Y = (A,17) are siblings; Z names Y at B, which missed X.
    let (x, y) = (write(1, &[]), write(2, &[]));
    let z = write(3, &[&y]);
    let vx = version(&x, &[stamp(&x, 0, 3, 9, past(&[(0, 0, 3)]))]);
    let vy = version(&y, &[stamp(&y, 0, 16, 17, past(&[(0, 0, 3)]))]);
    let exact = version(&z, &[stamp(&z, 1, 0, 1, past_of(&[&vy]))]);
    assert_eq!(live(&[&vx, &vy, &exact], &[]), sorted(&[&vx, &exact]));
    assert_eq!(live(&[&exact, &vx], &[]), sorted(&[&vx, &exact]));
    let planted = version(&z, &[stamp(&z, 1, 0, 1, vector(&past_of(&[&vy])))]);
    assert_eq!(live(&[&vx, &vy, &planted], &[]), sorted(&[&planted]), "a vector does lose X");
}

#[test]
fn attack_05_any_one_stamp_in_a_past_supersedes() {
    // W was stamped by A and, on a retry, by C. Z2's past knows A's stamp only, and does not name W.
    let w = write(1, &[]);
    let (by_a, by_c) = (stamp(&w, 0, 17, 18, Past::new()), stamp(&w, 2, 3, 4, Past::new()));
    let (at_a, at_c) = (version(&w, &[Arc::clone(&by_a)]), version(&w, &[Arc::clone(&by_c)]));
    let z = write(2, &[&w]);
    let vz = version(&z, &[stamp(&z, 1, 0, 2, past_of(&[&at_a]))]);
    let z2 = write(3, &[&z]);
    let vz2 = version(&z2, &[stamp(&z2, 1, 2, 3, past_of(&[&vz]))]);
    let both = version(&w, &[by_a, by_c]);
    for order in [[&both, &vz2], [&vz2, &both]] {
        assert_eq!(live(&order, &[]), sorted(&[&vz2]));
    }
    for order in [[&at_a, &at_c, &vz2], [&at_c, &vz2, &at_a], [&vz2, &at_a, &at_c]] {
        assert_eq!(live(&order, &[]), sorted(&[&vz2]), "stamps are united, in any order");
    }
    assert_eq!(live(&[&at_c, &vz2], &[]), sorted(&[&at_c, &vz2]), "one stamp kept: the false sibling stays");
}

#[test]
fn attack_05_an_exchange_of_superseded_ids_ends_a_false_sibling() {
    let w = write(1, &[]);
    let z = write(2, &[&w]);
    let at_c = version(&w, &[stamp(&w, 2, 3, 4, Past::new())]);
    let mut siblings = Siblings::default();
    let nobody = |_| false;
    siblings.join(at_c.clone(), &BTreeMap::new(), &nobody);
    assert!(siblings.is_live(w.id()));
    let joined = siblings.supersede(w.id(), z.id(), &BTreeMap::new(), &nobody);
    assert_eq!(joined.superseded, [(w.id(), z.id())]);
    assert_eq!(joined.dropped, [w.id()]);
    assert!(siblings.is_empty());
    let index: BTreeMap<_, _> = joined.superseded.into_iter().collect();
    let late = siblings.join(at_c, &index, &nobody);
    assert!(!late.added && siblings.is_empty(), "a late duplicate does not come back");
}

/// The limit of attack 5's rule. A replica forgets the stamps of a version it drops, so it can meet an
/// ancestor of which only a forgotten past knew. The first exchange with anybody who was told that the
/// ancestor is superseded ends it.
#[test]
fn attack_05_a_forgotten_stamp_leaves_a_false_sibling_until_the_next_exchange() {
    // A stamped X, Y, V and W in a row; B stamped X, Y and V again, for retries.
    let x = write(1, &[]);
    let (y, nobody) = (write(2, &[&x]), |_: ActorId| false);
    let v = write(3, &[&y]);
    let w = write(4, &[&v]);
    let (xa, xb) =
        (version(&x, &[stamp(&x, 0, 0, 1, Past::new())]), version(&x, &[stamp(&x, 1, 0, 1, Past::new())]));
    let ya = version(&y, &[stamp(&y, 0, 1, 2, past_of(&[&xa]))]);
    let yb = version(&y, &[stamp(&y, 1, 1, 2, past_of(&[&xb]))]);
    let va = version(&v, &[stamp(&v, 0, 2, 3, past_of(&[&ya]))]);
    let vb = version(&v, &[stamp(&v, 1, 2, 3, past_of(&[&yb]))]);
    let wa = version(&w, &[stamp(&w, 0, 3, 4, past_of(&[&va]))]);
    assert_eq!(live(&[&xb, &vb, &wa], &[]), sorted(&[&wa]), "V's second stamp knows of X's");
    // A bystander gets W, then V, and forgets V's second past with it; X comes last.
    let v2 = write(5, &[&w]);
    let top = version(&v2, &[stamp(&v2, 0, 4, 5, past_of(&[&wa]))]);
    let (mut siblings, mut index) = (Siblings::default(), BTreeMap::new());
    for one in [&wa, &top, &vb, &xb] {
        let joined = siblings.join(one.clone(), &index, &nobody);
        index.extend(joined.superseded);
    }
    assert_eq!(siblings.live_ids(), sorted(&[&xb, &top]));
    // A and B know: they took Y, which names X.
    siblings.supersede(x.id(), y.id(), &index, &nobody);
    assert_eq!(siblings.live_ids(), sorted(&[&top]));
}

#[test]
fn attack_23_a_merge_has_no_cap() {
    // Two sides admitted 64 siblings each; healed there are 128, and one write can name them all.
    let writes: Vec<_> = (0..2 * limits::SIBLINGS_ADMITTED as u64).map(|n| write(n, &[])).collect();
    let versions: Vec<Version> = writes
        .iter()
        .zip(1u64..)
        .map(|(one, n)| version(one, &[stamp(one, n as usize % 2, 2 * n, 2 * n + 1, Past::new())]))
        .collect();
    let all: Vec<&Version> = versions.iter().collect();
    assert_eq!(live(&all, &[]), sorted(&all));
    let resolved = write(1000, &writes.iter().collect::<Vec<_>>());
    let vresolved = version(&resolved, &[stamp(&resolved, 2, 0, 1, past_of(&all))]);
    let bytes = codec::encode(&vresolved);
    assert_eq!(codec::decode::<Version>(&bytes).as_ref(), Ok(&vresolved));
    let mut with = all.clone();
    with.push(&vresolved);
    assert_eq!(live(&with, &[]), sorted(&[&vresolved]));
}

#[test]
fn attack_29_an_equivocators_versions_go_only_by_name() {
    // One dot, two writes. A reader of one writes: its past covers the dot of both.
    let (one, two) = (write(1, &[]), write(2, &[]));
    let vone = version(&one, &[stamp(&one, 0, 49, 50, Past::new())]);
    let vtwo = version(&two, &[stamp(&two, 0, 49, 50, Past::new())]);
    let reader = write(3, &[&one]);
    let vreader = version(&reader, &[stamp(&reader, 1, 0, 1, past_of(&[&vone]))]);
    let liar = [actor(0)];
    for order in [[&vone, &vtwo, &vreader], [&vreader, &vtwo, &vone], [&vtwo, &vreader, &vone]] {
        assert_eq!(live(&order, &liar), sorted(&[&vtwo, &vreader]));
        assert_eq!(live(&order, &[]), sorted(&[&vreader]), "trusted, the dot takes the other with it");
    }
    // Other actors are served as before.
    let other = write(4, &[]);
    let vother = version(&other, &[stamp(&other, 2, 0, 1, Past::new())]);
    let child = write(5, &[&reader]);
    let vchild = version(&child, &[stamp(&child, 1, 1, 2, past_of(&[&vreader, &vother]))]);
    assert_eq!(live(&[&vother, &vreader, &vchild], &liar), sorted(&[&vchild]));
}

#[test]
fn s3_one_actor_may_have_stamped_one_write_twice() {
    // After a lost row A stamps W again; a child descends from the second stamp.
    let w = write(1, &[]);
    let (first, second) = (stamp(&w, 0, 4, 5, Past::new()), stamp(&w, 0, 29, 30, Past::new()));
    let again = version(&w, &[Arc::clone(&second)]);
    let child = write(2, &[&w]);
    let grand = write(3, &[&child]);
    let vchild = version(&child, &[stamp(&child, 1, 0, 1, past_of(&[&again]))]);
    let vgrand = version(&grand, &[stamp(&grand, 1, 1, 2, past_of(&[&vchild]))]);
    let once = version(&w, &[Arc::clone(&first)]);
    for order in [[&once, &again, &vgrand], [&again, &vgrand, &once], [&vgrand, &once, &again]] {
        let both = version(&w, &[Arc::clone(&first), Arc::clone(&second)]);
        assert_eq!(both.stamps.iter().count(), 2);
        assert_eq!(live(&[&both, &vgrand], &[]), sorted(&[&vgrand]));
        let found = live(&order, &[]);
        assert_eq!(found, sorted(&[&vgrand]), "the first stamp does not win by coming first");
    }
}
