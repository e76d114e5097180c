//! Connecting, and opening namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use super::admin::Admin;
use super::attempt::Verdict;
use super::check::unexpected;
use super::error::{ConnectError, OpenError, ReadError};
use super::exchange::Deadline;
use super::identity::Identity;
use super::linearizable::Linearizable;
use super::peers::Peers;
use super::siblings::Siblings;
use super::space::Space;
use super::ticket::Ticket;
use crate::core::chain::Mode;
use crate::core::cluster::Configuration;
use crate::core::identity::MemberId;
use crate::core::object::NamespaceName;
use crate::core::policy::Namespace;
use crate::core::verified::RootCache;
use crate::core::write::WriteId;
use crate::transport::{Endpoint, Options, Timing};
use crate::wire::client::{AskStatus, Status};
use crate::wire::registry::{Reply, Request};

/// Connections of clients notice within this time that a node is gone.
const TIMING: Timing = Timing { keep_alive: Duration::from_secs(1), idle: Duration::from_secs(4) };

/// A connection to a cluster: to as many of its nodes as requests have needed. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) only: Option<MemberId>,
}

pub(super) struct Shared {
    pub(super) identity: Identity,
    pub(super) peers: Peers,
    pub(super) config: RwLock<Arc<Configuration>>,
    /// Held while the configuration is fetched.
    pub(super) fetching: AsyncMutex<()>,
    pub(super) cache: RootCache,
    /// Tenures whose proof was sent already: nodes that forgot it ask for it.
    pub(super) presented: Mutex<BTreeSet<WriteId>>,
    pub(super) timeout: Duration,
}

/// Says who connects, and how patiently.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    identity: Option<Identity>,
    timeout: Option<Duration>,
}

impl Client {
    /// How long an operation may take if the [builder](Builder::timeout) does not say otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// The beginning of a connection.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a namespace in `siblings` mode.
    pub async fn siblings(&self, name: &str) -> Result<Siblings, OpenError> {
        self.open(name, Mode::Siblings).await.map(Siblings)
    }

    /// Opens a namespace in `linearizable` mode: its keys are registers.
    pub async fn linearizable(&self, name: &str) -> Result<Linearizable, OpenError> {
        self.open(name, Mode::Linearizable).await.map(Linearizable)
    }

    /// Opens a namespace in whichever mode it has.
    pub async fn space(&self, name: &str) -> Result<Space, OpenError> {
        Ok(Space::new(self, &self.find(name).await?))
    }

    async fn open(&self, name: &str, wanted: Mode) -> Result<Space, OpenError> {
        let namespace = self.find(name).await?;
        match namespace.policy.mode {
            mode if mode == wanted => Ok(Space::new(self, &namespace)),
            mode => Err(OpenError::Mode { name: name.to_owned(), mode }),
        }
    }

    async fn find(&self, name: &str) -> Result<Namespace, OpenError> {
        let parsed: NamespaceName = name.parse()?;
        let mut config = self.configuration();
        if config.policy().namespace(&parsed).is_none() {
            config = self.refresh().await.map_err(|error| OpenError::Unavailable(error.to_string()))?;
        }
        let namespace = config.policy().namespace(&parsed);
        namespace.cloned().ok_or_else(|| OpenError::Unknown(name.to_owned()))
    }

    /// This client with every request sent to one node, given by name or id: it forwards what it
    /// does not hold.
    pub fn at(&self, node: &str) -> Result<Client, ConnectError> {
        let config = self.configuration();
        let mut members = config.current().members.iter();
        let member = members.find(|member| member.name == node || member.id.to_string() == node);
        let member = member.ok_or_else(|| ConnectError::NoSuchMember(node.to_owned()))?;
        Ok(Client { shared: self.shared.clone(), only: Some(member.id) })
    }

    /// Changes that the administrator with this key signs.
    pub fn admin(&self, key: impl Into<Identity>) -> Admin {
        Admin::new(self.clone(), key.into())
    }

    /// The identity that signs writes.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// The configuration as far as it is known and verified here: members, namespaces, grants.
    pub fn configuration(&self) -> Arc<Configuration> {
        self.shared.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fetches what is new of the configuration, and verifies it.
    pub async fn refresh(&self) -> Result<Arc<Configuration>, ReadError> {
        self.fetch_config([0; 3]).await
    }

    /// How a node is.
    pub async fn status(&self, member: MemberId) -> Result<Status, ReadError> {
        let check = |_: &super::check::Checker<'_>, reply: &Reply| match reply {
            Reply::Status(_) => Ok(()),
            _ => Err(unexpected()),
        };
        let deadline = Deadline::after(self.timeout());
        match self.ask_member(member, &Request::AskStatus(AskStatus {}), deadline, &check).await {
            Verdict::Answer(Reply::Status(status)) => {
                let known = super::config::lengths(&self.configuration());
                if status.chains.iter().zip(known).any(|(node, here)| *node > here) {
                    // The status holds whether or not the news can be fetched.
                    let _ = self.fetch_config(status.chains).await;
                }
                Ok(status)
            }
            other => Err(ReadError::from_verdict(other)),
        }
    }

    /// How long an operation may take.
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
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
        let identity = self.identity.ok_or(ConnectError::NoIdentity)?;
        let founded = Configuration::found(ticket.genesis().clone()).map_err(super::TicketError::from)?;
        let options = Options { timing: TIMING, ..Options::default() };
        let endpoint = Endpoint::client_with(identity.secret(), options)?;
        let shared = Shared {
            peers: Peers::new(endpoint, ticket.addresses()),
            identity,
            config: RwLock::new(Arc::new(founded)),
            fetching: AsyncMutex::new(()),
            cache: RootCache::default(),
            presented: Mutex::default(),
            timeout: self.timeout.unwrap_or(Client::TIMEOUT),
        };
        let client = Client { shared: Arc::new(shared), only: None };
        match client.refresh().await {
            Ok(_) => Ok(client),
            Err(ReadError::Denied(why)) => Err(ConnectError::Denied(why)),
            Err(ReadError::Forged(why)) => Err(ConnectError::Forged(why)),
            Err(other) => Err(ConnectError::Unavailable(other.to_string())),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("cluster", &self.configuration().cluster())
            .field("identity", &self.shared.identity)
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}
