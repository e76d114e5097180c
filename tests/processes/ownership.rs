//! Owners that are killed, stopped, and told to stop.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tanist::core::authority::Authority;
use tanist::core::certificate::Certificate;
use tanist::core::object::Key;
use tanist::core::write::Term;
use tokio::time::sleep;

use super::support::{Cluster, PATIENCE, eventually, now, run, since, text};

const LEASE: [&str; 2] = ["--lease", "2s"];

/// A process that campaigns and owns until it is told to stop.
struct Owner {
    child: Child,
    fence: PathBuf,
    certificate: PathBuf,
}

impl Owner {
    fn start(cluster: &Cluster, name: &str) -> Self {
        let folder = cluster.folder.path();
        let (fence, certificate) =
            (folder.join(format!("{name}.fence")), folder.join(format!("{name}.cert")));
        let mut command = cluster.command(&["elect", "billing"]);
        command.args(LEASE).arg("--fence").arg(&fence).arg("--certificate").arg(&certificate);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Owner { child, fence, certificate }
    }

    async fn owns(&self) -> Certificate {
        eventually("an owner", PATIENCE, || async {
            Certificate::from_text(&std::fs::read_to_string(&self.certificate).ok()?).ok()
        })
        .await
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().unwrap().code()
    }
}

fn term(certificate: &Certificate) -> Term {
    certificate.proof.tenure.term
}

#[test]
fn a_killed_owner_is_followed_when_its_lease_has_run_out() {
    run(async {
        let cluster = Cluster::start().await;
        let mut owner = Owner::start(&cluster, "0");
        owner.owns().await;
        let mut took = Vec::new();
        for n in 1..=10 {
            let next = Owner::start(&cluster, &n.to_string());
            sleep(Duration::from_millis(300)).await;
            assert!(!next.certificate.exists(), "two owners");
            let killed = now();
            assert_eq!(owner.end(Signal::KILL), None);
            let certificate = next.owns().await;
            took.push(since(killed));
            assert!(term(&certificate).number > n);
            owner = next;
        }
        assert_eq!(owner.end(Signal::TERM), Some(0));
        let within = |limit| took.iter().filter(|took| **took <= Duration::from_millis(limit)).count();
        println!("owned again after {took:?}");
        assert!(within(2_500) >= 9 && within(4_000) == 10, "{took:?}");
    });
}

#[test]
fn a_killed_node_costs_no_renewal_and_changes_no_owner() {
    run(async {
        let mut cluster = Cluster::start().await;
        let owner = Owner::start(&cluster, "0");
        let first = owner.owns().await;
        for victim in 0..3 {
            cluster.local.kill(victim);
            sleep(Duration::from_millis(2_500)).await;
            let seen = cluster.client.resource("billing").unwrap().observe().await.unwrap().unwrap();
            assert_eq!(seen.term, term(&first), "with node {victim} dead");
            assert!(seen.left > Duration::from_millis(200), "renewals arrive: {:?}", seen.left);
            cluster.heal().await;
        }
        assert_eq!(owner.end(Signal::TERM), Some(0));
        let seen = cluster.client.resource("billing").unwrap().observe().await.unwrap().unwrap();
        assert_eq!((seen.owner, seen.term.number), (None, 2), "it resigned");
    });
}

#[test]
fn case_35_a_paused_owner_is_fenced_by_the_one_that_followed() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.registers().await;
        let first = Owner::start(&cluster, "first");
        let old = first.owns().await;
        let kept = cluster.folder.path().join("kept");
        std::fs::copy(&first.fence, &kept).unwrap();
        let write = |value: &str, fence: &Path| {
            let mut command = cluster.command(&["overwrite", "jobs", "ledger", value]);
            command.arg("--fenced-by").arg(fence).output().unwrap()
        };
        assert!(write("first", &kept).status.success());
        first.signal(Signal::STOP);
        let second = Owner::start(&cluster, "second");
        let new = second.owns().await;
        assert!(term(&new) > term(&old));
        assert!(write("second", &second.fence).status.success());
        first.signal(Signal::CONT);
        let late = write("first, late", &kept);
        assert_eq!(late.status.code(), Some(6), "{}", text(&late.stderr));
        assert!(text(&late.stderr).contains("fenced, term 1 < 2"), "{}", text(&late.stderr));
        let seal = cluster.command(&["get", "jobs", "ledger", "--fenced-by"]).arg(&kept).output().unwrap();
        assert_eq!(seal.status.code(), Some(6));
        assert_eq!(text(&cluster.tanist(&["get", "jobs", "ledger"]).stdout), "second");
        let mut first = first;
        assert_eq!(first.child.wait().unwrap().code(), Some(6), "it notices when it goes on");
        // The certificates of both are proved, offline, and of two terms.
        let authority = std::fs::read_to_string(cluster.local.dir().join("cluster")).unwrap();
        let authority = Authority::from_cluster_file(&authority).unwrap();
        let billing = Key::try_from("billing").unwrap();
        for certificate in [&old, &new] {
            assert_eq!(authority.verify_for(certificate, &billing).unwrap().term, term(certificate));
        }
        assert_eq!(second.end(Signal::TERM), Some(0));
    });
}

#[test]
fn a_command_runs_while_its_process_owns_and_ends_with_it() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.registers().await;
        let marks = cluster.folder.path().join("marks");
        let elect = |cluster: &Cluster, options: &[&str], command: &[&str]| {
            let mut elect = cluster.command(&["elect", "billing"]);
            elect.args(LEASE).args(options).arg("--").args(command).env("MARKS", &marks);
            elect.stdout(Stdio::piped()).stderr(Stdio::piped());
            elect
        };
        let said = elect(&cluster, &[], &["sh", "-c", "echo $TANIST_RESOURCE $TANIST_TERM; exit 7"]).output();
        let said = said.unwrap();
        assert_eq!((said.status.code(), text(&said.stdout)), (Some(7), "billing 1\n".to_owned()));
        assert_eq!(elect(&cluster, &[], &["/nonexistent"]).output().unwrap().status.code(), Some(127));
        assert_eq!(elect(&cluster, &[], &["/etc/passwd"]).output().unwrap().status.code(), Some(126));

        // Asked to stop while it owns, it stops the command, resigns, and another follows at once.
        let trap = "trap 'echo term >>$MARKS; exit 5' TERM; echo up >>$MARKS; while :; do sleep 0.05; done";
        let owner = elect(&cluster, &[], &["sh", "-c", trap]).spawn().unwrap();
        let up = || std::fs::read_to_string(&marks).is_ok_and(|marks| marks.contains("up"));
        eventually("the command", PATIENCE, || async { up().then_some(()) }).await;
        let waiting = elect(&cluster, &["--wait", "0s"], &["true"]).output().unwrap();
        assert_eq!(waiting.status.code(), Some(125), "somebody else owns it");
        let next = elect(&cluster, &[], &["true"]).spawn().unwrap();
        let impatient = elect(&cluster, &[], &["true"]).spawn().unwrap();
        sleep(Duration::from_millis(300)).await;
        kill_process(Pid::from_child(&impatient), Signal::TERM).unwrap();
        assert_eq!(impatient.wait_with_output().unwrap().status.code(), Some(125), "it waited");
        let told = now();
        kill_process(Pid::from_child(&owner), Signal::TERM).unwrap();
        assert_eq!(owner.wait_with_output().unwrap().status.code(), Some(5));
        assert_eq!(next.wait_with_output().unwrap().status.code(), Some(0));
        assert!(
            since(told) < Duration::from_millis(1_500),
            "it did not wait for the lease: {:?}",
            since(told)
        );

        // Without the cluster the ownership is lost: TERM, and KILL before the lease ends.
        std::fs::remove_file(&marks).unwrap();
        let deaf = "trap 'date +%s%N >>$MARKS' TERM; echo up >>$MARKS; while :; do sleep 0.05; done";
        let owner = elect(&cluster, &["--grace", "500ms"], &["sh", "-c", deaf]).spawn().unwrap();
        eventually("the command", PATIENCE, || async { up().then_some(()) }).await;
        cluster.local.kill_all();
        let dead = now();
        let ended = owner.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(124), "{}", text(&ended.stderr));
        // The answers to the last renewals may have been under way when the nodes died.
        assert!(std::fs::read_to_string(&marks).unwrap().lines().count() > 1, "it was asked first");
        assert!(since(dead) < Duration::from_secs(8), "{:?}", since(dead));
    });
}

#[test]
fn what_is_done_once_is_remembered_or_in_doubt() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.registers().await;
        let once = |key: &str, command: &[&str]| {
            let mut line = cluster.command(&["once", "jobs", key, "--lease", "1s"]);
            line.arg("--").args(command).output().unwrap()
        };
        let first = once("mail", &["sh", "-c", "echo sent as $TANIST_RUN_ID"]);
        assert!(first.status.success(), "{}", text(&first.stderr));
        let second = once("mail", &["sh", "-c", "echo sent again"]);
        assert!(second.status.success());
        assert_eq!(first.stdout, second.stdout, "it is remembered, and not done again");
        assert_eq!(once("other", &["false"]).status.code(), Some(1));
        let killed = once("other", &["sh", "-c", "kill -9 $PPID"]);
        assert_eq!(killed.status.code(), None);
        let doubt = once("other", &["echo", "done"]);
        assert_eq!(doubt.status.code(), Some(5), "{}", text(&doubt.stderr));
        assert_eq!(once("other", &["echo", "done"]).status.code(), Some(5), "it stays in doubt");
        assert!(cluster.tanist(&["once", "jobs", "other", "--done", "found out"]).status.success());
        assert_eq!(text(&once("other", &["echo", "done"]).stdout), "found out");
    });
}

#[test]
fn what_may_have_been_done_is_not_run_again() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.registers().await;
        let once = |key: &str, command: &[&str]| {
            let mut line = cluster.command(&["once", "jobs", key, "--lease", "1s"]);
            line.arg("--").args(command).output().unwrap()
        };
        let again = ["sh", "-c", "echo again"];
        // Killed in the middle, whether it says so itself or its shell does.
        for (key, command) in [("killed", "kill -9 $$"), ("shell", "sh -c 'kill -9 $$'; exit $?")] {
            let killed = once(key, &["sh", "-c", command]);
            assert_eq!(killed.status.code(), Some(5), "{}", text(&killed.stderr));
            assert_eq!(once(key, &again).status.code(), Some(5), "it stays in doubt");
        }
        assert!(cluster.tanist(&["once", "jobs", "killed", "--again"]).status.success());
        assert_eq!(text(&once("killed", &again).stdout), "again\n");
        // What is done is not decided away.
        let decided = cluster.tanist(&["once", "jobs", "killed", "--again"]);
        assert_eq!(decided.status.code(), Some(3), "{}", text(&decided.stderr));
        assert_eq!(text(&once("killed", &["false"]).stdout), "again\n");

        // An output that is too long to remember does not undo what was done.
        let long = once("long", &["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]);
        assert!(long.status.success(), "{}", text(&long.stderr));
        assert!(text(&long.stderr).contains("are remembered"), "{}", text(&long.stderr));
        let before = once("long", &again);
        assert!(before.status.success() && before.stdout == long.stdout);
        assert!((1_000_000..1 << 20).contains(&before.stdout.len()), "{}", before.stdout.len());
    });
}

#[test]
fn an_owner_that_fails_leaves_neither_its_secret_nor_its_lease() {
    run(async {
        let cluster = Cluster::start().await;
        let fence = cluster.folder.path().join("fence");
        let readable = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077;
        std::fs::write(&fence, "old").unwrap();
        std::fs::set_permissions(&fence, std::fs::Permissions::from_mode(0o644)).unwrap();
        let elect = |options: &[&str], command: &[&str]| {
            let mut line = cluster.command(&["elect", "billing", "--lease", "5m"]);
            line.arg("--fence").arg(&fence).args(options);
            line.arg("--").args(command).env("FENCE", &fence).output().unwrap()
        };
        let modes = elect(&[], &["sh", "-c", "stat -c %a $FENCE $TANIST_FENCE; dirname $TANIST_FENCE"]);
        let said = text(&modes.stdout);
        let [asked, own, folder] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert_eq!((asked, own), ("600", "600"), "whoever could read it before");
        assert!(!fence.exists() && !Path::new(folder).exists(), "both are removed");

        // Each is an owner at once: the one before did not leave five minutes of lease behind.
        let failed = elect(&["--certificate", "/nowhere/at/all"], &["true"]);
        assert_eq!(failed.status.code(), Some(125), "{}", text(&failed.stderr));
        assert!(!fence.exists(), "the secret is gone");
        assert_eq!(elect(&["--wait", "0s"], &["true"]).status.code(), Some(0));

        // Without COMMAND it says where the fence is.
        let mut line = cluster.command(&["elect", "billing", "--json"]);
        let mut owner = line.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(owner.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let path = PathBuf::from(said["fence"].as_str().unwrap());
        assert_eq!((readable(&path), readable(path.parent().unwrap())), (0, 0));
        let resigned = cluster.command(&["resign", "billing", "--fenced-by"]).arg(&path).output().unwrap();
        assert!(resigned.status.success(), "{}", text(&resigned.stderr));
        kill_process(Pid::from_child(&owner), Signal::TERM).unwrap();
        owner.wait().unwrap();
        assert!(!path.exists());
    });
}
