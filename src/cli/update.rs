//! `tanist update`: read, compute, compare and set, and again if others were faster.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use serde_json::Value;
use tokio::time::sleep;

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::write::{Verdict, Writer};
use super::{child, failures, json};
use crate::client::{Sibling, WriteError, Written};

/// COMMAND gets the value on its stdin and writes the new one to its stdout. If there is no value its stdin
/// is empty and TANIST_ABSENT is 1. It runs again whenever others were faster; if it fails, nothing is
/// written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Save the signed write here before it is sent; if the file exists, send that one again
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// What computes the new value
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How often a write whose outcome is unknown is sent again before that is the answer.
const SUBMISSIONS: usize = 2;

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let handle = global.open_to_write(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let receipt = args.receipt.as_deref();
    let writer = Writer { site, key: &key, handle: &handle, receipt, value: Vec::new() };
    if let Some(saved) = writer.saved(None)? {
        return writer.finish(writer.again(&saved).await);
    }
    let mut pauses = pauses();
    loop {
        let reading = handle.get(key.as_bytes()).await.map_err(|error| failures::read(site, &error))?;
        let current = reading.value().map_err(|_| siblings(site, reading.siblings()))?;
        let absent = if current.is_none() { "1" } else { "0" };
        let input = current.map_or(&[][..], |value| &value[..]);
        let value = child::run(&args.command, input, &[("TANIST_ABSENT", absent)]).await?;
        let verdict = insist(&writer, writer.make(handle.replace(&reading, value)).await).await;
        match &verdict {
            Ok(Verdict { written: Written::Refused { .. }, .. }) => match pauses.next() {
                Some(pause) => sleep(pause).await,
                None => return Err(contended(site)),
            },
            _ => return writer.finish(verdict),
        }
    }
}

/// While the outcome of a write is unknown it is this write that is sent again: another would come on top.
pub(super) async fn insist(
    writer: &Writer<'_>,
    mut verdict: Result<Verdict, WriteError>,
) -> Result<Verdict, WriteError> {
    for _ in 0..SUBMISSIONS {
        let Err(WriteError::Unknown(unknown)) = &verdict else { break };
        verdict = writer.again(unknown.receipt()).await;
    }
    verdict
}

/// Pauses while others are faster.
pub(super) fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(Duration::from_millis(500))
        .with_max_times(64)
        .with_jitter()
        .build()
}

/// Others were faster every time.
pub(super) fn contended(site: Site<'_>) -> Failure {
    let what = format!("{}: others were faster every time", site.name());
    Failure::new(Exit::Refused, "contended", what).next("run it again").next(site.line("show", &[]))
}

fn siblings(site: Site<'_>, live: &[Sibling]) -> Failure {
    let what =
        format!("{} has {} siblings, which an update does not choose between", site.name(), live.len());
    Failure::failed("siblings", what)
        .detail("versions", live.iter().map(|one| json::head(one.head())).collect::<Value>())
        .next(site.line("resolve", &["--", "COMMAND"]))
        .next(site.line("get", &["--all", "--json"]))
}
