//! `tanist demo`: what Tanist promises, shown with real processes.

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the folder of the demonstration
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(args: &Args, _global: &Global) -> Result<Exit, Failure> {
    let _ = args.keep;
    Err(Failure::failed("not-built", "the demonstration is not built yet"))
}
