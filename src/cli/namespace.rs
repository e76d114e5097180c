//! `tanist namespace`.

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List them
    List,
}

pub(super) async fn run(_command: &Command, _global: &Global) -> Result<Exit, Failure> {
    Err(Failure::failed("not-built", "not built yet"))
}
