//! What clients asked and what nodes answered: the only thing that the checks of promises believe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::object::Key;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::SignedWrite;
use tanist::core::write::WriteId;
use tanist::wire::client::{OnConflict, Outcome, Submitted};
use tanist::wire::registry::Reply;

use super::registers::About;

/// A signed write, ready to be sent any number of times.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The write.
    pub signed: Arc<SignedWrite>,
    /// Its value.
    pub value: Bytes,
    /// The stamps of its parents.
    pub presented: Vec<Arc<SignedStamp>>,
    /// What to do on a mismatch.
    pub on_conflict: OnConflict,
}

impl Prepared {
    /// Its id.
    pub fn id(&self) -> WriteId {
        self.signed.id()
    }

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.signed.write().key
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// To take a write.
    Submit(WriteId),
    /// To read a key.
    Read {
        /// Which.
        key: Key,
        /// From this node alone.
        local: bool,
    },
    /// What became of a write.
    Outcome(WriteId),
    /// Something about a register or a resource.
    Register(About),
    /// Anything else.
    Other,
}

/// One request to one node.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Who asked.
    pub client: usize,
    /// Whom.
    pub node: usize,
    /// What.
    pub asked: Asked,
    /// When.
    pub sent: u64,
    /// The node got it.
    pub delivered: bool,
    /// The answer that left the node, and when.
    pub released: Option<(u64, Reply)>,
    /// When the answer reached the client.
    pub answered: Option<u64>,
}

/// How an attempt to write ended, as far as anybody can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Acknowledged, with the versions it listed.
    Acknowledged(Vec<WriteId>),
    /// Nothing was done.
    Nothing,
    /// It may have had an effect.
    Unknown,
}

impl Attempt {
    /// The reply that reached the client.
    pub fn reply(&self) -> Option<&Reply> {
        self.answered.and(self.released.as_ref()).map(|(_, reply)| reply)
    }

    /// How an attempt to write, or to learn a write's outcome, ended.
    pub fn verdict(&self) -> Verdict {
        let asks = matches!(self.asked, Asked::Outcome(_));
        match self.released.as_ref().map(|(_, reply)| reply) {
            Some(Reply::Submitted(Submitted::Applied { siblings, .. })) => {
                Verdict::Acknowledged(siblings.clone())
            }
            Some(Reply::Outcome(Outcome::Applied { siblings, superseded_by, .. })) => {
                Verdict::Acknowledged(siblings.iter().chain(superseded_by).copied().collect())
            }
            Some(Reply::Submitted(Submitted::Incomplete { .. })) => Verdict::Unknown,
            Some(Reply::Submitted(Submitted::Refused { .. }) | Reply::Failure(_)) => Verdict::Nothing,
            _ if asks || !self.delivered => Verdict::Nothing,
            _ => Verdict::Unknown,
        }
    }
}

/// Everything that was asked and answered.
#[derive(Default)]
pub struct History {
    /// The writes that were ever signed by someone who may write.
    pub writes: BTreeMap<WriteId, Prepared>,
    /// What each write descends from.
    ancestors: BTreeMap<WriteId, BTreeSet<WriteId>>,
    /// The requests; an attempt's number is its place.
    pub attempts: Vec<Attempt>,
}

/// What the history says of the writes, ready for the checks.
pub struct Ledger<'a> {
    history: &'a History,
    /// Acknowledged writes and what their acknowledgements listed.
    pub acknowledged: BTreeMap<WriteId, Vec<(usize, Vec<WriteId>)>>,
    /// Writes of which every attempt ended without effect.
    pub without_effect: BTreeSet<WriteId>,
}

impl History {
    /// The attempts that submitted `write`.
    pub fn submissions(&self, write: WriteId) -> impl Iterator<Item = (usize, &Attempt)> {
        let of = move |attempt: &Attempt| attempt.asked == Asked::Submit(write);
        self.attempts.iter().enumerate().filter(move |(_, attempt)| of(attempt))
    }

    /// The key that a request is about.
    pub fn key_of(&self, asked: &Asked) -> Option<Key> {
        match asked {
            Asked::Submit(write) | Asked::Outcome(write) => Some(self.writes.get(write)?.key().clone()),
            Asked::Read { key, .. } => Some(key.clone()),
            Asked::Register(_) | Asked::Other => None,
        }
    }

    /// Adds a signed write. Its parents were added before it.
    pub fn add(&mut self, prepared: Prepared) {
        let parents = &prepared.signed.write().parents;
        let mut ancestors: BTreeSet<WriteId> = parents.iter().copied().collect();
        ancestors.extend(parents.iter().filter_map(|parent| self.ancestors.get(parent)).flatten());
        self.ancestors.insert(prepared.id(), ancestors);
        self.writes.insert(prepared.id(), prepared);
    }

    /// Whether `ancestor` is named by `write`, or by a write that `write` names, and so on.
    pub fn descends(&self, write: WriteId, ancestor: WriteId) -> bool {
        self.ancestors.get(&write).is_some_and(|ancestors| ancestors.contains(&ancestor))
    }

    /// Whether `write` is among `ids`, or one of them descends from it.
    pub fn covered(&self, write: WriteId, ids: &[WriteId]) -> bool {
        ids.contains(&write) || ids.iter().any(|id| self.descends(*id, write))
    }

    /// What can be said of the writes now.
    pub fn ledger(&self) -> Ledger<'_> {
        let mut acknowledged: BTreeMap<WriteId, Vec<(usize, Vec<WriteId>)>> = BTreeMap::new();
        let mut effect: BTreeSet<WriteId> = BTreeSet::new();
        for (number, attempt) in self.attempts.iter().enumerate() {
            let (Asked::Submit(write) | Asked::Outcome(write)) = attempt.asked else { continue };
            match attempt.verdict() {
                Verdict::Acknowledged(listed) => {
                    effect.insert(write);
                    acknowledged.entry(write).or_default().push((number, listed));
                }
                Verdict::Unknown => {
                    effect.insert(write);
                }
                Verdict::Nothing => {}
            }
        }
        let without_effect = self.writes.keys().filter(|id| !effect.contains(id)).copied().collect();
        Ledger { history: self, acknowledged, without_effect }
    }
}

impl Ledger<'_> {
    /// The acknowledged writes of a key.
    pub fn acknowledged_of(&self, key: &Key) -> impl Iterator<Item = (WriteId, &Vec<(usize, Vec<WriteId>)>)> {
        let of = move |id: &WriteId| self.history.writes.get(id).is_some_and(|w| w.key() == key);
        self.acknowledged.iter().filter(move |(id, _)| of(id)).map(|(id, acks)| (*id, acks))
    }
}
