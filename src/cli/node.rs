//! `tanist node`: runs a node in the foreground.

use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::words::quoted;
use crate::node::config::{Config, NodeDir};
use crate::node::{Node, NodeError, process};

/// Logs go to stderr. SIGTERM and SIGINT end it cleanly; kill -9 loses nothing that was acknowledged.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The node's folder, as `tanist cluster new` made it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What is logged: error, warn, info, debug, trace, or a filter; else RUST_LOG, else node.toml
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log as JSON, one object a line
    #[arg(long)]
    log_json: bool,
}

pub(super) fn run(args: &Args, _global: &Global) -> Result<Exit, Failure> {
    let dir = NodeDir::new(&args.dir);
    let config = Config::load(&dir.config()).map_err(|error| failed(args, &error))?;
    let environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = args.log.clone().or(environment).unwrap_or(config.log);
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Failure::usage(format!("{filter:?} is no filter for logs: {error}"))
            .next("use error, warn, info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.log_json {
        log.json().init();
    } else {
        log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
    }
    process::abort_on_panic();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed("system", format!("cannot start: {error}")))?;
    runtime.block_on(async {
        // From here on a signal ends the node in order, even one that comes while it opens.
        let stop = process::stop_signal().map_err(|error| failed(args, &error))?;
        let node = Node::open(&args.dir).await.map_err(|error| failed(args, &error))?;
        match node.run(stop).await {
            Ok(()) => Ok(Exit::Done),
            Err(error @ NodeError::Twin { .. }) => Err(failed(args, &error)),
            Err(error) => {
                Err(failed(args, &error).state("the node has stopped; what it acknowledged is durable"))
            }
        }
    })
}

fn failed(args: &Args, error: &dyn std::fmt::Display) -> Failure {
    let dir = quoted(&args.dir.to_string_lossy());
    Failure::failed("node", error)
        .state("the node does not run; its data is as it was")
        .next(format!("once that is put right: tanist node {dir}"))
}
