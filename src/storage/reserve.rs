//! Room kept back on the disk, so that "full" is an answer and not an accident.
//!
//! A batch is refused, with nothing of it written, while less than the threshold is free: the room
//! above is for what RocksDB writes on its own. The reserve file is for the start on a full disk,
//! when the database must be recovered before anything can be read: it is given up then, and taken
//! back once there is room.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::CommitError;

/// When a disk counts as full.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of the reserve file; the default is 24 MiB. A start on a full disk writes the log of up to
    /// three write buffers to tables and begins another log: four write buffers and a little more.
    pub reserve: u64,
    /// Bytes that stay free beside a batch, or it is refused; the default is 64 MiB. A few times the
    /// write buffer, so that RocksDB can bring to tables what it has in its log.
    pub threshold: u64,
}

impl Default for Room {
    fn default() -> Self {
        Room { reserve: 24 << 20, threshold: 64 << 20 }
    }
}

/// The reserve file, and the check before each batch.
#[derive(Debug)]
pub struct Reserve {
    file: File,
    room: Room,
    /// Bytes that the file holds now.
    held: u64,
}

impl Reserve {
    /// Opens or makes the reserve file. What it lacks is not taken yet: see [`take`](Reserve::take).
    pub fn open(path: &Path, room: Room) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let metadata = file.metadata()?;
        // A file may be long and hold no blocks.
        let held = metadata.len().min(metadata.blocks().saturating_mul(512)).min(room.reserve);
        file.set_len(held)?;
        Ok(Reserve { file, room, held })
    }

    /// Gives the room up if the disk is short of it, for a database that is about to be recovered.
    pub fn release_if_short(&mut self) -> io::Result<()> {
        if self.held > 0 && self.free()? < self.room.threshold {
            self.file.set_len(0)?;
            self.held = 0;
        }
        Ok(())
    }

    /// Takes the room, or as much of it as there is: some is better than none at the next start.
    pub fn take(&mut self) -> io::Result<()> {
        let goal = self.room.reserve.min(self.held.saturating_add(self.free()?));
        if goal <= self.held {
            return Ok(());
        }
        match allocate(&self.file, self.held, goal - self.held) {
            Ok(()) => self.held = goal,
            // Somebody else was faster. The part that was allocated stays in use; it is counted when
            // the whole was.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether a batch of `len` bytes may be written: `DiskFull` while there is too little room.
    ///
    /// Asks the file system each time, which costs a microsecond beside the sync of a batch.
    pub fn admit(&mut self, len: u64) -> Result<(), CommitError> {
        let failed =
            |error: io::Error| CommitError::Failed(format!("cannot ask for the free space: {error}"));
        match self.short_of(len).map_err(failed)? {
            0 => {}
            short_of => return Err(CommitError::DiskFull { short_of }),
        }
        if self.held < self.room.reserve {
            self.take().map_err(failed)?;
        }
        Ok(())
    }

    /// How many bytes of room are missing for a batch of `len` bytes; 0 if there is enough.
    pub fn short_of(&self, len: u64) -> io::Result<u64> {
        let lacking = self.room.reserve.saturating_sub(self.held);
        let needed = self.room.threshold.saturating_add(len).saturating_add(lacking);
        Ok(needed.saturating_sub(self.free()?))
    }

    fn free(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.file)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Allocates blocks, by writing them where the file system cannot do it otherwise.
fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), from, len) {
        Err(Errno::OPNOTSUPP) => {
            let zeros = vec![0; 1 << 16];
            let mut at = from;
            let end = from.saturating_add(len);
            while at < end {
                let part = (end - at).min(zeros.len() as u64);
                file.write_all_at(zeros.get(..part as usize).unwrap_or_default(), at)?;
                at += part;
            }
            Ok(())
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_refused_while_less_than_the_threshold_is_free() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("reserve");
        let mut reserve = Reserve::open(&path, Room { reserve: 1 << 20, threshold: 0 }).expect("opens");
        reserve.admit(1).expect("there is room");
        assert_eq!(std::fs::metadata(&path).expect("is there").len(), 1 << 20, "and the reserve was taken");

        let mut reserve =
            Reserve::open(&path, Room { reserve: 1 << 20, threshold: u64::MAX }).expect("opens");
        assert!(matches!(reserve.admit(1), Err(CommitError::DiskFull { .. })));
        reserve.release_if_short().expect("releases");
        assert_eq!(std::fs::metadata(&path).expect("is there").blocks(), 0);
    }

    #[test]
    fn a_hollow_file_is_no_reserve() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("reserve");
        File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a hole");
        let mut reserve = Reserve::open(&path, Room { reserve: 1 << 20, threshold: 0 }).expect("opens");
        assert_eq!(reserve.held, 0);
        reserve.take().expect("takes");
        assert_eq!(reserve.held, 1 << 20);
        assert!(std::fs::metadata(&path).expect("is there").blocks() * 512 >= 1 << 20);
    }
}
