//! The protocol as state machines without I/O.

pub mod store;
