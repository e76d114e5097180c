//! Runs one target under libFuzzer: the one that `TANIST_FUZZ_TARGET` names.
//!
//! With `TANIST_FUZZ_SEEDS` set, it writes the inputs to begin with into that folder instead.

#![no_main]

#[path = "../../corpus.rs"]
mod corpus;
#[path = "../../targets/mod.rs"]
mod targets;

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("TANIST_FUZZ_SEEDS") {
            write_seeds(Path::new(&folder));
            std::process::exit(0);
        }
    },
    |data: &[u8]| {
        static TARGET: OnceLock<targets::Target> = OnceLock::new();
        let target = TARGET.get_or_init(|| targets::find(&name()).expect("a target's name"));
        target(data);
    }
);

fn name() -> String {
    std::env::var("TANIST_FUZZ_TARGET").expect("TANIST_FUZZ_TARGET names a target")
}

/// Writes the committed inputs and those from the vectors, a file each.
fn write_seeds(folder: &Path) {
    let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut inputs = corpus::read(&tests.join("corpus").join(format!("{}.hex", name())));
    inputs.extend(targets::seeds::of(&name(), &tests.join("../../proto-docs/vectors")));
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), input).expect("a folder to write to");
    }
}
