//! `tanist overwrite`: puts a value in the place of whatever is there.

use std::path::PathBuf;

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::value::ValueArgs;
use super::words::Site;
use super::write::Writer;

/// Prints the new version, and on stderr what it replaced. A concurrent write may be lost by this, and it
/// is named there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    value: ValueArgs,
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
    let verdict = match writer.saved(Some(Some(&value)))? {
        Some(saved) => writer.again(&saved).await,
        None => writer.make(handle.overwrite(key.as_bytes(), value)).await,
    };
    if let Ok(verdict) = &verdict
        && verdict.written.applied().is_some()
    {
        global.output().note(format!("replaced: {}", verdict.replaced));
    }
    writer.finish(verdict)
}
