//! The rows in RocksDB: one column family, one log, one sync for each batch.

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
        let db = DB::open(&options(tuning), path).map_err(damaged_at_open)?;
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
    let mut options = Options::default();
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
fn damaged_at_open(error: rocksdb::Error) -> StoreError {
    let text = error.to_string();
    let missing = match error.kind() {
        ErrorKind::IOError => text.contains("No such file"),
        ErrorKind::InvalidArgument => text.contains("does not exist"),
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
}
