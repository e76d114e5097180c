//! `encoding.json`: the one encoding.

use serde::Serialize;
use serde_json::json;
use tanist::core::chain::{Mode, Rights};
use tanist::core::codec;
use tanist::core::events::{Past, Range};
use tanist::core::identity::ActorId;
use tanist::core::object::{Key, NamespaceName};
use tanist::core::write::Body;
use tanist::wire::client::OnConflict;

use crate::support::{File, hex, shown};
use crate::world::client;

fn accept<T: Serialize>(file: &mut File, name: &str, kind: &str, value: &T) {
    let hex = hex(codec::encode(value));
    file.valid(json!({ "name": name, "kind": kind, "value": shown(value), "hex": hex }));
}

#[test]
fn encoding() {
    let mut file = File::new("encoding.json", "conventions.md");
    accept(&mut file, "a byte", "u8", &7u8);
    accept(&mut file, "two bytes", "u16", &0x0102u16);
    accept(&mut file, "four bytes, the high one first", "u32", &0x0102_0304u32);
    accept(&mut file, "eight bytes", "u64", &0x0102_0304_0506_0708u64);
    accept(&mut file, "the greatest number", "u64", &u64::MAX);
    accept(&mut file, "false", "bool", &false);
    accept(&mut file, "true", "bool", &true);
    accept(&mut file, "nothing", "option u8", &None::<u8>);
    accept(&mut file, "something", "option u8", &Some(9u8));
    accept(&mut file, "a list", "list u64", &vec![1u64, 2]);
    accept(&mut file, "an empty list", "list u64", &Vec::<u64>::new());
    accept(&mut file, "a text", "text", &"tanist é");
    accept(&mut file, "a key", "key", &Key::try_from(vec![0x00, 0xff]).unwrap());
    accept(&mut file, "the longest key", "key", &Key::try_from(vec![0x6b; 1024]).unwrap());
    accept(&mut file, "a name", "name", &"carts.eu-1".parse::<NamespaceName>().unwrap());
    accept(&mut file, "fields in order", "rights", &Rights { read: true, write: false, elect: true });
    accept(&mut file, "a variant without fields", "mode", &Mode::Linearizable);
    accept(&mut file, "a variant of two", "on conflict", &OnConflict::KeepBoth);
    accept(&mut file, "a variant with fields", "body", &Body::put(b"value"));
    accept(&mut file, "the other variant", "body", &Body::Delete);
    accept(&mut file, "a result that is good", "result", &Ok::<(), String>(()));
    accept(&mut file, "a result that is not", "result", &Err::<(), _>("why".to_owned()));
    accept(&mut file, "a range", "range", &Range { after: 16, upto: 17 });
    accept(&mut file, "a public key", "public key", &client().public());
    let mut past = Past::new();
    past.insert(ActorId([2; 16]), Range { after: 0, upto: 5 });
    past.insert(ActorId([1; 16]), Range { after: 0, upto: 3 });
    past.insert(ActorId([1; 16]), Range { after: 16, upto: 17 });
    accept(&mut file, "a past", "past", &past);

    let len = |len: u64, bytes: &[u8]| [&len.to_be_bytes()[..], bytes].concat();
    let mut bad = |name: &str, kind: &str, bytes: Vec<u8>, reason: &str| {
        let bytes = &bytes.into();
        match kind {
            "u8" => file.refuse::<u8>(name, kind, bytes, reason),
            "u16" => file.refuse::<u16>(name, kind, bytes, reason),
            "u32" => file.refuse::<u32>(name, kind, bytes, reason),
            "u64" => file.refuse::<u64>(name, kind, bytes, reason),
            "bool" => file.refuse::<bool>(name, kind, bytes, reason),
            "option u8" => file.refuse::<Option<u8>>(name, kind, bytes, reason),
            "list u64" => file.refuse::<Vec<u64>>(name, kind, bytes, reason),
            "text" => file.refuse::<String>(name, kind, bytes, reason),
            "key" => file.refuse::<Key>(name, kind, bytes, reason),
            "name" => file.refuse::<NamespaceName>(name, kind, bytes, reason),
            "rights" => file.refuse::<Rights>(name, kind, bytes, reason),
            "mode" => file.refuse::<Mode>(name, kind, bytes, reason),
            "body" => file.refuse::<Body>(name, kind, bytes, reason),
            "result" => file.refuse::<Result<(), String>>(name, kind, bytes, reason),
            other => panic!("{other}"),
        }
    };
    bad("no byte at all", "u8", vec![], "end");
    bad("two numbers for one", "u16", vec![0, 1, 0], "left-over");
    bad("three of four bytes", "u32", vec![0, 0, 7], "end");
    bad("a fifth byte", "u32", vec![0, 0, 0, 7, 0], "left-over");
    bad("seven of eight bytes", "u64", vec![0; 7], "end");
    bad("a truth value of 2", "bool", vec![2], "tag");
    bad("an option of 2", "option u8", vec![2, 1], "tag");
    bad("an option without its value", "option u8", vec![1], "end");
    bad("no option, and a value", "option u8", vec![0, 9], "left-over");
    bad("a list shorter than its length", "list u64", len(2, &[0; 8]), "end");
    bad("a list longer than its length", "list u64", len(1, &[0; 16]), "left-over");
    bad("a length beyond all memory", "list u64", len(u64::MAX, &[0; 8]), "end");
    bad("a length of four bytes", "list u64", vec![0, 0, 0, 0], "end");
    bad("a text that is not UTF-8", "text", len(2, &[0xc3, 0x28]), "text");
    bad("a text that ends early", "text", len(5, b"four"), "end");
    bad("a text with a length beyond all memory", "text", len(u64::MAX, b"a"), "end");
    bad("an empty key", "key", len(0, b""), "key");
    bad("a key of 1025 bytes", "key", len(1025, &[0x6b; 1025]), "key");
    bad("a key that ends early", "key", len(2, b"k"), "end");
    bad("an empty name", "name", len(0, b""), "name");
    bad("a name with a capital", "name", len(5, b"Carts"), "name");
    bad("a name that begins with a dash", "name", len(2, b"-a"), "name");
    bad("a name of 64 characters", "name", len(64, &[b'a'; 64]), "name");
    bad("rights with a truth value of 255", "rights", vec![1, 0xff, 0], "tag");
    bad("rights without the last", "rights", vec![1, 0], "end");
    bad("a variant that does not exist", "mode", vec![0, 0, 0, 2], "tag");
    bad("a variant number of one byte", "mode", vec![1], "end");
    bad("a little-endian variant", "mode", vec![1, 0, 0, 0], "tag");
    bad("a reserved body", "body", vec![0, 0, 0, 2], "tag");
    bad("a body without its hash", "body", [vec![0; 4], len(5, b"")].concat(), "end");
    bad("a deletion with a length", "body", vec![0, 0, 0, 1, 0], "left-over");
    bad("a third kind of result", "result", vec![0, 0, 0, 2], "tag");
    file.check();
}
