//! Prepared writes: signed once, saved if need be, submitted as often as it takes.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ambient;
use super::error::WriteError;
use super::fence::FenceKey;
use super::space::Space;
use super::version::{Version, Versions};
use crate::core::codec::{self, DecodeError};
use crate::core::limits;
use crate::core::object::{Key, NamespaceId};
use crate::core::signature::sign_one;
use crate::core::tenure::TenureProof;
use crate::core::version::{SignedWrite, Stamps};
use crate::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use crate::wire::client::OnConflict;

/// A signed write with its value, the versions it replaces and what to do on a conflict.
///
/// Saved before it is sent it is the *receipt* of the write: whoever has the bytes can submit the
/// same write again, ask for its outcome, or settle it. It carries the value and needs no secret; anyone
/// who gets hold of it can submit it until its parents are superseded or its epoch has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(super) signed: Arc<SignedWrite>,
    pub(super) replaces: Versions,
    pub(super) value: Bytes,
    pub(super) on_conflict: OnConflict,
    /// Whether it was given an operation id: an earlier run may have sent it already.
    pub(super) operation: bool,
    /// The same operation signed for the epoch before: what an earlier run may have sent.
    pub(super) earlier: Option<Arc<SignedWrite>>,
    /// An earlier attempt may have been taken.
    pub(super) doubted: bool,
    /// The proof of the tenure that it is fenced by.
    pub(super) tenure: Option<Arc<TenureProof>>,
}

/// What a write leaves in the hand of its author; the prepared write itself.
pub type Receipt = Prepared;

/// Bytes are not a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// Something else, or damaged.
    #[error("not a receipt: {0}")]
    Malformed(#[from] DecodeError),
    /// From a newer version of this software.
    #[error("a receipt of format {0}, which this version does not know")]
    Format(u8),
    /// The value is not the write's.
    #[error("the receipt is damaged: its value is not the one that the write announces")]
    Value,
}

const RECEIPT_FORMAT: u8 = 1;
/// A receipt of a fenced write: followed by the proof of its tenure.
const FENCED_FORMAT: u8 = 2;

/// The context under which an operation id becomes a nonce. It never changes: a re-run of the same
/// operation must be the same write.
const OPERATION: &str = "tanist v1 nonce of an operation";

#[derive(Serialize, Deserialize)]
struct Form {
    signed: Arc<SignedWrite>,
    replaces: Versions,
    on_conflict: OnConflict,
    operation: bool,
    earlier: Option<Arc<SignedWrite>>,
    doubted: bool,
    value: Vec<u8>,
}

impl Prepared {
    /// The id of the write, and of the version it makes.
    pub fn id(&self) -> WriteId {
        self.signed.id()
    }

    /// The version that the write makes; without stamps, as nobody has seen it.
    pub fn version(&self) -> Version {
        Version::new(self.id(), self.signed.write().generation, Stamps::default())
    }

    /// The versions that it replaces.
    pub fn replaces(&self) -> &Versions {
        &self.replaces
    }

    /// The namespace.
    pub fn namespace(&self) -> NamespaceId {
        self.signed.write().namespace
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.signed.write().key
    }

    /// The value; `None` for a deletion.
    pub fn value(&self) -> Option<&Bytes> {
        (!self.signed.write().is_delete()).then_some(&self.value)
    }

    /// The write, as it was signed.
    pub fn signed(&self) -> &Arc<SignedWrite> {
        &self.signed
    }

    /// What is done when its parents are not the live versions.
    pub fn on_conflict(&self) -> OnConflict {
        self.on_conflict
    }

    /// The same write, with another wish for a conflict: that is not part of what is signed.
    pub fn with_on_conflict(self, on_conflict: OnConflict) -> Self {
        Prepared { on_conflict, ..self }
    }

    /// The same write, after an attempt that may have been taken: a later refusal no longer means that
    /// nothing happened (P5). A receipt in an [error](super::Unknown) is doubted already; one that is
    /// found in a file, of a process that may have died after sending it, should be.
    pub fn doubted(self) -> Self {
        Prepared { doubted: true, ..self }
    }

    /// Every form in which the operation may have been sent.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Arc<SignedWrite>> {
        std::iter::once(&self.signed).chain(&self.earlier)
    }

    /// Everything, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let form = Form {
            signed: self.signed.clone(),
            replaces: self.replaces.clone(),
            on_conflict: self.on_conflict,
            operation: self.operation,
            earlier: self.earlier.clone(),
            doubted: self.doubted,
            value: self.value.to_vec(),
        };
        match &self.tenure {
            None => [&[RECEIPT_FORMAT], &codec::encode(&form)[..]].concat(),
            Some(tenure) => [&[FENCED_FORMAT], &codec::encode(&(form, tenure))[..]].concat(),
        }
    }

    /// What [`to_bytes`](Self::to_bytes) wrote. The value's hash is checked; signatures are checked by
    /// the node that takes it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReceiptError> {
        let (form, tenure): (Form, Option<Arc<TenureProof>>) = match bytes.split_first() {
            Some((&RECEIPT_FORMAT, rest)) => (codec::decode(rest)?, None),
            Some((&FENCED_FORMAT, rest)) => {
                let (form, tenure) = codec::decode(rest)?;
                (form, Some(tenure))
            }
            Some((&other, _)) => return Err(ReceiptError::Format(other)),
            None => return Err(ReceiptError::Format(0)),
        };
        if !form.signed.write().body.matches(&form.value) {
            return Err(ReceiptError::Value);
        }
        Ok(Prepared {
            signed: form.signed,
            replaces: form.replaces,
            value: form.value.into(),
            on_conflict: form.on_conflict,
            operation: form.operation,
            earlier: form.earlier,
            doubted: form.doubted,
            tenure,
        })
    }
}

/// What a write is to be, before it is signed.
pub(super) struct Draft<'a> {
    pub(super) key: &'a Key,
    pub(super) replaces: Versions,
    /// `None` deletes.
    pub(super) value: Option<Bytes>,
    pub(super) on_conflict: OnConflict,
    pub(super) operation: Option<&'a str>,
    /// What it is fenced by.
    pub(super) fence: Option<&'a FenceKey>,
}

impl Space {
    /// Signs a write.
    ///
    /// The write epoch is part of what is signed, so a re-run of an operation after the epoch advanced
    /// has another id than the first run. The same operation is therefore signed for the epoch before,
    /// too, and [submitting](super::Client::submit) it first asks whether either is known already.
    pub(super) fn sign(&self, draft: Draft<'_>) -> Result<Prepared, WriteError> {
        let body = draft.value.as_deref().map_or(Body::Delete, Body::put);
        let value = draft.value.unwrap_or_default();
        if value.len() > limits::VALUE_LEN {
            return Err(WriteError::TooLarge { len: value.len() });
        }
        let config = self.client.configuration();
        let identity = self.client.identity();
        let write = Write {
            format: WRITE_FORMAT,
            cluster: config.cluster(),
            namespace: self.namespace.id,
            key: draft.key.clone(),
            epoch: config.write_epoch(),
            generation: draft.replaces.next_generation(),
            parents: draft.replaces.ids(),
            body,
            author: identity.public(),
            nonce: match draft.operation {
                Some(operation) => operation_nonce(operation, self.namespace.id, draft.key),
                None => ambient::random(),
            },
            fence: draft.fence.map(FenceKey::fence),
            wall_ms: if draft.operation.is_some() { 0 } else { ambient::wall_ms() },
        };
        let sign = |write: Write| {
            let id = write.id();
            let proof = sign_one(identity.secret(), write.cluster, id.into());
            let fence = draft.fence.map(|fence| fence.sign(id));
            Arc::new(SignedWrite::new(write, proof, fence))
        };
        let earlier = (draft.operation.is_some() && write.epoch > 1)
            .then(|| sign(Write { epoch: write.epoch - 1, ..write.clone() }));
        Ok(Prepared {
            signed: sign(write),
            replaces: draft.replaces,
            value,
            on_conflict: draft.on_conflict,
            operation: draft.operation.is_some(),
            earlier,
            doubted: false,
            tenure: draft.fence.map(|fence| fence.proof().clone()),
        })
    }
}

/// The nonce of an operation on a key.
pub(super) fn operation_nonce(operation: &str, namespace: NamespaceId, key: &Key) -> [u8; 16] {
    let hash = blake3::derive_key(OPERATION, &codec::encode(&(operation, namespace, key)));
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&hash[..16]);
    nonce
}
