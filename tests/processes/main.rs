//! The real binary, in several processes: kill -9, SIGSTOP, full disks, failing syncs, foreign clocks.
//!
//! Each test has a cluster of its own, and they take turns: what they measure is measured alone.
//! A test that lacks the rights or tools it needs fails with that reason.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and measures")]

mod clocks;
mod commands;
mod disks;
mod failures;
mod limits;
mod support;
mod syncs;
