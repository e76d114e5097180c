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
use crate::core::chain::{Mode, Rights};
use crate::core::limits;
use crate::core::object::NamespaceId;
use crate::core::version::{self, SignedWrite, Stamps};
use crate::core::write::{Write, WriteId};
use crate::wire::client::{self as wire, OnConflict, Submit, Submitted};
use crate::wire::register;
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
    /// Nobody that answered knows it. It may still arrive. Of a register: it was not applied, and still
    /// may be; [settling](Client::settle) decides.
    Unknown,
    /// Of a register: it was not applied, and never will be.
    Refused {
        /// Why.
        reason: RefusedReason,
        /// The current version. `None` if this identity may not read.
        current: Option<Vec<Head>>,
    },
    /// Of a register: so many writes came after it that nobody remembers whether it was applied. It never
    /// will be from now on.
    Forgotten,
    /// Of a register: it was not applied so far, and still may be, by an attempt that is under way or by
    /// whoever has the receipt. Settling ends that.
    Open,
}

impl Outcome {
    /// What is known of an operation by what is known of both forms in which it may have been sent: the
    /// answer that leaves more open.
    fn or(self, other: Outcome) -> Outcome {
        let open = |outcome: &Outcome| match outcome {
            Outcome::Refused { .. } => 0,
            Outcome::Open => 1,
            Outcome::Unknown => 2,
            // One form is as old as the other.
            Outcome::Forgotten => 3,
            Outcome::Incomplete { .. } => 4,
            Outcome::Applied { .. } => 5,
        };
        if open(&other) > open(&self) { other } else { self }
    }
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
    /// replicas as needed. Of a register it is a linearizable read, and decides nothing.
    pub async fn outcome(&self, receipt: &Receipt) -> Result<Outcome, OutcomeError> {
        let deadline = Deadline::after(self.timeout());
        let mut outcome = self.ask_outcome(&receipt.signed, deadline, false).await?;
        if let (Some(earlier), false) = (&receipt.earlier, matches!(outcome, Outcome::Applied { .. })) {
            outcome = outcome.or(self.ask_outcome(earlier, deadline, false).await?);
        }
        Ok(outcome)
    }

    /// Ends the doubt about a write: submits it, beside whatever it meets, until it is applied or the
    /// deadline comes. The only final verdict of a siblings namespace is `Applied`; to undo it, replace it.
    ///
    /// Of a register the verdict is final either way: the write is submitted again, and where it cannot be
    /// any more, because its epoch has passed or its parent is not there, it is forbidden for good.
    pub async fn settle(&self, receipt: &Receipt) -> Result<Written, WriteError> {
        if self.is_register(receipt.namespace()) {
            return self.settle_register(receipt, Deadline::after(self.timeout())).await;
        }
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
            match self.ask_outcome(signed, deadline, false).await {
                Ok(Outcome::Applied { version, siblings, .. }) => {
                    return Ok(Written::Applied { version, siblings });
                }
                Ok(Outcome::Incomplete { .. }) => {
                    return self.submit_signed(&prepared.clone().doubted(), signed, deadline).await;
                }
                // Who may write and not read cannot ask; the nodes' applied index still knows the write.
                Ok(Outcome::Unknown | Outcome::Refused { .. } | Outcome::Forgotten | Outcome::Open)
                | Err(_) => {}
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
        let agreed = self.is_register(write.namespace);
        let mut known = prepared.tenure.as_ref().is_none_or(|tenure| self.has_presented(tenure));
        let request = |known: bool| {
            Request::Submit(Submit {
                signed: signed.clone(),
                on_conflict: if agreed { OnConflict::Refuse } else { prepared.on_conflict },
                presented: if agreed { Vec::new() } else { prepared.replaces.presented() },
                tenure: prepared.tenure.clone().filter(|_| !known),
                value: prepared.value().cloned().into_iter().collect::<Values>(),
            })
        };
        if request(known).encode().encoded_len() > limits::FRAME_LEN {
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
            agreed,
        };
        let mut prepared = prepared.clone();
        loop {
            let verdict = self.ask_key(&target, &request(known), deadline, &check).await;
            match (&verdict, &prepared.tenure) {
                // Another node than the one that was sent the proof answers now.
                (Verdict::Answer(Reply::Failure(wire::Failure::NeedsTenure)), _) if !known => {}
                (Verdict::Answer(Reply::Failure(wire::Failure::NeedsTenure)), _) => {
                    known = false;
                    continue;
                }
                // That node may be the one that is lost.
                (Verdict::Unknown(_), Some(_)) if known && deadline.left_ms() > 0 => {
                    (prepared.doubted, known) = (true, false);
                    continue;
                }
                (Verdict::Answer(_), Some(tenure)) => self.note_presented(tenure),
                _ => {}
            }
            return self.written(&prepared, signed, agreed, verdict);
        }
    }

    fn written(
        &self,
        prepared: &Prepared,
        signed: &Arc<SignedWrite>,
        agreed: bool,
        verdict: Verdict,
    ) -> Result<Written, WriteError> {
        let why = match verdict {
            Verdict::Answer(Reply::Submitted(Submitted::Applied { stamps, siblings })) => {
                let version = version_of(signed, stamps);
                return Ok(Written::Applied { version, siblings });
            }
            Verdict::Answer(Reply::Submitted(Submitted::Fenced(bound))) => {
                let reason = RefusedReason::Fenced(bound);
                return Ok(Written::Refused { reason, current: None });
            }
            Verdict::Answer(Reply::Submitted(Submitted::Forgotten)) => return Err(WriteError::Forgotten),
            Verdict::Answer(Reply::Submitted(Submitted::Refused { current }))
                if agreed || !prepared.doubted =>
            {
                let (reason, current) = refused(signed, current);
                return Ok(Written::Refused { reason, current });
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
        Err(self.unknown(prepared, why))
    }

    fn unknown(&self, prepared: &Prepared, why: String) -> WriteError {
        let receipt = prepared.clone().doubted();
        WriteError::Unknown(Box::new(Unknown { client: self.clone(), receipt, why }))
    }

    fn may_read(&self, write: &Write) -> bool {
        let (config, who) = (self.configuration(), self.identity().public());
        let policy = config.policy();
        policy.allowed(&who, write.namespace, &write.key, Rights::READ, policy.revision())
    }

    /// Whether the keys of a namespace are registers.
    fn is_register(&self, namespace: NamespaceId) -> bool {
        let config = self.configuration();
        let namespace = config.policy().namespace_by_id(namespace);
        namespace.is_some_and(|namespace| namespace.policy.mode == Mode::Linearizable)
    }

    /// Ends the doubt about a write to a register.
    pub(super) async fn settle_register(
        &self,
        receipt: &Receipt,
        deadline: Deadline,
    ) -> Result<Written, WriteError> {
        // Of the forms of an operation the one that was applied is the one that counts.
        if let Some(earlier) = &receipt.earlier {
            for signed in receipt.candidates() {
                if let Ok(Outcome::Applied { version, siblings, .. }) =
                    self.ask_outcome(signed, deadline, false).await
                {
                    return Ok(Written::Applied { version, siblings });
                }
            }
            if let applied @ Written::Applied { .. } = self.forbid(receipt, earlier, deadline).await? {
                return Ok(applied);
            }
        }
        // What a node says of it now holds of the write, not only of this attempt: the replicas agree.
        let again = Prepared { doubted: false, ..receipt.clone() };
        let mut pauses = pauses();
        loop {
            let why = match self.submit_signed(&again, &again.signed, deadline).await {
                verdict @ (Ok(_) | Err(WriteError::Forgotten)) => return verdict,
                // It cannot be applied as things are: so that it never can, it is forbidden.
                Err(
                    WriteError::Expired { .. }
                    | WriteError::Denied(_)
                    | WriteError::Node(
                        wire::Failure::UnknownParents(_)
                        | wire::Failure::Generation
                        | wire::Failure::NeedsTenure
                        | wire::Failure::Rejected(_)
                        | wire::Failure::Malformed(_),
                    ),
                ) => return self.forbid(receipt, &receipt.signed, deadline).await,
                Err(WriteError::Unknown(unknown)) => unknown.why,
                Err(error) => error.to_string(),
            };
            if !deadline.pause(&mut pauses).await {
                return Err(self.unknown(receipt, why));
            }
        }
    }

    /// Has a write to a register forbidden, unless it was applied.
    async fn forbid(
        &self,
        receipt: &Receipt,
        signed: &Arc<SignedWrite>,
        deadline: Deadline,
    ) -> Result<Written, WriteError> {
        let mut pauses = pauses();
        loop {
            let why = match self.ask_outcome(signed, deadline, true).await {
                Ok(Outcome::Applied { version, siblings, .. }) => {
                    return Ok(Written::Applied { version, siblings });
                }
                Ok(Outcome::Refused { reason, current }) => return Ok(Written::Refused { reason, current }),
                Ok(Outcome::Forgotten) => return Err(WriteError::Forgotten),
                Ok(Outcome::Unknown | Outcome::Open | Outcome::Incomplete { .. }) => {
                    "no majority answered in time".to_owned()
                }
                // Asking again brings the same answer.
                Err(error @ (ReadError::Denied(_) | ReadError::UnknownNamespace)) => {
                    return Err(self.unknown(receipt, error.to_string()));
                }
                Err(error) => error.to_string(),
            };
            if !deadline.pause(&mut pauses).await {
                return Err(self.unknown(receipt, why));
            }
        }
    }

    /// Asks for the verdict on a write to a register; with `forbid`, has one made.
    async fn ask_verdict(
        &self,
        signed: &Arc<SignedWrite>,
        forbid: bool,
        deadline: Deadline,
    ) -> Result<Outcome, ReadError> {
        let (write, id, object) = (signed.write(), signed.id(), signed.write().object());
        let request = Request::AskVerdict(register::AskVerdict { signed: signed.clone(), forbid });
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Verdict(_) => checker.verdict(object, id, reply),
            _ => Err(unexpected()),
        };
        let target = Target {
            namespace: write.namespace,
            key: &write.key,
            who: self.identity().public(),
            rights: if forbid { Rights::WRITE } else { Rights::READ },
            epoch: None,
            agreed: true,
        };
        match self.ask_key(&target, &request, deadline, &check).await {
            Verdict::Answer(Reply::Verdict(verdict)) => Ok(match verdict {
                register::Verdict::Applied { stamps, superseded_by } => Outcome::Applied {
                    version: version_of(signed, stamps),
                    siblings: Vec::new(),
                    superseded_by,
                },
                register::Verdict::Refused { current } => {
                    // Nothing shown is nothing there to whoever may read, and nothing said to others.
                    let shown = current.is_some() || self.may_read(write);
                    let (reason, current) = refused(signed, shown.then(|| current.into_iter().collect()));
                    Outcome::Refused { reason, current }
                }
                register::Verdict::Fenced(bound) => {
                    Outcome::Refused { reason: RefusedReason::Fenced(bound), current: None }
                }
                register::Verdict::Forgotten => Outcome::Forgotten,
                register::Verdict::Open => Outcome::Open,
                register::Verdict::Unknown => Outcome::Unknown,
            }),
            other => Err(ReadError::from_verdict(other)),
        }
    }

    async fn ask_outcome(
        &self,
        signed: &Arc<SignedWrite>,
        deadline: Deadline,
        forbid: bool,
    ) -> Result<Outcome, ReadError> {
        let (write, id) = (signed.write(), signed.id());
        if self.is_register(write.namespace) {
            return self.ask_verdict(signed, forbid, deadline).await;
        }
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
            agreed: false,
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

/// Why it was refused, and what is there.
fn refused(
    signed: &SignedWrite,
    current: Option<Vec<version::Version>>,
) -> (RefusedReason, Option<Vec<Head>>) {
    let current: Option<Vec<Head>> = current.map(|live| live.into_iter().map(Head::new).collect());
    let exists = current.iter().flatten().any(|head| !head.is_delete());
    let reason = match signed.write().parents.is_empty() && exists {
        true => RefusedReason::Exists,
        false => RefusedReason::Changed,
    };
    (reason, current)
}
