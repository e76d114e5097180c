//! What is stored where: namespaces, keys, objects.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::hash::{Context, Hash, id};
use super::identity::ClusterId;
use super::limits;

id!(
    /// A namespace: the hash of the policy entry that created it, so that a name can be used again.
    NamespaceId, 32
);
id!(
    /// One key of one namespace: the hash of both.
    ObjectId, 32
);

impl NamespaceId {
    /// The namespace of a cluster's resources: every resource is a register in it, and nothing else is.
    ///
    /// It has the cluster's id, the hash of the founding entry, so no entry of the policy chain can
    /// create a namespace with the same one.
    pub fn resources(cluster: ClusterId) -> Self {
        NamespaceId(cluster.0)
    }
}

impl ObjectId {
    /// The object that `key` names in `namespace`.
    pub fn new(namespace: NamespaceId, key: &Key) -> Self {
        ObjectId(Hash::of(Context::Object, &(namespace, key)).0)
    }
}

/// A key: 1 to 1,024 bytes, any bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Key(Vec<u8>);

/// Bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to {max} bytes, this one has {len}", max = limits::KEY_LEN)]
pub struct InvalidKey {
    /// How many bytes were given.
    pub len: usize,
}

impl Key {
    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for Key {
    type Error = InvalidKey;

    fn try_from(bytes: Vec<u8>) -> Result<Self, InvalidKey> {
        match bytes.len() {
            1..=limits::KEY_LEN => Ok(Key(bytes)),
            len => Err(InvalidKey { len }),
        }
    }
}

impl TryFrom<&str> for Key {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        text.as_bytes().to_vec().try_into()
    }
}

impl From<Key> for Vec<u8> {
    fn from(key: Key) -> Self {
        key.0
    }
}

/// Text as it is, every other byte as `\xNN`: readable, and no two keys look alike.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    c if c.is_control() => {
                        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    c => write!(f, "{c}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The name of a namespace: `[a-z0-9][a-z0-9._-]{0,62}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceName(String);

/// A text is not the name of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a namespace is named by 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit")]
pub struct InvalidNamespaceName;

impl NamespaceName {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceName {
    type Error = InvalidNamespaceName;

    fn try_from(text: String) -> Result<Self, InvalidNamespaceName> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = text.len() <= limits::NAMESPACE_LEN
            && text.bytes().next().is_some_and(letter)
            && text.bytes().all(|byte| letter(byte) || matches!(byte, b'.' | b'_' | b'-'));
        if valid { Ok(NamespaceName(text)) } else { Err(InvalidNamespaceName) }
    }
}

impl std::str::FromStr for NamespaceName {
    type Err = InvalidNamespaceName;

    fn from_str(text: &str) -> Result<Self, InvalidNamespaceName> {
        text.to_owned().try_into()
    }
}

impl From<NamespaceName> for String {
    fn from(name: NamespaceName) -> Self {
        name.0
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_any_1_to_1024_bytes() {
        assert_eq!(Key::try_from(vec![]), Err(InvalidKey { len: 0 }));
        assert!(Key::try_from(vec![0]).is_ok());
        assert!(Key::try_from(vec![0xff; 1024]).is_ok());
        assert_eq!(Key::try_from(vec![0xff; 1025]), Err(InvalidKey { len: 1025 }));
    }

    #[test]
    fn no_two_keys_look_alike() {
        let shown = |bytes: &[u8]| Key::try_from(bytes.to_vec()).unwrap().to_string();
        assert_eq!(shown(b"a\xff\\x\n"), r"a\xff\\x\x0a");
        assert_ne!(shown(b"\xff"), shown(br"\xff"));
        assert_eq!(shown("é".as_bytes()), "é");
    }

    #[test]
    fn names_of_namespaces_are_plain() {
        for good in ["a", "0", "carts.eu-1_x"] {
            assert!(good.parse::<NamespaceName>().is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", ".a", "A", "a b", "ü", long.as_str()] {
            assert!(bad.parse::<NamespaceName>().is_err(), "{bad}");
        }
    }
}
