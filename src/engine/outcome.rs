//! What became of a write whose answer was lost.

use super::arrival::Request;
use super::key::At;
use super::machine::{State, Step};
use super::operation::{Gather, Report, Requester, Then};
use super::store::StoreError;
use crate::wire::client::{AskOutcome, Failure, Outcome};
use crate::wire::peer::Known;

impl State {
    /// Asks a read quorum about a write.
    pub(super) fn outcome(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        ask: AskOutcome,
    ) -> Result<(), StoreError> {
        let at = At::new(ask.namespace, ask.key);
        self.check_row(step, &at)?;
        let replicas = self.replicas(at.object);
        if self.counts().is_err() || !replicas.contains(&self.identity.member) {
            self.forward(step, requester, request, replicas);
            return Ok(());
        }
        let reachable = replicas.iter().filter(|member| self.reaches(**member)).count();
        if reachable < self.read_quorum(at.namespace) {
            let why = format!("{reachable} replicas can be reached, too few to ask");
            self.fail(step, requester, Failure::Unavailable(why));
            return Ok(());
        }
        self.gather(step, requester, at, Some(ask.write), Then::Outcome)
    }

    /// Answers after a read quorum was merged: what anybody held is held here now, and is brought to
    /// as many replicas as an acknowledgement needs.
    pub(super) fn answer_outcome(&mut self, step: &mut Step<'_>, gather: Gather) -> Result<(), StoreError> {
        let Some(write) = gather.about else { return Ok(()) };
        let row = step.rows.key_row(&gather.at.row)?;
        match self.known(step, &gather.at, &row, write)? {
            Known::Live | Known::Superseded(_) => {
                self.spread(step, gather.requester, gather.at, write, Report::Outcome)
            }
            Known::Nothing => {
                // A replica may know it superseded by a version that did not reach this one: that is
                // not yet as many copies as an acknowledgement needs (S4).
                let copies = gather.answers.values().filter(|known| **known != Known::Nothing).count();
                let outcome = if copies == 0 {
                    Outcome::Unknown
                } else {
                    let needed = self.write_quorum(gather.at.namespace);
                    let small = |count| u8::try_from(count).unwrap_or(u8::MAX);
                    Outcome::Incomplete { copies: small(copies), needed: small(needed) }
                };
                self.reply(step, gather.requester, outcome);
                Ok(())
            }
        }
    }
}
