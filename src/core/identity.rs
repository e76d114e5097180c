//! Who acts: clusters, members, incarnations, actors, and the ed25519 keys that speak for them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use data_encoding::HEXLOWER;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::codec;
use super::hash::{Context, Hash, id};

id!(
    /// A cluster: the hash of the first entry of its voters chain.
    ClusterId, 32
);
id!(
    /// A member of a cluster, drawn when it was enrolled; it survives a change of key.
    MemberId, 16
);
id!(
    /// One life of a member's data: lost, restored or copied data is another incarnation.
    Incarnation, 16
);
id!(
    /// A member in one incarnation: whose events, votes and ballots these are.
    ActorId, 16
);

impl ActorId {
    /// The first 16 bytes of the hash of cluster, member and incarnation.
    pub fn new(cluster: ClusterId, member: MemberId, incarnation: Incarnation) -> Self {
        let hash = Hash::of(Context::Actor, &(cluster, member, incarnation));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.0[..16]);
        ActorId(bytes)
    }
}

/// An ed25519 public key: the canonical encoding of a point that is not of small order.
///
/// Other encodings are refused when a key is decoded, so that one key has one spelling and no
/// signature verifies under a key that signs everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PublicKey(#[serde(serialize_with = "codec::fixed::serialize")] [u8; 32]);

/// Bytes or a text are not an acceptable ed25519 public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an ed25519 public key: it must be the canonical form of a point that is not of small order")]
pub struct WeakKey;

impl PublicKey {
    /// The key's 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether `signature` is this key's over exactly `message` (strict verification).
    pub fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        let key = remembered(&self.0).or_else(|| VerifyingKey::from_bytes(&self.0).ok());
        key.is_some_and(|key| key.verify_strict(message, &signature).is_ok())
    }
}

impl TryFrom<[u8; 32]> for PublicKey {
    type Error = WeakKey;

    fn try_from(bytes: [u8; 32]) -> Result<Self, WeakKey> {
        if remembered(&bytes).is_some() {
            return Ok(PublicKey(bytes));
        }
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| WeakKey)?;
        let canonical = key.to_edwards().compress().0 == bytes;
        if !canonical || key.is_weak() {
            return Err(WeakKey);
        }
        remember(key);
        Ok(PublicKey(bytes))
    }
}

/// Keys that were accepted lately on this thread: the same few come with every version and every row,
/// and checking the point costs a hundred times as much as finding it here.
const REMEMBERED: usize = 32;

thread_local! {
    static ACCEPTED: RefCell<VecDeque<VerifyingKey>> = const { RefCell::new(VecDeque::new()) };
}

fn remembered(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    ACCEPTED.with_borrow(|accepted| accepted.iter().find(|key| key.as_bytes() == bytes).copied())
}

fn remember(key: VerifyingKey) {
    ACCEPTED.with_borrow_mut(|accepted| {
        if accepted.len() == REMEMBERED {
            accepted.pop_front();
        }
        accepted.push_back(key);
    });
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        codec::fixed::deserialize::<_, 32>(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl std::str::FromStr for PublicKey {
    type Err = WeakKey;

    fn from_str(text: &str) -> Result<Self, WeakKey> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| WeakKey)?;
        <[u8; 32]>::try_from(bytes).map_err(|_| WeakKey)?.try_into()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", HEXLOWER.encode(&self.0[..4]))
    }
}

/// An ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature(#[serde(with = "codec::fixed")] pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", HEXLOWER.encode(&self.0[..4]))
    }
}

/// An ed25519 key pair. Its `Debug` form shows the public half only.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// The key pair that grows from 32 secret random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        SecretKey(SigningKey::from_bytes(seed))
    }

    /// The secret seed, for storing the key.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// This key's signature over `message`.
    ///
    /// The message must begin with a context that no other kind of signed message shares: see
    /// [`signature`](super::signature).
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {:?})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::codec;

    #[test]
    fn weak_and_foreign_spellings_of_keys_are_refused() {
        let mut identity = [0u8; 32];
        identity[0] = 1;
        assert_eq!(PublicKey::try_from(identity), Err(WeakKey), "the neutral point signs everything");
        let mut non_canonical = [0xff; 32];
        non_canonical[0] = 0xee;
        non_canonical[31] = 0x7f;
        assert_eq!(PublicKey::try_from(non_canonical), Err(WeakKey), "p + 1 is a second spelling of 1");
        assert_eq!(PublicKey::try_from([2; 32]), Err(WeakKey), "not a point at all");
    }

    #[test]
    fn a_signature_is_over_exactly_one_message_and_key() {
        let key = SecretKey::from_seed(&[7; 32]);
        let signature = key.sign(b"message");
        assert!(key.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"massage", &signature));
        assert!(!SecretKey::from_seed(&[8; 32]).public().verifies(b"message", &signature));
        assert_eq!(codec::decode::<Signature>(&codec::encode(&signature)), Ok(signature));
    }
}
