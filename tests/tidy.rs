//! House rules that the compiler does not keep, as ordinary tests.
//!
//! A rule looks at one file and returns the places that break it. [`keep`] first makes the rule show
//! that it can fail, on small samples, and then holds every file of the repository against it.

use std::fs;
use std::path::Path;

/// The layers, top to bottom, each with the layers that it may import: the picture in `src/lib.rs`.
const LAYERS: [(&str, &[&str]); 9] = [
    ("cli", &["node", "client", "transport", "storage", "engine", "wire", "core", "history"]),
    ("node", &["client", "transport", "storage", "engine", "wire", "core"]),
    ("client", &["transport", "wire", "core"]),
    ("transport", &["wire", "core"]),
    ("storage", &["engine", "wire", "core"]),
    ("engine", &["wire", "core"]),
    ("wire", &["core"]),
    ("core", &[]),
    ("history", &[]),
];

/// Layers that a test can step: time, randomness and I/O are arguments.
const PURE: [&str; 4] = ["core", "wire", "engine", "history"];

/// The longest a source file may be; one that passes it wants to be two.
const LONGEST: usize = 600;

/// Files allowed to be longer, with their present length, which may only shrink.
const LONGER: [(&str, usize); 0] = [];

const CLOCK: &str = "src/node/clock.rs";
const ENTROPY: &str = "src/node/entropy.rs";
/// The SDK's own reader of both: it may not import `node`.
const AMBIENT: &str = "src/client/ambient.rs";
const CODEC: &str = "src/core/codec.rs";
const VERIFIED: &str = "src/core/verified.rs";

#[test]
fn imports_go_down_the_list_only() {
    keep(
        imports,
        &[
            ("src/core/hash.rs", "use crate::wire::frame;"),
            ("src/core/hash.rs", "fn f() { crate::engine::run() }"),
            ("src/core/hash.rs", "macro_rules! m { () => { $crate::wire::frame() }; }"),
            ("src/core/hash.rs", "use super::super::node;"),
            ("src/core/mod.rs", "use super::wire;"),
            ("src/client/mod.rs", "use crate::{core::hash, engine::{self, store}};"),
            ("src/client/mod.rs", "use crate::storage::Rocks;"),
            ("src/transport/mod.rs", "use crate::engine::store;"),
            ("src/storage/mod.rs", "use crate::transport::Link;"),
            ("src/engine/mod.rs", "use crate::Hash;"),
            ("src/utils/mod.rs", "//! A layer that nobody drew."),
        ],
        &[
            ("src/core/hash.rs", "use super::codec; use crate::core::{limits, identity as who};"),
            ("src/core/hash.rs", "// use crate::wire::frame;\nconst A: &str = \"crate::wire::frame\";"),
            ("src/client/mod.rs", "use crate::{core::hash, transport::{Link, *}, wire};"),
            ("src/storage/mod.rs", "pub(crate) use crate::engine::store::View;"),
            ("src/main.rs", "use tanist::cli;"),
        ],
    );
}

fn imports(source: &Source) -> Vec<Broken> {
    let Some(layer) = source.layer() else { return Vec::new() };
    let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
        let what =
            format!("`{layer}` is not a layer: move the file, or draw the layer here and in src/lib.rs");
        return vec![(1, what)];
    };
    let from_root = if source.path.ends_with("/mod.rs") { 1 } else { source.path.matches('/').count() };
    let mut broken = Vec::new();
    for (line, path) in paths(&source.code) {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let target = match path.as_slice() {
            [root, name, ..] if root == "crate" => name,
            path if supers >= from_root => match path.get(supers) {
                Some(name) if LAYERS.iter().any(|(layer, _)| layer == name) => name,
                _ => continue,
            },
            _ => continue,
        };
        if target != layer && !below.contains(&target.as_str()) {
            let may = if below.is_empty() { "nothing".to_owned() } else { below.join(", ") };
            broken.push((line, format!("`{layer}` imports `{target}`: besides itself it may import {may}")));
        }
    }
    broken
}

#[test]
fn files_are_short() {
    let long = "//! Too much.\n".repeat(LONGEST + 1);
    keep(lengths, &[("src/core/long.rs", &long)], &[("src/core/long.rs", &long[14..]), ("README.md", &long)]);
}

fn lengths(source: &Source) -> Vec<Broken> {
    let most = LONGER.iter().find(|(path, _)| *path == source.path).map_or(LONGEST, |(_, most)| *most);
    let lines = source.text.lines().count();
    if !source.path.starts_with("src/") || lines <= most {
        return Vec::new();
    }
    vec![(lines, format!("{lines} lines, where {most} are the limit: move one of its purposes to a file"))]
}

#[test]
fn core_wire_and_engine_have_no_clock_network_disk_or_randomness() {
    keep(
        purity,
        &[
            ("src/core/a.rs", "use std::time::{Duration, Instant};"),
            ("src/wire/a.rs", "fn f(at: std::time::SystemTime) {}"),
            ("src/engine/a.rs", "async fn f() { tokio::task::yield_now().await }"),
            ("src/engine/a.rs", "fn f() -> u64 { rand::random() }"),
            ("src/engine/a.rs", "use std::{fs, io};"),
            ("src/engine/a.rs", "#[cfg(test)]\nmod tests { #[tokio::test] async fn f() {} }"),
        ],
        &[
            ("src/engine/a.rs", "use std::time::Duration; use rand_chacha::ChaCha8Rng; // tokio"),
            ("src/engine/a.rs", "fn random(grand: u8) {}"),
            ("src/node/a.rs", "use std::{fs, time::Instant}; use tokio::net::UdpSocket;"),
        ],
    );
}

fn purity(source: &Source) -> Vec<Broken> {
    const NAMES: [&str; 14] = [
        "tokio",
        "quinn",
        "rustls",
        "rocksdb",
        "rustix",
        "rand",
        "getrandom",
        "OsRng",
        "Instant",
        "SystemTime",
        "UdpSocket",
        "TcpStream",
        "TcpListener",
        "File",
    ];
    const MODULES: [&str; 4] = ["fs", "env", "thread", "process"];
    if !source.layer().is_some_and(|layer| PURE.contains(&layer)) {
        return Vec::new();
    }
    let outside = |path: &[String]| {
        let std = path.first().is_some_and(|root| root == "std");
        let module = path.get(1).filter(|name| std && MODULES.contains(&name.as_str()));
        module.or_else(|| path.iter().find(|name| NAMES.contains(&name.as_str()))).cloned()
    };
    let named = paths(&source.code).into_iter().filter_map(|(line, path)| Some((line, outside(&path)?)));
    named
        .map(|(line, name)| (line, format!("`{name}` in a pure layer: take what it yields as an argument")))
        .collect()
}

#[test]
fn what_is_hashed_signed_or_simulated_has_an_order() {
    keep(
        order,
        &[
            ("src/core/a.rs", "use std::collections::{BTreeMap, HashMap};"),
            ("src/engine/a.rs", "fn f(a: std::collections::HashSet<u8>) {}"),
        ],
        &[
            ("src/core/a.rs", "use std::collections::BTreeMap; // not a HashMap"),
            ("src/node/a.rs", "type A = HashMap;"),
        ],
    );
}

fn order(source: &Source) -> Vec<Broken> {
    let pure = source.layer().is_some_and(|layer| PURE.contains(&layer));
    source.lines_where(
        |code, _| pure && (has_word(code, "HashMap") || has_word(code, "HashSet")),
        || "iterates in another order every run: use BTreeMap or BTreeSet".to_owned(),
    )
}

#[test]
fn only_the_command_line_prints() {
    keep(
        printing,
        &[
            ("src/node/a.rs", "fn f() { println!(\"{}\", 1) }"),
            ("src/lib.rs", "fn f() { eprintln!() }"),
            ("src/core/a.rs", "fn f() { eprint!(\"x\") }"),
        ],
        &[
            ("src/cli/a.rs", "fn f() { println!() }"),
            ("src/main.rs", "fn main() { eprintln!() }"),
            ("src/core/a.rs", "/// println!(\"x\")\nfn f() { writeln!(out, \"print!\") }"),
        ],
    );
}

fn printing(source: &Source) -> Vec<Broken> {
    let may = source.path.starts_with("src/cli/")
        || source.path == "src/main.rs"
        || !source.path.starts_with("src/");
    let prints =
        |code: &str| ["println!", "eprintln!", "print!", "eprint!"].iter().any(|name| has_word(code, name));
    source.lines_where(
        |code, _| !may && prints(code),
        || "prints: return what src/cli shall print, or log it with tracing".to_owned(),
    )
}

#[test]
fn nothing_unwraps_outside_tests() {
    keep(
        unwraps,
        &[
            ("src/core/a.rs", "fn f() { g().unwrap() }"),
            ("src/core/a.rs", "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {\n    h().unwrap();\n}"),
            ("src/core/a.rs", "#[cfg(test)]\nuse a::b;\nfn g() { h().unwrap() }"),
        ],
        &[
            ("src/core/a.rs", "fn f() { g().unwrap_or(1) } // .unwrap()"),
            (
                "src/core/a.rs",
                "#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn f() { if a { b().unwrap() } }\n}",
            ),
            ("src/core/tests.rs", "fn f() { g().unwrap() }"),
        ],
    );
}

fn unwraps(source: &Source) -> Vec<Broken> {
    let here = source.path.starts_with("src/");
    source.lines_where(
        |code, test| here && !test && code.contains(".unwrap()"),
        || "can panic: return an error, or use `expect` with the reason why it cannot".to_owned(),
    )
}

#[test]
fn every_module_says_what_it_is() {
    keep(
        introductions,
        &[
            ("src/core/a.rs", "use a::b;\n//! Late."),
            ("src/core/mod.rs", "// Not a doc comment."),
            ("src/lib.rs", ""),
        ],
        &[("src/core/a.rs", "//! What it is.\n\nuse a::b;"), ("src/main.rs", "fn main() {}")],
    );
}

fn introductions(source: &Source) -> Vec<Broken> {
    let module = source.path.starts_with("src/") && source.is_rust() && source.path != "src/main.rs";
    if !module || source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![(1, "begin with a `//!` comment that says what the module is for".to_owned())]
}

#[test]
fn select_is_biased() {
    keep(
        selects,
        &[
            ("src/node/a.rs", "tokio::select! {\n    a = b => {}\n}"),
            ("tests/a.rs", "select! { // biased;\n a = b => {} }"),
        ],
        &[("src/node/a.rs", "tokio::select! {\n    // why this order\n    biased;\n    a = b => {}\n}")],
    );
}

fn selects(source: &Source) -> Vec<Broken> {
    let biased =
        |rest: &str| rest.trim_start().trim_start_matches(['{', '(']).trim_start().starts_with("biased;");
    let calls =
        source.code.match_indices("select!").filter(|(at, name)| !biased(&source.code[at + name.len()..]));
    let line = |at: usize| 1 + source.code[..at].matches('\n').count();
    calls
        .map(|(at, _)| (line(at), "begin it with `biased;`, so that the order is decided".to_owned()))
        .collect()
}

#[test]
fn one_file_names_bincode() {
    keep(
        encodings,
        &[("src/wire/a.rs", "use bincode::config;"), ("tests/a.rs", "fn f() { bincode::encode() }")],
        &[(CODEC, "use bincode::config;"), ("src/wire/a.rs", "//! No bincode in here.")],
    );
}

fn encodings(source: &Source) -> Vec<Broken> {
    source.lines_where(
        |code, _| source.path != CODEC && has_word(code, "bincode"),
        || format!("encode and decode through {CODEC}, the one encoding"),
    )
}

#[test]
fn only_checks_make_a_verified() {
    keep(
        verified,
        &[
            ("src/engine/a.rs", "fn f(a: Write) -> Verified<Write> { Verified::new(a) }"),
            ("src/engine/a.rs", "let a = Verified::<Write>::new(b);"),
            ("src/core/a.rs", "let a = Verified(b);"),
            ("src/core/a.rs", "let a = verified::Verified { inner: b };"),
            (
                VERIFIED,
                "impl<T> Verified<T> {\n    pub(crate) const fn new(value: T) -> Self { Self(value) }\n}",
            ),
            (VERIFIED, "pub struct Verified<T>(pub T);"),
            (VERIFIED, "pub struct Verified<T> {\n    pub(super) inner: T,\n}"),
            (VERIFIED, "#[derive(Clone, Deserialize)]\npub struct Verified<T>(T);"),
            (VERIFIED, "impl<T> From<T> for Verified<T> {}"),
        ],
        &[
            (
                VERIFIED,
                "pub struct Verified<T>(T);\nimpl<T> Verified<T> {\n    fn new(value: T) -> Self { Self(value) }\n}",
            ),
            (VERIFIED, "pub fn write(w: Write) -> Result<Verified<Write>, Refused> { Ok(Verified::new(w)) }"),
            ("src/engine/a.rs", "fn f(a: Verified<Write>) -> Verified<Write> { VerifiedKey::new(a); a }"),
        ],
    );
}

/// Being verified must be the result of a check, so its constructor is private to the file of the
/// checks, and nothing else (a public field, a derive, a conversion) makes one.
fn verified(source: &Source) -> Vec<Broken> {
    let call = |code: &str| {
        let made = |rest: &str| {
            let rest =
                rest.strip_prefix("::<").and_then(|rest| rest.split_once('>')).map_or(rest, |(_, rest)| rest);
            ["(", " {", "::new"].iter().any(|how| rest.starts_with(how))
        };
        words(code, "Verified").any(|at| made(&code[at + "Verified".len()..]))
    };
    if source.path != VERIFIED {
        return source.lines_where(
            |code, _| source.is_rust() && call(code),
            || format!("makes a `Verified` without a check: call the check in {VERIFIED}"),
        );
    }
    let own = source.code.split_once("impl<T> Verified<T>").map_or("", |(_, rest)| rest);
    let own = own.split_once("\n}").map_or(own, |(own, _)| own);
    let mut broken = source.lines_where(
        |code, _| code.trim_start().starts_with("pub") && code.contains("fn new(") && own.contains(code),
        || "the constructor of `Verified` is private: offer a check instead".to_owned(),
    );
    let body = source.code.split_once("struct Verified").map_or("", |(_, rest)| rest);
    let body = &body[..body.find([';', '}']).unwrap_or(body.len())];
    if has_word(body, "pub") {
        broken.push((1, "the field of `Verified` is private: offer a method that reads it".to_owned()));
    }
    broken.extend(source.lines_where(
        |code, _| {
            let derive =
                has_word(code, "derive") && (has_word(code, "Deserialize") || has_word(code, "Default"));
            let on_verified = source.code.contains(&format!("{}\npub struct Verified<", code.trim_end()));
            (derive && on_verified)
                || ["From<", "Default", "Deserialize<"].iter().any(|name| code.contains(name))
                    && code.contains(" for Verified")
        },
        || "makes a `Verified` without a check: remove it".to_owned(),
    ));
    broken
}

#[test]
fn one_file_reads_clocks() {
    keep(
        clocks,
        &[
            ("src/node/driver.rs", "use std::time::Instant; let now = Instant::now();"),
            ("src/client/a.rs", "let now = SystemTime::now();"),
            ("src/cli/a.rs", "let took = started.elapsed();"),
            ("src/node/driver.rs", "let now = rustix::time::clock_gettime(id);"),
        ],
        &[
            (CLOCK, "let now = Instant::now();"),
            ("src/transport/a.rs", "use tokio::time::Instant; let now = Instant::now();"),
            ("src/node/driver.rs", "let now = clock.now(); // Instant::now()"),
            ("src/node/driver.rs", "#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }"),
            ("tests/a.rs", "let now = Instant::now();"),
        ],
    );
}

fn clocks(source: &Source) -> Vec<Broken> {
    const READS: [&str; 4] = ["Instant::now", "SystemTime::now", ".elapsed()", "clock_gettime"];
    let here = source.path.starts_with("src/") && source.path != CLOCK && source.path != AMBIENT;
    // The runtime's clock decides when to give up on a network, and a test can step it.
    let runtimes = has_word(&source.code, "tokio") && !source.code.contains("std::time::Instant");
    source.lines_where(
        |code, test| {
            let read = READS.iter().any(|read| code.contains(read));
            here && !test
                && read
                && !(runtimes && !code.contains("SystemTime") && !code.contains("clock_gettime"))
        },
        || format!("reads a clock: take the time as an argument; it comes from {CLOCK}"),
    )
}

#[test]
fn one_file_draws_random_numbers() {
    keep(
        entropy,
        &[
            ("src/client/a.rs", "getrandom::fill(&mut seed)?;"),
            ("src/node/a.rs", "let rng = rand::rng();"),
            ("src/node/a.rs", "let key = SigningKey::generate(&mut OsRng);"),
        ],
        &[
            (ENTROPY, "getrandom::fill(&mut seed)?;"),
            ("src/node/a.rs", "let seed = entropy.seed(); // not getrandom"),
        ],
    );
}

fn entropy(source: &Source) -> Vec<Broken> {
    const DRAWS: [&str; 6] = ["getrandom", "rand", "OsRng", "SysRng", "thread_rng", "RandomState"];
    let here = source.path.starts_with("src/") && source.path != ENTROPY && source.path != AMBIENT;
    source.lines_where(
        |code, test| here && !test && DRAWS.iter().any(|draw| has_word(code, draw)),
        || format!("draws random numbers: take them as an argument; they come from {ENTROPY}"),
    )
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let host = format!("see index.{}{}/", "crates", ".io");
    keep(
        origins,
        &[
            ("README.md", concat!("cd /", "home/ann/tanist")),
            ("Makefile", concat!("cp x \"/", "work/out\"")),
            ("src/core/a.rs", concat!("//! See /", "root/x.")),
            ("docs.md", &host),
        ],
        &[("README.md", concat!("cd ~/tanist; ls $HOME/", "work/x src/home", "/y"))],
    );
}

fn origins(source: &Source) -> Vec<Broken> {
    const FOLDERS: [&str; 5] = [
        concat!("/", "home/"),
        concat!("/", "root/"),
        concat!("/", "work/"),
        concat!("/", "farm/"),
        concat!("/", "Users/"),
    ];
    const HOSTS: [&str; 6] = [
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("python", "hosted"),
        concat!("npmjs", ".org"),
        concat!("npmjs", ".com"),
        concat!("deb", ".debian"),
    ];
    let starts = |line: &str, at: usize| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~/}".contains(c))
    };
    let mut broken = Vec::new();
    for (line, text) in (1..).zip(source.text.lines()) {
        if FOLDERS.iter().any(|folder| text.match_indices(folder).any(|(at, _)| starts(text, at))) {
            broken.push((line, "a folder of one machine: write it relative, or with $HOME".to_owned()));
        }
        if HOSTS.iter().any(|host| text.contains(host)) {
            broken.push((line, "a package registry's host: name the package only".to_owned()));
        }
    }
    broken
}

#[test]
fn nothing_is_left_open() {
    keep(
        markers,
        &[
            ("src/core/a.rs", concat!("// TO", "DO: later")),
            ("README.md", concat!("FIX", "ME")),
            ("Makefile", concat!("# XX", "X")),
            ("tests/a.rs", concat!("fn f() { to", "do!() }")),
        ],
        &[("src/core/a.rs", concat!("// A TO", "DOLIST; mktemp XX", "XXXX"))],
    );
}

fn markers(source: &Source) -> Vec<Broken> {
    const WORDS: [&str; 5] = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("to", "do!("),
        concat!("unimplem", "ented!("),
    ];
    let left = source.text.lines().zip(1..).filter(|(text, _)| WORDS.iter().any(|word| has_word(text, word)));
    left.map(|(_, line)| (line, "left open: do it now, or file an issue and remove the mark".to_owned()))
        .collect()
}

#[test]
fn tests_take_the_port_they_are_given() {
    keep(
        ports,
        &[
            ("tests/a.rs", concat!("bind(\"127.0.0.1", ":7000\")")),
            ("tests/python/a.py", concat!("connect(\"localhost", ":80\")")),
            ("src/node/a.rs", concat!("#[cfg(test)]\nmod tests {\n    const A: &str = \"[::1]", ":9\";\n}")),
        ],
        &[
            ("tests/a.rs", "bind(\"127.0.0.1:0\"); parse(\"192.0.2.1:7000\")"),
            ("src/node/a.rs", concat!("/// For example `127.0.0.1", ":7000`.\nfn f() {}")),
        ],
    );
}

fn ports(source: &Source) -> Vec<Broken> {
    const HOSTS: [&str; 4] = ["127.0.0.1:", "localhost:", "[::1]:", "0.0.0.0:"];
    let fixed = |rest: &str| rest.starts_with(|c: char| matches!(c, '1'..='9'));
    let names = |text: &str| {
        HOSTS.iter().any(|host| text.match_indices(host).any(|(at, _)| fixed(&text[at + host.len()..])))
    };
    let lines = (1..).zip(source.text.lines()).filter(|(line, text)| source.is_test(*line) && names(text));
    let advice =
        "a fixed port: bind port 0 and ask which it is (192.0.2.1 for an address that is only parsed)";
    lines.map(|(line, _)| (line, advice.to_owned())).collect()
}

#[test]
fn tests_wait_for_events_not_for_time() {
    keep(
        sleeps,
        &[
            ("tests/a.rs", "std::thread::sleep(Duration::from_millis(10));"),
            ("tests/a.rs", "use std::thread::{self, sleep};"),
            ("src/node/a.rs", "#[cfg(test)]\nmod tests {\n    fn f() { thread::sleep(d) }\n}"),
        ],
        &[
            ("tests/a.rs", "receiver.recv_timeout(d); // no thread::sleep"),
            ("src/node/a.rs", "thread::sleep(d)"),
        ],
    );
}

fn sleeps(source: &Source) -> Vec<Broken> {
    let named = paths(&source.code).into_iter().filter(|(line, path)| {
        source.is_test(*line) && path.windows(2).any(|pair| pair[0] == "thread" && pair[1] == "sleep")
    });
    named
        .map(|(line, _)| (line, "waits for time: wait for the event itself, with a deadline".to_owned()))
        .collect()
}

/// A line and what to do about it.
type Broken = (usize, String);

/// Holds the repository against `rule`, which must find each `bad` sample and pass each `good` one.
#[track_caller]
fn keep(rule: fn(&Source) -> Vec<Broken>, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(
            !rule(&Source::new(path, text)).is_empty(),
            "the rule does not see what is wrong here:\n{path}: {text}"
        );
    }
    for (path, text) in good {
        assert_eq!(rule(&Source::new(path, text)), [], "the rule complains of this:\n{path}: {text}");
    }
    let mut files = Vec::new();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
    for known in ["src/lib.rs", "tests/tidy.rs", "Makefile", ".ci/run"] {
        assert!(files.iter().any(|file| file.path == known), "{known} was not read");
    }
    let broken: Vec<String> = files
        .iter()
        .flat_map(|file| rule(file).into_iter().map(|(line, what)| format!("{}:{line}: {what}", file.path)))
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// Every text file under `folder` that is ours: no build products, no environments, no editor's
/// folders, and not the list of dependencies that cargo writes.
fn walk(root: &Path, folder: &str, files: &mut Vec<Source>) {
    let full = root.join(folder);
    if full.join("CACHEDIR.TAG").exists() || full.join("pyvenv.cfg").exists() {
        return;
    }
    for entry in fs::read_dir(&full).expect("the checkout is readable") {
        let entry = entry.expect("the checkout is readable");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().expect("the checkout is readable");
        if kind.is_dir() {
            let ours = !name.starts_with('.') || [".ci", ".cargo", ".github"].contains(&name.as_str());
            if ours && path != "target" {
                walk(root, &path, files);
            }
        } else if kind.is_file()
            && name != "Cargo.lock"
            && path != ".git"
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(Source::new(&path, &text));
        }
    }
}

/// A file of the repository.
struct Source {
    /// Relative to the repository's root.
    path: String,
    text: String,
    /// A Rust file's text, with comments and literals blanked; nothing for other files.
    code: String,
    /// For each line, whether it is built for tests only.
    tests: Vec<bool>,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { without_text(text) } else { String::new() };
        let in_tests = path.starts_with("tests/")
            || path.contains("/tests/")
            || ["/tests.rs", "_tests.rs", "/fixtures.rs", "/fake.rs"].iter().any(|end| path.ends_with(end));
        let mut tests = vec![in_tests; text.lines().count()];
        for (at, attribute) in code.match_indices("#[cfg(test)]") {
            let first = code[..at].matches('\n').count();
            let end = at + attribute.len() + item_len(&code[at + attribute.len()..]);
            let last = code[..end].matches('\n').count();
            tests.iter_mut().take(last + 1).skip(first).for_each(|test| *test = true);
        }
        Source { path: path.to_owned(), text: text.to_owned(), code, tests }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self, line: usize) -> bool {
        self.tests.get(line - 1).copied().unwrap_or(false)
    }

    /// The layer that the file is in; none for `lib.rs`, `main.rs` and what is outside `src`.
    fn layer(&self) -> Option<&str> {
        let inside = self
            .path
            .strip_prefix("src/")
            .filter(|path| self.is_rust() && !["lib.rs", "main.rs"].contains(path))?;
        inside.split(['/', '.']).next()
    }

    /// The lines whose code (and whether it is a test's) `matches`, each with `advice`.
    fn lines_where(&self, matches: impl Fn(&str, bool) -> bool, advice: impl Fn() -> String) -> Vec<Broken> {
        let lines = (1..).zip(self.code.lines()).filter(|(line, code)| matches(code, self.is_test(*line)));
        lines.map(|(line, _)| (line, advice())).collect()
    }
}

/// Rust code with the insides of comments and literals replaced by spaces, line by line.
fn without_text(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            Some(rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            Some(block_comment_len(rest))
        } else if in_word {
            None
        } else {
            literal_len(rest)
        };
        match len {
            Some(len) => code.extend(rest[..len].chars().map(|c| if c == '\n' { c } else { ' ' })),
            None => code.push(first),
        }
        in_word = len.is_none() && is_word(first);
        rest = &rest[len.unwrap_or(first.len_utf8())..];
    }
    code
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        let step = &rest.as_bytes()[at..];
        match step {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of the string, byte string, raw string or character that `rest` begins with.
fn literal_len(rest: &str) -> Option<usize> {
    let prefix = &rest[..rest.find(|c| !matches!(c, 'b' | 'c' | 'r' | '#'))?];
    let body = &rest[prefix.len()..];
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    if quote == '"' && prefix.contains('r') {
        let close = format!("\"{}", "#".repeat(prefix.matches('#').count()));
        let len = body[1..].find(&close).map_or(body.len(), |at| 1 + at + close.len());
        return Some(prefix.len() + len);
    }
    let mut inside = body[1..].chars();
    let lifetime = quote == '\'' && inside.next() != Some('\\') && inside.next() != Some('\'');
    if prefix.contains(['#', 'r']) || lifetime {
        return None;
    }
    let mut escaped = false;
    let closes = |(_, c): &(usize, char)| {
        let closes = !escaped && *c == quote;
        escaped = !escaped && *c == '\\';
        closes
    };
    let len = body.char_indices().skip(1).find(closes).map_or(body.len(), |(at, _)| at + 1);
    Some(prefix.len() + len)
}

/// How far the item reaches that `code` begins with: to its closing brace, or to its semicolon.
fn item_len(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == '}' || c == ';') {
            return at + 1;
        }
    }
    code.len()
}

/// Every path that `code` names, with its line; `a::{b, c::d}` is two of them.
fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = match first {
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            tokens.push((line, &rest[..len]));
            rest = rest[len..].trim_start();
        }
    }
    let mut found = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some(((_, token), after)) = rest.split_first() {
        rest = if token.starts_with(is_word) { path(rest, Vec::new(), &mut found) } else { after };
    }
    found
}

/// Adds the path, or the paths of the import tree, that `tokens` begin with; returns what follows.
fn path<'a>(
    tokens: &'a [(usize, &'a str)],
    mut path_so_far: Vec<String>,
    found: &mut Vec<(usize, Vec<String>)>,
) -> &'a [(usize, &'a str)] {
    match tokens {
        [(_, name), (_, "::"), rest @ ..] if rest.first().is_some_and(|(_, next)| goes_on(next)) => {
            path_so_far.push((*name).to_owned());
            path(rest, path_so_far, found)
        }
        [(_, "{"), rest @ ..] => {
            let mut rest = rest;
            loop {
                rest = match rest {
                    [(_, "}"), rest @ ..] => return rest,
                    // The name that an import takes here.
                    [(_, "as"), _, rest @ ..] => rest,
                    [(_, token), ..] if goes_on(token) => path(rest, path_so_far.clone(), found),
                    [_, rest @ ..] => rest,
                    [] => return rest,
                };
            }
        }
        [(line, name), rest @ ..] => {
            path_so_far.push((*name).to_owned());
            found.push((*line, path_so_far));
            rest
        }
        [] => tokens,
    }
}

/// Whether a path goes on with `token` after `::`.
fn goes_on(token: &str) -> bool {
    token == "{" || token == "*" || token.starts_with(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands in `text` as a word of its own.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back().is_some_and(is_word);
        let after = word.ends_with(is_word) && text[at + word.len()..].starts_with(is_word);
        !before && !after
    })
}

fn has_word(text: &str, word: &str) -> bool {
    words(text, word).next().is_some()
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = r####"a /* b /* c */ d */ e "f \" g" h r#"i " j"# k 'l' m '\'' n<'o> b"p" // q"####;
    assert_eq!(without_text(text).split_whitespace().collect::<String>(), "aehkmn<'o>");
}
