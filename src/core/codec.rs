//! The one encoding of everything that is hashed, signed, stored and sent.
//!
//! Fields in order, integers big-endian at their full width, 8-byte lengths, 4-byte variant numbers,
//! one byte (0 or 1) before an optional value. One value has exactly one form, so a hash of the bytes
//! is a hash of the value. `proto-docs/conventions.md` describes it without reference to a library.
//!
//! This is the only file that names bincode. It is pinned to 2.0.1: the project has ended, and the
//! newest number on the registry is an empty release.

use bincode::config::{BigEndian, Configuration, Fixint, Limit};
use serde::{Serialize, de::DeserializeOwned};

use super::limits;

/// Bytes of a stored row at most, values aside.
const STORED_LEN: usize = 256 << 20;
const _: () = assert!(limits::FRAME_LEN < STORED_LEN);

type Form = Configuration<BigEndian, Fixint, Limit<{ limits::FRAME_LEN }>>;

const FORM: Form = bincode::config::standard()
    .with_big_endian()
    .with_fixed_int_encoding()
    .with_limit::<{ limits::FRAME_LEN }>();

/// Why bytes from outside are not a value of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end early, carry an impossible tag or length, or break a rule of their type.
    #[error("not a valid {kind}: {reason}")]
    Malformed {
        /// The Rust name of the type that was expected.
        kind: &'static str,
        /// What is wrong with the bytes.
        reason: String,
    },
    /// A valid value is followed by bytes that belong to nothing.
    #[error("{left} bytes left over after a {kind}")]
    LeftOver {
        /// The Rust name of the type that was expected.
        kind: &'static str,
        /// How many bytes follow the value.
        left: usize,
    },
}

/// The bytes of `value`.
///
/// # Panics
/// Never for the types of this crate: none of them has a form that the encoding refuses.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    #[allow(clippy::expect_used, reason = "infallible for maps, sequences and integers in memory")]
    bincode::serde::encode_to_vec(value, FORM).expect("an in-memory value encodes")
}

/// The value whose bytes are exactly `bytes`: a shorter, longer or otherwise spelt input is refused.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let kind = kind::<T>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, FORM)
        .map_err(|error| DecodeError::Malformed { kind, reason: error.to_string() })?;
    match bytes.len() - used {
        0 => Ok(value),
        left => Err(DecodeError::LeftOver { kind, left }),
    }
}

/// As [`decode`], for bytes that this node stored itself: what a merge made of many small messages
/// may be larger than any message. A length in it is not believed either, since disks rot: at most
/// 256 MiB are set aside for it, which is far more than any merge makes of what members may send.
pub fn decode_stored<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let kind = kind::<T>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, FORM.with_limit::<STORED_LEN>())
        .map_err(|error| DecodeError::Malformed { kind, reason: error.to_string() })?;
    match bytes.len() - used {
        0 => Ok(value),
        left => Err(DecodeError::LeftOver { kind, left }),
    }
}

fn kind<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_big_endian_and_fixed() {
        assert_eq!(encode(&7u32), [0, 0, 0, 7]);
        assert_eq!(encode(&Some(1u8)), [1, 1]);
        assert_eq!(encode(&vec![9u8]), [0, 0, 0, 0, 0, 0, 0, 1, 9]);
    }

    #[test]
    fn other_spellings_are_refused() {
        assert!(matches!(decode::<u32>(&[0, 0, 7]), Err(DecodeError::Malformed { .. })));
        assert!(matches!(decode::<u32>(&[0, 0, 0, 7, 0]), Err(DecodeError::LeftOver { left: 1, .. })));
        assert!(decode::<Option<u8>>(&[2, 1]).is_err());
        assert!(decode::<bool>(&[2]).is_err());
    }

    #[test]
    fn a_length_is_checked_before_it_is_believed() {
        let mut bytes = u64::MAX.to_be_bytes().to_vec();
        bytes.push(0);
        assert!(decode::<Vec<u64>>(&bytes).is_err());
        for len in [1 << 40, 1 << 62, u64::MAX] {
            let damaged = [&len.to_be_bytes()[..], b"abc"].concat();
            assert!(decode::<String>(&damaged).is_err());
            assert!(decode_stored::<String>(&damaged).is_err(), "a length that rotted");
        }
    }

    #[test]
    fn what_is_stored_may_be_larger_than_a_message() {
        let row = encode(&"x".repeat(limits::FRAME_LEN));
        assert!(decode::<String>(&row).is_err());
        assert!(decode_stored::<String>(&row).is_ok());
    }
}
