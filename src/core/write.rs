//! Writes: what an author claims, signs, and may send again byte for byte.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec::{self, DecodeError};
use super::hash::{Context, Hash, id};
use super::identity::{ClusterId, PublicKey};
use super::limits;
use super::object::{Key, NamespaceId, ObjectId};

id!(
    /// A write, and the version it makes: the hash of the [`Write`].
    WriteId, 32
);

/// The number in front of every encoded [`Write`].
pub const WRITE_FORMAT: u8 = 1;

/// "Having read these versions of this key, I put this value."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Write {
    /// [`WRITE_FORMAT`].
    pub format: u8,
    /// The cluster it is for.
    pub cluster: ClusterId,
    /// The namespace it is for.
    pub namespace: NamespaceId,
    /// The key it is for.
    pub key: Key,
    /// The write epoch in which it may be applied; a node also takes the neighbouring ones.
    pub epoch: u64,
    /// One more than the highest generation among the parents; 1 without parents.
    pub generation: u64,
    /// The versions that the author read and replaces, sorted.
    pub parents: Vec<WriteId>,
    /// What the key is to be.
    pub body: Body,
    /// Who signs it.
    pub author: PublicKey,
    /// Keeps two equal writes apart; derived from the caller's operation id, if it gave one.
    #[serde(with = "codec::fixed")]
    pub nonce: [u8; 16],
    /// The ownership it is written under. Only linearizable namespaces take fenced writes.
    pub fence: Option<Fence>,
    /// When the author wrote it by its own clock, in milliseconds since 1970, for people to read.
    /// Nothing is decided by it (P10). 0 with an operation id, so that a repeated line is the same
    /// write.
    pub wall_ms: u64,
}

/// What a write makes of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The key has a value of this length and this plain BLAKE3 hash. The bytes travel beside.
    Put {
        /// Bytes of the value.
        len: u64,
        /// Its hash.
        hash: Hash,
    },
    /// The key is deleted. An empty value is not a deletion.
    Delete,
}

impl Body {
    /// The body of a write that puts `value`.
    pub fn put(value: &[u8]) -> Self {
        Body::Put { len: value.len() as u64, hash: Hash::of_value(value) }
    }

    /// Bytes of the value that travels beside the write; none for a deletion.
    pub fn value_len(&self) -> usize {
        match self {
            Body::Put { len, .. } => usize::try_from(*len).unwrap_or(usize::MAX),
            Body::Delete => 0,
        }
    }

    /// Whether `value` is what this body announces.
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Body::Put { .. } => *self == Body::put(value),
            Body::Delete => value.is_empty(),
        }
    }
}

/// The ownership that a fenced write is written under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// What is owned.
    pub resource: Key,
    /// The fencing token.
    pub term: Term,
    /// The tenure, as a version of its resource.
    pub tenure: WriteId,
}

/// The number of a tenure: terms of one resource only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// How often the cluster was restored from a backup.
    pub recovery: u32,
    /// Counts the tenures since.
    pub number: u64,
}

/// A text is not a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a term is written as a number, or as RECOVERY.NUMBER in a cluster that was restored")]
pub struct NotATerm;

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.recovery {
            0 => write!(f, "{}", self.number),
            recovery => write!(f, "{recovery}.{}", self.number),
        }
    }
}

impl std::str::FromStr for Term {
    type Err = NotATerm;

    fn from_str(text: &str) -> Result<Self, NotATerm> {
        let (recovery, number) = text.split_once('.').unwrap_or(("0", text));
        let recovery = recovery.parse().map_err(|_| NotATerm)?;
        Ok(Term { recovery, number: number.parse().map_err(|_| NotATerm)? })
    }
}

/// A decoded write breaks a rule of its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWrite {
    /// Another format than this version knows.
    #[error("write format {0} is not supported: this side knows format {WRITE_FORMAT}")]
    Format(u8),
    /// Parents out of order, twice, or too many.
    #[error("the parents of a write are sorted, each named once, at most {}", limits::VERSIONS)]
    Parents,
    /// A value over the limit.
    #[error("a value of {0} bytes is over the limit of {limit}", limit = limits::VALUE_LEN)]
    ValueTooLarge(u64),
    /// A generation that does not follow from the parents.
    #[error("a write without parents has generation 1, one with parents a higher one")]
    Generation,
}

impl Write {
    /// The write's id.
    pub fn id(&self) -> WriteId {
        WriteId(Hash::of(Context::Write, self).0)
    }

    /// The object it is for.
    pub fn object(&self) -> ObjectId {
        ObjectId::new(self.namespace, &self.key)
    }

    /// Whether it deletes its key.
    pub fn is_delete(&self) -> bool {
        self.body == Body::Delete
    }

    /// Whether it names `id` as a parent.
    pub fn names(&self, id: WriteId) -> bool {
        self.parents.binary_search(&id).is_ok()
    }

    /// Checks the rules of the form, as a decoder does.
    pub fn check(&self) -> Result<(), InvalidWrite> {
        if self.format != WRITE_FORMAT {
            return Err(InvalidWrite::Format(self.format));
        }
        let sorted = self.parents.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
        if !sorted || self.parents.len() > limits::VERSIONS {
            return Err(InvalidWrite::Parents);
        }
        if let Body::Put { len, .. } = self.body
            && len > limits::VALUE_LEN as u64
        {
            return Err(InvalidWrite::ValueTooLarge(len));
        }
        if self.parents.is_empty() != (self.generation == 1) || self.generation == 0 {
            return Err(InvalidWrite::Generation);
        }
        Ok(())
    }

    /// The write whose encoding is `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }
}

impl From<WriteId> for Hash {
    fn from(id: WriteId) -> Self {
        Hash(id.0)
    }
}

impl Serialize for Write {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived form, which `remote` makes an associated function.
        Write::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Write {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let write = Write::deserialize(deserializer)?;
        write.check().map_err(serde::de::Error::custom)?;
        Ok(write)
    }
}
