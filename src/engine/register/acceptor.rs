//! The acceptor: what is durable before its answer leaves, and nothing but ballots is judged.

use std::sync::Arc;

use bytes::Bytes;

use super::super::machine::{State, Step};
use super::super::rows::{self, Chosen, RegisterRow};
use super::super::store::StoreError;
use super::{At, Heard, WRITE_KNOWN};
use crate::core::chain::Ballot;
use crate::core::hash::Hash;
use crate::core::identity::MemberId;
use crate::core::limits;
use crate::core::object::ObjectId;
use crate::core::register::RegisterState;
use crate::core::tenure::{SignedVote, TenureVote};
use crate::core::verified::Held;
use crate::engine::{Millis, arrival};
use crate::wire::register::{
    AcceptRegister, Accepted, AcceptedRegister, AskRegister, ChosenRegister, PrepareRegister, Promised,
    PromisedRegister, ShowRegister, Shown,
};
use crate::wire::values::Values;

/// What this node shows as acceptor.
pub(super) struct Here {
    pub(super) ballot: Option<Ballot>,
    pub(super) promised: Option<Ballot>,
    pub(super) held: Arc<Held>,
    pub(super) vote: Option<SignedVote>,
    pub(super) left_ms: u64,
}

/// A row, with the accepted state and its value.
type Whole = (Arc<RegisterRow>, Arc<Held>);

/// What this node promises as acceptor.
pub(super) enum Promise {
    Yes(Option<(Ballot, Arc<Held>)>),
    Higher(Ballot),
    Running(u64),
    Abstains,
}

impl State {
    /// A peer asks for a promise.
    pub(in crate::engine) fn prepare_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        prepare: PrepareRegister,
    ) -> Result<(), StoreError> {
        let at = At::new(prepare.namespace, prepare.key);
        if !self.is_register(at.namespace) {
            // Its namespace may be news here.
            self.ask_config(step, from);
        }
        let cluster = self.config.cluster();
        let own = self.config.member(from).is_some_and(|m| m.actor(cluster) == prepare.ballot.actor);
        let promise = if own {
            self.promise_register(step, &at, prepare.ballot, prepare.takeover)?
        } else {
            Promise::Abstains
        };
        let (answer, value) = match promise {
            Promise::Yes(None) => (Promised::Yes(None), Values::none()),
            Promise::Yes(Some((ballot, held))) => {
                (Promised::Yes(Some((ballot, held.state.clone()))), carried(&held))
            }
            Promise::Higher(ballot) => (Promised::Higher(ballot), Values::none()),
            Promise::Running(left_ms) => (Promised::Running(left_ms), Values::none()),
            Promise::Abstains => (Promised::Abstains, Values::none()),
        };
        let At { namespace, key, .. } = at;
        let (operation, ballot) = (prepare.operation, prepare.ballot);
        step.send(from, PromisedRegister { operation, namespace, key, ballot, answer, value });
        Ok(())
    }

    /// Promises a ballot, if it is strictly higher than all before, and, to a takeover, if no lease runs.
    pub(super) fn promise_register(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        ballot: Ballot,
        takeover: bool,
    ) -> Result<Promise, StoreError> {
        if !self.judges(at, ballot) {
            return Ok(Promise::Abstains);
        }
        let Some((row, held)) = self.whole(step, at)? else { return Ok(Promise::Abstains) };
        if let Some(higher) = row.promised.filter(|promised| *promised >= ballot) {
            return Ok(Promise::Higher(higher));
        }
        let left_ms = self.lease_left(at, &held);
        if takeover && left_ms > 0 {
            return Ok(Promise::Running(left_ms));
        }
        let mut changed = RegisterRow::clone(&row);
        changed.promised = Some(ballot);
        if takeover {
            changed.takeover = changed.takeover.max(Some(ballot));
        }
        let accepted = changed.accepted.as_ref().map(|(at, _)| (*at, held));
        step.rows.put_register_row(at.row.clone(), Arc::new(changed));
        Ok(Promise::Yes(accepted))
    }

    /// A peer asks to accept a state: the proposer, or whoever saw that it is missing here.
    pub(in crate::engine) fn accept_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        accept: arrival::RegisterAccept,
    ) -> Result<(), StoreError> {
        let at = At::new(accept.namespace, accept.key);
        let (operation, ballot) = (accept.operation, accept.ballot);
        let held = Arc::new(accept.held.into_inner());
        let known = self.config.member_at(ballot.actor, ballot.config_epoch).is_some();
        let next = accept.next.filter(|next| {
            next.actor == ballot.actor
                && next.config_epoch == ballot.config_epoch
                && next.counter < limits::COUNTERS
        });
        let answer = if known {
            self.accept_state(step, &at, (ballot, next, accept.chosen), &held)?
        } else {
            Accepted::Abstains
        };
        if operation != 0 {
            let At { namespace, key, .. } = at;
            step.send(from, AcceptedRegister { operation, namespace, key, ballot, answer });
        }
        Ok(())
    }

    /// Accepts a state, unless a higher ballot was promised; with it, if asked to, promises the
    /// proposer's next ballot.
    pub(super) fn accept_state(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        (ballot, next, chosen): (Ballot, Option<Ballot>, Option<Ballot>),
        held: &Arc<Held>,
    ) -> Result<Accepted, StoreError> {
        if !self.judges(at, ballot) {
            return Ok(Accepted::Abstains);
        }
        let Some(row) = self.register_row(step, at)? else { return Ok(Accepted::Abstains) };
        if let Some(higher) = row.promised.filter(|promised| *promised > ballot)
            && row.accepted.as_ref().is_none_or(|(at, _)| *at != ballot)
        {
            return Ok(Accepted::Higher(higher));
        }
        let vote = self.tenure_vote(at, ballot, held);
        let mut changed = RegisterRow::clone(&row);
        if let Some((accepted, state)) = &row.accepted
            && *accepted == ballot
        {
            if state.hash() != held.state.hash() {
                self.counters.contradictions += 1;
                return Ok(Accepted::OtherBytes);
            }
            // Held already: the next ballot is promised only if nothing higher was (R1).
            let promised = next.filter(|next| row.promised.is_none_or(|promised| promised <= *next));
            let news = promised.is_some() && promised > row.promised;
            if news {
                changed.promised = promised;
            }
            if news || self.registers.damaged.contains(&at.object) {
                self.write_register(step, at, &row, changed, Some(held));
            }
            return Ok(Accepted::Yes { next: promised.is_some(), vote });
        }
        let known = self.registers.known.remove(&at.object).map(|(_, ballot)| ballot);
        for chosen in chosen.into_iter().chain(known) {
            settle(&mut changed, chosen);
        }
        let before = changed.accepted.take();
        if matches!(changed.chosen, Chosen::Accepted) {
            changed.chosen = before.map_or(Chosen::Nothing, |(_, state)| Chosen::Earlier(state));
        }
        changed.accepted = Some((ballot, held.state.clone()));
        let highest = Some(next.map_or(ballot, |next| next.max(ballot)));
        changed.promised = changed.promised.max(highest);
        self.hear_first(at, &row, held);
        self.write_register(step, at, &row, changed, Some(held));
        Ok(Accepted::Yes { next: next.is_some(), vote })
    }

    /// A peer asks what is accepted.
    pub(in crate::engine) fn ask_register(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        ask: AskRegister,
    ) -> Result<(), StoreError> {
        let at = At::new(ask.namespace, ask.key);
        let mut value = Values::none();
        let shown = self.show_register(step, &at)?.map(|here| {
            let hash = here.held.state.hash();
            let news = hash != ask.known;
            if news {
                value = carried(&here.held);
            }
            let state = news.then(|| here.held.state.clone());
            let Here { ballot, promised, vote, left_ms, .. } = here;
            Shown { ballot, promised, hash, state, vote, left_ms }
        });
        let At { namespace, key, .. } = at;
        step.send(from, ShowRegister { operation: ask.operation, namespace, key, shown, value });
        Ok(())
    }

    /// What is accepted here, if this node takes part.
    pub(super) fn show_register(&mut self, step: &mut Step<'_>, at: &At) -> Result<Option<Here>, StoreError> {
        if !self.is_acceptor(at) {
            return Ok(None);
        }
        let Some((row, held)) = self.whole(step, at)? else { return Ok(None) };
        let ballot = row.accepted.as_ref().map(|(ballot, _)| *ballot);
        // A ballot of another membership proves nothing in this one.
        if ballot.is_some_and(|ballot| ballot.config_epoch != self.config.config_epoch()) {
            return Ok(None);
        }
        let vote = ballot.and_then(|ballot| self.tenure_vote(at, ballot, &held));
        let left_ms = self.lease_left(at, &held);
        Ok(Some(Here { ballot, promised: row.promised, held, vote, left_ms }))
    }

    /// A peer says that a ballot is chosen.
    pub(in crate::engine) fn chosen_register(
        &mut self,
        step: &mut Step<'_>,
        said: ChosenRegister,
    ) -> Result<(), StoreError> {
        let at = At::new(said.namespace, said.key);
        self.note_chosen(step, &at, said.ballot)
    }

    /// Remembers that a ballot is chosen. Written down it is when a batch is under way anyway: nothing
    /// but what is shown without asking rests on it, so it is worth no sync of its own.
    pub(super) fn note_chosen(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        ballot: Ballot,
    ) -> Result<(), StoreError> {
        if step.rows.is_dirty() {
            return self.write_chosen(step, at, ballot);
        }
        let row = self.register_row(step, at)?;
        let accepted = row.and_then(|row| row.accepted.as_ref().map(|(accepted, _)| *accepted));
        if accepted != Some(ballot) {
            return Ok(());
        }
        self.registers.known.insert(at.object, (at.clone(), ballot));
        self.registers.write_known = self.registers.write_known.min(self.now + WRITE_KNOWN);
        Ok(())
    }

    /// Writes down what is known to be chosen, if it is time or a batch is under way anyway.
    pub(super) fn write_known(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        let due = self.registers.write_known <= self.now;
        if !due && (self.registers.known.is_empty() || !step.rows.is_dirty()) {
            return Ok(());
        }
        if self.disk_full {
            // Kept until there is room: what was shown without asking does not go back.
            self.registers.write_known = self.now + WRITE_KNOWN;
            return Ok(());
        }
        self.registers.write_known = Millis::MAX;
        for (at, ballot) in std::mem::take(&mut self.registers.known).into_values() {
            self.write_chosen(step, &at, ballot)?;
        }
        Ok(())
    }

    /// The newest state of a register that is known here to be chosen.
    pub(in crate::engine) fn known_chosen<'r>(
        &self,
        object: ObjectId,
        row: &'r RegisterRow,
    ) -> Option<&'r RegisterState> {
        let known = self.registers.known.get(&object).map(|(_, ballot)| *ballot);
        match &row.accepted {
            Some((accepted, state)) if known == Some(*accepted) => Some(state),
            _ => row.chosen(),
        }
    }

    /// Writes down that a ballot is chosen, if exactly it is accepted here (R8).
    fn write_chosen(&mut self, step: &mut Step<'_>, at: &At, ballot: Ballot) -> Result<(), StoreError> {
        let Some(row) = self.register_row(step, at)? else { return Ok(()) };
        let mut changed = RegisterRow::clone(&row);
        if settle(&mut changed, ballot) {
            self.write_register(step, at, &row, changed, None);
        }
        Ok(())
    }

    /// The register's row; nothing, if it is damaged: then this acceptor takes no part for the key,
    /// because it no longer knows what it promised.
    pub(super) fn register_row(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
    ) -> Result<Option<Arc<RegisterRow>>, StoreError> {
        match step.rows.register_row(&at.row) {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::Damaged(_)) => {
                self.note_damage(at);
                Ok(None)
            }
            Err(failed) => Err(failed),
        }
    }

    /// The row with the accepted state and its value; nothing, if one of them is damaged. A value
    /// comes back with the next acceptance.
    pub(super) fn whole(&mut self, step: &mut Step<'_>, at: &At) -> Result<Option<Whole>, StoreError> {
        let Some(row) = self.register_row(step, at)? else { return Ok(None) };
        let state = row.accepted.as_ref().map(|(_, state)| state.clone()).unwrap_or_default();
        let Some(value) = self.register_value(step, at, &state)? else { return Ok(None) };
        Ok(Some((row, Arc::new(Held { state, value }))))
    }

    /// The value of a state's version, if it is whole.
    pub(super) fn register_value(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        state: &RegisterState,
    ) -> Result<Option<Bytes>, StoreError> {
        let Some(version) = state.version.as_ref().filter(|version| !version.write().is_delete()) else {
            return Ok(Some(Bytes::new()));
        };
        let stored = step.rows.get(&rows::value(at.object, version.id()))?;
        let value = stored.and_then(|stored| rows::decode_value(&stored).ok());
        let value = value.filter(|value| version.write().body.matches(value));
        if value.is_none() {
            self.note_damage(at);
        }
        Ok(value)
    }

    fn note_damage(&mut self, at: &At) {
        if self.registers.damaged.insert(at.object) {
            self.counters.damaged += 1;
        }
    }

    /// Whether this acceptor judges a ballot at all.
    fn judges(&self, at: &At, ballot: Ballot) -> bool {
        self.is_acceptor(at)
            && self.is_register(at.namespace)
            && !self.disk_full
            && ballot.config_epoch == self.config.config_epoch()
            && ballot.counter < limits::COUNTERS
    }

    /// Writes a row down, with the value of what was accepted, and drops values that nothing needs.
    fn write_register(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        before: &RegisterRow,
        after: RegisterRow,
        accepted: Option<&Arc<Held>>,
    ) {
        for version in before.versions() {
            if after.versions().all(|kept| kept.id() != version.id()) {
                step.rows.delete(rows::value(at.object, version.id()));
            }
        }
        if let Some(held) = accepted
            && let Some(version) = held.state.version.as_ref().filter(|version| !version.write().is_delete())
            && (self.registers.damaged.remove(&at.object)
                || before.versions().all(|known| known.id() != version.id()))
        {
            step.rows.put(rows::value(at.object, version.id()), rows::encode_value(&held.value));
        }
        step.rows.put_register_row(at.row.clone(), Arc::new(after));
    }

    /// This voter's vote for the tenure that it holds at `ballot`.
    fn tenure_vote(&self, at: &At, ballot: Ballot, held: &Held) -> Option<SignedVote> {
        if !self.is_resource(at.namespace) {
            return None;
        }
        let vote = TenureVote {
            cluster: self.config.cluster(),
            config: self.config.voters_hash(),
            ballot,
            tenure: held.state.current()?,
            actor: self.actor,
        };
        Some((self.actor, vote.sign(&self.identity.key)))
    }

    /// The first acceptance of a tenure counts as hearing its owner; a re-acceptance never does, or
    /// looking at a dead owner would keep it alive.
    fn hear_first(&mut self, at: &At, row: &RegisterRow, held: &Held) {
        if !self.is_resource(at.namespace) {
            return;
        }
        let before = row.accepted.as_ref().and_then(|(_, state)| state.current());
        if let Some(tenure) = held.state.current().filter(|tenure| Some(*tenure) != before) {
            self.registers.heard.insert(at.object, Heard { tenure, at: self.now, sequence: 0 });
        }
    }
}

/// Notes that `ballot` is chosen, if exactly it is accepted. Returns whether that was news.
fn settle(row: &mut RegisterRow, ballot: Ballot) -> bool {
    let news = row.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot)
        && !matches!(row.chosen, Chosen::Accepted);
    if news {
        row.chosen = Chosen::Accepted;
    }
    news
}

/// A state's value as a message carries it.
pub(super) fn carried(held: &Held) -> Values {
    held.state.version.iter().map(|_| held.value.clone()).collect()
}

/// The message that asks to accept a state.
pub(super) fn accept_message(
    at: &At,
    operation: u64,
    (ballot, next, chosen): (Ballot, Option<Ballot>, Option<Ballot>),
    held: &Held,
) -> AcceptRegister {
    AcceptRegister {
        operation,
        namespace: at.namespace,
        key: at.key.clone(),
        ballot,
        next,
        chosen,
        state: held.state.clone(),
        value: carried(held),
    }
}

/// What hash an acceptor shows for a register that was never written.
pub(super) fn empty_hash() -> Hash {
    RegisterState::default().hash()
}
