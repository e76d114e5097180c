//! Wall clocks that are wrong decide nothing (P10).

use std::path::PathBuf;

use tanist::cli::local::Plan;

use super::support::{Cluster, run, text};

/// The library that fakes the time of whatever loads it.
pub(crate) fn faketime() -> String {
    let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let folders = roots.iter().flat_map(|root| {
        let below = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        below.chain([root.clone()]).map(|folder| folder.join("faketime/libfaketime.so.1"))
    });
    let found = folders.into_iter().find(|path| path.exists());
    found.expect("this test needs libfaketime (Debian: faketime)").to_string_lossy().into_owned()
}

#[test]
fn case_37_a_clock_that_is_ahead_wins_nothing() {
    run(async {
        let library = faketime();
        let ahead =
            [("LD_PRELOAD", &library[..]), ("FAKETIME", "+5m"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        // It works at all: what is tested is that nobody cares.
        let date = |env: &[(&str, &str)]| {
            let output = std::process::Command::new("date").arg("+%s").envs(env.iter().copied()).output();
            text(&output.unwrap().stdout).trim().parse::<i64>().unwrap()
        };
        assert!((295..=320).contains(&(date(&ahead) - date(&[]))), "faketime has no effect");

        let cluster = Cluster::start_with(Plan::default(), &ahead).await;
        let (a, b) = (cluster.open_at(0).await, cluster.open_at(1).await);
        assert!(a.create("k", "from A").await.unwrap().applied().is_some());
        let read = b.get("k").await.unwrap();
        assert_eq!(read.value().unwrap().unwrap(), "from A");
        assert!(b.replace(&read, "from B").await.unwrap().applied().is_some());
        for node in 0..3 {
            let reading = cluster.open_at(node).await.get("k").await.unwrap();
            assert_eq!(reading.value().unwrap().unwrap(), "from B", "node-{}", node + 1);
        }
    });
}
