//! What a node is told by the files in its folder.
//!
//! ```text
//! node-1/
//!   node.key     the member's key
//!   node.toml    its settings: see [`Config`]
//!   cluster      the entry that founded the cluster
//!   secret       what the nodes share and nobody else knows
//!   data/        the data directory: see [`crate::storage::directory`]
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{self, FileError};
use crate::core::identity::MemberId;

/// The folder of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDir(PathBuf);

impl NodeDir {
    /// The folder at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        NodeDir(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The member's key.
    pub fn key(&self) -> PathBuf {
        self.0.join("node.key")
    }

    /// Its settings.
    pub fn config(&self) -> PathBuf {
        self.0.join("node.toml")
    }

    /// The entry that founded the cluster.
    pub fn cluster(&self) -> PathBuf {
        self.0.join("cluster")
    }

    /// The secret of the nodes.
    pub fn secret(&self) -> PathBuf {
        self.0.join("secret")
    }

    /// The data directory, unless the settings name another one.
    pub fn data(&self) -> PathBuf {
        self.0.join(data())
    }
}

/// The settings in a `node.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which member this node is.
    #[serde(with = "as_text")]
    pub member: MemberId,
    /// Its name, for logs; the cluster's configuration has the last word.
    #[serde(default)]
    pub name: String,
    /// The UDP address to listen at. Port 0 is any free one.
    pub listen: SocketAddr,
    /// The data directory, relative to the node's folder. Default `data`.
    #[serde(default = "data")]
    pub data: PathBuf,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as
    /// `info,tanist::engine=debug`. Default `info`.
    #[serde(default = "log")]
    pub log: String,
    /// Bounds of what this node takes.
    #[serde(default)]
    pub limits: Limits,
    /// Where the other members are, by name or id. The first address that answers is used.
    #[serde(default)]
    pub peers: BTreeMap<String, Vec<SocketAddr>>,
}

/// Bounds of what a node takes. Each has a default that fits a small machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// MiB of clients' requests that are being worked on; beyond it a request is answered as
    /// overloaded. Default 64. Every request counts for 4 KiB at least.
    pub requests_mib: u32,
    /// MiB of peers' messages that wait to be checked or stepped; beyond it peers wait. Default 64.
    pub messages_mib: u32,
    /// Threads that check signatures; 0 is one for each processor. Default 0.
    pub checkers: u32,
    /// MiB that stay free on the disk, or writes are refused. Default 64.
    pub disk_free_mib: u32,
    /// MiB kept back in a file, for a start on a full disk. Default 24.
    pub disk_reserve_mib: u32,
    /// MiB of memory for the database's cache. Default 32.
    pub cache_mib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            requests_mib: 64,
            messages_mib: 64,
            checkers: 0,
            disk_free_mib: 64,
            disk_reserve_mib: 24,
            cache_mib: 32,
        }
    }
}

/// A `node.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A field is missing, unknown, or has an impossible value.
    #[error("{path}: {why}")]
    Field {
        /// The file.
        path: PathBuf,
        /// Which field in which line, and what is wrong with it.
        why: String,
    },
}

impl Config {
    /// Reads the file at `path`.
    pub fn load(path: &Path) -> Result<Self, ConfigFileError> {
        let refused = |why| ConfigFileError::Field { path: path.to_owned(), why };
        let text = files::read_text(path)?;
        let config: Config =
            toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_owned()))?;
        let limits = config.limits;
        for (field, value) in [("requests_mib", limits.requests_mib), ("messages_mib", limits.messages_mib)] {
            // One frame must fit, and the bytes must be countable.
            if !(4..=65_536).contains(&value) {
                return Err(refused(format!("`limits.{field}` is {value}: choose 4 to 65536")));
            }
        }
        for (name, addresses) in &config.peers {
            if addresses.is_empty() {
                return Err(refused(format!("`peers.{name}` names no address: add one, or remove the line")));
            }
        }
        Ok(config)
    }

    /// Writes the file at `path`, which must not exist.
    pub fn save(&self, path: &Path) -> Result<(), ConfigFileError> {
        let text = toml::to_string(self)
            .map_err(|error| ConfigFileError::Field { path: path.to_owned(), why: error.to_string() })?;
        Ok(files::write_new(path, text.as_bytes(), 0o644)?)
    }
}

fn data() -> PathBuf {
    PathBuf::from("data")
}

fn log() -> String {
    "info".to_owned()
}

/// A member id in its text form.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::core::identity::MemberId;

    pub(super) fn serialize<S: Serializer>(id: &MemberId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemberId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).map_err(|error| error.to_string())
    }

    const MINIMAL: &str = "member = \"000102030405060708090a0b0c0d0e0f\"\nlisten = \"192.0.2.1:7401\"\n";

    #[test]
    fn what_is_not_said_has_a_default_and_what_is_written_is_read_back() {
        let config = load(MINIMAL).unwrap();
        assert_eq!((config.data.to_str(), &config.log[..]), (Some("data"), "info"));
        assert_eq!(config.limits, Limits::default());
        let mut config = config;
        config.peers.insert("node-2".to_owned(), vec!["192.0.2.2:7402".parse().unwrap()]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        config.save(&path).unwrap();
        assert_eq!(Config::load(&path).unwrap(), config);
        assert!(matches!(config.save(&path), Err(ConfigFileError::File(FileError::Exists(_)))));
    }

    #[test]
    fn an_error_names_the_file_and_the_field() {
        let cases = [
            (format!("{MINIMAL}lsten = 1\n"), "lsten"),
            ("listen = \"192.0.2.1:7401\"\n".to_owned(), "member"),
            (MINIMAL.replace("7401", "70000"), "listen"),
            (MINIMAL.replace("0e0f", "0e"), "member"),
            (format!("{MINIMAL}[limits]\nrequests_mib = 0\n"), "limits.requests_mib"),
            (format!("{MINIMAL}[limits]\nrequest_mib = 9\n"), "request_mib"),
            (format!("{MINIMAL}[peers]\nb = []\n"), "peers.b"),
            (format!("{MINIMAL}[peers]\nb = [\"nowhere\"]\n"), "b = "),
        ];
        for (text, field) in cases {
            let error = load(&text).unwrap_err();
            assert!(error.contains("node.toml") && error.contains(field), "{error}");
        }
    }
}
