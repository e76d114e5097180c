//! Rows in PostgreSQL, fenced in the transaction that changes them.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::NoTls;

use super::{Cluster, PATIENCE, free_port, now, wait_for};

/// A server of its own, on a port of loopback. It ends with this.
struct Server {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let bin = std::fs::read_dir("/usr/lib/postgresql")
            .ok()
            .and_then(|versions| versions.flatten().map(|version| version.path().join("bin")).max())
            .filter(|bin| bin.join("initdb").exists())
            .expect("PostgreSQL is not installed: `.ci/setup test` installs it");
        let data = tempfile::tempdir().unwrap();
        let (user, group) = server_user();
        std::os::unix::fs::chown(data.path(), Some(user), Some(group)).unwrap();
        let run = |program: PathBuf| {
            let mut command = Command::new(program);
            command.uid(user).gid(group).current_dir(data.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let folder = data.path().join("db");
        let made = run(bin.join("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--encoding=UTF8",
                "--no-locale",
                "-D",
            ])
            .arg(&folder)
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let port = free_port();
        let child = run(bin.join("postgres"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c"])
            .arg(format!("port={port}"))
            .arg("-D")
            .arg(&folder)
            .spawn()
            .unwrap();
        Server { child, port, _data: data }
    }

    fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres connect_timeout=5", self.port)
    }

    async fn connect(&self) -> tokio_postgres::Client {
        let begun = now();
        loop {
            match tokio_postgres::connect(&self.address(), NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(error) if now() - begun > PATIENCE => panic!("PostgreSQL does not start: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate: nothing of it is kept.
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// Whom the server runs as: it refuses to be root.
fn server_user() -> (u32, u32) {
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if own.0 != 0 {
        return own;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let postgres = users.lines().find(|line| line.starts_with("postgres:")).expect("a user named postgres");
    let field = |n: usize| postgres.split(':').nth(n).unwrap().parse().unwrap();
    (field(2), field(3))
}

#[test]
fn an_owner_killed_in_its_transaction_or_paused_before_it_spoils_nothing() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let server = Server::start();
        let cluster = Cluster::start(None).await;
        let database = server.connect().await;
        let start = |options: &[&str]| -> Child {
            let mut command = cluster.example("fenced_postgres");
            command.args(["--database", &server.address()]).args(options);
            command.arg("--cluster").arg(cluster.local.dir().join("cluster"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        // Killed in the middle of a transaction: the database takes it back, and another follows.
        let mut killed = start(&["--transfers", "5", "--wait-inside", "2"]);
        wait_for(&mut killed, "waits inside transfer 2");
        let next = start(&["--transfers", "3"]);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let next: Output = tokio::task::spawn_blocking(|| next.wait_with_output().unwrap()).await.unwrap();
        assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));

        // Paused before a transaction, past its lease: another follows, and the late one is refused.
        let mut paused = start(&["--transfers", "2", "--wait-before", "1"]);
        wait_for(&mut paused, "waits before transfer 1");
        kill_process(Pid::from_child(&paused), Signal::STOP).unwrap();
        let next = start(&["--transfers", "1"]);
        let next: Output = tokio::task::spawn_blocking(|| next.wait_with_output().unwrap()).await.unwrap();
        assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
        kill_process(Pid::from_child(&paused), Signal::CONT).unwrap();
        let late = tokio::task::spawn_blocking(|| paused.wait_with_output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&late.stdout).into_owned();
        assert!(!late.status.success() && said.contains("fenced"), "{said}");

        let rows = database.query("SELECT term, amount FROM entry ORDER BY id", &[]).await.unwrap();
        let terms: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        assert!(terms.is_sorted(), "the terms of what was written only rise: {terms:?}");
        assert_eq!(terms.len(), 2 + 3 + 1 + 1, "{terms:?}");
        let balances = database.query("SELECT balance FROM account ORDER BY name", &[]).await.unwrap();
        let balances: Vec<i64> = balances.iter().map(|row| row.get(0)).collect();
        assert_eq!(balances, [1000 - 70, 70]);
        drop(cluster.folder);
    });
}
