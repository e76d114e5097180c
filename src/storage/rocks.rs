//! The rows in RocksDB: one column family, one log, one sync for each batch.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, ErrorKind, LogLevel, Options,
    ReadOptions, WriteBatch, WriteOptions,
};

use super::{CommitError, Store, batch_len, check_order};
use crate::engine::store::{Batch, Change, StoreError, View};

/// First byte of the store's own rows, which no view shows.
const OWN: u8 = 0;
/// First byte of the engine's rows.
const ROW: u8 = 1;
/// The row with the number of the last batch, as 8 big-endian bytes.
const LAST_BATCH: &[u8] = &[OWN, b'b'];

/// The file without which RocksDB takes a folder for no database.
const CURRENT: &str = "CURRENT";

/// How much memory a database takes.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Bytes of recent writes kept in memory before they become a table file; the default is 4 MiB.
    /// Up to three times as much is used, here and in the log, while tables are written.
    pub write_buffer: usize,
    /// Bytes of blocks, indexes and filters kept for reading; the default is 32 MiB.
    pub block_cache: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { write_buffer: 4 << 20, block_cache: 32 << 20 }
    }
}

/// A RocksDB database.
pub struct Rocks {
    db: DB,
    last_batch: AtomicU64,
    /// One commit at a time; without it two could claim the same number.
    writing: Mutex<()>,
    /// A write failed: whether it is durable is unknown, so no later one may say it is. RocksDB
    /// itself would recover from some of these errors and go on.
    failed: AtomicBool,
}

impl Rocks {
    /// Makes an empty database in `path`, which must not exist yet, and closes it again.
    pub fn create(path: &Path, tuning: &Tuning) -> Result<(), StoreError> {
        let mut options = options(tuning);
        options.create_if_missing(true);
        options.set_error_if_exists(true);
        let db = DB::open(&options, path).map_err(damaged_or_failed)?;
        // Every database has this row from the start, so that one without it is known to be damaged.
        db.put_opt(LAST_BATCH, 0u64.to_be_bytes(), &synced()).map_err(damaged_or_failed)
    }

    /// Opens the database in `path`: `Damaged` if it is not what was written there, `Failed` if it
    /// could not be read now and might be later.
    pub fn open(path: &Path, tuning: &Tuning) -> Result<Self, StoreError> {
        Self::open_with(&options(tuning), path)
    }

    fn open_with(options: &Options, path: &Path) -> Result<Self, StoreError> {
        let db = DB::open(options, path).map_err(|error| damaged_at_open(path, error))?;
        let number = db.get(LAST_BATCH).map_err(damaged_or_failed)?;
        let number = number.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let number =
            number.ok_or_else(|| StoreError::Damaged("the row with the batch number is gone".to_owned()))?;
        Ok(Rocks {
            db,
            last_batch: AtomicU64::new(u64::from_be_bytes(number)),
            writing: Mutex::new(()),
            failed: AtomicBool::new(false),
        })
    }

    /// From now on every commit fails: something that a batch rests on could not be written.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Refuses a batch while RocksDB takes none because its own background work ran out of space.
    ///
    /// It resumes by itself within seconds once there is room. Until then `write` returns the error
    /// of the background work, which looks exactly like a log that could not be written. An empty
    /// write that leaves the log alone tells the two apart before anything is at stake.
    fn check_resumed(&self, batch: &Batch) -> Result<(), CommitError> {
        match self.db.property_int_value(rocksdb::properties::BACKGROUND_ERRORS) {
            Ok(Some(0)) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(CommitError::Failed(error.to_string())),
        }
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        self.db.write_opt(WriteBatch::default(), &unlogged).map_err(|error| {
            if is_no_space(&error) {
                CommitError::DiskFull { short_of: batch_len(batch) }
            } else {
                CommitError::Failed(error.to_string())
            }
        })
    }
}

impl View for Rocks {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.db.get(row_key(key)).map_err(damaged_or_failed)?;
        Ok(value.map(Bytes::from))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let mut rows = Vec::new();
        if limit == 0 {
            return Ok(rows);
        }
        let prefix = row_key(prefix);
        let mut options = ReadOptions::default();
        // Without an upper bound the iterator would walk the deleted rows behind the last match.
        options.set_iterate_upper_bound(successor(&prefix));
        let mut from = prefix.clone();
        if let Some(after) = after {
            let mut next = row_key(after);
            next.push(0);
            from = from.max(next);
        }
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek(&from);
        while let Some((key, value)) = iterator.item() {
            rows.push((
                Bytes::copy_from_slice(key.get(1..).unwrap_or_default()),
                Bytes::copy_from_slice(value),
            ));
            if rows.len() == limit {
                return Ok(rows);
            }
            iterator.next();
        }
        // An iterator that met damage looks like one at its end, but for this.
        iterator.status().map_err(damaged_or_failed)?;
        Ok(rows)
    }
}

impl Store for Rocks {
    fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.failed.load(Ordering::Acquire) {
            return Err(CommitError::Failed("an earlier write or sync failed".to_owned()));
        }
        check_order(self.last_batch(), batch.number)?;
        self.check_resumed(batch)?;
        let mut changes = WriteBatch::default();
        for change in &batch.changes {
            match change {
                Change::Put { key, value } => changes.put(row_key(key), value),
                Change::Delete { key } => changes.delete(row_key(key)),
            }
        }
        changes.put(LAST_BATCH, batch.number.to_be_bytes());
        // Neither pipelined nor unordered: the rows become visible after the log is synced (P9).
        self.db.write_opt(changes, &synced()).map_err(|error| {
            self.fail();
            CommitError::Failed(error.to_string())
        })?;
        self.last_batch.store(batch.number, Ordering::Release);
        Ok(())
    }

    fn last_batch(&self) -> u64 {
        self.last_batch.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Rocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rocks").field("path", &self.db.path()).field("last_batch", &self.last_batch).finish()
    }
}

fn options(tuning: &Tuning) -> Options {
    // Each log names the one before it, and how that one ends. A manifest that lost its end takes the
    // database back to an earlier time, and a log that lost its end looks like one after a crash; in
    // front of a later log that has the newest batches neither shows in their numbers. The crate has
    // no function for this option.
    let mut options = Options::default()
        .get_options_from_string("track_and_verify_wals=true")
        .expect("RocksDB has this option since version 10");
    // Damage in the middle of a log is an error; only an incomplete record at a log's end, which a
    // crash leaves behind, is dropped. The default (point in time) would silently drop every synced
    // record behind the damage, and absolute consistency would refuse a mere crash. Damage to the
    // length of one of the last records still looks like a crash: the high-water file notices that.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // A log that is missing as a whole would otherwise go unnoticed.
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_paranoid_checks(true);

    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(tuning.write_buffer);
    options.set_max_write_buffer_number(3);
    options.set_target_file_size_base((tuning.write_buffer as u64).saturating_mul(4));
    options.set_max_bytes_for_level_base((tuning.write_buffer as u64).saturating_mul(16));
    options.set_max_background_jobs(2);
    options.set_max_open_files(256);
    // Allocated at once by every database, used up by none of ours.
    options.set_manifest_preallocation_size(64 << 10);

    let mut table = BlockBasedOptions::default();
    // Most reads ask for one key, often one that is not there.
    table.set_bloom_filter(10.0, false);
    table.set_block_cache(&Cache::new_lru_cache(tuning.block_cache));
    // In the cache, and so within its bound.
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    options.set_block_based_table_factory(&table);

    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    // Statistics nobody reads, and the thread that would gather them.
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_skip_stats_update_on_db_open(true);
    options
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

fn row_key(key: &[u8]) -> Vec<u8> {
    // One more, as a scan puts a zero behind it.
    let mut row = Vec::with_capacity(key.len().saturating_add(2));
    row.push(ROW);
    row.extend_from_slice(key);
    row
}

/// The least key that is greater than every key with this prefix. There is one: rows begin with
/// [`ROW`].
fn successor(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if let Some(more) = last.checked_add(1) {
            next.push(more);
            break;
        }
    }
    next
}

fn damaged_or_failed(error: rocksdb::Error) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::Damaged(error.to_string()),
        _ => StoreError::Failed(error.to_string()),
    }
}

/// A file that a database names and that is not there is damage too, whatever RocksDB calls it.
fn damaged_at_open(path: &Path, error: rocksdb::Error) -> StoreError {
    let text = error.to_string();
    let missing = match error.kind() {
        ErrorKind::IOError => text.contains("No such file"),
        // RocksDB says so as well of a file that it may not look at, which may be mended.
        ErrorKind::InvalidArgument if text.contains("does not exist") => match File::open(path.join(CURRENT))
        {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return StoreError::Failed(format!("{text}: {error}")),
        },
        _ => false,
    };
    if missing { StoreError::Damaged(text) } else { damaged_or_failed(error) }
}

fn is_no_space(error: &rocksdb::Error) -> bool {
    error.kind() == ErrorKind::IOError && error.as_ref().contains("No space left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(successor(&[ROW]), [ROW + 1]);
        assert_eq!(successor(&[ROW, b'a']), [ROW, b'b']);
        assert_eq!(successor(&[ROW, 7, 0xff, 0xff]), [ROW, 8]);
        assert_eq!(successor(&[ROW, 0xff]), [ROW + 1]);
    }

    #[test]
    fn a_database_without_its_number_row_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        Rocks::create(&path, &Tuning::default()).expect("creates");
        let rocks = Rocks::open(&path, &Tuning::default()).expect("opens");
        assert_eq!(rocks.last_batch(), 0);
        rocks.db.delete(LAST_BATCH).expect("deletes");
        drop(rocks);
        assert!(matches!(Rocks::open(&path, &Tuning::default()), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn nothing_is_committed_after_a_failure() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        Rocks::create(&path, &Tuning::default()).expect("creates");
        let rocks = Rocks::open(&path, &Tuning::default()).expect("opens");
        rocks.fail();
        let batch = Batch { number: 1, changes: Vec::new() };
        assert!(matches!(rocks.commit(&batch), Err(CommitError::Failed(_))));
        assert_eq!(rocks.last_batch(), 0);
    }
    /// The logs of a database, by age, those without content left out.
    fn logs(path: &Path) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(path).expect("lists").map(|entry| entry.expect("lists").path());
        let mut logs: Vec<_> = files
            .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
            .filter(|file| std::fs::metadata(file).expect("is there").len() > 1_000)
            .collect();
        logs.sort();
        logs
    }

    /// Where the records of a log begin: seven bytes, of which the fifth and sixth are the length.
    fn records(log: &[u8]) -> Vec<usize> {
        const BLOCK: usize = 32 << 10;
        let (mut at, mut found) = (0, Vec::new());
        while at + 7 <= log.len() {
            if BLOCK - at % BLOCK < 7 {
                at += BLOCK - at % BLOCK;
                continue;
            }
            found.push(at);
            at += 7 + usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
        }
        found
    }

    /// What looks like the end that a crash leaves, in front of a log that has the newest batches. The
    /// number of the last batch is right all the same: only the log behind knows that something is missing.
    #[test]
    fn a_log_that_lost_its_end_in_front_of_another_one_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        // Recent writes stay in their logs until there are three write buffers of them.
        let mut lazy = options(&Tuning { write_buffer: 64 << 10, block_cache: 1 << 20 });
        lazy.set_max_write_buffer_number(6);
        lazy.set_min_write_buffer_number_to_merge(4);
        let cut = |log: &mut Vec<u8>, at: usize| log.truncate(at);
        let stretch = |log: &mut Vec<u8>, at: usize| log[at + 5] = 0x7f;
        let whole = |_: &mut Vec<u8>, _: usize| {};
        type Damage = fn(&mut Vec<u8>, usize);
        let damages: [(&str, Damage); 3] = [("cut", cut), ("stretch", stretch), ("whole", whole)];
        for (name, damage) in damages {
            let path = dir.path().join(name);
            Rocks::create(&path, &Tuning::default()).expect("creates");
            let rocks = Rocks::open_with(&lazy, &path).expect("opens");
            for number in 1..=150 {
                let change =
                    Change::Put { key: number.to_string().into(), value: vec![number as u8; 1000].into() };
                rocks.commit(&Batch { number, changes: vec![change] }).expect("commits");
            }
            drop(rocks);
            let logs = logs(&path);
            assert!(logs.len() >= 2, "{logs:?}");
            let mut bytes = std::fs::read(&logs[0]).expect("reads");
            let records = records(&bytes);
            damage(&mut bytes, records[records.len() - 3]);
            std::fs::write(&logs[0], bytes).expect("writes");
            match Rocks::open(&path, &Tuning::default()) {
                Ok(rocks) => {
                    assert_eq!((name, rocks.last_batch()), ("whole", 150));
                    let rows = rocks.scan(b"", None, 1_000).expect("scans");
                    assert_eq!(rows.len(), 150, "{name}: rows are missing, and nobody says so");
                }
                Err(error) => {
                    assert!(matches!(error, StoreError::Damaged(_)) && name != "whole", "{name}: {error}");
                }
            }
        }
    }
}
