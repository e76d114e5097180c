//! `tanist demo`: what Tanist promises, shown with real processes.
//!
//! ```text
//! claims      the list, in the order in which it is told
//! world       the cluster that is talked to
//! creating    a second creator            race        a lost update
//! failure     processes that end or stop  partition   wires that are cut
//! forgery     what nobody signed          retry       one write sent ten times
//! counting    registers under contention  ownership   an owner that is paused
//! settling    an answer that is lost      proof       a certificate, offline
//! broken      rules broken on purpose, to prove that this cannot lie
//! ```
//!
//! Every number and verdict comes from replies.

mod broken;
mod claims;
mod counting;
mod creating;
mod failure;
mod forgery;
mod ownership;
mod partition;
mod proof;
mod race;
mod retry;
mod settling;
mod world;

use std::path::Path;

use serde_json::json;

use self::broken::Rule;
use self::claims::{CLAIMS, Finding, Told};
use self::world::World;
use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::local::LocalError;
use super::output::Output;
use crate::node::clock::Clock;
use crate::node::process;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the folder of the demonstration, and say where it is
    #[arg(long)]
    keep: bool,
    /// Break a rule, to see that the line about it fails; for tests, with TANIST_TEST_BREAK set
    #[arg(long = "break", hide = true, value_name = "RULE")]
    broken: Vec<Rule>,
}

/// A test sets it to be allowed to break a rule.
const MAY_BREAK: &str = "TANIST_TEST_BREAK";

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    if !args.broken.is_empty() && std::env::var_os(MAY_BREAK).is_none() {
        return Err(Failure::usage(format!("--break is for tests, which set {MAY_BREAK}")));
    }
    let output = global.output();
    let folder = super::local::scratch("tanist-demo").map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("runtime", format!("cannot start threads: {error}")))?;
    let cluster = folder.path().join("cluster");
    let told = runtime.block_on(async {
        let stop = process::stop_signal().map_err(|error| Failure::failed("signals", error))?;
        tokio::select! {
            biased;
            () = stop => Err(Failure::failed("interrupted", "the demonstration was interrupted")
                .state("its processes are stopped")
                .next("tanist demo")),
            told = tell(&cluster, &args.broken, output) => told,
        }
    });
    if args.keep {
        let kept = folder.keep();
        output.note(format!("kept {}", kept.display()));
    }
    if told? { Ok(Exit::Done) } else { Ok(Exit::Failed) }
}

/// Tells all claims; whether all of them hold.
async fn tell(dir: &Path, broken: &[Rule], output: Output) -> Result<bool, Failure> {
    let clock = Clock::start();
    let mut world = World::start(dir, broken, clock).await.map_err(|error| failed(&error))?;
    output.note(format!(
        "three nodes on this machine, processes {}, ready after {} ms\n",
        world.processes(),
        clock.now()
    ));
    let mut told = Vec::new();
    for claim in CLAIMS {
        let begun = clock.now();
        let finding = claim.check(&mut world).await;
        let Finding { holds, found, numbers } = finding.unwrap_or_else(Finding::failed);
        let line = Told { claim, holds, found, numbers, ms: clock.now() - begun };
        if !output.is_json() {
            output.bytes(format!("{}\n", line.to_text()).as_bytes())?;
        }
        told.push(line);
    }
    let holds = told.iter().all(|line| line.holds);
    let seconds = clock.now() as f64 / 1000.0;
    let failed = told.iter().filter(|line| !line.holds).count();
    output.result(
        || json!({ "holds": holds, "seconds": seconds, "claims": told.iter().map(Told::to_json).collect::<Vec<_>>() }),
        || match failed {
            0 => format!("\nall {} claims hold, after {seconds:.1} s", told.len()),
            _ => format!("\n{failed} of {} claims do not hold, after {seconds:.1} s", told.len()),
        },
    )?;
    Ok(holds)
}

fn failed(error: &LocalError) -> Failure {
    Failure::failed("cluster", error)
        .state("the processes of the demonstration are stopped")
        .next("tanist demo --keep leaves the logs of the nodes")
}
