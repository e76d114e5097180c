//! The disk of a node: the store in memory, the high-water file beside it, and what goes wrong.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use tanist::core::identity::Incarnation;
use tanist::core::object::{Key, NamespaceId, ObjectId};
use tanist::core::write::WriteId;
use tanist::engine::rows::{self, KeyRow};
use tanist::engine::store::View as _;
use tanist::storage::Store as _;
use tanist::storage::amnesia::{Amnesia, Mark};
use tanist::storage::memory::{Memory, Snapshot};

use super::founding::Founding;

/// The first byte of the rows of keys.
const KEY_TABLE: u8 = 2;
/// The first byte of the rows of the applied index.
pub const INDEX_TABLE: u8 = 3;
/// The first byte of the rows of what a chain's acceptor promised and accepted.
pub const ACCEPTOR_TABLE: u8 = 6;
/// The first byte of the rows of registers.
pub const REGISTER_TABLE: u8 = 10;

/// The first byte of the rows of values.
const VALUE_TABLE: u8 = 4;
/// The first bytes of rows that may rot: those of registers, too.
const ROTTING: [u8; 4] = [KEY_TABLE, INDEX_TABLE, VALUE_TABLE, 10];

/// One node's data directory.
pub struct Disk {
    /// The rows.
    pub rows: Memory,
    /// The incarnation file.
    pub incarnation: Option<Incarnation>,
    /// The high-water file.
    pub mark: Option<Mark>,
    /// Decoded rows of keys, for the checks: most of them look at the same bytes again.
    decoded: RefCell<BTreeMap<Key, (Bytes, Rc<KeyRow>)>>,
    /// Syncs are lies: the next crash takes back what they claimed.
    pub lies: bool,
    backup: Option<(Snapshot, Option<Incarnation>, Option<Mark>)>,
}

impl Disk {
    /// The directory that founding a cluster leaves.
    pub fn founded(founding: &Founding, incarnation: Incarnation) -> Self {
        let rows = Memory::new();
        rows.commit(&founding.first_batch()).expect("an empty disk takes its first batch");
        let mark = Some(Mark { incarnation, batch: 1 });
        Disk {
            rows,
            incarnation: Some(incarnation),
            mark,
            decoded: RefCell::default(),
            lies: false,
            backup: None,
        }
    }

    /// What a starting node finds out alone.
    pub fn verdict(&self) -> Amnesia {
        Amnesia::judge(self.incarnation, Some(self.rows.last_batch()), self.mark)
    }

    /// The data gets another life.
    pub fn rename(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
        self.mark = Some(Mark { incarnation, batch: self.rows.last_batch() });
    }

    /// Notes in the high-water file how far the store is.
    pub fn note_mark(&mut self) {
        if let Some(mark) = &mut self.mark {
            mark.batch = self.rows.last_batch();
        }
    }

    /// Keeps the present state aside.
    pub fn back_up(&mut self) {
        self.backup = Some((self.rows.snapshot(), self.incarnation, self.mark));
    }

    /// Brings back what was kept aside, the high-water file with it if `mark`. Returns the last batch
    /// before and after, unless nothing was kept.
    pub fn restore(&mut self, mark: bool) -> Option<(u64, u64)> {
        let (snapshot, incarnation, old_mark) = self.backup.clone()?;
        let before = self.rows.last_batch();
        let after = snapshot.last_batch();
        self.rows.restore(snapshot);
        if mark {
            self.incarnation = incarnation;
            self.mark = old_mark;
        }
        Some((before, after))
    }

    /// While on, syncs are lies.
    pub fn lie(&mut self, on: bool) {
        self.rows.sync_lies(on);
        self.lies = on;
    }

    /// Brings back the high-water file that was kept aside, if the store lost anything since.
    pub fn restore_mark(&mut self) {
        if let Some((snapshot, _, mark)) = &self.backup
            && snapshot.last_batch() <= self.rows.last_batch()
        {
            self.mark = *mark;
        }
    }

    /// Empties the directory.
    pub fn wipe(&mut self) {
        self.rows = Memory::new();
        self.incarnation = None;
        self.mark = None;
    }

    /// Loses the row of `key`, and its rows of the index if `index`. Returns whether anything was lost.
    pub fn lose_key(&self, namespace: NamespaceId, key: &Key, index: bool) -> bool {
        let row = rows::key(namespace, key);
        let indexes = rows::index_of(ObjectId::new(namespace, key));
        let lost = |at: &[u8], _: &[u8]| at == &row[..] || (index && at.starts_with(&indexes));
        self.rows.lose_rows(lost) > 0
    }

    /// The keys of rows that a node reads again and again: of keys, of the index, of values, of registers.
    pub fn rows_that_rot(&self) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        self.rows.lose_rows(|row, _| {
            if row.first().is_some_and(|table| ROTTING.contains(table)) {
                found.push(row.to_vec());
            }
            false
        });
        found
    }

    /// Lets a row rot so that it can be told: what a store with checksums makes of bits that flipped.
    pub fn rot(&self, row: &[u8]) {
        let is_value = row.first() == Some(&VALUE_TABLE);
        self.rows.rot(row, |bytes| match bytes.first_mut() {
            Some(encoding) if is_value => *encoding = 0xff,
            _ => bytes.truncate(bytes.len() / 2),
        });
    }

    /// What is durable of a key.
    pub fn key_row(&self, namespace: NamespaceId, key: &Key) -> Rc<KeyRow> {
        let Some(bytes) = self.rows.get(&rows::key(namespace, key)).expect("memory reads") else {
            return Rc::default();
        };
        let mut decoded = self.decoded.borrow_mut();
        match decoded.get(key) {
            Some((same, row)) if *same == bytes => Rc::clone(row),
            _ => {
                // A row that rotted is as good as lost.
                let row: Rc<KeyRow> = Rc::new(rows::decode(&bytes).unwrap_or_default());
                decoded.insert(key.clone(), (bytes, Rc::clone(&row)));
                row
            }
        }
    }

    /// Whether a write is durable here: held, or known as superseded.
    pub fn knows(&self, namespace: NamespaceId, key: &Key, write: WriteId) -> bool {
        let index = rows::index(ObjectId::new(namespace, key), write);
        self.rows.get(&index).expect("memory reads").is_some()
            || self.key_row(namespace, key).siblings.version(write).is_some()
    }

    /// Every row of a key, with the key.
    pub fn all_keys(&self, namespace: NamespaceId) -> Vec<(Key, KeyRow)> {
        let rows = self.rows.scan(&rows::keys(namespace, b""), None, usize::MAX).expect("memory scans");
        let decode = |(row, value): (Bytes, Bytes)| {
            let key = rows::key_of(&row).expect("the row's key");
            (key, rows::decode(&value).unwrap_or_default())
        };
        rows.into_iter().map(decode).collect()
    }

    /// Whether a row's key is that of a key's row.
    pub fn is_key_row(row: &[u8]) -> bool {
        row.first() == Some(&KEY_TABLE)
    }
}
