//! A cluster's configuration: its chains, verified and applied.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::chain::{Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Member, SignedEntry, Vote, Voters};
use super::hash::Hash;
use super::identity::{ActorId, ClusterId, Incarnation, MemberId, PublicKey};
use super::limits;
use super::object::{NamespaceId, ObjectId};
use super::placement;
use super::policy::{Policy, PolicyError};

/// Everything that was decided for a cluster, as far as the holder knows.
///
/// Built from the founding entry and [extended](Self::extend) one verified entry at a time; a
/// configuration that is held was verified.
#[derive(Debug, Clone)]
pub struct Configuration {
    cluster: ClusterId,
    voters: Vec<Arc<Decided>>,
    policy_entries: Vec<Arc<Decided>>,
    epoch_entries: Vec<Arc<Decided>>,
    policy: Policy,
}

/// An entry is not the next one of its chain, or not proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Another format than this version knows.
    #[error("entry format {0} is not supported: this side knows format {ENTRY_FORMAT}")]
    Format(u8),
    /// It names another predecessor, or another place.
    #[error("not the next entry of the {0:?} chain: fetch the links between")]
    NotNext(Chain),
    /// No administrator of the cluster signed it.
    #[error("no administrator of the cluster signed this entry")]
    NotAdmin,
    /// Too few, repeated, foreign or forged votes.
    #[error("no majority of the electorate voted for this entry at one ballot")]
    NoMajority,
    /// A voters entry that no cluster can have.
    #[error("not a possible membership: {0}")]
    Voters(&'static str),
    /// A policy entry that does not fit.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The change belongs to another chain.
    #[error("the change does not belong to the chain")]
    WrongChain,
}

impl Configuration {
    /// The configuration of a cluster that has only been founded.
    pub fn found(genesis: Decided) -> Result<Self, ConfigError> {
        let entry = &genesis.signed.entry;
        check_format(entry)?;
        let ConfigChange::Voters(voters) = &entry.change else { return Err(ConfigError::WrongChain) };
        if entry.chain != Chain::Voters || entry.number != 1 || entry.previous != Hash([0; 32]) {
            return Err(ConfigError::NotNext(Chain::Voters));
        }
        check_voters(voters)?;
        let cluster = ClusterId(entry.hash().0);
        check_admin(&genesis.signed, &voters.admins, cluster)?;
        let policy = Policy::founding(cluster, &voters.grants);
        Ok(Configuration {
            cluster,
            voters: vec![Arc::new(genesis)],
            policy_entries: Vec::new(),
            epoch_entries: Vec::new(),
            policy,
        })
    }

    /// Verifies and applies the next entry of its chain.
    pub fn extend(&mut self, decided: Decided) -> Result<(), ConfigError> {
        self.check(&decided)?;
        let decided = Arc::new(decided);
        let entry = &decided.signed.entry;
        match entry.chain {
            Chain::Voters => self.voters.push(decided),
            Chain::Policy => {
                let replicas = self.replica_count();
                self.policy.apply(entry, replicas)?;
                self.policy_entries.push(decided);
            }
            Chain::WriteEpochs => self.epoch_entries.push(decided),
        }
        Ok(())
    }

    /// Whether `decided` is the next entry of its chain, and proved.
    pub fn check(&self, decided: &Decided) -> Result<(), ConfigError> {
        self.check_next(&decided.signed)?;
        self.check_votes(decided)
    }

    /// Whether `signed` may be proposed as the next entry of its chain.
    pub fn check_next(&self, signed: &SignedEntry) -> Result<(), ConfigError> {
        let entry = &signed.entry;
        check_format(entry)?;
        if entry.number != self.length(entry.chain) + 1 || entry.previous != self.head(entry.chain) {
            return Err(ConfigError::NotNext(entry.chain));
        }
        match (entry.chain, &entry.change) {
            (Chain::Voters, ConfigChange::Voters(voters)) => {
                check_voters(voters)?;
                check_admin(signed, &self.current().admins, self.cluster)
            }
            (Chain::Policy, _) => {
                self.policy.check(entry, self.replica_count())?;
                check_admin(signed, &self.current().admins, self.cluster)
            }
            (Chain::WriteEpochs, ConfigChange::AdvanceEpoch) => Ok(()),
            _ => Err(ConfigError::WrongChain),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The number of the newest voters entry.
    pub fn config_epoch(&self) -> u64 {
        self.length(Chain::Voters)
    }

    /// The newest policy, which also knows the earlier revisions.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The current write epoch, from 1.
    pub fn write_epoch(&self) -> u64 {
        self.length(Chain::WriteEpochs) + 1
    }

    /// Whether a write of `epoch` may be taken: it is the current one or a neighbour of it.
    pub fn admits_epoch(&self, epoch: u64) -> bool {
        epoch.abs_diff(self.write_epoch()) <= 1
    }

    /// How many entries `chain` has.
    pub fn length(&self, chain: Chain) -> u64 {
        self.entries(chain).len() as u64
    }

    /// What the next entry of `chain` names as its predecessor.
    pub fn head(&self, chain: Chain) -> Hash {
        self.entries(chain).last().map_or(Hash(self.cluster.0), |last| last.signed.entry.hash())
    }

    /// The decided entries of `chain`, the first one first.
    pub fn entries(&self, chain: Chain) -> &[Arc<Decided>] {
        match chain {
            Chain::Voters => &self.voters,
            Chain::Policy => &self.policy_entries,
            Chain::WriteEpochs => &self.epoch_entries,
        }
    }

    /// The newest membership.
    pub fn current(&self) -> &Voters {
        self.membership(self.config_epoch()).unwrap_or_else(|| unreachable!("a cluster was founded"))
    }

    /// The membership of config epoch `epoch`, if it is known.
    pub fn membership(&self, epoch: u64) -> Option<&Voters> {
        let index = usize::try_from(epoch.checked_sub(1)?).ok()?;
        match &self.voters.get(index)?.signed.entry.change {
            ConfigChange::Voters(voters) => Some(voters),
            _ => None,
        }
    }

    /// The current member with this id.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.current().members.iter().find(|member| member.id == id)
    }

    /// The current member with this key.
    pub fn member_by_key(&self, key: &PublicKey) -> Option<&Member> {
        self.current().members.iter().find(|member| member.key == *key)
    }

    /// The member that was `actor` in config epoch `epoch`.
    pub fn member_at(&self, actor: ActorId, epoch: u64) -> Option<&Member> {
        let members = &self.membership(epoch)?.members;
        members.iter().find(|member| member.actor(self.cluster) == actor)
    }

    /// Whether `member` in `incarnation` is listed now: only then it mints, votes and counts.
    pub fn lists(&self, member: MemberId, incarnation: Incarnation) -> bool {
        self.member(member).is_some_and(|member| member.incarnation == incarnation)
    }

    /// How many replicas a key has.
    pub fn replica_count(&self) -> usize {
        let voters = self.current();
        usize::from(voters.replicas).min(voters.members.len())
    }

    /// How many of the current electorate are a majority.
    pub fn majority(&self) -> usize {
        self.current().electorate.len() / 2 + 1
    }

    /// The voters of a resource, by whom its register is agreed on, the preferred coordinator first.
    pub fn voters(&self, object: ObjectId) -> Vec<MemberId> {
        placement::electorate(self.current(), object)
    }

    /// The replicas of an object of `namespace`, the preferred coordinator first.
    pub fn replicas(&self, namespace: NamespaceId, object: ObjectId) -> Vec<MemberId> {
        if namespace == NamespaceId::resources(self.cluster) {
            self.voters(object)
        } else {
            placement::replicas(self.current(), object)
        }
    }

    /// The hash of the newest voters entry.
    pub fn voters_hash(&self) -> Hash {
        self.head(Chain::Voters)
    }

    fn check_votes(&self, decided: &Decided) -> Result<(), ConfigError> {
        let entry = &decided.signed.entry;
        // The electorate of the ballot's epoch decides; a voters entry is decided by the epoch before it.
        let epoch = decided.ballot.config_epoch;
        let membership = self.membership(epoch).ok_or(ConfigError::NoMajority)?;
        if entry.chain == Chain::Voters && epoch + 1 != entry.number {
            return Err(ConfigError::NoMajority);
        }
        let entry_hash = entry.hash();
        let mut counted = BTreeSet::new();
        for (actor, signature) in &decided.votes {
            let member = self.member_at(*actor, epoch).ok_or(ConfigError::NoMajority)?;
            let vote = Vote {
                cluster: self.cluster,
                chain: entry.chain,
                number: entry.number,
                ballot: decided.ballot,
                entry: entry_hash,
                actor: *actor,
            };
            let votes = membership.electorate.contains(&member.id);
            if !votes || !vote.verifies(&member.key, signature) || !counted.insert(*actor) {
                return Err(ConfigError::NoMajority);
            }
        }
        if counted.len() > membership.electorate.len() / 2 { Ok(()) } else { Err(ConfigError::NoMajority) }
    }
}

fn check_format(entry: &Entry) -> Result<(), ConfigError> {
    if entry.format == ENTRY_FORMAT { Ok(()) } else { Err(ConfigError::Format(entry.format)) }
}

fn check_admin(signed: &SignedEntry, admins: &[PublicKey], cluster: ClusterId) -> Result<(), ConfigError> {
    let signs = |(key, proof): &(PublicKey, super::signature::Proof)| {
        admins.contains(key) && proof.verifies(key, cluster, signed.entry.hash())
    };
    if signed.admin.as_ref().is_some_and(signs) { Ok(()) } else { Err(ConfigError::NotAdmin) }
}

fn check_voters(voters: &Voters) -> Result<(), ConfigError> {
    let refuse = |why| Err(ConfigError::Voters(why));
    let members = &voters.members;
    if members.is_empty() || members.len() > limits::MEMBERS {
        return refuse("a cluster has 1 to 64 members");
    }
    if members.len() == 2 {
        return refuse("two members are no safer than one: either one down stops both; use 1 or 3");
    }
    if !members.windows(2).all(|pair| matches!(pair, [a, b] if a.id < b.id)) {
        return refuse("members are sorted by id, each listed once");
    }
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let keys: BTreeSet<&PublicKey> = members.iter().map(|member| &member.key).collect();
    if names.len() != members.len() || keys.len() != members.len() {
        return refuse("every member has its own name and its own key");
    }
    let named = |text: &str| !text.is_empty() && text.len() <= limits::NAMESPACE_LEN;
    if !members.iter().all(|member| named(&member.name) && member.zone.len() <= limits::NAMESPACE_LEN) {
        return refuse("names have 1 to 63 bytes, zones at most 63");
    }
    let electorate = &voters.electorate;
    if !matches!(electorate.len(), 1 | 3 | 5 | 7) {
        return refuse("the electorate is 1, 3, 5 or 7 members");
    }
    let sorted = electorate.windows(2).all(|pair| matches!(pair, [a, b] if a < b));
    if !sorted || !electorate.iter().all(|id| members.iter().any(|member| member.id == *id)) {
        return refuse("the electorate is a sorted list of members");
    }
    if voters.replicas == 0 || voters.replicas > 7 {
        return refuse("a key has 1 to 7 replicas");
    }
    if voters.admins.is_empty() || voters.admins.len() > limits::MEMBERS {
        return refuse("a cluster has 1 to 64 administrators");
    }
    if voters.grants.len() > limits::POLICY_ITEMS || voters.grants.iter().any(|g| g.namespace.is_some()) {
        return refuse("grants of a voters entry are for every namespace");
    }
    Ok(())
}
