//! An owner is paused past its lease, another follows, and the first goes on as if nothing had happened.
//!
//! Beside it the same happens to a lock as it is usually made with `SET NX PX`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::sleep;

use super::broken::Rule;
use super::claims::{Finding, Surprise};
use super::world::{REGISTERS, World};
use crate::client::FenceKey;

const RESOURCE: &str = "ledger";
const KEY: &str = "balance";
const LEASE: &str = "2s";
const LEASE_MS: u64 = 2_000;
/// How long a candidate may take: the lease, and a bit.
const PATIENCE: Duration = Duration::from_secs(20);
const FENCED: i32 = 6;

/// A lock with a time-out, and what it guards: nothing ties the one to the other.
struct Lock {
    holder: Option<(&'static str, u64)>,
    ledger: &'static str,
}

impl Lock {
    /// `SET lock holder NX PX lease`.
    fn acquire(&mut self, holder: &'static str, now: u64) -> bool {
        let free = self.holder.is_none_or(|(_, until)| until <= now);
        if free {
            self.holder = Some((holder, now + LEASE_MS));
        }
        free
    }
}

pub(super) async fn check(world: &mut World) -> Result<Finding, Surprise> {
    let folder = world.local.dir().to_owned();
    let (first_fence, second_fence) = (folder.join("fence-1"), folder.join("fence-2"));
    let mut lock = Lock { holder: None, ledger: "" };
    let mut first = elect(world, &first_fence)?;
    wait_for(&first_fence).await?;
    let old = FenceKey::load(&first_fence)?;
    // Its process removes the file when it notices that it lost; what acts for it has it still.
    let kept_fence = folder.join("fence-kept");
    std::fs::copy(&first_fence, &kept_fence)?;
    lock.acquire("first", world.clock.now());
    let wrote = write(world, "first", &first_fence).await?;
    lock.ledger = "first";

    signal(&first, Signal::STOP)?;
    let stopped = world.clock.now();
    let mut second = elect(world, &second_fence)?;
    wait_for(&second_fence).await?;
    let followed = world.clock.now() - stopped;
    let new = FenceKey::load(&second_fence)?;
    let followed_the_lock = lock.acquire("second", stopped + LEASE_MS + 1);
    let wrote_too = write(world, "second", &second_fence).await?;
    lock.ledger = "second";

    // The first one goes on where it stopped: with a write.
    signal(&first, Signal::CONT)?;
    lock.ledger = "first";
    let fence = if world.breaks(Rule::Owner) { &second_fence } else { &kept_fence };
    let late = world.command(&["overwrite", REGISTERS, KEY, "first, late"]);
    let late = fenced(late, fence).output().await?;
    let told = String::from_utf8_lossy(&late.stderr).into_owned();
    let told = told.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let kept = world.registers().await?.get(KEY).await?;
    let kept = kept.value()?.cloned().unwrap_or_default();
    let noticed = tokio::time::timeout(PATIENCE, first.wait()).await??;
    signal(&second, Signal::TERM)?;
    second.wait().await?;

    let holds = wrote
        && wrote_too
        && followed_the_lock
        && new.term() > old.term()
        && late.status.code() == Some(FENCED)
        && kept == "second"
        && noticed.code() == Some(FENCED);
    let found = format!(
        "a lock with a time-out: the ledger says {:?}, written by who had lost it; Tanist, followed after \
         {followed} ms of a lease of {LEASE}: {told}; the ledger says {:?}",
        lock.ledger,
        String::from_utf8_lossy(&kept),
    );
    let finding = Finding::new(holds, found).number("followed_ms", followed);
    Ok(finding.number("old_term", old.term().to_string()).number("new_term", new.term().to_string()))
}

/// A process that campaigns, and owns as long as it runs.
fn elect(world: &World, fence: &Path) -> Result<Child, Surprise> {
    let certificate = certificate(fence);
    let (fence, certificate) = (fence.to_string_lossy(), certificate.to_string_lossy());
    let arguments = ["elect", RESOURCE, "--lease", LEASE, "--fence", &fence, "--certificate", &certificate];
    let mut command = world.command(&arguments);
    Ok(command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()?)
}

/// Where the certificate of an owner is.
pub(super) fn certificate(fence: &Path) -> PathBuf {
    fence.with_extension("certificate")
}

/// The certificate of the owner that was followed, once [`check`] has run.
pub(super) fn last_certificate(world: &World) -> PathBuf {
    certificate(&world.local.dir().join("fence-2"))
}

async fn wait_for(file: &Path) -> Result<(), Surprise> {
    let there = async {
        // The certificate is written after the fence.
        while !certificate(file).exists() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    Ok(tokio::time::timeout(PATIENCE, there).await?)
}

async fn write(world: &World, value: &str, fence: &Path) -> Result<bool, Surprise> {
    let written = fenced(world.command(&["overwrite", REGISTERS, KEY, value]), fence).output().await?;
    Ok(written.status.success())
}

fn fenced(mut command: tokio::process::Command, fence: &Path) -> tokio::process::Command {
    command.arg("--fenced-by").arg(fence);
    command
}

fn signal(child: &Child, signal: Signal) -> Result<(), Surprise> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    Ok(kill_process(pid.ok_or_else(|| Surprise::new("the owner has ended"))?, signal)?)
}
