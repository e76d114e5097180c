//! The test vectors of `proto-docs/vectors`: built here with this crate, compared with the committed
//! files, and judged a second time by `tests/python`, which is written from the documents alone.
//!
//! `TANIST_BLESS=1 cargo test --test vectors` writes the files anew. Without it a difference fails: the
//! bytes of the protocol changed. Every invalid case is also shown to this crate, which must refuse it
//! for the stated reason.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod certificates;
mod chains;
mod encoding;
mod frames;
mod hashing;
mod ownership;
mod owning;
mod pages;
mod placement;
mod registers;
mod siblings;
mod signatures;
mod stamps;
mod support;
mod versions;
mod world;
mod writes;
