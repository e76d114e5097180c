//! BLAKE3 hashes, one context string per type so that a hash of one thing is never one of another.

use std::fmt;
use std::sync::LazyLock;

use blake3::hazmat::{self, ContextKey, HasherExt as _};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::codec;

/// Which type a hash is of: the context string of BLAKE3's `derive_key` mode.
///
/// The strings are part of the protocol (`proto-docs/conventions.md`) and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// An [`ActorId`](super::identity::ActorId): cluster, member, incarnation.
    Actor,
    /// An object id: namespace id and key.
    Object,
    /// A [`Write`](super::write::Write): its `WriteId`.
    Write,
    /// A stamp.
    Stamp,
    /// An inner node of the Merkle tree under a batch signature.
    Inner,
    /// An entry of a configuration chain, and thereby the cluster id and namespace ids.
    Entry,
    /// The score of a member for an object.
    Placement,
    /// A register's state.
    Register,
}

impl Context {
    const fn text(self) -> &'static str {
        match self {
            Context::Actor => "tanist v1 actor",
            Context::Object => "tanist v1 object",
            Context::Write => "tanist v1 write",
            Context::Stamp => "tanist v1 stamp",
            Context::Inner => "tanist v1 merkle inner node",
            Context::Entry => "tanist v1 configuration entry",
            Context::Placement => "tanist v1 placement",
            Context::Register => "tanist v1 register state",
        }
    }

    /// What `derive_key` makes of the context before it looks at any bytes: half of the work for what
    /// is short.
    fn key(self) -> &'static ContextKey {
        static KEYS: LazyLock<[ContextKey; 8]> =
            LazyLock::new(|| Context::ALL.map(|context| hazmat::hash_derive_key_context(context.text())));
        &KEYS[self as usize]
    }

    /// In the order in which they are declared.
    const ALL: [Context; 8] = [
        Context::Actor,
        Context::Object,
        Context::Write,
        Context::Stamp,
        Context::Inner,
        Context::Entry,
        Context::Placement,
        Context::Register,
    ];
}

/// A BLAKE3 hash of 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hash(#[serde(with = "codec::fixed")] pub [u8; 32]);

impl Hash {
    /// The hash of `value`'s encoding under `context`.
    pub fn of<T: Serialize + ?Sized>(context: Context, value: &T) -> Self {
        Self::of_encoded(context, &codec::encode(value))
    }

    /// The hash of bytes that are already the encoding of a value.
    pub fn of_encoded(context: Context, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_from_context_key(context.key());
        Hash(*hasher.update(bytes).finalize().as_bytes())
    }

    /// The plain BLAKE3 hash of a stored value, the one `b3sum` prints.
    pub fn of_value(value: &[u8]) -> Self {
        Hash(*blake3::hash(value).as_bytes())
    }

    /// The hash written as 64 hexadecimal digits, or `None` if `text` is something else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        Some(Hash(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", HEXLOWER.encode(&self.0[..4]))
    }
}

/// Declares an identifier: a fixed number of bytes with its own type, shown in hexadecimal.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(#[serde(with = "crate::core::codec::fixed")] pub [u8; $len]);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), data_encoding::HEXLOWER.encode(&self.0[..4]))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::core::hash::NotAnId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let refused = || $crate::core::hash::NotAnId { kind: stringify!($name), digits: 2 * $len };
                let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| refused())?;
                Ok($name(bytes.try_into().map_err(|_| refused())?))
            }
        }
    };
}
pub(crate) use id;

/// A text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {kind} is written as {digits} hexadecimal digits")]
pub struct NotAnId {
    /// The type that was expected.
    pub kind: &'static str,
    /// How many digits it has.
    pub digits: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_context_is_the_derive_key_mode_of_its_text() {
        for context in Context::ALL {
            let expected = blake3::derive_key(context.text(), b"bytes");
            assert_eq!(Hash::of_encoded(context, b"bytes"), Hash(expected), "{context:?}");
        }
    }
}
