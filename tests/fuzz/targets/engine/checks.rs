//! What holds of an honest node whatever others say.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use bytes::Bytes;
use tanist::core::chain::{Chain, Decided};
use tanist::core::cluster::Configuration;
use tanist::core::identity::{ActorId, Incarnation};
use tanist::core::object::{Key, NamespaceId, ObjectId};
use tanist::core::register::RegisterState;
use tanist::core::stamp::SignedStamp;
use tanist::core::verified::{Copy, Held, RootCache, Verifier};
use tanist::core::version::Version;
use tanist::core::write::WriteId;
use tanist::engine::rows::{self, AcceptorRow, KeyRow, RegisterRow};
use tanist::engine::store::{Batch, Change, View as _};
use tanist::storage::Store as _;
use tanist::storage::memory::Memory;
use tanist::wire::client::Submitted;
use tanist::wire::peer::Envelope;
use tanist::wire::register::{Accepted, Promised, Verdict};
use tanist::wire::registry::{PeerMessage, Reply};

use super::node::Node;

/// The tables, by the first byte of a row's name.
mod table {
    pub const COUNTER: u8 = 1;
    pub const KEY: u8 = 2;
    pub const INDEX: u8 = 3;
    pub const VALUE: u8 = 4;
    pub const ENTRY: u8 = 5;
    pub const ACCEPTOR: u8 = 6;
    pub const MEMORY: u8 = 7;
    pub const EQUIVOCATOR: u8 = 8;
    pub const MENDING: u8 = 9;
    pub const REGISTER: u8 = 10;
}

fn row<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> T {
    rows::decode(bytes).expect("a row that the node wrote itself decodes")
}

fn stored<T: serde::de::DeserializeOwned + Default>(store: &Memory, name: &Bytes) -> T {
    store.get(name).expect("memory reads").map_or_else(T::default, |bytes| row(&bytes))
}

/// A batch takes nothing back: promises, acceptances, counters and events only rise, and what is
/// decided stays.
pub fn batch(store: &Memory, batch: &Batch) {
    assert_eq!(batch.number, store.last_batch() + 1, "a gap between batches");
    for change in &batch.changes {
        let (Change::Put { key, .. } | Change::Delete { key }) = change;
        let Some(before) = store.get(key).expect("memory reads") else { continue };
        let table = key.first().copied().unwrap_or_default();
        match change {
            // What was promised and accepted for a place in a chain goes when the place is decided.
            Change::Delete { .. } if table == table::ACCEPTOR => {
                let entry = [&[table::ENTRY], &key[1..]].concat();
                let decides = |change: &Change| matches!(change, Change::Put { key, .. } if *key == entry);
                assert!(batch.changes.iter().any(decides), "an acceptance is deleted");
            }
            Change::Delete { .. } => assert!(
                ![table::COUNTER, table::ENTRY, table::REGISTER, table::EQUIVOCATOR].contains(&table),
                "a row of table {table} is deleted"
            ),
            Change::Put { value, .. } => rises(table, &before, value),
        }
    }
}

fn rises(table: u8, before: &[u8], after: &[u8]) {
    match table {
        table::COUNTER => assert!(row::<u64>(before) <= row::<u64>(after), "reserved counters fall"),
        table::ENTRY => assert_eq!(before, after, "a decided entry changes"),
        table::KEY => {
            let (before, after): (KeyRow, KeyRow) = (row(before), row(after));
            assert!(before.minted <= after.minted, "the last minted event falls");
        }
        table::ACCEPTOR => {
            let (before, after): (AcceptorRow, AcceptorRow) = (row(before), row(after));
            assert!(before.promised <= after.promised, "a chain's promise falls");
            let ballots = (before.accepted.as_ref().map(|a| a.0), after.accepted.as_ref().map(|a| a.0));
            assert!(ballots.0 <= ballots.1, "a chain's acceptance falls");
            assert!(ballots.0 != ballots.1 || before.accepted == after.accepted, "two entries at one ballot");
        }
        table::REGISTER => {
            let (before, after): (RegisterRow, RegisterRow) = (row(before), row(after));
            assert!(before.promised <= after.promised, "a register's promise falls");
            assert!(before.takeover <= after.takeover, "a register's promise to a takeover falls");
            let at = |row: &RegisterRow| row.accepted.as_ref().map(|(ballot, _)| *ballot);
            let hash = |row: &RegisterRow| row.accepted.as_ref().map(|(_, state)| state.hash());
            assert!(at(&before) <= at(&after), "a register's acceptance falls");
            assert!(at(&before) != at(&after) || hash(&before) == hash(&after), "two states at one ballot");
        }
        table::MEMORY => {
            let (before, after): ((Incarnation, u64), (Incarnation, u64)) = (row(before), row(after));
            assert!(before.0 != after.0 || before.1 <= after.1, "the memory of a peer falls");
        }
        _ => {}
    }
}

/// A message leaves: what it states is on the disk (P9).
pub fn sent(node: &Node, envelope: &Envelope, message: &PeerMessage) {
    let store = &node.store;
    assert!(envelope.synced <= store.last_batch(), "a batch is announced before it is durable");
    match message {
        PeerMessage::Exchange(m) => {
            m.versions.iter().for_each(|version| stamped(store, m.namespace, &m.key, version));
        }
        PeerMessage::Exchanged(m) => {
            m.versions.iter().for_each(|version| stamped(store, m.namespace, &m.key, version));
            m.live.iter().for_each(|id| {
                known(store, m.namespace, &m.key, *id);
            });
        }
        PeerMessage::Promise(m) if m.answer.is_ok() => {
            promised(store, m.chain, m.number, |row| row.promised >= Some(m.ballot))
        }
        PeerMessage::Accepted(m) if m.answer.is_ok() => promised(store, m.chain, m.number, |row| {
            row.accepted.as_ref().is_some_and(|(ballot, _)| *ballot >= m.ballot)
        }),
        // An entry bears the votes that prove it, and those are durable where they were given: it may
        // leave before this disk has it, but not unproved.
        PeerMessage::Learn(m) => {
            let entry = &m.decided.signed.entry;
            let place = usize::try_from(entry.number - 1).expect("a place in a short chain");
            let known = node.machine.config().entries(entry.chain).get(place).cloned();
            assert_eq!(known.as_deref(), Some(&m.decided), "an entry is passed on that is not proved");
        }
        PeerMessage::PromisedRegister(m) if matches!(m.answer, Promised::Yes(_)) => {
            let row: RegisterRow = stored(store, &rows::register(m.namespace, &m.key));
            assert!(row.promised >= Some(m.ballot), "a promise leaves before it is durable");
        }
        PeerMessage::AcceptedRegister(m) if matches!(m.answer, Accepted::Yes { .. }) => {
            let row: RegisterRow = stored(store, &rows::register(m.namespace, &m.key));
            let at = row.accepted.map(|(ballot, _)| ballot);
            assert!(at >= Some(m.ballot), "an acceptance leaves before it is durable");
        }
        PeerMessage::ShowRegister(m) => {
            let row: RegisterRow = stored(store, &rows::register(m.namespace, &m.key));
            let at = row.accepted.map(|(ballot, _)| ballot);
            let shown = m.shown.as_ref().and_then(|shown| shown.ballot);
            assert!(at >= shown, "a state is shown before it is durable");
        }
        _ => {}
    }
}

fn promised(store: &Memory, chain: Chain, number: u64, holds: impl Fn(&AcceptorRow) -> bool) {
    let decided = store.get(&rows::entry(chain, number)).expect("memory reads").is_some();
    let row = stored(store, &rows::acceptor(chain, number));
    assert!(decided || holds(&row), "a promise for a chain leaves before it is durable");
}

/// A version that leaves is on the disk with its stamps, or was superseded there since.
fn stamped(store: &Memory, namespace: NamespaceId, key: &Key, version: &Version) {
    let Some(held) = known(store, namespace, key, version.id()) else { return };
    let lacks = |stamp: &SignedStamp| held.stamps.at(stamp.stamp().dot()).is_none();
    assert!(!version.stamps.iter().any(|stamp| lacks(stamp)), "a stamp leaves before it is durable");
}

/// The held version with this id; absent, if the index says what superseded it.
fn known(store: &Memory, namespace: NamespaceId, key: &Key, id: WriteId) -> Option<Version> {
    let row: KeyRow = stored(store, &rows::key(namespace, key));
    if let Some(version) = row.siblings.version(id) {
        return Some(version.clone());
    }
    let index = rows::index(ObjectId::new(namespace, key), id);
    assert!(store.get(&index).expect("memory reads").is_some(), "{id:?} leaves before it is durable");
    None
}

/// An answer leaves: what it shows passed the gate (P8), unless another node gave the answer.
pub fn replied(node: &Node, reply: &Reply) {
    let Reply::Versions(read) = reply else { return };
    if node.forwarded {
        return;
    }
    let mut values = read.values.as_slice().iter();
    for listed in &read.versions {
        let Some(value) = listed.inline.then(|| values.next()).flatten() else { continue };
        passes(&node.config, &listed.version, value.clone());
    }
}

/// Signatures that verified once: most are of the house, which every input begins with.
fn cache() -> &'static RootCache {
    static CACHE: OnceLock<RootCache> = OnceLock::new();
    CACHE.get_or_init(RootCache::default)
}

/// A version with its value passes the gate.
fn passes(config: &Configuration, version: &Version, value: Bytes) {
    let verifier = Verifier::new(config, cache());
    let write = version.write();
    // Of a namespace that was dropped since the mode is not known any more.
    let Ok(mode) = verifier.mode(write.namespace) else { return };
    let passed = match mode {
        tanist::core::chain::Mode::Siblings => {
            verifier.copy(Copy { version: version.clone(), value }).map(|_| ())
        }
        tanist::core::chain::Mode::Linearizable => {
            let generation = write.generation;
            let state =
                RegisterState { generation, version: Some(version.clone()), ..RegisterState::default() };
            verifier.held(Held { state, value }).map(|_| ())
        }
    };
    assert!(passed.is_ok(), "{:?} is held or shown, and would not pass: {passed:?}", version.id());
}

/// All that is on the disk decodes, and every version there passes the gate.
pub fn disk(store: &Memory, config: &Configuration) {
    for (name, value) in store.scan(&[], None, usize::MAX).expect("memory reads") {
        match name.first().copied().unwrap_or_default() {
            table::COUNTER => drop(row::<u64>(&value)),
            table::KEY => {
                let held: KeyRow = row(&value);
                held.siblings.held().for_each(|version| held_passes(store, config, version));
                let all = held.siblings.held().count();
                assert!(all == 0 || held.siblings.live().count() > 0, "versions, and none of them live");
            }
            table::INDEX => drop(row::<WriteId>(&value)),
            table::VALUE => drop(rows::decode_value(&value).expect("a value")),
            table::ENTRY => drop(row::<Decided>(&value)),
            table::ACCEPTOR => drop(row::<AcceptorRow>(&value)),
            table::MEMORY => drop(row::<(Incarnation, u64)>(&value)),
            table::EQUIVOCATOR => drop::<ActorId>(rows::equivocator_of(&name).expect("an actor")),
            table::MENDING => drop(row::<(NamespaceId, Key)>(&value)),
            table::REGISTER => {
                let held: RegisterRow = row(&value);
                assert!(held.promised >= held.accepted.as_ref().map(|(ballot, _)| *ballot));
                held.versions().for_each(|version| held_passes(store, config, version));
            }
            other => panic!("a row of table {other}"),
        }
    }
}

fn held_passes(store: &Memory, config: &Configuration, version: &Version) {
    let value = rows::value(version.write().object(), version.id());
    let value = match store.get(&value).expect("memory reads") {
        Some(value) => rows::decode_value(&value).expect("a value"),
        None => Bytes::new(),
    };
    passes(config, version, value);
}

/// What somebody without the right to write must leave as it is: versions, values, what is decided, and
/// who is known to have contradicted itself.
pub fn taken(store: &Memory) -> BTreeSet<(Bytes, Bytes)> {
    let mut taken = BTreeSet::new();
    for (name, value) in store.scan(&[], None, usize::MAX).expect("memory reads") {
        match name.first().copied().unwrap_or_default() {
            table::INDEX | table::VALUE | table::ENTRY | table::EQUIVOCATOR => {
                taken.insert((name, value));
            }
            table::KEY => {
                let held: KeyRow = row(&value);
                held.siblings.held().for_each(|version| {
                    taken.insert((name.clone(), version.id().0.to_vec().into()));
                });
            }
            table::REGISTER => {
                let held: RegisterRow = row(&value);
                held.versions().for_each(|version| {
                    taken.insert((name.clone(), version.id().0.to_vec().into()));
                });
            }
            _ => {}
        }
    }
    taken
}

/// Nothing that is stored was shown to somebody without any right.
pub fn nothing_shown(node: &Node) {
    for (token, reply) in &node.replies {
        let Some(asked) = node.strangers.get(token) else { continue };
        let shows = match reply {
            Reply::Versions(_) | Reply::Value(_) | Reply::Page(_) | Reply::Outcome(_) => true,
            Reply::Observed(_) => true,
            Reply::Submitted(Submitted::Refused { current }) => current.is_some(),
            Reply::Verdict(Verdict::Refused { current }) => current.is_some(),
            _ => false,
        };
        assert!(!shows, "a stranger's request of kind {asked} is answered with {reply:?}");
    }
}
