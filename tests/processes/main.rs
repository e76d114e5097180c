//! The real binary, in several processes: kill -9, SIGSTOP, full disks, failing syncs, foreign clocks.
//!
//! Each test has a cluster of its own, and they take turns: what they measure is measured alone.
//! A test that lacks the rights or tools it needs fails with that reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may unwrap, and so may what only tests call"
)]

mod chaos;
mod clocks;
mod commands;
mod disks;
mod failures;
mod histories;
mod idle;
mod limits;
mod ownership;
mod registers;
mod support;
mod syncs;
mod tenures;
mod zombies;
