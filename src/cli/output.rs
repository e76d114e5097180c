//! The one place that writes: results on stdout, everything else on stderr.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use super::error::Failure;

/// Where a command's words go.
///
/// Stdout has the result and nothing else, so that `$(tanist get ..)` is the value. With `--json` it has one
/// object, and an error is one object on stderr.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    /// Output as JSON, or as text.
    pub(super) fn new(json: bool) -> Self {
        Output { json }
    }

    /// Whether the result is to be JSON.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person looks at stderr.
    pub(super) fn has_audience(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// The result: the object that `json` makes, or the line `text`.
    pub(super) fn result(
        self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let mut line = if self.json { json().to_string() } else { text() };
        if !line.is_empty() && !line.ends_with('\n') {
            line.push('\n');
        }
        self.bytes(line.as_bytes())
    }

    /// Bytes on stdout, just as they are.
    pub(super) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            // Who reads the output has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::failed("output", format!("cannot write to stdout: {error}"))
                .state("the command was carried out, but its result could not be shown")
                .next("run it again with stdout open")),
            Ok(()) => Ok(()),
        }
    }

    /// A remark on stderr, for people; not with `--json`.
    pub(super) fn note(self, text: impl AsRef<str>) {
        if !self.json {
            say(text.as_ref());
        }
    }

    /// The error on stderr.
    pub(super) fn failure(self, failure: &Failure) {
        if self.json {
            say(&failure.to_json().to_string());
        } else {
            say(failure.to_text().trim_end());
        }
    }
}

fn say(line: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
