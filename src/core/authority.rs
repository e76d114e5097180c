//! What a store outside of the cluster embeds to be fenced by certificates: no network, no storage, no
//! clock.
//!
//! For each request that somebody makes as the owner of a resource, such a store
//!
//! 1. verifies the certificate for the resource that guards its data:
//!    [`Authority::verify_for`];
//! 2. verifies that the request is signed by the tenure's key: [`Proven::signed`]. A certificate is
//!    public, so showing one proves nothing about who shows it;
//! 3. in **one transaction** with the change of its data, compares the term with the highest that it
//!    admitted for the resource and keeps the higher one: [`admit`], or a [`Gate`].
//!
//! An owner that was deposed without knowing is refused from the moment a later owner was admitted
//! here, whatever clocks and networks do. Before that moment nothing tells the store of the later
//! owner: whoever takes over is admitted once, with a request that changes nothing if need be, before
//! it relies on what it reads here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::armor::{self, NotArmored};
use super::certificate::{Certificate, NotProven, Proven, prove};
use super::chain::{Chain, Decided};
use super::cluster::{ConfigError, Configuration};
use super::codec::{self, DecodeError};
use super::identity::{ClusterId, PublicKey, SecretKey, Signature};
use super::object::Key;
use super::signature::FENCED_MESSAGE;
use super::tenure::TenureProof;
use super::write::{Term, WriteId};

/// The first line of a cluster's file, which holds the entry that founded it.
pub const CLUSTER_TITLE: &str = "tanist-cluster-1";

/// Why a certificate was refused. It proves nothing then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It carries no membership, or that of another cluster.
    #[error("a certificate of another cluster")]
    Cluster,
    /// Where both are known, it tells the memberships differently than what is pinned here.
    #[error("it names another membership of config epoch {0} than the one that is pinned here")]
    Fork(u64),
    /// A membership that it carries is not the next one, or not proved.
    #[error("the membership of config epoch {epoch} that it carries is not proved: {why}")]
    Membership {
        /// The place in the voters chain.
        epoch: u64,
        /// What is wrong with it.
        why: ConfigError,
    },
    /// The votes are of a config epoch that counts no more.
    #[error("its votes are of config epoch {epoch}; those before {floor} count no more here")]
    Floor {
        /// The epoch of the votes.
        epoch: u64,
        /// The lowest one that counts.
        floor: u64,
    },
    /// The votes do not prove the tenure.
    #[error(transparent)]
    NotProven(#[from] NotProven),
    /// It is of another resource than the one that was asked for.
    #[error("it is for the resource {0}, which does not guard this")]
    Resource(Key),
}

/// What is pinned cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPinned {
    /// Not the text of a cluster's file.
    #[error("not a cluster file: {0}")]
    Text(#[from] NotArmored),
    /// The text of something else, or damaged.
    #[error("not a cluster file: {0}")]
    Bytes(#[from] DecodeError),
    /// No founding entry, or an entry that is not the next one or not proved.
    #[error("not the memberships of a cluster: {0}")]
    Config(#[from] ConfigError),
    /// Nothing is pinned.
    #[error("nothing to trust: pin the founding entry at least")]
    Nothing,
}

/// Judges certificates by memberships that are pinned.
///
/// Pinned is the founding entry at least. A certificate carries the later memberships; each was voted
/// for by the one before, so they are believed as long as a majority of every earlier electorate kept
/// its keys. To stop relying on keys of long ago, pin a later membership, or raise the floor.
#[derive(Debug, Clone)]
pub struct Authority {
    pinned: Configuration,
    floor: u64,
}

impl Authority {
    /// Trusts the text of a cluster's file: the one that `tanist cluster new` writes.
    pub fn from_cluster_file(text: &str) -> Result<Self, NotPinned> {
        let genesis: Decided = codec::decode(&armor::read(CLUSTER_TITLE, text)?)?;
        Self::pin([genesis])
    }

    /// Trusts these memberships, the founding entry first, and refuses votes of the epochs before the
    /// last of them.
    pub fn pin(voters: impl IntoIterator<Item = Decided>) -> Result<Self, NotPinned> {
        let mut voters = voters.into_iter();
        let mut pinned = Configuration::found(voters.next().ok_or(NotPinned::Nothing)?)?;
        for decided in voters {
            extend(&mut pinned, &decided)?;
        }
        let floor = pinned.config_epoch();
        Ok(Authority { pinned, floor })
    }

    /// The same with another floor: votes of config epochs before it are refused. An epoch that is not
    /// known yet may be named.
    #[must_use]
    pub fn with_floor(self, epoch: u64) -> Self {
        Authority { floor: epoch, ..self }
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.pinned.cluster()
    }

    /// The lowest config epoch whose votes count.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// What is pinned, to be kept and [pinned](Self::pin) again.
    pub fn voters(&self) -> Vec<Decided> {
        self.pinned.entries(Chain::Voters).iter().map(|entry| Decided::clone(entry)).collect()
    }

    /// What `certificate` proves.
    pub fn verify(&self, certificate: &Certificate) -> Result<Proven, Refusal> {
        let config = self.known_with(certificate)?;
        let epoch = certificate.proof.ballot.config_epoch;
        if epoch < self.floor {
            return Err(Refusal::Floor { epoch, floor: self.floor });
        }
        Ok(prove(&certificate.proof, &config)?)
    }

    /// What `certificate` proves of `resource`. Terms of other resources say nothing about it: anyone
    /// with a right to elect may own something.
    pub fn verify_for(&self, certificate: &Certificate, resource: &Key) -> Result<Proven, Refusal> {
        let proven = self.verify(certificate)?;
        if proven.resource == *resource { Ok(proven) } else { Err(Refusal::Resource(proven.resource)) }
    }

    /// Pins the memberships that a certificate proves besides its tenure, and raises the floor to the
    /// epoch of its votes. Keep [`voters`](Self::voters) and [`floor`](Self::floor) afterwards.
    pub fn adopt(&mut self, certificate: &Certificate) -> Result<Proven, Refusal> {
        let proven = self.verify(certificate)?;
        self.pinned = self.known_with(certificate)?;
        self.floor = self.floor.max(proven.config_epoch);
        Ok(proven)
    }

    /// What is pinned, and what the certificate carries beyond it.
    fn known_with(&self, certificate: &Certificate) -> Result<Configuration, Refusal> {
        let mut config = self.pinned.clone();
        for (carried, epoch) in certificate.voters.iter().zip(1u64..) {
            let known = config.entries(Chain::Voters).get(usize::try_from(epoch - 1).unwrap_or(usize::MAX));
            match known.map(|known| known.signed.entry == carried.signed.entry) {
                Some(true) => {}
                Some(false) if epoch == 1 => return Err(Refusal::Cluster),
                Some(false) => return Err(Refusal::Fork(epoch)),
                None => {
                    extend(&mut config, carried).map_err(|why| Refusal::Membership { epoch, why })?;
                }
            }
        }
        if certificate.voters.is_empty() { Err(Refusal::Cluster) } else { Ok(config) }
    }
}

/// Extends by an entry of the voters chain and of no other.
fn extend(config: &mut Configuration, decided: &Decided) -> Result<(), ConfigError> {
    if decided.signed.entry.chain != Chain::Voters {
        return Err(ConfigError::WrongChain);
    }
    config.extend(decided.clone())
}

/// The highest term admitted for each resource.
///
/// Lost with the process: a store whose data outlives it keeps each term beside the data, and asks
/// [`admit`] in the same transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate(BTreeMap<Key, Term>);

/// A later owner was admitted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("term {term} is over: term {highest} was admitted before")]
pub struct Fenced {
    /// The term that was shown.
    pub term: Term,
    /// The highest that was admitted.
    pub highest: Term,
}

impl Gate {
    /// Admits what is proven, or refuses it because a higher term of its resource was admitted.
    ///
    /// A resignation is admitted like a tenure: nobody acts under it, and earlier owners are over.
    pub fn admit(&mut self, proven: &Proven) -> Result<(), Fenced> {
        let term = admit(self.highest(&proven.resource), proven.term)?;
        self.0.insert(proven.resource.clone(), term);
        Ok(())
    }

    /// The highest term that was admitted for `resource`.
    pub fn highest(&self, resource: &Key) -> Option<Term> {
        self.0.get(resource).copied()
    }
}

/// The highest term after `term` was shown, to be kept in the transaction that also changes what is
/// guarded; or that it is over. Terms compare by recovery, then number.
pub fn admit(highest: Option<Term>, term: Term) -> Result<Term, Fenced> {
    match highest {
        Some(highest) if highest > term => Err(Fenced { term, highest }),
        _ => Ok(term),
    }
}

/// What a tenure's key signs to act as the owner outside of the cluster.
///
/// The message is the application's. It names the store it is for, or another store could be shown it;
/// and something that is spent with it, such as the version it replaces, or it could be shown twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencedMessage {
    /// The cluster.
    pub cluster: ClusterId,
    /// The tenure, and with it the resource and the term.
    pub tenure: WriteId,
    /// What is to be done.
    pub message: Vec<u8>,
}

impl FencedMessage {
    /// A message of the owner whose tenure `proof` proves.
    pub fn new(proof: &TenureProof, message: &[u8]) -> Self {
        let cluster = proof.signed.write().cluster;
        FencedMessage { cluster, tenure: proof.signed.id(), message: message.to_vec() }
    }

    /// Signs with the tenure's key.
    pub fn sign(&self, key: &SecretKey) -> Signature {
        key.sign(&self.signed())
    }

    /// Whether `key`, the tenure's, signed this.
    pub fn verifies(&self, key: &PublicKey, signature: &Signature) -> bool {
        key.verifies(&self.signed(), signature)
    }

    fn signed(&self) -> Vec<u8> {
        [FENCED_MESSAGE, &codec::encode(self)].concat()
    }
}

impl Proven {
    /// Whether the owner signed `message`. Nobody signs for a resignation.
    pub fn signed(&self, message: &[u8], signature: &Signature) -> bool {
        let (cluster, tenure) = (self.cluster, self.tenure);
        let message = FencedMessage { cluster, tenure, message: message.to_vec() };
        self.key.is_some_and(|key| message.verifies(&key, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(recovery: u32, number: u64) -> Term {
        Term { recovery, number }
    }

    #[test]
    fn attack_17_a_lower_term_is_never_admitted_again_and_recoveries_come_first() {
        assert_eq!(admit(None, term(0, 1)), Ok(term(0, 1)));
        assert_eq!(admit(Some(term(0, 5)), term(0, 5)), Ok(term(0, 5)));
        assert_eq!(admit(Some(term(0, 5)), term(0, 6)), Ok(term(0, 6)));
        assert_eq!(admit(Some(term(0, 900)), term(1, 1)), Ok(term(1, 1)));
        let over = admit(Some(term(1, 1)), term(0, 900)).unwrap_err();
        assert_eq!(over.to_string(), "term 900 is over: term 1.1 was admitted before");
    }
}
