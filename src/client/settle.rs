//! Submitting prepared writes, and finding out what became of them.

use super::client::Client;
use super::error::{OutcomeError, WriteError};
use super::prepare::{Prepared, Receipt};
use super::version::Version;
use super::write::Written;
use crate::core::write::WriteId;

/// What is known of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was applied.
    Applied {
        /// What it made.
        version: Version,
        /// The other live versions.
        siblings: Vec<WriteId>,
        /// The write that replaced it, if one did.
        superseded_by: Option<WriteId>,
    },
    /// Somebody holds it, but fewer replicas than needed could be reached: it is not decided.
    Incomplete {
        /// Replicas that hold it.
        copies: u8,
        /// Replicas that are needed.
        needed: u8,
    },
    /// Nobody that answered knows it. It may still arrive.
    Unknown,
}

impl Client {
    /// Submits a prepared write: now or later, from this process or another, as often as you like; it has
    /// one effect. The verdict is `Refused` only if every attempt of this call certainly changed nothing.
    pub async fn submit(&self, prepared: &Prepared) -> Result<Written, WriteError> {
        let _ = prepared;
        unimplemented!()
    }

    /// What became of a write: asks a read quorum and, if anybody holds it, has it brought to as many
    /// replicas as needed.
    pub async fn outcome(&self, receipt: &Receipt) -> Result<Outcome, OutcomeError> {
        let _ = receipt;
        unimplemented!()
    }

    /// Ends the doubt about a write: submits it, beside whatever it meets, until it is applied or the
    /// deadline comes. The only final verdict of a siblings namespace is `Applied`; to undo it, replace it.
    pub async fn settle(&self, receipt: &Receipt) -> Result<Written, WriteError> {
        let _ = receipt;
        unimplemented!()
    }
}
