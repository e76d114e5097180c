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

/// Bytes that most encodings do not exceed: a write, a stamp, a vote.
const USUAL_LEN: usize = 512;
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
    // Most of what is encoded fits, and growing from nothing costs more than encoding.
    let mut bytes = Vec::with_capacity(USUAL_LEN);
    #[allow(clippy::expect_used, reason = "infallible for maps, sequences and integers in memory")]
    bincode::serde::encode_into_std_write(value, &mut bytes, FORM).expect("an in-memory value encodes");
    bytes
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

/// How a field of a fixed number of bytes is encoded, for `#[serde(with)]`: as that many bytes, without
/// a length. In formats for people, as hexadecimal text.
///
/// In units of 16, since serde takes an array apart into its elements, and a hash then costs 32 calls
/// to read. N is a multiple of 16.
pub mod fixed {
    use std::fmt;

    use data_encoding::HEXLOWER;
    use serde::de::{Error, SeqAccess, Visitor};
    use serde::ser::SerializeTuple as _;
    use serde::{Deserializer, Serializer};

    /// Bytes of a unit.
    const UNIT: usize = size_of::<u128>();

    /// Encodes `bytes`.
    pub fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        const { assert!(N.is_multiple_of(UNIT)) };
        if serializer.is_human_readable() {
            return serializer.serialize_str(&HEXLOWER.encode(bytes));
        }
        let mut units = serializer.serialize_tuple(N / UNIT)?;
        for unit in bytes.as_chunks().0 {
            units.serialize_element(&u128::from_be_bytes(*unit))?;
        }
        units.end()
    }

    /// Decodes N bytes.
    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        const { assert!(N.is_multiple_of(UNIT)) };
        if deserializer.is_human_readable() {
            return deserializer.deserialize_str(Units);
        }
        deserializer.deserialize_tuple(N / UNIT, Units)
    }

    struct Units<const N: usize>;

    impl<'de, const N: usize> Visitor<'de> for Units<N> {
        type Value = [u8; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{N} bytes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<[u8; N], A::Error> {
            let mut bytes = [0; N];
            for (index, unit) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
                let next: Option<u128> = seq.next_element()?;
                *unit = next.ok_or_else(|| A::Error::invalid_length(index, &self))?.to_be_bytes();
            }
            Ok(bytes)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<[u8; N], E> {
            let bytes = HEXLOWER.decode(text.as_bytes()).map_err(E::custom)?;
            bytes.try_into().map_err(|bytes: Vec<u8>| E::invalid_length(bytes.len(), &self))
        }
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
    fn fixed_bytes_are_themselves_and_hexadecimal_for_people() {
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Two(#[serde(with = "fixed")] [u8; 32]);
        let two = Two(std::array::from_fn(|index| index as u8));
        assert_eq!(encode(&two), two.0);
        assert_eq!(decode::<Two>(&two.0).as_ref(), Ok(&two));
        assert!(matches!(decode::<Two>(&two.0[..31]), Err(DecodeError::Malformed { .. })));

        let text = serde_json::to_string(&two).expect("writes");
        assert_eq!(text, format!("\"{}\"", data_encoding::HEXLOWER.encode(&two.0)));
        assert_eq!(serde_json::from_str::<Two>(&text).expect("reads"), two);
        for wrong in [text.replace("1f", ""), text.replace("1f", "zz"), text.to_uppercase()] {
            assert!(serde_json::from_str::<Two>(&wrong).is_err(), "{wrong}");
        }
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
