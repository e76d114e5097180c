//! What travels between nodes and clients: frames, and the messages in them.

pub mod frame;
