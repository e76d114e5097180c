//! Decoders: whatever the bytes are, nothing panics, and what is taken has exactly one form.

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tanist::core::armor;
use tanist::core::authority::{Authority, CLUSTER_TITLE};
use tanist::core::certificate::{CERTIFICATE_TITLE, Certificate};
use tanist::core::chain::{Decided, Entry, SignedEntry, Vote};
use tanist::core::cluster::Configuration;
use tanist::core::codec::{self, DecodeError};
use tanist::core::events::Past;
use tanist::core::hash::Hash;
use tanist::core::object::Key;
use tanist::core::register::RegisterState;
use tanist::core::signature::Proof;
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::tenure::{Renewal, Seal, Tenure, TenureProof, TenureVote};
use tanist::core::version::{SignedWrite, Version};
use tanist::core::write::{Fence, Term, Write};
use tanist::wire::frame::{Frame, Prelude};
use tanist::wire::registry::{MessageError, PeerMessage, Reply, Request};

use super::source::Source;

/// A stream in pieces of any length gives the frames that it gives in one piece.
pub fn frames(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let cuts = source.bytes(16);
    let stream = source.rest();
    let (whole, whole_end) = split(&mut BytesMut::from(stream));
    let mut buffer = BytesMut::new();
    let mut pieces = Vec::new();
    let mut ended = false;
    let mut rest = stream;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() && !ended {
        let len = cuts.next().map_or(rest.len(), |len| usize::from(*len) + 1).min(rest.len());
        let (piece, later) = rest.split_at(len);
        rest = later;
        buffer.extend_from_slice(piece);
        let (more, end) = split(&mut buffer);
        pieces.extend(more);
        ended = end;
    }
    assert_eq!(pieces, whole, "the frames depend on how the stream was cut");
    assert_eq!(ended, whole_end, "whether the stream breaks off depends on how it was cut");
    let mut again = BytesMut::new();
    for frame in &whole {
        assert!(frame.encoded_len() <= Prelude::LEN + tanist::core::limits::FRAME_LEN);
        frame.encode_into(&mut again);
    }
    assert_eq!(stream.get(..again.len()), Some(&again[..]), "a frame has a second form");
}

/// The frames at the start of a stream, and whether something follows that is none.
fn split(stream: &mut BytesMut) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    loop {
        match Frame::take(stream) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, false),
            Err(_) => return (frames, true),
        }
    }
}

/// A frame of one of `kinds`: its kind, the length of the body, and the rest, shared between header and
/// body. So that a mutation need not get two lengths right before anything is decoded.
fn frame(bytes: &[u8], kinds: &[(u16, &str)]) -> Frame {
    let mut source = Source::new(bytes);
    let kind = source.pick(kinds).map_or(0, |(kind, _)| *kind);
    let body = usize::from(source.byte());
    let mut header = Bytes::copy_from_slice(source.rest());
    let body = header.split_off(header.len() - body.min(header.len()));
    Frame { kind, header, body }
}

/// The input from which [`frame`] makes this frame; absent, if there is none.
pub fn unframe(frame: &Frame, kinds: &[(u16, &str)]) -> Option<Vec<u8>> {
    let kind = kinds.iter().position(|(kind, _)| *kind == frame.kind)?;
    let start = [u8::try_from(kind).ok()?, u8::try_from(frame.body.len()).ok()?];
    Some([&start, &frame.header[..], &frame.body[..]].concat())
}

/// Client to node.
pub fn requests(bytes: &[u8]) {
    let frame = frame(bytes, Request::KINDS);
    if let Ok(request) = Request::decode(frame.clone()) {
        assert_eq!(request.encode(), frame, "a second form of a request");
    }
}

/// Node to client.
pub fn replies(bytes: &[u8]) {
    let frame = frame(bytes, Reply::KINDS);
    if let Ok(reply) = Reply::decode(frame.clone()) {
        assert_eq!(reply.encode(), frame, "a second form of a reply");
    }
}

/// Node to node.
pub fn peer_messages(bytes: &[u8]) {
    peer_messages_with(bytes, |frame| {
        PeerMessage::decode(frame).map(|(envelope, message)| message.encode(envelope))
    });
}

/// As [`peer_messages`], of a decoder under test that says what form it thinks a frame has.
pub fn peer_messages_with(bytes: &[u8], normal: impl Fn(Frame) -> Result<Frame, MessageError>) {
    let frame = frame(bytes, PeerMessage::KINDS);
    if let Ok(form) = normal(frame.clone()) {
        assert_eq!(form, frame, "a second form of a peer's message");
    }
}

/// What is hashed, signed and stored.
pub fn objects(bytes: &[u8]) {
    one_form::<Write>(bytes);
    one_form::<SignedWrite>(bytes);
    one_form::<Stamp>(bytes);
    one_form::<SignedStamp>(bytes);
    one_form::<Version>(bytes);
    one_form::<Past>(bytes);
    one_form::<Proof>(bytes);
    one_form::<Entry>(bytes);
    one_form::<SignedEntry>(bytes);
    one_form::<Vote>(bytes);
    one_form::<RegisterState>(bytes);
    one_form::<Tenure>(bytes);
    one_form::<TenureVote>(bytes);
    one_form::<TenureProof>(bytes);
    one_form::<Renewal>(bytes);
    one_form::<Seal>(bytes);
    one_form::<Fence>(bytes);
    one_form::<Key>(bytes);
    one_form::<Certificate>(bytes);
    if let Some(decided) = one_form::<Decided>(bytes)
        && let Ok(config) = Configuration::found(decided)
    {
        // Whatever founds a cluster can be asked.
        assert!(config.majority() <= config.current().members.len());
    }
}

/// If `bytes` are a `T`, then they are the bytes of that `T`.
fn one_form<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<T> {
    one_form_with(bytes, codec::decode::<T>)
}

/// As [`one_form`], of a decoder under test.
pub fn one_form_with<T: Serialize>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Option<T> {
    let value = decode(bytes).ok()?;
    assert_eq!(codec::encode(&value), bytes, "a second form of a {}", std::any::type_name::<T>());
    Some(value)
}

/// What people paste: certificates, clusters, terms, hashes. After a first odd byte the rest is put into
/// armour first, so that a mutation need not be base64.
pub fn texts(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let armoured = source.coin();
    let rest = source.rest();
    let (certificate, cluster) = if armoured {
        (armor::write(CERTIFICATE_TITLE, rest), armor::write(CLUSTER_TITLE, rest))
    } else {
        let text = String::from_utf8_lossy(rest).into_owned();
        numbers(&text);
        (text.clone(), text)
    };
    for (title, text) in [(CERTIFICATE_TITLE, &certificate), (CLUSTER_TITLE, &cluster)] {
        if let Ok(read) = armor::read(title, text) {
            assert_eq!(armor::read(title, &armor::write(title, &read)), Ok(read));
        }
    }
    if let Ok(authority) = Authority::from_cluster_file(&cluster) {
        assert_eq!(authority.floor(), authority.voters().len() as u64);
    }
    if let Ok(certificate) = Certificate::from_text(&certificate) {
        assert_eq!(Certificate::from_text(&certificate.to_text()).as_ref(), Ok(&certificate));
        if let Ok(mut authority) = Authority::pin(certificate.voters.iter().take(1).cloned()) {
            let judged = authority.verify(&certificate).is_ok();
            assert_eq!(authority.adopt(&certificate).is_ok(), judged);
        }
    }
}

/// Terms and hashes are read back as they are shown.
fn numbers(text: &str) {
    if let Ok(term) = text.parse::<Term>() {
        assert_eq!(term.to_string().parse::<Term>(), Ok(term));
    }
    if let Some(hash) = Hash::from_hex(text) {
        assert_eq!(Hash::from_hex(&hash.to_string()), Some(hash));
    }
}
