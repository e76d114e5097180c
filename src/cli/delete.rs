//! `tanist delete`: a deletion is a version like any other.

use std::path::PathBuf;

use super::args::{Global, Place};
use super::basis::If;
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::write::Writer;
use crate::client::{Versions, Written};

/// Prints the version that the deletion is.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["basis", "any"]))]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The versions that are deleted: ID[+ID], or @FILE of `get --save-version`
    #[arg(long = "if", value_name = "ID[+ID]|@FILE")]
    basis: Option<If>,
    /// Delete whatever is there; nothing is there is fine too
    #[arg(long)]
    any: bool,
    /// The operation's id: the same line run again is the same write
    #[arg(long, value_name = "ID", conflicts_with_all = ["receipt", "any"])]
    op: Option<String>,
    /// Save the signed write here before it is sent; if the file exists, send that one again
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    if let Some(basis) = &args.basis {
        basis.fixed_for(args.op.as_deref())?;
    }
    let handle = global.open_to_write(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let receipt = args.receipt.as_deref();
    let writer = Writer { site, key: &key, handle: &handle, receipt, value: Vec::new() };
    if let Some(saved) = writer.saved(Some(None))? {
        return writer.finish(writer.again(&saved).await);
    }
    let mut pending = match &args.basis {
        Some(basis) => handle.delete(basis.resolve(site, &key, &handle).await?),
        None => handle.delete_any(key.as_bytes()),
    };
    if let Some(op) = &args.op {
        pending = pending.operation(op);
    }
    let verdict = writer.make(pending).await;
    if args.any
        && let Ok(made) = &verdict
        && let Written::Refused { current: Some(current), .. } = &made.written
        && current.is_empty()
    {
        let out = global.output();
        out.note(format!("{} is absent: there was nothing to delete", site.name()));
        out.result(|| writer.result(None, &Versions::absent(), &[]), String::new)?;
        return Ok(Exit::Done);
    }
    writer.finish(verdict)
}
