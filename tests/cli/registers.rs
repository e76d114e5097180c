//! The command line on linearizable namespaces, and under fences.

use serde_json::json;

use super::nodes::{Cluster, TANIST, eventually};

fn with_registers() -> Cluster {
    let cluster = Cluster::start();
    cluster.admin(&["namespace", "create", "jobs", "--mode", "linearizable"]).expect(0);
    cluster
}

#[test]
fn a_register_takes_every_verb_and_has_no_siblings() {
    let cluster = with_registers();
    let first = cluster.run(&["create", "jobs", "k", "one"]).expect(0).text();
    let exists = cluster.run(&["create", "jobs", "k", "other"]).expect(3);
    assert!(exists.err.contains(&first), "it names the winner: {}", exists.err);
    let second = cluster.run(&["replace", "jobs", "k", "2", "--if", &first[..12]]).expect(0).text();
    assert!(second.starts_with("2-"), "{second}");
    let stale = cluster.run(&["replace", "jobs", "k", "x", "--if", &first, "--json"]).expect(3).error();
    assert_eq!((&stale["kind"], &stale["current"][0]["version"]), (&json!("changed"), &json!(second)));
    let third =
        cluster.run(&["update", "jobs", "k", "--", "sh", "-c", "echo $(($(cat) + 1))"]).expect(0).text();
    assert_eq!(cluster.run(&["get", "jobs", "k"]).expect(0).text(), "3");
    let over = cluster.run(&["overwrite", "jobs", "k", "four"]).expect(0);
    assert!(over.err.contains(&format!("replaced: {third}")), "{}", over.err);
    let shown = cluster.run(&["show", "jobs", "k"]).expect(0).text();
    assert!(shown.contains(&over.text()) && shown.contains("stamped by n"), "{shown}");
    assert_eq!(cluster.run(&["list", "jobs"]).expect(0).text(), "k");
    for node in ["n1", "n2", "n3"] {
        eventually("the node knows what was chosen", || {
            let local = cluster.run(&["get", "jobs", "k", "--local", "--at", node]);
            (local.out == b"four").then_some(())
        });
    }

    // What would keep two values is refused, and what asks for them finds none.
    let beside = cluster.run(&["replace", "jobs", "k", "x", "--if", &first, "--or-sibling"]).expect(2);
    assert!(beside.err.contains("have no siblings"), "{}", beside.err);
    let resolve = cluster.run(&["resolve", "jobs", "k", "--", "cat"]).expect(2);
    assert!(resolve.err.contains("\"jobs\" is linearizable"), "{}", resolve.err);
    assert!(cluster.run(&["conflicts", "jobs"]).expect(0).out.is_empty());
    assert_eq!(cluster.run(&["conflicts", "jobs", "--json"]).expect(0).json(), json!({ "keys": [] }));
    cluster.run(&["conflicts", "none"]).expect(1);

    cluster.run(&["delete", "jobs", "k", "--if", &first]).expect(3);
    cluster.run(&["delete", "jobs", "k", "--any"]).expect(0);
    cluster.run(&["get", "jobs", "k"]).expect(4);
    assert!(cluster.run(&["create", "jobs", "k", "again"]).expect(0).text().starts_with("6-"));
}

#[test]
fn a_receipt_of_a_register_has_a_final_verdict() {
    let mut cluster = with_registers();
    let first = cluster.run(&["create", "jobs", "k", "one", "--receipt", "r1"]).expect(0).text();
    cluster.run(&["replace", "jobs", "k", "two", "--if", &first]).expect(0);
    let outcome = cluster.run(&["outcome", "jobs", "k", "r1"]).expect(0);
    assert!(outcome.text() == first && outcome.err.contains("replaced since by"), "{outcome:?}");
    assert_eq!(cluster.run(&["outcome", "jobs", "k", "r1", "--settle"]).expect(0).text(), first);
    // The line again is the same write.
    assert_eq!(cluster.run(&["create", "jobs", "k", "one", "--receipt", "r1"]).expect(0).text(), first);

    cluster.run(&["replace", "jobs", "k", "x", "--if", &first, "--receipt", "r2"]).expect(3);
    for settle in [&[][..], &["--settle"]] {
        let lost =
            cluster.run(&[&["outcome", "jobs", "k", "r2", "--json"], settle].concat()).expect(3).error();
        assert_eq!((&lost["kind"], &lost["outcome"]), (&json!("changed"), &json!("refused")), "{lost}");
    }

    // Without a majority nothing is decided; with one, what was not sent to anybody is still open.
    cluster.kill(2);
    cluster.kill(3);
    let alone = cluster.run(&["create", "jobs", "other", "one", "--receipt", "r3"]);
    assert!([5, 8].contains(&alone.code), "{alone:?}");
    cluster.restart(2);
    cluster.restart(3);
    cluster.ready();
    if alone.code == 8 {
        let open = cluster.run(&["outcome", "jobs", "other", "r3", "--json"]).expect(5).error();
        assert_eq!((&open["kind"], &open["outcome"]), (&json!("unknown"), &json!("open")), "{open}");
    }
    let settled = cluster.run(&["outcome", "jobs", "other", "r3", "--settle"]).expect(0).text();
    assert!(settled.starts_with("1-"), "{settled}");
    assert_eq!(cluster.run(&["get", "jobs", "other"]).expect(0).out, b"one");
}

#[test]
fn writes_of_an_owner_keep_earlier_owners_and_everybody_else_out() {
    let cluster = with_registers();
    let as_owner = |keep: &str, line: &str| {
        let script = format!("cp \"$TANIST_FENCE\" {keep} && {TANIST} {line}");
        cluster.run(&["elect", "billing", "--lease", "5s", "--", "sh", "-c", &script])
    };
    let one = as_owner("early", "overwrite jobs ledger one").expect(0).text();
    let anybody = cluster.run(&["overwrite", "jobs", "ledger", "x"]).expect(6);
    assert!(anybody.err.contains("only the owner of billing"), "{}", anybody.err);
    let anybody = cluster.run(&["overwrite", "jobs", "ledger", "x", "--json"]).expect(6).error();
    assert_eq!((&anybody["resource"], &anybody["needed"]), (&json!({ "text": "billing" }), &json!("1")));
    assert_eq!((&anybody["kind"], &anybody["held"]), (&json!("fenced"), &json!(null)));

    // A resignation has a term of its own. To read with the flag is to seal.
    as_owner("late", "get jobs ledger --fenced-by late").expect(0);
    let early = cluster.path("early");
    let file = early.to_str().unwrap();
    let verbs: [&[&str]; 6] = [
        &["overwrite", "jobs", "ledger", "x"],
        &["replace", "jobs", "ledger", "x", "--if", &one],
        &["update", "jobs", "ledger"],
        &["delete", "jobs", "ledger", "--if", &one],
        &["delete", "jobs", "ledger", "--any"],
        &["get", "jobs", "ledger"],
    ];
    for verb in verbs {
        let command: &[&str] = if verb[0] == "update" { &["--", "cat"] } else { &[] };
        let flagged = cluster.run(&[verb, &["--fenced-by", file][..], command].concat()).expect(6);
        assert!(flagged.err.starts_with("error: jobs/ledger: fenced, term 1 < 3\n"), "{}", flagged.err);
        let code = if verb[0] == "get" { 0 } else { 6 };
        cluster.run_fenced(&early, &[verb, command].concat()).expect(code);
    }
    let line = ["overwrite", "jobs", "ledger", "x", "--json", "--fenced-by", file];
    let held = &cluster.run(&line).expect(6).error()["held"];
    assert_eq!(*held, json!({ "resource": { "text": "billing" }, "term": "1" }));
    assert_eq!(cluster.run(&["get", "jobs", "ledger"]).expect(0).out, b"one");

    // Siblings are never fenced: asked for it is refused, and from the environment it means others.
    cluster.run(&["create", "carts", "k", "v", "--fenced-by", file]).expect(2);
    cluster.run_fenced(&early, &["create", "carts", "k", "v"]).expect(0);
    cluster.run(&["get", "carts", "k", "--fenced-by", file]).expect(2);

    cluster
        .admin(&["namespace", "create", "books", "--mode", "linearizable", "--owned-by", "billing"])
        .expect(0);
    let listed = cluster.run(&["namespace", "list"]).expect(0).text();
    assert!(
        listed.lines().any(|line| line.starts_with("books") && line.ends_with("owned by billing")),
        "{listed}"
    );
    cluster.run(&["create", "books", "never-written", "x"]).expect(6);
    as_owner("last", "create books never-written x").expect(0);
}
