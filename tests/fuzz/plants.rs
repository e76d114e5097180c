//! The harness proves itself: each fault that is planted here is noticed, by mutating a few inputs that
//! are harmless, within a bounded number of tries; and without the fault none of them is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde::de::DeserializeOwned;
use tanist::core::codec::{self, DecodeError};
use tanist::core::events::Past;
use tanist::wire::frame::Frame;
use tanist::wire::registry::PeerMessage;

use crate::inputs;
use crate::targets::decoders;
use crate::targets::engine::{self, Plant};

/// Tries before a fault counts as not noticed.
const TRIES: usize = 20_000;

/// Tries of a target that runs a node.
const ENGINE_TRIES: usize = 2_000;

/// Tries of such a target without a fault.
const SOUND_TRIES: usize = 150;

/// Which mutated input made `run` panic, and with what.
fn noticed(seeds: &[Vec<u8>], tries: usize, run: impl Fn(&[u8])) -> Option<String> {
    let mut dice = ChaCha8Rng::seed_from_u64(1);
    (0..tries).find_map(|_| {
        let input = mutated(seeds, &mut dice);
        let panic = catch_unwind(AssertUnwindSafe(|| run(&input))).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

/// A seed after some flips, steps, cuts, insertions, and crossings with other seeds.
fn mutated(seeds: &[Vec<u8>], dice: &mut ChaCha8Rng) -> Vec<u8> {
    let mut roll = |n: usize| dice.next_u64() as usize % n.max(1);
    let mut input = seeds[roll(seeds.len())].clone();
    for _ in 0..=roll(4) {
        let at = roll(input.len());
        match roll(6) {
            0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << roll(8)),
            1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(1)),
            2 => input.truncate(at),
            3 => input.insert(at, roll(256) as u8),
            4 => drop(input.drain(..at)),
            _ => {
                let other = &seeds[roll(seeds.len())];
                input.truncate(at);
                input.extend(&other[roll(other.len())..]);
            }
        }
    }
    input
}

fn assert_noticed(seen: Option<String>, what: &str) {
    let seen = seen.expect("the fault is noticed");
    assert!(seen.contains(what), "something else was noticed: {seen}");
}

/// Takes what is left over: the fault of a decoder that does not look at the end.
fn lax<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match codec::decode(bytes) {
        Err(DecodeError::LeftOver { left, .. }) => codec::decode(&bytes[..bytes.len() - left]),
        other => other,
    }
}

fn past(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<Past, DecodeError>) {
    decoders::one_form_with(bytes, decode);
}

fn pasts() -> Vec<Vec<u8>> {
    inputs("objects").into_iter().filter(|input| codec::decode::<Past>(input).is_ok()).collect()
}

#[test]
fn a_decoder_that_takes_a_second_form_is_noticed() {
    let seeds = pasts();
    assert_eq!(noticed(&seeds, TRIES, |bytes| past(bytes, codec::decode)), None);
    assert_noticed(noticed(&seeds, TRIES, |bytes| past(bytes, lax)), "a second form");
}

#[test]
fn a_decoder_that_panics_is_noticed() {
    let seeds = inputs("peer_messages");
    let sound = |frame| PeerMessage::decode(frame).map(|(envelope, message)| message.encode(envelope));
    let faulty = |frame: Frame| {
        // The envelope is cut off without a look at the length.
        let _ = frame.header.split_at(24);
        sound(frame)
    };
    let run = |bytes: &[u8]| decoders::peer_messages_with(bytes, sound);
    assert_eq!(noticed(&seeds, TRIES, run), None);
    let run = |bytes: &[u8]| decoders::peer_messages_with(bytes, faulty);
    assert_noticed(noticed(&seeds, TRIES, run), "mid > len");
}

#[test]
fn without_a_fault_nothing_is_noticed() {
    assert_eq!(noticed(&inputs("engine_member"), SOUND_TRIES, engine::member), None);
    assert_eq!(noticed(&inputs("engine_stranger"), SOUND_TRIES, engine::stranger), None);
}

#[test]
fn what_leaves_before_it_is_durable_is_noticed() {
    let run = |bytes: &[u8]| engine::member_with(bytes, Plant::EarlyRelease);
    assert_noticed(noticed(&inputs("engine_member"), ENGINE_TRIES, run), "durable");
}

#[test]
fn a_disk_that_leaves_changes_out_is_noticed() {
    let run = |bytes: &[u8]| engine::member_with(bytes, Plant::LosesChanges);
    assert!(noticed(&inputs("engine_member"), ENGINE_TRIES, run).is_some());
}

#[test]
fn a_gate_that_takes_a_stranger_for_the_author_is_noticed() {
    let run = |bytes: &[u8]| engine::stranger_with(bytes, Plant::OpenDoor);
    assert_noticed(noticed(&inputs("engine_stranger"), ENGINE_TRIES, run), "a stranger's request");
}
