//! What somebody wants of a register: judged by a state, and answered when the round is finished.

use std::sync::Arc;

use super::super::arrival::{self, Ask, Request};
use super::super::machine::{State, Step};
use super::super::operation::Requester;
use super::super::rows;
use super::super::store::StoreError;
use super::At;
use super::acceptor::carried;
use crate::core::chain::{Ballot, Rights};
use crate::core::identity::PublicKey;
use crate::core::limits;
use crate::core::object::{Key, NamespaceId};
use crate::core::register::{RegisterState, Standing};
use crate::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use crate::core::tenure::{Seal, SignedVote};
use crate::core::verified::{Campaign, Held, Submission, Verified};
use crate::core::version::{SignedWrite, Stamps, Version};
use crate::core::write::WriteId;
use crate::engine::Millis;
use crate::wire::client::{Failure, Listed, Read, ReadValue, Submitted, Value, Versions};
use crate::wire::ownership::{Ballots, Campaigned, Observed};
use crate::wire::register::{Sealed, Verdict};
use crate::wire::registry::Reply;
use crate::wire::values::Values;

/// What somebody wants of a register.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) requester: Requester,
    pub(super) task: Task,
    pub(super) deadline: Millis,
    /// An accept that does it may have left: nobody can say any more that it was not done.
    pub(super) risked: bool,
}

/// What there is to want.
#[derive(Debug)]
pub(super) enum Task {
    /// To apply a write.
    Write { submission: Verified<Submission>, may_read: bool },
    /// To read.
    Read,
    /// To know what became of a write, or to have it forbidden.
    Verdict { signed: Arc<SignedWrite>, forbid: bool, may_read: bool },
    /// To raise the fence, and to read.
    Seal(Verified<Seal>),
    /// To have a tenure chosen.
    Campaign { campaign: Verified<Campaign>, afresh: bool },
    /// To know who owns a resource.
    Observe,
}

/// An answer that waits for the end of its round.
#[derive(Debug)]
pub(super) enum Answer {
    /// As it will be sent.
    Ready(Box<Reply>),
    /// A tenure is the current one: the votes for it are still to come.
    Chosen,
    /// Who owns the resource: the votes are still to come.
    Observed(Box<Held>),
}

/// What becomes of a job by a state.
pub(super) enum Judged {
    /// It is answered, and changes nothing.
    Answered(Answer),
    /// It is answered, if this state is chosen.
    Changes(Held, Answer),
    /// It introduces a tenure: that needs a ballot whose every promise was one to a takeover.
    NeedsTakeover,
    /// It is to be brought to all voters again.
    NeedsRound,
}

/// How a job can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// Only by looking: nothing can be changed.
    Look,
    /// By an ordinary ballot.
    Ordinary,
    /// By a ballot that was promised as a takeover.
    Takeover,
}

impl State {
    /// Takes what a client wants of a register.
    pub(in crate::engine) fn register_request(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
    ) -> Result<(), StoreError> {
        let resources = NamespaceId::resources(self.config.cluster());
        let (at, task) = match request.ask.clone() {
            Ask::Submit { submission, may_read, .. } => {
                let write = submission.get().signed.write();
                let at = At::new(write.namespace, write.key.clone());
                (at, Task::Write { submission, may_read })
            }
            Ask::Read(read) if read.local => return self.read_chosen(step, requester, read),
            Ask::Read(Read { namespace, key, .. }) => (At::new(namespace, key), Task::Read),
            Ask::ReadValue(read) => return self.read_register_value(step, requester, request, read),
            Ask::Verdict { signed, forbid, may_read } => {
                let write = signed.write();
                let at = At::new(write.namespace, write.key.clone());
                (at, Task::Verdict { signed, forbid, may_read })
            }
            Ask::Seal(seal) => (At::new(seal.get().namespace, seal.get().key.clone()), Task::Seal(seal)),
            Ask::Campaign { campaign, afresh } => {
                let key = campaign.get().submission.signed.write().key.clone();
                (At::new(resources, key), Task::Campaign { campaign, afresh })
            }
            Ask::Observe(resource) => (At::new(resources, resource), Task::Observe),
            _ => {
                self.fail(step, requester, Failure::Mode(crate::core::chain::Mode::Linearizable));
                return Ok(());
            }
        };
        let acceptors = self.acceptors(&at);
        if self.counts().is_err() || !acceptors.contains(&self.identity.member) {
            self.forward(step, requester, request, acceptors);
            return Ok(());
        }
        let reachable = acceptors.iter().filter(|member| self.reaches(**member)).count();
        let needed = acceptors.len() / 2 + 1;
        if reachable < needed {
            let why = format!("{reachable} of the {needed} replicas that are needed can be reached");
            self.fail(step, requester, Failure::Unavailable(why));
            return Ok(());
        }
        let deadline = self.now + self.timing.deadline;
        self.enqueue(step, &at, Job { requester, task, deadline, risked: false })
    }

    /// Judges a job by a state that `means` may change.
    pub(super) fn judge(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        held: &Held,
        job: &Job,
        means: Means,
    ) -> Judged {
        let state = &held.state;
        match &job.task {
            Task::Write { submission, may_read } => {
                let signed = &submission.get().signed;
                match self.standing(state, signed) {
                    // It would be refused for want of room: the round is spared, if nothing was risked yet.
                    Standing::Open if self.disk_full && !job.risked => {
                        Judged::Answered(ready(Failure::DiskFull))
                    }
                    Standing::Open if means == Means::Look => Judged::NeedsRound,
                    Standing::Open => self.apply(step, at, state, submission, Rights::WRITE),
                    // It was proposed here: it may have been applied, and built upon, before this was learnt.
                    Standing::Expired if job.risked => Judged::Answered(ready(self.unfinished())),
                    standing => {
                        let reply = submitted(&standing, signed, state, *may_read);
                        self.note_repeated(&standing);
                        Judged::Answered(ready(reply))
                    }
                }
            }
            Task::Read => Judged::Answered(ready(versions(held))),
            Task::Verdict { signed, forbid, may_read } => {
                let standing = self.standing(state, signed);
                let undecided = matches!(standing, Standing::Open | Standing::Ahead);
                if !(undecided && *forbid) {
                    return Judged::Answered(ready(verdict(&standing, signed, state, *may_read)));
                }
                // Nobody can have read what such a write names: it is forged, and would stay among the
                // forbidden for as long as its author likes.
                let far = state.generation.saturating_add(limits::VOID as u64);
                if signed.write().generation > far {
                    return Judged::Answered(ready(Verdict::Open));
                }
                if means == Means::Look {
                    return Judged::NeedsRound;
                }
                match state.forbid(signed.write().generation, signed.id()) {
                    Ok(state) => {
                        let current = state.version.clone().filter(|_| *may_read);
                        let value = held.value.clone();
                        Judged::Changes(Held { state, value }, ready(Verdict::Refused { current }))
                    }
                    Err(_) => Judged::Answered(ready(Failure::Overloaded)),
                }
            }
            Task::Seal(seal) => {
                let fence = &seal.get().fence;
                if let Some(bound) = state.fences(Some(fence), self.owned_by(at).as_ref()) {
                    self.counters.fenced += 1;
                    let sealed = Sealed { result: Err(bound), version: None, value: Values::none() };
                    return Judged::Answered(ready(sealed));
                }
                let answer =
                    ready(Sealed { result: Ok(()), version: state.version.clone(), value: carried(held) });
                let sealed = state.seal(fence);
                if sealed == *state {
                    return Judged::Answered(answer);
                }
                if means == Means::Look {
                    return Judged::NeedsRound;
                }
                Judged::Changes(Held { state: sealed, value: held.value.clone() }, answer)
            }
            Task::Campaign { campaign, afresh } => {
                let Campaign { submission, tenure } = campaign.get();
                match self.standing(state, &submission.signed) {
                    Standing::Applied if state.current() == Some(submission.signed.id()) => {
                        if *afresh && means == Means::Look {
                            return Judged::NeedsRound;
                        }
                        Judged::Answered(Answer::Chosen)
                    }
                    Standing::Open if tenure.key.is_some() && means != Means::Takeover => {
                        Judged::NeedsTakeover
                    }
                    Standing::Open if means == Means::Look => Judged::NeedsRound,
                    Standing::Open => {
                        let submission = submission.clone();
                        let judged = Verified::map(campaign, |_| submission);
                        match self.apply(step, at, state, &judged, Rights::ELECT) {
                            Judged::Changes(held, _) => Judged::Changes(held, Answer::Chosen),
                            other => other,
                        }
                    }
                    Standing::Ahead => {
                        let parents = submission.signed.write().parents.clone();
                        Judged::Answered(ready(Failure::UnknownParents(parents)))
                    }
                    _ => Judged::Answered(ready(campaigned(Ballots::Refused, Some(held)))),
                }
            }
            Task::Observe => Judged::Answered(Answer::Observed(Box::new(held.clone()))),
        }
    }

    fn standing(&self, state: &RegisterState, signed: &SignedWrite) -> Standing {
        let write = signed.write();
        let owned_by = self.config.policy().namespace_by_id(write.namespace);
        let owned_by = owned_by.and_then(|namespace| namespace.owned_by.as_ref());
        state.standing(write, signed.id(), owned_by)
    }

    fn owned_by(&self, at: &At) -> Option<Key> {
        self.config.policy().namespace_by_id(at.namespace)?.owned_by.clone()
    }

    fn note_repeated(&mut self, standing: &Standing) {
        match standing {
            Standing::Applied => self.counters.repeated += 1,
            Standing::Refused => self.counters.refused += 1,
            Standing::Fenced(_) => self.counters.fenced += 1,
            Standing::Open | Standing::Ahead | Standing::Expired => {}
        }
    }

    /// Makes a write the next version: what has to hold now is checked here, once, and named in the
    /// stamp.
    fn apply(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        state: &RegisterState,
        submission: &Verified<Submission>,
        right: Rights,
    ) -> Judged {
        let Submission { signed, value, .. } = submission.get();
        let write = signed.write();
        let judged_before = submission.policy_revision() < self.config.policy().revision();
        if judged_before && !self.still_may(&write.author, at, right) {
            let why = "no grant allows this any more".to_owned();
            return Judged::Answered(ready(Failure::Denied(why)));
        }
        if self.disk_full {
            return Judged::Answered(ready(Failure::DiskFull));
        }
        if !self.config.admits_epoch(write.epoch) {
            let now = self.config.write_epoch();
            return Judged::Answered(ready(Failure::Expired { epoch: write.epoch, now }));
        }
        let counter = self.next_counter(step);
        let stamp = Stamp {
            format: STAMP_FORMAT,
            cluster: self.config.cluster(),
            object: at.object,
            write: signed.id(),
            config_epoch: self.config.config_epoch(),
            policy_revision: self.config.policy().revision(),
            actor: self.actor,
            previous: counter - 1,
            counter,
            past: crate::core::events::Past::new(),
        };
        let stamp = Arc::new(SignedStamp::unsigned(stamp));
        let mut stamps = Stamps::default();
        stamps.insert(Arc::clone(&stamp));
        self.sign_later(Arc::clone(&stamp));
        self.counters.stamped += 1;
        let version = Version { signed: Arc::clone(signed), stamps };
        let answer = ready(Submitted::Applied { stamps: vec![stamp], siblings: Vec::new() });
        Judged::Changes(Held { state: state.apply(version), value: value.clone() }, answer)
    }

    fn still_may(&self, author: &PublicKey, at: &At, right: Rights) -> bool {
        arrival::still_allowed(&self.config, author, at.namespace, &at.key, right)
    }

    /// Answers a job whose round is finished.
    pub(super) fn answer_job(
        &mut self,
        step: &mut Step<'_>,
        job: &Job,
        answer: Answer,
        ballot: Option<Ballot>,
        votes: &[SignedVote],
        left_ms: Millis,
    ) {
        match &job.task {
            Task::Read | Task::Observe => self.counters.reads += 1,
            Task::Write { .. } if matches!(&answer, Answer::Ready(r) if matches!(**r, Reply::Submitted(Submitted::Applied { .. }))) =>
            {
                self.counters.applied += 1;
            }
            _ => {}
        }
        let reply: Reply = match answer {
            // A failure says that nothing was done. Once an accept may have left, whoever recovers it may
            // still have it chosen.
            Answer::Ready(reply) if job.risked && matches!(*reply, Reply::Failure(_)) => {
                self.in_doubt(&job.task).unwrap_or(*reply)
            }
            Answer::Ready(reply) => *reply,
            Answer::Chosen => match ballot {
                Some(ballot) => campaigned(Ballots::Chosen { ballot, votes: votes.to_vec() }, None).into(),
                None => campaigned(Ballots::Incomplete, None).into(),
            },
            Answer::Observed(held) => Observed {
                version: held.state.version.clone(),
                ballot: ballot.filter(|_| held.state.version.is_some()),
                votes: if held.state.version.is_some() { votes.to_vec() } else { Vec::new() },
                left_ms,
                value: carried(&held),
            }
            .into(),
        };
        self.reply(step, job.requester, reply);
    }

    /// Answers a job that could not be finished in time.
    pub(super) fn give_up(&mut self, step: &mut Step<'_>, job: &Job) {
        let why = || Failure::Unavailable("too few replicas answered in time".to_owned());
        let in_doubt = if job.risked { self.in_doubt(&job.task) } else { None };
        let reply = in_doubt.unwrap_or_else(|| match &job.task {
            Task::Verdict { .. } => Verdict::Unknown.into(),
            _ => why().into(),
        });
        self.reply(step, job.requester, reply);
    }

    /// The answer to what may have been done, and may still be; none, if a failure misleads nobody.
    fn in_doubt(&mut self, task: &Task) -> Option<Reply> {
        match task {
            Task::Write { .. } => Some(self.unfinished().into()),
            Task::Campaign { .. } => Some(campaigned(Ballots::Incomplete, None).into()),
            Task::Verdict { .. } => Some(Verdict::Unknown.into()),
            Task::Read | Task::Seal(_) | Task::Observe => None,
        }
    }

    /// The answer to a write that may have been applied.
    fn unfinished(&mut self) -> Submitted {
        self.counters.incomplete += 1;
        let needed = self.config.replica_count() / 2 + 1;
        Submitted::Incomplete { copies: 0, needed: u8::try_from(needed).unwrap_or(u8::MAX) }
    }

    /// Reads what is known here to be chosen, without asking anybody.
    fn read_chosen(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        read: Read,
    ) -> Result<(), StoreError> {
        let at = At::new(read.namespace, read.key);
        self.counters.reads += 1;
        let held = match self.register_row(step, &at)? {
            None => None,
            Some(row) => {
                let state = self.known_chosen(at.object, &row).cloned().unwrap_or_default();
                self.register_value(step, &at, &state)?.map(|value| Held { state, value })
            }
        };
        let reply: Reply = match held {
            Some(held) => versions(&held).into(),
            None => Failure::Unavailable("the register is damaged on this node".to_owned()).into(),
        };
        self.reply(step, requester, reply);
        Ok(())
    }

    /// Reads the value of a version that is held here; else lets another replica answer.
    fn read_register_value(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        read: ReadValue,
    ) -> Result<(), StoreError> {
        let at = At::new(read.namespace, read.key);
        let row = self.register_row(step, &at)?.unwrap_or_default();
        let version = row.versions().find(|version| version.id() == read.version).cloned();
        let value = match version {
            None => None,
            Some(version) if version.write().is_delete() => Some(bytes::Bytes::new()),
            Some(version) => {
                let stored = step.rows.get(&rows::value(at.object, version.id()))?;
                let value = stored.and_then(|stored| rows::decode_value(&stored).ok());
                value.filter(|value| version.write().body.matches(value))
            }
        };
        match (value, requester) {
            (Some(value), _) => self.reply(step, requester, Value { value: [value].into_iter().collect() }),
            (None, Requester::Client(_)) => {
                let acceptors = self.acceptors(&at);
                self.forward(step, requester, request, acceptors);
            }
            (None, _) => self.reply(step, requester, Value { value: Values::none() }),
        }
        Ok(())
    }
}

fn ready(reply: impl Into<Reply>) -> Answer {
    Answer::Ready(Box::new(reply.into()))
}

/// The current version as the answer to a read.
fn versions(held: &Held) -> Versions {
    let listed = held.state.version.iter().map(|version| Listed {
        version: version.clone(),
        live: true,
        inline: true,
    });
    Versions { versions: listed.collect(), values: carried(held), evidence: Vec::new() }
}

fn submitted(standing: &Standing, signed: &SignedWrite, state: &RegisterState, may_read: bool) -> Reply {
    match standing {
        Standing::Applied => {
            Submitted::Applied { stamps: stamps_of(state, signed.id()), siblings: Vec::new() }.into()
        }
        Standing::Fenced(bound) => Submitted::Fenced(bound.clone()).into(),
        Standing::Ahead => Failure::UnknownParents(signed.write().parents.clone()).into(),
        Standing::Expired => Submitted::Forgotten.into(),
        Standing::Refused | Standing::Open => {
            let current = may_read.then(|| state.version.iter().cloned().collect());
            Submitted::Refused { current }.into()
        }
    }
}

fn verdict(standing: &Standing, signed: &SignedWrite, state: &RegisterState, may_read: bool) -> Verdict {
    match standing {
        Standing::Applied => Verdict::Applied {
            stamps: stamps_of(state, signed.id()),
            superseded_by: state.current().filter(|current| *current != signed.id()),
        },
        Standing::Fenced(bound) => Verdict::Fenced(bound.clone()),
        Standing::Open | Standing::Ahead => Verdict::Open,
        Standing::Expired => Verdict::Forgotten,
        Standing::Refused => Verdict::Refused { current: state.version.clone().filter(|_| may_read) },
    }
}

fn stamps_of(state: &RegisterState, id: WriteId) -> Vec<Arc<SignedStamp>> {
    let version = state.version.iter().filter(|version| version.id() == id);
    version.flat_map(|version| version.stamps.iter().map(Arc::clone)).collect()
}

/// The answer to a campaign; with the tenure that is there instead.
pub(super) fn campaigned(result: Ballots, there: Option<&Held>) -> Campaigned {
    let version = there.and_then(|held| held.state.version.clone());
    let value = there.map(carried).unwrap_or_else(Values::none);
    Campaigned { result, version, value }
}
