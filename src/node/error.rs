//! Why a node cannot start, or cannot go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::config::ConfigFileError;
use super::driver::EngineError;
use super::entropy::EntropyError;
use super::files::FileError;
use crate::core::identity::MemberId;
use crate::engine::machine::StartError;
use crate::engine::store::StoreError;
use crate::storage::directory::OpenError;
use crate::transport::EndpointError;

/// A node did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A file of its folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// Its data cannot be opened.
    #[error(transparent)]
    Data(#[from] OpenError),
    /// Its data cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is stored does not make a node.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The member is none of this cluster.
    #[error(
        "{path} says that this node is member {member}, who is not in the cluster: correct `member`, or take the folder that `tanist cluster new` made"
    )]
    NotAMember {
        /// The file that names the member.
        path: PathBuf,
        /// The member.
        member: MemberId,
    },
    /// The member has another key.
    #[error(
        "{path} is not the key of member {member} ({name}): put the right key there, or correct `member` in node.toml"
    )]
    OtherKey {
        /// The file with the key.
        path: PathBuf,
        /// The member.
        member: MemberId,
        /// Its name.
        name: String,
    },
    /// It cannot listen.
    #[error(
        "cannot listen at {address}: {source}; if another node runs there, stop it or change `listen` in node.toml"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The network cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The engine ended. What was acknowledged is durable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Another process has this member's key.
    #[error(
        "another process runs with the key of this node ({how}): this one stops; run only one of them, and give a copy a member id and a key of its own"
    )]
    Twin {
        /// How it was noticed.
        how: String,
    },
}
