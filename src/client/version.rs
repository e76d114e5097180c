//! How versions are named: in text, in files, and in writes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::core::codec::{self, DecodeError};
use crate::core::events::Past;
use crate::core::identity::ActorId;
use crate::core::limits;
use crate::core::object::{InvalidKey, Key, NamespaceId};
use crate::core::stamp::SignedStamp;
use crate::core::version::Stamps;
use crate::core::write::WriteId;

/// A version of a key, as a write names it: its id and generation, and what is known of its stamps.
///
/// In text `GENERATION-HEX` (`7-3fa9...`, 64 digits), which leaves the stamps out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    id: WriteId,
    generation: u64,
    stamps: Stamps,
}

/// When a version came to be: its stamps, and the events before it.
#[derive(Debug, Clone, Copy)]
pub struct Causality<'a>(&'a Version);

/// The versions that were read of one key, sorted by id: what a write replaces.
///
/// In text they are joined by `+`; no version is `absent`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Version>", into = "Vec<Version>")]
pub struct Versions(Vec<Version>);

/// A text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a version: it is GENERATION-HEX with 64 hexadecimal digits, siblings are joined by +, \
     no version is `absent`"
)]
pub struct NotAVersion {
    text: String,
}

/// What a write is based on: a key and the versions of it that are replaced.
///
/// It is what is left of a [`Reading`](super::Reading) without its values; it can be
/// [saved](Self::to_bytes) and used by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    pub(super) namespace: Option<NamespaceId>,
    pub(super) key: Result<Key, InvalidKey>,
    pub(super) versions: Versions,
}

/// Bytes are not a saved basis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BasisError {
    /// Something else, or damaged.
    #[error("not a saved version: {0}")]
    Malformed(#[from] DecodeError),
    /// From a newer version of this software.
    #[error("saved in format {0}, which this version does not know")]
    Format(u8),
}

const BASIS_FORMAT: u8 = 1;

impl Version {
    pub(super) fn new(id: WriteId, generation: u64, stamps: Stamps) -> Self {
        Version { id, generation, stamps }
    }

    /// The version's id: the hash of the write that made it.
    pub fn id(&self) -> WriteId {
        self.id
    }

    /// One more than the highest generation among the versions it replaced.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When it came to be, as far as that is known here.
    pub fn causality(&self) -> Causality<'_> {
        Causality(self)
    }
}

impl<'a> Causality<'a> {
    /// What nodes said of the version. Empty if it was given as text.
    pub fn stamps(&self) -> impl Iterator<Item = &'a Arc<SignedStamp>> {
        self.0.stamps.iter()
    }

    /// Whose event it is, and which; one for each stamp.
    pub fn events(&self) -> impl Iterator<Item = (ActorId, u64)> {
        self.0.stamps.iter().map(|stamp| stamp.stamp().dot())
    }

    /// The events that the version descends from.
    pub fn past(&self) -> Past {
        let mut past = Past::new();
        for stamp in self.0.stamps.iter() {
            past.union(&stamp.stamp().past);
        }
        past
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.id)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let refused = || NotAVersion { text: text.to_owned() };
        let (generation, id) = text.split_once('-').ok_or_else(refused)?;
        let canonical = generation.bytes().all(|b| b.is_ascii_digit()) && !generation.starts_with('0');
        let generation = generation.parse().ok().filter(|_| canonical).ok_or_else(refused)?;
        let id = id.parse().map_err(|_| refused())?;
        Ok(Version { id, generation, stamps: Stamps::default() })
    }
}

impl Versions {
    /// No version: the key does not exist.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Whether there is none.
    pub fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    /// The versions, by id.
    pub fn iter(&self) -> std::slice::Iter<'_, Version> {
        self.0.iter()
    }

    /// Their ids, sorted.
    pub fn ids(&self) -> Vec<WriteId> {
        self.0.iter().map(Version::id).collect()
    }

    /// The generation of a write that names exactly these.
    pub(super) fn next_generation(&self) -> u64 {
        self.0.iter().map(Version::generation).max().unwrap_or(0).saturating_add(1)
    }

    /// The stamps to present with a write that names these.
    pub(super) fn presented(&self) -> Vec<Arc<SignedStamp>> {
        self.0.iter().flat_map(|version| version.stamps.iter().cloned()).collect()
    }
}

impl From<Vec<Version>> for Versions {
    fn from(mut versions: Vec<Version>) -> Self {
        versions.sort_by_key(Version::id);
        versions.dedup_by(|later, kept| {
            let same = later.id == kept.id;
            if same {
                later.stamps.iter().for_each(|stamp| {
                    kept.stamps.insert(Arc::clone(stamp));
                });
            }
            same
        });
        Versions(versions)
    }
}

impl From<Versions> for Vec<Version> {
    fn from(versions: Versions) -> Self {
        versions.0
    }
}

impl FromIterator<Version> for Versions {
    fn from_iter<I: IntoIterator<Item = Version>>(versions: I) -> Self {
        versions.into_iter().collect::<Vec<_>>().into()
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("absent");
        }
        for (index, version) in self.0.iter().enumerate() {
            let joint = if index == 0 { "" } else { "+" };
            write!(f, "{joint}{version}")?;
        }
        Ok(())
    }
}

impl FromStr for Versions {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        if text == "absent" {
            return Ok(Versions::absent());
        }
        let versions: Vec<Version> = text.split('+').map(str::parse).collect::<Result<_, _>>()?;
        if versions.len() > limits::VERSIONS {
            return Err(NotAVersion { text: format!("a list of {} versions", versions.len()) });
        }
        Ok(versions.into())
    }
}

impl Basis {
    /// The versions `versions` of `key`.
    pub fn new(key: impl AsRef<[u8]>, versions: Versions) -> Self {
        Basis { namespace: None, key: key.as_ref().to_vec().try_into(), versions }
    }

    /// The key.
    pub fn key(&self) -> Result<&Key, InvalidKey> {
        self.key.as_ref().map_err(|error| *error)
    }

    /// The versions that are replaced.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The namespace of the key, if it was read from one.
    pub fn namespace(&self) -> Option<NamespaceId> {
        self.namespace
    }

    /// The basis with the stamps of its versions, for a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, InvalidKey> {
        let key = self.key()?;
        let mut bytes = vec![BASIS_FORMAT];
        bytes.extend(codec::encode(&(self.namespace, key, &self.versions)));
        Ok(bytes)
    }

    /// What [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BasisError> {
        match bytes.split_first() {
            Some((&BASIS_FORMAT, rest)) => {
                let (namespace, key, versions) = codec::decode(rest)?;
                Ok(Basis { namespace, key: Ok(key), versions })
            }
            Some((&other, _)) => Err(BasisError::Format(other)),
            None => Err(BasisError::Format(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_text() {
        let id = "ab".repeat(32);
        let other = "0c".repeat(32);
        let text = format!("7-{other}+3-{id}");
        let versions: Versions = text.parse().unwrap();
        assert_eq!(versions.to_string(), text);
        assert_eq!(format!("3-{id}+7-{other}").parse::<Versions>().unwrap(), versions, "sorted by id");
        assert_eq!(versions.next_generation(), 8);
        assert_eq!("absent".parse::<Versions>().unwrap(), Versions::absent());
        assert_eq!(Versions::absent().to_string(), "absent");
        for wrong in ["", "+", "7-", "x-00", &format!("-{id}"), &format!("01-{id}"), &format!("+1-{id}")] {
            assert!(wrong.parse::<Versions>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_basis_survives_a_file() {
        let versions: Versions = format!("7-{}", "ab".repeat(32)).parse().unwrap();
        let basis = Basis::new("k", versions);
        assert_eq!(Basis::from_bytes(&basis.to_bytes().unwrap()), Ok(basis));
        assert_eq!(Basis::from_bytes(&[9]), Err(BasisError::Format(9)));
        assert!(Basis::new("", Versions::absent()).to_bytes().is_err());
    }
}
