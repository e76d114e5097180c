//! Laws of `core` and `wire`, as properties over random histories and random bytes.
//!
//! Each law that stops an attack is also run with its rule switched off, and must then be seen to fail:
//! a checker that cannot fail proves nothing.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod attacks;
mod build;
mod codec;
mod history;
mod judges;
mod linearizable;
mod merge;
mod messages;
mod registers;
