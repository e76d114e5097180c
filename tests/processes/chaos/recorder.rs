//! What clients were told, as lines of a history: in a file as it happens, and in memory for the judge.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tanist::history::record::{Call, Line, Recording, VERSION};

use crate::support::{now, since};

/// Writes down what happens; shared by all clients.
pub(super) struct Recorder {
    begun: Instant,
    path: PathBuf,
    lines: Mutex<Lines>,
}

struct Lines {
    file: BufWriter<File>,
    recording: Recording,
    operations: u64,
}

impl Recorder {
    /// A new history in a file.
    pub(super) fn new(path: &Path) -> Self {
        let file = BufWriter::new(File::create(path).unwrap());
        let lines = Mutex::new(Lines { file, recording: Recording::default(), operations: 0 });
        let recorder = Recorder { begun: now(), path: path.to_owned(), lines };
        recorder.lines().add(Line::History { version: VERSION });
        recorder
    }

    /// Nanoseconds since the history began.
    pub(super) fn time(&self) -> u64 {
        u64::try_from(since(self.begun).as_nanos()).unwrap()
    }

    /// Something is about to be asked for; its number.
    pub(super) fn invoke(&self, client: &str, call: Call) -> u64 {
        self.invoke_at(self.time(), client, call)
    }

    /// The same, of an earlier moment.
    pub(super) fn invoke_at(&self, time: u64, client: &str, call: Call) -> u64 {
        let mut lines = self.lines();
        let op = lines.operations;
        lines.operations += 1;
        lines.add(Line::Invoke { op, time, client: client.to_owned(), call });
        op
    }

    /// It was done, and showed these versions.
    pub(super) fn ok(&self, op: u64, saw: Option<Vec<String>>) {
        self.lines().add(Line::Ok { op, time: self.time(), saw, to: None, term: None, tenure: None });
    }

    /// A campaign was won.
    pub(super) fn won(&self, op: u64, term: u64, tenure: String) {
        let (term, tenure) = (Some(term), Some(tenure));
        self.lines().add(Line::Ok { op, time: self.time(), saw: None, to: None, term, tenure });
    }

    /// It ended at an earlier moment.
    pub(super) fn ended_at(&self, op: u64, time: u64) {
        self.lines().add(Line::Ok { op, time, saw: None, to: None, term: None, tenure: None });
    }

    /// Nothing was done.
    pub(super) fn fail(&self, op: u64, saw: Option<Vec<String>>) {
        self.lines().add(Line::Fail { op, time: self.time(), saw });
    }

    /// Nobody knows.
    pub(super) fn unknown(&self, op: u64) {
        self.lines().add(Line::Unknown { op, to: None });
    }

    /// The file, with everything in it.
    pub(super) fn file(&self) -> &Path {
        self.lines().file.flush().unwrap();
        &self.path
    }

    /// All of it.
    pub(super) fn recording(&self) -> Recording {
        self.lines().recording.clone()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn add(&mut self, line: Line) {
        writeln!(self.file, "{}", serde_json::to_string(&line).unwrap()).unwrap();
        self.recording.add(line).unwrap();
    }
}
