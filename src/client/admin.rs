//! Changes of the configuration: namespaces and grants.

use super::client::Client;
use super::error::AdminError;
use super::identity::Identity;
use crate::core::chain::{Grant, Mode};
use crate::core::object::NamespaceId;

/// Makes changes that an administrator of the cluster signs.
///
/// Each is proposed as the next entry of the policy chain; if another entry takes that place it is made
/// again, unless it holds already by then.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
    key: Identity,
}

impl Admin {
    pub(super) fn new(client: Client, key: Identity) -> Self {
        Admin { client, key }
    }

    /// Creates a namespace, and returns its id. `write_quorum` is a majority of the replicas if absent.
    pub async fn create_namespace(
        &self,
        name: &str,
        mode: Mode,
        write_quorum: Option<u8>,
    ) -> Result<NamespaceId, AdminError> {
        let _ = (name, mode, write_quorum, &self.client, &self.key);
        unimplemented!()
    }

    /// Drops a namespace: it takes no more requests, and its name can be used again.
    pub async fn drop_namespace(&self, name: &str) -> Result<NamespaceId, AdminError> {
        let _ = name;
        unimplemented!()
    }

    /// Adds a grant. One that holds already is no error.
    pub async fn add_grant(&self, grant: Grant) -> Result<(), AdminError> {
        let _ = grant;
        unimplemented!()
    }

    /// Removes exactly this grant.
    pub async fn remove_grant(&self, grant: Grant) -> Result<(), AdminError> {
        let _ = grant;
        unimplemented!()
    }
}
