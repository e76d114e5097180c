//! Tenures of the example cluster, and the votes that prove them.

use std::sync::Arc;

use tanist::core::chain::{Ballot, Chain};
use tanist::core::hash::Hash;
use tanist::core::identity::SecretKey;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::tenure::{SignedVote, TENURE_FORMAT, Tenure, TenureProof, TenureVote, sign_fence};
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, Fence, Term, Write};

use crate::world::{World, author_proof, client, key_of, node};

/// A tenure with its secret key; without one, a resignation.
#[derive(Clone)]
pub(crate) struct Owned {
    pub(crate) write: Write,
    pub(crate) tenure: Tenure,
    pub(crate) secret: Option<SecretKey>,
    pub(crate) signed: Arc<SignedWrite>,
}

impl Owned {
    /// What a write fenced by this names.
    pub(crate) fn fence(&self) -> Fence {
        Fence { resource: self.write.key.clone(), term: self.tenure.term, tenure: self.write.id() }
    }

    /// The same after `change`, signed anew. The write announces the changed tenure.
    pub(crate) fn changed(&self, change: &dyn Fn(&mut Write, &mut Tenure)) -> Owned {
        let mut other = self.clone();
        change(&mut other.write, &mut other.tenure);
        other.write.body = Body::put(&other.tenure.encode());
        other.signed_anew()
    }

    pub(crate) fn signed_anew(mut self) -> Owned {
        let fence = self.signed.fence().copied();
        self.signed =
            Arc::new(SignedWrite::new(self.write.clone(), author_proof(&self.write, &client()), fence));
        self
    }
}

pub(crate) fn tenure_key(n: u8) -> SecretKey {
    key_of(0x40 + n)
}

impl World {
    /// The tenure of `resource` after the tenure `before`, with the `n`th key.
    pub(crate) fn tenure(&self, resource: &str, n: u8, before: Option<&Owned>) -> Owned {
        self.tenure_of(resource, n, before, Some(tenure_key(n)))
    }

    /// The resignation that ends `before`.
    pub(crate) fn resignation(&self, n: u8, before: &Owned) -> Owned {
        let resource = String::from_utf8(before.write.key.as_bytes().to_vec()).unwrap();
        let mut owned = self.tenure_of(&resource, n, Some(before), None);
        owned.write.fence = Some(before.fence());
        let secret = before.secret.as_ref().unwrap();
        let fence = sign_fence(secret, self.cluster(), owned.write.id());
        let proof = author_proof(&owned.write, &client());
        owned.signed = Arc::new(SignedWrite::new(owned.write.clone(), proof, Some(fence)));
        owned
    }

    fn tenure_of(&self, resource: &str, n: u8, before: Option<&Owned>, secret: Option<SecretKey>) -> Owned {
        let parents: Vec<&Write> = before.iter().map(|owned| &owned.write).collect();
        let mut write = self.write(resource, n, &parents, Body::Delete);
        write.namespace = NamespaceId::resources(self.cluster());
        let tenure = Tenure {
            format: TENURE_FORMAT,
            term: Term { recovery: 0, number: write.generation },
            key: secret.as_ref().map(SecretKey::public),
            lease_ms: 15_000,
        };
        write.body = Body::put(&tenure.encode());
        let signed = Arc::new(SignedWrite::new(write.clone(), author_proof(&write, &client()), None));
        Owned { write, tenure, secret, signed }
    }

    pub(crate) fn ballot(&self, config_epoch: u64, counter: u64) -> Ballot {
        Ballot { config_epoch, counter, actor: self.actor(1) }
    }

    /// The hash of the voters entry of an epoch.
    pub(crate) fn voters_entry(&self, epoch: u64) -> Hash {
        self.config.entries(Chain::Voters)[epoch as usize - 1].signed.entry.hash()
    }

    pub(crate) fn tenure_vote(&self, owned: &Owned, ballot: Ballot, n: usize) -> TenureVote {
        TenureVote {
            cluster: self.cluster(),
            config: self.voters_entry(ballot.config_epoch.clamp(1, 2)),
            ballot,
            tenure: owned.write.id(),
            actor: self.actor(n),
        }
    }

    /// The votes of the members `voters`, each after `change`, sorted.
    pub(crate) fn votes(
        &self,
        owned: &Owned,
        ballot: Ballot,
        voters: &[usize],
        change: &dyn Fn(usize, &mut TenureVote),
    ) -> Vec<SignedVote> {
        let mut votes: Vec<SignedVote> = voters
            .iter()
            .map(|n| {
                let mut vote = self.tenure_vote(owned, ballot, *n);
                let actor = vote.actor;
                change(*n, &mut vote);
                (actor, vote.sign(&node(*n)))
            })
            .collect();
        votes.sort_by_key(|(actor, _)| *actor);
        votes
    }

    pub(crate) fn proof(&self, owned: &Owned, epoch: u64, voters: &[usize]) -> TenureProof {
        let ballot = self.ballot(epoch, 70_000);
        let votes = self.votes(owned, ballot, voters, &|_, _| ());
        let (signed, tenure) = (SignedWrite::clone(&owned.signed), owned.tenure.clone());
        TenureProof { signed, tenure, ballot, votes }
    }
}

pub(crate) fn resource(name: &str) -> Key {
    Key::try_from(name).unwrap()
}
