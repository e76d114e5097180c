//! Connecting with the ticket and the key of the command line.

use std::path::PathBuf;

use super::args::{Global, namespace_name};
use super::error::Failure;
use super::exit::Exit;
use super::failures;
use super::words::Site;
use crate::client::{Client, FenceKey, Identity, Siblings, Space, Ticket};
use crate::core::object::Key;
use crate::core::write::Term;

/// The variable that names the fence file.
pub(super) const FENCE: &str = "TANIST_FENCE";

impl Global {
    /// Connects to the cluster.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let ticket = self.ticket()?;
        let identity = self.identity()?;
        let public = identity.public();
        let connected = Client::builder().identity(identity).connect(&ticket).await;
        let client = connected.map_err(|error| failures::connect(self, &error, &public))?;
        match &self.at {
            Some(node) => client.at(node).map_err(|error| failures::connect(self, &error, &public)),
            None => Ok(client),
        }
    }

    /// Connects, and opens the namespace `name`.
    pub(super) async fn open(&self, name: &str) -> Result<Space, Failure> {
        namespace_name(name)?;
        let client = self.connect().await?;
        let site = Site { global: self, namespace: name, key: None };
        client.space(name).await.map_err(|error| failures::open(site, &error))
    }

    /// Connects, and opens the namespace `name` to write there: fenced, if `--fenced-by` or TANIST_FENCE
    /// says so.
    pub(super) async fn open_to_write(&self, name: &str) -> Result<Space, Failure> {
        let fence = self.fence()?;
        let space = self.open(name).await?;
        match fence {
            Some(fence) if space.is_linearizable() => Ok(space.fenced_by(fence)),
            Some(_) if self.fenced_by.is_some() => {
                let what = format!("{name:?} is siblings: only keys of linearizable namespaces are fenced");
                Err(Failure::usage(what).next(self.line(&["namespace", "list"])))
            }
            _ => Ok(space),
        }
    }

    /// The fence of `--fenced-by`, or of TANIST_FENCE.
    pub(super) fn fence(&self) -> Result<Option<FenceKey>, Failure> {
        let variable = std::env::var_os(FENCE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = self.fenced_by.clone().or(variable) else { return Ok(None) };
        FenceKey::load(&path).map(Some).map_err(|error| {
            Failure::failed("file", format!("{}: {error}", path.display()))
                .next("tanist elect RESOURCE --fence FILE")
        })
    }

    /// What this command line owns, if anything.
    pub(super) fn term(&self) -> Option<(Key, Term)> {
        let fence = self.fence().ok().flatten()?;
        Some((fence.resource().clone(), fence.term()))
    }

    /// Connects, and opens the namespace `name`, whose keys can have siblings.
    pub(super) async fn open_siblings(&self, name: &str) -> Result<Siblings, Failure> {
        namespace_name(name)?;
        let client = self.connect().await?;
        let site = Site { global: self, namespace: name, key: None };
        client.siblings(name).await.map_err(|error| failures::open(site, &error))
    }

    /// The ticket.
    pub(super) fn ticket(&self) -> Result<Ticket, Failure> {
        let Some(path) = &self.ticket else {
            return Err(Failure::usage("which cluster? There is no ticket")
                .next("export TANIST_TICKET=DIR/ticket, or give --ticket FILE")
                .next("tanist dev   (for a cluster to play with)"));
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::failed("file", format!("cannot read the ticket {shown}: {error}"))
                .next("give the file that `tanist cluster new` made: export TANIST_TICKET=DIR/ticket")
        })?;
        text.parse().map_err(|error| {
            Failure::failed("file", format!("{shown}: {error}"))
                .next("give the file that `tanist cluster new` made: export TANIST_TICKET=DIR/ticket")
        })
    }

    /// The identity.
    pub(super) fn identity(&self) -> Result<Identity, Failure> {
        let Some(path) = &self.identity else {
            return Err(Failure::usage("as whom? There is no key")
                .next("export TANIST_KEY=DIR/client.key, or give --key FILE")
                .next("tanist keygen FILE   (to make one)"));
        };
        Identity::load(path).map_err(|error| {
            // The error of a read names the file; the one of its content does not.
            let what = error.to_string();
            let shown = path.display().to_string();
            let what = if what.contains(&shown) { what } else { format!("{shown}: {what}") };
            Failure::new(Exit::Failed, "file", what)
                .next("give a private key: export TANIST_KEY=DIR/client.key")
        })
    }
}
