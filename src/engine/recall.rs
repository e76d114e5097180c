//! Noticing that this node's data went backwards (P11).
//!
//! Every message between nodes says how far its sender's disk is, and receivers remember the highest
//! number. A node that starts asks what the others remember of it, and until a majority of the
//! electorate, itself counted, remembers nothing later than its store has, it mints, votes and
//! counts for nothing. To a member that has not answered yet it says that its disk is where it was
//! found at the start: so a number above that can only come from an earlier life.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::machine::{State, Step};
use super::store::{StoreError, View};
use super::{Effect, Identity, rows};
use crate::core::chain::Chain;
use crate::core::cluster::Configuration;
use crate::core::identity::{Incarnation, MemberId};
use crate::wire::client::AskConfig;
use crate::wire::peer::{Envelope, Recall, Recalled};

/// What is remembered of the others, and what they answered about this node.
#[derive(Debug)]
pub(super) struct Recollection {
    /// The last batch of this node's store when it started.
    opened_at: u64,
    /// Who remembers nothing later.
    confirmed: BTreeSet<MemberId>,
    /// Somebody remembers something later.
    forgot: bool,
    /// The life of each member that was heard of last, and its highest batch.
    memory: BTreeMap<MemberId, (Incarnation, u64)>,
    /// Members whose row is to be written with the next batch.
    dirty: BTreeSet<MemberId>,
}

impl Recollection {
    pub(super) fn new(
        config: &Configuration,
        identity: &Identity,
        opened_at: u64,
        view: &dyn View,
    ) -> Result<Self, StoreError> {
        let mut memory = BTreeMap::new();
        for member in &config.current().members {
            if let Some(row) = view.get(&rows::memory(member.id))? {
                memory.insert(member.id, rows::decode(&row)?);
            }
        }
        let confirmed = [identity.member].into();
        Ok(Recollection { opened_at, confirmed, forgot: false, memory, dirty: BTreeSet::new() })
    }

    /// The rows to write with the next batch. What is remembered is not worth a batch of its own.
    pub(super) fn take_rows(&mut self) -> Vec<(Bytes, Bytes)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty
            .into_iter()
            .filter_map(|member| Some((rows::memory(member), rows::encode(self.memory.get(&member)?))))
            .collect()
    }
}

impl State {
    /// Whether this node mints, votes and counts; if not, why.
    pub(super) fn counts(&self) -> Result<(), String> {
        if !self.config.lists(self.identity.member, self.identity.incarnation) {
            return Err("this node's data is new, so it is a new actor: it forwards until it is readmitted"
                .to_owned());
        }
        if self.equivocators.contains(&self.actor) {
            return Err("this node's data was copied: another node stamped under its identity".to_owned());
        }
        if self.recollection.forgot {
            return Err("this node's data went backwards".to_owned());
        }
        let voters = self.config.current();
        let confirmed =
            voters.electorate.iter().filter(|id| self.recollection.confirmed.contains(id)).count();
        let majority = self.config.majority();
        if confirmed < majority {
            return Err(format!(
                "this node started, and {confirmed} of the {majority} members that are needed have said \
                 that they remember nothing later of it"
            ));
        }
        Ok(())
    }

    /// What goes in front of a message to `to`.
    pub(super) fn envelope(&self, to: MemberId, synced: u64) -> Envelope {
        let confirmed = self.recollection.confirmed.contains(&to);
        let synced = if confirmed { synced } else { self.recollection.opened_at };
        Envelope { incarnation: self.identity.incarnation, synced }
    }

    /// Remembers how far a member's disk is.
    pub(super) fn note_envelope(&mut self, from: MemberId, envelope: Envelope) {
        let entry = self.recollection.memory.entry(from).or_insert((envelope.incarnation, 0));
        if entry.0 != envelope.incarnation {
            if !self.config.lists(from, envelope.incarnation) {
                // A life that does not count must not push the one that does out of memory.
                return;
            }
            *entry = (envelope.incarnation, 0);
        }
        if envelope.synced > entry.1 {
            entry.1 = envelope.synced;
            self.recollection.dirty.insert(from);
        }
    }

    /// Asks a peer what it remembers of this node.
    pub(super) fn recall_from(&mut self, step: &mut Step<'_>, peer: MemberId) {
        let chains = self.known_chains();
        step.send(peer, Recall { start: self.identity.first_operation, chains });
    }

    /// Asks again whoever has not answered.
    pub(super) fn recall_from_all(&mut self, step: &mut Step<'_>) {
        let silent: Vec<MemberId> =
            self.up.iter().copied().filter(|peer| !self.recollection.confirmed.contains(peer)).collect();
        for peer in silent {
            self.recall_from(step, peer);
        }
    }

    /// Whether a member that is up has not answered yet.
    pub(super) fn awaits_recall(&self) -> bool {
        self.up.iter().any(|peer| !self.recollection.confirmed.contains(peer))
    }

    /// Answers what is remembered of a peer, from before this message; and shares the configuration.
    pub(super) fn recall(&mut self, step: &mut Step<'_>, from: MemberId, asker: Incarnation, recall: Recall) {
        let remembered = self.recollection.memory.get(&from).filter(|(incarnation, _)| *incarnation == asker);
        let batch = remembered.map_or(0, |(_, batch)| *batch);
        step.send(from, Recalled { start: recall.start, incarnation: asker, batch });
        let mine = self.known_chains();
        if Chain::ALL.iter().any(|chain| mine.have(*chain) > recall.chains.have(*chain)) {
            let config = self.entries_beyond(&recall.chains);
            step.send(from, config);
        }
        if Chain::ALL.iter().any(|chain| mine.have(*chain) < recall.chains.have(*chain)) {
            self.ask_config(step, from);
        }
    }

    /// Takes a peer's answer. One to an earlier start says what was remembered before that start's batches.
    pub(super) fn recalled(&mut self, step: &mut Step<'_>, from: MemberId, recalled: Recalled) {
        let asked = (recalled.start, recalled.incarnation)
            == (self.identity.first_operation, self.identity.incarnation);
        if !asked || self.recollection.confirmed.contains(&from) {
            return;
        }
        let opened_at = self.recollection.opened_at;
        if recalled.batch > opened_at {
            if !self.recollection.forgot {
                self.recollection.forgot = true;
                let why = format!(
                    "a peer remembers batch {} of this node, whose store ended at batch {opened_at}",
                    recalled.batch
                );
                step.emit(Effect::Forgot { why });
            }
            return;
        }
        self.recollection.confirmed.insert(from);
    }

    /// The lengths of the chains known here.
    pub(super) fn known_chains(&self) -> AskConfig {
        AskConfig { have: Chain::ALL.map(|chain| self.config.length(chain)) }
    }
}
