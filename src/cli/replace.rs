//! `tanist replace`: compare-and-set.

use std::path::PathBuf;

use super::args::{Global, Place};
use super::basis::If;
use super::error::Failure;
use super::exit::Exit;
use super::value::ValueArgs;
use super::words::Site;
use super::write::Writer;

/// Prints the new version. Refused with exit 3 if --if does not name exactly what is there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    value: ValueArgs,
    /// The versions that are replaced: ID[+ID], `absent`, or @FILE of `get --save-version`
    #[arg(long = "if", value_name = "ID[+ID]|@FILE")]
    basis: If,
    /// If something else is there, keep the value beside it instead of being refused (exit 7)
    #[arg(long)]
    or_sibling: bool,
    /// The operation's id: the same line run again is the same write
    #[arg(long, value_name = "ID", conflicts_with = "receipt")]
    op: Option<String>,
    /// Save the signed write here before it is sent; if the file exists, send that one again
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    args.basis.fixed_for(args.op.as_deref())?;
    let value = args.value.read()?;
    let handle = global.open_to_write(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let receipt = args.receipt.as_deref();
    let writer = Writer { site, key: &key, handle: &handle, receipt, value: args.value.words() };
    if let Some(saved) = writer.saved(Some(Some(&value)))? {
        return writer.finish(writer.again(&saved).await);
    }
    let basis = args.basis.resolve(site, &key, &handle).await?;
    if args.or_sibling && handle.is_linearizable() {
        let what = format!("{:?} is linearizable: its keys have no siblings", args.place.namespace);
        return Err(Failure::usage(what).next("leave --or-sibling out"));
    }
    let mut pending = handle.replace(basis, value);
    if args.or_sibling {
        pending = pending.or_sibling();
    }
    if let Some(op) = &args.op {
        pending = pending.operation(op);
    }
    writer.finish(writer.make(pending).await)
}
