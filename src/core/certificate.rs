//! Certificates: a tenure that anyone can check, online or off, without trusting who carries it.
//!
//! A certificate proves that somebody *was* owner at a term. It does not prove that nobody owns a
//! higher one by now: a store that is fenced by certificates keeps the highest term it saw for each
//! resource, and changes it in the same transaction as the data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::chain::{Chain, Decided};
use super::cluster::Configuration;
use super::hash::Hash;
use super::identity::PublicKey;
use super::object::Key;
use super::tenure::{NotATenure, TenureProof, TenureVote, check_tenure};
use super::write::{Term, WriteId};

/// The number in front of every encoded [`Certificate`].
pub const CERTIFICATE_FORMAT: u8 = 1;

/// A tenure with its votes, and the memberships of the cluster from its founding on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`CERTIFICATE_FORMAT`].
    pub format: u8,
    /// The voters chain, the founding entry first.
    pub voters: Vec<Decided>,
    /// The tenure and the votes for it.
    pub proof: TenureProof,
}

/// What a certificate proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// What was owned.
    pub resource: Key,
    /// The fencing token.
    pub term: Term,
    /// The tenure, as a version of its resource.
    pub tenure: WriteId,
    /// What signs for the owner; absent, if it resigned.
    pub key: Option<PublicKey>,
    /// Whose tenure it is.
    pub owner: PublicKey,
    /// Its lease in milliseconds.
    pub lease_ms: u32,
    /// The config epoch of the votes.
    pub config_epoch: u64,
}

/// Why votes do not prove a tenure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// It was made for another cluster.
    #[error("made for another cluster")]
    Cluster,
    /// The write does not make this tenure.
    #[error(transparent)]
    Tenure(#[from] NotATenure),
    /// The author's signature does not fit the write.
    #[error("the owner's signature does not fit the tenure")]
    OwnerSignature,
    /// The ballot is of a membership that is not known.
    #[error("the votes are of config epoch {0}, which is not known here")]
    Epoch(u64),
    /// A voter is no voter of that epoch.
    #[error("a vote comes from somebody who has no vote")]
    NotAVoter,
    /// Votes out of order, or one twice.
    #[error("votes are sorted by actor, each counted once")]
    Repeated,
    /// A vote's signature does not fit.
    #[error("a vote's signature does not fit: forged, or for another tenure or ballot")]
    VoteSignature,
    /// Too few votes.
    #[error("{votes} votes of an electorate of {of}: no majority")]
    TooFew {
        /// Valid votes.
        votes: usize,
        /// Members of the electorate.
        of: usize,
    },
}

/// Checks a tenure and its votes by a configuration that is trusted.
pub fn prove(proof: &TenureProof, config: &Configuration) -> Result<Proven, NotProven> {
    let write = proof.signed.write();
    if write.cluster != config.cluster() {
        return Err(NotProven::Cluster);
    }
    check_tenure(&proof.signed, &proof.tenure)?;
    if !proof.signed.proof().verifies(&write.author, write.cluster, Hash(proof.signed.id().0)) {
        return Err(NotProven::OwnerSignature);
    }
    let epoch = proof.ballot.config_epoch;
    let membership = config.membership(epoch).ok_or(NotProven::Epoch(epoch))?;
    let entry = config.entries(Chain::Voters).get(usize::try_from(epoch - 1).unwrap_or(usize::MAX));
    let hash = entry.ok_or(NotProven::Epoch(epoch))?.signed.entry.hash();
    let mut voted = BTreeSet::new();
    let mut before = None;
    for (actor, signature) in &proof.votes {
        if before.is_some_and(|before| before >= *actor) {
            return Err(NotProven::Repeated);
        }
        before = Some(*actor);
        let member = config.member_at(*actor, epoch).ok_or(NotProven::NotAVoter)?;
        if !membership.electorate.contains(&member.id) {
            return Err(NotProven::NotAVoter);
        }
        let vote = TenureVote {
            cluster: write.cluster,
            config: hash,
            ballot: proof.ballot,
            tenure: proof.signed.id(),
            actor: *actor,
        };
        if !vote.verifies(&member.key, signature) {
            return Err(NotProven::VoteSignature);
        }
        voted.insert(member.id);
    }
    let of = membership.electorate.len();
    if voted.len() <= of / 2 {
        return Err(NotProven::TooFew { votes: voted.len(), of });
    }
    Ok(Proven {
        resource: write.key.clone(),
        term: proof.tenure.term,
        tenure: proof.signed.id(),
        key: proof.tenure.key,
        owner: write.author,
        lease_ms: proof.tenure.lease_ms,
        config_epoch: epoch,
    })
}
