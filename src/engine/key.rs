//! One key at one replica: loading it, merging into it, and finding that it is damaged.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::Effect;
use super::batch::Rows;
use super::machine::{State, Step};
use super::operation::{Operation, Requester, Then};
use super::rows::{self, KeyRow};
use super::store::StoreError;
use crate::core::identity::ActorId;
use crate::core::limits;
use crate::core::object::{Key, NamespaceId, ObjectId};
use crate::core::siblings::{Index, Joined};
use crate::core::stamp::SignedStamp;
use crate::core::verified::{Copy, Verified};
use crate::core::version::Version;
use crate::core::write::WriteId;
use crate::wire::peer::{Evidence, Known};

/// Which key, and the names that follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub(super) namespace: NamespaceId,
    pub(super) key: Key,
    pub(super) object: ObjectId,
    pub(super) row: Bytes,
}

impl At {
    pub(super) fn new(namespace: NamespaceId, key: Key) -> Self {
        let object = ObjectId::new(namespace, &key);
        let row = rows::key(namespace, &key);
        At { namespace, key, object, row }
    }
}

/// The applied index of one key, read through a step's rows.
struct IndexRows<'r, 'a> {
    rows: RefCell<&'r mut Rows<'a>>,
    object: ObjectId,
    error: RefCell<Option<StoreError>>,
}

impl Index for IndexRows<'_, '_> {
    fn superseded_by(&self, id: WriteId) -> Option<WriteId> {
        match read_index(&mut self.rows.borrow_mut(), self.object, id) {
            Ok(by) => by,
            Err(error) => {
                *self.error.borrow_mut() = Some(error);
                None
            }
        }
    }
}

fn read_index(rows: &mut Rows<'_>, object: ObjectId, id: WriteId) -> Result<Option<WriteId>, StoreError> {
    let row = rows.get(&rows::index(object, id))?;
    match row.map(|bytes| rows::decode(&bytes)).transpose() {
        // As good as lost: the next exchange brings it back.
        Err(StoreError::Damaged(_)) => Ok(None),
        other => other,
    }
}

/// What a merge did.
pub(super) struct Merged {
    /// The key's row after it.
    pub(super) row: Arc<KeyRow>,
    /// A claim named a superseding write that is not known here: its version must come first.
    pub(super) unresolved: bool,
    /// Whether anything was new. Only then is asking on worth it: otherwise two replicas that cannot
    /// take each other's versions would ask for ever.
    pub(super) changed: bool,
}

impl State {
    /// Merges versions and claims of a peer into a key.
    pub(super) fn merge(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        copies: Vec<Verified<Copy>>,
        claims: &[(WriteId, WriteId)],
    ) -> Result<Merged, StoreError> {
        let mut changed = false;
        for copy in copies {
            let Copy { version, value } = copy.into_inner();
            changed |= self.merge_version(step, at, version, value)?;
        }
        let mut unresolved = false;
        for (id, by) in claims {
            let row = step.rows.key_row(&at.row)?;
            if id == by || self.superseder(step, at, &row, *id)?.is_some() {
                continue;
            }
            // Whatever the peer named, what is written down is a version that is live here: so the
            // links of supersession never close to a ring.
            let live = if row.siblings.is_live(*by) {
                Some(*by)
            } else {
                self.claim(step, at, &row, *by)?.map(|(_, live)| live)
            };
            let Some(live) = live.filter(|live| live != id) else {
                unresolved |= row.siblings.version(*by).is_none();
                continue;
            };
            let mut after = KeyRow::clone(&row);
            let joined = self.with_index(step, at, |index, distrusted| {
                after.siblings.supersede(*id, live, index, distrusted)
            })?;
            self.write_down(step, at, after, &joined, None);
            changed = true;
        }
        Ok(Merged { row: step.rows.key_row(&at.row)?, unresolved, changed })
    }

    /// Merges one version, with its value, into a key. Returns whether anything was new.
    pub(super) fn merge_version(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        version: Version,
        value: Bytes,
    ) -> Result<bool, StoreError> {
        let row = step.rows.key_row(&at.row)?;
        let id = version.id();
        if let Some(held) = row.siblings.version(id) {
            let lost = self.is_mending(at) && self.value(step, at, held)?.is_none();
            if lost {
                step.rows.put(rows::value(at.object, id), rows::encode_value(&value));
            }
            if held.stamps == version.stamps {
                return Ok(lost);
            }
        }
        let mut changed = KeyRow::clone(&row);
        let contradictions = contradictions(&row, &version);
        for (held, new) in &contradictions {
            self.note_equivocation(step, held, new);
            if changed.evidence.len() < 2 * limits::STAMPS {
                changed.evidence.extend([Arc::clone(held), Arc::clone(new)]);
            }
        }
        let deleted = version.write().is_delete();
        let joined =
            self.with_index(step, at, |index, distrusted| changed.siblings.join(version, index, distrusted))?;
        if joined.added {
            self.counters.received += 1;
        }
        let evidence = !contradictions.is_empty();
        let news = joined.changed || evidence || !joined.superseded.is_empty();
        if news {
            let value = (joined.added && !deleted).then_some((id, value));
            self.write_down(step, at, changed, &joined, value);
        }
        Ok(news)
    }

    /// Writes down what a merge changed.
    pub(super) fn write_down(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: KeyRow,
        joined: &Joined,
        value: Option<(WriteId, Bytes)>,
    ) {
        for (id, by) in &joined.superseded {
            step.rows.put(rows::index(at.object, *id), rows::encode(by));
        }
        for id in &joined.dropped {
            step.rows.delete(rows::value(at.object, *id));
        }
        if let Some((id, value)) = value {
            step.rows.put(rows::value(at.object, id), rows::encode_value(&value));
        }
        step.rows.put_key_row(at.row.clone(), Arc::new(row));
    }

    /// Calls `merge` with the key's index and the actors that are not trusted with pasts.
    pub(super) fn with_index(
        &self,
        step: &mut Step<'_>,
        at: &At,
        merge: impl FnOnce(&dyn Index, &dyn Fn(ActorId) -> bool) -> Joined,
    ) -> Result<Joined, StoreError> {
        let index =
            IndexRows { rows: RefCell::new(&mut step.rows), object: at.object, error: RefCell::new(None) };
        let joined = merge(&index, &|actor| self.equivocators.contains(&actor));
        match index.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(joined),
        }
    }

    /// The write that superseded `id` by the applied index.
    ///
    /// A row whose superseding write is neither held nor itself superseded is damage: the version was
    /// lost and the row outlived it (S1). Then the key's index goes, and the key is read from its
    /// peers before it counts again.
    pub(super) fn superseder(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        id: WriteId,
    ) -> Result<Option<WriteId>, StoreError> {
        if let Some(namer) = row.siblings.live().find(|version| version.write().names(id)) {
            return Ok(Some(namer.id()));
        }
        let Some(by) = read_index(&mut step.rows, at.object, id)? else { return Ok(None) };
        if row.siblings.version(by).is_some() || read_index(&mut step.rows, at.object, by)?.is_some() {
            return Ok(Some(by));
        }
        self.mend(step, at)?;
        Ok(None)
    }

    /// What this replica knows of a write.
    pub(super) fn known(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        id: WriteId,
    ) -> Result<Known, StoreError> {
        if row.siblings.is_live(id) {
            return Ok(Known::Live);
        }
        Ok(self.superseder(step, at, row, id)?.map_or(Known::Nothing, Known::Superseded))
    }

    /// Says of a superseded write which version that is live here descends from it.
    pub(super) fn claim(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        row: &KeyRow,
        id: WriteId,
    ) -> Result<Option<(WriteId, WriteId)>, StoreError> {
        /// Links of supersession that one answer follows.
        const STEPS: usize = 16_384;
        let mut by = match self.superseder(step, at, row, id)? {
            Some(by) => by,
            None => return Ok(None),
        };
        for walked in 0..STEPS {
            if row.siblings.is_live(by) {
                if walked > 4 {
                    // The next one who asks gets there at once.
                    step.rows.put(rows::index(at.object, id), rows::encode(&by));
                }
                return Ok(Some((id, by)));
            }
            match self.superseder(step, at, row, by)? {
                Some(next) => by = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Makes sure that the key's row can be read. One that does not decode is as good as lost: it goes,
    /// with what rests on it, and the key is read from its peers before it counts again.
    pub(super) fn check_row(&mut self, step: &mut Step<'_>, at: &At) -> Result<(), StoreError> {
        match step.rows.key_row(&at.row) {
            Err(StoreError::Damaged(_)) => {
                step.rows.delete(at.row.clone());
                self.mend(step, at)
            }
            Err(failed) => Err(failed),
            Ok(_) => Ok(()),
        }
    }

    /// Throws away the key's index and reads the key from its peers.
    fn mend(&mut self, step: &mut Step<'_>, at: &At) -> Result<(), StoreError> {
        step.rows.delete_all(&rows::index_of(at.object))?;
        self.begin_mending(step, at)
    }

    /// Reads the key from its peers, durably: until they have answered, this replica does not count
    /// for it, a restart included.
    fn begin_mending(&mut self, step: &mut Step<'_>, at: &At) -> Result<(), StoreError> {
        if !self.operations.mending.insert(at.object) {
            return Ok(());
        }
        self.counters.damaged += 1;
        step.rows.put(rows::mending(at.object), rows::encode(&(at.namespace, &at.key)));
        self.gather(step, Requester::Nobody, at.clone(), None, Then::Mend)
    }

    /// The key was read from its peers.
    pub(super) fn end_mending(&mut self, step: &mut Step<'_>, at: &At) {
        self.operations.mending.remove(&at.object);
        step.rows.delete(rows::mending(at.object));
    }

    /// Goes on with what was being mended when the node stopped.
    pub(super) fn resume_mending(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        for at in std::mem::take(&mut self.operations.unmended) {
            self.gather(step, Requester::Nobody, at, None, Then::Mend)?;
        }
        Ok(())
    }

    /// Whether this replica's answer about the key counts in a quorum.
    pub(super) fn counts_for(&self, at: &At) -> bool {
        self.counts().is_ok()
            && !self.is_mending(at)
            && self.replicas(at.object).contains(&self.identity.member)
    }

    /// Whether the key is being read from its peers after damage.
    pub(super) fn is_mending(&self, at: &At) -> bool {
        self.operations.mending.contains(&at.object)
    }

    /// Reads the value of a held version. One that is lost or damaged is not served, and is read from
    /// the peers.
    pub(super) fn value(
        &mut self,
        step: &mut Step<'_>,
        at: &At,
        version: &Version,
    ) -> Result<Option<Bytes>, StoreError> {
        if version.write().is_delete() {
            return Ok(Some(Bytes::new()));
        }
        let stored = step.rows.get(&rows::value(at.object, version.id()))?;
        let value = stored.and_then(|stored| rows::decode_value(&stored).ok());
        let value = value.filter(|value| version.write().body.matches(value));
        if value.is_none() {
            self.begin_mending(step, at)?;
        }
        Ok(value)
    }

    /// Takes evidence that a peer found.
    pub(super) fn evidence(&mut self, step: &mut Step<'_>, evidence: &Evidence) {
        self.note_equivocation(step, &evidence.first, &evidence.second);
    }

    fn note_equivocation(
        &mut self,
        step: &mut Step<'_>,
        first: &Arc<SignedStamp>,
        second: &Arc<SignedStamp>,
    ) {
        let actor = first.stamp().actor;
        if !self.equivocators.insert(actor) {
            return;
        }
        self.counters.equivocations += 1;
        step.rows.put_evidence(rows::equivocator(actor), Arc::clone(first), Arc::clone(second));
        let evidence = Evidence { first: Arc::clone(first), second: Arc::clone(second) };
        for peer in self.up.clone() {
            step.send(peer, evidence.clone());
        }
        step.emit(Effect::Equivocation(Box::new(evidence)));
        if actor == self.actor {
            let why = "another node stamped under this node's identity: its data was copied".to_owned();
            step.emit(Effect::Forgot { why });
        }
    }

    /// Looks again at every operation that is due.
    pub(super) fn tick_operations(&mut self, step: &mut Step<'_>) -> Result<(), StoreError> {
        for number in self.operations.due(self.now) {
            match self.operations.take(number) {
                Some(Operation::Gather(gather)) => self.tick_gather(step, number, gather)?,
                Some(Operation::Spread(spread)) => self.tick_spread(step, number, spread)?,
                Some(Operation::Forwarding(forwarding)) => self.end_forwarding(step, forwarding),
                None => {}
            }
        }
        Ok(())
    }

    /// A peer is back: operations that wait for it ask it again at once.
    pub(super) fn resume_with(
        &mut self,
        step: &mut Step<'_>,
        peer: crate::core::identity::MemberId,
    ) -> Result<(), StoreError> {
        for number in self.operations.numbers() {
            match self.operations.take(number) {
                Some(Operation::Gather(mut gather)) => {
                    let waits = gather.asked.len() + 1 < gather.needed.max(2) || gather.asked.contains(&peer);
                    let replica = self.replicas(gather.at.object).contains(&peer);
                    if replica && waits && !gather.answers.contains_key(&peer) {
                        self.ask(step, number, &mut gather, peer)?;
                    }
                    self.operations.insert(number, Operation::Gather(gather));
                }
                Some(Operation::Spread(spread)) => {
                    let replica = self.replicas(spread.at.object).contains(&peer);
                    if replica && !spread.holders.contains(&peer) {
                        self.push(step, number, &spread, peer)?;
                    }
                    self.operations.insert(number, Operation::Spread(spread));
                }
                Some(other) => self.operations.insert(number, other),
                None => {}
            }
        }
        Ok(())
    }

    /// A peer is gone: operations that wait for it go on with others.
    pub(super) fn go_on_without(
        &mut self,
        step: &mut Step<'_>,
        peer: crate::core::identity::MemberId,
    ) -> Result<(), StoreError> {
        for number in self.operations.numbers() {
            match self.operations.take(number) {
                Some(Operation::Gather(mut gather)) => {
                    if gather.asked.contains(&peer) && !gather.answers.contains_key(&peer) {
                        self.ask_all(step, number, &mut gather)?;
                    }
                    self.operations.insert(number, Operation::Gather(gather));
                }
                Some(Operation::Spread(spread)) if spread.answered && !self.is_awaited(&spread) => {}
                Some(Operation::Forwarding(mut forwarding)) if forwarding.target == peer => {
                    forwarding.doubtful = true;
                    self.forward_on(step, forwarding);
                }
                Some(other) => self.operations.insert(number, other),
                None => {}
            }
        }
        Ok(())
    }
}

/// Stamps of `version` that contradict stamps of the row: one event, two statements.
fn contradictions(row: &KeyRow, version: &Version) -> Vec<(Arc<SignedStamp>, Arc<SignedStamp>)> {
    let mut found = Vec::new();
    for new in version.stamps.iter() {
        for held in row.siblings.held().filter_map(|held| held.stamps.at(new.stamp().dot())) {
            if held != new {
                found.push((Arc::clone(held), Arc::clone(new)));
            }
        }
    }
    found
}
