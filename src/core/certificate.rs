//! Certificates: a tenure that anyone can check, online or off, without trusting who carries it.
//!
//! A certificate proves that somebody *was* owner at a term. It does not prove that nobody owns a
//! higher one by now: a store that is fenced by certificates keeps the highest term it saw for each
//! resource, and changes it in the same transaction as the data. [`authority`](super::authority) is
//! what such a store embeds.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::armor::{self, NotArmored};
use super::chain::{Chain, Decided};
use super::cluster::Configuration;
use super::codec::{self, DecodeError};
use super::hash::Hash;
use super::identity::{ClusterId, PublicKey};
use super::object::Key;
use super::tenure::{NotATenure, TenureProof, TenureVote, check_tenure};
use super::write::{Term, WriteId};

/// The number in front of every encoded [`Certificate`].
pub const CERTIFICATE_FORMAT: u8 = 1;

/// The first line of a certificate's file.
pub const CERTIFICATE_TITLE: &str = "tanist-certificate-1";

/// A tenure with its votes, and the memberships of the cluster from its founding on.
///
/// It holds no secret: whoever acts as the owner shows besides that it holds the tenure's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Certificate {
    /// [`CERTIFICATE_FORMAT`].
    pub format: u8,
    /// The voters chain, the founding entry first.
    pub voters: Vec<Decided>,
    /// The tenure and the votes for it.
    pub proof: TenureProof,
}

/// A decoded certificate is of another format than this version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("certificate format {0} is not supported: this side knows format {CERTIFICATE_FORMAT}")]
pub struct InvalidCertificate(pub u8);

/// A text is not a certificate's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotACertificate {
    /// Not the text of a certificate.
    #[error("not a certificate: {0}")]
    Text(#[from] NotArmored),
    /// The text of something else, or damaged.
    #[error("not a certificate: {0}")]
    Bytes(#[from] DecodeError),
}

impl Certificate {
    /// The certificate of a proven tenure, with all that `config` knows of who may vote.
    pub fn new(config: &Configuration, proof: TenureProof) -> Self {
        let voters = config.entries(Chain::Voters).iter().map(|entry| Decided::clone(entry)).collect();
        Certificate { format: CERTIFICATE_FORMAT, voters, proof }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// The certificate whose encoding is `bytes`. Nothing is verified by this.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }

    /// The text of its file: [`CERTIFICATE_TITLE`], then its bytes in base64.
    pub fn to_text(&self) -> String {
        armor::write(CERTIFICATE_TITLE, &self.encode())
    }

    /// The certificate in a file's text. Nothing is verified by this.
    pub fn from_text(text: &str) -> Result<Self, NotACertificate> {
        Ok(Self::decode(&armor::read(CERTIFICATE_TITLE, text)?)?)
    }
}

impl Serialize for Certificate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived form, which `remote` makes an associated function.
        Certificate::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Certificate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let certificate = Certificate::deserialize(deserializer)?;
        if certificate.format != CERTIFICATE_FORMAT {
            return Err(serde::de::Error::custom(InvalidCertificate(certificate.format)));
        }
        Ok(certificate)
    }
}

/// What a certificate proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// Whose resource it is.
    pub cluster: ClusterId,
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
    /// The term is of another recovery of the cluster than the votes: what was chosen before a
    /// restore proves nothing after it.
    #[error("the term is of recovery {term}, the votes of recovery {votes}")]
    Recovery {
        /// The term's.
        term: u32,
        /// The membership's by which the votes are judged.
        votes: u32,
    },
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
    let (term, votes) = (proof.tenure.term.recovery, membership.recovery);
    if term != votes {
        return Err(NotProven::Recovery { term, votes });
    }
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
        cluster: write.cluster,
        resource: write.key.clone(),
        term: proof.tenure.term,
        tenure: proof.signed.id(),
        key: proof.tenure.key,
        owner: write.author,
        lease_ms: proof.tenure.lease_ms,
        config_epoch: epoch,
    })
}
