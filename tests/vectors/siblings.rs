//! `siblings.json`: which versions of a set are live, and which are superseded.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::identity::ActorId;
use tanist::core::siblings::Siblings;
use tanist::core::version::Version;
use tanist::core::write::{Body, Write, WriteId};

use crate::support::{File, hex, shown};
use crate::world::World;

/// Live ids, and ids known to be superseded, when `versions` are merged in the given order.
fn merge(
    versions: &[&Version],
    index: &[(WriteId, WriteId)],
    distrusted: &[ActorId],
) -> (Vec<WriteId>, Vec<WriteId>) {
    let mut siblings = Siblings::default();
    let mut known = BTreeMap::new();
    let distrust = |actor| distrusted.contains(&actor);
    for (id, by) in index {
        let joined = siblings.supersede(*id, *by, &known, &distrust);
        known.extend(joined.superseded);
    }
    for version in versions {
        let joined = siblings.join((*version).clone(), &known, &distrust);
        known.extend(joined.superseded);
    }
    (siblings.live_ids(), known.into_keys().collect())
}

struct Sets {
    file: File,
}

impl Sets {
    fn case(
        &self,
        name: &str,
        versions: &[&Version],
        index: &[(WriteId, WriteId)],
        distrusted: &[ActorId],
    ) -> Value {
        json!({
            "name": name, "kind": "set",
            "versions": versions.iter().map(|version| hex(codec::encode(*version))).collect::<Vec<_>>(),
            "index": shown(index), "distrusted": shown(distrusted),
        })
    }

    fn accept(
        &mut self,
        name: &str,
        versions: &[&Version],
        index: &[(WriteId, WriteId)],
        distrusted: &[ActorId],
        live: &[&Write],
    ) {
        let (found, superseded) = merge(versions, index, distrusted);
        let mut reversed = versions.to_vec();
        reversed.reverse();
        assert_eq!(merge(&reversed, index, distrusted), (found.clone(), superseded.clone()), "{name}");
        let expected: BTreeSet<WriteId> = live.iter().map(|write| write.id()).collect();
        assert_eq!(found, Vec::from_iter(expected), "{name}");
        let mut case = self.case(name, versions, index, distrusted);
        case["live"] = shown(&found);
        case["superseded"] = shown(&superseded);
        self.file.valid(case);
    }

    /// A result that a wrong rule comes to.
    fn refuse(
        &mut self,
        name: &str,
        versions: &[&Version],
        index: &[(WriteId, WriteId)],
        distrusted: &[ActorId],
        live: &[&Write],
    ) {
        let (found, superseded) = merge(versions, index, distrusted);
        let claimed: BTreeSet<WriteId> = live.iter().map(|write| write.id()).collect();
        let claimed = Vec::from_iter(claimed);
        assert_ne!(found, claimed, "{name}");
        let mut case = self.case(name, versions, index, distrusted);
        case["live"] = shown(&claimed);
        case["superseded"] = shown(&superseded);
        case["reason"] = json!("live");
        self.file.invalid(case);
    }
}

#[test]
fn siblings() {
    let world = World::new();
    let file = File::new("siblings.json", "causality.md");
    let mut sets = Sets { file };
    let put = |nonce: u8, parents: &[&Write]| world.write("cart", nonce, parents, Body::put(&[nonce]));
    let none: [(WriteId, WriteId); 0] = [];

    // Attack 2: X and Y are siblings; Z read Y alone.
    let (x, y) = (put(1, &[]), put(2, &[]));
    let z = put(3, &[&y]);
    let vx = world.version(&x, &[(0, 3, 9, world.past(&[(0, 0, 3)]))]);
    let vy = world.version(&y, &[(0, 16, 17, world.past(&[(0, 0, 3)]))]);
    let vz = world.version(&z, &[(1, 0, 1, world.past_of(&[&vy]))]);
    sets.accept("nothing", &[], &none, &[], &[]);
    sets.accept("one version", &[&vx], &none, &[], &[&x]);
    sets.accept("two siblings", &[&vx, &vy], &none, &[], &[&x, &y]);
    sets.accept("a child of one of two siblings", &[&vx, &vy, &vz], &none, &[], &[&x, &z]);
    sets.refuse("a vector: everything up to 17 is gone", &[&vx, &vy, &vz], &none, &[], &[&z]);
    sets.refuse("names ignored, pasts ignored", &[&vx, &vy, &vz], &none, &[], &[&x, &y, &z]);
    sets.refuse("the last one written wins", &[&vx, &vy], &none, &[], &[&y]);
    let merged = put(4, &[&x, &z]);
    let vm = world.version(&merged, &[(2, 0, 1, world.past_of(&[&vx, &vz]))]);
    sets.accept("a child of both", &[&vx, &vz, &vm], &none, &[], &[&merged]);
    sets.accept("a child without its parents", &[&vm], &none, &[], &[&merged]);
    sets.accept("a grandparent and a grandchild", &[&vy, &vm], &none, &[], &[&merged]);
    sets.refuse("only named parents are superseded", &[&vy, &vm], &none, &[], &[&y, &merged]);

    // Attack 5: W was stamped twice; Z2 descends from one of the stamps only.
    let w = put(5, &[]);
    let child = put(6, &[&w]);
    let grandchild = put(7, &[&child]);
    let once = world.version(&w, &[(0, 17, 18, Past::new())]);
    let again = world.version(&w, &[(2, 3, 4, Past::new())]);
    let both = world.version(&w, &[(0, 17, 18, Past::new()), (2, 3, 4, Past::new())]);
    let vchild = world.version(&child, &[(1, 0, 2, world.past_of(&[&once]))]);
    let vgrand = world.version(&grandchild, &[(1, 2, 3, world.past_of(&[&vchild]))]);
    sets.accept("any one stamp in the past is enough", &[&both, &vgrand], &none, &[], &[&grandchild]);
    sets.accept("stamps of one write are united", &[&again, &vgrand, &once], &none, &[], &[&grandchild]);
    sets.accept(
        "one stamp, of which the past does not know",
        &[&again, &vgrand],
        &none,
        &[],
        &[&w, &grandchild],
    );
    let row = [(w.id(), child.id())];
    sets.accept("the index knows better", &[&again, &vgrand], &row, &[], &[&grandchild]);
    sets.refuse("one stamp kept per write", &[&again, &vgrand, &once], &none, &[], &[&w, &grandchild]);
    sets.refuse("the index ignored", &[&again, &vgrand], &row, &[], &[&w, &grandchild]);
    sets.refuse("all stamps must lie in the past", &[&both, &vgrand], &none, &[], &[&w, &grandchild]);

    // Attack 29: one dot, two writes. The actor is distrusted: only names supersede.
    let (one, two) = (put(8, &[]), put(9, &[]));
    let reader = put(10, &[&one]);
    let vone = world.version(&one, &[(0, 49, 50, Past::new())]);
    let vtwo = world.version(&two, &[(0, 49, 50, Past::new())]);
    let vreader = world.version(&reader, &[(1, 9, 10, world.past_of(&[&vone]))]);
    let liar = [world.actor(0)];
    sets.accept("an equivocator's versions", &[&vone, &vtwo], &none, &liar, &[&one, &two]);
    sets.accept(
        "an equivocator's version goes only by name",
        &[&vone, &vtwo, &vreader],
        &none,
        &liar,
        &[&two, &reader],
    );
    sets.refuse("an equivocator's dot believed", &[&vone, &vtwo, &vreader], &none, &liar, &[&reader]);
    sets.refuse("a name is not enough", &[&vone, &vtwo, &vreader], &none, &liar, &[&one, &two, &reader]);

    // An event is a range: half of it in the past is not the event.
    let (wide, after) = (put(11, &[]), put(12, &[&x]));
    let vwide = world.version(&wide, &[(2, 10, 20, Past::new())]);
    let vafter = world.version(&after, &[(1, 20, 21, world.past(&[(0, 0, 9), (2, 15, 20)]))]);
    sets.accept("an event that is half covered", &[&vwide, &vafter], &none, &[], &[&wide, &after]);
    sets.refuse("a counter instead of a range", &[&vwide, &vafter], &none, &[], &[&after]);
    let gone = world.write("cart", 13, &[&x], Body::Delete);
    let vgone = world.version(&gone, &[(2, 20, 30, world.past_of(&[&vx]))]);
    sets.accept("a deletion is a version", &[&vx, &vgone], &none, &[], &[&gone]);
    sets.refuse("a deletion leaves nothing", &[&vx, &vgone], &none, &[], &[]);
    sets.refuse("a deletion beside a sibling wins", &[&vx, &vy, &vgone], &none, &[], &[&gone]);
    sets.refuse("a deletion beside a sibling loses", &[&vx, &vy, &vgone], &none, &[], &[&y]);
    sets.accept("a deletion and a sibling", &[&vx, &vy, &vgone], &none, &[], &[&y, &gone]);
    sets.refuse("a set that is empty, with a live version", &[], &none, &[], &[&x]);
    sets.refuse("a version that was never seen", &[&vx], &none, &[], &[&x, &y]);
    sets.refuse("a parent that is live", &[&vm], &none, &[], &[&x, &merged]);
    sets.refuse(
        "the stamps of one write taken for two versions",
        &[&once, &again],
        &none,
        &[],
        &[&w, &child],
    );
    sets.file.check();
}
