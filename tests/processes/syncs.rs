//! Case 31: no acknowledgement before the sync, and none after a sync that failed. `strace` watches.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tanist::cli::local::Plan;

use super::support::{Cluster, PATIENCE, TANIST, run};

/// `strace` attached to a process; detached when dropped.
pub(crate) struct Trace {
    strace: Child,
    output: PathBuf,
}

impl Trace {
    /// Attaches to all threads of `pid`, for syncs, and waits until that is done.
    pub(crate) fn attach(pid: Pid, output: &Path, more: &[&str]) -> Self {
        Self::attach_to(pid, output, "trace=fdatasync,fsync,sync_file_range", more)
    }

    fn attach_to(pid: Pid, output: &Path, calls: &str, more: &[&str]) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-ttt", "-T", "-e", calls]).args(more);
        command.arg("-o").arg(output).arg("-p").arg(pid.as_raw_nonzero().to_string());
        let spawned = command.stderr(Stdio::piped()).spawn();
        let mut strace = spawned.unwrap_or_else(|error| panic!("this test needs strace: {error}"));
        let mut said = String::new();
        let mut lines = BufReader::new(strace.stderr.take().unwrap());
        while !said.contains("attached") {
            let read = lines.read_line(&mut said).unwrap();
            assert!(read > 0, "strace cannot attach; it must be allowed to trace (root): {said}");
        }
        // Nobody may be held up because this pipe is full.
        std::thread::spawn(move || lines.lines().count());
        Trace { strace, output: output.to_owned() }
    }

    /// Detaches, and returns when syncs returned without an error, in seconds since 1970.
    fn finish(mut self) -> Vec<f64> {
        self.detach();
        let text = std::fs::read_to_string(&self.output).unwrap();
        text.lines().filter_map(synced).collect()
    }

    fn detach(&mut self) {
        let _ = kill_process(Pid::from_child(&self.strace), Signal::INT);
        let _ = self.strace.wait();
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.detach();
    }
}

/// When the call of this line returned 0, if it did.
fn synced(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace().skip(1);
    let at: f64 = words.next()?.parse().ok()?;
    let call = line.split_whitespace().nth(2)?;
    let (_, result) = line.rsplit_once("= ")?;
    if !result.starts_with("0 <") {
        return None;
    }
    let took: f64 = result.strip_prefix("0 <")?.strip_suffix('>')?.parse().ok()?;
    if call == "<..." {
        Some(at)
    } else {
        (call.starts_with("fdatasync") || call.starts_with("fsync")).then_some(at + took)
    }
}

#[allow(clippy::disallowed_methods, reason = "strace writes the time of the wall clock")]
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn lines_of_strace_are_read() {
    assert_eq!(synced("7 100.5 fdatasync(9) = 0 <0.25>"), Some(100.75));
    assert_eq!(synced("7 100.5 <... fdatasync resumed>) = 0 <0.25>"), Some(100.5));
    assert_eq!(synced("7 100.5 fdatasync(9 <unfinished ...>"), None);
    assert_eq!(synced("7 100.5 fdatasync(9) = -1 EIO (Input/output error) (INJECTED) <0.25>"), None);
}

#[test]
fn case_31_a_sync_returned_between_every_request_and_its_acknowledgement() {
    const PUTS: usize = 50;
    run(async {
        let cluster = Cluster::start().await;
        let trace = |node: usize| {
            let output = cluster.folder.path().join(format!("strace-{node}"));
            Trace::attach(cluster.local.pid(node).unwrap(), &output, &[])
        };
        let traces: Vec<Trace> = (0..3).map(trace).collect();
        let test = cluster.open().await;
        let mut puts = Vec::new();
        for n in 0..PUTS {
            let begun = wall();
            let written = test.create(format!("k/{n}"), "x").await.unwrap();
            assert!(written.applied().is_some());
            puts.push((begun, wall()));
        }
        let syncs: Vec<Vec<f64>> = traces.into_iter().map(Trace::finish).collect();
        assert!(syncs.iter().all(|syncs| syncs.len() >= PUTS / 2), "strace saw too little");
        for (from, to) in puts {
            let during = |syncs: &&Vec<f64>| syncs.iter().any(|at| (from..=to).contains(at));
            let nodes = syncs.iter().filter(during).count();
            assert!(nodes >= 2, "acknowledged at {to} after a request at {from}, synced by {nodes} nodes");
        }
    });
}

#[test]
fn case_31_a_failed_sync_is_an_error_and_ends_the_node() {
    run(async {
        let plan = Plan { nodes: 1, ..Plan::default() };
        let mut cluster = Cluster::start_with(plan, &[]).await;
        let test = cluster.open().await;
        test.create("before", "x").await.unwrap();
        let output = cluster.folder.path().join("strace");
        let inject = ["-e", "inject=fdatasync,fsync,sync_file_range:error=EIO"];
        let trace = Trace::attach(cluster.local.pid(0).unwrap(), &output, &inject);
        let written = test.create("during", "x").await;
        assert!(written.is_err(), "acknowledged without a sync: {written:?}");
        let status = tokio::time::timeout(PATIENCE, cluster.local.ended(0)).await.unwrap().unwrap().unwrap();
        assert!(!status.success(), "the node must not go on, nor pretend that all is well");
        assert_eq!(trace.finish(), [] as [f64; 0], "every sync failed");

        cluster.heal().await;
        assert!(test.get("before").await.unwrap().value().unwrap().is_some());
        assert!(test.create("after", "x").await.unwrap().applied().is_some());
    });
}

/// A call on a file of the data directory, and the error that it gets from some call on.
struct Injected {
    calls: &'static str,
    error: &'static str,
    /// The first call that fails.
    from: u32,
    /// The file: a name in the data directory, or the ending of one in the database, of which the
    /// newest is meant.
    file: &'static str,
    /// Whether the node must end of it.
    ends: bool,
}

/// The file that is meant.
fn find(data: &Path, file: &str) -> PathBuf {
    if !file.starts_with('.') {
        return data.join(file);
    }
    let files = std::fs::read_dir(data.join("data")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().ends_with(file)).max().expect("a file of that kind")
}

/// The log and the high-water file, each when it is written and when it is synced.
#[test]
fn no_error_of_a_file_is_taken_for_an_acknowledgement() {
    const PUTS: usize = 12;
    const INJECTED: [Injected; 8] = [
        Injected { calls: "write", error: "EIO", from: 1, file: ".log", ends: true },
        Injected { calls: "write", error: "EIO", from: 4, file: ".log", ends: true },
        Injected { calls: "write", error: "ENOSPC", from: 2, file: ".log", ends: true },
        Injected { calls: "fdatasync,fsync", error: "EIO", from: 3, file: ".log", ends: true },
        Injected { calls: "fallocate", error: "ENOSPC", from: 1, file: ".log", ends: false },
        Injected { calls: "pwrite64", error: "EIO", from: 2, file: "high-water", ends: true },
        Injected { calls: "pwrite64", error: "ENOSPC", from: 1, file: "high-water", ends: true },
        Injected { calls: "fdatasync", error: "EIO", from: 1, file: "high-water", ends: true },
    ];
    run(async {
        let mut cluster = Cluster::start_with(Plan { nodes: 1, ..Plan::default() }, &[]).await;
        let test = cluster.open().await;
        let data = cluster.local.node_dir(0).unwrap().data();
        let mut acknowledged = Vec::new();
        for (number, injected) in INJECTED.into_iter().enumerate() {
            let Injected { calls, error, from, file, ends } = injected;
            let what = format!("{error} of {calls} on {file}, from call {from} on");
            let output = cluster.folder.path().join(format!("strace-{number}"));
            let path = find(&data, file);
            let inject = format!("inject={calls}:error={error}:when={from}+");
            let more = ["-P", path.to_str().unwrap(), "-e", &inject];
            let trace =
                Trace::attach_to(cluster.local.pid(0).unwrap(), &output, &format!("trace={calls}"), &more);
            let mut ended = None;
            for put in 0..PUTS {
                let key = format!("{number}/{put}");
                // What the client is told at last is looked at once: it waits a while for another node.
                let patient = number == 0;
                let written = tokio::select! {
                    biased;
                    written = test.create(key.as_str(), "x") => written,
                    status = cluster.local.ended(0), if ends && !patient => {
                        ended = status.unwrap();
                        break;
                    }
                };
                match written {
                    Ok(written) => {
                        assert!(written.applied().is_some(), "{what}");
                        acknowledged.push(key);
                    }
                    Err(_) if ends => break,
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            if ends {
                if ended.is_none() {
                    let waiting = tokio::time::timeout(PATIENCE, cluster.local.ended(0)).await;
                    ended = waiting.unwrap_or_else(|_| panic!("{what}: the node goes on")).unwrap();
                }
                assert_eq!(ended.unwrap().code(), Some(1), "{what}");
                let log = std::fs::read_to_string(cluster.local.log(0)).unwrap();
                let last = log.lines().rev().find(|line| line.contains("this node ends"));
                let said = last.unwrap_or_else(|| panic!("{what}: {log}"));
                assert!(said.contains("storage failed") || said.contains("cannot sync"), "{what}: {said}");
            }
            drop(trace);
            if ends {
                let seen = std::fs::read_to_string(&output).unwrap();
                assert!(seen.contains("(INJECTED)"), "{what}: never came");
            }
            cluster.heal().await;
            for key in &acknowledged {
                let read = test.get(key.as_str()).await.unwrap();
                assert!(read.value().unwrap().is_some(), "{what}: {key} was acknowledged and is lost");
            }
        }
        assert!(acknowledged.len() > PUTS, "nearly nothing was acknowledged: {acknowledged:?}");
    });
}

/// A read that fails is an error, not an absent key; and it is there again once the disk reads.
#[test]
fn a_read_that_fails_is_an_error_and_ends_the_node() {
    run(async {
        let mut cluster = Cluster::start_with(Plan { nodes: 1, ..Plan::default() }, &[]).await;
        let test = cluster.open().await;
        for n in 0..50 {
            test.create(format!("k/{n}"), vec![b'x'; 2_000]).await.unwrap();
        }
        // A start brings what is in the log to a table.
        cluster.local.terminate(0).await.unwrap();
        cluster.heal().await;
        let output = cluster.folder.path().join("strace");
        let inject = ["-e", "inject=pread64,preadv,preadv2,read:error=EIO"];
        let data = cluster.local.node_dir(0).unwrap().data();
        let table = find(&data, ".sst");
        let more = [&["-P", table.to_str().unwrap()], &inject[..]].concat();
        let trace = Trace::attach_to(
            cluster.local.pid(0).unwrap(),
            &output,
            "trace=pread64,preadv,preadv2,read",
            &more,
        );
        let mut failed = false;
        for n in 0..50 {
            match test.get(format!("k/{n}")).await {
                Ok(read) => assert!(read.value().unwrap().is_some(), "k/{n} is shown as absent"),
                Err(_) => {
                    failed = true;
                    break;
                }
            }
        }
        drop(trace);
        let seen = std::fs::read_to_string(&output).unwrap();
        assert!(seen.contains("(INJECTED)"), "no read ever met the table: {seen}");
        assert!(failed, "a read of a table that cannot be read was answered");
        let status = tokio::time::timeout(PATIENCE, cluster.local.ended(0)).await.unwrap().unwrap().unwrap();
        assert_eq!(status.code(), Some(1));
        let log = std::fs::read_to_string(cluster.local.log(0)).unwrap();
        assert!(log.contains("the data cannot be trusted any more"), "{log}");
        cluster.heal().await;
        for n in 0..50 {
            assert!(test.get(format!("k/{n}")).await.unwrap().value().unwrap().is_some());
        }
    });
}

/// Starts a node that is killed at the call `number` of `calls`; says whether it came to run before.
async fn killed_at(cluster: &Cluster, calls: &str, number: u32) -> bool {
    let folder = cluster.local.node_dir(0).unwrap().path().to_owned();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=KILL:when={number}"), TANIST, "node"]).arg(folder);
    let spawned = strace.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut strace = spawned.unwrap_or_else(|error| panic!("this test needs strace: {error}"));
    let group = Pid::from_child(&strace);
    let lines = BufReader::new(strace.stderr.take().unwrap()).lines();
    let said = tokio::task::spawn_blocking(move || {
        let mut runs = false;
        // Both hold the pipe, so it ends when strace and the node have.
        for line in lines {
            if line.unwrap().contains("this node runs") {
                runs = true;
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        runs
    });
    let runs = tokio::time::timeout(PATIENCE, said).await.expect("the node runs or is killed").unwrap();
    let _ = strace.wait();
    runs
}

/// A start writes tables, a manifest and a log before it writes anything of its own.
#[test]
fn a_start_killed_at_any_step_is_followed_by_an_ordinary_one() {
    run(async {
        let mut cluster = Cluster::start_with(Plan { nodes: 1, ..Plan::default() }, &[]).await;
        let test = cluster.open().await;
        let mut kills = 0;
        for calls in ["fsync,fdatasync", "rename", "unlink"] {
            for number in 1..20 {
                let key = format!("{calls}/{number}");
                assert!(test.create(key.as_str(), "x").await.unwrap().applied().is_some());
                cluster.local.kill(0);
                let ran = killed_at(&cluster, calls, number).await;
                cluster.heal().await;
                let log = std::fs::read_to_string(cluster.local.log(0)).unwrap();
                assert!(!log.contains("new actor"), "killed at {calls} {number}: {log}");
                assert!(test.get(key.as_str()).await.unwrap().value().unwrap().is_some());
                if ran {
                    break;
                }
                kills += 1;
            }
        }
        assert!(kills >= 6, "a start has more steps than {kills}");
    });
}
