//! `tanist get`.

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) async fn run(_args: &Args, _global: &Global) -> Result<Exit, Failure> {
    Err(Failure::failed("not-built", "not built yet"))
}
