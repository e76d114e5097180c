//! `hashing.json`: contexts and ids.

use serde_json::{Value, json};
use tanist::core::chain::Chain;
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::hash::{Context, Hash};
use tanist::core::identity::ActorId;
use tanist::core::object::{Key, ObjectId};
use tanist::core::write::Body;

use crate::support::{File, hex};
use crate::world::{World, member};

#[test]
fn hashing() {
    let world = World::new();
    let mut file = File::new("hashing.json", "conventions.md");
    let key = Key::try_from("user-7").unwrap();
    let object = ObjectId::new(world.carts, &key);
    let write = world.write("user-7", 1, &[], Body::put(b"one"));
    let stamp = world.stamp(&write, 0, 0, 1, Past::new());
    let a = member(0);
    let genesis = &world.entries[0].signed.entry;
    let create = &world.config.entries(Chain::Policy)[0].signed.entry;
    let (left, right) = (Hash([1; 32]), Hash([2; 32]));

    let derived = |context: Context, name: &str, text: &str, input: Vec<u8>| {
        let hash = Hash::of_encoded(context, &input);
        json!({ "name": name, "kind": "hash", "context": text, "input": hex(input), "hash": hex(hash.0) })
    };
    let actor_input = codec::encode(&(world.cluster(), a.id, a.incarnation));
    file.valid(derived(Context::Actor, "an actor", "tanist v1 actor", actor_input.clone()));
    let object_input = codec::encode(&(world.carts, &key));
    file.valid(derived(Context::Object, "an object", "tanist v1 object", object_input.clone()));
    let write_input = codec::encode(&write);
    file.valid(derived(Context::Write, "a write", "tanist v1 write", write_input.clone()));
    file.valid(derived(Context::Stamp, "a stamp", "tanist v1 stamp", codec::encode(&stamp)));
    let inner_input = codec::encode(&(left, right));
    let inner_text = "tanist v1 merkle inner node";
    file.valid(derived(Context::Inner, "an inner node", inner_text, inner_input.clone()));
    let entry_text = "tanist v1 configuration entry";
    file.valid(derived(Context::Entry, "the founding entry", entry_text, codec::encode(genesis)));
    file.valid(derived(Context::Entry, "a namespace's entry", entry_text, codec::encode(create)));
    let placement_input = codec::encode(&(a.id, object));
    file.valid(derived(Context::Placement, "a score", "tanist v1 placement", placement_input.clone()));
    for (name, value) in [("an empty value", &b""[..]), ("a value", b"one"), ("a longer value", &[7; 2048])] {
        let hash = hex(Hash::of_value(value).0);
        file.valid(json!({ "name": name, "kind": "value", "input": hex(value), "hash": hash }));
    }
    let id = |name: &str, kind: &str, id: &[u8], parts: Value| json!({ "name": name, "kind": kind, "parts": parts, "id": hex(id) });
    let actor_parts = json!([hex(world.cluster().0), hex(a.id.0), hex(a.incarnation.0)]);
    file.valid(id("an actor's id", "actor", &world.actor(0).0, actor_parts.clone()));
    let object_parts = json!([hex(world.carts.0), hex(key.as_bytes())]);
    file.valid(id("an object's id", "object", &object.0, object_parts.clone()));
    file.valid(id("a cluster's id", "cluster", &world.cluster().0, json!([hex(codec::encode(genesis))])));
    file.valid(id("a namespace's id", "namespace", &world.carts.0, json!([hex(codec::encode(create))])));
    file.valid(id("a write's id", "write", &write.id().0, json!([hex(&write_input)])));

    let mut wrong_hash = |name: &str, text: &str, input: &[u8], right: Hash, claimed: [u8; 32]| {
        assert_ne!(right.0, claimed, "{name}");
        let (input, hash) = (hex(input), hex(claimed));
        file.invalid(json!({ "name": name, "kind": "hash", "context": text, "input": input, "hash": hash, "reason": "hash" }));
    };
    let right_write = Hash::of_encoded(Context::Write, &write_input);
    let write_text = "tanist v1 write";
    wrong_hash(
        "a write without a context",
        write_text,
        &write_input,
        right_write,
        Hash::of_value(&write_input).0,
    );
    let as_stamp = Hash::of_encoded(Context::Stamp, &write_input).0;
    wrong_hash("a write under a stamp's context", write_text, &write_input, right_write, as_stamp);
    let keyed = *blake3::keyed_hash(&[0; 32], &write_input).as_bytes();
    wrong_hash("a write in keyed mode", write_text, &write_input, right_write, keyed);
    let longer = [&write_input[..], &[0]].concat();
    let right_longer = Hash::of_encoded(Context::Write, &longer);
    wrong_hash("a write and a byte more", write_text, &longer, right_longer, right_write.0);
    let swapped = Hash::of(Context::Inner, &(right, left)).0;
    let right_inner = Hash::of(Context::Inner, &(left, right));
    wrong_hash("an inner node with its sides swapped", inner_text, &inner_input, right_inner, swapped);
    let as_leaf = Hash::of_encoded(Context::Stamp, &inner_input).0;
    wrong_hash("an inner node as a leaf", inner_text, &inner_input, right_inner, as_leaf);
    let as_object = Hash::of_encoded(Context::Object, &placement_input).0;
    let right_score = Hash::of_encoded(Context::Placement, &placement_input);
    wrong_hash("a score as an object", "tanist v1 placement", &placement_input, right_score, as_object);
    let right_object = Hash::of_encoded(Context::Object, &object_input);
    let v2 = blake3::derive_key("tanist v2 object", &object_input);
    wrong_hash("an object of another version", "tanist v1 object", &object_input, right_object, v2);
    let spaced = blake3::derive_key("tanist v1 actor ", &actor_input);
    let right_actor = Hash::of_encoded(Context::Actor, &actor_input);
    wrong_hash("a context with a space at its end", "tanist v1 actor", &actor_input, right_actor, spaced);

    let mut wrong_value = |name: &str, value: &[u8], claimed: [u8; 32]| {
        assert_ne!(Hash::of_value(value).0, claimed);
        let (input, hash) = (hex(value), hex(claimed));
        file.invalid(
            json!({ "name": name, "kind": "value", "input": input, "hash": hash, "reason": "hash" }),
        );
    };
    wrong_value("a value under a context", b"one", Hash::of_encoded(Context::Write, b"one").0);
    wrong_value("a value with its length", b"one", Hash::of_value(&codec::encode(&b"one".to_vec())).0);
    wrong_value("an empty value hashed to zeros", b"", [0; 32]);

    let mut wrong_id = |name: &str, kind: &str, parts: Value, right: &[u8], claimed: &[u8]| {
        assert_ne!(right, claimed, "{name}");
        let id = hex(claimed);
        file.invalid(json!({ "name": name, "kind": kind, "parts": parts, "id": id, "reason": "hash" }));
    };
    let end: [u8; 16] = right_actor.0[16..].try_into().unwrap();
    wrong_id("an actor by the hash's second half", "actor", actor_parts.clone(), &world.actor(0).0, &end);
    let other = ActorId::new(world.cluster(), a.id, member(1).incarnation);
    wrong_id("an actor of another incarnation", "actor", actor_parts, &world.actor(0).0, &other.0);
    let bare = Hash::of_encoded(Context::Object, &[&world.carts.0[..], key.as_bytes()].concat()).0;
    wrong_id("an object without the key's length", "object", object_parts.clone(), &object.0, &bare);
    let elsewhere = ObjectId::new(world.jobs, &key).0;
    wrong_id("an object of another namespace", "object", object_parts, &object.0, &elsewhere);
    let parts = json!([hex(codec::encode(create))]);
    wrong_id("a namespace by its predecessor", "namespace", parts, &world.carts.0, &world.cluster().0);
    file.check();
}
