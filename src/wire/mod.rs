//! What travels between nodes and clients: frames, and the messages in them.

pub mod client;
pub mod frame;
pub mod ownership;
pub mod peer;
pub mod register;
pub mod registry;
pub mod values;
