//! Running COMMAND: bytes on its stdin, a value from its stdout, and its stderr is ours.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::error::Failure;
use super::value::within_limit;
use crate::core::limits;

/// A command that was started, and ended.
pub(super) struct Ended {
    /// What it wrote to its stdout, or the beginning of that.
    pub(super) output: Bytes,
    /// It wrote more, or it could not be read to the end.
    pub(super) cut: bool,
    /// How it ended.
    pub(super) status: ExitStatus,
}

/// Runs `words`, without a shell and with nothing on stdin, and keeps the first `keep` bytes of what it
/// writes. The outer error: it was certainly not started. The inner one: it was, and how it ended is not
/// known.
pub(super) async fn attempt(
    words: &[OsString],
    environment: &[(&str, &str)],
    keep: usize,
) -> Result<io::Result<Ended>, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::usage("no COMMAND was given").next("put it behind `--`"));
    };
    let spawned = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|error| {
        Failure::failed("command", format!("cannot run {}: {error}", program.to_string_lossy()))
            .next("correct COMMAND, then run the line again")
    })?;
    let (mut output, mut cut) = (Vec::new(), false);
    if let Some(mut stdout) = child.stdout.take() {
        let kept = (&mut stdout).take(keep as u64).read_to_end(&mut output).await;
        // The rest is read, too: a command whose output nobody takes does not end.
        cut = kept.is_err() || !matches!(tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await, Ok(0));
    }
    let ended = |status| Ended { output: output.into(), cut, status };
    Ok(child.wait().await.map(ended))
}

/// Runs `words`, without a shell, and returns what it wrote if it ended well.
pub(super) async fn run(
    words: &[OsString],
    input: &[u8],
    environment: &[(&str, &str)],
) -> Result<Bytes, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::usage("no COMMAND was given").next("put it behind `--`"));
    };
    let name = program.to_string_lossy();
    let failed =
        |what: String| Failure::failed("command", what).next("correct COMMAND, then run the line again");
    let spawned = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|error| failed(format!("cannot run {name}: {error}")))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command may end without having read everything.
            let _ = stdin.write_all(input).await;
            let _ = stdin.shutdown().await;
        }
    };
    let drain = async {
        let mut output = Vec::new();
        match stdout {
            Some(stdout) => {
                stdout.take(limits::VALUE_LEN as u64 + 1).read_to_end(&mut output).await.map(|_| output)
            }
            None => Ok(output),
        }
    };
    let ((), output) = tokio::join!(feed, drain);
    let output = within_limit(output.map_err(|error| failed(format!("cannot read from {name}: {error}")))?)?;
    let status = child.wait().await.map_err(|error| failed(format!("cannot wait for {name}: {error}")))?;
    match status.success() {
        true => Ok(output),
        false => Err(failed(format!("{name} ended with {status}, so nothing was written"))),
    }
}
