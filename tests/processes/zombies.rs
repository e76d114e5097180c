//! Commands that go on although nobody watches their lease, and owners that have only the client's key.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::support::{Cluster, PATIENCE, TANIST, eventually, run, text};

/// Writes its name again and again, and notes when each write began and how it ended.
const WORKER: &str = r#"
"$TANIST" get jobs ledger --fenced-by "$TANIST_FENCE" >/dev/null 2>&1
while :; do
    began=$(date +%s%N)
    "$TANIST" overwrite jobs ledger "$NAME" >/dev/null 2>&1
    echo "$began $? $(date +%s%N)" >>"$NOTES"
    sleep 0.05
done"#;

/// One write: when it began and ended, and its exit code.
#[derive(Debug, Clone, Copy)]
struct Note {
    began: u128,
    code: i32,
    ended: u128,
}

fn notes(path: &Path) -> Vec<Note> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // What comes last may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let note = |line: &str| {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap().parse::<u128>().unwrap();
        Note { began: next(), code: i32::try_from(next()).unwrap(), ended: next() }
    };
    whole.lines().map(note).collect()
}

fn worker(cluster: &Cluster, name: &str) -> (Child, std::path::PathBuf) {
    let path = cluster.folder.path().join(name);
    let mut command = cluster.command(&["elect", "billing", "--lease", "2s", "--", "sh", "-c", WORKER]);
    command.env("TANIST", TANIST).env("NAME", name).env("NOTES", &path);
    (command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), path)
}

async fn until(path: &Path, enough: impl Fn(&[Note]) -> bool) -> Vec<Note> {
    eventually("a worker works", PATIENCE, || async {
        let notes = notes(path);
        enough(&notes).then_some(notes)
    })
    .await
}

#[test]
fn case_35_a_command_whose_watcher_is_stopped_is_fenced_and_then_ended() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.registers().await;
        let (mut first, first_notes) = worker(&cluster, "first");
        until(&first_notes, |notes| notes.iter().filter(|note| note.code == 0).count() > 3).await;
        // Its command runs in a group of its own: that one goes on.
        kill_process(Pid::from_child(&first), Signal::STOP).unwrap();
        let (second, second_notes) = worker(&cluster, "second");
        until(&second_notes, |notes| notes.iter().filter(|note| note.code == 0).count() > 3).await;
        let late = |notes: &[Note]| notes.iter().filter(|note| note.code == 6).count();
        until(&first_notes, |notes| late(notes) > 3).await;

        kill_process(Pid::from_child(&first), Signal::CONT).unwrap();
        let ended = tokio::task::spawn_blocking(move || first.wait().unwrap()).await.unwrap();
        assert_eq!(ended.code(), Some(124), "it finds out that it lost");
        let first = notes(&first_notes);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(notes(&first_notes).len(), first.len(), "and has ended its command");

        let second_notes = notes(&second_notes);
        assert!(second_notes.iter().all(|note| note.code == 0), "{second_notes:?}");
        let taken = second_notes[0].ended;
        println!(
            "{} writes of the first were applied, {} were refused",
            first.iter().filter(|note| note.code == 0).count(),
            late(&first)
        );
        for note in &first {
            assert!(note.began < taken || note.code == 6, "{note:?} after the second wrote at {taken}");
            assert!(note.code == 0 || note.code == 6, "{note:?}");
        }
        assert!(first.is_sorted_by_key(|note| note.code), "once fenced, always fenced: {first:?}");
        kill_process(Pid::from_child(&second), Signal::TERM).unwrap();
        let second = second.wait_with_output().unwrap();
        assert_eq!(second.status.code(), Some(128 + 15), "the command ended of its TERM");
        assert_eq!(text(&cluster.tanist(&["get", "jobs", "ledger"]).stdout), "second");
    });
}

#[test]
fn attack_13_the_key_of_the_client_alone_ends_no_tenure() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.registers().await;
        let old = cluster.folder.path().join("old");
        let keep = "cp \"$TANIST_FENCE\" \"$OLD\"";
        let mut first = cluster.command(&["elect", "billing", "--", "sh", "-c", keep]);
        assert!(first.env("OLD", &old).status().unwrap().success());
        let fence = cluster.folder.path().join("fence");
        let owning =
            cluster.command(&["elect", "billing", "--fence"]).arg(&fence).stderr(Stdio::null()).spawn();
        let mut owner = owning.unwrap();
        eventually("an owner", PATIENCE, || async { fence.exists().then_some(()) }).await;

        let term = || text(&cluster.tanist(&["owner", "billing", "--json"]).stdout);
        let before: serde_json::Value = serde_json::from_str(&term()).unwrap();
        assert_eq!(cluster.tanist(&["resign", "billing"]).status.code(), Some(2), "there is no fence");
        let over =
            cluster.command(&["resign", "billing", "--json", "--fenced-by"]).arg(&old).output().unwrap();
        assert!(
            text(&over.stdout).contains("\"ended\":false"),
            "{} {}",
            text(&over.stdout),
            text(&over.stderr)
        );
        let late = cluster.command(&["overwrite", "jobs", "ledger", "x", "--fenced-by"]).arg(&fence).output();
        assert!(late.unwrap().status.success(), "the owner still owns");
        let after: serde_json::Value = serde_json::from_str(&term()).unwrap();
        assert_eq!((&before["term"], &before["tenure"]), (&after["term"], &after["tenure"]));
        assert_eq!(owner.try_wait().unwrap(), None);

        // Whoever has the fence can end it, and the owner notices.
        assert!(
            cluster.command(&["resign", "billing", "--fenced-by"]).arg(&fence).status().unwrap().success()
        );
        let ended = tokio::task::spawn_blocking(move || owner.wait().unwrap()).await.unwrap();
        assert_eq!(ended.code(), Some(6));
    });
}
