//! Taking a write: the order of checks, the stamp, and bringing it to enough replicas.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arrival::{self, Exchanged, Request};
use super::key::At;
use super::machine::{State, Step};
use super::operation::{Attempt, Operation, Report, Requester, Spread, Then};
use super::rows::KeyRow;
use super::store::StoreError;
use crate::core::chain::Rights;
use crate::core::identity::MemberId;
use crate::core::limits;
use crate::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use crate::core::verified::{Submission, Verified};
use crate::core::version::{Stamps, Version};
use crate::core::write::{Write, WriteId};
use crate::wire::client::{Failure, OnConflict, Outcome, Submitted};
use crate::wire::peer::{Exchange, Known};
use crate::wire::values::Values;

/// What is to be done with a write after its parents were compared.
enum Comparison {
    /// Its parents are the live versions.
    Match,
    /// They are not.
    Mismatch,
    /// These are neither held nor presented.
    Unknown(Vec<WriteId>),
}

impl State {
    /// Takes a client's write.
    pub(super) fn submit(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        submission: Verified<Submission>,
        on_conflict: OnConflict,
        may_read: bool,
    ) -> Result<(), StoreError> {
        let write = submission.get().signed.write();
        let at = At::new(write.namespace, write.key.clone());
        if self.disk_full {
            self.fail(step, requester, Failure::DiskFull);
            return Ok(());
        }
        let replicas = self.replicas(at.object);
        if self.counts().is_err() || !replicas.contains(&self.identity.member) {
            self.forward(step, requester, request, replicas);
            return Ok(());
        }
        // What cannot be finished is not begun: the client is told while nothing has changed.
        let reachable = replicas.iter().filter(|member| self.reaches(**member)).count();
        let needed = self.write_quorum(at.namespace).max(self.read_quorum(at.namespace));
        if reachable < needed {
            let why = format!("{reachable} of the {needed} replicas that are needed can be reached");
            self.fail(step, requester, Failure::Unavailable(why));
            return Ok(());
        }
        let attempt = Attempt { request, submission, on_conflict, may_read };
        self.check_row(step, &at)?;
        if self.is_mending(&at) {
            let about = Some(attempt.submission.get().signed.id());
            return self.gather(step, requester, at, about, Then::Submit(Box::new(attempt)));
        }
        self.decide(step, requester, at, attempt, false)
    }

    /// Decides about a write: rights, applied index, live versions, then parents. `gathered`: a read
    /// quorum was merged before, so that this node is not behind.
    pub(super) fn decide(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        at: At,
        attempt: Attempt,
        gathered: bool,
    ) -> Result<(), StoreError> {
        let submission = attempt.submission.get();
        let write = submission.signed.write();
        let id = submission.signed.id();
        let judged_before = attempt.submission.policy_revision() < self.config.policy().revision();
        if judged_before
            && !arrival::still_allowed(
                &self.config,
                &write.author,
                write.namespace,
                &write.key,
                Rights::WRITE,
            )
        {
            self.fail(step, requester, Failure::Denied("no grant allows this any more".to_owned()));
            return Ok(());
        }
        let row = step.rows.key_row(&at.row)?;
        match self.known(step, &at, &row, id)? {
            Known::Nothing => {}
            Known::Live | Known::Superseded(_) => {
                self.counters.repeated += 1;
                return self.spread(step, requester, at, id, Report::Submitted);
            }
        }
        if self.is_mending(&at) && !gathered {
            return self.gather(step, requester, at, Some(id), Then::Submit(Box::new(attempt)));
        }
        if self.disk_full {
            self.fail(step, requester, Failure::DiskFull);
            return Ok(());
        }
        if !self.config.admits_epoch(write.epoch) {
            let now = self.config.write_epoch();
            self.fail(step, requester, Failure::Expired { epoch: write.epoch, now });
            return Ok(());
        }
        match self.compare(step, &at, &row, submission)? {
            Comparison::Match => {}
            Comparison::Unknown(_) | Comparison::Mismatch
                if !gathered && !self.may_keep_at_once(&attempt, &row) =>
            {
                // This node may be behind.
                return self.gather(step, requester, at, Some(id), Then::Submit(Box::new(attempt)));
            }
            Comparison::Unknown(parents) => {
                self.fail(step, requester, Failure::UnknownParents(parents));
                return Ok(());
            }
            Comparison::Mismatch if attempt.on_conflict == OnConflict::Refuse => {
                self.counters.refused += 1;
                let fits = row.footprint() < limits::FRAME_LEN / 2;
                let current = (attempt.may_read && fits).then(|| row.siblings.live().cloned().collect());
                self.reply(step, requester, Submitted::Refused { current });
                return Ok(());
            }
            Comparison::Mismatch => {}
        }
        if let Some(failure) = inadmissible(&row, write) {
            self.fail(step, requester, failure);
            return Ok(());
        }
        let past = row.siblings.past_of(&write.parents, &submission.presented);
        let crowded = past.actors() > limits::PAST_ACTORS_ADMITTED && !past.names(self.actor);
        if crowded || past.ranges() > limits::PAST_RANGES || past.actors() > limits::PAST_ACTORS {
            let replicas = self.replicas(at.object);
            self.forward(step, requester, attempt.request, replicas);
            return Ok(());
        }
        self.stamp(step, &at, &row, submission, past)?;
        self.spread(step, requester, at, id, Report::Submitted)
    }

    /// Whether a write may be kept beside the others without asking anybody: all its parents are
    /// known here, and it asked to be kept.
    fn may_keep_at_once(&self, attempt: &Attempt, row: &KeyRow) -> bool {
        let submission = attempt.submission.get();
        attempt.on_conflict == OnConflict::KeepBoth
            && submission.signed.write().parents.iter().all(|parent| {
                row.siblings.version(*parent).is_some()
                    || submission.presented.iter().any(|stamp| stamp.stamp().write == *parent)
            })
    }

    /// Compares the parents that a write names with what is live here, presented stamps included: a
    /// parent that was presented counts as live, and what lies in its past does not.
    fn compare(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        submission: &Submission,
    ) -> Result<Comparison, StoreError> {
        let parents = &submission.signed.write().parents;
        let mut live: BTreeSet<WriteId> = row.siblings.live_ids().into_iter().collect();
        let mut unknown = Vec::new();
        for parent in parents {
            if row.siblings.version(*parent).is_some() {
                continue;
            }
            if !submission.presented.iter().any(|stamp| stamp.stamp().write == *parent) {
                unknown.push(*parent);
                continue;
            }
            if self.superseder(step, at, row, *parent)?.is_some() {
                continue;
            }
            let past = row.siblings.past_of(&[*parent], &submission.presented);
            let distrusted = |actor| self.equivocators.contains(&actor);
            let covered = row.siblings.live().filter(|v| v.lies_in(&past, &distrusted)).map(Version::id);
            for id in covered {
                live.remove(&id);
            }
            live.insert(*parent);
        }
        if !unknown.is_empty() {
            return Ok(Comparison::Unknown(unknown));
        }
        let same = parents.len() == live.len() && parents.iter().all(|parent| live.contains(parent));
        Ok(if same { Comparison::Match } else { Comparison::Mismatch })
    }

    /// Makes the write an event of this actor on this key.
    fn stamp(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        submission: &Submission,
        past: crate::core::events::Past,
    ) -> Result<(), StoreError> {
        let counter = self.next_counter(step);
        let minted = row.minted.filter(|(actor, _)| *actor == self.actor).map(|(_, last)| last);
        // Counters rise per actor and key (attack 12); the reservation makes sure of it.
        assert!(minted.is_none_or(|last| last < counter), "a counter was handed out twice");
        let stamp = Stamp {
            format: STAMP_FORMAT,
            cluster: self.config.cluster(),
            object: at.object,
            write: submission.signed.id(),
            config_epoch: self.config.config_epoch(),
            policy_revision: self.config.policy().revision(),
            actor: self.actor,
            previous: minted.unwrap_or(counter - 1),
            counter,
            past,
        };
        let signed = Arc::new(SignedStamp::unsigned(stamp));
        let mut stamps = Stamps::default();
        stamps.insert(Arc::clone(&signed));
        let version = Version { signed: Arc::clone(&submission.signed), stamps };
        let deleted = version.write().is_delete();
        let id = version.id();
        let mut changed = KeyRow::clone(row);
        changed.minted = Some((self.actor, counter));
        let joined =
            self.with_index(step, at, |index, distrusted| changed.siblings.join(version, index, distrusted))?;
        let value = (joined.added && !deleted).then(|| (id, submission.value.clone()));
        self.write_down(step, at, changed, &joined, value);
        self.sign_later(signed);
        self.counters.stamped += 1;
        Ok(())
    }

    /// Brings a write that is known here to as many replicas as needed, then answers.
    pub(super) fn spread(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        at: At,
        write: WriteId,
        report: Report,
    ) -> Result<(), StoreError> {
        let number = self.operations.number();
        let mut spread = Spread {
            requester,
            needed: self.write_quorum(at.namespace),
            at,
            write,
            report,
            holders: BTreeSet::new(),
            met: BTreeSet::new(),
            answered: false,
            deadline: self.now + self.timing.deadline,
            until: self.now + self.timing.linger,
            tries: 0,
            wake: self.now + self.timing.resend,
            batch: 0,
        };
        if self.counts_for(&spread.at) {
            spread.holders.insert(self.identity.member);
        }
        let me = self.identity.member;
        let peers: Vec<MemberId> =
            self.replicas(spread.at.object).into_iter().filter(|r| *r != me && self.up.contains(r)).collect();
        for peer in peers {
            self.push(step, number, &spread, peer)?;
        }
        self.go_on_spreading(step, number, spread)
    }

    /// Sends a write to one replica; of a superseded one, what superseded it.
    pub(super) fn push(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        spread: &Spread,
        peer: MemberId,
    ) -> Result<(), StoreError> {
        let at = &spread.at;
        let row = step.rows.key_row(&at.row)?;
        let mut superseded = Vec::new();
        let mut subject = spread.write;
        if !row.siblings.is_live(spread.write)
            && let Some(claim) = self.claim(step, at, &row, spread.write)?
        {
            superseded.push(claim);
            subject = claim.1;
        }
        let mut versions = Vec::new();
        let mut values = Values::none();
        if let Some(version) = row.siblings.version(subject)
            && let Some(value) = self.value(step, at, version)?
        {
            versions.push(version.clone());
            values.push(value);
        }
        let push = Exchange {
            operation: number,
            namespace: at.namespace,
            key: at.key.clone(),
            live: row.siblings.live_ids(),
            about: Some(spread.write),
            versions,
            values,
            superseded,
            fetch: false,
        };
        step.send(peer, push);
        Ok(())
    }

    /// Counts a replica's acknowledgement.
    pub(super) fn spread_to(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut spread: Spread,
        from: MemberId,
        answer: &Exchanged,
    ) -> Result<(), StoreError> {
        if answer.about != Known::Nothing {
            if answer.counts && self.replicas(spread.at.object).contains(&from) {
                spread.holders.insert(from);
            }
            spread.met.extend(answer.live.iter().filter(|id| **id != spread.write));
        }
        self.go_on_spreading(step, number, spread)
    }

    fn go_on_spreading(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut spread: Spread,
    ) -> Result<(), StoreError> {
        // The answer rests on this node's own copy: it leaves when that is synced.
        step.rows.depend(spread.batch);
        let row = step.rows.key_row(&spread.at.row)?;
        if !spread.answered && spread.holders.len() >= spread.needed {
            spread.answered = true;
            let requester = std::mem::replace(&mut spread.requester, Requester::Nobody);
            self.answer_spread(step, requester, &spread, &row)?;
        }
        if spread.answered && !self.is_awaited(&spread) {
            return Ok(());
        }
        spread.batch = spread.batch.max(step.rows.touched());
        self.operations.insert(number, Operation::Spread(spread));
        Ok(())
    }

    /// Whether a replica that can be reached still misses the write. One that cannot is left to
    /// repair: waiting for it would only fill the memory.
    pub(super) fn is_awaited(&self, spread: &Spread) -> bool {
        self.replicas(spread.at.object).iter().any(|r| self.up.contains(r) && !spread.holders.contains(r))
    }

    fn answer_spread(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        spread: &Spread,
        row: &KeyRow,
    ) -> Result<(), StoreError> {
        self.counters.applied += 1;
        let mut met = spread.met.clone();
        met.extend(row.siblings.live_ids());
        met.remove(&spread.write);
        // A version that replaced this one alone is what the author would expect to find later.
        let successor = |id: &WriteId| {
            row.siblings.version(*id).is_some_and(|version| version.write().parents == [spread.write])
        };
        let siblings: Vec<WriteId> = met.into_iter().filter(|id| !successor(id)).collect();
        let version = row.siblings.version(spread.write);
        let stamps = version.map(|v| v.stamps.iter().map(Arc::clone).collect()).unwrap_or_default();
        match spread.report {
            Report::Submitted => self.reply(step, requester, Submitted::Applied { stamps, siblings }),
            Report::Outcome => {
                let superseded_by = self.superseder(step, &spread.at, row, spread.write)?;
                self.reply(step, requester, Outcome::Applied { stamps, siblings, superseded_by });
            }
        }
        Ok(())
    }

    pub(super) fn tick_spread(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        mut spread: Spread,
    ) -> Result<(), StoreError> {
        if !spread.answered && self.now >= spread.deadline {
            spread.answered = true;
            let requester = std::mem::replace(&mut spread.requester, Requester::Nobody);
            self.counters.incomplete += 1;
            step.rows.depend(spread.batch);
            let copies = u8::try_from(spread.holders.len()).unwrap_or(u8::MAX);
            let needed = u8::try_from(spread.needed).unwrap_or(u8::MAX);
            match spread.report {
                Report::Submitted => self.reply(step, requester, Submitted::Incomplete { copies, needed }),
                Report::Outcome => self.reply(step, requester, Outcome::Incomplete { copies, needed }),
            }
        }
        if spread.answered && (self.now >= spread.until || !self.is_awaited(&spread)) {
            return Ok(());
        }
        spread.tries += 1;
        spread.wake = self.now + (self.timing.resend << spread.tries.min(4));
        for peer in self.replicas(spread.at.object) {
            if self.up.contains(&peer) && !spread.holders.contains(&peer) {
                self.push(step, number, &spread, peer)?;
            }
        }
        self.operations.insert(number, Operation::Spread(spread));
        Ok(())
    }
}

/// Why a write whose parents are settled cannot be taken all the same, if it cannot.
fn inadmissible(row: &KeyRow, write: &Write) -> Option<Failure> {
    let held = write.parents.iter().filter_map(|parent| row.siblings.version(*parent));
    let generations: Vec<u64> = held.map(|version| version.write().generation).collect();
    let highest = generations.iter().copied().max().unwrap_or(0);
    let fits = if generations.len() == write.parents.len() {
        // Saturating: nobody can make a key unwritable by claiming the highest generation there is.
        write.generation == highest.saturating_add(1)
    } else {
        // Of a parent that is only presented the generation is not known.
        write.generation > highest
    };
    if !fits {
        return Some(Failure::Generation);
    }
    let live = row.siblings.live().count();
    let names_live = write.parents.iter().any(|parent| row.siblings.is_live(*parent));
    let crowded = live >= limits::SIBLINGS_ADMITTED
        || row.footprint() + write.parents.len() * 32 > limits::ROW_ADMITTED;
    (crowded && !names_live).then_some(Failure::TooManySiblings(live as u32))
}
