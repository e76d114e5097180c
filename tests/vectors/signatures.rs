//! `signatures.json`: batch signatures with every inner node, and public keys.

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tanist::core::codec;
use tanist::core::hash::{Context, Hash};
use tanist::core::identity::{ClusterId, PublicKey, SecretKey, Signature};
use tanist::core::signature::{Proof, sign_batch};

use crate::support::{File, hex, shown};
use crate::world::key_of;

const CLUSTER: ClusterId = ClusterId([0xc1; 32]);
/// The base point and a point of order 8 together: neither small nor in the prime-order subgroup.
const MIXED_ORDER: &str = "98519eadf35b995233b51b5cd23e9cc5a28b639b5a4af0ec903cb960d81b7819";
const ORDER_EIGHT: &str = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a";

fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|n| Hash::of(Context::Stamp, &(n as u64))).collect()
}

fn batch(key: &SecretKey, count: usize) -> Value {
    let leaves = leaves(count);
    let proofs = sign_batch(key, CLUSTER, &leaves);
    let mut levels = vec![leaves.clone()];
    while levels.last().unwrap().len() > 1 {
        let above = levels.last().unwrap().chunks(2).map(|pair| match pair {
            [left, right] => Hash::of(Context::Inner, &(left, right)),
            odd => odd[0],
        });
        let above = above.collect();
        levels.push(above);
    }
    let root = levels.last().unwrap()[0];
    for (leaf, proof) in leaves.iter().zip(&proofs) {
        assert_eq!(proof.root(*leaf), Some(root));
        assert!(proof.verifies(&key.public(), CLUSTER, *leaf));
    }
    json!({
        "name": format!("a batch of {count}"), "kind": "batch",
        "seed": hex(key.seed()), "key": shown(&key.public()), "cluster": shown(&CLUSTER),
        "levels": shown(&levels), "root": shown(&root), "message": hex(proofs[0].message(CLUSTER, root)),
        "proofs": shown(&proofs),
        "encoded": proofs.iter().map(|proof| hex(codec::encode(proof))).collect::<Vec<_>>(),
    })
}

#[test]
fn signatures() {
    let mut file = File::new("signatures.json", "conventions.md");
    let key = key_of(0x21);
    for count in [1, 2, 3, 5] {
        file.valid(batch(&key, count));
    }
    let base = "58".to_owned() + &"66".repeat(31);
    for (name, digits) in [
        ("a key from a seed", hex(key.public().as_bytes())),
        ("the base point", base),
        ("a key of mixed order", MIXED_ORDER.to_owned()),
    ] {
        assert!(digits.parse::<PublicKey>().is_ok(), "{name}");
        file.valid(json!({ "name": name, "kind": "public key", "hex": digits }));
    }

    let five = leaves(5);
    let good = sign_batch(&key, CLUSTER, &five);
    let one = sign_batch(&key, CLUSTER, &five[..1])[0].clone();
    let mut refuse = |name: &str, key: &PublicKey, cluster: ClusterId, leaf: Hash, proof: &Proof| {
        assert!(!proof.verifies(key, cluster, leaf), "{name}");
        let reason = if proof.root(leaf).is_none() { "path" } else { "signature" };
        file.invalid(json!({
            "name": name, "kind": "proof", "key": shown(key), "cluster": shown(&cluster),
            "leaf": shown(&leaf), "proof": shown(proof), "reason": reason,
        }));
    };
    let public = key.public();
    let with = |change: &dyn Fn(&mut Proof)| {
        let mut proof = good[4].clone();
        change(&mut proof);
        proof
    };
    refuse("another cluster", &public, ClusterId([0xc2; 32]), five[4], &good[4]);
    refuse("another key", &key_of(0x22).public(), CLUSTER, five[4], &good[4]);
    refuse("another leaf", &public, CLUSTER, five[3], &good[4]);
    refuse("a path too long", &public, CLUSTER, five[4], &with(&|proof| proof.path.push(five[0])));
    refuse("a path too short", &public, CLUSTER, five[4], &with(&|proof| proof.path.clear()));
    refuse("an index outside the batch", &public, CLUSTER, five[4], &with(&|proof| proof.index = 5));
    refuse(
        "an index whose path has another length",
        &public,
        CLUSTER,
        five[4],
        &with(&|proof| proof.index = 3),
    );
    let neighbour = Proof { index: 1, ..good[0].clone() };
    refuse("an index of a neighbour", &public, CLUSTER, five[0], &neighbour);
    refuse("a batch of none", &public, CLUSTER, five[4], &with(&|proof| (proof.count, proof.index) = (0, 0)));
    refuse("a batch over the limit", &public, CLUSTER, five[4], &with(&|proof| proof.count = 65_537));
    let six = Proof { count: 6, index: 0, ..good[0].clone() };
    refuse("another count with the same path", &public, CLUSTER, five[0], &six);
    let mut swapped = good[0].clone();
    swapped.path.swap(0, 1);
    refuse("a path in the wrong order", &public, CLUSTER, five[0], &swapped);
    let pair = Hash::of(Context::Inner, &(five[0], five[1]));
    let posing = Proof { count: 3, index: 0, ..good[0].clone() };
    let posing = Proof { path: posing.path[1..].to_vec(), ..posing };
    refuse("an inner node posing as a leaf", &public, CLUSTER, pair, &posing);
    let mut flipped = one.clone();
    flipped.signature.0[10] ^= 1;
    refuse("a signature with a bit flipped", &public, CLUSTER, five[0], &flipped);
    let mut large = one.clone();
    large.signature = plus_order(&one.signature);
    refuse("a signature with its scalar not reduced", &public, CLUSTER, five[0], &large);
    let zero = Proof { signature: Signature([0; 64]), ..one.clone() };
    refuse("a signature of zeros", &public, CLUSTER, five[0], &zero);
    let bare = Proof { signature: key.sign(&five[0].0), ..one.clone() };
    refuse("a signature over the bare root", &public, CLUSTER, five[0], &bare);
    let doubled = Hash::of(Context::Inner, &(five[4], five[4]));
    let doubled = Proof { path: vec![five[4], doubled, good[4].path[0]], ..good[4].clone() };
    refuse("an odd node doubled", &public, CLUSTER, five[4], &doubled);

    for (name, digits) in [
        ("the neutral point", "01".to_owned() + &"00".repeat(31)),
        ("the point of order 2", "ec".to_owned() + &"ff".repeat(30) + "7f"),
        ("a point of order 4", "00".repeat(32)),
        ("the other point of order 4", "00".repeat(31) + "80"),
        ("a point of order 8", ORDER_EIGHT.to_owned()),
        ("the neutral point with a sign", "01".to_owned() + &"00".repeat(30) + "80"),
        ("p + 1, a second spelling of 1", "ee".to_owned() + &"ff".repeat(30) + "7f"),
        ("p + 3, a second spelling of 3", "f0".to_owned() + &"ff".repeat(30) + "7f"),
        ("no point of the curve", "02".repeat(32)),
    ] {
        let bytes: [u8; 32] = HEXLOWER.decode(digits.as_bytes()).unwrap().try_into().unwrap();
        assert!(PublicKey::try_from(bytes).is_err(), "{name}");
        file.invalid(json!({ "name": name, "kind": "public key", "hex": digits, "reason": "public-key" }));
    }
    file.check();
}

/// The same signature with the group's order added to its scalar, which a lax verifier takes.
fn plus_order(signature: &Signature) -> Signature {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut bytes = signature.0;
    let mut carry = 0u16;
    for (byte, add) in bytes[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    Signature(bytes)
}
