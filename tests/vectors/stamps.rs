//! `stamps.json`: stamps, and pasts as ranges.

use serde_json::json;
use tanist::core::codec;
use tanist::core::events::{Past, Range};
use tanist::core::identity::ActorId;
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::write::Body;

use crate::support::{Bytes, File, Part, Piece, hex, shown};
use crate::world::{World, node};

#[test]
fn stamps() {
    let world = World::new();
    let mut file = File::new("stamps.json", "causality.md");
    let write = world.write("user-7", 1, &[], Body::put(b"one"));
    let plain = world.stamp(&write, 0, 0, 1, Past::new());
    let seventeen = world.stamp(&write, 0, 41, 42, world.past(&[(0, 0, 3), (0, 16, 17), (1, 5, 9)]));
    let wide = world.stamp(&write, 1, 5, 5000, world.past(&[(0, 0, 42), (1, 0, 5)]));
    for (name, stamp, n) in [
        ("a first event", &plain, 0),
        ("a past with a gap: 17, but not 9", &seventeen, 0),
        ("an event that is a range", &wide, 1),
    ] {
        let signed = world.sign_stamp(stamp.clone(), n);
        let proof = signed.proof().unwrap();
        file.valid(json!({
            "name": name, "kind": "stamp", "fields": shown(stamp), "encoded": hex(codec::encode(stamp)),
            "hash": shown(&stamp.hash()), "key": shown(&node(n).public()),
            "message": hex(proof.message(world.cluster(), stamp.hash())), "signature": hex(proof.signature.0),
            "signed": hex(codec::encode(&*signed)),
        }));
    }

    let mut union = |name: &str, stamps: &[&Stamp]| {
        let mut past = Past::new();
        for stamp in stamps {
            past.union(&stamp.past);
            past.insert(stamp.actor, stamp.event());
        }
        let parents: Vec<_> = stamps.iter().map(|stamp| hex(codec::encode(*stamp))).collect();
        file.valid(json!({
            "name": name, "kind": "past of", "parents": parents, "past": shown(&past), "encoded": hex(codec::encode(&past)),
        }));
        past
    };
    union("a child of nothing", &[]);
    union("a child of a first event", &[&plain]);
    let gapped = union("a child of an event with a gap in its past", &[&seventeen]);
    union("a child of two, whose ranges join", &[&seventeen, &wide]);
    let mut covers = |name: &str, past: &Past, actor: ActorId, after: u64, upto: u64, expected: bool| {
        assert_eq!(past.covers(actor, Range { after, upto }), expected, "{name}");
        let case = json!({
            "name": name, "kind": "covers", "past": hex(codec::encode(past)), "actor": shown(&actor),
            "event": shown(&Range { after, upto }), "covers": expected,
        });
        file.valid(case);
    };
    let a = world.actor(0);
    covers("17 is covered", &gapped, a, 16, 17, true);
    covers("9 is not", &gapped, a, 8, 9, false);
    covers("a range that is half covered is not", &gapped, a, 2, 4, false);
    covers("a range inside a range is", &gapped, a, 0, 2, true);
    covers("an actor that is not named is not", &gapped, world.actor(2), 0, 1, false);

    let good = codec::encode(&plain);
    let patched = |at: usize, bytes: &[u8]| {
        let mut all = good.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    const PREVIOUS: usize = 1 + 32 + 32 + 32 + 8 + 8 + 16;
    let mut refuse = |name: &str, bytes: Vec<u8>, reason: &str| {
        file.refuse::<Stamp>(name, "stamp", &bytes.into(), reason);
    };
    refuse("a format of 0", patched(0, &[0]), "format");
    refuse("a format of 255", patched(0, &[0xff]), "format");
    refuse("a byte left over", [&good[..], &[1]].concat(), "left-over");
    refuse("the past missing", good[..good.len() - 8].to_vec(), "end");
    refuse("an empty event", patched(PREVIOUS, &1u64.to_be_bytes()), "event");
    refuse("an event that runs backwards", patched(PREVIOUS, &9u64.to_be_bytes()), "event");
    refuse("a past longer than the message", patched(PREVIOUS + 16, &[0xff; 8]), "end");

    let range = |after: u64, upto: u64| Range { after, upto };
    let (x, y) = (ActorId([1; 16]), ActorId([2; 16]));
    let mut bad = |name: &str, form: Vec<(ActorId, Vec<Range>)>| {
        file.refuse::<Past>(name, "past", &codec::encode(&form).into(), "past-form");
    };
    bad("touching ranges", vec![(x, vec![range(0, 2), range(2, 3)])]);
    bad("overlapping ranges", vec![(x, vec![range(0, 5), range(3, 9)])]);
    bad("ranges out of order", vec![(x, vec![range(4, 5), range(0, 1)])]);
    bad("a range twice", vec![(x, vec![range(0, 1), range(0, 1)])]);
    bad("an empty range", vec![(x, vec![range(2, 2)])]);
    bad("a range that runs backwards", vec![(x, vec![range(3, 2)])]);
    bad("an actor without ranges", vec![(x, vec![])]);
    bad("actors out of order", vec![(y, vec![range(0, 1)]), (x, vec![range(0, 1)])]);
    bad("an actor twice", vec![(x, vec![range(0, 1)]), (x, vec![range(3, 4)])]);
    let one = [&1u64.to_be_bytes()[..], &0u64.to_be_bytes(), &1u64.to_be_bytes()].concat();
    let actors = |count: u64| {
        let each = vec![Part::Number(16), Part::Plain(one.clone())];
        Bytes::Pieces(vec![Piece::Plain(count.to_be_bytes().to_vec()), Piece::For(1..=count, each)])
    };
    let ranges = |count: u64| {
        let start = [&1u64.to_be_bytes()[..], &x.0, &count.to_be_bytes()].concat();
        let each = vec![Part::Number(7), Part::Plain(vec![0]), Part::Number(7), Part::Plain(vec![1])];
        Bytes::Pieces(vec![Piece::Plain(start), Piece::For(1..=count, each)])
    };
    assert!(codec::decode::<Past>(&actors(512).flat()).is_ok());
    assert!(codec::decode::<Past>(&ranges(4096).flat()).is_ok());
    file.refuse::<Past>("513 actors", "past", &actors(513), "past-size");
    file.refuse::<Past>("4097 ranges", "past", &ranges(4097), "past-size");

    let mut forged = |name: &str, stamp: &Stamp, signed: &Stamp, signer: usize| {
        let proof = world.sign_stamp(signed.clone(), signer).proof().unwrap().clone();
        assert!(!proof.verifies(&node(0).public(), world.cluster(), stamp.hash()), "{name}");
        let bytes = hex(codec::encode(&SignedStamp::new(stamp.clone(), proof)));
        let key = shown(&node(0).public());
        file.invalid(
            json!({ "name": name, "kind": "signed stamp", "hex": bytes, "key": key, "reason": "signature" }),
        );
    };
    forged("signed by another node", &plain, &plain, 1);
    forged("the signature of another stamp", &plain, &seventeen, 0);
    let mut wider = plain.clone();
    wider.past = world.past(&[(1, 0, 1 << 62)]);
    forged("a past that was widened after signing", &wider, &plain, 0);
    file.check();
}
