//! A store in memory that crashes like a disk, for simulation and tests.
//!
//! What a crash loses, which call fails and what rots are arguments; nothing is random here.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{CommitError, Store, batch_len, check_order};
use crate::engine::store::{Batch, Change, StoreError, View};

/// A disk in memory. A clone is another handle on the same disk, so that the disk outlives the node
/// that crashed on it; a copy of the disk is a [`snapshot`](Memory::snapshot).
#[derive(Debug, Clone, Default)]
pub struct Memory {
    disk: Arc<Mutex<Disk>>,
}

/// The content of a disk at one time: what is restored, cloned or compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    rows: BTreeMap<Bytes, Bytes>,
    last_batch: u64,
}

#[derive(Debug, Default)]
struct Disk {
    /// What reads see: everything whose sync reported success.
    visible: Snapshot,
    /// Written, not synced: visible to nobody.
    unsynced: Vec<Batch>,
    /// What lies below a sync that lied: the state before it, and the batches it claimed.
    beneath: Option<(Snapshot, Vec<Batch>)>,
    /// A write or sync failed: nothing more is taken until the process has ended.
    failed: bool,
    fail_next_write: bool,
    fail_next_sync: bool,
    sync_lies: bool,
    full: bool,
}

impl Snapshot {
    /// The number of the last batch in it.
    pub fn last_batch(&self) -> u64 {
        self.last_batch
    }

    fn apply(&mut self, batch: Batch) {
        for change in batch.changes {
            match change {
                Change::Put { key, value } => self.rows.insert(key, value),
                Change::Delete { key } => self.rows.remove(&key),
            };
        }
        self.last_batch = batch.number;
    }
}

impl Memory {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk with this content: a restored backup, or somebody else's clone.
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        Memory { disk: Arc::new(Mutex::new(Disk { visible: snapshot, ..Disk::default() })) }
    }

    /// The first half of a commit: the kernel has the batch, the device may not. Nobody sees it yet.
    pub fn write(&self, batch: &Batch) -> Result<(), CommitError> {
        let mut disk = self.disk();
        disk.check_usable()?;
        check_order(disk.visible.last_batch.saturating_add(disk.unsynced.len() as u64), batch.number)?;
        if disk.full {
            return Err(CommitError::DiskFull { short_of: batch_len(batch) });
        }
        if std::mem::take(&mut disk.fail_next_write) {
            // A record written in part is no record: recovery drops it.
            disk.failed = true;
            return Err(CommitError::Failed("injected failure of a write".to_owned()));
        }
        disk.unsynced.push(batch.clone());
        Ok(())
    }

    /// The second half of a commit: everything written is durable, and visible.
    pub fn sync(&self) -> Result<(), CommitError> {
        let mut disk = self.disk();
        disk.check_usable()?;
        if std::mem::take(&mut disk.fail_next_sync) {
            // What the device has of it shows only after the crash.
            disk.failed = true;
            return Err(CommitError::Failed("injected failure of a sync".to_owned()));
        }
        let batches = std::mem::take(&mut disk.unsynced);
        if disk.sync_lies {
            let before = disk.visible.clone();
            disk.beneath.get_or_insert_with(|| (before, Vec::new())).1.extend(batches.iter().cloned());
        } else {
            disk.beneath = None;
        }
        for batch in batches {
            disk.visible.apply(batch);
        }
        Ok(())
    }

    /// The machine loses power. Of the batches that are not durable the first `keep` stay, because a
    /// kernel may have written them unasked; returns how many were lost.
    pub fn crash(&self, keep: usize) -> usize {
        let mut disk = self.disk();
        let mut batches = Vec::new();
        if let Some((before, claimed)) = disk.beneath.take() {
            disk.visible = before;
            batches = claimed;
        }
        batches.append(&mut disk.unsynced);
        let lost = batches.len().saturating_sub(keep);
        for batch in batches.into_iter().take(keep) {
            disk.visible.apply(batch);
        }
        disk.failed = false;
        disk.fail_next_write = false;
        disk.fail_next_sync = false;
        lost
    }

    /// Drops the durable rows that `lost` picks by key and value, without a trace; returns how many.
    pub fn lose_rows(&self, mut lost: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        let mut disk = self.disk();
        let before = disk.visible.rows.len();
        disk.visible.rows.retain(|key, value| !lost(key, value));
        before - disk.visible.rows.len()
    }

    /// Lets the value under `key` rot by `damage`; returns whether there was one.
    pub fn rot(&self, key: &[u8], damage: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut disk = self.disk();
        let Some(value) = disk.visible.rows.get_mut(key) else { return false };
        let mut bytes = value.to_vec();
        damage(&mut bytes);
        *value = bytes.into();
        true
    }

    /// A copy of what is visible.
    pub fn snapshot(&self) -> Snapshot {
        self.disk().visible.clone()
    }

    /// The disk now holds exactly `snapshot`: an old backup came back. Switches stay as they are.
    pub fn restore(&self, snapshot: Snapshot) {
        let mut disk = self.disk();
        disk.visible = snapshot;
        disk.unsynced.clear();
        disk.beneath = None;
        disk.failed = false;
    }

    /// The next write fails: its batch is gone, and the process must end.
    pub fn fail_next_write(&self) {
        self.disk().fail_next_write = true;
    }

    /// The next sync fails: the crash that must follow decides which batches were durable.
    pub fn fail_next_sync(&self) {
        self.disk().fail_next_sync = true;
    }

    /// While on, a sync reports success and a crash loses it all the same, until an honest sync.
    pub fn sync_lies(&self, on: bool) {
        self.disk().sync_lies = on;
    }

    /// While on, writes are refused as `DiskFull` and reads go on.
    pub fn disk_full(&self, on: bool) {
        self.disk().full = on;
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A test's panic leaves the disk in the state between two calls.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn check_usable(&self) -> Result<(), CommitError> {
        if self.failed {
            return Err(CommitError::Failed("an earlier write or sync failed".to_owned()));
        }
        Ok(())
    }
}

impl View for Memory {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.disk().visible.rows.get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let disk = self.disk();
        let rows = disk.visible.rows.range::<[u8], _>((from, Bound::Unbounded));
        let rows = rows.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        Ok(rows.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl Store for Memory {
    fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        self.write(batch)?;
        self.sync()
    }

    fn last_batch(&self) -> u64 {
        self.disk().visible.last_batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> Batch {
        let key = Bytes::from(format!("key {number}"));
        Batch { number, changes: vec![Change::Put { key, value: Bytes::from_static(b"value") }] }
    }

    fn holds(disk: &Memory, number: u64) -> bool {
        disk.get(format!("key {number}").as_bytes()).expect("memory reads").is_some()
    }

    #[test]
    fn an_unsynced_batch_is_visible_to_nobody_and_lost_in_a_crash() {
        let disk = Memory::new();
        disk.commit(&batch(1)).expect("commits");
        for number in 2..=4 {
            disk.write(&batch(number)).expect("writes");
            assert!(!holds(&disk, number));
        }
        assert_eq!(disk.last_batch(), 1);
        assert_eq!(disk.crash(1), 2);
        assert!(holds(&disk, 1) && holds(&disk, 2) && !holds(&disk, 3));
        assert_eq!(disk.last_batch(), 2);
        disk.commit(&batch(3)).expect("the numbers go on where the disk ends");
    }

    #[test]
    fn a_failed_sync_is_never_repeated_as_a_success() {
        let disk = Memory::new();
        disk.fail_next_sync();
        assert!(matches!(disk.commit(&batch(1)), Err(CommitError::Failed(_))));
        assert!(matches!(disk.sync(), Err(CommitError::Failed(_))));
        assert!(matches!(disk.commit(&batch(2)), Err(CommitError::Failed(_))));
        assert!(!holds(&disk, 1));
        let other = Memory::from_snapshot(disk.snapshot());
        assert_eq!(disk.crash(1), 0);
        assert!(holds(&disk, 1), "the device had it after all");
        other.fail_next_write();
        assert!(matches!(other.commit(&batch(1)), Err(CommitError::Failed(_))));
        assert_eq!((other.crash(1), other.last_batch()), (0, 0), "a torn batch is none");
    }

    #[test]
    fn a_lying_sync_shows_only_in_a_crash() {
        let disk = Memory::new();
        disk.commit(&batch(1)).expect("commits");
        disk.sync_lies(true);
        disk.commit(&batch(2)).expect("claims to");
        disk.commit(&batch(3)).expect("claims to");
        assert!(holds(&disk, 3));
        assert_eq!((disk.crash(0), disk.last_batch()), (2, 1));
        disk.commit(&batch(2)).expect("claims to");
        disk.sync_lies(false);
        disk.commit(&batch(3)).expect("commits");
        assert_eq!((disk.crash(0), disk.last_batch()), (0, 3), "an honest sync covers what came before");
    }

    #[test]
    fn rows_rot_backups_come_back_and_a_full_disk_only_refuses() {
        let disk = Memory::new();
        disk.commit(&batch(1)).expect("commits");
        let backup = disk.snapshot();
        disk.disk_full(true);
        assert!(matches!(disk.commit(&batch(2)), Err(CommitError::DiskFull { .. })));
        assert!(holds(&disk, 1));
        disk.disk_full(false);
        disk.commit(&batch(2)).expect("the same batch, once there is room");
        assert!(disk.rot(b"key 2", |bytes| bytes[0] ^= 1));
        assert_eq!(disk.get(b"key 2").expect("reads"), Some(Bytes::from_static(b"walue")));
        assert_eq!(disk.lose_rows(|key, _| key == b"key 1"), 1);
        assert!(!holds(&disk, 1));
        disk.restore(backup.clone());
        assert_eq!((disk.snapshot(), disk.last_batch()), (backup, 1));
    }
}
