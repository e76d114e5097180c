//! What the commands of ownership share.

use std::fmt;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::failures;
use super::words::Site;
use crate::client::{CampaignError, ReadError, Resource};
use crate::core::object::Key;

/// The name of the namespace that resources are in, for grants.
pub(super) const RESOURCES: &str = "@resources";

/// A resource on the command line.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ResourceName {
    /// What is owned: 1 to 1024 bytes
    #[arg(value_name = "RESOURCE")]
    resource: String,
}

impl ResourceName {
    /// As it was given.
    pub(super) fn as_str(&self) -> &str {
        &self.resource
    }

    /// As a key.
    pub(super) fn key(&self) -> Result<Key, Failure> {
        Key::try_from(self.resource.as_bytes().to_vec()).map_err(|error| {
            Failure::new(Exit::Usage, "invalid-key", error).next("choose a resource of 1 to 1024 bytes")
        })
    }

    /// Connects, and names it.
    pub(super) async fn open(&self, global: &Global) -> Result<Resource, Failure> {
        let key = self.key()?;
        let client = global.connect().await?;
        client.resource(key.as_bytes()).map_err(|error| {
            Failure::new(Exit::Usage, "invalid-key", error).next("choose a resource of 1 to 1024 bytes")
        })
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key() {
            Ok(key) => key.fmt(f),
            Err(_) => f.write_str(&self.resource),
        }
    }
}

/// A resource could not be read.
pub(super) fn read(global: &Global, resource: &ResourceName, error: &ReadError) -> Failure {
    let key = resource.key().ok();
    let failure = failures::read(Site { global, namespace: RESOURCES, key: key.as_ref() }, error);
    match error {
        ReadError::Denied(_) => Failure {
            next: vec![format!("tanist grant add AUTHOR {RESOURCES} --may read,elect --key ADMIN_KEY")],
            ..failure
        },
        _ => failure,
    }
}

/// A campaign did not end in an ownership, or a resignation in its end.
pub(super) fn campaign(global: &Global, resource: &ResourceName, error: &CampaignError) -> Failure {
    match error {
        CampaignError::Owned { by, term, .. } => {
            Failure::new(Exit::Refused, "owned", format!("{resource} is {error}"))
                .detail("owner", by.to_string())
                .detail("term", term.to_string())
                .next(global.line(&["elect", resource.as_str(), "--wait", "1m", "--", "COMMAND"]))
                .next(global.line(&["owner", resource.as_str()]))
        }
        CampaignError::Unavailable(_) => failures::unavailable(error, global.line(&["status"])),
        CampaignError::Unknown(_) => Failure::new(Exit::Unknown, "unknown", error)
            .state("the resignation may have been taken; if not, the lease runs out")
            .next(global.line(&["owner", resource.as_str()])),
        CampaignError::Read(error) => read(global, resource, error),
    }
}
