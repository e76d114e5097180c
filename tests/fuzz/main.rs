//! Replays the inputs that fuzzing found: no target panics on any of them.
//!
//! A target is a function that takes any bytes and panics if the code below breaks a rule
//! (`targets`). This test calls each with its committed inputs, `corpus/TARGET.hex`, one to a line.
//! `tests/fuzz/run` calls the same functions under libFuzzer, which looks for inputs that reach new
//! code; what it finds is added to the corpus by `tests/fuzz/run --keep`, and an input that broke a
//! rule is added by hand, with a comment above it that says what it broke.
//!
//! A harness that cannot fail proves nothing: `plants` breaks a decoder and an engine on purpose.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock and wait")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a target says what is wrong by panicking")]
#![allow(unreachable_pub, reason = "the modules of a test are one crate")]

mod corpus;
mod plants;
mod targets;

use std::path::Path;

/// The root of the repository.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The committed inputs of a target, and those from the test vectors.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let committed = corpus::read(&Path::new(ROOT).join(format!("tests/fuzz/corpus/{target}.hex")));
    assert!(committed.len() >= 5, "{} inputs of {target}", committed.len());
    let seeds = targets::seeds::of(target, &Path::new(ROOT).join("proto-docs/vectors"));
    committed.into_iter().chain(seeds).collect()
}

fn replay(target: &str) {
    let run = targets::find(target).expect("a target of this name");
    for input in inputs(target) {
        run(&input);
    }
}

/// Declares a test for each target, and that no target is without one.
macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let named: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(named, [$(stringify!($name)),*]);
        }
    };
}

replays! {
    frames
    requests
    replies
    peer_messages
    objects
    texts
    rows
    engine_member
    engine_stranger
}
