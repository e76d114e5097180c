//! The step between `tanist elect` and COMMAND: a process that asks the system to be killed when its
//! parent dies, and then becomes COMMAND. An owner's command must not go on when nobody watches the lease.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The parent, without which COMMAND must not run
    parent: i32,
    /// What to become
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// COMMAND was found and cannot be run.
const NOT_EXECUTABLE: i32 = 126;
/// COMMAND was not found.
const NOT_FOUND: i32 = 127;

/// The arguments with which this program becomes `command`.
pub(super) fn arguments(command: &[OsString]) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut arguments: Vec<OsString> = ["guarded".into(), parent.into(), "--".into()].into();
    arguments.extend(command.iter().cloned());
    arguments
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("no COMMAND was given").next("put it behind `--`"));
    };
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::failed("system", format!("cannot follow the parent: {error}")))?;
    // It may have died before that was asked for.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return Err(Failure::failed("system", "the process that watches the lease is gone")
            .next("run `tanist elect` again"));
    }
    let error = Command::new(program).args(arguments).exec();
    let name = program.to_string_lossy();
    let failure = Failure::failed("command", format!("cannot run {name}: {error}")).next("correct COMMAND");
    global.output().failure(&failure);
    std::process::exit(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}
