//! The data directory of a node.
//!
//! ```text
//! FORMAT            `tanist data format 1`; read before anything else is touched
//! LOCK              held by the process that has the directory open
//! incarnation       32 hexadecimal digits, or absent: the node is a new actor
//! high-water        the last synced batch
//! reserve           room for a start on a full disk
//! data/             the database
//! data.damaged-1/   a database that could not be read, kept for whoever looks into it
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::amnesia::{Amnesia, Mark};
use super::files;
use super::highwater::HighWater;
use super::reserve::{Reserve, Room};
use super::rocks::{Rocks, Tuning};
use super::{CommitError, Store, batch_len, check_order};
use crate::core::identity::Incarnation;
use crate::engine::store::{Batch, StoreError, View};

const DATA: &str = "data";
const DATA_NEW: &str = "data.new";
const HIGH_WATER: &str = "high-water";
const RESERVE: &str = "reserve";

/// How a data directory is used.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// When its disk counts as full.
    pub room: Room,
    /// How much memory its database takes.
    pub tuning: Tuning,
}

/// An open data directory: the [`Store`] of a node. Locked until dropped.
#[derive(Debug)]
pub struct Directory {
    rocks: Rocks,
    path: PathBuf,
    writer: Mutex<Writer>,
    high_water: Arc<File>,
    _lock: File,
}

/// What a commit needs beside the database.
#[derive(Debug)]
struct Writer {
    high_water: HighWater,
    reserve: Reserve,
    /// Whose batches these are; `None` until the caller has named a new actor.
    incarnation: Option<Incarnation>,
}

/// What was found in a data directory.
#[derive(Debug)]
pub struct Opened {
    /// The directory, now open. If the node is a new actor it takes no batch until
    /// [`reset_incarnation`](Directory::reset_incarnation).
    pub directory: Directory,
    /// The incarnation the data had; `None` if there was none, so that the node is a new actor.
    pub incarnation: Option<Incarnation>,
    /// Whether the data forgot something, so that the node is a new actor.
    pub amnesia: Amnesia,
}

/// A data directory was not opened. Nothing that was in it has changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Written by another version of tanist.
    #[error(
        "format {found}, need {known}: this directory was written by another version of tanist; run one that reads data format {found}, or name another directory"
    )]
    OtherFormat {
        /// The format of the directory.
        found: u32,
        /// The format this version reads and writes.
        known: u32,
    },
    /// The format cannot be told, so nothing else in there can be trusted.
    #[error(
        "{path} does not name a format, need `tanist data format 1`: restore it, or name another directory"
    )]
    UnknownFormat {
        /// The file that should name the format.
        path: PathBuf,
    },
    /// Another process works on the same data.
    #[error("{path} is in use by another process: stop that one, or name another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Only an unused directory can be created.
    #[error("{path} already holds the data of a node: open it, or name another directory")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The database could not be opened, and is not known to be damaged: a full disk, a lack of
    /// rights or of file handles, a device error.
    #[error(
        "cannot open the database, try again once the cause is gone; if it stays, move `data` away to come back as a new actor: {0}"
    )]
    Database(StoreError),
}

impl OpenError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        OpenError::Io { action, path: path.to_owned(), source }
    }
}

impl Directory {
    /// Makes a data directory for `incarnation` in `path`, which must not hold a node's data yet.
    pub fn create(path: &Path, incarnation: Incarnation, settings: &Settings) -> Result<Self, OpenError> {
        if files::check_format(path)? && (files::has_incarnation(path) || path.join(DATA).exists()) {
            return Err(OpenError::Exists { path: path.to_owned() });
        }
        let opened = Self::open(path, settings)?;
        let name = |error| OpenError::io("write an incarnation to", path, error);
        opened.directory.name_incarnation(incarnation).map_err(name)?;
        Ok(opened.directory)
    }

    /// Opens the data directory in `path`, which is made if it is not there, and judges whether its
    /// data is complete (P11).
    ///
    /// A directory of another format is left untouched, to the byte. A database that cannot be read
    /// is moved aside, and an empty one takes its place.
    pub fn open(path: &Path, settings: &Settings) -> Result<Opened, OpenError> {
        let known = files::check_format(path)?;
        if !known && [DATA, HIGH_WATER].iter().any(|name| path.join(name).exists()) {
            return Err(OpenError::UnknownFormat { path: path.join("FORMAT") });
        }
        fs::create_dir_all(path).map_err(|error| OpenError::io("create", path, error))?;
        let lock = files::lock(path)?;
        // Again, under the lock: another process may have been creating it.
        if !files::check_format(path)? {
            files::write_format(path)?;
        }

        let failed = |action, name| move |error| OpenError::io(action, &path.join(name), error);
        let mut reserve =
            Reserve::open(&path.join(RESERVE), settings.room).map_err(failed("keep room in", RESERVE))?;
        reserve.release_if_short().map_err(failed("make room with", RESERVE))?;
        let high_water = HighWater::open(&path.join(HIGH_WATER)).map_err(failed("open", HIGH_WATER))?;
        let incarnation = files::read_incarnation(path)?;

        let (rocks, found) = open_database(path, &settings.tuning)?;
        let amnesia = match found {
            Found::Store => Amnesia::judge(incarnation, Some(rocks.last_batch()), high_water.mark()),
            Found::Nothing => Amnesia::judge(incarnation, None, high_water.mark()),
            Found::Damage(why) => Amnesia::Unreadable(why),
        };
        reserve.take().map_err(failed("keep room in", RESERVE))?;
        files::sync_dir(path).map_err(|error| OpenError::io("sync", path, error))?;

        let complete = if amnesia.is_new_actor() { None } else { incarnation };
        let directory = Directory {
            rocks,
            path: path.to_owned(),
            high_water: high_water.file(),
            writer: Mutex::new(Writer { high_water, reserve, incarnation: complete }),
            _lock: lock,
        };
        Ok(Opened { directory, incarnation, amnesia })
    }

    /// Gives the data a new incarnation, durably: from here on its batches are a new actor's.
    pub fn reset_incarnation(&self, new: Incarnation) -> Result<(), StoreError> {
        self.name_incarnation(new)
            .map_err(|error| StoreError::Failed(format!("cannot write the new incarnation: {error}")))
    }

    /// Whose batches are written; `None` while that must still be decided.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.writer().incarnation
    }

    /// Makes the high-water mark durable: once a second, and at shutdown. Waits for the disk, beside
    /// commits.
    pub fn sync_high_water(&self) -> Result<(), StoreError> {
        self.high_water
            .sync_data()
            .map_err(|error| StoreError::Failed(format!("cannot sync the high-water file: {error}")))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn name_incarnation(&self, new: Incarnation) -> io::Result<()> {
        let mut writer = self.writer();
        // If this fails half-way nothing may be written under either name.
        writer.incarnation = None;
        // The mark comes first: a crash in between leaves a mark and a name that do not agree, which
        // opens as amnesia. In both slots, lest a torn one bring the old mark back.
        let mark = Mark { incarnation: new, batch: self.rocks.last_batch() };
        writer.high_water.write(mark)?;
        writer.high_water.write(mark)?;
        writer.high_water.sync()?;
        files::write_incarnation(&self.path, new)?;
        writer.incarnation = Some(new);
        Ok(())
    }

    /// How many bytes of room are missing for a batch of `len` bytes; 0 if there is enough.
    pub fn short_of(&self, len: u64) -> Result<u64, StoreError> {
        let short_of = self.writer().reserve.short_of(len);
        short_of.map_err(|error| StoreError::Failed(format!("cannot ask for the free space: {error}")))
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View for Directory {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.rocks.get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.rocks.scan(prefix, after, limit)
    }
}

impl Store for Directory {
    fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        let mut writer = self.writer();
        let Some(incarnation) = writer.incarnation else { return Err(CommitError::NoIncarnation) };
        check_order(self.rocks.last_batch(), batch.number)?;
        writer.reserve.admit(batch_len(batch))?;
        self.rocks.commit(batch)?;
        writer.high_water.write(Mark { incarnation, batch: batch.number }).map_err(|error| {
            self.rocks.fail();
            CommitError::Failed(format!("cannot write the high-water file: {error}"))
        })
    }

    fn last_batch(&self) -> u64 {
        self.rocks.last_batch()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // At worst the mark is a second old, which is what it may be at any time.
        let _ = self.sync_high_water();
    }
}

/// What was in the place of the database.
enum Found {
    Store,
    Nothing,
    Damage(String),
}

/// Opens the database; makes an empty one if there is none, or none that can be read.
fn open_database(path: &Path, tuning: &Tuning) -> Result<(Rocks, Found), OpenError> {
    let data = path.join(DATA);
    let found = if data.try_exists().map_err(|error| OpenError::io("find", &data, error))? {
        match Rocks::open(&data, tuning) {
            Ok(rocks) => return Ok((rocks, Found::Store)),
            Err(StoreError::Damaged(why)) => {
                let aside = files::move_aside(path, DATA)
                    .map_err(|error| OpenError::io("move the damaged database aside in", path, error))?;
                Found::Damage(format!("the database is damaged and was moved to {}: {why}", aside.display()))
            }
            Err(error) => return Err(OpenError::Database(error)),
        }
    } else {
        Found::Nothing
    };
    // Made under another name: `data` is a whole database, or there is none.
    let new = path.join(DATA_NEW);
    let failed = |error| OpenError::io("create the database", &new, error);
    if new.try_exists().map_err(failed)? {
        fs::remove_dir_all(&new).map_err(failed)?;
    }
    Rocks::create(&new, tuning).map_err(OpenError::Database)?;
    fs::rename(&new, &data).map_err(failed)?;
    files::sync_dir(path).map_err(failed)?;
    let rocks = Rocks::open(&data, tuning).map_err(OpenError::Database)?;
    Ok((rocks, found))
}
