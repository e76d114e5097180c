//! A cluster of real `tanist node` processes on free ports, and the command line against it.
#![allow(clippy::print_stderr, reason = "what the nodes of a failed test say")]

use std::ffi::OsStr;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const TANIST: &str = env!("CARGO_BIN_EXE_tanist");
/// How often something is looked at before it counts as not happening. A look is a process that asks nodes:
/// it takes its time, so there is no pause between two.
const LOOKS: u32 = 1_000;
/// How often other ports are tried: others may take one between its choice and its use.
const TRIES: u32 = 5;

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// Stdout as text, without the newline at its end.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("stdout is text").trim_end().to_owned()
    }

    /// Stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error on stderr as JSON.
    pub(crate) fn error(&self) -> Value {
        let error: Value =
            serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        error["error"].clone()
    }

    /// Itself, if it ended so.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}\n{}", self.err);
        self
    }
}

/// Runs the binary without any cluster.
pub(crate) fn tanist<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    let mut command = Command::new(TANIST);
    for variable in ["TANIST_TICKET", "TANIST_KEY", "TANIST_FENCE"] {
        command.env_remove(variable);
    }
    run(command.args(args))
}

fn run(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().expect("the binary runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().expect("it ended by itself"), out: output.stdout, err }
}

/// Waits until `look` sees it.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(seen) = look() {
            return seen;
        }
    }
    panic!("it never came true that {what}");
}

/// Three nodes, `n1` to `n3`. They are killed when this is dropped.
pub(crate) struct Cluster {
    nodes: Vec<Option<Child>>,
    dir: TempDir,
}

impl Cluster {
    /// Founds a cluster, starts its nodes, and creates the namespace `carts`.
    pub(crate) fn start() -> Self {
        for _ in 0..TRIES {
            if let Some(cluster) = Self::try_start() {
                let admin = cluster.path("c/admin.key");
                let args = ["namespace", "create", "carts", "--mode", "siblings", "--key"];
                let mut args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
                args.push(admin.as_os_str());
                cluster.run(&args).expect(0);
                return cluster;
            }
        }
        panic!("other processes took the ports {TRIES} times");
    }

    fn try_start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        // All three are held while they are chosen, so that they differ.
        let sockets: Vec<UdpSocket> =
            (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
        let mut args = vec!["cluster".to_owned(), "new".to_owned()];
        args.push(dir.path().join("c").to_string_lossy().into_owned());
        for (socket, number) in sockets.iter().zip(1..) {
            let address = socket.local_addr().expect("a bound socket");
            args.extend(["--node".to_owned(), format!("n{number}={address}")]);
        }
        tanist(&args).expect(0);
        drop(sockets);
        let mut cluster = Cluster { nodes: vec![None, None, None], dir };
        for number in 1..=3 {
            cluster.restart(number);
        }
        // A node that cannot listen ends at once.
        for _ in 0..LOOKS {
            if cluster.nodes.iter_mut().flatten().any(|node| node.try_wait().expect("a child").is_some()) {
                return None;
            }
            if cluster.is_ready(3) {
                return Some(cluster);
            }
        }
        panic!("the nodes do not find each other");
    }

    fn is_ready(&self, nodes: usize) -> bool {
        let status = self.run(&["status", "--json"]);
        if status.code != 0 {
            return false;
        }
        let status = status.json();
        let ready = |node: &&Value| {
            let peers = node["peers"].as_array().into_iter().flatten();
            node["counts"] == true && peers.filter(|peer| peer["connected"] == true).count() + 1 >= nodes
        };
        status["nodes"].as_array().into_iter().flatten().filter(ready).count() >= nodes
    }

    /// A path in the cluster's temporary folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a node that does not run.
    pub(crate) fn restart(&mut self, number: usize) {
        let log = File::options().create(true).append(true).open(self.path(&format!("n{number}.log")));
        let node = Command::new(TANIST)
            .arg("node")
            .arg(self.path(&format!("c/node-{number}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.nodes[number - 1] = Some(node.expect("the node starts"));
    }

    /// Waits until all nodes run and know each other.
    pub(crate) fn ready(&self) {
        eventually("all nodes are ready", || self.is_ready(3).then_some(()));
    }

    /// Kills a node as `kill -9` does.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some(mut node) = self.nodes[number - 1].take() {
            node.kill().expect("a child can be killed");
            node.wait().expect("a killed child ends");
        }
    }

    /// Asks a node to stop, and returns its exit code.
    pub(crate) fn stop(&mut self, number: usize) -> Option<i32> {
        let mut node = self.nodes[number - 1].take()?;
        let pid = node.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        node.wait().expect("the node ends").code()
    }

    /// The command line with the client's key.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(TANIST);
        command.env("TANIST_TICKET", self.path("c/ticket")).env("TANIST_KEY", self.path("c/client.key"));
        command.env_remove("TANIST_FENCE").current_dir(self.dir.path());
        command
    }

    /// Runs it.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        run(self.command().args(args))
    }

    /// Runs it with the administrator's key.
    pub(crate) fn admin(&self, args: &[&str]) -> Ran {
        run(self.command().args(args).arg("--key").arg(self.path("c/admin.key")))
    }

    /// Runs it with a fence in the environment.
    pub(crate) fn run_fenced(&self, fence: &Path, args: &[&str]) -> Ran {
        run(self.command().args(args).env("TANIST_FENCE", fence))
    }

    /// What is logged of a node.
    pub(crate) fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.path(&format!("n{number}.log"))).unwrap_or_default()
    }

    /// The live versions of a key as one node holds them.
    pub(crate) fn held(&self, node: &str, key: &str) -> Vec<Value> {
        let read = self.run(&["get", "carts", key, "--local", "--at", node, "--all", "--json"]);
        match read.code {
            0 | 7 => read.json()["versions"].as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 1..=3 {
            self.kill(number);
        }
        if std::thread::panicking() {
            for number in 1..=3 {
                eprintln!("n{number}:\n{}", self.log(number));
            }
        }
    }
}

/// `text` with what differs in every run replaced: ids by `ID`, keys by `KEY`, times by `TIME`.
pub(crate) fn stable(text: &str, cluster: &Path) -> String {
    let text = text.replace(&cluster.to_string_lossy().into_owned(), "DIR");
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| hex(**byte)).count();
        let time = text.get(at..at + 24).filter(|time| time.as_bytes()[10] == b'T' && time.ends_with('Z'));
        if digits >= 32 {
            out.push_str("HEX");
            at += digits;
        } else if time.is_some() {
            out.push_str("TIME");
            at += 24;
        } else {
            let character = text[at..].chars().next().expect("within the text");
            out.push(character);
            at += character.len_utf8();
        }
    }
    out
}
