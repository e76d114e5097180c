//! `tanist demo` and `tanist dev`.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::support::{TANIST, text, turn};

/// Runs the demonstration with these rules broken; how it ended, and the claims that do not hold.
fn demo(broken: &[&str]) -> (Output, BTreeSet<String>, Value) {
    let mut command = Command::new(TANIST);
    command.args(["demo", "--json"]).env("TANIST_TEST_BREAK", "1");
    for rule in broken {
        command.args(["--break", rule]);
    }
    let output = command.output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)));
    let claims = told["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 13);
    let failed = claims.iter().filter(|claim| claim["holds"] == false);
    let failed = failed.map(|claim| claim["name"].as_str().unwrap().to_owned()).collect();
    (output, failed, told)
}

#[test]
fn the_demo_holds_and_cannot_lie() {
    let _turn = turn();
    let (output, failed, told) = demo(&[]);
    assert_eq!((output.status.code(), &failed), (Some(0), &BTreeSet::new()), "{told:#}");
    assert_eq!(told["holds"], true);
    assert!(told["seconds"].as_f64().unwrap() < 60.0, "{}", told["seconds"]);
    for broken in [
        ["create", "retry", "partition", "durable", "owner", "certificate", "settle"],
        ["update", "forgery", "kill", "stop", "count", "kill-registers", "certificate"],
    ] {
        let (output, failed, told) = demo(&broken);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(told["holds"], false);
        assert_eq!(failed, broken.map(str::to_owned).into(), "{told:#}");
    }
}

#[test]
fn rules_are_broken_in_tests_only() {
    let output =
        Command::new(TANIST).args(["demo", "--break", "create"]).env_remove("TANIST_TEST_BREAK").output();
    assert_eq!(output.unwrap().status.code(), Some(2));
    let help = Command::new(TANIST).args(["demo", "--help"]).output().unwrap();
    assert!(!text(&help.stdout).contains("break"));
}

#[test]
fn dev_runs_a_command_and_passes_its_exit_code() {
    let _turn = turn();
    let script = "set -e; $TANIST namespace create ns --mode siblings >&2; $TANIST create ns k v >&2; \
                  $TANIST get ns k; exit 7";
    let output = Command::new(TANIST)
        .args(["dev", "--", "sh", "-c", script])
        .env("TANIST", TANIST)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "v", "{}", text(&output.stderr));
}

#[test]
fn dev_keeps_its_cluster_in_a_folder() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dev");
    let run = |script: &str| {
        let mut command = Command::new(TANIST);
        command.args(["dev", "--nodes", "1", "--dir"]).arg(&dir).args(["--", "sh", "-c", script]);
        command.env("TANIST", TANIST).output().unwrap()
    };
    let first = run("$TANIST namespace create ns --mode siblings && $TANIST create ns k v");
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let second = run("$TANIST get ns k");
    assert_eq!(
        (second.status.code(), text(&second.stdout)),
        (Some(0), "v".to_owned()),
        "{}",
        text(&second.stderr)
    );
}
