//! `tanist resolve`: makes one version of siblings, which names them all.

use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::args::{Global, Place};
use super::basis::{Lost, Name};
use super::error::Failure;
use super::exit::Exit;
use super::update::{contended, insist, pauses};
use super::words::Site;
use super::write::{Verdict, Writer};
use super::{child, failures, json as forms};
use crate::client::{Conflict, Reading, Sibling, Written};

/// COMMAND gets {"namespace", "key", "siblings": [HEAD and "value"], "ancestor": the same or null} on its
/// stdin and writes the merged value to its stdout. It may run again if others write meanwhile; if it
/// fails, nothing is written. Without siblings nothing is done.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("how").required(true).args(["take", "command"]))]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Take this version's value, and drop the others'
    #[arg(long, value_name = "ID")]
    take: Option<Name>,
    /// Save the signed write here before it is sent; if the file exists, send that one again
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// What merges them
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let handle = global.open_siblings(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let receipt = args.receipt.as_deref();
    let writer = Writer { site, key: &key, handle: &handle, receipt, value: Vec::new() };
    if let Some(saved) = writer.saved(None)? {
        return writer.finish(writer.again(&saved).await);
    }
    let mut pauses = pauses();
    loop {
        let reading = handle.get(key.as_bytes()).history().await;
        let reading = reading.map_err(|error| failures::read(site, &error))?;
        let Some(conflict) = reading.conflict() else { return nothing_to_do(&writer, &reading) };
        let merged = match &args.take {
            Some(name) => taken(site, name, &conflict)?,
            None => {
                Some(child::run(&args.command, question(site, &conflict).to_string().as_bytes(), &[]).await?)
            }
        };
        let pending = match merged {
            Some(value) => handle.replace(&reading, value),
            None => handle.delete(&reading),
        };
        let verdict = insist(&writer, writer.make(pending).await).await;
        match &verdict {
            Ok(Verdict { written: Written::Refused { .. }, .. }) => match pauses.next() {
                Some(pause) => sleep(pause).await,
                None => return Err(contended(site)),
            },
            _ => return writer.finish(verdict),
        }
    }
}

/// One version, or none, is as resolved as can be.
fn nothing_to_do(writer: &Writer<'_>, reading: &Reading) -> Result<Exit, Failure> {
    let site = writer.site;
    let live = match reading.siblings() {
        [one] if !reading.is_absent() => one,
        deletions => {
            let heads: Vec<_> = deletions.iter().map(|one| one.head().clone()).collect();
            return Err(failures::absent(site, &heads));
        }
    };
    let out = site.global.output();
    out.note(format!("{} has no siblings", site.name()));
    let versions = reading.versions();
    out.result(|| writer.result(Some(live.version()), &versions, &[]), || live.version().to_string())?;
    Ok(Exit::Done)
}

/// The value of the sibling that `name` names; `None` if it is a deletion.
fn taken(site: Site<'_>, name: &Name, conflict: &Conflict) -> Result<Option<Bytes>, Failure> {
    let heads = || conflict.siblings.iter().map(Sibling::head);
    let head = name.among(heads()).map_err(|lost| {
        let what = match lost {
            Lost::Nothing => format!("{name} is none of the siblings of {}", site.name()),
            Lost::Several => format!("{name} is the beginning of several siblings of {}", site.name()),
        };
        Failure::new(Exit::Refused, "changed", what)
            .detail("current", heads().map(forms::head).collect::<Value>())
            .next(site.line("get", &["--all", "--json"]))
    })?;
    let sibling = conflict.siblings.iter().find(|one| one.head().id() == head.id());
    Ok(sibling.and_then(Sibling::value).cloned())
}

/// What COMMAND reads.
fn question(site: Site<'_>, conflict: &Conflict) -> Value {
    json!({
        "namespace": site.namespace,
        "key": forms::key(&conflict.key),
        "siblings": conflict.siblings.iter().map(forms::sibling).collect::<Vec<_>>(),
        "ancestor": conflict.ancestor.as_ref().map(forms::sibling),
    })
}
