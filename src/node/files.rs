//! The small files that people and nodes hand around: keys, and the entry that founded a cluster.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, KeypairBytes};

use crate::core::armor;
use crate::core::authority::CLUSTER_TITLE;
use crate::core::chain::Decided;
use crate::core::cluster::Configuration;
use crate::core::codec;
use crate::core::identity::SecretKey;

/// Nobody but the owner may look.
const SECRET_MODE: u32 = 0o600;
/// Far more than any of these files has.
const LONGEST: u64 = 4 << 20;

/// A file could not be read or written. Nothing that was there has changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is there already.
    #[error("{0} exists: name another file, or move that one away")]
    Exists(PathBuf),
    /// Others than its owner may read a secret.
    #[error("{path} may be read by others (mode {mode:o}): it is a secret, run `chmod 600` on it")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not what it should be.
    #[error("{path} is not {expected}: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl FileError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        move |source| match source.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists(path.to_owned()),
            _ => FileError::Io { action, path: path.to_owned(), source },
        }
    }

    fn content(path: &Path, expected: &'static str, why: impl ToString) -> FileError {
        FileError::Content { path: path.to_owned(), expected, why: why.to_string() }
    }
}

/// Reads an ed25519 key from a PKCS#8 PEM file that only its owner may read.
pub fn load_key(path: &Path) -> Result<SecretKey, FileError> {
    let metadata = fs::metadata(path).map_err(FileError::io("read", path))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::Mode { path: path.to_owned(), mode });
    }
    let text = read_text(path)?;
    let key = SigningKey::from_pkcs8_pem(&text)
        .map_err(|error| FileError::content(path, "an ed25519 key in PKCS#8 PEM", error))?;
    Ok(SecretKey::from_seed(&key.to_bytes()))
}

/// Writes a key to a file that must not exist, and that nobody but the owner may read.
pub fn save_key(path: &Path, key: &SecretKey) -> Result<(), FileError> {
    // Without the public half, as other tools write it: some do not read the form that has both.
    let pair = KeypairBytes { secret_key: key.seed(), public_key: None };
    let pem = pair
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|error| FileError::content(path, "an ed25519 key in PKCS#8 PEM", error))?;
    write_new(path, pem.as_bytes(), SECRET_MODE)
}

/// Reads the entry that founded a cluster, and checks it.
pub fn load_cluster(path: &Path) -> Result<Decided, FileError> {
    let refused = |why: &dyn ToString| FileError::content(path, "a cluster file", why.to_string());
    let bytes = armor::read(CLUSTER_TITLE, &read_text(path)?).map_err(|error| refused(&error))?;
    let genesis: Decided = codec::decode(&bytes).map_err(|error| refused(&error))?;
    Configuration::found(genesis.clone()).map_err(|error| refused(&error))?;
    Ok(genesis)
}

/// Writes the entry that founded a cluster to a file that must not exist.
pub fn save_cluster(path: &Path, genesis: &Decided) -> Result<(), FileError> {
    let text = armor::write(CLUSTER_TITLE, &codec::encode(genesis));
    write_new(path, text.as_bytes(), 0o644)
}

/// Writes the secret that the nodes of a cluster share.
pub(super) fn save_secret(path: &Path, secret: &[u8; 32]) -> Result<(), FileError> {
    write_new(path, format!("{}\n", HEXLOWER.encode(secret)).as_bytes(), SECRET_MODE)
}

/// Reads a text file of bounded size.
pub(super) fn read_text(path: &Path) -> Result<String, FileError> {
    use io::Read as _;
    let mut text = String::new();
    let file = File::open(path).map_err(FileError::io("read", path))?;
    file.take(LONGEST).read_to_string(&mut text).map_err(FileError::io("read", path))?;
    Ok(text)
}

/// Writes a file that must not exist, durably.
pub(super) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let failed = || FileError::io("write", path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed())?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_secret_is_read_back_and_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("me.key");
        let key = SecretKey::from_seed(&[7; 32]);
        save_key(&path, &key).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, SECRET_MODE);
        assert!(fs::read_to_string(&path).unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(load_key(&path).unwrap().public(), key.public());

        let other = SecretKey::from_seed(&[8; 32]);
        assert!(matches!(save_key(&path, &other), Err(FileError::Exists(_))));
        assert_eq!(load_key(&path).unwrap().public(), key.public());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(load_key(&path), Err(FileError::Mode { mode: 0o640, .. })));
    }

    #[test]
    fn what_is_no_key_and_no_cluster_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("odd");
        write_new(&path, b"hello\n", SECRET_MODE).unwrap();
        let error = load_key(&path).unwrap_err().to_string();
        assert!(error.contains("odd is not an ed25519 key"), "{error}");
        let error = load_cluster(&path).unwrap_err().to_string();
        assert!(error.contains("begins with \"hello\""), "{error}");
        fs::write(&path, format!("{CLUSTER_TITLE}\nAAAA\n")).unwrap();
        assert!(matches!(load_cluster(&path), Err(FileError::Content { .. })));
        let missing = load_cluster(&dir.path().join("none")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read "), "{missing}");
    }
}
