//! `tanist dev`: a cluster to play with.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many nodes: 1, 3 or more
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Where the cluster is kept; a temporary folder if absent
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Run this with TANIST_TICKET and TANIST_KEY set, and stop the cluster when it ends
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, _global: &Global) -> Result<Exit, Failure> {
    let _ = (args.nodes, &args.dir, &args.command);
    Err(Failure::failed("not-built", "the cluster to play with is not built yet"))
}
