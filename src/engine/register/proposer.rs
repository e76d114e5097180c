//! The proposer: takes what waits for a register, and has the next state chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::arrival;
use super::super::machine::{State, Step};
use super::super::store::StoreError;
use super::acceptor::{Promise, accept_message};
use super::job::{Answer, Job, Judged, Means, Task, campaigned};
use super::{At, LEAD_LEN, Lead, Phase, Register, Round};
use crate::core::chain::Ballot;
use crate::core::identity::{ActorId, MemberId};
use crate::core::limits;
use crate::core::tenure::{SignedVote, TenureVote};
use crate::core::verified::Held;
use crate::core::write::WriteId;
use crate::wire::ownership::Ballots;
use crate::wire::register::{Accepted, AcceptedRegister, PrepareRegister};

/// Jobs that one round takes at most.
const JOBS: usize = 256;

impl State {
    /// Adds a job, and begins if nothing is under way.
    pub(super) fn enqueue(&mut self, step: &mut Step<'_>, at: &At, job: Job) -> Result<(), StoreError> {
        let mut register = self.registers.take(at, self.now);
        register.queue.push_back(job);
        self.go_on(step, register)
    }

    /// Begins a round, if there is something to do and none is under way; then puts the register back.
    pub(super) fn go_on(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        if register.round.is_some() || register.queue.is_empty() || register.rest > self.now {
            self.registers.put(register);
            return Ok(());
        }
        let taken = register.queue.len().min(JOBS);
        let jobs: Vec<Job> = register.queue.drain(..taken).collect();
        if let Some(lead) = register.lead.take() {
            return self.use_lead(step, register, lead, jobs);
        }
        // Without a promise at hand, looking first costs a round trip when something is to be changed,
        // and saves everybody a ballot when not. The preferred coordinator of a key that is only written
        // goes straight to the ballot.
        let writes = jobs.iter().all(|job| matches!(job.task, Task::Write { .. } | Task::Seal(_)));
        let preferred = self.acceptors(&register.at).first() == Some(&self.identity.member);
        if writes && preferred {
            self.begin_prepare(step, register, jobs, false)
        } else {
            self.begin_look(step, register, jobs)
        }
    }

    /// Judges jobs by the state that the last round of this node left, under the promise that came with it.
    fn use_lead(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        lead: Lead,
        jobs: Vec<Job>,
    ) -> Result<(), StoreError> {
        if lead.ballot.config_epoch != self.config.config_epoch() {
            return self.begin_look(step, register, jobs);
        }
        let Weighed { held, answers, changed, later } =
            self.weigh(step, &register.at, &lead.held, jobs, Means::Ordinary);
        if !changed {
            // Nothing changes by this state; whether it is still the newest, a look tells more cheaply.
            let jobs = answers.into_iter().map(|(job, _)| job).chain(later).collect();
            register.lead = Some(lead);
            return self.begin_look(step, register, jobs);
        }
        register.queue.extend(later);
        self.begin_accept(step, register, lead.ballot, held, answers, lead.batch)
    }

    /// Judges jobs one after another.
    pub(super) fn weigh(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        held: &Arc<Held>,
        jobs: Vec<Job>,
        means: Means,
    ) -> Weighed {
        let mut weighed =
            Weighed { held: Arc::clone(held), answers: Vec::new(), changed: false, later: Vec::new() };
        for job in jobs {
            match self.judge(step, at, &weighed.held, &job, means) {
                Judged::Answered(answer) => weighed.answers.push((job, answer)),
                // The votes of a round are for what comes out of it: of a resource it is one change.
                Judged::Changes(..) if weighed.changed && self.is_resource(at.namespace) => {
                    weighed.later.push(job);
                }
                Judged::Changes(held, answer) => {
                    weighed.held = Arc::new(held);
                    weighed.changed = true;
                    let (proved, kept) = std::mem::take(&mut weighed.answers)
                        .into_iter()
                        .partition(|(_, answer)| matches!(answer, Answer::Chosen | Answer::Observed(_)));
                    weighed.answers = kept;
                    let proved: Vec<(Job, Answer)> = proved;
                    weighed.later.extend(proved.into_iter().map(|(job, _)| job));
                    weighed.answers.push((job, answer));
                }
                Judged::NeedsTakeover | Judged::NeedsRound => weighed.later.push(job),
            }
        }
        weighed
    }

    /// Phase 1 with a fresh ballot.
    pub(super) fn begin_prepare(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        jobs: Vec<Job>,
        takeover: bool,
    ) -> Result<(), StoreError> {
        self.counters.ballots += 1;
        let promised = self.register_row(step, &register.at)?.and_then(|row| row.promised);
        let heard = promised.map_or(0, |promised| promised.counter).max(register.heard);
        self.raise_counter(step, heard);
        let ballot = self.fresh_ballot(step);
        register.lead = None;
        let operation = self.operations.number();
        let phase = Phase::Prepare { ballot, takeover, promises: BTreeMap::new(), refusals: BTreeMap::new() };
        register.used = self.now;
        register.round = Some(self.round(operation, phase, jobs, 0));
        let me = self.identity.member;
        let acceptors = self.acceptors(&register.at);
        for member in acceptors.iter().filter(|member| **member != me) {
            let message = prepare_message(&register.at, operation, ballot, takeover);
            step.request(*member, message, self.reserved_in());
        }
        if acceptors.contains(&me) {
            let promise = self.promise_register(step, &register.at, ballot, takeover)?;
            let answer = match promise {
                Promise::Yes(accepted) => Said::Yes(accepted),
                Promise::Higher(higher) => Said::Higher(higher),
                Promise::Running(left_ms) => Said::Running(left_ms),
                Promise::Abstains => Said::Abstains,
            };
            return self.count_promise(step, register, me, answer);
        }
        self.registers.put(register);
        Ok(())
    }

    /// A peer promised, or did not.
    pub(in crate::engine) fn promised_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        promise: arrival::RegisterPromise,
    ) -> Result<(), StoreError> {
        let Some(register) = self.registers.take_operation(promise.operation) else { return Ok(()) };
        let Some(Round { phase: Phase::Prepare { ballot, .. }, .. }) = &register.round else {
            self.registers.put(register);
            return Ok(());
        };
        if *ballot != promise.ballot || !self.acceptors(&register.at).contains(&from) {
            self.registers.put(register);
            return Ok(());
        }
        let said = match promise.answer {
            arrival::Answer::Yes(accepted) => {
                Said::Yes(accepted.map(|(ballot, held)| (ballot, Arc::new(held.into_inner()))))
            }
            arrival::Answer::Higher(ballot) => Said::Higher(ballot),
            arrival::Answer::Running(left_ms) => Said::Running(left_ms),
            arrival::Answer::Abstains => Said::Abstains,
        };
        self.count_promise(step, register, from, said)
    }

    fn count_promise(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        from: MemberId,
        said: Said,
    ) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let Some(round) = &mut register.round else { return Ok(()) };
        step.rows.depend(round.batch);
        round.batch = round.batch.max(step.rows.touched());
        let Phase::Prepare { promises, refusals, .. } = &mut round.phase else { return Ok(()) };
        match said {
            Said::Yes(accepted) => {
                refusals.remove(&from);
                promises.insert(from, accepted);
            }
            Said::Higher(higher) => {
                register.heard = register.heard.max(higher.counter);
                refusals.entry(from).or_insert(None);
            }
            Said::Running(left_ms) => {
                refusals.insert(from, Some(left_ms));
            }
            Said::Abstains => {
                refusals.entry(from).or_insert(None);
            }
        }
        if promises.len() > count / 2 {
            return self.prepared(step, register);
        }
        if refusals.len() >= count - count / 2 {
            return self.failed(step, register);
        }
        self.registers.put(register);
        Ok(())
    }

    /// A majority promised: the highest accepted state goes on from here.
    fn prepared(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let Some(Round { phase, jobs, batch, .. }) = register.round.take() else { return Ok(()) };
        let Phase::Prepare { ballot, takeover, promises, .. } = phase else { return Ok(()) };
        let highest = promises.values().flatten().max_by_key(|(ballot, _)| *ballot).cloned();
        let newest = highest.as_ref().map_or_else(Arc::default, |(_, held)| Arc::clone(held));
        let means = if takeover { Means::Takeover } else { Means::Ordinary };
        let Weighed { held, answers, changed, later } = self.weigh(step, &register.at, &newest, jobs, means);
        let needs_votes =
            answers.iter().any(|(_, answer)| matches!(answer, Answer::Chosen | Answer::Observed(_)));
        // What a majority promised with one and the same ballot and state is chosen already (R7).
        let hash = newest.state.hash();
        let same = promises.values().all(|accepted| match (accepted, &highest) {
            (Some((at, held)), Some((highest, _))) => at == highest && held.state.hash() == hash,
            (None, None) => true,
            _ => false,
        });
        for job in later.into_iter().rev() {
            register.queue.push_front(job);
        }
        if !changed && same && !needs_votes {
            step.rows.depend(batch);
            let ballot = highest.map(|(ballot, _)| ballot);
            if let Some(ballot) = ballot {
                self.tell_if_news(step, &mut register, ballot, hash)?;
            }
            for (job, answer) in answers {
                self.answer_job(step, &job, answer, ballot, &[], 0);
            }
            register.failures = 0;
            return self.go_on(step, register);
        }
        self.begin_accept(step, register, ballot, held, answers, batch)
    }

    /// Phase 2.
    fn begin_accept(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        ballot: Ballot,
        held: Arc<Held>,
        answers: Vec<(Job, Answer)>,
        batch: u64,
    ) -> Result<(), StoreError> {
        let (mut jobs, answers): (Vec<Job>, Vec<Answer>) = answers.into_iter().unzip();
        for job in &mut jobs {
            job.risked = true;
        }
        // A promise that comes with an acceptance never introduces a tenure, so none is kept for resources.
        let next = (!self.is_resource(register.at.namespace)).then(|| self.fresh_ballot(step));
        let chosen = register.chosen.map(|(chosen, _)| chosen);
        let after = batch.max(self.reserved_in());
        let operation = self.operations.number();
        let phase = Phase::Accept {
            ballot,
            next,
            held: Arc::clone(&held),
            answers,
            acceptances: BTreeMap::new(),
            refusals: BTreeSet::new(),
        };
        register.used = self.now;
        register.round = Some(self.round(operation, phase, jobs, batch));
        let me = self.identity.member;
        let acceptors = self.acceptors(&register.at);
        for member in acceptors.iter().filter(|member| **member != me) {
            let message = accept_message(&register.at, operation, (ballot, next, chosen), &held);
            step.request_signed(*member, message, after);
        }
        if acceptors.contains(&me) {
            let answer = self.accept_state(step, &register.at, (ballot, next, chosen), &held)?;
            return self.count_acceptance(step, register, me, answer);
        }
        self.registers.put(register);
        Ok(())
    }

    /// A peer accepted, or did not.
    pub(in crate::engine) fn accepted_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        said: AcceptedRegister,
    ) -> Result<(), StoreError> {
        let Some(register) = self.registers.take_operation(said.operation) else { return Ok(()) };
        let Some(Round { phase: Phase::Accept { ballot, .. }, .. }) = &register.round else {
            self.registers.put(register);
            return Ok(());
        };
        if *ballot != said.ballot || !self.acceptors(&register.at).contains(&from) {
            self.registers.put(register);
            return Ok(());
        }
        self.count_acceptance(step, register, from, said.answer)
    }

    fn count_acceptance(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        from: MemberId,
        said: Accepted,
    ) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let is_resource = self.is_resource(register.at.namespace);
        let Some(round) = &mut register.round else { return Ok(()) };
        step.rows.depend(round.batch);
        round.batch = round.batch.max(step.rows.touched());
        let Phase::Accept { ballot, held, acceptances, refusals, .. } = &mut round.phase else {
            return Ok(());
        };
        match said {
            Accepted::Yes { next, vote } => {
                let vote = vote.filter(|vote| self.is_vote(from, *ballot, held.state.current(), vote));
                // An acceptance without the vote that it should come with proves nothing to others.
                if is_resource && held.state.version.is_some() && vote.is_none() {
                    refusals.insert(from);
                } else {
                    acceptances.insert(from, (next, vote));
                }
            }
            Accepted::Higher(higher) => {
                register.heard = register.heard.max(higher.counter);
                refusals.insert(from);
            }
            Accepted::OtherBytes | Accepted::Abstains => {
                refusals.insert(from);
            }
        }
        if acceptances.len() > count / 2 {
            return self.finish(step, register);
        }
        if refusals.len() >= count - count / 2 {
            return self.failed(step, register);
        }
        self.registers.put(register);
        Ok(())
    }

    /// A majority accepted: the state is chosen.
    fn finish(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let Some(Round { phase, jobs, batch, resent, .. }) = register.round.take() else { return Ok(()) };
        let Phase::Accept { ballot, next, held, answers, acceptances, .. } = phase else { return Ok(()) };
        step.rows.depend(batch);
        self.counters.rounds += 1;
        let mut votes: Vec<SignedVote> = acceptances.values().filter_map(|(_, vote)| *vote).collect();
        votes.sort_by_key(|(actor, _)| *actor);
        let left_ms = self.lease_left(&register.at, &held);
        for (job, answer) in jobs.iter().zip(answers) {
            self.answer_job(step, job, answer, Some(ballot), &votes, left_ms);
        }
        register.chosen = Some((ballot, false));
        self.note_chosen(step, &register.at, ballot)?;
        register.failures = 0;
        register.used = self.now;
        let promised = acceptances.values().filter(|(next, _)| *next).count();
        register.lead = next
            .filter(|_| promised > count / 2 && !resent && held.value.len() <= LEAD_LEN)
            .map(|ballot| Lead { ballot, held, batch: step.rows.touched().max(batch) });
        self.go_on(step, register)
    }

    /// The ballot cannot succeed any more: what it was for is tried again with a fresh one. A promise
    /// for a later round is never used after that.
    pub(super) fn failed(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let Some(Round { phase, jobs, .. }) = register.round.take() else { return Ok(()) };
        register.lead = None;
        let mut again = jobs;
        if let Phase::Prepare { takeover: true, refusals, .. } = &phase {
            let running = refusals.values().flatten().max().copied();
            if let Some(left_ms) = running {
                // A lease runs after all: whoever campaigns is told, and the rest goes on.
                let (campaigns, rest): (Vec<Job>, Vec<Job>) =
                    again.into_iter().partition(|job| matches!(job.task, Task::Campaign { .. }));
                for job in campaigns {
                    let answer = campaigned(Ballots::Running { left_ms }, None);
                    self.reply(step, job.requester, answer);
                }
                again = rest;
            }
        }
        for job in again.into_iter().rev() {
            register.queue.push_front(job);
        }
        register.failures += 1;
        // The first failure taught which ballot is high enough; further ones mean that somebody competes.
        register.rest = if register.failures == 1 { self.now } else { self.now + self.pause(&register) };
        self.go_on(step, register)
    }

    /// A ballot that this actor never used.
    fn fresh_ballot(&mut self, step: &mut Step<'_>) -> Ballot {
        let counter = self.next_counter(step);
        Ballot { config_epoch: self.config.config_epoch(), counter, actor: self.actor }
    }

    pub(super) fn round(&self, operation: u64, phase: Phase, jobs: Vec<Job>, batch: u64) -> Round {
        let resend = self.now + self.timing.resend;
        Round { operation, phase, jobs, batch, began: self.now, resend, resent: false }
    }

    /// Whether `vote` is `from`'s for this tenure at this ballot.
    pub(super) fn is_vote(
        &self,
        from: MemberId,
        ballot: Ballot,
        tenure: Option<WriteId>,
        (actor, signature): &SignedVote,
    ) -> bool {
        let cluster = self.config.cluster();
        let (Some(member), Some(tenure)) = (self.config.member(from), tenure) else { return false };
        let voter: ActorId = member.actor(cluster);
        let vote = TenureVote { cluster, config: self.config.voters_hash(), ballot, tenure, actor: voter };
        *actor == voter && ballot.counter < limits::COUNTERS && vote.verifies(&member.key, signature)
    }
}

/// What jobs come to.
pub(super) struct Weighed {
    /// The state after them.
    pub(super) held: Arc<Held>,
    /// The jobs that are answered, if it is chosen.
    pub(super) answers: Vec<(Job, Answer)>,
    /// Whether it is another state than before.
    pub(super) changed: bool,
    /// Jobs that these means cannot do.
    pub(super) later: Vec<Job>,
}

/// What an acceptor said to a prepare.
enum Said {
    Yes(Option<(Ballot, Arc<Held>)>),
    Higher(Ballot),
    Running(u64),
    Abstains,
}

pub(super) fn prepare_message(at: &At, operation: u64, ballot: Ballot, takeover: bool) -> PrepareRegister {
    PrepareRegister { operation, namespace: at.namespace, key: at.key.clone(), ballot, takeover }
}
