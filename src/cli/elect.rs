//! `tanist elect`: waits until this process owns a resource, and runs a command while it does.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::guarded;
use super::local::scratch;
use super::resource::{self, ResourceName};
use super::session::FENCE;
use super::write::replace_file;
use crate::client::{CampaignError, Lease, Resource, Tenure};
use crate::node::process;

/// COMMAND runs without a shell and in a process group of its own, with TANIST_RESOURCE, TANIST_TERM and
/// TANIST_FENCE; its exit code is passed on. If the ownership cannot be renewed, COMMAND gets TERM when only
/// the grace is left, and KILL before the lease ends. Exit 124: the ownership was lost; 125: tanist failed, or
/// somebody else owned it for the whole wait; 126, 127: COMMAND could not be run. Asked to stop (TERM, INT), it
/// stops COMMAND, resigns, and ends. Without COMMAND it prints the term, says where the fence is, and stays
/// owner until it is asked to stop.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    resource: ResourceName,
    /// How long the owner is trusted after it was last heard: 1s to 5m
    #[arg(long, value_name = "DUR", default_value = "15s", value_parser = humantime::parse_duration)]
    lease: Duration,
    /// Give up if somebody else owns it for so long; wait for ever if absent
    #[arg(long, value_name = "DUR", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// How long COMMAND has between TERM and KILL: at most half the lease; 2s or a quarter of the lease if absent
    #[arg(long, value_name = "DUR", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,
    /// Write what proves the ownership to this file
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Write what --fenced-by takes to this file; it is secret, and is removed at the end
    #[arg(long, value_name = "FILE")]
    fence: Option<PathBuf>,
    /// What runs while this process is the owner
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The ownership was lost while COMMAND ran.
const LOST: i32 = 124;
/// Tanist itself failed.
const FAILED: i32 = 125;
/// COMMAND was ended by a signal: its number is added, as shells do.
const SIGNALLED: i32 = 128;
/// How often the time that is left is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A lease that was asked for.
pub(super) fn lease(asked: Duration) -> Result<Lease, Failure> {
    Lease::try_from(asked).map_err(|error| Failure::usage(error).next("--lease 15s"))
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let wanted = lease(args.lease)?;
    let grace = args.grace.unwrap_or((args.lease / 4).min(Duration::from_secs(2)));
    if grace > args.lease / 2 {
        let what = "a grace of more than half the lease would stop COMMAND between two renewals";
        return Err(Failure::usage(what).next("choose a longer lease, or a shorter grace"));
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("system", format!("cannot start: {error}")))?;
    // COMMAND dies with the thread that started it: this one, which ends last.
    let ended = runtime.block_on(elect(args, global, wanted, grace));
    match ended {
        Ok(Ended::Held) => Ok(Exit::Done),
        Ok(Ended::With(code)) => std::process::exit(code),
        Err(failure) if args.command.is_empty() => Err(failure),
        Err(failure) => {
            global.output().failure(&failure);
            std::process::exit(FAILED)
        }
    }
}

/// How it ended.
enum Ended {
    /// Without a COMMAND, as it was asked to.
    Held,
    /// With this exit code.
    With(i32),
}

async fn elect(args: &Args, global: &Global, lease: Lease, grace: Duration) -> Result<Ended, Failure> {
    let out = global.output();
    let stop = process::stop_signal().map_err(|error| Failure::failed("system", error))?;
    tokio::pin!(stop);
    let name = &args.resource;
    let campaign = async {
        let resource = name.open(global).await?;
        let tenure = win(&resource, lease, args.wait).await;
        let tenure = tenure.map_err(|error| resource::campaign(global, name, &error))?;
        Ok::<_, Failure>(tenure)
    };
    let tenure = tokio::select! {
        biased;
        () = &mut stop => {
            out.note(format!("asked to stop before {name} was owned"));
            return Ok(if args.command.is_empty() { Ended::Held } else { Ended::With(FAILED) });
        }
        won = campaign => won?,
    };
    let ended = own(args, global, &tenure, grace, stop).await;
    // Whatever kept it from going on: nobody has to wait for the lease of an owner that ends. If it was lost
    // there is nothing to give back.
    if (ended.is_ok() || tenure.is_owner())
        && let Err(error) = tenure.resign().await
    {
        out.note(format!("{name} could not be resigned, its lease runs out: {error}"));
    }
    ended
}

/// Is the owner until COMMAND ends, or it is asked to stop, or the ownership is lost.
async fn own(
    args: &Args,
    global: &Global,
    tenure: &Tenure,
    grace: Duration,
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Ended, Failure> {
    let (out, name, term) = (global.output(), &args.resource, tenure.term());
    let folder = scratch("tanist-elect").map_err(|error| Failure::failed("file", error))?;
    let fence = Secret::write(tenure, folder.path().join("fence"))?;
    let asked = args.fence.clone().map(|path| Secret::write(tenure, path)).transpose()?;
    if let Some(path) = &args.certificate {
        replace_file(path, tenure.certificate().to_text().as_bytes()).map_err(|e| unwritten(path, &e))?;
    }
    out.note(format!("{name} is owned, term {term}"));
    if args.command.is_empty() {
        let fence = asked.as_ref().unwrap_or(&fence).path.display().to_string();
        out.note(format!("until it ends: --fenced-by {fence}"));
        let certificate = args.certificate.as_ref().map(|path| path.display().to_string());
        out.result(
            || {
                json!({
                    "resource": name.as_str(),
                    "term": term.to_string(),
                    "fence": fence,
                    "certificate": certificate,
                })
            },
            || format!("{term}"),
        )?;
        return tokio::select! {
            biased;
            () = stop => Ok(Ended::Held),
            () = tenure.lost() => {
                Err(Failure::new(Exit::Fenced, "lost", format!("{name}: term {term} was lost"))
                    .state("somebody else may own it by now")
                    .next(global.line(&["owner", name.as_str()])))
            }
        };
    }
    let environment = [
        ("TANIST_RESOURCE", OsString::from(name.as_str())),
        ("TANIST_TERM", OsString::from(term.to_string())),
        (FENCE, fence.path.clone().into_os_string()),
    ];
    let mut child = start(&args.command, global, &environment)?;
    watch(&mut child, tenure, grace, stop).await
}

async fn win(resource: &Resource, lease: Lease, wait: Option<Duration>) -> Result<Tenure, CampaignError> {
    match wait {
        None => loop {
            match resource.campaign(lease).await {
                // Whoever waits for ever waits for the cluster, too.
                Err(CampaignError::Unavailable(_)) => sleep(Duration::from_millis(500)).await,
                other => return other,
            }
        },
        Some(wait) => resource.campaign_for(lease, wait).await,
    }
}

/// Starts COMMAND in a process group of its own. It does not outlive this process.
fn start(words: &[OsString], global: &Global, environment: &[(&str, OsString)]) -> Result<Child, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed("system", format!("cannot find the tanist binary: {error}")))?;
    let mut command = Command::new(program);
    command.args(guarded::arguments(words)).process_group(0);
    for (variable, value) in environment {
        command.env(variable, value);
    }
    for (variable, file) in [("TANIST_TICKET", &global.ticket), ("TANIST_KEY", &global.identity)] {
        if let Some(file) = file {
            command.env(variable, std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        }
    }
    command.spawn().map_err(|error| Failure::failed("command", format!("cannot start: {error}")))
}

/// Waits for COMMAND as long as this process is the owner.
async fn watch(
    child: &mut Child,
    tenure: &Tenure,
    grace: Duration,
    mut stop: impl Future<Output = ()> + Unpin,
) -> Result<Ended, Failure> {
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let send = |signal: Signal| {
        if let Some(group) = group {
            // If it has ended meanwhile, that is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    };
    let waiting = |error| {
        // Nobody would know when it ends.
        send(Signal::KILL);
        Failure::failed("command", format!("cannot wait for COMMAND: {error}"))
    };
    let look = LOOK.min(grace / 4).max(Duration::from_millis(1));
    let short = async {
        while tenure.left().is_some_and(|left| left > grace) {
            sleep(look).await;
        }
    };
    let lost = tokio::select! {
        biased;
        status = child.wait() => return Ok(Ended::With(code(status.map_err(waiting)?))),
        () = &mut stop => false,
        () = short => true,
    };
    send(Signal::TERM);
    let over = async {
        // From now on no renewal saves it: whoever was told to stop must not go on.
        let left = tenure.left().unwrap_or_default();
        let until = Instant::now() + left.min(grace);
        // The runtime's clock stands still while the machine is suspended. The tenure's does not.
        while Instant::now() < until && tenure.left().is_some() {
            sleep(look).await;
        }
    };
    let status = tokio::select! {
        biased;
        status = child.wait() => status,
        () = over => {
            send(Signal::KILL);
            child.wait().await
        }
    };
    let status = status.map_err(waiting)?;
    // What COMMAND left behind in its group must not act for the owner either.
    send(Signal::KILL);
    Ok(Ended::With(if lost { LOST } else { code(status) }))
}

fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(FAILED)
}

/// The file with the fence. It is removed in the end, unless a later owner has put its own there.
struct Secret {
    path: PathBuf,
    text: String,
}

impl Secret {
    fn write(tenure: &Tenure, path: PathBuf) -> Result<Self, Failure> {
        tenure.fence().save(&path).map_err(|error| unwritten(&path, &error))?;
        Ok(Secret { path, text: tenure.fence().to_text() })
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // Whoever removed it meanwhile did right.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed("file", format!("cannot write {}: {error}", path.display()))
        .next("name a place that can be written")
}
