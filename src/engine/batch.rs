//! The overlay: everything stepped and not yet synced, over what the store holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::rows::{self, KeyRow, RegisterRow};
use super::store::{Batch, Change, StoreError, View};
use crate::core::stamp::SignedStamp;

/// The content of a row that is not synced yet.
#[derive(Debug, Clone)]
enum Row {
    /// As it will be stored.
    Encoded(Bytes),
    /// A key's row, encoded when its batch is closed: only then its stamps are signed.
    Key(Arc<KeyRow>),
    /// A register's row, encoded when its batch is closed for the same reason.
    Register(Arc<RegisterRow>),
    /// Two stamps that contradict each other, encoded when the batch is closed for the same reason.
    Evidence(Arc<SignedStamp>, Arc<SignedStamp>),
    /// Deleted.
    Gone,
}

#[derive(Debug, Clone)]
struct Cell {
    batch: u64,
    row: Row,
}

/// A row by its name; nothing in its place if it is gone or does not decode.
pub type ScannedRow<T> = (Bytes, Option<Arc<T>>);

/// Changes that are not synced yet, each with the number of its batch.
#[derive(Debug)]
pub struct Overlay {
    cells: BTreeMap<Bytes, Cell>,
    /// The number of the batch that steps write into now.
    current: u64,
    /// Rows that the current batch changes.
    changed: BTreeSet<Bytes>,
    /// The batch in flight and its rows.
    in_flight: Option<(u64, BTreeSet<Bytes>)>,
    /// Bytes of values in the current batch.
    weight: usize,
}

impl Overlay {
    /// An overlay over a store whose last batch is `last`.
    pub fn new(last: u64) -> Self {
        Overlay {
            cells: BTreeMap::new(),
            current: last + 1,
            changed: BTreeSet::new(),
            in_flight: None,
            weight: 0,
        }
    }

    /// The last batch that is synced.
    pub fn synced(&self) -> u64 {
        self.in_flight.as_ref().map_or(self.current, |(number, _)| *number) - 1
    }

    /// Whether the current batch has changes.
    pub fn is_dirty(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Bytes that the current batch will write, roughly.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Whether a batch is in flight.
    pub fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Turns the current changes into a batch in flight, unless there are none or one is in flight.
    pub fn close(&mut self) -> Option<Batch> {
        if self.changed.is_empty() || self.is_busy() {
            return None;
        }
        let number = self.current;
        let keys = std::mem::take(&mut self.changed);
        let change = |key: &Bytes| {
            let key = key.clone();
            match &self.cells.get(&key)?.row {
                Row::Encoded(value) => Some(Change::Put { key, value: value.clone() }),
                Row::Key(row) => Some(Change::Put { key, value: rows::encode(&**row) }),
                Row::Register(row) => Some(Change::Put { key, value: rows::encode(&**row) }),
                Row::Evidence(first, second) => {
                    Some(Change::Put { key, value: rows::encode(&(first, second)) })
                }
                Row::Gone => Some(Change::Delete { key }),
            }
        };
        let changes = keys.iter().filter_map(change).collect();
        self.in_flight = Some((number, keys));
        self.current += 1;
        self.weight = 0;
        Some(Batch { number, changes })
    }

    /// The batch in flight is durable: the store shows it from now on.
    pub fn landed(&mut self) {
        let Some((number, keys)) = self.in_flight.take() else { return };
        for key in keys {
            if self.cells.get(&key).is_some_and(|cell| cell.batch == number) {
                self.cells.remove(&key);
            }
        }
    }

    fn put(&mut self, key: Bytes, row: Row) {
        self.weight += key.len()
            + match &row {
                Row::Encoded(bytes) => bytes.len(),
                Row::Key(row) => row.footprint(),
                Row::Register(row) => row.footprint(),
                Row::Evidence(..) | Row::Gone => 256,
            };
        self.changed.insert(key.clone());
        self.cells.insert(key, Cell { batch: self.current, row });
    }
}

/// What one step reads and writes.
///
/// It notes the newest unsynced batch that the step touched: what the step lets out waits for it.
pub struct Rows<'a> {
    store: &'a dyn View,
    overlay: &'a mut Overlay,
    touched: u64,
}

impl<'a> Rows<'a> {
    /// A step over `store` and `overlay`.
    pub fn new(store: &'a dyn View, overlay: &'a mut Overlay) -> Self {
        Rows { store, overlay, touched: 0 }
    }

    /// The newest unsynced batch that was read or written so far; 0 if all was durable.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// What follows also rests on `batch`: a step continues what an earlier one began.
    pub fn depend(&mut self, batch: u64) {
        if batch > self.overlay.synced() {
            self.touched = self.touched.max(batch);
        }
    }

    /// The last batch that is synced.
    pub fn synced(&self) -> u64 {
        self.overlay.synced()
    }

    /// A row's bytes.
    pub fn get(&mut self, key: &Bytes) -> Result<Option<Bytes>, StoreError> {
        if let Some(cell) = self.overlay.cells.get(key) {
            self.touched = self.touched.max(cell.batch);
            return Ok(match &cell.row {
                Row::Encoded(value) => Some(value.clone()),
                // Rows of these kinds are read by their own means only.
                Row::Key(_) | Row::Register(_) | Row::Evidence(..) | Row::Gone => None,
            });
        }
        self.store.get(key)
    }

    /// A key's row; an empty one, if there is none.
    pub fn key_row(&mut self, key: &Bytes) -> Result<Arc<KeyRow>, StoreError> {
        if let Some(cell) = self.overlay.cells.get(key) {
            self.touched = self.touched.max(cell.batch);
            return match &cell.row {
                Row::Key(row) => Ok(Arc::clone(row)),
                Row::Encoded(value) => rows::decode(value).map(Arc::new),
                Row::Register(_) | Row::Evidence(..) | Row::Gone => Ok(Arc::default()),
            };
        }
        self.store.get(key)?.map_or_else(|| Ok(Arc::default()), |bytes| rows::decode(&bytes).map(Arc::new))
    }

    /// A register's row; an empty one, if there is none.
    pub fn register_row(&mut self, key: &Bytes) -> Result<Arc<RegisterRow>, StoreError> {
        if let Some(cell) = self.overlay.cells.get(key) {
            self.touched = self.touched.max(cell.batch);
            return match &cell.row {
                Row::Register(row) => Ok(Arc::clone(row)),
                Row::Encoded(value) => rows::decode(value).map(Arc::new),
                Row::Key(_) | Row::Evidence(..) | Row::Gone => Ok(Arc::default()),
            };
        }
        self.store.get(key)?.map_or_else(|| Ok(Arc::default()), |bytes| rows::decode(&bytes).map(Arc::new))
    }

    /// Up to `limit` keys' rows that begin with `prefix` and come after `after`; nothing in place of a
    /// row that is gone or does not decode, so that a short page is the last one.
    pub fn key_rows(
        &mut self,
        prefix: &Bytes,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<ScannedRow<KeyRow>>, StoreError> {
        self.scan(prefix, after, limit, |row| match row {
            Row::Key(row) => Some(Arc::clone(row)),
            _ => None,
        })
    }

    /// As [`key_rows`](Self::key_rows), of registers.
    pub fn register_rows(
        &mut self,
        prefix: &Bytes,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<ScannedRow<RegisterRow>>, StoreError> {
        self.scan(prefix, after, limit, |row| match row {
            Row::Register(row) => Some(Arc::clone(row)),
            _ => None,
        })
    }

    fn scan<T: DeserializeOwned>(
        &mut self,
        prefix: &Bytes,
        after: Option<&Bytes>,
        limit: usize,
        unsynced: impl Fn(&Row) -> Option<Arc<T>>,
    ) -> Result<Vec<ScannedRow<T>>, StoreError> {
        // Rows in the overlay hide those in the store, so a page is taken from the union of both.
        let mut union: BTreeMap<Bytes, Option<Arc<T>>> = BTreeMap::new();
        for (key, value) in self.store.scan(prefix, after.map(|after| &after[..]), limit)? {
            // A row that does not decode is mended when its key is asked for; a listing goes on without it.
            union.insert(key, rows::decode(&value).ok().map(Arc::new));
        }
        let complete_to =
            if union.len() < limit { None } else { union.last_key_value().map(|(key, _)| key.clone()) };
        let start = after.unwrap_or(prefix).clone();
        for (key, cell) in self.overlay.cells.range(start..) {
            if !key.starts_with(prefix) {
                break;
            }
            if after == Some(key) {
                continue;
            }
            if complete_to.as_ref().is_some_and(|last| key > last) {
                break;
            }
            self.touched = self.touched.max(cell.batch);
            let row = match &cell.row {
                Row::Encoded(value) => Some(Arc::new(rows::decode(value)?)),
                row => unsynced(row),
            };
            union.insert(key.clone(), row);
        }
        Ok(union.into_iter().take(limit).collect())
    }

    /// Stores a row.
    pub fn put(&mut self, key: Bytes, value: Bytes) {
        self.overlay.put(key, Row::Encoded(value));
        self.touched = self.overlay.current;
    }

    /// Stores a key's row.
    pub fn put_key_row(&mut self, key: Bytes, row: Arc<KeyRow>) {
        self.overlay.put(key, Row::Key(row));
        self.touched = self.overlay.current;
    }

    /// Stores a register's row.
    pub fn put_register_row(&mut self, key: Bytes, row: Arc<RegisterRow>) {
        self.overlay.put(key, Row::Register(row));
        self.touched = self.overlay.current;
    }

    /// Stores evidence against an actor.
    pub fn put_evidence(&mut self, key: Bytes, first: Arc<SignedStamp>, second: Arc<SignedStamp>) {
        self.overlay.put(key, Row::Evidence(first, second));
        self.touched = self.overlay.current;
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: Bytes) {
        self.overlay.put(key, Row::Gone);
        self.touched = self.overlay.current;
    }

    /// Deletes all rows that begin with `prefix`.
    pub fn delete_all(&mut self, prefix: &Bytes) -> Result<(), StoreError> {
        const PAGE: usize = 1024;
        let mut after: Option<Bytes> = None;
        loop {
            let page = self.store.scan(prefix, after.as_deref(), PAGE)?;
            let full = page.len() == PAGE;
            after = page.last().map(|(key, _)| key.clone());
            for (key, _) in page {
                self.delete(key);
            }
            if !full {
                break;
            }
        }
        let unsynced = self.overlay.cells.range(prefix.clone()..);
        let unsynced: Vec<Bytes> =
            unsynced.map(|(key, _)| key.clone()).take_while(|key| key.starts_with(prefix)).collect();
        for key in unsynced {
            self.delete(key);
        }
        Ok(())
    }

    /// Whether the current batch has changes.
    pub fn is_dirty(&self) -> bool {
        self.overlay.is_dirty()
    }

    /// The number of the batch that this step writes into.
    pub fn current(&self) -> u64 {
        self.overlay.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty;

    impl View for Empty {
        fn get(&self, _: &[u8]) -> Result<Option<Bytes>, StoreError> {
            Ok(None)
        }

        fn scan(&self, _: &[u8], _: Option<&[u8]>, _: usize) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
            Ok(Vec::new())
        }
    }

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn attack_01_a_step_sees_what_was_stepped_and_waits_for_it() {
        let mut overlay = Overlay::new(4);
        let mut first = Rows::new(&Empty, &mut overlay);
        first.put(key("k"), key("winner"));
        assert_eq!(first.touched(), 5);
        let mut second = Rows::new(&Empty, &mut overlay);
        assert_eq!(second.get(&key("k")).unwrap(), Some(key("winner")));
        assert_eq!(second.touched(), 5, "a refusal that shows the winner waits for the winner's batch");
        let mut third = Rows::new(&Empty, &mut overlay);
        assert_eq!(third.get(&key("other")).unwrap(), None);
        assert_eq!(third.touched(), 0, "what read only durable rows leaves at once");
    }

    #[test]
    fn one_batch_is_in_flight_and_the_next_one_keeps_its_own_changes() {
        let mut overlay = Overlay::new(0);
        Rows::new(&Empty, &mut overlay).put(key("a"), key("1"));
        assert_eq!(overlay.close().unwrap().number, 1);
        assert_eq!(overlay.synced(), 0);
        Rows::new(&Empty, &mut overlay).put(key("a"), key("2"));
        assert!(overlay.close().is_none(), "one in flight");
        overlay.landed();
        assert_eq!(overlay.synced(), 1);
        let mut rows = Rows::new(&Empty, &mut overlay);
        assert_eq!(rows.get(&key("a")).unwrap(), Some(key("2")), "the newer change is not synced yet");
        assert_eq!(rows.touched(), 2);
        let batch = overlay.close().unwrap();
        assert_eq!(batch.changes, [Change::Put { key: key("a"), value: key("2") }]);
    }
}
