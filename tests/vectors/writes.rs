//! `writes.json`: writes, their ids and their authors' signatures.

use serde_json::json;
use tanist::core::codec;
use tanist::core::identity::Signature;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, Fence, Term, Write, WriteId};

use crate::support::{Bytes, File, Part, Piece, hex, shown};
use crate::world::{World, author_proof, client, guest, key_of};

/// Offsets of fields in the encoding of a write whose key has 6 bytes and that has no parents.
const FORMAT: usize = 0;
const KEY_LEN: usize = 1 + 32 + 32;
const GENERATION: usize = KEY_LEN + 8 + 6 + 8;
const PARENTS: usize = GENERATION + 8;

fn accept(file: &mut File, name: &str, write: &Write, value: &[u8], fence: Option<Signature>) {
    write.check().unwrap();
    assert!(write.body.matches(value));
    let encoded = codec::encode(write);
    assert_eq!(Write::decode(&encoded).as_ref(), Ok(write));
    let proof = author_proof(write, &client());
    let signed = SignedWrite::new(write.clone(), proof.clone(), fence);
    file.valid(json!({
        "name": name, "kind": "write", "fields": shown(write), "value": hex(value),
        "encoded": hex(encoded), "id": shown(&write.id()), "object": shown(&write.object()),
        "message": hex(proof.message(write.cluster, write.id().into())), "signature": hex(proof.signature.0),
        "signed": hex(codec::encode(&signed)),
    }));
}

#[test]
fn writes() {
    let world = World::new();
    let mut file = File::new("writes.json", "objects.md");
    let first = world.write("user-7", 1, &[], Body::put(b"one"));
    let other = world.write("user-7", 2, &[], Body::put(b"two"));
    let merged = world.write("user-7", 3, &[&first, &other], Body::put(b"one and two"));
    let deleted = world.write("user-7", 4, &[&merged], Body::Delete);
    accept(&mut file, "a first write", &first, b"one", None);
    accept(&mut file, "a write with two parents", &merged, b"one and two", None);
    accept(&mut file, "a deletion", &deleted, b"", None);
    accept(&mut file, "an empty value", &world.write("user-8", 5, &[], Body::put(b"")), b"", None);
    let mut odd = world.write("x", 6, &[], Body::put(&[0; 100]));
    odd.key = Key::try_from(vec![0, 0xff, 0x80, b'\\']).unwrap();
    (odd.epoch, odd.wall_ms) = (2, 1_790_000_000_123);
    accept(&mut file, "a key that is no text, a later epoch, a time", &odd, &[0; 100], None);
    let mut fenced = world.write("job-1", 7, &[], Body::put(b"paid"));
    fenced.namespace = world.jobs;
    let resource = Key::try_from("billing").unwrap();
    fenced.fence = Some(Fence { resource, term: Term { recovery: 0, number: 5 }, tenure: WriteId([9; 32]) });
    let tenure = key_of(0x31).sign(&fenced.id().0);
    accept(
        &mut file,
        "a fenced write (its form; the fence's signature is reserved)",
        &fenced,
        b"paid",
        Some(tenure),
    );

    let good = codec::encode(&first);
    let patched = |at: usize, bytes: &[u8]| {
        let mut all = good.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    let mut refuse = |name: &str, bytes: Vec<u8>, reason: &str| {
        file.refuse::<Write>(name, "write", &bytes.into(), reason);
    };
    refuse("a format of 0", patched(FORMAT, &[0]), "format");
    refuse("a format of 2", patched(FORMAT, &[2]), "format");
    refuse("a byte left over", [&good[..], &[0]].concat(), "left-over");
    refuse("the last byte missing", good[..good.len() - 1].to_vec(), "end");
    refuse("nothing", vec![], "end");
    refuse("an empty key", [&good[..KEY_LEN], &[0; 8], &good[KEY_LEN + 14..]].concat(), "key");
    refuse("a key longer than the message", patched(KEY_LEN, &[0xff; 8]), "end");
    refuse("a generation of 0", patched(GENERATION, &0u64.to_be_bytes()), "generation");
    refuse("a generation of 2 without parents", patched(GENERATION, &2u64.to_be_bytes()), "generation");
    let parents = |generation: u64, ids: &[[u8; 32]]| {
        let mut bytes = good[..GENERATION].to_vec();
        bytes.extend(generation.to_be_bytes());
        bytes.extend((ids.len() as u64).to_be_bytes());
        bytes.extend(ids.concat());
        bytes.extend(&good[PARENTS + 8..]);
        bytes
    };
    assert!(Write::decode(&parents(2, &[[1; 32], [2; 32]])).is_ok());
    refuse("a generation of 1 with a parent", parents(1, &[[1; 32]]), "generation");
    refuse("parents out of order", parents(2, &[[2; 32], [1; 32]]), "parents");
    refuse("a parent twice", parents(2, &[[1; 32], [1; 32]]), "parents");
    let body = PARENTS + 8;
    refuse("a reserved body", patched(body, &2u32.to_be_bytes()), "tag");
    refuse("a value over the limit", patched(body + 4, &((1u64 << 20) + 1).to_be_bytes()), "value-length");
    let author = body + 4 + 8 + 32;
    refuse("an author of small order", patched(author, &[0; 32]), "public-key");
    let p_plus_1 = [&[0xee][..], &[0xff; 30], &[0x7f]].concat();
    refuse("an author that is not canonical", patched(author, &p_plus_1), "public-key");
    refuse("a fence tag of 2", patched(author + 32 + 16, &[2]), "tag");
    let many = Bytes::Pieces(vec![
        Piece::Plain([&good[..GENERATION], &2u64.to_be_bytes(), &1025u64.to_be_bytes()].concat()),
        Piece::For(1..=1025, vec![Part::Plain(vec![0; 24]), Part::Number(8)]),
        Piece::Plain(good[PARENTS + 8..].to_vec()),
    ]);
    file.refuse::<Write>("1025 parents", "write", &many, "parents");

    let signed = |write: &Write, signer: &Write| {
        let proof = author_proof(signer, &client());
        hex(codec::encode(&SignedWrite::new(write.clone(), proof, None)))
    };
    let mut forged = |name: &str, bytes: String| {
        let value =
            codec::decode::<SignedWrite>(&data_encoding::HEXLOWER.decode(bytes.as_bytes()).unwrap()).unwrap();
        let write = value.write();
        assert!(!value.proof().verifies(&write.author, write.cluster, value.id().into()), "{name}");
        file.invalid(json!({ "name": name, "kind": "signed write", "hex": bytes, "reason": "signature" }));
    };
    forged("the signature of another write", signed(&first, &other));
    let mut stolen = first.clone();
    stolen.author = guest().public();
    forged("another author's signature", signed(&stolen, &first));
    let mut moved = first.clone();
    moved.namespace = NamespaceId([7; 32]);
    forged("a write moved to another namespace", signed(&moved, &first));
    let mut abroad = first.clone();
    abroad.cluster.0[0] ^= 1;
    forged("a write moved to another cluster", signed(&abroad, &first));
    let proof = sign_one(&client(), abroad.cluster, first.id().into());
    forged(
        "a signature for another cluster",
        hex(codec::encode(&SignedWrite::new(first.clone(), proof, None))),
    );

    let mut mismatch = |name: &str, write: &Write, value: &[u8]| {
        assert!(!write.body.matches(value), "{name}");
        let (bytes, value) = (hex(codec::encode(write)), hex(value));
        file.invalid(
            json!({ "name": name, "kind": "value", "hex": bytes, "value": value, "reason": "value" }),
        );
    };
    mismatch("another value of the same length", &first, b"two");
    mismatch("a longer value", &first, b"one more");
    mismatch("a deletion with a value", &deleted, b"one");
    let mut lying = first.clone();
    if let Body::Put { len, .. } = &mut lying.body {
        *len = 4;
    }
    mismatch("the right hash with the wrong length", &lying, b"one");
    file.check();
}
