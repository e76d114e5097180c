//! `tanist dev`: a cluster to play with.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::local::{Local, LocalError, Plan, scratch};
use super::output::Output;
use super::words::quoted;
use crate::node::config::Limits;
use crate::node::process;

/// Its client key may do everything. It has no namespace; a temporary folder goes with it.
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

/// How long nodes may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// COMMAND was ended by a signal: its number is added, as shells do.
const SIGNALLED: i32 = 128;

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let output = global.output();
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("system", format!("cannot start: {error}")))?;
    // Declared first, so that the folder outlives the processes in it.
    let folder = match &args.dir {
        Some(_) => None,
        None => Some(scratch("tanist-dev").map_err(|error| failed(&error))?),
    };
    let dir = match (&args.dir, &folder) {
        (Some(dir), _) => dir.clone(),
        (None, Some(folder)) => folder.path().join("cluster"),
        (None, None) => return Err(Failure::failed("system", "there is no folder")),
    };
    let ended = runtime.block_on(async {
        let stop = process::stop_signal().map_err(|error| Failure::failed("system", error))?;
        tokio::pin!(stop);
        let mut cluster = cluster(args, &dir).await.map_err(|error| failed(&error))?;
        let starting = async {
            cluster.start_all()?;
            let client = cluster.connect(PATIENCE).await?;
            cluster.ready(&client, PATIENCE).await
        };
        tokio::select! {
            biased;
            () = &mut stop => return Ok(None),
            started = starting => started.map_err(|error| failed(&error))?,
        }
        let ended = if args.command.is_empty() {
            show(&cluster, output)?;
            tokio::select! {
                biased;
                () = &mut stop => None,
                error = broken(&mut cluster) => return Err(failed(&error)),
            }
        } else {
            Some(command(&cluster, &args.command, stop).await?)
        };
        cluster.stop_all().await;
        Ok(ended)
    })?;
    drop(folder);
    match ended {
        None => Ok(Exit::Done),
        Some(status) => {
            let signal = status.signal().map(|signal| SIGNALLED + signal);
            // The codes of COMMAND are its own, not ours.
            std::process::exit(status.code().or(signal).unwrap_or(1))
        }
    }
}

/// The cluster in `dir`; a new one if there is none.
async fn cluster(args: &Args, dir: &Path) -> Result<Local, LocalError> {
    let program = std::env::current_exe()
        .map_err(|source| LocalError::Io { action: "find the tanist binary".to_owned(), source })?;
    if dir.join("ticket").exists() {
        return Local::open(dir, &program);
    }
    // An empty folder may as well not be there; one that is not empty stays, and is in the way.
    let _ = std::fs::remove_dir(dir);
    let plan = Plan { nodes: args.nodes, limits: Limits::default(), ..Plan::default() };
    Local::found(dir, &program, &plan).await
}

fn show(cluster: &Local, output: Output) -> Result<(), Failure> {
    let (ticket, key) = (absolute(&cluster.ticket_file()), absolute(&cluster.key_file()));
    output.result(
        || json!({ "ticket": ticket, "key": key, "nodes": cluster.len() }),
        || format!("export TANIST_TICKET={}\nexport TANIST_KEY={}", quoted(&ticket), quoted(&key)),
    )?;
    output.note(format!(
        "{} nodes run until Ctrl-C; there is no namespace yet: tanist namespace create NAME --mode siblings",
        cluster.len()
    ));
    Ok(())
}

/// Runs COMMAND; a signal to stop is handed on to it.
async fn command(
    cluster: &Local,
    words: &[OsString],
    mut stop: impl Future<Output = ()> + Unpin,
) -> Result<ExitStatus, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::usage("no COMMAND was given").next("put it behind `--`"));
    };
    let name = program.to_string_lossy();
    let mut child = Command::new(program)
        .args(arguments)
        .env("TANIST_TICKET", absolute(&cluster.ticket_file()))
        .env("TANIST_KEY", absolute(&cluster.key_file()))
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::failed("command", format!("cannot run {name}: {error}")))?;
    let waiting = |error| Failure::failed("command", format!("cannot wait for {name}: {error}"));
    tokio::select! {
        biased;
        status = child.wait() => return status.map_err(waiting),
        () = &mut stop => {}
    }
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // If it has ended meanwhile, that is what was wanted.
        let _ = kill_process(pid, Signal::TERM);
    }
    child.wait().await.map_err(waiting)
}

/// Waits until a node has ended that should not.
async fn broken(cluster: &mut Local) -> LocalError {
    loop {
        if let Err(error) = cluster.check() {
            return error;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn failed(error: &LocalError) -> Failure {
    Failure::failed("cluster", error)
        .state("no node of this cluster runs; what they acknowledged is durable")
        .next("tanist dev --dir DIR keeps the logs of the nodes")
}
