//! Connecting, and opening namespaces.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::Admin;
use super::error::{ConnectError, OpenError, ReadError};
use super::identity::Identity;
use super::siblings::Siblings;
use super::ticket::Ticket;
use crate::core::cluster::Configuration;
use crate::core::identity::MemberId;
use crate::wire::client::Status;

/// A connection to a cluster: to as many of its nodes as requests have needed. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    only: Option<MemberId>,
}

/// Says who connects, and how patiently.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    identity: Option<Identity>,
    timeout: Option<Duration>,
}

impl Client {
    /// The beginning of a connection.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a namespace in `siblings` mode.
    pub async fn siblings(&self, name: &str) -> Result<Siblings, OpenError> {
        let _ = name;
        unimplemented!()
    }

    /// This client with every request sent to one node, given by name or id: it forwards what it
    /// does not hold.
    pub fn at(&self, node: &str) -> Result<Client, ConnectError> {
        let _ = (node, self.only);
        unimplemented!()
    }

    /// Changes that the administrator with this key signs.
    pub fn admin(&self, key: impl Into<Identity>) -> Admin {
        Admin::new(self.clone(), key.into())
    }

    /// The identity that signs writes.
    pub fn identity(&self) -> &Identity {
        unimplemented!()
    }

    /// The configuration as far as it is known and verified here: members, namespaces, grants.
    pub fn configuration(&self) -> Arc<Configuration> {
        unimplemented!()
    }

    /// Fetches what is new of the configuration, and verifies it.
    pub async fn refresh(&self) -> Result<Arc<Configuration>, ReadError> {
        unimplemented!()
    }

    /// How a node is.
    pub async fn status(&self, member: MemberId) -> Result<Status, ReadError> {
        let _ = member;
        unimplemented!()
    }

    /// How long an operation may take.
    pub fn timeout(&self) -> Duration {
        unimplemented!()
    }
}

impl Builder {
    /// Who connects and signs.
    pub fn identity(mut self, identity: impl Into<Identity>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long an operation may take before its outcome is unknown or it is given up. Default 5 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Connects: asks a node of the ticket for the configuration and verifies it, entry by entry, from
    /// the founding entry of the ticket.
    pub async fn connect(self, ticket: &Ticket) -> Result<Client, ConnectError> {
        let _ = ticket;
        unimplemented!()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
