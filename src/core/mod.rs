//! What the protocol talks about: hashes, identities, writes, stamps, versions, siblings and the
//! cluster's configuration. Nothing in here waits, reads a clock or draws a random number.

pub mod armor;
pub mod authority;
pub mod certificate;
pub mod chain;
pub mod cluster;
pub mod codec;
pub mod events;
pub mod hash;
pub mod identity;
pub mod limits;
pub mod object;
pub mod placement;
pub mod policy;
pub mod register;
pub mod siblings;
pub mod signature;
pub mod stamp;
pub mod tenure;
pub mod verified;
pub mod version;
pub mod write;
