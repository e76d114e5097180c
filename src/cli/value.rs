//! The value of a write: literally on the command line, in a file, or on stdin. Never guessed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use bytes::Bytes;

use super::error::Failure;
use crate::core::limits;

/// A value.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct ValueArgs {
    /// The value, literally; after `--` if it begins with a dash
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: Option<OsString>,
    /// Take the value from this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Take the value from stdin
    #[arg(long)]
    stdin: bool,
}

/// A value that is longer than this is not repeated in a suggestion.
const SHOWN: usize = 60;

impl ValueArgs {
    /// The value's bytes. One over the limit is refused before anything is sent.
    pub(super) fn read(&self) -> Result<Bytes, Failure> {
        if let Some(value) = &self.value {
            return within_limit(value.as_bytes().to_vec());
        }
        let (name, read) = match &self.file {
            Some(path) => (path.display().to_string(), File::open(path).and_then(bounded)),
            None => ("stdin".to_owned(), bounded(io::stdin().lock())),
        };
        let bytes = read.map_err(|error| {
            Failure::failed("file", format!("cannot read {name}: {error}"))
                .next("name a file that can be read")
        })?;
        within_limit(bytes)
    }

    /// The arguments that give it, for a command to type next.
    pub(super) fn words(&self) -> Vec<String> {
        match (&self.value, &self.file) {
            (Some(value), _) => match value.to_str() {
                Some(text)
                    if text.len() <= SHOWN && !text.starts_with('-') && !text.contains(char::is_control) =>
                {
                    vec![text.to_owned()]
                }
                _ => vec!["VALUE".to_owned()],
            },
            (None, Some(path)) => vec!["--file".to_owned(), path.to_string_lossy().into_owned()],
            (None, None) => vec!["--stdin".to_owned()],
        }
    }
}

/// Everything, and one byte more than is allowed at most.
fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limits::VALUE_LEN as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `bytes` as a value, if they can be one.
pub(super) fn within_limit(bytes: Vec<u8>) -> Result<Bytes, Failure> {
    if bytes.len() <= limits::VALUE_LEN {
        return Ok(bytes.into());
    }
    let what = format!("the value has more than the {} bytes that a value may have", limits::VALUE_LEN);
    Err(Failure::failed("too-large", what).next("store it in parts, or elsewhere under the name of its hash"))
}
