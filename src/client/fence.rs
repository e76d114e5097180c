//! What fences writes and reads: a tenure's proof and its secret key.

use std::fmt;
use std::sync::Arc;

use crate::core::identity::{PublicKey, SecretKey, Signature};
use crate::core::object::{Key, NamespaceId};
use crate::core::tenure::{Seal, TenureProof, sign_fence};
use crate::core::write::{Fence, Term, WriteId};

/// The right to act as owner at one term: the tenure's proof, and the key that signs for it. Cheap to
/// clone. Whoever has it can write as the owner until a higher term is chosen: keep it secret.
#[derive(Clone)]
pub struct FenceKey {
    proof: Arc<TenureProof>,
    key: SecretKey,
}

impl FenceKey {
    /// Puts a proof and its tenure's key together; `None` if the key is another one.
    pub fn new(proof: Arc<TenureProof>, key: SecretKey) -> Option<Self> {
        (proof.tenure.key == Some(key.public())).then_some(FenceKey { proof, key })
    }

    /// What is owned.
    pub fn resource(&self) -> &Key {
        &self.proof.signed.write().key
    }

    /// The fencing token.
    pub fn term(&self) -> Term {
        self.proof.tenure.term
    }

    /// The proof of the tenure.
    pub fn proof(&self) -> &Arc<TenureProof> {
        &self.proof
    }

    /// The public half of the tenure's key.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.key
    }

    /// What a fenced write names.
    pub(super) fn fence(&self) -> Fence {
        Fence { resource: self.resource().clone(), term: self.term(), tenure: self.proof.signed.id() }
    }

    /// The tenure key's signature under a fenced write.
    pub(super) fn sign(&self, write: WriteId) -> Signature {
        sign_fence(&self.key, self.proof.signed.write().cluster, write)
    }

    /// A signed seal of a key.
    pub(super) fn seal(&self, namespace: NamespaceId, key: Key) -> (Seal, Signature) {
        let seal = Seal { cluster: self.proof.signed.write().cluster, namespace, key, fence: self.fence() };
        let signature = seal.sign(&self.key);
        (seal, signature)
    }
}

impl fmt::Debug for FenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceKey").field("resource", self.resource()).field("term", &self.term()).finish()
    }
}
