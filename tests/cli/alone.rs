//! What needs no cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::nodes::tanist;

#[test]
fn keygen_makes_a_secret_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.key");
    let file = path.to_str().unwrap();
    let made = tanist(&["keygen", file]).expect(0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(made.text().len() == 64 && made.text().bytes().all(|byte| byte.is_ascii_hexdigit()), "{made:?}");
    let pem = fs::read_to_string(&path).unwrap();
    let secret = pem.lines().nth(1).unwrap();
    assert!(!made.err.contains(secret) && !made.text().contains(secret));

    let again = tanist(&["keygen", file]).expect(1);
    assert!(again.err.contains("exists"), "{}", again.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), pem, "never written over");

    let other = dir.path().join("other.key");
    let json = tanist(&["keygen", other.to_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(json["public_key"].as_str().map(str::len), Some(64));
}

#[test]
fn a_cluster_of_two_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let path = path.to_str().unwrap();
    let refused = tanist(&["cluster", "new", path, "--nodes", "2"]).expect(2);
    assert!(refused.err.contains("1 or 3"), "{}", refused.err);
    assert!(!dir.path().join("c").exists());
    for odd in ["a", "a=nowhere", "a=192.0.2.1:0", "=192.0.2.1:1", "a=192.0.2.1:1,rack=1"] {
        tanist(&["cluster", "new", path, "--node", odd]).expect(2);
    }
    assert!(!dir.path().join("c").exists());
}

#[test]
fn a_new_cluster_has_a_folder_for_each_node_and_secrets_are_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let made =
        tanist(&["cluster", "new", path.to_str().unwrap(), "--base-port", "7400", "--json"]).expect(0).json();
    assert_eq!(made["nodes"].as_array().map(Vec::len), Some(3));
    for file in ["admin.key", "client.key", "node-1/node.key", "node-2/secret", "node-3/secret"] {
        let mode = fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    for file in ["cluster", "ticket", "node-1/node.toml", "node-1/cluster", "node-1/data"] {
        assert!(path.join(file).exists(), "{file}");
    }
    let again = tanist(&["cluster", "new", path.to_str().unwrap()]).expect(1);
    assert!(again.err.contains("exists"), "{}", again.err);
}

#[test]
fn a_namespace_that_cannot_be_is_refused_before_anything_is_sent() {
    for (line, why) in [
        (
            &["--mode", "linearizable", "--write-quorum", "1", "--allow-silent-conflicts"][..],
            "a majority decides",
        ),
        (&["--mode", "siblings", "--owned-by", "billing"], "siblings are never fenced"),
        (&["--mode", "linearizable", "--owned-by", ""], "1 to 1024 bytes"),
    ] {
        let answer = tanist(&[&["namespace", "create", "jobs"], line].concat()).expect(2);
        assert!(answer.err.contains(why) && answer.out.is_empty(), "{answer:?}");
    }
    // There is no default.
    tanist(&["namespace", "create", "jobs"]).expect(2);
}

#[test]
fn a_file_that_is_no_fence_says_so_and_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    tanist(&["keygen", &path("key")]).expect(0);
    let pem = fs::read_to_string(path("key")).unwrap();
    let secret = pem.lines().nth(1).unwrap();
    let verbs: [&[&str]; 5] = [
        &["create", "jobs", "k", "v"],
        &["replace", "jobs", "k", "v", "--if", "absent"],
        &["overwrite", "jobs", "k", "v"],
        &["update", "jobs", "k"],
        &["delete", "jobs", "k", "--any"],
    ];
    for verb in verbs {
        for (file, why) in [("none", "cannot be read"), ("key", "not a fence")] {
            let file = path(file);
            let fenced = [&verb[..1], &["--fenced-by", &file][..], &verb[1..]].concat();
            let command: &[&str] = if verb[0] == "update" { &["--", "cat"] } else { &[] };
            let answer = tanist(&[&fenced[..], command].concat()).expect(1);
            assert!(
                answer.err.contains(why) && answer.err.contains("elect RESOURCE --fence"),
                "{}",
                answer.err
            );
            assert!(!answer.err.contains(secret), "{}", answer.err);
            assert_eq!(answer.err.lines().count(), 3, "{}", answer.err);
        }
    }
}

#[test]
fn a_line_that_makes_no_sense_exits_2_in_text_and_json() {
    let text = tanist(&["create", "carts", "k", "v", "--stdin"]).expect(2);
    assert_eq!(text.err.lines().count(), 3, "{}", text.err);
    let json = tanist(&["get", "carts", "--json"]).expect(2).error();
    assert_eq!((&json["kind"], &json["exit"]), (&"usage".into(), &2.into()));
    let no_ticket = tanist(&["get", "carts", "k"]).expect(2);
    assert!(no_ticket.err.contains("TANIST_TICKET"), "{}", no_ticket.err);
    let help = tanist(&["--help"]).expect(0);
    assert!(help.text().contains("Exit codes:") && help.text().contains("kinds:"));
}

/// Case 23, the part that is refused: the same words for every verb, and before anything is sent.
#[test]
fn case_23_what_cannot_be_a_key_is_refused_alike_by_every_verb() {
    let long = "k".repeat(64 << 10);
    let mut said = Vec::new();
    for key in ["", &long] {
        let verbs: [&[&str]; 9] = [
            &["get", "carts", key],
            &["create", "carts", key, "v"],
            &["replace", "carts", key, "v", "--if", "absent"],
            &["overwrite", "carts", key, "v"],
            &["update", "carts", key, "--", "cat"],
            &["delete", "carts", key, "--any"],
            &["resolve", "carts", key, "--", "cat"],
            &["show", "carts", key],
            &["outcome", "carts", key, "receipt"],
        ];
        let answers: Vec<_> = verbs
            .iter()
            .map(|verb| {
                let answer = tanist(&[verb, &["--json"][..]].concat());
                // `--json` behind `--` is COMMAND's.
                if verb.contains(&"--") { tanist(&[&["--json"], *verb].concat()) } else { answer }
            })
            .collect();
        for answer in &answers {
            assert_eq!(answer.code, 2, "{answer:?}");
            assert_eq!(answer.error()["kind"], "invalid-key");
            assert_eq!(answer.error()["message"], answers[0].error()["message"]);
        }
        said.push(answers[0].error()["message"].clone());
    }
    assert_eq!(
        said,
        ["a key has 1 to 1024 bytes, this one has 0", "a key has 1 to 1024 bytes, this one has 65536"]
    );
}

/// Lines of a history, and the file that they are in.
fn history(dir: &tempfile::TempDir, lines: &[&str]) -> String {
    let path = dir.path().join("history.jsonl");
    fs::write(&path, lines.join("\n")).expect("a file");
    path.to_str().expect("a text").to_owned()
}

#[test]
fn a_recorded_history_is_judged() {
    const FIRST: &str = r#"{"type":"history","version":1}"#;
    let dir = tempfile::tempdir().unwrap();
    let mut lines = vec![
        FIRST,
        r#"{"type":"invoke","op":1,"time":0,"client":"c1","call":{"swap":{"register":"k","to":"a"}}}"#,
        r#"{"type":"ok","op":1,"time":1500}"#,
        r#"{"type":"invoke","op":2,"time":2000,"client":"c1","call":{"swap":{"register":"k","from":"a","to":"b"}}}"#,
        r#"{"type":"ok","op":2,"time":3000}"#,
    ];
    let right = tanist(&["check", &history(&dir, &lines)]).expect(0);
    assert_eq!(right.text(), "register k: right (2 ok, 0 fail, 0 unknown)");

    lines.push(r#"{"type":"invoke","op":3,"time":2000000000,"client":"c2","call":{"get":{"register":"k"}}}"#);
    lines.push(r#"{"type":"ok","op":3,"time":2000001000,"saw":["a"]}"#);
    let file = history(&dir, &lines);
    let wrong = tanist(&["check", &file]).expect(1);
    let expected = "register k: WRONG: a stale answer (3 ok, 0 fail, 0 unknown)\n  \
                    0.000002 s - 0.000003 s  c1  swap a -> b: ok\n  \
                    2.000000 s - 2.000001 s  c2  get: ok, saw a";
    assert_eq!(wrong.text(), expected);
    assert!(wrong.err.contains("1 of 1 histories break a promise"), "{}", wrong.err);
    let json = tanist(&["check", &file, "--json"]).expect(1).json();
    let violation = &json["histories"][0]["violation"];
    assert_eq!(violation["rule"], "a stale answer");
    assert_eq!(violation["operations"][1]["op"], 3);

    for (lines, why) in [
        (vec![], "no operation"),
        (vec![FIRST], "no operation"),
        (vec![FIRST, "{"], "line 2"),
        (vec![FIRST, r#"{"type":"unknown","op":1}"#], "line 2: operation 1 ends, and did not begin before"),
        (vec![r#"{"type":"unknown","op":1}"#], "line 1: the first line is not"),
    ] {
        let refused = tanist(&["check", &history(&dir, &lines)]).expect(1);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    tanist(&["check", "/nowhere"]).expect(1);
}
