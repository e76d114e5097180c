//! Making a write: its receipt before it is sent, its verdict after.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::error::Failure;
use super::exit::Exit;
use super::failures;
use super::json as forms;
use super::words::{Site, quoted};
use crate::client::{Outcome, Pending, Receipt, Space, Version, Versions, WriteError, Written};
use crate::core::object::Key;
use crate::core::write::WriteId;

/// Begins a receipt in text.
const PREFIX: &str = "tanist-receipt-1:";
/// A receipt longer than this is not repeated in a suggestion.
const SHOWN: usize = 2_000;

/// Makes one command's write.
pub(super) struct Writer<'a> {
    pub(super) site: Site<'a>,
    pub(super) key: &'a Key,
    pub(super) handle: &'a Space,
    /// `--receipt`.
    pub(super) receipt: Option<&'a Path>,
    /// The arguments that give the value, for suggestions.
    pub(super) value: Vec<String>,
}

/// What became of a write.
pub(super) struct Verdict {
    pub(super) written: Written,
    /// What it names.
    pub(super) replaced: Versions,
}

impl Writer<'_> {
    /// What an earlier run of this line saved, whatever became of it. It must be the same write as far as
    /// the line says what is written: `value` is `None` if it does not, `Some(None)` if it deletes.
    pub(super) fn saved(&self, value: Option<Option<&Bytes>>) -> Result<Option<Receipt>, Failure> {
        let Some(path) = self.receipt.filter(|path| path.exists()) else { return Ok(None) };
        let receipt = load(path)?;
        self.belongs(&receipt, path)?;
        match value.is_none_or(|value| receipt.value() == value) {
            true => Ok(Some(receipt)),
            false => Err(other_write(path, "another value")),
        }
    }

    /// Whether the receipt is of this namespace and key.
    pub(super) fn belongs(&self, receipt: &Receipt, path: &Path) -> Result<(), Failure> {
        if receipt.namespace() != self.handle.id() || receipt.key() != self.key {
            return Err(other_write(
                path,
                &format!("another key or namespace: of the key {}", receipt.key()),
            ));
        }
        Ok(())
    }

    /// Makes `pending`; its receipt is on the disk before it is sent.
    pub(super) async fn make(&self, pending: Pending<'_>) -> Result<Verdict, WriteError> {
        let mut sent = None;
        let pending = pending.before_send(|prepared| {
            self.keep(&prepared.clone().doubted())?;
            sent = Some(prepared.clone());
            Ok(())
        });
        let written = pending.await;
        if let Some(prepared) = &sent {
            self.settle_receipt(prepared, &written);
        }
        let replaced = sent.map(|prepared| prepared.replaces().clone()).unwrap_or_default();
        Ok(Verdict { written: written?, replaced })
    }

    /// Sends a saved write again, byte for byte.
    pub(super) async fn again(&self, receipt: &Receipt) -> Result<Verdict, WriteError> {
        let client = self.handle.client();
        // Known to have been applied is as good as applied again; also what was superseded since.
        let written = match client.outcome(receipt).await {
            Ok(Outcome::Applied { version, siblings, .. }) => Ok(Written::Applied { version, siblings }),
            _ => {
                let kept = self.keep(&receipt.clone().doubted());
                kept.map_err(|error| WriteError::Receipt(error.to_string()))?;
                client.submit(receipt).await
            }
        };
        self.settle_receipt(receipt, &written);
        Ok(Verdict { written: written?, replaced: receipt.replaces().clone() })
    }

    /// Saves the receipt, if it is to be saved. While its write is sent it is in doubt: if this process
    /// dies, nobody knows whether it arrived.
    fn keep(&self, receipt: &Receipt) -> io::Result<()> {
        self.receipt.map_or(Ok(()), |path| save(path, receipt))
    }

    /// A write that certainly changed nothing leaves a receipt that is as little in doubt as before, so that,
    /// sent again, it can be refused again.
    fn settle_receipt(&self, receipt: &Receipt, written: &Result<Written, WriteError>) {
        let nothing_changed = match written {
            Ok(written) => written.is_refused(),
            Err(error) => error.nothing_changed(),
        };
        if nothing_changed {
            // A file that keeps its doubt is only too careful.
            let _ = self.keep(receipt);
        }
    }

    /// Reports the verdict.
    pub(super) fn finish(&self, verdict: Result<Verdict, WriteError>) -> Result<Exit, Failure> {
        let Verdict { written, replaced } = verdict.map_err(|error| self.failure(&error))?;
        match written {
            Written::Applied { version, siblings } => self.applied(&version, &replaced, &siblings),
            Written::Refused { reason, current } => {
                let value: Vec<&str> = self.value.iter().map(String::as_str).collect();
                Err(failures::refused(self.site, reason, current.as_deref(), &value))
            }
        }
    }

    /// Prints the new version, and says what it met.
    pub(super) fn applied(
        &self,
        version: &Version,
        replaced: &Versions,
        siblings: &[WriteId],
    ) -> Result<Exit, Failure> {
        let out = self.site.global.output();
        out.result(|| self.result(Some(version), replaced, siblings), || version.to_string())?;
        if siblings.is_empty() {
            return Ok(Exit::Done);
        }
        let others: Vec<String> = siblings.iter().map(ToString::to_string).collect();
        let what = format!(
            "{} has siblings: beside this version there is {}",
            self.site.name(),
            others.join(", and ")
        );
        let told = Failure::new(Exit::Siblings, "siblings", what)
            .state("the write was applied, and so were the others")
            .next(self.site.line("resolve", &["--", "COMMAND"]))
            .next(self.site.line("get", &["--all", "--json"]));
        out.note(told.to_text().trim_end());
        Ok(Exit::Siblings)
    }

    /// The result of a write as JSON.
    pub(super) fn result(
        &self,
        version: Option<&Version>,
        replaced: &Versions,
        siblings: &[WriteId],
    ) -> Value {
        json!({
            "namespace": self.site.namespace,
            "key": forms::key(self.key),
            "version": version.map(ToString::to_string),
            "replaced": replaced.to_string(),
            "siblings": forms::ids(siblings),
        })
    }

    /// What went wrong. If the outcome is unknown its receipt is shown.
    pub(super) fn failure(&self, error: &WriteError) -> Failure {
        let failure = failures::write(self.site, error);
        let Some(receipt) = error.receipt() else { return failure };
        let failure = failure.detail("version", receipt.version().to_string());
        if let Some(path) = self.receipt {
            let path = path.to_string_lossy();
            return failure
                .detail("receipt_file", path.as_ref())
                .next(self.site.line("outcome", &[&path, "--settle"]));
        }
        let text = to_text(receipt);
        self.site.global.output().note(format!("receipt: {text}"));
        let shown = if text.len() <= SHOWN { &text } else { "FILE" };
        let failure = failure.next(self.site.line("outcome", &[shown, "--settle"]));
        match text.len() <= SHOWN {
            true => failure.detail("receipt", text),
            false => failure.detail("receipt", text).next("with the receipt above saved in FILE"),
        }
    }
}

fn other_write(path: &Path, what: &str) -> Failure {
    let shown = path.display();
    Failure::usage(format!("{shown} is the receipt of another write: of {what}"))
        .next("name another file with --receipt")
        .next(format!("rm {}   (if that write needs no more doubt)", quoted(&path.to_string_lossy())))
}

/// The receipt as one word.
pub(super) fn to_text(receipt: &Receipt) -> String {
    format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&receipt.to_bytes()))
}

/// The receipt that `text` is.
fn from_text(text: &str) -> Option<Result<Receipt, String>> {
    let digits = text.trim().strip_prefix(PREFIX)?;
    let bytes =
        BASE64URL_NOPAD.decode(digits.as_bytes()).map_err(|error| format!("a damaged receipt: {error}"));
    Some(bytes.and_then(|bytes| Receipt::from_bytes(&bytes).map_err(|error| error.to_string())))
}

/// The receipt in the file at `path`.
pub(super) fn load(path: &Path) -> Result<Receipt, Failure> {
    let shown = path.display();
    let failed = |what: String| {
        Failure::failed("file", what).next("name the file of --receipt, or give the receipt that was printed")
    };
    let bytes =
        fs::read(path).map_err(|error| failed(format!("cannot read the receipt {shown}: {error}")))?;
    let text = std::str::from_utf8(&bytes).ok().and_then(from_text);
    let receipt = text.unwrap_or_else(|| Receipt::from_bytes(&bytes).map_err(|error| error.to_string()));
    receipt.map_err(|error| failed(format!("{shown}: {error}")))
}

/// The receipt that an argument is, or names the file of.
pub(super) fn argument(text: &str) -> Result<Receipt, Failure> {
    match from_text(text) {
        Some(receipt) => receipt.map_err(|error| {
            Failure::usage(error).next("give the receipt as it was printed, or the file of --receipt")
        }),
        None => load(Path::new(text)),
    }
}

/// Writes the receipt to the file at `path`, whole or not at all, and durably.
fn save(path: &Path, receipt: &Receipt) -> io::Result<()> {
    replace_file(path, format!("{}\n", to_text(receipt)).as_bytes())
}

/// Puts `bytes` in the file at `path`, whole or not at all, and durably.
pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
