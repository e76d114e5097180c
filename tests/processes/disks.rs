//! Full disks, and data of another format.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tanist::cli::local::{Plan, Scratch, scratch};
use tanist::client::{Siblings, WriteError};
use tanist::node::config::Limits;
use tanist::wire::client::Failure;

use super::support::{Cluster, NAMESPACE, PATIENCE, eventually, run, text};

/// A small file system of its own; unmounted when dropped.
pub(crate) struct Tmpfs(Scratch);

impl Tmpfs {
    pub(crate) fn mount(mib: u32) -> Self {
        let folder = scratch("tanist-tmpfs").unwrap();
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        let mounted = mounted.unwrap();
        assert!(mounted.status.success(), "this test mounts a tmpfs, as root: {}", text(&mounted.stderr));
        Tmpfs(folder)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills what is free.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for block in [1 << 20, 4096] {
            while file.write_all(&vec![1; block]).is_ok() {}
        }
        path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

async fn until_full(test: &Siblings, prefix: &str) {
    let n = std::cell::Cell::new(0);
    eventually("a write says that the disk is full", Duration::from_secs(30), || async {
        n.set(n.get() + 1);
        match test.create(format!("{prefix}/{}", n.get()), vec![b'x'; 1000]).await {
            Err(WriteError::Node(Failure::DiskFull)) => Some(()),
            Ok(_) | Err(WriteError::Unknown(_)) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

async fn until_written(test: &Siblings, key: &str) {
    eventually("a write goes on once there is room", Duration::from_secs(30), || async {
        test.create(key, "x").await.ok()?.applied().map(drop)
    })
    .await;
}

#[test]
fn case_33_a_full_disk_refuses_writes_until_there_is_room() {
    run(async {
        let disk = Tmpfs::mount(64);
        let limits = Limits { disk_free_mib: 8, disk_reserve_mib: 8, ..Limits::default() };
        let data = BTreeMap::from([(0, disk.path().join("data"))]);
        let mut cluster = Cluster::start_with(Plan { nodes: 1, relays: None, limits, data }, &[]).await;
        let test = cluster.open().await;
        test.create("before", "x").await.unwrap();

        let filler = disk.fill();
        until_full(&test, "full").await;
        let refused = cluster.tanist(&["create", NAMESPACE, "by-command", "x"]);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("disk"), "{}", text(&refused.stderr));
        assert_eq!(test.get("before").await.unwrap().value().unwrap().unwrap(), "x", "reads go on");
        fs::remove_file(&filler).unwrap();
        until_written(&test, "after").await;

        // And with a kill -9 while it is full.
        let filler = disk.fill();
        until_full(&test, "full again").await;
        cluster.local.kill(0);
        cluster.heal().await;
        assert_eq!(test.get("before").await.unwrap().value().unwrap().unwrap(), "x", "reads go on");
        fs::remove_file(&filler).unwrap();
        until_written(&test, "after all").await;
        assert_eq!(test.get("after").await.unwrap().value().unwrap().unwrap(), "x");
        cluster.local.stop_all().await;
    });
}

/// Every file below `folder`, with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn case_09_data_of_another_format_are_refused_and_left_as_they_are() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.open().await.create("k", "x").await.unwrap();
        cluster.local.terminate(0).await.unwrap();
        let data = cluster.local.node_dir(0).unwrap().data();
        let format = data.join("FORMAT");
        let known = fs::read_to_string(&format).unwrap();
        let number: u32 = known.trim().rsplit(' ').next().unwrap().parse().unwrap();
        // The binary of a later day, and of an earlier one.
        for other in [number + 1, number - 1] {
            fs::write(&format, known.replace(&number.to_string(), &other.to_string())).unwrap();
            let before = contents(&data);
            cluster.local.start(0).unwrap();
            let ended = tokio::time::timeout(PATIENCE, cluster.local.ended(0)).await;
            assert_eq!(ended.unwrap().unwrap().unwrap().code(), Some(1));
            let log = fs::read_to_string(cluster.local.log(0)).unwrap();
            let why = format!("format {other}, need {number}");
            assert!(log.contains(&why), "{why:?} is not in the log: {log}");
            assert_eq!(contents(&data), before, "not a byte has changed");

            fs::write(&format, &known).unwrap();
            cluster.heal().await;
            assert!(cluster.open_at(0).await.get("k").await.unwrap().value().unwrap().is_some());
            cluster.local.terminate(0).await.unwrap();
        }
    });
}
