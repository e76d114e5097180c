//! A store that fails at a call of one's choice.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tanist::engine::store::{Batch, StoreError, View};
use tanist::storage::memory::Memory;
use tanist::storage::{CommitError, Store};

/// What a call does instead of what it should. Each counts only the calls that can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A read fails once, as a device does that has a bad moment.
    ReadFails,
    /// A read finds that its row is not what was written, now and whenever it is read again.
    Damaged,
    /// A batch finds no space, once.
    Full,
    /// Nothing of a batch is written.
    WriteFails,
    /// A batch is written and its sync fails: a crash may keep it or not.
    SyncFails,
    /// From this batch on every sync claims success, and a crash loses all the same: no fault that a
    /// node can survive, but one that the checks must notice.
    SyncLies,
}

impl Fault {
    fn is_of_reads(self) -> bool {
        matches!(self, Fault::ReadFails | Fault::Damaged)
    }
}

/// A disk in memory with one fault, or none.
#[derive(Debug, Default)]
pub struct Failing {
    pub memory: Memory,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    /// The fault, and the number of the call that it comes with.
    fault: Option<(Fault, u64)>,
    reads: u64,
    commits: u64,
    fired: bool,
    /// The row that is damaged.
    rotten: Option<Bytes>,
}

impl Failing {
    /// The call `number` does `fault`; the first one from now on is 0. Without a fault calls are only
    /// counted.
    pub fn fail(&self, fault: Option<(Fault, u64)>) {
        *self.plan() = Plan { fault, ..Plan::default() };
    }

    /// Whether the fault has come.
    pub fn fired(&self) -> bool {
        self.plan().fired
    }

    /// How many calls there were that could have done `fault`.
    pub fn calls(&self, fault: Fault) -> u64 {
        let plan = self.plan();
        if fault.is_of_reads() { plan.reads } else { plan.commits }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }
}

impl Plan {
    /// Counts a read of the rows that `covers` says, and says how it fails. `at` is the row that the read
    /// meets first.
    fn read(&mut self, at: Option<Bytes>, covers: impl Fn(&Bytes) -> bool) -> Result<(), StoreError> {
        let number = self.reads;
        self.reads += 1;
        if let Some((fault, chosen)) = self.fault
            && fault.is_of_reads()
            && number == chosen
        {
            self.fired = true;
            if fault == Fault::ReadFails {
                return Err(StoreError::Failed("injected: a read failed".to_owned()));
            }
            // Where there is no row, none is damaged.
            self.rotten = at;
        }
        match &self.rotten {
            Some(row) if covers(row) => Err(StoreError::Damaged("injected: a row is damaged".to_owned())),
            _ => Ok(()),
        }
    }
}

impl View for Failing {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let found = self.memory.get(key)?;
        let at = found.is_some().then(|| Bytes::copy_from_slice(key));
        self.plan().read(at, |row| row[..] == *key)?;
        Ok(found)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let found = self.memory.scan(prefix, after, limit)?;
        let at = found.first().map(|(key, _)| key.clone());
        self.plan().read(at, |row| found.iter().any(|(key, _)| key == row))?;
        Ok(found)
    }
}

impl Store for Failing {
    fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        let mut plan = self.plan();
        let number = plan.commits;
        plan.commits += 1;
        if let Some((fault, chosen)) = plan.fault
            && !fault.is_of_reads()
            && number == chosen
        {
            plan.fired = true;
            match fault {
                Fault::ReadFails | Fault::Damaged => {}
                Fault::Full => return Err(CommitError::DiskFull { short_of: 1 }),
                Fault::WriteFails => self.memory.fail_next_write(),
                Fault::SyncFails => self.memory.fail_next_sync(),
                Fault::SyncLies => self.memory.sync_lies(true),
            }
        }
        self.memory.commit(batch)
    }

    fn last_batch(&self) -> u64 {
        self.memory.last_batch()
    }
}
