//! The commands of the `tanist` binary, one file each.
//!
//! ```text
//! args     the command line        exit     exit codes         error    three lines, or JSON
//! output   the only writer         json     forms of JSON      words    commands to type next
//! failures what errors of the SDK mean here                    session  connecting
//! basis    --if                    value    VALUE, --file      write    receipts and verdicts
//! child    running COMMAND         progress for people who wait
//! local    a cluster of children   relay    wires that can be cut   load    writers
//! ```

mod args;
mod basis;
mod certificate;
mod check;
mod child;
mod cluster;
mod conflicts;
mod create;
mod delete;
mod demo;
mod dev;
mod elect;
mod error;
mod exit;
mod failures;
mod get;
mod grant;
mod guarded;
mod json;
mod keygen;
mod list;
pub mod load;
pub mod local;
mod namespace;
mod node;
mod once;
mod outcome;
mod output;
mod overwrite;
mod owner;
mod progress;
pub mod relay;
mod replace;
mod resign;
mod resolve;
mod resource;
mod session;
mod show;
mod status;
mod update;
mod usage;
mod value;
mod words;
mod write;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser as _;

use self::args::{Cli, Command};
use self::error::Failure;
use self::exit::Exit;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error).into(),
    };
    let output = cli.global.output();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Demo(args) => demo::run(&args, global),
        Command::Dev(args) => dev::run(&args, global),
        Command::Node(args) => node::run(&args, global),
        Command::Keygen(args) => keygen::run(&args, global),
        Command::Cluster(command) => cluster::run(&command, global),
        Command::Namespace(command) => client(namespace::run(&command, global)),
        Command::Grant(command) => client(grant::run(&command, global)),
        Command::Get(args) => client(get::run(&args, global)),
        Command::Create(args) => client(create::run(&args, global)),
        Command::Replace(args) => client(replace::run(&args, global)),
        Command::Update(args) => client(update::run(&args, global)),
        Command::Overwrite(args) => client(overwrite::run(&args, global)),
        Command::Delete(args) => client(delete::run(&args, global)),
        Command::Resolve(args) => client(resolve::run(&args, global)),
        Command::Conflicts(args) => client(conflicts::run(&args, global)),
        Command::Show(args) => client(show::run(&args, global)),
        Command::Elect(args) => elect::run(&args, global),
        Command::Guarded(args) => guarded::run(&args, global),
        Command::Owner(args) => client(owner::run(&args, global)),
        Command::Resign(args) => client(resign::run(&args, global)),
        Command::Certificate(command) => certificate::run(&command, global),
        Command::Check(args) => check::run(&args, global),
        Command::Once(args) => client(once::run(&args, global)),
        Command::Outcome(args) => client(outcome::run(&args, global)),
        Command::List(args) => client(list::run(&args, global)),
        Command::Status(args) => client(status::run(&args, global)),
    }
}

/// Runs a command that talks to a cluster. One thread is enough, and starts faster than several.
fn client(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed("system", format!("cannot start: {error}")))?;
    runtime.block_on(command)
}
