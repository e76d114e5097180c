//! Bytes from outside: no decoder panics, and what is taken has exactly one form.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tanist::core::certificate::Certificate;
use tanist::core::chain::{Decided, Entry, Vote};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::register::RegisterState;
use tanist::core::siblings::Siblings;
use tanist::core::signature::Proof;
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::tenure::{Renewal, Seal, Tenure, TenureProof, TenureVote};
use tanist::core::version::{SignedWrite, Version};
use tanist::core::write::Write;
use tanist::wire::frame::Frame;
use tanist::wire::registry::{PeerMessage, Reply, Request};

use crate::build;
use crate::merge::config;

/// Every hexadecimal text of at least ten bytes in the committed vectors: real encodings to start from.
fn samples() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../proto-docs/vectors/certificates.json"),
        include_str!("../../proto-docs/vectors/chains.json"),
        include_str!("../../proto-docs/vectors/frames.json"),
        include_str!("../../proto-docs/vectors/ownership.json"),
        include_str!("../../proto-docs/vectors/registers.json"),
        include_str!("../../proto-docs/vectors/stamps.json"),
        include_str!("../../proto-docs/vectors/versions.json"),
        include_str!("../../proto-docs/vectors/writes.json"),
    ];
    let texts = files.iter().flat_map(|file| file.split('"').filter(|text| text.len() >= 20));
    texts.filter_map(|text| HEXLOWER.decode(text.as_bytes()).ok()).collect()
}

/// One change to a sample.
#[derive(Debug, Clone)]
enum Change {
    Byte(usize, u8),
    Cut(usize),
    Add(Vec<u8>),
    Splice(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => any::<(usize, u8)>().prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => any::<usize>().prop_map(Change::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..9).prop_map(Change::Add),
        1 => any::<(usize, usize)>().prop_map(|(from, to)| Change::Splice(from, to)),
    ];
    prop::collection::vec(change, 0..4)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let len = bytes.len().max(1);
        match change {
            Change::Byte(at, byte) => {
                if let Some(held) = bytes.get_mut(at % len) {
                    *held = *byte;
                }
            }
            Change::Cut(at) => bytes.truncate(at % len),
            Change::Add(more) => bytes.extend(more),
            Change::Splice(from, to) => {
                let (from, to) = (from % len, to % len);
                let part: Vec<u8> = bytes.iter().skip(from).take(16).copied().collect();
                let to = to.min(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

/// If `bytes` are a `T`, then they are the bytes of that `T`.
fn one_form<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> usize {
    match codec::decode::<T>(bytes) {
        Ok(value) => {
            assert_eq!(codec::encode(&value), bytes, "a second form of a {}", std::any::type_name::<T>());
            1
        }
        Err(_) => 0,
    }
}

/// How many decoders take `bytes`.
fn try_all(bytes: &[u8]) -> usize {
    one_form::<Write>(bytes)
        + one_form::<SignedWrite>(bytes)
        + one_form::<Stamp>(bytes)
        + one_form::<SignedStamp>(bytes)
        + one_form::<Version>(bytes)
        + one_form::<Past>(bytes)
        + one_form::<Proof>(bytes)
        + one_form::<Entry>(bytes)
        + one_form::<Decided>(bytes)
        + one_form::<Vote>(bytes)
        + one_form::<RegisterState>(bytes)
        + one_form::<Tenure>(bytes)
        + one_form::<TenureProof>(bytes)
        + one_form::<TenureVote>(bytes)
        + one_form::<Renewal>(bytes)
        + one_form::<Seal>(bytes)
        + one_form::<Certificate>(bytes)
        + frames(bytes)
}

fn frames(bytes: &[u8]) -> usize {
    let Ok(Some(frame)) = Frame::take(&mut BytesMut::from(bytes)) else { return 0 };
    let mut taken = 0;
    if let Ok(request) = Request::decode(frame.clone()) {
        assert_eq!(request.encode(), frame);
        taken += 1;
    }
    if let Ok(reply) = Reply::decode(frame.clone()) {
        assert_eq!(reply.encode(), frame);
        taken += 1;
    }
    if let Ok((envelope, peer)) = PeerMessage::decode(frame.clone()) {
        assert_eq!(peer.encode(envelope), frame);
        taken += 1;
    }
    taken
}

#[test]
fn the_samples_are_worth_changing() {
    let samples = samples();
    let taken: usize = samples.iter().map(|sample| try_all(sample)).sum();
    assert!(samples.len() > 200 && taken > 100, "{} samples, {taken} taken", samples.len());
}

/// Held versions in another order, or one of them twice, would be a second form of a key's row.
#[test]
fn held_versions_have_one_order() {
    let versions = [1, 2].map(|nonce| {
        let write = build::write(nonce, &[]);
        build::version(&write, &[build::stamp(&write, 0, nonce, nonce + 1, Past::new())])
    });
    let siblings = |versions: &[Version]| {
        let mut all = Siblings::default();
        for version in versions {
            all.join(version.clone(), &BTreeMap::new(), &|_| false);
        }
        codec::encode(&all)
    };
    let [a, b] = [0, 1].map(|at| siblings(&versions[at..=at])[8..].to_vec());
    let (first, second) = if siblings(&versions)[8..].starts_with(&a) { (a, b) } else { (b, a) };
    let listed = |held: [&[u8]; 2]| [&2u64.to_be_bytes(), held[0], held[1]].concat();
    assert_eq!(listed([&first, &second]), siblings(&versions));
    assert!(codec::decode::<Siblings>(&listed([&first, &second])).is_ok());
    for other in [[&second, &first], [&first, &first]] {
        assert!(codec::decode::<Siblings>(&listed(other.map(|held| &held[..]))).is_err());
    }
}

proptest! {
    #![proptest_config(config(6000))]

    #[test]
    fn a_changed_encoding_is_refused_or_is_the_one_form(which in any::<prop::sample::Index>(), changes in changes()) {
        thread_local!(static SAMPLES: Vec<Vec<u8>> = samples());
        SAMPLES.with(|samples| {
            let sample = which.get(samples).clone();
            try_all(&changed(sample, &changes));
        });
    }

    #[test]
    fn any_bytes_panic_no_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        try_all(&bytes);
    }

    #[test]
    fn any_header_and_body_of_any_kind_panic_no_decoder(
        header in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0u8..4, 1 => any::<u8>()], 0..200),
        body in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        for (kind, _) in [Request::KINDS, Reply::KINDS, PeerMessage::KINDS].concat() {
            let mut bytes = BytesMut::new();
            let (header, body) = (Bytes::from(header.clone()), Bytes::from(body.clone()));
            Frame { kind, header, body }.encode_into(&mut bytes);
            frames(&bytes);
        }
    }
}
