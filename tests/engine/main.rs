//! Three machines, a network that loses nothing: what one request does, step by step.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and says what it did")]
#![allow(unreachable_pub, reason = "the modules of a test are one crate")]

mod attacks;
mod cluster;
mod disk;
mod failing;
mod registers;
mod siblings;
mod trouble;
mod without;
