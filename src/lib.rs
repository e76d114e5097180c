//! Tanist replaces distributed locks: peers without a leader replicate signed, versioned objects over
//! QUIC, and a write names the hash of the version it read.
//!
//! ```text
//! cli        commands of the `tanist` binary
//! node       the runtime: driver loop, clock, entropy, configuration
//! client     the SDK
//! transport  QUIC endpoint, TLS identity, links
//! storage    RocksDB, and memory with crash semantics
//! engine     the protocol as state machines without I/O
//! wire       frames, messages, the one encoding
//! core       hashes, signatures, versions, causality, configuration
//! history    judges of what clients were told
//! ```
//!
//! An import goes down this list only; `client` uses `transport`, `wire` and `core` and nothing else.
//! `core`, `wire`, `engine` and `history` know no clock, no network, no disk and no randomness: those are
//! arguments, so that a test can step them.

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod client;
pub mod core;
pub mod engine;
pub mod history;
#[cfg(feature = "node")]
pub mod node;
pub mod storage;
#[cfg(feature = "transport")]
pub mod transport;
pub mod wire;
