//! What the examples need around them: a cluster of three `tanist node` processes on this machine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tanist::cli::local::{Local, Plan, Scratch, scratch};
use tanist::client::{Client, Mode};

/// How long nodes may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Three nodes, in a temporary folder that goes with them.
pub(crate) struct Cluster {
    // Dropped in this order: the processes before the folder that they work in.
    #[allow(dead_code, reason = "not every example cuts wires or kills nodes")]
    pub(crate) local: Local,
    _folder: Scratch,
}

impl Cluster {
    /// Starts three nodes; with `wires` they talk through relays that can be cut. The client may do
    /// everything.
    pub(crate) async fn start(wires: bool) -> Result<(Self, Client), Box<dyn Error>> {
        let folder = scratch("tanist-example")?;
        let plan = Plan { relays: wires.then_some(1), ..Plan::default() };
        let mut local = Local::found(&folder.path().join("cluster"), &binary()?, &plan).await?;
        local.start_all()?;
        let client = local.connect(PATIENCE).await?;
        local.ready(&client, PATIENCE).await?;
        Ok((Cluster { local, _folder: folder }, client))
    }
}

/// Creates a namespace. `write_quorum` replicas must have a write before it is acknowledged; a majority,
/// if it does not say.
pub(crate) async fn create_namespace(
    client: &Client,
    name: &str,
    write_quorum: Option<u8>,
) -> Result<(), Box<dyn Error>> {
    let admin = client.admin(client.identity().clone());
    admin.create_namespace(name, Mode::Siblings, write_quorum).await?;
    Ok(())
}

/// The `tanist` binary: what a test says, or the one that belongs to this build.
fn binary() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(path) = option_env!("CARGO_BIN_EXE_tanist") {
        return Ok(path.into());
    }
    if let Some(cargo) = std::env::var_os("CARGO") {
        // `cargo run --example` builds the example alone.
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--quiet", "--bin", "tanist"]);
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
        if !built.success() {
            return Err("the tanist binary cannot be built".into());
        }
    }
    let example = std::env::current_exe()?;
    let release = example.parent().and_then(Path::parent).ok_or("this example is nowhere")?;
    Ok(release.join("tanist"))
}
