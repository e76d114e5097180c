//! `tanist create`: puts a value where none is.

use std::path::PathBuf;

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::value::ValueArgs;
use super::words::Site;
use super::write::Writer;

/// Refused with exit 3 if there is a value; a deleted key can be created again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    value: ValueArgs,
    /// The operation's id: the same line run again is the same write
    #[arg(long, value_name = "ID", conflicts_with = "receipt")]
    op: Option<String>,
    /// Save the signed write here before it is sent; if the file exists, send that one again
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let value = args.value.read()?;
    let handle = global.open_to_write(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let receipt = args.receipt.as_deref();
    let writer = Writer { site, key: &key, handle: &handle, receipt, value: args.value.words() };
    if let Some(saved) = writer.saved(Some(Some(&value)))? {
        return writer.finish(writer.again(&saved).await);
    }
    let mut pending = handle.create(key.as_bytes(), value);
    if let Some(op) = &args.op {
        pending = pending.operation(op);
    }
    writer.finish(writer.make(pending).await)
}
