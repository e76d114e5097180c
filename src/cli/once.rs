//! `tanist once`: runs a command once, or says that it is in doubt.

use std::ffi::OsString;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::args::{Global, Place};
use super::child::Ended;
use super::elect::lease;
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::{child, failures, json as forms};
use crate::client::{Linearizable, Once, OnceError, Run};

/// Prints what COMMAND wrote to its stdout (as much of it as is remembered): now, or when it was done before.
/// COMMAND gets TANIST_RUN_ID to mark what it does. If it ends with an exit code that is not 0, that is
/// remembered as not done, and it may run again: COMMAND must fail only if it did nothing. Exit 5 if a run
/// began and never said that it ended, or was ended by a signal: find out whether it was done, then run this
/// with --done or --again.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["command", "done", "again"]))]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// How long a run is waited for after it was last heard: 1s to 5m
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = humantime::parse_duration)]
    lease: Duration,
    /// Decide about a run in doubt: it was done, with this result
    #[arg(long, value_name = "RESULT")]
    done: Option<String>,
    /// Decide about a run in doubt: it was not done, and may be run again
    #[arg(long)]
    again: bool,
    /// What is to be done once
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let lease = lease(args.lease)?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let client = global.connect().await?;
    let space: Linearizable =
        client.linearizable(&args.place.namespace).await.map_err(|error| failures::open(site, &error))?;
    let failed = |error: OnceError| failure(site, &error);
    let ledger = space.once(key.as_bytes()).map_err(|error| failed(OnceError::Read(error.into())))?;
    let ledger = ledger.lease(lease).wait(args.lease);
    let out = global.output();
    if let Some(result) = &args.done {
        ledger.decide_done(result.clone().into_bytes()).await.map_err(failed)?;
        out.note(format!("{} is done", site.name()));
        return Ok(Exit::Done);
    }
    if args.again {
        ledger.decide_again().await.map_err(failed)?;
        out.note(format!("{} may be run again", site.name()));
        return Ok(Exit::Done);
    }
    let (result, now) = match ledger.begin().await.map_err(failed)? {
        Once::Done(result) => (result, false),
        Once::InDoubt { by, term, run } => {
            return Err(in_doubt(site, &by.to_string(), &term.to_string(), &run));
        }
        Once::Mine(run) => {
            let id = run.id();
            let (by, term) = (client.identity().public().to_string(), run.tenure().term().to_string());
            let environment = [("TANIST_RUN_ID", id.as_str())];
            let came = tokio::select! {
                biased;
                came = attempt(&args.command, &environment) => came,
                // Dropped, the command is killed: others hold it for dead.
                () = run.tenure().lost() => Came::InDoubt,
            };
            match came {
                Came::InDoubt => {
                    // It stays as it is; those who come later need not wait for the lease to learn it.
                    run.leave().await;
                    return Err(in_doubt(site, &by, &term, &id));
                }
                Came::Done { result, cut } => match run.done(result.clone()).await {
                    Ok(()) => {
                        if cut {
                            let most = Run::RESULT_LEN;
                            out.note(format!(
                                "COMMAND wrote more: only the first {most} bytes are remembered"
                            ));
                        }
                        (result, true)
                    }
                    // COMMAND did it: whatever kept that from being remembered, it is not safe to run it again.
                    Err(_) => return Err(in_doubt(site, &by, &term, &id)),
                },
                Came::NotDone(failure) => {
                    run.failed().await.map_err(failed)?;
                    return Err(failure.state("it is remembered as not done: it may be run again"));
                }
            }
        }
    };
    if out.is_json() {
        out.result(
            || {
                json!({
                    "namespace": site.namespace,
                    "key": forms::key(&key),
                    "result": forms::bytes(&result),
                    "now": now,
                })
            },
            String::new,
        )?;
    } else {
        out.bytes(&result)?;
        out.note(format!("{} {}", site.name(), if now { "was done now" } else { "was done before" }));
    }
    Ok(Exit::Done)
}

/// What COMMAND came to.
enum Came {
    Done { result: Bytes, cut: bool },
    NotDone(Failure),
    InDoubt,
}

async fn attempt(command: &[OsString], environment: &[(&str, &str)]) -> Came {
    match child::attempt(command, environment, Run::RESULT_LEN).await {
        Err(failure) => Came::NotDone(failure),
        Ok(Err(_)) => Came::InDoubt,
        Ok(Ok(Ended { output, cut, status })) => match status.code() {
            Some(0) => Came::Done { result: output, cut },
            Some(code) if !SIGNALLED.contains(&code) => {
                let what = format!("COMMAND ended with {status}");
                Came::NotDone(
                    Failure::failed("command", what).next("correct COMMAND, then run the line again"),
                )
            }
            // It was stopped in the middle of whatever it did.
            _ => Came::InDoubt,
        },
    }
}

/// Exit codes with which shells say that what they ran was ended by a signal.
const SIGNALLED: std::ops::RangeInclusive<i32> = 129..=192;

fn in_doubt(site: Site<'_>, by: &str, term: &str, run: &str) -> Failure {
    let what = format!(
        "{} is in doubt: run {run} of {by}, term {term}, began and did not say that it ended",
        site.name()
    );
    Failure::new(Exit::Unknown, "in-doubt", what)
        .state("it may have been done; it is not done again by itself")
        .detail("by", by)
        .detail("term", term)
        .detail("run", run)
        .next(site.line("once", &["--done", "RESULT"]))
        .next(site.line("once", &["--again"]))
}

fn failure(site: Site<'_>, error: &OnceError) -> Failure {
    match error {
        OnceError::Busy(_) => failures::unavailable(error, site.line("once", &["--", "COMMAND"])),
        OnceError::NotALedger => {
            Failure::new(Exit::Refused, "not-a-ledger", format!("{}: {error}", site.name()))
                .next("name another key: one for each effect")
        }
        OnceError::Lost => failures::unavailable(error, site.line("once", &["--", "COMMAND"])),
        OnceError::Decided(result) => {
            Failure::new(Exit::Refused, "decided", format!("{}: {error}", site.name()))
                .detail("result", forms::bytes(result))
                .next(site.line("once", &["--", "COMMAND"]))
        }
        OnceError::ResultLen { .. } => {
            Failure::failed("too-large", format!("{}: {error}", site.name())).next("give a shorter RESULT")
        }
        OnceError::Over => Failure::new(Exit::Unknown, "in-doubt", error)
            .state("it may have been done; it is not done again by itself")
            .next(site.line("once", &["--", "COMMAND"])),
        OnceError::Read(error) => failures::read(site, error),
        OnceError::Write(error) => failures::write(site, error),
    }
}
