//! What the commands of ownership say without a cluster.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::Value;
use tanist::core::armor;
use tanist::core::authority::CLUSTER_TITLE;
use tanist::core::certificate::CERTIFICATE_TITLE;
use tempfile::TempDir;

use super::nodes::{Ran, tanist};

/// Files made of the vectors of the protocol.
struct Files {
    folder: TempDir,
    certificates: Value,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chains = vectors("chains.json");
        let chain = chains["valid"].as_array().unwrap().iter();
        let chain = chain.into_iter().find(|chain| chain["name"] == "the example cluster").unwrap();
        let genesis = HEXLOWER.decode(chain["entries"][0]["encoded"].as_str().unwrap().as_bytes()).unwrap();
        fs::write(folder.path().join("cluster"), armor::write(CLUSTER_TITLE, &genesis)).unwrap();
        Files { folder, certificates: vectors("certificates.json") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `certificate verify` on what the vectors call so.
    fn verify(&self, list: &str, name: &str, options: &[&str]) -> Ran {
        let vectors = self.certificates[list].as_array().unwrap();
        let vector = vectors.iter().find(|vector| vector["name"] == name).unwrap();
        let bytes = HEXLOWER.decode(vector["certificate"].as_str().unwrap().as_bytes()).unwrap();
        fs::write(self.path("certificate"), armor::write(CERTIFICATE_TITLE, &bytes)).unwrap();
        self.verify_file(&self.path("certificate"), options)
    }

    fn verify_file(&self, file: &Path, options: &[&str]) -> Ran {
        let cluster = self.path("cluster");
        let line = ["certificate", "verify", file.to_str().unwrap(), "--cluster", cluster.to_str().unwrap()];
        tanist(&[&line, options].concat())
    }
}

fn vectors(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto-docs/vectors").join(file);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_certificate_is_verified_offline() {
    let files = Files::new();
    let said = files.verify("valid", "votes of the founders", &[]).expect(0);
    assert!(said.text().starts_with("billing was owned by ") && said.text().contains("term 1,"), "{said:?}");
    let carried = "votes of a later membership, carried along";
    let json = files.verify("valid", carried, &["--json"]).expect(0).json();
    assert_eq!((&json["resource"], &json["term"]), (&"billing".into(), &"2".into()));
    let resigned = files.verify("valid", "a resignation", &[]).expect(0);
    assert!(resigned.text().starts_with("billing was given up by "), "{resigned:?}");

    // It proves that somebody was owner, not that nobody owns a later term.
    files.verify("valid", carried, &["--min-term", "2"]).expect(0);
    let fenced = files.verify("valid", carried, &["--min-term", "3"]).expect(6);
    assert!(fenced.err.contains("fenced, term 2 < 3") && fenced.err.lines().count() == 3, "{}", fenced.err);
    files.verify("valid", carried, &["--resource", "billing"]).expect(0);
    let other = files.verify("valid", carried, &["--resource", "payroll"]).expect(1);
    assert!(other.err.contains("not of payroll"), "{}", other.err);
    files.verify("valid", carried, &["--min-term", "soon"]).expect(2);
}

#[test]
fn p8_a_certificate_that_proves_nothing_is_refused() {
    let files = Files::new();
    let few = files.verify("invalid", "no votes", &["--json"]).expect(1);
    assert_eq!((few.out.len(), &few.error()["kind"]), (0, &"not-proven".into()));
    let invalid = files.certificates["invalid"].as_array().unwrap().clone();
    let forged = invalid.iter().filter(|vector| {
        // What is judged by more than a cluster's file is not the command line's.
        vector["kind"] == "certificate"
            && vector["chains"] == "the example cluster"
            && (vector["pinned"] == 1 && vector["floor"] == 1)
            && vector["reason"] != "resource"
    });
    let mut seen = 0;
    for vector in forged {
        files.verify("invalid", vector["name"].as_str().unwrap(), &[]).expect(1);
        seen += 1;
    }
    assert!(seen > 20, "{seen}");

    fs::write(files.path("text"), "not a certificate").unwrap();
    files.verify_file(&files.path("text"), &[]).expect(1);
    files.verify_file(&files.path("nowhere"), &[]).expect(1);
    fs::write(files.path("cluster"), "not a cluster").unwrap();
    let cluster = files.verify("valid", "votes of the founders", &[]).expect(1);
    assert!(cluster.err.contains("tanist cluster new"), "{}", cluster.err);
}

#[test]
fn an_ownership_that_cannot_be_is_refused_before_anything_is_sent() {
    for lease in ["999ms", "6m"] {
        let refused = tanist(&["elect", "billing", "--lease", lease, "--", "true"]).expect(2);
        assert!(refused.err.contains("1 second to 5 minutes"), "{}", refused.err);
        tanist(&["once", "jobs", "k", "--lease", lease, "--", "true"]).expect(2);
    }
    let grace = tanist(&["elect", "billing", "--lease", "4s", "--grace", "3s", "--", "true"]).expect(2);
    assert!(grace.err.contains("half the lease"), "{}", grace.err);
    // A command that was not run ends as tanist failing; without one there is a code for what is wrong.
    let marked = tanist(&["elect", "billing", "--", "true"]).expect(125);
    assert!(marked.err.contains("TANIST_TICKET"), "{}", marked.err);
    tanist(&["elect", "billing"]).expect(2);
    tanist(&["elect", "", "--", "true"]).expect(125);
    tanist(&["owner", ""]).expect(2);
    tanist(&["once", "jobs", "k"]).expect(2);
    tanist(&["once", "jobs", "k", "--again", "--done", "x"]).expect(2);
}

#[test]
fn only_who_holds_the_tenure_resigns_it() {
    let without = tanist(&["resign", "billing"]).expect(2);
    assert!(without.err.contains("--fenced-by FILE") && without.err.lines().count() == 3, "{}", without.err);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fence");
    fs::write(&file, "not a fence").unwrap();
    let odd = tanist(&["resign", "billing", "--fenced-by", file.to_str().unwrap()]).expect(1);
    assert!(odd.err.contains("elect RESOURCE --fence FILE"), "{}", odd.err);
}
