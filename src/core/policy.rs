//! Who may do what in which namespace: now, and at every earlier revision.
//!
//! A right is judged once, by the node that stamps a write, under the revision that it puts into the
//! stamp. Everybody else judges by **that** revision, so that a later revocation never makes
//! replicas disagree about a write that was taken before it (attack 8).

use std::collections::BTreeMap;

use super::chain::{ConfigChange, Entry, Grant, Mode, NamespacePolicy, Rights};
use super::identity::{ClusterId, PublicKey};
use super::limits;
use super::object::{Key, NamespaceId, NamespaceName};

/// A namespace and when it existed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The hash of the entry that created it.
    pub id: NamespaceId,
    /// Its policy.
    pub policy: NamespacePolicy,
    /// The resource whose owner alone may write, from the birth of every key on.
    pub owned_by: Option<Key>,
    /// The revision that created it.
    pub created: u64,
    /// The revision that dropped it.
    pub dropped: Option<u64>,
}

impl Namespace {
    /// Durable copies before a write is acknowledged, of `replicas`.
    pub fn write_quorum(&self, replicas: usize) -> usize {
        let majority = replicas / 2 + 1;
        self.policy.write_quorum.map_or(majority, usize::from).clamp(1, replicas.max(1))
    }

    /// Replicas that a read asks: with a majority of writers, enough to meet one of them.
    pub fn read_quorum(&self, replicas: usize) -> usize {
        let write = self.write_quorum(replicas);
        write.min((replicas + 1).saturating_sub(write)).max(1)
    }
}

/// A grant and when it held.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    grant: Grant,
    added: u64,
    removed: Option<u64>,
}

/// The policy chain, applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    revision: u64,
    resources: NamespaceId,
    namespaces: BTreeMap<NamespaceId, Namespace>,
    grants: Vec<Term>,
}

/// A policy entry cannot be applied where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A live namespace has this name.
    #[error("a namespace named {0} exists: drop it first, or choose another name")]
    NameTaken(NamespaceName),
    /// No live namespace has this id.
    #[error("no such namespace: list them with `tanist namespace list`")]
    NoSuchNamespace,
    /// This grant holds already.
    #[error("this grant exists already")]
    GrantExists,
    /// This grant does not hold.
    #[error("no such grant: list them with `tanist grant list`")]
    NoSuchGrant,
    /// The policy is full.
    #[error("a cluster has at most {} namespaces and as many grants", limits::POLICY_ITEMS)]
    Full,
    /// The quorum cannot be met.
    #[error("a write quorum is 1 to the number of replicas")]
    Quorum,
    /// Registers are agreed on by majorities.
    #[error("a linearizable namespace takes no write quorum: a majority always decides")]
    RegisterQuorum,
    /// A fence and "nothing acknowledged is lost" contradict each other without agreement.
    #[error("only a linearizable namespace is owned by a resource")]
    OwnedSiblings,
    /// A change that belongs to another chain, or a prefix no key can have.
    #[error("not a change of the policy chain")]
    NotPolicy,
}

impl Policy {
    /// The policy before the first entry: the grants of the founding entry.
    pub fn founding(cluster: ClusterId, grants: &[Grant]) -> Self {
        let grants = grants.iter().map(|g| Term { grant: g.clone(), added: 0, removed: None }).collect();
        Policy {
            revision: 0,
            resources: NamespaceId::resources(cluster),
            namespaces: BTreeMap::new(),
            grants,
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The live namespace of this name.
    pub fn namespace(&self, name: &NamespaceName) -> Option<&Namespace> {
        self.live_namespaces().find(|namespace| namespace.policy.name == *name)
    }

    /// The namespace with this id, dropped or not.
    pub fn namespace_by_id(&self, id: NamespaceId) -> Option<&Namespace> {
        self.namespaces.get(&id)
    }

    /// The live namespaces, by id.
    pub fn live_namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values().filter(|namespace| namespace.dropped.is_none())
    }

    /// The grants that hold now, in the order they were added.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(|term| term.removed.is_none()).map(|term| &term.grant)
    }

    /// Whether `author` had all of `rights` on `key` under `revision`, in a namespace that existed.
    pub fn allowed(
        &self,
        author: &PublicKey,
        namespace: NamespaceId,
        key: &Key,
        rights: Rights,
        revision: u64,
    ) -> bool {
        let existed = namespace == self.resources
            || self.namespaces.get(&namespace).is_some_and(|namespace| {
                namespace.created <= revision && namespace.dropped.is_none_or(|dropped| revision < dropped)
            });
        existed
            && self.held(author, revision).any(|grant| {
                grant.namespace.is_none_or(|granted| granted == namespace)
                    && key.as_bytes().starts_with(&grant.prefix)
                    && grant.rights.include(rights)
            })
    }

    /// Whether `author` may read every key of `namespace` that begins with `prefix`.
    pub fn may_list(&self, author: &PublicKey, namespace: NamespaceId, prefix: &[u8]) -> bool {
        self.held(author, self.revision).any(|grant| {
            grant.namespace.is_none_or(|granted| granted == namespace)
                && prefix.starts_with(&grant.prefix)
                && grant.rights.include(Rights::READ)
        })
    }

    /// Whether any grant names `author` itself now.
    pub fn knows(&self, author: &PublicKey) -> bool {
        self.grants().any(|grant| grant.author.as_ref() == Some(author))
    }

    /// Whether a grant is for everybody now.
    pub fn knows_anyone(&self) -> bool {
        self.grants().any(|grant| grant.author.is_none())
    }

    /// Whether `entry` could be the next entry, without applying it.
    pub fn check(&self, entry: &Entry, replicas: usize) -> Result<(), PolicyError> {
        match &entry.change {
            ConfigChange::CreateNamespace(policy) | ConfigChange::CreateOwnedNamespace(policy, _) => {
                if self.namespace(&policy.name).is_some() {
                    return Err(PolicyError::NameTaken(policy.name.clone()));
                }
                if self.live_namespaces().count() >= limits::POLICY_ITEMS {
                    return Err(PolicyError::Full);
                }
                if policy.write_quorum.is_some_and(|w| w == 0 || usize::from(w) > replicas) {
                    return Err(PolicyError::Quorum);
                }
                let owned = matches!(entry.change, ConfigChange::CreateOwnedNamespace(..));
                match policy.mode {
                    Mode::Siblings if owned => Err(PolicyError::OwnedSiblings),
                    Mode::Linearizable if policy.write_quorum.is_some() => Err(PolicyError::RegisterQuorum),
                    _ => Ok(()),
                }
            }
            ConfigChange::DropNamespace(id) => {
                let live = self.namespaces.get(id).is_some_and(|namespace| namespace.dropped.is_none());
                if live { Ok(()) } else { Err(PolicyError::NoSuchNamespace) }
            }
            ConfigChange::AddGrant(grant) => {
                if grant
                    .namespace
                    .is_some_and(|id| id != self.resources && !self.namespaces.contains_key(&id))
                {
                    return Err(PolicyError::NoSuchNamespace);
                }
                if grant.prefix.len() > limits::KEY_LEN {
                    return Err(PolicyError::NotPolicy);
                }
                if self.grants().any(|held| held == grant) {
                    return Err(PolicyError::GrantExists);
                }
                if self.grants().count() >= limits::POLICY_ITEMS {
                    return Err(PolicyError::Full);
                }
                Ok(())
            }
            ConfigChange::RemoveGrant(grant) => {
                if self.grants().any(|held| held == grant) {
                    Ok(())
                } else {
                    Err(PolicyError::NoSuchGrant)
                }
            }
            ConfigChange::Voters(_) | ConfigChange::AdvanceEpoch => Err(PolicyError::NotPolicy),
        }
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry, replicas: usize) -> Result<(), PolicyError> {
        self.check(entry, replicas)?;
        self.revision = entry.number;
        match &entry.change {
            ConfigChange::CreateNamespace(policy) => {
                self.create(entry, policy, None);
            }
            ConfigChange::CreateOwnedNamespace(policy, resource) => {
                self.create(entry, policy, Some(resource.clone()));
            }
            ConfigChange::DropNamespace(id) => {
                if let Some(namespace) = self.namespaces.get_mut(id) {
                    namespace.dropped = Some(entry.number);
                }
            }
            ConfigChange::AddGrant(grant) => {
                self.grants.push(Term { grant: grant.clone(), added: entry.number, removed: None });
            }
            ConfigChange::RemoveGrant(grant) => {
                let held = self.grants.iter_mut().find(|t| t.removed.is_none() && t.grant == *grant);
                if let Some(term) = held {
                    term.removed = Some(entry.number);
                }
            }
            ConfigChange::Voters(_) | ConfigChange::AdvanceEpoch => {}
        }
        Ok(())
    }

    fn create(&mut self, entry: &Entry, policy: &NamespacePolicy, owned_by: Option<Key>) {
        let id = NamespaceId(entry.hash().0);
        let policy = policy.clone();
        let namespace = Namespace { id, policy, owned_by, created: entry.number, dropped: None };
        self.namespaces.insert(id, namespace);
    }

    fn held<'a>(&'a self, author: &'a PublicKey, revision: u64) -> impl Iterator<Item = &'a Grant> {
        self.grants
            .iter()
            .filter(move |term| {
                term.added <= revision
                    && term.removed.is_none_or(|removed| revision < removed)
                    && term.grant.author.is_none_or(|granted| granted == *author)
            })
            .map(|term| &term.grant)
    }
}
