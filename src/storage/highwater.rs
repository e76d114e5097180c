//! The last synced batch, remembered beside the database (P11).
//!
//! A database that lost its end opens as if nothing had been there. This file is written after each
//! synced batch, in place, and synced once a second: it is never ahead of the database, and behind
//! what was synced by a second at most if the machine loses power, by nothing if the process dies.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::amnesia::Mark;
use crate::core::codec;

/// Each slot has a page of its own, so that one torn write cannot damage both.
const SLOT: u64 = 4096;
/// Sequence, incarnation and batch number.
const BODY: usize = 8 + 16 + 8;
const CHECKSUM: usize = 16;

/// An open high-water file: two slots, written in turn.
#[derive(Debug)]
pub struct HighWater {
    file: Arc<File>,
    /// Of the newest valid slot; the next write goes to the other one.
    sequence: u64,
    mark: Option<Mark>,
}

impl HighWater {
    /// Opens the file, or makes a blank one. Damaged slots are no error: they hold no mark.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let len = file.metadata()?.len();
        if len < 2 * SLOT {
            // Written out, not merely extended: later writes in place need no new space.
            let blank = vec![0; usize::try_from(2 * SLOT - len).unwrap_or_default()];
            file.write_all_at(&blank, len)?;
            file.sync_all()?;
        }
        let slots = [read_slot(&file, 0)?, read_slot(&file, 1)?];
        let newest = slots.into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        let sequence = newest.map_or(0, |(sequence, _)| sequence);
        Ok(HighWater { file: Arc::new(file), sequence, mark: newest.map(|(_, mark)| mark) })
    }

    /// What the newest valid slot holds; `None` if neither is valid.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Writes `mark` over the older slot. Durable after the next [`sync`](HighWater::sync).
    pub fn write(&mut self, mark: Mark) -> io::Result<()> {
        let sequence = self.sequence.saturating_add(1);
        let mut slot = codec::encode(&(sequence, mark));
        let checksum = blake3::hash(&slot);
        slot.extend(checksum.as_bytes().iter().take(CHECKSUM));
        self.file.write_all_at(&slot, sequence % 2 * SLOT)?;
        self.sequence = sequence;
        self.mark = Some(mark);
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The file, for syncing it while others write.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

fn read_slot(file: &File, index: u64) -> io::Result<Option<(u64, Mark)>> {
    let mut slot = [0; BODY + CHECKSUM];
    file.read_exact_at(&mut slot, index * SLOT)?;
    let (body, checksum) = slot.split_at(BODY);
    if !blake3::hash(body).as_bytes().starts_with(checksum) {
        return Ok(None);
    }
    Ok(codec::decode(body).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::Incarnation;

    fn mark(batch: u64) -> Mark {
        Mark { incarnation: Incarnation([9; 16]), batch }
    }

    /// A file with marks up to `batch`, and its path.
    fn written(batch: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("high-water");
        let mut file = HighWater::open(&path).expect("creates");
        assert_eq!(file.mark(), None);
        for batch in 1..=batch {
            file.write(mark(batch)).expect("writes");
        }
        file.sync().expect("syncs");
        (dir, path)
    }

    fn tear(path: &Path, slot: u64) {
        let file = OpenOptions::new().write(true).open(path).expect("opens");
        file.write_all_at(&[0xee; 9], slot * SLOT + 20).expect("writes");
    }

    #[test]
    fn the_newest_mark_is_read_back() {
        for last in [1, 2, 7, 8] {
            let (_dir, path) = written(last);
            assert_eq!(HighWater::open(&path).expect("opens").mark(), Some(mark(last)));
        }
    }

    #[test]
    fn a_torn_slot_falls_back_on_the_other_and_is_written_over_next() {
        let (_dir, path) = written(7);
        tear(&path, 7 % 2);
        let mut file = HighWater::open(&path).expect("opens");
        assert_eq!(file.mark(), Some(mark(6)), "one batch less is remembered, not none");
        file.write(mark(8)).expect("writes");
        tear(&path, 0);
        assert_eq!(HighWater::open(&path).expect("opens").mark(), Some(mark(8)), "the good slot was kept");
        tear(&path, 1);
        assert_eq!(HighWater::open(&path).expect("opens").mark(), None);
    }

    #[test]
    fn a_file_cut_short_has_only_the_slots_it_holds() {
        let (_dir, path) = written(8);
        let file = OpenOptions::new().write(true).open(&path).expect("opens");
        file.set_len(SLOT + 10).expect("cuts");
        assert_eq!(HighWater::open(&path).expect("opens").mark(), Some(mark(8)));
        file.set_len(10).expect("cuts");
        assert_eq!(HighWater::open(&path).expect("opens").mark(), None);
    }
}
