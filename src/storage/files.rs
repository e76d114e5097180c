//! The small files of a data directory: its format, its lock, its incarnation, and how a file is
//! replaced so that a crash leaves the old or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::directory::OpenError;
use crate::core::identity::Incarnation;

/// The format of data directories that this version reads and writes.
pub(super) const FORMAT: u32 = 1;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_TEXT: &str = "tanist data format ";
const LOCK_FILE: &str = "LOCK";
const INCARNATION_FILE: &str = "incarnation";

/// Whether `dir` says that it has our format: `false` if it says nothing at all. Changes nothing.
pub(super) fn check_format(dir: &Path) -> Result<bool, OpenError> {
    let path = dir.join(FORMAT_FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(OpenError::io("read", &path, error)),
    };
    let number = text.trim_end().strip_prefix(FORMAT_TEXT).and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(FORMAT) => Ok(true),
        Some(found) => Err(OpenError::OtherFormat { found, known: FORMAT }),
        None => Err(OpenError::UnknownFormat { path }),
    }
}

/// Declares `dir` to have our format.
pub(super) fn write_format(dir: &Path) -> Result<(), OpenError> {
    replace(dir, FORMAT_FILE, format!("{FORMAT_TEXT}{FORMAT}\n").as_bytes())
        .map_err(|error| OpenError::io("write", &dir.join(FORMAT_FILE), error))
}

/// Takes the lock of `dir`; it lasts as long as the file is open, and no longer than the process.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK_FILE);
    let failed = |error: io::Error| OpenError::io("lock", &path, error);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(OpenError::InUse { path: dir.to_owned() }),
        Err(error) => Err(failed(error.into())),
    }
}

/// The incarnation written in `dir`; `None` if there is none that can be read as one.
pub(super) fn read_incarnation(dir: &Path) -> Result<Option<Incarnation>, OpenError> {
    let path = dir.join(INCARNATION_FILE);
    match fs::read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io("read", &path, error)),
    }
}

/// Whether `dir` has an incarnation file, readable or not.
pub(super) fn has_incarnation(dir: &Path) -> bool {
    dir.join(INCARNATION_FILE).exists()
}

/// Replaces the incarnation in `dir`.
pub(super) fn write_incarnation(dir: &Path, incarnation: Incarnation) -> io::Result<()> {
    replace(dir, INCARNATION_FILE, format!("{incarnation}\n").as_bytes())
}

/// Moves `dir/name` to the first free `dir/name.damaged-N`, and says where it went.
pub(super) fn move_aside(dir: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 1..u32::MAX {
        let aside = dir.join(format!("{name}.damaged-{number}"));
        // Nobody else makes such names: the directory is locked.
        if !aside.try_exists()? {
            fs::rename(dir.join(name), &aside)?;
            sync_dir(dir)?;
            return Ok(aside);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Makes the names in `dir` durable: what was created, renamed and removed there.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Writes `dir/name` so that it is the old or the new one at any time, and the new one afterwards.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.new"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(name))?;
    sync_dir(dir)
}
