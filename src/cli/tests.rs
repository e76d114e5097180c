//! What can be said without a cluster: the words of errors, exit codes, versions, quoting, JSON.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser as _};
use serde_json::json;

use super::args::{Cli, Global};
use super::basis::If;
use super::error::Failure;
use super::exit::Exit;
use super::words::{Site, quoted};
use super::{failures, json as forms, usage};
use crate::client::{
    AdminError, ConnectError, FenceKey, ListError, Mode, OpenError, ReadError, RefusedReason, WriteError,
};
use crate::core::chain::Ballot;
use crate::core::cluster::ConfigError;
use crate::core::identity::{ActorId, ClusterId, SecretKey};
use crate::core::object::Key;
use crate::core::policy::PolicyError;
use crate::core::register::Bound;
use crate::core::signature::sign_one;
use crate::core::tenure::{Claim, TenureProof};
use crate::core::version::SignedWrite;
use crate::core::write::{Term, WriteId};
use crate::wire::client::Failure as NodeFailure;

const GLOBAL: Global = Global { ticket: None, identity: None, at: None, fenced_by: None, json: false };

fn key(bytes: &[u8]) -> Key {
    bytes.to_vec().try_into().unwrap()
}

/// What a later owner of `billing` left.
fn bound() -> Bound {
    Bound { resource: key(b"billing"), term: Term { recovery: 0, number: 2 } }
}

fn every_failure(site: Site<'_>) -> Vec<(&'static str, Failure)> {
    let why = || "2 of 3 replicas do not answer".to_owned();
    let public = SecretKey::from_seed(&[7; 32]).public();
    let read = |error: ReadError| failures::read(site, &error);
    let write = |error: WriteError| failures::write(site, &error);
    let node = |failure: NodeFailure| failures::write(site, &WriteError::Node(failure));
    let open = |error: OpenError| failures::open(site, &error);
    let connect = |error: ConnectError| failures::connect(site.global, &error, &public);
    let admin = |error: AdminError| {
        failures::admin(site.global, &error, "tanist namespace create carts --mode siblings")
    };
    let policy = |error: PolicyError| admin(AdminError::Refused(ConfigError::Policy(error)));
    vec![
        ("connect denied", connect(ConnectError::Denied("no grant names this key".to_owned()))),
        ("connect unavailable", connect(ConnectError::Unavailable("no answer".to_owned()))),
        ("connect forged", connect(ConnectError::Forged("an entry is not signed".to_owned()))),
        ("connect no member", connect(ConnectError::NoSuchMember("n9".to_owned()))),
        ("open unknown", open(OpenError::Unknown("carts".to_owned()))),
        ("open mode", open(OpenError::Mode { name: "jobs".to_owned(), mode: Mode::Linearizable })),
        ("open unavailable", open(OpenError::Unavailable(why()))),
        ("read denied", read(ReadError::Denied("no right to read".to_owned()))),
        ("read dropped", read(ReadError::UnknownNamespace)),
        ("read unavailable", read(ReadError::Unavailable(why()))),
        ("read forged", read(ReadError::Forged("a signature does not fit".to_owned()))),
        ("write denied", write(WriteError::Denied("no right to write".to_owned()))),
        ("write too large", write(WriteError::TooLarge { len: 1_048_577 })),
        ("write expired", write(WriteError::Expired { epoch: 3, now: 5 })),
        ("write unavailable", write(WriteError::Unavailable(why()))),
        ("write forgotten", write(WriteError::Forgotten)),
        ("read fenced", read(ReadError::Fenced(bound()))),
        ("write fenced", failures::refused(site, RefusedReason::Fenced(bound()), None, &["VALUE"])),
        ("write mode", node(NodeFailure::Mode(Mode::Linearizable))),
        ("admin register quorum", policy(PolicyError::RegisterQuorum)),
        ("admin owned siblings", policy(PolicyError::OwnedSiblings)),
        ("read not fenced", read(ReadError::NotFenced)),
        ("needs tenure", node(NodeFailure::NeedsTenure)),
        ("write receipt", write(WriteError::Receipt("no space left on device".to_owned()))),
        ("write unknown parents", node(NodeFailure::UnknownParents(vec![WriteId([7; 32])]))),
        ("write generation", node(NodeFailure::Generation)),
        ("write too many siblings", node(NodeFailure::TooManySiblings(64))),
        ("write rejected", node(NodeFailure::Rejected("its signature does not fit".to_owned()))),
        ("write overloaded", node(NodeFailure::Overloaded)),
        ("write disk full", node(NodeFailure::DiskFull)),
        ("list unavailable", {
            failures::list(site, &ListError::Unavailable { missing: 2, tolerated: 1, why: why() })
        }),
        ("admin not admin", admin(AdminError::Refused(ConfigError::NotAdmin))),
        ("admin taken", policy(PolicyError::NameTaken("carts".parse().unwrap()))),
        ("admin no namespace", policy(PolicyError::NoSuchNamespace)),
        ("admin no grant", policy(PolicyError::NoSuchGrant)),
        ("admin unknown", admin(AdminError::Unknown("no majority".to_owned()))),
        ("admin unavailable", admin(AdminError::Unavailable(why()))),
        ("absent", failures::absent(site, &[])),
    ]
}

/// The words, the exit code and the kind of everything that can go wrong without an answer to a write.
#[test]
fn errors_say_what_happened_what_is_left_and_what_to_type() {
    let key = key(b"user 7");
    let site = Site { global: &GLOBAL, namespace: "carts", key: Some(&key) };
    let mut text = String::new();
    for (name, failure) in every_failure(site) {
        let lines = failure.to_text();
        assert_eq!(lines.lines().count(), 3, "{name}: {lines}");
        assert!(!failure.next.is_empty(), "{name} says nothing to type");
        let _ = write!(text, "## {name}: exit {}, {}\n{lines}\n", failure.exit.code(), failure.kind);
    }
    insta::with_settings!({ snapshot_path => "../../tests/cli", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("errors", text);
    });
}

/// A fence at term 1 of `resource`.
fn fence(resource: &[u8]) -> FenceKey {
    let secret = SecretKey::from_seed(&[9; 32]);
    let claim = Claim {
        cluster: ClusterId([1; 32]),
        resource: key(resource),
        current: None,
        recovery: 0,
        key: Some(secret.public()),
        lease_ms: 15_000,
        epoch: 1,
        author: secret.public(),
        nonce: [1; 16],
        wall_ms: 0,
    };
    let (write, tenure) = claim.write();
    let proof = sign_one(&secret, write.cluster, write.id().into());
    let ballot = Ballot { config_epoch: 1, counter: 1, actor: ActorId([1; 16]) };
    let signed = SignedWrite::new(write, proof, None);
    FenceKey::new(Arc::new(TenureProof { signed, tenure, ballot, votes: Vec::new() }), secret).unwrap()
}

#[test]
fn whoever_is_fenced_is_told_by_which_term() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = key(b"ledger");
    let said = |held: Option<&[u8]>| {
        let path = dir.path().join("fence");
        let fenced_by = held.map(|resource| {
            fence(resource).save(&path).unwrap();
            path
        });
        let global = Global { fenced_by, ..GLOBAL };
        failures::fenced(Site { global: &global, namespace: "jobs", key: Some(&ledger) }, &bound())
    };
    let early = said(Some(b"billing"));
    assert_eq!((early.exit, early.what.as_str()), (Exit::Fenced, "jobs/ledger: fenced, term 1 < 2"));
    let held = json!({ "resource": { "text": "billing" }, "term": "1" });
    assert_eq!((&early.details["needed"], &early.details["held"]), (&json!("2"), &held));
    let other = said(Some(b"mail"));
    assert_eq!(other.what, "jobs/ledger: fenced: the key belongs to the owner of billing, not of mail");
    let nobody = said(None);
    assert_eq!(nobody.what, "jobs/ledger: fenced: only the owner of billing may write here");
    assert_eq!(nobody.details["held"], json!(null));
    let secret = data_encoding::HEXLOWER.encode(&[9; 32]);
    assert!(!format!("{early:?}").contains(&secret));
}

#[test]
fn every_kind_of_error_is_documented() {
    let help = include_str!("help.txt");
    let key = key(b"k");
    let site = Site { global: &GLOBAL, namespace: "carts", key: Some(&key) };
    for (name, failure) in every_failure(site) {
        assert!(help.split_whitespace().any(|word| word == failure.kind), "{name}: {}", failure.kind);
    }
}

#[test]
fn exit_codes_are_those_of_the_contract() {
    let all = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Refused,
        Exit::Absent,
        Exit::Unknown,
        Exit::Fenced,
        Exit::Siblings,
        Exit::Unavailable,
        Exit::Denied,
    ];
    assert!(all.iter().zip(0..).all(|(exit, code)| exit.code() == code));
}

#[test]
fn an_error_is_an_object_too() {
    let failure = Failure::new(Exit::Refused, "exists", "carts/k exists").next("tanist get carts k");
    let expected = json!({ "error": {
        "kind": "exists", "exit": 3, "message": "carts/k exists", "state": "nothing changed",
        "next": ["tanist get carts k"],
    }});
    assert_eq!(failure.to_json(), expected);
}

#[test]
fn words_are_quoted_for_a_shell() {
    let cases = [
        ("plain-1_x/y.z", "plain-1_x/y.z"),
        ("", "''"),
        ("two words", "'two words'"),
        ("$HOME", "'$HOME'"),
        ("it's", r"'it'\''s'"),
        ("*", "'*'"),
        ("é", "'é'"),
    ];
    for (word, shown) in cases {
        assert_eq!(quoted(word), shown);
        let echo = std::process::Command::new("sh").args(["-c", &format!("printf %s {shown}")]).output();
        assert_eq!(echo.unwrap().stdout, word.as_bytes(), "{shown}");
    }
}

#[test]
fn suggestions_name_keys_that_cannot_be_typed_in_hexadecimal() {
    let line = |bytes: &[u8]| {
        let key = key(bytes);
        Site { global: &GLOBAL, namespace: "ns", key: Some(&key) }.line("get", &[])
    };
    assert_eq!(line(b"a b"), "tanist get ns 'a b'");
    assert_eq!(line(b"\xff\x80"), "tanist get ns ff80 --key-hex");
    assert_eq!(line(b"\0"), "tanist get ns 00 --key-hex");
    assert_eq!(line(b"-x"), "tanist get ns 2d78 --key-hex");
    assert_eq!(line(b"a\nb"), "tanist get ns 610a62 --key-hex");
    let at = Global { at: Some("n2".to_owned()), ..GLOBAL };
    let key = key(b"k");
    let resolve = Site { global: &at, namespace: "ns", key: Some(&key) }.line("resolve", &["--", "COMMAND"]);
    assert_eq!(resolve, "tanist resolve ns k --at n2 -- COMMAND");
}

#[test]
fn bytes_are_text_or_base64() {
    assert_eq!(forms::bytes(b"caf\xc3\xa9"), json!({ "text": "café" }));
    assert_eq!(forms::bytes(b""), json!({ "text": "" }));
    assert_eq!(forms::bytes(b"\xff\x80"), json!({ "base64": "/4A=" }));
    assert_eq!(forms::bytes(b"\0"), json!({ "text": "\0" }));
}

#[test]
fn times_nobody_lives_in_are_no_times() {
    assert_eq!(forms::time(0), None);
    assert_eq!(forms::time(1_000).as_deref(), Some("1970-01-01T00:00:01.000Z"));
    assert_eq!(forms::time(253_402_300_799_999).as_deref(), Some("9999-12-31T23:59:59.999Z"));
    assert_eq!(forms::time(253_402_300_800_000), None);
    assert_eq!(forms::time(u64::MAX), None);
}

#[test]
fn what_a_write_replaces_is_named_by_versions_or_a_file() {
    let id = "3f".repeat(32);
    for good in [&format!("7-{id}"), "7-3f3f3f3f", &format!("7-3f3f3f3f+2-{id}"), "absent", "@file"] {
        assert!(good.parse::<If>().is_ok(), "{good}");
    }
    let long = format!("7-{id}0");
    for bad in ["", "7", "7-", "7-3f3f3f3", "07-3f3f3f3f", "+7-3f3f3f3f", "7-3F3F3F3F", "7-zzzzzzzz", &long] {
        assert!(bad.parse::<If>().is_err(), "{bad}");
    }
    assert!("18446744073709551616-3f3f3f3f".parse::<If>().is_err(), "a generation has 64 bits");
}

#[test]
fn the_parser_is_sound_and_its_errors_have_three_lines_too() {
    Cli::command().debug_assert();
    let lines = [
        vec!["tanist"],
        vec!["tanist", "get", "ns"],
        vec!["tanist", "create", "ns", "k"],
        vec!["tanist", "create", "ns", "k", "v", "--stdin"],
        vec!["tanist", "replace", "ns", "k", "v"],
        vec!["tanist", "replace", "ns", "k", "v", "--if", "nonsense"],
        vec!["tanist", "delete", "ns", "k"],
        vec!["tanist", "resolve", "ns", "k"],
        vec!["tanist", "namespace", "create", "x"],
        vec!["tanist", "create", "ns", "k", "-x"],
    ];
    for line in lines {
        let error = Cli::try_parse_from(&line).unwrap_err();
        let failure = usage::failure(&error.render().to_string());
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.to_text().lines().count(), 3, "{line:?}: {}", failure.to_text());
    }
    for line in [
        vec!["tanist", "create", "ns", "k", "-5"],
        vec!["tanist", "create", "ns", "k", "--", "--stdin"],
        vec!["tanist", "create", "ns", "", ""],
        vec!["tanist", "update", "ns", "k", "--", "sed", "s/a/b/"],
    ] {
        assert!(Cli::try_parse_from(&line).is_ok(), "{line:?}");
    }
}
