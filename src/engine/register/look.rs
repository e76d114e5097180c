//! Looking: one round trip without a ballot.
//!
//! A majority that shows one and the same ballot and state shows what is chosen: a value chosen before
//! the question began would have replaced that ballot at one of them. A higher promise does not matter
//! (attack 19).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::arrival;
use super::super::machine::{State, Step};
use super::super::store::StoreError;
use super::acceptor::{accept_message, empty_hash};
use super::job::{Job, Judged, Means, Task, campaigned};
use super::{At, Phase, Register, Round, Seen};
use crate::core::chain::Ballot;
use crate::core::hash::Hash;
use crate::core::identity::MemberId;
use crate::core::tenure::SignedVote;
use crate::core::verified::Held;
use crate::engine::Millis;
use crate::wire::ownership::Ballots;
use crate::wire::register::AskRegister;

impl State {
    /// Asks all acceptors what they have accepted.
    pub(super) fn begin_look(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        jobs: Vec<Job>,
    ) -> Result<(), StoreError> {
        self.counters.looks += 1;
        let operation = self.operations.number();
        let me = self.identity.member;
        let mut shown = BTreeMap::new();
        if let Some(here) = self.show_register(step, &register.at)? {
            let hash = here.held.state.hash();
            let (ballot, vote, left_ms) = (here.ballot, here.vote, here.left_ms);
            shown.insert(me, Seen { ballot, hash, held: Some(here.held), vote, left_ms });
        }
        for member in self.acceptors(&register.at).into_iter().filter(|member| *member != me) {
            self.send_look(step, &register.at, operation, member, shown.get(&me));
        }
        let patience = self.now + self.timing.resend;
        let batch = step.rows.touched();
        register.used = self.now;
        register.round = Some(self.round(operation, Phase::Look { shown, patience }, jobs, batch));
        self.looked(step, register, false)
    }

    pub(super) fn send_look(
        &self,
        step: &mut Step<'_>,
        at: &At,
        operation: u64,
        to: MemberId,
        here: Option<&Seen>,
    ) {
        let known = here.map_or_else(empty_hash, |seen| seen.hash);
        let (namespace, key) = (at.namespace, at.key.clone());
        step.request(to, AskRegister { operation, namespace, key, known }, 0);
    }

    /// A peer showed what it has accepted.
    pub(in crate::engine) fn shown_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        show: arrival::RegisterShow,
    ) -> Result<(), StoreError> {
        let Some(mut register) = self.registers.take_operation(show.operation) else { return Ok(()) };
        let acceptor = self.acceptors(&register.at).contains(&from);
        let epoch = show.ballot.is_none_or(|ballot| ballot.config_epoch == self.config.config_epoch());
        let Some(Round { phase: Phase::Look { shown, .. }, batch, .. }) =
            register.round.as_mut().filter(|_| acceptor && epoch)
        else {
            self.registers.put(register);
            return Ok(());
        };
        let batch = *batch;
        let seen = Seen {
            ballot: show.ballot,
            hash: show.hash,
            held: show.held.map(|held| Arc::new(held.into_inner())),
            vote: show.vote,
            left_ms: show.left_ms,
        };
        shown.insert(from, seen);
        step.rows.depend(batch);
        if let Some(promised) = show.promised {
            register.heard = register.heard.max(promised.counter);
        }
        self.looked(step, register, false)
    }

    /// Goes on if enough was shown. `over`: nothing more is to be hoped for.
    pub(super) fn looked(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        over: bool,
    ) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let Some(Round { phase: Phase::Look { shown, .. }, .. }) = &register.round else {
            self.registers.put(register);
            return Ok(());
        };
        let agreed = agreed(shown, count);
        let answered = shown.len();
        // Nobody waits for those who are known to be gone.
        let awaited = |member: &MemberId| self.up.contains(member) && !shown.contains_key(member);
        let over = over || !self.acceptors(&register.at).iter().any(awaited);
        if let Some((held, seen)) = agreed {
            let left_ms = let_go_after(shown, count);
            return self.agreed(step, register, &held, &seen, left_ms);
        }
        if answered == count || (over && answered > count / 2) {
            return self.disagreed(step, register);
        }
        if over
            && let Some(round) = &mut register.round
            && let Phase::Look { patience, .. } = &mut round.phase
        {
            // Too few answered: the resends go on.
            *patience = Millis::MAX;
        }
        self.registers.put(register);
        Ok(())
    }

    /// A majority showed the same: it is chosen.
    fn agreed(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        held: &Arc<Held>,
        seen: &Seen,
        left_ms: Millis,
    ) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let Some(Round { phase: Phase::Look { shown, .. }, jobs, batch, .. }) = register.round.take() else {
            return Ok(());
        };
        step.rows.depend(batch);
        self.repair_register(step, &register, held, seen, &shown);
        if let Some(ballot) = seen.ballot {
            self.tell_if_news(step, &mut register, ballot, seen.hash)?;
        }
        let votes = self.votes(&shown, seen, held);
        let proven = !self.is_resource(register.at.namespace)
            || held.state.version.is_none()
            || votes.len() > count / 2;
        let mut ordinary = Vec::new();
        let mut takeover = Vec::new();
        for job in jobs {
            match self.judge(step, &register.at, held, &job, Means::Look) {
                Judged::Answered(answer) if proven => {
                    self.answer_job(step, &job, answer, seen.ballot, &votes, left_ms);
                }
                Judged::NeedsTakeover if left_ms == 0 => takeover.push(job),
                Judged::NeedsTakeover => {
                    let answer = campaigned(Ballots::Running { left_ms }, Some(held));
                    self.reply(step, job.requester, answer);
                }
                Judged::Answered(_) | Judged::Changes(..) | Judged::NeedsRound => ordinary.push(job),
            }
        }
        self.begin_round(step, register, ordinary, takeover)
    }

    /// No majority shows the same: something is under way, or was left half done.
    fn disagreed(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let count = self.acceptors(&register.at).len();
        let Some(Round { phase: Phase::Look { shown, .. }, jobs, batch, .. }) = register.round.take() else {
            return Ok(());
        };
        step.rows.depend(batch);
        let left_ms = let_go_after(&shown, count);
        let mut ordinary = Vec::new();
        let mut takeover = Vec::new();
        for job in jobs {
            let Task::Campaign { campaign, .. } = &job.task else {
                ordinary.push(job);
                continue;
            };
            let id = campaign.get().submission.signed.id();
            let held_somewhere = shown
                .values()
                .filter_map(|seen| seen.held.as_ref())
                .any(|held| held.state.current() == Some(id));
            if held_somewhere || campaign.get().tenure.key.is_none() {
                ordinary.push(job);
            } else if left_ms == 0 {
                takeover.push(job);
            } else {
                let newest = shown.values().filter(|seen| seen.held.is_some()).max_by_key(|seen| seen.ballot);
                let there = newest.and_then(|seen| seen.held.as_deref());
                let answer = campaigned(Ballots::Running { left_ms }, there);
                self.reply(step, job.requester, answer);
            }
        }
        self.begin_round(step, register, ordinary, takeover)
    }

    /// Begins the round that is needed. A takeover's ballot can do what an ordinary one can.
    fn begin_round(
        &mut self,
        step: &mut Step<'_>,
        mut register: Register,
        ordinary: Vec<Job>,
        takeover: Vec<Job>,
    ) -> Result<(), StoreError> {
        if ordinary.is_empty() && takeover.is_empty() {
            return self.go_on(step, register);
        }
        if takeover.is_empty() {
            return self.begin_prepare(step, register, ordinary, false);
        }
        for job in ordinary {
            register.queue.push_back(job);
        }
        self.begin_prepare(step, register, takeover, true)
    }

    /// What turns out to be chosen is told, if this node did not know it.
    pub(super) fn tell_if_news(
        &mut self,
        step: &mut Step<'_>,
        register: &mut Register,
        ballot: Ballot,
        hash: Hash,
    ) -> Result<(), StoreError> {
        let Some(row) = self.register_row(step, &register.at)? else { return Ok(()) };
        let known = self.known_chosen(register.at.object, &row).is_some_and(|state| state.hash() == hash);
        if !known && register.chosen.is_none_or(|(chosen, _)| chosen < ballot) {
            register.chosen = Some((ballot, false));
            self.note_chosen(step, &register.at, ballot)?;
        }
        Ok(())
    }

    /// Delivers what is chosen to those who showed something older: it passes their rule or it does not.
    fn repair_register(
        &mut self,
        step: &mut Step<'_>,
        register: &Register,
        held: &Arc<Held>,
        seen: &Seen,
        shown: &BTreeMap<MemberId, Seen>,
    ) {
        let Some(ballot) = seen.ballot else { return };
        for (member, other) in shown {
            if other.ballot < Some(ballot) && *member != self.identity.member {
                self.counters.repaired += 1;
                let message = accept_message(&register.at, 0, (ballot, None, Some(ballot)), held);
                step.send(*member, message);
            }
        }
    }

    /// The votes among what was shown for the tenure that is chosen, sorted by actor.
    fn votes(&self, shown: &BTreeMap<MemberId, Seen>, seen: &Seen, held: &Held) -> Vec<SignedVote> {
        let Some(ballot) = seen.ballot else { return Vec::new() };
        let same = shown.iter().filter(|(_, other)| other.ballot == seen.ballot && other.hash == seen.hash);
        let votes = same.filter_map(|(member, other)| {
            other.vote.filter(|vote| self.is_vote(*member, ballot, held.state.current(), vote))
        });
        let mut votes: Vec<SignedVote> = votes.collect();
        votes.sort_by_key(|(actor, _)| *actor);
        votes
    }
}

/// What a majority shows alike, if one does, with the state.
fn agreed(shown: &BTreeMap<MemberId, Seen>, count: usize) -> Option<(Arc<Held>, Seen)> {
    shown.values().find_map(|seen| {
        let same = shown.values().filter(|other| other.ballot == seen.ballot && other.hash == seen.hash);
        let same: Vec<&Seen> = same.collect();
        if same.len() <= count / 2 {
            return None;
        }
        // Whoever holds what the asker holds leaves it out of the answer.
        let held = same.iter().find_map(|seen| seen.held.clone()).or_else(|| {
            let known = shown.values().find(|other| other.hash == seen.hash && other.held.is_some());
            known.and_then(|known| known.held.clone())
        });
        let held = held.or_else(|| (seen.hash == empty_hash()).then(Arc::default))?;
        Some((held, seen.clone()))
    })
}

/// How long it takes until a majority of the voters lets go of the tenure, by what they showed; 0 if
/// nothing keeps them.
fn let_go_after(shown: &BTreeMap<MemberId, Seen>, count: usize) -> Millis {
    let mut left: Vec<Millis> = shown.values().map(|seen| seen.left_ms).collect();
    left.sort_unstable();
    left.get(count / 2).copied().unwrap_or(Millis::MAX)
}
