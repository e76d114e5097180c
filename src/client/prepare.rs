//! Prepared writes: signed once, saved if need be, submitted as often as it takes.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::version::Version;
use crate::core::codec::{self, DecodeError};
use crate::core::object::{Key, NamespaceId};
use crate::core::stamp::SignedStamp;
use crate::core::version::{SignedWrite, Stamps};
use crate::core::write::WriteId;
use crate::wire::client::OnConflict;

/// A signed write with its value, its parents' stamps and what to do on a conflict.
///
/// Saved before it is sent it is the *receipt* of the write: whoever has the bytes can submit the
/// same write again, ask for its outcome, or settle it. It carries the value and needs no secret; anyone
/// who gets hold of it can submit it until its parents are superseded or its epoch has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub(super) signed: Arc<SignedWrite>,
    pub(super) presented: Vec<Arc<SignedStamp>>,
    pub(super) value: Bytes,
    pub(super) on_conflict: OnConflict,
    /// The same operation signed for the epoch before: what an earlier run may have sent.
    pub(super) earlier: Option<Arc<SignedWrite>>,
    /// Whether an earlier run of the same operation is looked for before it is sent.
    pub(super) operation: bool,
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

#[derive(Serialize, Deserialize)]
struct Form {
    signed: Arc<SignedWrite>,
    presented: Vec<Arc<SignedStamp>>,
    on_conflict: OnConflict,
    earlier: Option<Arc<SignedWrite>>,
    operation: bool,
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

    /// Everything, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let form = Form {
            signed: self.signed.clone(),
            presented: self.presented.clone(),
            on_conflict: self.on_conflict,
            earlier: self.earlier.clone(),
            operation: self.operation,
            value: self.value.to_vec(),
        };
        let mut bytes = vec![RECEIPT_FORMAT];
        bytes.extend(codec::encode(&form));
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) wrote. The value's hash is checked; signatures are checked by
    /// the node that takes it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReceiptError> {
        let form: Form = match bytes.split_first() {
            Some((&RECEIPT_FORMAT, rest)) => codec::decode(rest)?,
            Some((&other, _)) => return Err(ReceiptError::Format(other)),
            None => return Err(ReceiptError::Format(0)),
        };
        if !form.signed.write().body.matches(&form.value) {
            return Err(ReceiptError::Value);
        }
        Ok(Prepared {
            signed: form.signed,
            presented: form.presented,
            value: form.value.into(),
            on_conflict: form.on_conflict,
            earlier: form.earlier,
            operation: form.operation,
        })
    }
}
