//! Who the client is: an ed25519 key, in a file as `tanist keygen` makes it.

use std::fmt;
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _};

use super::ambient;
use super::error::IdentityError;
use crate::core::identity::{PublicKey, SecretKey};

/// The key that signs this client's writes and proves who it is to nodes. Shown, it gives the public
/// half only.
#[derive(Clone)]
pub struct Identity(SecretKey);

impl Identity {
    /// The identity in the file at `path`: PKCS#8 PEM.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let pem = std::fs::read_to_string(path)
            .map_err(|error| IdentityError::Read { path: path.display().to_string(), error })?;
        Self::from_pem(&pem)
    }

    /// The identity that the text `pem` holds.
    pub fn from_pem(pem: &str) -> Result<Self, IdentityError> {
        let key = SigningKey::from_pkcs8_pem(pem).map_err(|error| IdentityError::Pem(error.to_string()))?;
        Ok(Identity(SecretKey::from_seed(&key.to_bytes())))
    }

    /// A new identity, from the system's entropy.
    pub fn generate() -> Self {
        Identity(SecretKey::from_seed(&ambient::random()))
    }

    /// The identity as PKCS#8 PEM, secret half included.
    pub fn to_pem(&self) -> Result<String, IdentityError> {
        let key = SigningKey::from_bytes(&self.0.seed());
        let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| IdentityError::Pem(error.to_string()))?;
        Ok(pem.to_string())
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.0.public()
    }

    /// The key pair.
    pub fn secret(&self) -> &SecretKey {
        &self.0
    }
}

impl From<SecretKey> for Identity {
    fn from(key: SecretKey) -> Self {
        Identity(key)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}
