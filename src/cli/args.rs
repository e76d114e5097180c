//! The command line: the commands, and the arguments that several of them take.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::error::Failure;
use super::exit::Exit;
use super::output::Output;
use super::{
    certificate, check, cluster, conflicts, create, delete, demo, dev, elect, get, grant, guarded, keygen,
    list, namespace, node, once, outcome, overwrite, owner, replace, resign, resolve, show, status, update,
};
use crate::core::object::{Key, NamespaceName};

/// A leaderless optimistic-concurrency store: what to use instead of a distributed lock
#[derive(Debug, clap::Parser)]
#[command(name = "tanist", version, max_term_width = 100, after_long_help = include_str!("help.txt"))]
#[command(after_help = "`tanist --help` also documents exit codes and JSON.")]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Global {
    /// The cluster's ticket
    #[arg(long, global = true, value_name = "FILE", env = "TANIST_TICKET", help_heading = "Everywhere")]
    pub(super) ticket: Option<PathBuf>,
    /// The private key to act with
    #[arg(long = "key", global = true, value_name = "FILE", env = "TANIST_KEY", help_heading = "Everywhere")]
    pub(super) identity: Option<PathBuf>,
    /// Send everything to this node, by name or id
    #[arg(long, global = true, value_name = "NODE", help_heading = "Everywhere")]
    pub(super) at: Option<String>,
    /// Write as the owner of a resource: the file of `elect --fence`. In linearizable namespaces writes
    /// take the file that TANIST_FENCE names, too; `get` seals the key only with this flag
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(super) fenced_by: Option<PathBuf>,
    /// Write results to stdout, and errors to stderr, as JSON
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(super) json: bool,
}

/// The commands, one file each.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show what Tanist promises, with real processes
    Demo(demo::Args),
    /// Run a cluster to play with
    Dev(dev::Args),
    /// Make a private key and print its public half
    Keygen(keygen::Args),
    /// Found a cluster
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Run a node
    Node(node::Args),
    /// Create, list and drop namespaces
    #[command(subcommand)]
    Namespace(namespace::Command),
    /// Say who may do what
    #[command(subcommand)]
    Grant(grant::Command),
    /// Print a key's value
    Get(get::Args),
    /// Put a value where none is
    Create(create::Args),
    /// Put a value in the place of exactly the version that was read (compare-and-set)
    Replace(replace::Args),
    /// Read, have a command compute, compare and set, and again if others were faster
    Update(update::Args),
    /// Put a value in the place of whatever is there
    Overwrite(overwrite::Args),
    /// Delete a key
    Delete(delete::Args),
    /// Merge siblings into one version
    Resolve(resolve::Args),
    /// List keys with siblings
    Conflicts(conflicts::Args),
    /// Show a key's known history: authors, signatures, causality
    Show(show::Args),
    /// Wait until this process owns a resource, and run a command while it does
    Elect(elect::Args),
    /// Become COMMAND, and end with the parent
    #[command(hide = true)]
    Guarded(guarded::Args),
    /// Show who owns a resource
    Owner(owner::Args),
    /// Let go of a resource, so that another can own it at once
    Resign(resign::Args),
    /// Check certificates of ownership, offline
    #[command(subcommand)]
    Certificate(certificate::Command),
    /// Run a command once, however often it is asked for
    Once(once::Args),
    /// Find out what became of a write, or settle it
    Outcome(outcome::Args),
    /// Judge a recorded history: is it what the store promises?
    Check(check::Args),
    /// List keys
    List(list::Args),
    /// Show how the nodes are
    Status(status::Args),
}

/// A namespace and a key in it.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The namespace
    #[arg(value_name = "NS")]
    pub(super) namespace: String,
    /// The key: 1 to 1024 bytes
    #[arg(value_name = "KEY")]
    key: OsString,
    /// KEY is written in hexadecimal digits (for keys that are no text)
    #[arg(long)]
    key_hex: bool,
}

impl Global {
    /// Where words go.
    pub(super) fn output(&self) -> Output {
        Output::new(self.json)
    }
}

impl Place {
    /// The key. One that cannot be a key is refused here, the same for every command.
    pub(super) fn key(&self) -> Result<Key, Failure> {
        self.namespace_name()?;
        let bytes = bytes(&self.key, self.key_hex)?;
        Key::try_from(bytes).map_err(|error| {
            Failure::new(Exit::Usage, "invalid-key", error).next("choose a key of 1 to 1024 bytes")
        })
    }

    fn namespace_name(&self) -> Result<NamespaceName, Failure> {
        namespace_name(&self.namespace)
    }
}

/// The name of a namespace, or why it is none.
pub(super) fn namespace_name(text: &str) -> Result<NamespaceName, Failure> {
    text.parse().map_err(|error| {
        Failure::new(Exit::Usage, "invalid-namespace", format!("{text:?} names no namespace: {error}"))
            .next("tanist namespace list")
    })
}

/// Bytes as they were given, or in hexadecimal digits.
pub(super) fn bytes(given: &OsString, hex: bool) -> Result<Vec<u8>, Failure> {
    if !hex {
        return Ok(given.as_bytes().to_vec());
    }
    HEXLOWER_PERMISSIVE.decode(given.as_bytes()).map_err(|error| {
        Failure::new(Exit::Usage, "invalid-key", format!("{given:?} is not hexadecimal: {error}"))
            .next("give an even number of the digits 0-9a-f, or leave --key-hex out")
    })
}
