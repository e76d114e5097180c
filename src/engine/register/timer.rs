//! What time does to registers: deadlines, resends, pauses, and telling what was chosen.

use super::super::machine::{State, Step};
use super::super::store::StoreError;
use super::acceptor::accept_message;
use super::job::Job;
use super::proposer::prepare_message;
use super::{At, FORGET, Phase, Register, TELL};
use crate::core::chain::Ballot;
use crate::core::hash::{Context, Hash};
use crate::core::identity::MemberId;
use crate::engine::Millis;
use crate::wire::register::ChosenRegister;

/// Resends before a ballot that somebody refused is given up for a fresh one.
const RESENDS: Millis = 4;

impl State {
    /// A pause that grows with failures and differs between nodes and attempts, so that two proposers
    /// do not outbid each other for ever.
    pub(super) fn pause(&self, register: &Register) -> Millis {
        let seed = Hash::of(Context::Placement, &(self.actor, register.at.object, self.operations.last()));
        let random = Millis::from(u16::from_be_bytes([seed.0[0], seed.0[1]]));
        let span = 4 << register.failures.min(6);
        1 + random % span
    }

    /// Looks at the registers that are due.
    pub(in crate::engine) fn tick_registers(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        self.write_known(step)?;
        let now = self.now;
        let due: Vec<_> =
            self.registers.wakes.iter().take_while(|(wake, _)| *wake <= now).map(|(_, o)| *o).collect();
        for object in due {
            if let Some(register) = self.registers.take_known(object) {
                self.tick_register(step, register)?;
            }
        }
        Ok(())
    }

    fn tick_register(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let now = self.now;
        let (late, queue): (Vec<Job>, Vec<Job>) =
            std::mem::take(&mut register.queue).into_iter().partition(|job| job.deadline <= now);
        register.queue = queue.into();
        for job in &late {
            self.give_up(step, job);
        }
        if let Some(round) = &register.round
            && round.jobs.iter().any(|job| job.deadline <= now)
        {
            // Whoever can wait goes on with a fresh ballot.
            let Some(round) = register.round.take() else { return Ok(()) };
            register.lead = None;
            let (late, rest): (Vec<Job>, Vec<Job>) =
                round.jobs.into_iter().partition(|job| job.deadline <= now);
            for job in &late {
                self.give_up(step, job);
            }
            for job in rest.into_iter().rev() {
                register.queue.push_front(job);
            }
        }
        if let Some((ballot, false)) = register.chosen
            && register.round.is_none()
            && register.used + TELL <= now
        {
            register.chosen = Some((ballot, true));
            self.tell_chosen(step, &register.at, ballot)?;
        }
        match register.round {
            Some(_) => self.tick_round(step, register),
            None if register.queue.is_empty() && register.used + FORGET <= now => Ok(()),
            None => self.go_on(step, register),
        }
    }

    fn tick_round(&mut self, step: &mut Step<'_>, mut register: Register) -> Result<(), StoreError> {
        let now = self.now;
        let resend = self.timing.resend;
        let Some(round) = &mut register.round else { return Ok(()) };
        if let Phase::Look { patience, .. } = &round.phase
            && *patience <= now
        {
            return self.looked(step, register, true);
        }
        if round.resend > now {
            self.registers.put(register);
            return Ok(());
        }
        if now >= round.began + RESENDS * resend && round.is_hopeless(register.heard) {
            return self.failed(step, register);
        }
        // Otherwise this ballot is as good as another: late answers count, until the jobs' deadline. The
        // pauses double, because slow is often busy.
        round.resend = now + (now - round.began).max(resend);
        round.resent = true;
        let silent: Vec<MemberId> = self
            .acceptors(&register.at)
            .into_iter()
            .filter(|member| *member != self.identity.member && self.up.contains(member))
            .collect();
        for member in silent {
            self.resend(step, &register, member);
        }
        self.registers.put(register);
        Ok(())
    }

    /// Sends a peer again what it has not answered.
    fn resend(&mut self, step: &mut Step<'_>, register: &Register, to: MemberId) {
        let Some(round) = &register.round else { return };
        let after = round.batch.max(self.reserved_in());
        match &round.phase {
            Phase::Look { shown, .. } if !shown.contains_key(&to) => {
                self.send_look(step, &register.at, round.operation, to, shown.get(&self.identity.member));
            }
            Phase::Prepare { ballot, takeover, promises, refusals } => {
                if !promises.contains_key(&to) && !refusals.contains_key(&to) {
                    let message = prepare_message(&register.at, round.operation, *ballot, *takeover);
                    step.request(to, message, after);
                }
            }
            Phase::Accept { ballot, next, held, acceptances, refusals, .. } => {
                if !acceptances.contains_key(&to) && !refusals.contains(&to) {
                    let chosen = register.chosen.map(|(chosen, _)| chosen);
                    let ballots = (*ballot, *next, chosen);
                    let message = accept_message(&register.at, round.operation, ballots, held);
                    step.request_signed(to, message, after);
                }
            }
            Phase::Look { .. } => {}
        }
    }

    /// A peer is back: rounds that wait for it ask it again at once.
    pub(in crate::engine) fn resume_registers(&mut self, step: &mut Step<'_>, peer: MemberId) {
        let objects: Vec<_> = self.registers.operations.values().copied().collect();
        for object in objects {
            let Some(mut register) = self.registers.take_known(object) else { continue };
            if self.acceptors(&register.at).contains(&peer) {
                self.resend(step, &register, peer);
                if let Some(round) = &mut register.round {
                    round.resent = true;
                }
            }
            self.registers.put(register);
        }
    }

    /// Tells everybody that a ballot is chosen, so that what is shown without asking is fresh.
    fn tell_chosen(&mut self, step: &mut Step<'_>, at: &At, ballot: Ballot) -> Result<(), StoreError> {
        let me = self.identity.member;
        for member in self.acceptors(at) {
            if member == me {
                self.note_chosen(step, at, ballot)?;
            } else {
                step.send(member, ChosenRegister { namespace: at.namespace, key: at.key.clone(), ballot });
            }
        }
        Ok(())
    }
}
