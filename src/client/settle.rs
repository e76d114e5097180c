//! Submitting prepared writes, and finding out what became of them.

use std::sync::Arc;

use super::attempt::Verdict;
use super::check::{Checker, unexpected};
use super::client::Client;
use super::error::{OutcomeError, ReadError, Unknown, WriteError};
use super::exchange::{Deadline, Target, pauses};
use super::prepare::{Prepared, Receipt};
use super::reading::Head;
use super::version::Version;
use super::write::{RefusedReason, Written};
use crate::core::chain::Rights;
use crate::core::limits;
use crate::core::version::{self, SignedWrite, Stamps};
use crate::core::write::WriteId;
use crate::wire::client::{self as wire, OnConflict, Submit, Submitted};
use crate::wire::registry::{Reply, Request};
use crate::wire::values::Values;

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
    /// one effect.
    ///
    /// The verdict is `Refused` only if every attempt of this call certainly changed nothing. If an
    /// earlier call may have changed something, say so with [`Prepared::doubted`].
    pub async fn submit(&self, prepared: &Prepared) -> Result<Written, WriteError> {
        self.submit_by(prepared, Deadline::after(self.timeout())).await
    }

    /// What became of a write: asks a read quorum and, if anybody holds it, has it brought to as many
    /// replicas as needed.
    pub async fn outcome(&self, receipt: &Receipt) -> Result<Outcome, OutcomeError> {
        let deadline = Deadline::after(self.timeout());
        let mut last = Outcome::Unknown;
        for signed in receipt.candidates() {
            match self.ask_outcome(signed, deadline).await? {
                Outcome::Unknown => {}
                known @ Outcome::Applied { .. } => return Ok(known),
                incomplete => last = incomplete,
            }
        }
        Ok(last)
    }

    /// Ends the doubt about a write: submits it, beside whatever it meets, until it is applied or the
    /// deadline comes. The only final verdict of a siblings namespace is `Applied`; to undo it, replace it.
    pub async fn settle(&self, receipt: &Receipt) -> Result<Written, WriteError> {
        let settled = receipt.clone().doubted().with_on_conflict(OnConflict::KeepBoth);
        self.insist(&settled, Deadline::after(self.timeout())).await
    }

    /// Submits the same write until it is applied: whatever else is said of a write in doubt leaves it
    /// in doubt (P5).
    pub(super) async fn insist(
        &self,
        prepared: &Prepared,
        deadline: Deadline,
    ) -> Result<Written, WriteError> {
        let mut pauses = pauses();
        loop {
            match self.submit_by(prepared, deadline).await {
                Err(WriteError::Unknown(_)) if deadline.pause(&mut pauses).await => {}
                verdict => return verdict,
            }
        }
    }

    pub(super) async fn submit_by(
        &self,
        prepared: &Prepared,
        deadline: Deadline,
    ) -> Result<Written, WriteError> {
        if !prepared.operation {
            return self.submit_signed(prepared, &prepared.signed, deadline).await;
        }
        // An earlier run of the same operation may have sent the write, in this epoch or the one before.
        for signed in prepared.candidates() {
            match self.ask_outcome(signed, deadline).await {
                Ok(Outcome::Applied { version, siblings, .. }) => {
                    return Ok(Written::Applied { version, siblings });
                }
                Ok(Outcome::Incomplete { .. }) => {
                    return self.submit_signed(&prepared.clone().doubted(), signed, deadline).await;
                }
                // Who may write and not read cannot ask; the nodes' applied index still knows the write.
                Ok(Outcome::Unknown) | Err(_) => {}
            }
        }
        self.submit_signed(prepared, &prepared.signed, deadline).await
    }

    async fn submit_signed(
        &self,
        prepared: &Prepared,
        signed: &Arc<SignedWrite>,
        deadline: Deadline,
    ) -> Result<Written, WriteError> {
        let write = signed.write();
        let request = Request::Submit(Submit {
            signed: signed.clone(),
            on_conflict: prepared.on_conflict,
            presented: prepared.replaces.presented(),
            tenure: None,
            value: prepared.value().cloned().into_iter().collect::<Values>(),
        });
        if request.encode().encoded_len() > limits::FRAME_LEN {
            let why = "the parents' stamps and the value do not fit into one message".to_owned();
            return Err(WriteError::Node(wire::Failure::Malformed(why)));
        }
        let (object, id) = (write.object(), signed.id());
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Submitted(_) => checker.verdict(object, id, reply),
            _ => Err(unexpected()),
        };
        let target = Target {
            namespace: write.namespace,
            key: &write.key,
            who: write.author,
            rights: Rights::WRITE,
            epoch: Some(write.epoch),
        };
        let verdict = self.ask_key(&target, &request, deadline, &check).await;
        self.written(prepared, signed, verdict)
    }

    fn written(
        &self,
        prepared: &Prepared,
        signed: &Arc<SignedWrite>,
        verdict: Verdict,
    ) -> Result<Written, WriteError> {
        let why = match verdict {
            Verdict::Answer(Reply::Submitted(Submitted::Applied { stamps, siblings })) => {
                let version = version_of(signed, stamps);
                return Ok(Written::Applied { version, siblings });
            }
            Verdict::Answer(Reply::Submitted(Submitted::Refused { current })) if !prepared.doubted => {
                return Ok(refused(signed, current));
            }
            Verdict::Answer(Reply::Failure(failure)) if !prepared.doubted => {
                return Err(WriteError::from_failure(failure));
            }
            Verdict::Unavailable(why) if !prepared.doubted => return Err(WriteError::Unavailable(why)),
            Verdict::Answer(Reply::Failure(failure)) => failure.to_string(),
            Verdict::Answer(Reply::Submitted(Submitted::Refused { .. })) => {
                "it is refused now, but an earlier attempt may have been taken".into()
            }
            Verdict::Answer(_) => "the answer does not belong to the question".into(),
            Verdict::Unknown(why) | Verdict::Unavailable(why) | Verdict::Forged(why) => why,
        };
        let receipt = prepared.clone().doubted();
        Err(WriteError::Unknown(Box::new(Unknown { client: self.clone(), receipt, why })))
    }

    async fn ask_outcome(&self, signed: &Arc<SignedWrite>, deadline: Deadline) -> Result<Outcome, ReadError> {
        let (write, id) = (signed.write(), signed.id());
        let request = Request::AskOutcome(wire::AskOutcome {
            namespace: write.namespace,
            key: write.key.clone(),
            write: id,
        });
        let object = write.object();
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Outcome(_) => checker.verdict(object, id, reply),
            _ => Err(unexpected()),
        };
        let target = Target {
            namespace: write.namespace,
            key: &write.key,
            who: self.identity().public(),
            rights: Rights::READ,
            epoch: None,
        };
        match self.ask_key(&target, &request, deadline, &check).await {
            Verdict::Answer(Reply::Outcome(outcome)) => Ok(match outcome {
                wire::Outcome::Applied { stamps, siblings, superseded_by } => {
                    Outcome::Applied { version: version_of(signed, stamps), siblings, superseded_by }
                }
                wire::Outcome::Incomplete { copies, needed } => Outcome::Incomplete { copies, needed },
                wire::Outcome::Unknown => Outcome::Unknown,
            }),
            other => Err(ReadError::from_verdict(other)),
        }
    }
}

fn version_of(signed: &SignedWrite, stamps: Vec<Arc<crate::core::stamp::SignedStamp>>) -> Version {
    let mut set = Stamps::default();
    for stamp in stamps {
        set.insert(stamp);
    }
    Version::new(signed.id(), signed.write().generation, set)
}

fn refused(signed: &SignedWrite, current: Option<Vec<version::Version>>) -> Written {
    let current: Option<Vec<Head>> = current.map(|live| live.into_iter().map(Head::new).collect());
    let exists = current.iter().flatten().any(|head| !head.is_delete());
    let reason = match signed.write().parents.is_empty() && exists {
        true => RefusedReason::Exists,
        false => RefusedReason::Changed,
    };
    Written::Refused { reason, current }
}
