//! What travels between nodes and clients: frames, and the messages in them.

pub mod client;
pub mod frame;
pub mod peer;
pub mod registry;
pub mod values;
