//! Asking a read quorum about a key.

use std::collections::{BTreeMap, BTreeSet};

use super::arrival::Exchanged;
use super::key::At;
use super::machine::{State, Step};
use super::operation::{Gather, Operation, Requester, Then};
use super::store::StoreError;
use crate::core::identity::MemberId;
use crate::core::object::NamespaceId;
use crate::core::write::WriteId;
use crate::wire::client::Failure;
use crate::wire::peer::Exchange;
use crate::wire::values::Values;

impl State {
    /// The write quorum of a namespace.
    pub(super) fn write_quorum(&self, namespace: NamespaceId) -> usize {
        let replicas = self.config.replica_count();
        let namespace = self.config.policy().namespace_by_id(namespace);
        namespace.map_or(replicas / 2 + 1, |namespace| namespace.write_quorum(replicas))
    }

    /// The read quorum of a namespace.
    pub(super) fn read_quorum(&self, namespace: NamespaceId) -> usize {
        let replicas = self.config.replica_count();
        let namespace = self.config.policy().namespace_by_id(namespace);
        namespace.map_or(replicas / 2 + 1, |namespace| namespace.read_quorum(replicas))
    }

    /// Asks as many replicas as a read needs, then goes on with `then`. This node counts among them
    /// if it counts at all and the key is not damaged here.
    pub(super) fn gather(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        at: At,
        about: Option<WriteId>,
        then: Then,
    ) -> Result<(), StoreError> {
        let number = self.operations.number();
        let mut gather = Gather {
            requester,
            needed: self.read_quorum(at.namespace),
            about,
            then,
            asked: BTreeSet::new(),
            answers: BTreeMap::new(),
            heard: BTreeSet::new(),
            deadline: self.now + self.timing.deadline,
            wake: self.now + self.timing.hedge,
            batch: 0,
            at,
        };
        if self.counts_for(&gather.at) {
            let row = step.rows.key_row(&gather.at.row)?;
            let known = match about {
                Some(write) => self.known(step, &gather.at, &row, write)?,
                None => crate::wire::peer::Known::Nothing,
            };
            // Looking may have found damage: then this replica does not count after all.
            if !self.is_mending(&gather.at) {
                gather.answers.insert(self.identity.member, known);
            }
        }
        let me = self.identity.member;
        let replicas = self.replicas(gather.at.object);
        if matches!(gather.then, Then::Mend) {
            gather.needed = gather.needed.min(replicas.iter().filter(|r| **r != me).count());
        }
        let missing = gather.needed.saturating_sub(gather.answers.len());
        let reached = replicas.into_iter().filter(|r| *r != me && self.up.contains(r));
        for peer in reached.take(missing).collect::<Vec<_>>() {
            self.ask(step, number, &mut gather, peer)?;
        }
        self.go_on_gathering(step, number, gather)
    }

    /// Asks one replica.
    pub(super) fn ask(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        gather: &mut Gather,
        peer: MemberId,
    ) -> Result<(), StoreError> {
        gather.asked.insert(peer);
        let row = step.rows.key_row(&gather.at.row)?;
        let mut live = row.siblings.live_ids();
        if matches!(gather.then, Then::Mend) {
            // A version without its value is asked for as if it were not there.
            let mut whole = Vec::new();
            for version in row.siblings.live() {
                if self.value(step, &gather.at, version)?.is_some() {
                    whole.push(version.id());
                }
            }
            live = whole;
        }
        step.send(peer, question(number, &gather.at, live, gather.about));
        Ok(())
    }

    /// Asks every replica that did not answer.
    pub(super) fn ask_all(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        gather: &mut Gather,
    ) -> Result<(), StoreError> {
        let me = self.identity.member;
        for peer in self.replicas(gather.at.object) {
            if peer != me && self.up.contains(&peer) && !gather.answers.contains_key(&peer) {
                self.ask(step, number, gather, peer)?;
            }
        }
        Ok(())
    }

    /// Counts an answer whose versions were merged. `missing`: the replica has live versions that are
    /// still unknown here; `changed`: its answer brought something new.
    pub(super) fn gathered(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut gather: Gather,
        from: MemberId,
        answer: &Exchanged,
        (missing, changed): (bool, bool),
    ) -> Result<(), StoreError> {
        if missing {
            // The rest did not fit into one message, or did not pass: only progress is worth asking again.
            if changed {
                self.ask(step, number, &mut gather, from)?;
            }
        } else if self.replicas(gather.at.object).contains(&from) {
            gather.heard.insert(from);
            if answer.counts {
                gather.answers.insert(from, answer.about);
            }
        }
        self.go_on_gathering(step, number, gather)
    }

    fn go_on_gathering(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut gather: Gather,
    ) -> Result<(), StoreError> {
        step.rows.depend(gather.batch);
        // When every other replica was heard, nobody knows more, counting or not: two replicas that mend
        // the same key must not wait for each other.
        let me = self.identity.member;
        let all_heard = matches!(gather.then, Then::Mend)
            && self.replicas(gather.at.object).iter().all(|r| *r == me || gather.heard.contains(r));
        if gather.answers.len() >= gather.needed || all_heard {
            return self.after_gathering(step, gather);
        }
        gather.batch = gather.batch.max(step.rows.touched());
        self.operations.insert(number, Operation::Gather(gather));
        Ok(())
    }

    fn after_gathering(&mut self, step: &mut Step<'_>, gather: Gather) -> Result<(), StoreError> {
        match gather.then.clone() {
            Then::Read { history } => self.answer_read(step, gather.requester, &gather.at, history),
            Then::Submit(attempt) => self.decide(step, gather.requester, gather.at, *attempt, true),
            Then::Outcome => self.answer_outcome(step, gather),
            Then::Mend => {
                self.end_mending(step, &gather.at);
                Ok(())
            }
        }
    }

    pub(super) fn tick_gather(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut gather: Gather,
    ) -> Result<(), StoreError> {
        let endless = matches!(gather.then, Then::Mend);
        if self.now >= gather.deadline && !endless {
            let why = format!("{} of {} replicas answered", gather.answers.len(), gather.needed);
            self.fail(step, gather.requester, Failure::Unavailable(why));
            return Ok(());
        }
        if endless {
            gather.deadline = self.now + self.timing.deadline;
        }
        gather.wake = self.now + self.timing.resend;
        self.ask_all(step, number, &mut gather)?;
        self.operations.insert(number, Operation::Gather(gather));
        Ok(())
    }
}

/// "What do you have of this key that I lack?"
pub(super) fn question(operation: u64, at: &At, live: Vec<WriteId>, about: Option<WriteId>) -> Exchange {
    Exchange {
        operation,
        namespace: at.namespace,
        key: at.key.clone(),
        live,
        about,
        versions: Vec::new(),
        values: Values::none(),
        superseded: Vec::new(),
        fetch: true,
    }
}
