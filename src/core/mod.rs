//! What the protocol talks about: hashes, identities, writes, stamps, versions, siblings and the
//! cluster's configuration. Nothing in here waits, reads a clock or draws a random number.

pub mod codec;
pub mod hash;
pub mod identity;
pub mod limits;
