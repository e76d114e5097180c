//! Choosing the next entry of a chain: single-decree Paxos among the electorate, one decree for each
//! place (Lamport, "Paxos Made Simple", 2001).
//!
//! An acceptor judges ballots, signatures and the place; what it promised and accepted is durable
//! before its answer leaves. A ballot's counter comes from its actor's durable reservation, so no
//! ballot is ever used twice, and a fresh attempt has a fresh one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arrival::Request;
use super::machine::{State, Step};
use super::operation::Requester;
use super::rows::{self, AcceptorRow};
use super::store::StoreError;
use super::{Effect, Millis};
use crate::core::chain::{Ballot, Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, SignedEntry, Vote};
use crate::core::identity::{ActorId, MemberId, Signature};
use crate::core::limits;
use crate::wire::client::{AskConfig, Config, Failure, Proposed};
use crate::wire::peer::{Accept, Accepted, Learn, Prepare, Promise};

/// Entries in one message at most.
const ENTRIES: usize = 256;

/// The proposals of this node, one for each place at most.
#[derive(Debug)]
pub(super) struct Proposals {
    open: BTreeMap<(Chain, u64), Proposal>,
    /// When the current write epoch began here.
    epoch_began: Millis,
    /// When what is open is looked at next.
    next_tick: Millis,
}

/// An entry that this node wants to have chosen.
#[derive(Debug)]
struct Proposal {
    requester: Requester,
    wanted: SignedEntry,
    ballot: Ballot,
    phase: Phase,
    deadline: Millis,
    /// When to try again with a fresh ballot.
    retry: Millis,
    /// The newest batch that this rests on.
    batch: u64,
}

#[derive(Debug)]
enum Phase {
    /// Waits for promises.
    Prepare { promises: BTreeMap<MemberId, Option<(Ballot, SignedEntry)>> },
    /// Waits for votes.
    Accept { entry: Box<SignedEntry>, votes: BTreeMap<ActorId, Signature> },
}

impl Proposals {
    pub(super) fn new(now: Millis) -> Self {
        Proposals { open: BTreeMap::new(), epoch_began: now, next_tick: now }
    }
}

/// How often open proposals are looked at.
const TICK: Millis = 100;

impl State {
    /// Has the electorate choose an entry.
    pub(super) fn propose(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        signed: SignedEntry,
    ) -> Result<(), StoreError> {
        let (chain, number) = (signed.entry.chain, signed.entry.number);
        if self.disk_full {
            self.fail(step, requester, Failure::DiskFull);
            return Ok(());
        }
        if let Some(decided) = self.decided(chain, number) {
            let answer = if decided.signed.entry == signed.entry {
                Proposed::Chosen
            } else {
                Proposed::Refused { why: "another change took this place in the chain".to_owned() }
            };
            self.reply(step, requester, answer);
            return Ok(());
        }
        if self.counts().is_err() {
            let members = self.config.current().electorate.clone();
            self.forward(step, requester, request, members);
            return Ok(());
        }
        if number > self.config.length(chain) + 1 {
            for peer in self.up.clone() {
                self.ask_config(step, peer);
            }
            self.fail(
                step,
                requester,
                Failure::Unavailable("this node's configuration is behind".to_owned()),
            );
            return Ok(());
        }
        if let Err(error) = self.config.check_next(&signed) {
            self.reply(step, requester, Proposed::Refused { why: error.to_string() });
            return Ok(());
        }
        if let Some(open) = self.proposals.open.get(&(chain, number)) {
            let answer = if open.wanted.entry == signed.entry {
                Proposed::Unknown
            } else {
                Proposed::Refused { why: "another change is being decided: try again".to_owned() }
            };
            self.reply(step, requester, answer);
            return Ok(());
        }
        let deadline = self.now + self.timing.deadline;
        self.begin_ballot(step, requester, signed, deadline)
    }

    /// Begins an attempt with a fresh ballot.
    fn begin_ballot(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        wanted: SignedEntry,
        deadline: Millis,
    ) -> Result<(), StoreError> {
        let counter = self.next_counter(step);
        let ballot = Ballot { config_epoch: self.config.config_epoch(), counter, actor: self.actor };
        let (chain, number) = (wanted.entry.chain, wanted.entry.number);
        let proposal = Proposal {
            requester,
            wanted,
            ballot,
            phase: Phase::Prepare { promises: BTreeMap::new() },
            deadline,
            retry: self.now + self.timing.resend + self.stagger(),
            batch: step.rows.touched(),
        };
        self.proposals.open.insert((chain, number), proposal);
        self.proposals.next_tick = self.proposals.next_tick.min(self.now + TICK);
        let prepare = Prepare { chain, number, ballot };
        for member in self.config.current().electorate.clone() {
            if member == self.identity.member {
                let promise = self.promised(step, prepare)?;
                self.promise(step, member, promise)?;
            } else {
                step.send(member, prepare);
            }
        }
        Ok(())
    }

    /// As acceptor: promises a ballot, if it is higher than all before.
    pub(super) fn prepare(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        prepare: Prepare,
    ) -> Result<(), StoreError> {
        if !self.accepts(step, from, prepare.chain, prepare.number, prepare.ballot) {
            return Ok(());
        }
        let promise = self.promised(step, prepare)?;
        step.send(from, promise);
        Ok(())
    }

    fn promised(&mut self, step: &mut Step<'_>, prepare: Prepare) -> Result<Promise, StoreError> {
        let Prepare { chain, number, ballot } = prepare;
        let mut row = self.acceptor(step, chain, number)?;
        let answer = match row.promised {
            Some(higher) if higher >= ballot => Err(higher),
            _ => {
                row.promised = Some(ballot);
                step.rows.put(rows::acceptor(chain, number), rows::encode(&row));
                Ok(row.accepted)
            }
        };
        Ok(Promise { chain, number, ballot, answer })
    }

    /// As proposer: counts a promise.
    pub(super) fn promise(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        promise: Promise,
    ) -> Result<(), StoreError> {
        let place = (promise.chain, promise.number);
        let majority = self.config.majority();
        let votes = self.config.current().electorate.contains(&from);
        let Some(proposal) = self.proposals.open.get_mut(&place) else { return Ok(()) };
        step.rows.depend(proposal.batch);
        proposal.batch = proposal.batch.max(step.rows.touched());
        let Phase::Prepare { promises } = &mut proposal.phase else { return Ok(()) };
        if promise.ballot != proposal.ballot || !votes {
            return Ok(());
        }
        match promise.answer {
            Err(higher) => {
                self.raise_counter(step, higher.counter);
                return Ok(());
            }
            Ok(accepted) => {
                promises.insert(from, accepted);
            }
        }
        if promises.len() < majority {
            return Ok(());
        }
        let highest = promises.values().flatten().max_by_key(|(ballot, _)| *ballot);
        let entry = highest.map_or_else(|| proposal.wanted.clone(), |(_, entry)| entry.clone());
        let ballot = proposal.ballot;
        proposal.phase = Phase::Accept { entry: Box::new(entry.clone()), votes: BTreeMap::new() };
        let accept = Accept { ballot, signed: entry };
        for member in self.config.current().electorate.clone() {
            if member == self.identity.member {
                if let Some(accepted) = self.accept_here(step, &accept)? {
                    self.accepted(step, member, accepted)?;
                }
            } else {
                step.send(member, accept.clone());
            }
        }
        Ok(())
    }

    /// As acceptor: accepts an entry, unless a higher ballot was promised.
    pub(super) fn accept(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        accept: Accept,
    ) -> Result<(), StoreError> {
        let entry = &accept.signed.entry;
        if !self.accepts(step, from, entry.chain, entry.number, accept.ballot) {
            return Ok(());
        }
        if let Some(accepted) = self.accept_here(step, &accept)? {
            step.send(from, accepted);
        }
        Ok(())
    }

    fn accept_here(&mut self, step: &mut Step<'_>, accept: &Accept) -> Result<Option<Accepted>, StoreError> {
        let entry = &accept.signed.entry;
        let (chain, number, ballot, hash) = (entry.chain, entry.number, accept.ballot, entry.hash());
        // Until quorums span two memberships, none is ever changed: no acceptor votes for that.
        if chain == Chain::Voters || self.config.check_next(&accept.signed).is_err() {
            return Ok(None);
        }
        let mut row = self.acceptor(step, chain, number)?;
        let other_bytes =
            row.accepted.as_ref().is_some_and(|(at, held)| *at == ballot && held.entry.hash() != hash);
        let answer = match row.promised {
            Some(higher) if higher > ballot || other_bytes => Err(higher),
            _ => {
                row.promised = Some(ballot);
                row.accepted = Some((ballot, accept.signed.clone()));
                step.rows.put(rows::acceptor(chain, number), rows::encode(&row));
                let vote = Vote {
                    cluster: self.config.cluster(),
                    chain,
                    number,
                    ballot,
                    entry: hash,
                    actor: self.actor,
                };
                Ok((self.actor, vote.sign(&self.identity.key)))
            }
        };
        Ok(Some(Accepted { chain, number, ballot, entry: hash, answer }))
    }

    /// As proposer: counts a vote.
    pub(super) fn accepted(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        accepted: Accepted,
    ) -> Result<(), StoreError> {
        let place = (accepted.chain, accepted.number);
        let majority = self.config.majority();
        let cluster = self.config.cluster();
        let voter = self.config.member(from).filter(|m| self.config.current().electorate.contains(&m.id));
        let Some((actor, key)) = voter.map(|member| (member.actor(cluster), member.key)) else {
            return Ok(());
        };
        let Some(proposal) = self.proposals.open.get_mut(&place) else { return Ok(()) };
        step.rows.depend(proposal.batch);
        proposal.batch = proposal.batch.max(step.rows.touched());
        let Phase::Accept { entry, votes } = &mut proposal.phase else { return Ok(()) };
        let hash = entry.entry.hash();
        if accepted.ballot != proposal.ballot || accepted.entry != hash {
            return Ok(());
        }
        let (voted, signature) = match accepted.answer {
            Ok(vote) => vote,
            Err(higher) => {
                self.raise_counter(step, higher.counter);
                return Ok(());
            }
        };
        let (chain, number, ballot) = (accepted.chain, accepted.number, accepted.ballot);
        let vote = Vote { cluster, chain, number, ballot, entry: hash, actor };
        if voted != actor || !vote.verifies(&key, &signature) {
            return Ok(());
        }
        votes.insert(actor, signature);
        if votes.len() < majority {
            return Ok(());
        }
        let votes = votes.iter().map(|(actor, signature)| (*actor, *signature)).collect();
        let decided = Decided { signed: SignedEntry::clone(entry), ballot, votes };
        let me = self.identity.member;
        let others: Vec<MemberId> =
            self.config.current().members.iter().map(|m| m.id).filter(|id| *id != me).collect();
        for member in others {
            step.send(member, Learn { decided: decided.clone() });
        }
        self.learn(step, me, decided)
    }

    /// Takes a chosen entry, if it is the next one and proved.
    pub(super) fn learn(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        decided: Decided,
    ) -> Result<(), StoreError> {
        let entry = &decided.signed.entry;
        let (chain, number) = (entry.chain, entry.number);
        let length = self.config.length(chain);
        if number <= length {
            return Ok(());
        }
        if number > length + 1 {
            self.ask_config(step, from);
            return Ok(());
        }
        // Not proved: whoever sent it, nothing follows from it.
        if self.config.check(&decided).is_err() {
            return Ok(());
        }
        let chosen = entry.clone();
        let row = rows::encode(&decided);
        if Arc::make_mut(&mut self.config).extend(decided).is_err() {
            return Ok(());
        }
        step.rows.put(rows::entry(chain, number), row);
        step.rows.delete(rows::acceptor(chain, number));
        if chain == Chain::WriteEpochs {
            self.proposals.epoch_began = self.now;
        }
        step.emit(Effect::Configured(Arc::clone(&self.config)));
        if let Some(proposal) = self.proposals.open.remove(&(chain, number)) {
            step.rows.depend(proposal.batch);
            let answer = if proposal.wanted.entry == chosen {
                Proposed::Chosen
            } else {
                Proposed::Refused { why: "another change took this place in the chain".to_owned() }
            };
            self.reply(step, proposal.requester, answer);
        }
        Ok(())
    }

    /// The entries that another side lacks, the voters chain first, a message full at most.
    pub(super) fn entries_beyond(&self, have: &AskConfig) -> Config {
        let mut entries: Vec<Decided> = Vec::new();
        for chain in Chain::ALL {
            let known = usize::try_from(have.have(chain)).unwrap_or(usize::MAX);
            let room = ENTRIES - entries.len();
            let beyond = self.config.entries(chain).iter().skip(known).take(room);
            entries.extend(beyond.map(|decided| Decided::clone(decided)));
        }
        Config { entries, lengths: self.known_chains().have }
    }

    /// Asks a peer for the entries that are missing here.
    pub(super) fn ask_config(&mut self, step: &mut Step<'_>, peer: MemberId) {
        step.send(peer, self.known_chains());
    }

    /// Takes a page of entries, and asks for the next one.
    pub(super) fn learn_all(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        config: Config,
    ) -> Result<(), StoreError> {
        let before = self.known_chains();
        for decided in config.entries {
            self.learn(step, from, decided)?;
        }
        let now = self.known_chains();
        let [voters, policy, epochs] = config.lengths;
        let behind = now.have[0] < voters || now.have[1] < policy || now.have[2] < epochs;
        if behind && now != before {
            self.ask_config(step, from);
        }
        Ok(())
    }

    /// Tries again what is stuck, and begins a write epoch when the current one is old.
    pub(super) fn tick_proposals(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        if self.now < self.proposals.next_tick {
            return Ok(());
        }
        let pause = if self.proposals.open.is_empty() { 10 * TICK } else { TICK };
        self.proposals.next_tick = self.now + pause;
        if self.awaits_recall() {
            self.recall_from_all(step);
        }
        let places: Vec<(Chain, u64)> = self.proposals.open.keys().copied().collect();
        for place in places {
            let Some(proposal) = self.proposals.open.get(&place) else { continue };
            let (over, again) = (self.now >= proposal.deadline, self.now >= proposal.retry);
            if !over && !again {
                continue;
            }
            let Some(proposal) = self.proposals.open.remove(&place) else { continue };
            if over || self.counts().is_err() {
                self.reply(step, proposal.requester, Proposed::Unknown);
            } else {
                self.begin_ballot(step, proposal.requester, proposal.wanted, proposal.deadline)?;
            }
        }
        self.advance_epoch(step)
    }

    /// When proposals are to be looked at next: an idle node sleeps until the epoch is old.
    pub(super) fn next_proposal_tick(&self) -> Millis {
        if self.proposals.open.is_empty() && !self.awaits_recall() {
            self.epoch_due().max(self.proposals.next_tick)
        } else {
            self.proposals.next_tick
        }
    }

    fn epoch_due(&self) -> Millis {
        self.proposals.epoch_began + self.timing.epoch + 40 * self.stagger()
    }

    fn advance_epoch(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        let number = self.config.length(Chain::WriteEpochs) + 1;
        let open = self.proposals.open.contains_key(&(Chain::WriteEpochs, number));
        if self.now < self.epoch_due() || open {
            return Ok(());
        }
        let electorate = &self.config.current().electorate;
        let reached = electorate.iter().filter(|member| self.reaches(**member)).count();
        if self.counts().is_err() || self.disk_full || reached < self.config.majority() {
            // Not now: look again after a while.
            self.proposals.epoch_began = self.now.saturating_sub(self.timing.epoch) + self.timing.epoch / 10;
            return Ok(());
        }
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::WriteEpochs,
            number,
            previous: self.config.head(Chain::WriteEpochs),
            change: ConfigChange::AdvanceEpoch,
        };
        let deadline = self.now + self.timing.deadline;
        self.begin_ballot(step, Requester::Nobody, SignedEntry { entry, admin: None }, deadline)
    }

    /// Whether this node may answer as acceptor for a place; if it is ahead or behind, it says so.
    fn accepts(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        chain: Chain,
        number: u64,
        ballot: Ballot,
    ) -> bool {
        if let Some(decided) = self.decided(chain, number) {
            step.send(from, Learn { decided });
            return false;
        }
        if number > self.config.length(chain) + 1 {
            self.ask_config(step, from);
            return false;
        }
        let cluster = self.config.cluster();
        let own = self.config.member(from).is_some_and(|member| member.actor(cluster) == ballot.actor);
        own && ballot.config_epoch == self.config.config_epoch()
            && ballot.counter < limits::COUNTERS
            && self.counts().is_ok()
            && !self.disk_full
            && self.config.current().electorate.contains(&self.identity.member)
    }

    fn decided(&self, chain: Chain, number: u64) -> Option<Decided> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.config.entries(chain).get(index).map(|decided| Decided::clone(decided))
    }

    fn acceptor(&self, step: &mut Step<'_>, chain: Chain, number: u64) -> Result<AcceptorRow, StoreError> {
        let row = step.rows.get(&rows::acceptor(chain, number))?;
        row.map_or_else(|| Ok(AcceptorRow::default()), |row| rows::decode(&row))
    }

    /// A delay that differs between members, so that they do not outbid each other for ever.
    fn stagger(&self) -> Millis {
        let members = &self.config.current().members;
        let rank = members.iter().position(|member| member.id == self.identity.member).unwrap_or(0);
        rank as Millis * 137
    }
}
