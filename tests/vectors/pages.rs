//! Tables of `proto-docs` that this crate can check: limits, message numbers, contexts, failures.

use std::fs;
use std::path::{Path, PathBuf};

use tanist::core::limits;
use tanist::wire::client::Failure;
use tanist::wire::registry::{PeerMessage, Reply, Request};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto-docs")
}

fn page(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// 1048576 as 1,048,576.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[test]
fn model_lists_every_limit() {
    let model = page("model.md");
    let source = include_str!("../../src/core/limits.rs");
    let mut seen = 0;
    for line in source.lines().filter_map(|line| line.strip_prefix("pub const ")) {
        let (name, _) = line.split_once(':').unwrap();
        let value = match name {
            "VALUE_LEN" => limits::VALUE_LEN,
            "KEY_LEN" => limits::KEY_LEN,
            "FRAME_LEN" => limits::FRAME_LEN,
            "SIBLINGS_ADMITTED" => limits::SIBLINGS_ADMITTED,
            "VERSIONS" => limits::VERSIONS,
            "STAMPS" => limits::STAMPS,
            "PAST_ACTORS" => limits::PAST_ACTORS,
            "PAST_ACTORS_ADMITTED" => limits::PAST_ACTORS_ADMITTED,
            "PAST_RANGES" => limits::PAST_RANGES,
            "PATH_LEN" => limits::PATH_LEN,
            "BATCH_ITEMS" => limits::BATCH_ITEMS,
            "BATCH_INPUTS" => limits::BATCH_INPUTS,
            "BATCH_LEN" => limits::BATCH_LEN,
            "MEMBERS" => limits::MEMBERS,
            "REPLICAS" => limits::REPLICAS,
            "NAMESPACE_LEN" => limits::NAMESPACE_LEN,
            "POLICY_ITEMS" => limits::POLICY_ITEMS,
            "LIST_PAGE" => limits::LIST_PAGE,
            "OPERATIONS" => limits::OPERATIONS,
            "ROW_ADMITTED" => limits::ROW_ADMITTED,
            "RECENT" => limits::RECENT,
            "VOID" => limits::VOID,
            "LEASE_MIN_MS" => limits::LEASE_MIN_MS as usize,
            "LEASE_MAX_MS" => limits::LEASE_MAX_MS as usize,
            "COUNTERS" => limits::COUNTERS as usize,
            "COUNTER_BLOCK" => limits::COUNTER_BLOCK as usize,
            other => panic!("{other}: add it here and to model.md"),
        };
        let row = format!("| `{name}` | {} |", grouped(value as u64));
        assert!(model.contains(&row), "model.md lacks {row}");
        seen += 1;
    }
    assert!(seen > 15, "the limits were found");
}

#[test]
fn wire_lists_every_message() {
    let wire = page("wire.md");
    for (number, name) in [Request::KINDS, Reply::KINDS, PeerMessage::KINDS].concat() {
        let row = format!("| {number} | `{name}` |");
        assert!(wire.contains(&row), "wire.md lacks {row}");
    }
}

#[test]
fn errors_lists_every_failure() {
    let errors = page("errors.md");
    let names = [
        Failure::Denied(String::new()),
        Failure::UnknownNamespace,
        Failure::Mode(tanist::core::chain::Mode::Siblings),
        Failure::Expired { epoch: 0, now: 0 },
        Failure::UnknownParents(vec![]),
        Failure::Generation,
        Failure::TooManySiblings(0),
        Failure::Rejected(String::new()),
        Failure::Malformed(String::new()),
        Failure::Unavailable(String::new()),
        Failure::Overloaded,
        Failure::DiskFull,
        Failure::NotBuilt(String::new()),
        Failure::NeedsTenure,
    ];
    for (number, failure) in names.iter().enumerate() {
        let debug = format!("{failure:?}");
        let name = debug.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let row = format!("| {number} | `{name}` |");
        assert!(errors.contains(&row), "errors.md lacks {row}");
    }
}

#[test]
fn conventions_lists_every_context() {
    let conventions = page("conventions.md");
    let source = include_str!("../../src/core/hash.rs");
    let signed = include_str!("../../src/core/signature.rs");
    let quoted = source.lines().chain(signed.lines()).flat_map(|line| line.split('"'));
    let mut seen = 0;
    for context in quoted.filter(|text| text.starts_with("tanist v1 ")) {
        let context = context.replace("\\0", "");
        assert!(conventions.contains(&format!("`{context}`")), "conventions.md lacks {context}");
        seen += 1;
    }
    assert!(seen >= 15, "the contexts were found");
}

/// Every page is in the index, links lead somewhere, and every page says what fails when it is wrong.
#[test]
fn pages_are_listed_and_guarded() {
    let index = page("README.md");
    let mut pages = vec![];
    for folder in [folder(), folder().join("chains")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() > 15);
    for path in pages {
        let name = path.strip_prefix(folder()).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "README.md does not list {name}"
        );
        let unbuilt = text.contains("Not built yet");
        assert!(unbuilt || text.contains("Guarded by"), "{name} does not say what guards it");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let found =
                target.is_empty() || target.contains("://") || path.parent().unwrap().join(target).exists();
            assert!(found, "{name} links to {link}");
        }
    }
}
