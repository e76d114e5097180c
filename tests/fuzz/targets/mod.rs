//! What is fuzzed: functions that take any bytes and panic if a rule is broken.

pub mod decoders;
pub mod engine;
pub mod rows;
pub mod seeds;
mod source;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const ALL: [(&str, Target); 9] = [
    ("frames", decoders::frames),
    ("requests", decoders::requests),
    ("replies", decoders::replies),
    ("peer_messages", decoders::peer_messages),
    ("objects", decoders::objects),
    ("texts", decoders::texts),
    ("rows", rows::damaged),
    ("engine_member", engine::member),
    ("engine_stranger", engine::stranger),
];

/// The target of this name.
pub fn find(name: &str) -> Option<Target> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}
