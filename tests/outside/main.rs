//! Stores and effects outside of the cluster, with real servers: PostgreSQL and SMTP.
//!
//! The examples run as processes, and are killed. A test that lacks a server fails with that reason.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod mail;
mod postgres;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tanist::cli::local::{Local, Plan, Scratch, scratch};
use tanist::client::{Client, Mode};

/// How long a server or a cluster may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of three processes.
struct Cluster {
    // Dropped in this order: the processes before the folder that they work in.
    local: Local,
    folder: Scratch,
}

impl Cluster {
    async fn start(namespace: Option<&str>) -> Self {
        let folder = scratch("tanist-outside").unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_tanist"));
        let mut local =
            Local::found(&folder.path().join("cluster"), program, &Plan::default()).await.unwrap();
        local.start_all().unwrap();
        let client: Client = local.connect(PATIENCE).await.unwrap();
        local.ready(&client, PATIENCE).await.unwrap();
        if let Some(name) = namespace {
            let admin = client.admin(client.identity().clone());
            admin.create_namespace(name, Mode::Linearizable, None).await.unwrap();
        }
        Cluster { local, folder }
    }

    /// An example, not started yet.
    fn example(&self, name: &str) -> Command {
        let path = std::env::current_exe().unwrap();
        let path: PathBuf = path.ancestors().nth(2).unwrap().join("examples").join(name);
        assert!(path.exists(), "{} is built by `cargo test` without `--test`", path.display());
        let mut command = Command::new(path);
        command.env("TANIST_TICKET", self.local.ticket_file()).env("TANIST_KEY", self.local.key_file());
        command.stdin(Stdio::null());
        command
    }
}

/// Reads the lines of a process until one holds `wanted`.
fn wait_for(child: &mut Child, wanted: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let found = lines.any(|line| line.unwrap().contains(wanted));
    assert!(found, "the process ended without saying {wanted:?}");
}

#[allow(clippy::disallowed_methods, reason = "a test waits for a server")]
fn now() -> Instant {
    Instant::now()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
