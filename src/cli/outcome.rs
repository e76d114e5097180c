//! `tanist outcome`: what became of a write.

use std::path::Path;

use serde_json::{Value, json};

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::write::{self, Writer};
use super::{failures, json as forms};
use crate::client::{Outcome, Receipt, WriteError, Written};

/// Exit 0 if it was applied, 7 if it was applied and has siblings now, 3 if a register refused it for good
/// (6: because of a fence), 5 if that is still not known.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The file of --receipt, or the receipt that was printed
    #[arg(value_name = "RECEIPT")]
    receipt: String,
    /// End the doubt: send the write until it is applied, beside whatever is there; in a linearizable
    /// namespace until it is applied, or refused for good
    #[arg(long)]
    settle: bool,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let receipt = write::argument(&args.receipt)?;
    let handle = global.open(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let writer = Writer { site, key: &key, handle: &handle, receipt: None, value: Vec::new() };
    writer.belongs(&receipt, Path::new("RECEIPT"))?;
    let client = handle.client();
    let outcome = if args.settle {
        match client.settle(&receipt).await.map_err(|error| writer.failure(&error))? {
            Written::Applied { version, siblings } => {
                Outcome::Applied { version, siblings, superseded_by: None }
            }
            Written::Refused { reason, current } => Outcome::Refused { reason, current },
        }
    } else {
        client.outcome(&receipt).await.map_err(|error| failures::read(site, &error))?
    };
    report(args, site, &receipt, &outcome)
}

fn report(args: &Args, site: Site<'_>, receipt: &Receipt, outcome: &Outcome) -> Result<Exit, Failure> {
    let settle = site.line("outcome", &[&args.receipt, "--settle"]);
    let doubt = |what: String| {
        Failure::new(Exit::Unknown, "unknown", what)
            .state("the write may have been applied, or may yet be; a new one could come on top of it")
            .detail("version", receipt.version().to_string())
            .next(&settle)
    };
    match outcome {
        Outcome::Applied { version, siblings, superseded_by } => {
            let out = site.global.output();
            out.result(|| to_json(receipt, outcome), || version.to_string())?;
            match superseded_by {
                Some(by) => out.note(format!("applied, and replaced since by {by}")),
                None if siblings.is_empty() => out.note("applied"),
                None => out.note(format!("applied; {} has siblings", site.name())),
            }
            let apart = !siblings.is_empty() && superseded_by.is_none();
            Ok(if apart { Exit::Siblings } else { Exit::Done })
        }
        Outcome::Refused { reason, current } => {
            Err(failures::refused(site, reason.clone(), current.as_deref(), &[]).detail("outcome", "refused"))
        }
        Outcome::Forgotten => {
            Err(failures::write(site, &WriteError::Forgotten).detail("outcome", "forgotten"))
        }
        Outcome::Incomplete { copies, needed } => {
            let what =
                format!("write {} is on {copies} replicas, and {needed} are needed", receipt.version());
            Err(doubt(what)
                .detail("outcome", "incomplete")
                .detail("copies", *copies)
                .detail("needed", *needed))
        }
        Outcome::Open => {
            let what = format!("write {} was not applied so far, and still may be", receipt.version());
            Err(doubt(what)
                .state("the write may yet be applied: --settle ends that")
                .detail("outcome", "open"))
        }
        Outcome::Unknown => {
            let what =
                format!("no replica that answered knows write {}; it may still arrive", receipt.version());
            Err(doubt(what).detail("outcome", "unknown"))
        }
    }
}

fn to_json(receipt: &Receipt, outcome: &Outcome) -> Value {
    let Outcome::Applied { version, siblings, superseded_by } = outcome else {
        return json!({ "outcome": "unknown", "version": receipt.version().to_string() });
    };
    json!({
        "outcome": "applied",
        "version": version.to_string(),
        "siblings": forms::ids(siblings),
        "superseded_by": superseded_by.map(|id| id.to_string()),
    })
}
