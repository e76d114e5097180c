//! Randomness: with `clock.rs` beside it the only file that asks the machine for what it cannot know.

use crate::core::identity::SecretKey;

/// The system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes, and without them no key is secret: {0}")]
pub struct EntropyError(String);

/// Random bytes, fit for keys.
#[allow(clippy::disallowed_methods, reason = "this file owns randomness")]
pub fn bytes<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| EntropyError(error.to_string()))?;
    Ok(bytes)
}

/// A new key.
pub fn key() -> Result<SecretKey, EntropyError> {
    Ok(SecretKey::from_seed(&bytes()?))
}
