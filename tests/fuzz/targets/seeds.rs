//! Inputs to begin with besides the corpus: the encodings in the test vectors, the rows of a disk,
//! and programs for the engine.

use std::path::Path;

use bytes::BytesMut;
use data_encoding::HEXLOWER;
use tanist::core::hash::Hash;
use tanist::wire::frame::Frame;
use tanist::wire::registry::{PeerMessage, Reply, Request};

use super::decoders::unframe;

/// Seeds of a target, from the folder of the vectors.
pub fn of(target: &str, vectors: &Path) -> Vec<Vec<u8>> {
    if target == "rows" {
        let rows = super::engine::rows();
        return rows.iter().map(|row| [&[0], &row[..]].concat()).collect();
    }
    if target.starts_with("engine_") {
        return (0..32).map(program).collect();
    }
    let kinds = match target {
        "requests" => Some(Request::KINDS),
        "replies" => Some(Reply::KINDS),
        "peer_messages" => Some(PeerMessage::KINDS),
        _ => None,
    };
    let encodings = encodings(vectors);
    let seeds = encodings.iter().filter_map(|bytes| match (target, kinds) {
        (_, Some(kinds)) => unframe(&Frame::take(&mut BytesMut::from(&bytes[..])).ok()??, kinds),
        ("frames", _) => Some([&[1, 0], &bytes[..]].concat()),
        ("objects", _) => Some(bytes.clone()),
        ("texts", _) => Some([&[1], &bytes[..]].concat()),
        _ => None,
    });
    seeds.collect()
}

/// A program for the engine: bytes in no order.
fn program(number: u8) -> Vec<u8> {
    (0..8).flat_map(|part| Hash::of_value(&[number, part]).0).collect()
}

/// Every hexadecimal text of at least ten bytes in the vectors.
fn encodings(vectors: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> =
        std::fs::read_dir(vectors).expect("the vectors").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut encodings = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a text");
        let hex = text.split('"').filter(|part| part.len() >= 20);
        encodings.extend(hex.filter_map(|part| HEXLOWER.decode(part.as_bytes()).ok()));
    }
    encodings
}
