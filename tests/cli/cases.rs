//! Cases of other systems, told again with our command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use super::nodes::Cluster;

/// A get that says deleted and a create that says conflict: here create works over a deletion, and a write
/// that names nothing is told what to name.
#[test]
fn case_16_what_is_deleted_can_be_created() {
    let cluster = Cluster::start();
    cluster.run(&["create", "carts", "k", "one"]).expect(0);
    let tombstone = cluster.run(&["delete", "carts", "k", "--any"]).expect(0).text();
    cluster.run(&["get", "carts", "k"]).expect(4);

    let refused = cluster.run(&["replace", "carts", "k", "two", "--if", "absent"]).expect(3);
    assert!(refused.err.contains(&tombstone), "it names the needed id: {}", refused.err);
    let named = cluster.run(&["replace", "carts", "k", "two", "--if", &tombstone]).expect(0).text();
    assert!(named.starts_with("3-"), "{named}");

    cluster.run(&["delete", "carts", "k", "--if", &named]).expect(0);
    let created = cluster.run(&["create", "carts", "k", "three"]).expect(0).text();
    assert!(created.starts_with("5-"), "over the deletion: {created}");
    assert_eq!(cluster.run(&["get", "carts", "k"]).expect(0).out, b"three");

    // Nothing to delete is fine with --any, and not with --if.
    let nothing = cluster.run(&["delete", "carts", "never", "--any"]).expect(0);
    assert!(nothing.out.is_empty(), "{nothing:?}");
    cluster.run(&["delete", "carts", "never", "--if", &named]).expect(3);
}

/// A save with a revision from before the delete revived the document.
#[test]
fn case_18_a_version_from_before_the_delete_revives_nothing() {
    let cluster = Cluster::start();
    let first = cluster.run(&["create", "carts", "k", "one"]).expect(0).text();
    cluster.run(&["delete", "carts", "k", "--if", &first]).expect(0);
    cluster.run(&["replace", "carts", "k", "two", "--if", &first]).expect(3);
    cluster.run(&["delete", "carts", "k", "--if", &first]).expect(3);
    cluster.run(&["get", "carts", "k"]).expect(4);
    assert!(cluster.run(&["list", "carts"]).expect(0).out.is_empty());
}

/// Writing "foo" erased "foobar"; an empty value meant deleted.
#[test]
fn case_21_and_22_prefixes_and_empty_values_are_values() {
    let cluster = Cluster::start();
    cluster.run(&["create", "carts", "foobar", "1"]).expect(0);
    let foo = cluster.run(&["create", "carts", "foo", "2"]).expect(0).text();
    assert_eq!(cluster.run(&["list", "carts", "foo"]).expect(0).text(), "foo\nfoobar");
    cluster.run(&["delete", "carts", "foo", "--if", &foo]).expect(0);
    assert_eq!(cluster.run(&["get", "carts", "foobar"]).expect(0).out, b"1");
    assert_eq!(cluster.run(&["list", "carts", "foo"]).expect(0).text(), "foobar");

    let empty = cluster.run(&["create", "carts", "empty", ""]).expect(0).text();
    assert_eq!(cluster.run(&["get", "carts", "empty"]).expect(0).out, b"");
    let read = cluster.run(&["get", "carts", "empty", "--json"]).expect(0).json();
    assert_eq!(read["value"], json!({ "text": "" }));
    assert_eq!(read["versions"][0]["length"], 0);
    assert_eq!(cluster.run(&["list", "carts", "empty"]).expect(0).text(), "empty");
    cluster.run(&["create", "carts", "empty", "x"]).expect(3);
    let next = cluster.run(&["replace", "carts", "empty", "", "--if", &empty]).expect(0).text();
    assert_ne!(next, empty, "a version of its own");
}

/// Odd keys: each is a key of its own for every verb.
#[test]
fn case_23_odd_keys_are_keys_for_every_verb() {
    let cluster = Cluster::start();
    let longest = "k".repeat(1024);
    let odd: [(&str, bool); 6] =
        [("a..b", false), (" ", false), (".", false), ("00", true), (&longest, false), ("ff80", true)];
    for (key, hex) in odd {
        let flag: &[&str] = if hex { &["--key-hex"] } else { &[] };
        let run = |words: &[&str]| cluster.run(&[words, flag].concat());
        let first = run(&["create", "carts", key, "one"]).expect(0).text();
        run(&["create", "carts", key, "other"]).expect(3);
        assert_eq!(run(&["get", "carts", key]).expect(0).out, b"one");
        let second = run(&["replace", "carts", key, "two", "--if", &first]).expect(0).text();
        let shown = run(&["show", "carts", key]).expect(0).text();
        assert!(shown.contains(&second), "{shown}");
        run(&["delete", "carts", key, "--if", &second]).expect(0);
        run(&["get", "carts", key]).expect(4);
    }
}

/// One name that is not UTF-8 broke the listing of all.
#[test]
fn case_24_keys_that_are_no_text_are_listed_with_the_others() {
    let cluster = Cluster::start();
    let keys: [&[u8]; 6] =
        [b"\xff\x80", b"\0", "\u{e9}".as_bytes(), "e\u{301}".as_bytes(), b"\\xff\\x80", b"a\nb"];
    for (key, value) in keys.iter().zip(0..) {
        let value = value.to_string();
        if key.contains(&0) {
            cluster.run(&["create", "carts", "00", &value, "--key-hex"]).expect(0);
        } else {
            let args =
                [OsStr::new("create"), OsStr::new("carts"), OsStr::from_bytes(key), OsStr::new(&value)];
            cluster.run(&args).expect(0);
        }
    }
    let listed = cluster.run(&["list", "carts"]).expect(0).text();
    let expected = ["\\x00", "\\\\xff\\\\x80", "a\\x0ab", "e\u{301}", "\u{e9}", "\\xff\\x80"];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let json = cluster.run(&["list", "carts", "--json"]).expect(0).json();
    let keys: Vec<_> = json["keys"].as_array().unwrap().iter().map(|entry| entry["key"].clone()).collect();
    assert_eq!(keys.len(), 6);
    assert_eq!(keys[0], json!({ "text": "\0" }));
    assert_eq!(keys[5], json!({ "base64": "/4A=" }));
    assert_eq!(cluster.run(&["get", "carts", "ff80", "--key-hex"]).expect(0).out, b"0");
    assert_eq!(cluster.run(&["list", "carts", "ff", "--key-hex"]).expect(0).text(), "\\xff\\x80");
}
