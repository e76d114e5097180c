//! The exchange between two replicas of a key: replication, reading and repair are one message.
//!
//! Each side names its live ids. The other merges what came, answers for the ids that it knows
//! superseded, and, if asked, sends the versions that the first lacks. So every write heals the key
//! it touches, and a key with a long history sends none of it.

use std::collections::BTreeSet;

use super::arrival::{Exchange, Exchanged};
use super::gather::question;
use super::key::{At, Merged};
use super::machine::{State, Step};
use super::operation::Operation;
use super::rows::KeyRow;
use super::store::StoreError;
use crate::core::identity::MemberId;
use crate::core::limits;
use crate::core::version::Version;
use crate::core::write::WriteId;
use crate::wire::peer::{self, Known};
use crate::wire::values::Values;

/// Bytes of values and versions that one message carries, roughly; the first version always goes.
const MESSAGE: usize = limits::FRAME_LEN / 2;

impl State {
    /// Takes an exchange from a peer, and answers it when what was merged is durable.
    pub(super) fn exchange(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        exchange: Exchange,
    ) -> Result<(), StoreError> {
        if self.disk_full && !exchange.copies.is_empty() {
            // Without room there is no answer: the sender asks again, or does with others.
            return Ok(());
        }
        let at = At::new(exchange.namespace, exchange.key);
        self.check_row(step, &at)?;
        let merged = self.merge(step, &at, exchange.copies, &exchange.superseded)?;
        let row = merged.row;
        let lacks = self.lacks(step, &at, &row, &exchange.live)?;
        let worth_asking = exchange.operation != 0 || merged.changed;
        if (lacks || merged.unresolved) && worth_asking {
            step.send(from, question(0, &at, row.siblings.live_ids(), None));
        }
        if exchange.operation == 0 && !exchange.fetch {
            return Ok(());
        }
        let about = match exchange.about {
            Some(write) => self.known(step, &at, &row, write)?,
            None => Known::Nothing,
        };
        // A write that was asked about may be superseded by one that the sender never saw, and be
        // unknown to it: a retry must find it all the same (attack 4a).
        let asked: Vec<WriteId> = exchange.live.iter().chain(&exchange.about).copied().collect();
        let superseded = self.claims(step, &at, &row, &asked)?;
        let (versions, values) = if exchange.fetch {
            self.copies_beyond(step, &at, &row, &exchange.live)?
        } else {
            (Vec::new(), Values::none())
        };
        let counts = self.counts_for(&at);
        let answer = peer::Exchanged {
            operation: exchange.operation,
            namespace: at.namespace,
            key: at.key,
            counts,
            live: row.siblings.live_ids(),
            about,
            superseded,
            versions,
            values,
        };
        step.send(from, answer);
        Ok(())
    }

    /// Takes the answer to an exchange.
    pub(super) fn exchanged(
        &mut self,
        step: &mut Step<'_>,
        from: MemberId,
        mut answer: Exchanged,
    ) -> Result<(), StoreError> {
        let at = At::new(answer.namespace, answer.key.clone());
        self.check_row(step, &at)?;
        if self.is_equivocator(from) {
            answer.counts = false;
        }
        let merged = if self.disk_full {
            Merged { row: step.rows.key_row(&at.row)?, unresolved: false, changed: false }
        } else {
            self.merge(step, &at, answer.copies.clone(), &answer.superseded)?
        };
        let missing = self.lacks(step, &at, &merged.row, &answer.live)?;
        self.repair(step, from, &at, &merged.row, &answer.live)?;
        match self.operations.take(answer.operation) {
            Some(Operation::Gather(gather)) if gather.at == at => {
                self.gathered(step, answer.operation, gather, from, &answer, (missing, merged.changed))
            }
            Some(Operation::Spread(spread)) if spread.at == at => {
                if missing
                    && (merged.changed || !spread.met.is_superset(&answer.live.iter().copied().collect()))
                {
                    step.send(from, question(0, &at, merged.row.siblings.live_ids(), None));
                }
                self.spread_to(step, answer.operation, spread, from, &answer)
            }
            Some(other) => {
                self.operations.insert(answer.operation, other);
                Ok(())
            }
            None => {
                if missing && merged.changed {
                    step.send(from, question(0, &at, merged.row.siblings.live_ids(), None));
                }
                Ok(())
            }
        }
    }

    /// Whether `live` has ids that are neither held here nor known superseded.
    fn lacks(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        live: &[WriteId],
    ) -> Result<bool, StoreError> {
        for id in live {
            if row.siblings.version(*id).is_none() && self.superseder(step, at, row, *id)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For those of `live` that are superseded here: by which version.
    fn claims(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        live: &[WriteId],
    ) -> Result<Vec<(WriteId, WriteId)>, StoreError> {
        let mut claims = Vec::new();
        for id in live {
            if !row.siblings.is_live(*id)
                && let Some(claim) = self.claim(step, at, row, *id)?
            {
                claims.push(claim);
            }
        }
        Ok(claims)
    }

    /// Sends a peer what its answer shows it to lack.
    fn repair(
        &mut self,
        step: &mut Step<'_>,
        peer: MemberId,
        at: &At,
        row: &KeyRow,
        live: &[WriteId],
    ) -> Result<(), StoreError> {
        let superseded = self.claims(step, at, row, live)?;
        let (versions, values) = self.copies_beyond(step, at, row, live)?;
        if versions.is_empty() && superseded.is_empty() {
            return Ok(());
        }
        self.counters.repaired += versions.len() as u64;
        let push = peer::Exchange {
            operation: 0,
            namespace: at.namespace,
            key: at.key.clone(),
            live: row.siblings.live_ids(),
            about: None,
            versions,
            values,
            superseded,
            fetch: false,
        };
        step.send(peer, push);
        Ok(())
    }

    /// The live versions that are not among `known`, with their values, as many as fit.
    pub(super) fn copies_beyond(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        known: &[WriteId],
    ) -> Result<(Vec<Version>, Values), StoreError> {
        let known: BTreeSet<&WriteId> = known.iter().collect();
        let mut versions: Vec<Version> = Vec::new();
        let mut values = Values::none();
        let mut room = MESSAGE;
        for version in row.siblings.live().filter(|version| !known.contains(&version.id())) {
            let size = version.write().body.value_len() + version.footprint();
            if !versions.is_empty() && size > room {
                break;
            }
            if let Some(value) = self.value(step, at, version)? {
                room = room.saturating_sub(size);
                versions.push(version.clone());
                values.push(value);
            }
        }
        Ok((versions, values))
    }

    fn is_equivocator(&self, member: MemberId) -> bool {
        self.config
            .member(member)
            .is_some_and(|m| self.equivocators.contains(&m.actor(self.config.cluster())))
    }
}
