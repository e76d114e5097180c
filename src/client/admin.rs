//! Changes of the configuration: namespaces and grants.

use std::sync::Arc;

use super::attempt::{Attempts, Pace, Verdict};
use super::check::{Checker, unexpected};
use super::client::Client;
use super::error::AdminError;
use super::exchange::{Deadline, pauses};
use super::identity::Identity;
use crate::core::chain::{
    Chain, ConfigChange, ENTRY_FORMAT, Entry, Grant, Mode, NamespacePolicy, SignedEntry,
};
use crate::core::cluster::Configuration;
use crate::core::object::{Key, NamespaceId, NamespaceName};
use crate::core::policy::PolicyError;
use crate::core::signature::sign_one;
use crate::wire::client::{Failure, Propose, Proposed};
use crate::wire::registry::{Reply, Request};

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
    ///
    /// A name that is taken is refused, unless the namespace is exactly this one and came to be while
    /// this call was under way.
    pub async fn create_namespace(
        &self,
        name: &str,
        mode: Mode,
        write_quorum: Option<u8>,
    ) -> Result<NamespaceId, AdminError> {
        let name: NamespaceName = name.parse()?;
        let policy = NamespacePolicy { name, mode, write_quorum };
        let config = self.change(ConfigChange::CreateNamespace(policy.clone())).await?;
        let namespace = config.policy().namespace(&policy.name);
        namespace
            .map(|namespace| namespace.id)
            .ok_or_else(|| AdminError::Unknown("the namespace was created and is gone again".into()))
    }

    /// Creates a linearizable namespace whose every key is bound from birth to `resource`: only writes
    /// that are fenced by its owner are applied. Returns its id.
    pub async fn create_owned_namespace(&self, name: &str, resource: Key) -> Result<NamespaceId, AdminError> {
        let name: NamespaceName = name.parse()?;
        let policy = NamespacePolicy { name, mode: Mode::Linearizable, write_quorum: None };
        let config = self.change(ConfigChange::CreateOwnedNamespace(policy.clone(), resource)).await?;
        let namespace = config.policy().namespace(&policy.name);
        namespace
            .map(|namespace| namespace.id)
            .ok_or_else(|| AdminError::Unknown("the namespace was created and is gone again".into()))
    }

    /// Drops a namespace: it takes no more requests, and its name can be used again.
    pub async fn drop_namespace(&self, name: &str) -> Result<NamespaceId, AdminError> {
        let name: NamespaceName = name.parse()?;
        let config = self.fresh().await?;
        let namespace = config.policy().namespace(&name);
        let id = namespace.ok_or(AdminError::Refused(PolicyError::NoSuchNamespace.into()))?.id;
        self.change(ConfigChange::DropNamespace(id)).await?;
        Ok(id)
    }

    /// Adds a grant. One that holds already is refused, unless it came to be while this call was under way.
    pub async fn add_grant(&self, grant: Grant) -> Result<(), AdminError> {
        self.change(ConfigChange::AddGrant(grant)).await.map(drop)
    }

    /// Removes exactly this grant.
    pub async fn remove_grant(&self, grant: Grant) -> Result<(), AdminError> {
        self.change(ConfigChange::RemoveGrant(grant)).await.map(drop)
    }

    async fn fresh(&self) -> Result<Arc<Configuration>, AdminError> {
        self.client.refresh().await.map_err(|error| AdminError::Unavailable(error.to_string()))
    }

    /// Has `change` decided; returns a configuration in which it holds.
    async fn change(&self, change: ConfigChange) -> Result<Arc<Configuration>, AdminError> {
        let deadline = Deadline::after(self.client.timeout() * 2);
        let mut pauses = pauses();
        let mut config = self.fresh().await?;
        let (mut proposed, mut doubt) = (false, false);
        loop {
            let signed = self.sign(&config, change.clone());
            if let Err(error) = config.check_next(&signed) {
                return match proposed && holds(&config, &change) {
                    true => Ok(config),
                    false => Err(AdminError::Refused(error)),
                };
            }
            let (number, hash) = (signed.entry.number, signed.entry.hash());
            let answer = self.propose(signed).await;
            proposed = true;
            let needed = if answer == Ok(Proposed::Chosen) { [0, number, 0] } else { [0; 3] };
            config = match self.client.fetch_config(needed).await {
                Ok(config) => config,
                Err(error) => return Err(AdminError::Unknown(error.to_string())),
            };
            let place = config.entries(Chain::Policy).iter().find(|held| held.signed.entry.number == number);
            let why = match (place, answer) {
                (Some(held), _) if held.signed.entry.hash() == hash => return Ok(config),
                (Some(_), _) => "other changes were faster".into(),
                (None, Err(error @ (AdminError::Node(_) | AdminError::Unavailable(_)))) if !doubt => {
                    return Err(error);
                }
                // By all that is known here it fits: the node lags behind, or is deciding something else.
                (None, Ok(Proposed::Refused { why })) => why,
                // The same entry again: it can be chosen once only.
                (None, Ok(_)) => {
                    doubt = true;
                    "no majority answered in time".into()
                }
                (None, Err(error)) => {
                    doubt = true;
                    error.to_string()
                }
            };
            if !deadline.pause(&mut pauses).await {
                return Err(match doubt {
                    true => AdminError::Unknown(why),
                    false => AdminError::Node(Failure::Rejected(why)),
                });
            }
        }
    }

    async fn propose(&self, signed: SignedEntry) -> Result<Proposed, AdminError> {
        let client = &self.client;
        let voters = client.configuration().current().electorate.clone();
        let timeout = u64::try_from(client.timeout().as_millis()).unwrap_or(u64::MAX);
        // Deciding takes two rounds: another proposer at once would only be in the way.
        let pace = Pace { deadline_ms: timeout, hedge_ms: 1_000, ..Pace::default() };
        let attempts = Attempts::write(client.route(voters), pace);
        let check = |_: &Checker<'_>, reply: &Reply| match reply {
            Reply::Proposed(_) => Ok(()),
            _ => Err(unexpected()),
        };
        match client.exchange(attempts, &Request::Propose(Propose { signed }), &check).await {
            Verdict::Answer(Reply::Proposed(proposed)) => Ok(proposed),
            Verdict::Answer(Reply::Failure(failure)) => Err(AdminError::Node(failure)),
            Verdict::Unavailable(why) => Err(AdminError::Unavailable(why)),
            Verdict::Unknown(why) | Verdict::Forged(why) => Err(AdminError::Unknown(why)),
            Verdict::Answer(_) => Err(AdminError::Unknown("an answer to another question".into())),
        }
    }

    fn sign(&self, config: &Configuration, change: ConfigChange) -> SignedEntry {
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: config.length(Chain::Policy) + 1,
            previous: config.head(Chain::Policy),
            change,
        };
        let proof = sign_one(self.key.secret(), config.cluster(), entry.hash());
        SignedEntry { admin: Some((self.key.public(), proof)), entry }
    }
}

/// Whether `change` is in force: somebody else has made the same one.
fn holds(config: &Configuration, change: &ConfigChange) -> bool {
    let policy = config.policy();
    match change {
        ConfigChange::CreateNamespace(wanted) => {
            policy.namespace(&wanted.name).is_some_and(|namespace| namespace.policy == *wanted)
        }
        ConfigChange::CreateOwnedNamespace(wanted, resource) => {
            policy.namespace(&wanted.name).is_some_and(|namespace| {
                namespace.policy == *wanted && namespace.owned_by.as_ref() == Some(resource)
            })
        }
        ConfigChange::DropNamespace(id) => {
            policy.namespace_by_id(*id).is_some_and(|namespace| namespace.dropped.is_some())
        }
        ConfigChange::AddGrant(grant) => policy.grants().any(|held| held == grant),
        ConfigChange::RemoveGrant(grant) => !policy.grants().any(|held| held == grant),
        ConfigChange::Voters(_) | ConfigChange::AdvanceEpoch => false,
    }
}
