//! What goes wrong: a seed decides what, to whom and for how long; a log of it is printed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tanist::cli::relay::{Faults, Relay};
use tokio::time::{sleep, timeout};

use crate::clocks::faketime;
use crate::disks::Tmpfs;
use crate::support::{Cluster, PATIENCE, eventually, now, since};
use crate::syncs::Trace;

/// The node whose wall clock jumps, and whose data are lost or go back in time.
pub(super) const ODD: usize = 0;
/// The node whose disk is small.
pub(super) const SMALL: usize = 1;

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blow {
    Kill,
    KillAll,
    Stop,
    CutAround,
    CutOneWay,
    CutHalves,
    CutRing,
    Loss,
    Delay,
    Double,
    Overtake,
    Flip,
    NoAnswers,
    DiskFull,
    SyncFails,
    SyncLies,
    ClockJumps,
    Wipe,
    Restore,
}

impl Blow {
    /// Those that can happen again and again.
    const ROUND: [Blow; 17] = [
        Blow::Kill,
        Blow::Loss,
        Blow::CutAround,
        Blow::Stop,
        Blow::Double,
        Blow::SyncFails,
        Blow::NoAnswers,
        Blow::CutOneWay,
        Blow::ClockJumps,
        Blow::Overtake,
        Blow::DiskFull,
        Blow::CutHalves,
        Blow::Flip,
        Blow::SyncLies,
        Blow::Delay,
        Blow::CutRing,
        Blow::KillAll,
    ];
}

/// Who deals the blows.
pub(super) struct Nemesis<'a> {
    pub(super) cluster: &'a mut Cluster,
    /// From clients to nodes.
    pub(super) wires: &'a [Relay],
    pub(super) disk: &'a Tmpfs,
    pub(super) clock: PathBuf,
    pub(super) dice: u64,
    /// The data directory of [`ODD`] was lost or is an old one.
    pub(super) amnesiac: bool,
    pub(super) fired: BTreeMap<Blow, u32>,
}

/// What the node with the odd clock runs with: a clock that says what a file says.
pub(super) fn odd_clock(file: &Path) -> Vec<(String, String)> {
    if !file.exists() {
        set_clock(file, "+0");
    }
    let file = file.to_str().unwrap().to_owned();
    [
        ("LD_PRELOAD", faketime()),
        ("FAKETIME_TIMESTAMP_FILE", file),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn set_clock(file: &Path, offset: &str) {
    // Whoever reads it sees the old text or the new one.
    let new = file.with_extension("new");
    fs::write(&new, offset).unwrap();
    fs::rename(&new, file).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

impl Nemesis<'_> {
    /// Deals blows for so long; the data of a node are lost, or replaced by old ones, when two thirds of the
    /// time are over.
    pub(super) async fn torment(&mut self, length: Duration, amnesia: Blow) {
        let begun = now();
        let copy = self.cluster.folder.path().join("copy");
        if amnesia == Blow::Restore {
            self.stop(ODD).await;
            copy_folder(&self.data(ODD), &copy);
            self.settle().await;
        }
        let start = self.draw(Blow::ROUND.len());
        for round in 0.. {
            let over = since(begun);
            if over > length {
                break;
            }
            if !self.amnesiac && 3 * over > 2 * length {
                self.forget(amnesia, &copy).await;
            }
            sleep(Duration::from_millis(200)).await;
            let blow = Blow::ROUND[(start + round) % Blow::ROUND.len()];
            self.deal(blow).await;
            self.calm();
            // Sometimes the next blow falls before the nodes have found each other again.
            if round % 3 == 2 { self.settle().await } else { self.start_all() }
        }
        self.calm();
        self.settle().await;
    }

    /// SplitMix64.
    fn draw(&mut self, below: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below as u64).unwrap()
    }

    fn nodes(&self) -> usize {
        self.cluster.local.len()
    }

    fn data(&self, node: usize) -> PathBuf {
        if node == SMALL {
            return self.disk.path().join("data");
        }
        self.cluster.local.node_dir(node).unwrap().data()
    }

    async fn deal(&mut self, blow: Blow) {
        *self.fired.entry(blow).or_default() += 1;
        // The last node runs from the beginning to the end: its memory is looked at.
        let mortal = self.draw(self.nodes() - 1);
        let victim = self.draw(self.nodes());
        let long = Duration::from_millis([500, 900, 1_600][self.draw(3)]);
        let per_mille = |n| [20, 100, 300][n];
        let strength = per_mille(self.draw(3));
        let whom = match blow {
            Blow::Kill | Blow::SyncFails | Blow::SyncLies => format!("node-{}", mortal + 1),
            Blow::KillAll => format!("all but node-{}", self.nodes()),
            Blow::Stop | Blow::CutAround | Blow::CutOneWay => format!("node-{}", victim + 1),
            Blow::DiskFull => format!("node-{}", SMALL + 1),
            Blow::ClockJumps => format!("node-{}", ODD + 1),
            _ => "everywhere".to_owned(),
        };
        println!("  {blow:?} for {} ms: {whom}", long.as_millis());
        match blow {
            Blow::Kill => self.cluster.local.kill(mortal),
            Blow::KillAll => {
                for node in 0..self.nodes() - 1 {
                    let _ = self.cluster.local.signal(node, Signal::KILL);
                }
                (0..self.nodes() - 1).for_each(|node| self.cluster.local.kill(node));
            }
            Blow::Stop => self.cluster.local.signal(victim, Signal::STOP).unwrap(),
            Blow::CutAround => self.network().set_around(victim, Faults::CUT),
            Blow::CutOneWay => {
                for other in (0..self.nodes()).filter(|other| *other != victim) {
                    self.network().set(victim, other, Faults::CUT);
                }
            }
            Blow::CutHalves => self.cut(|from, to, nodes| (from < nodes / 2) != (to < nodes / 2)),
            Blow::CutRing => self.cut(|from, to, nodes| (from + 1) % nodes != to && (to + 1) % nodes != from),
            Blow::Loss => self.everywhere(Faults { lost_per_mille: strength, ..Faults::NONE }),
            Blow::Delay => {
                self.everywhere(Faults {
                    delay: Duration::from_millis(u64::from(strength) / 2),
                    ..Faults::NONE
                });
            }
            Blow::Double => self.everywhere(Faults { doubled_per_mille: strength, ..Faults::NONE }),
            Blow::Overtake => self.everywhere(Faults { overtaken_per_mille: strength, ..Faults::NONE }),
            Blow::Flip => self.everywhere(Faults { flipped_per_mille: strength, ..Faults::NONE }),
            // Nobody is answered; what was asked is done all the same.
            Blow::NoAnswers => self.wires.iter().for_each(|wire| wire.back().set(Faults::CUT)),
            Blow::DiskFull => {
                let filler = self.disk.fill();
                sleep(long).await;
                fs::remove_file(filler).unwrap();
            }
            Blow::SyncFails => return self.sync_fails(mortal).await,
            Blow::SyncLies => return self.sync_lies(mortal, long).await,
            Blow::ClockJumps => {
                let offset = ["-3600", "+300", "+86400", "-60", "+0"][self.draw(5)];
                set_clock(&self.clock, offset);
            }
            Blow::Wipe | Blow::Restore => unreachable!("not one of a round"),
        }
        sleep(long).await;
    }

    fn network(&self) -> &tanist::cli::relay::Network {
        self.cluster.local.network().unwrap()
    }

    fn cut(&self, is_cut: impl Fn(usize, usize, usize) -> bool) {
        let nodes = self.nodes();
        for from in 0..nodes {
            for to in (0..nodes).filter(|to| *to != from && is_cut(from, *to, nodes)) {
                self.network().set(from, to, Faults::CUT);
            }
        }
    }

    fn everywhere(&self, faults: Faults) {
        (0..self.nodes()).for_each(|node| self.network().set_around(node, faults));
        for wire in self.wires {
            wire.there().set(faults);
            wire.back().set(faults);
        }
    }

    /// The node ends at the first sync that fails.
    async fn sync_fails(&mut self, node: usize) {
        let Some(pid) = self.cluster.local.pid(node) else { return };
        let inject = ["-e", "inject=fdatasync,fsync,sync_file_range:error=EIO"];
        let trace = Trace::attach(pid, &self.strace(), &inject);
        // Nothing may be written to it for a while; then nothing fails.
        let _ = timeout(Duration::from_secs(3), self.cluster.local.ended(node)).await;
        drop(trace);
        self.cluster.local.kill(node);
    }

    /// Syncs return at once and do nothing. (The page cache outlives the process: nothing is lost by this.)
    async fn sync_lies(&mut self, node: usize, long: Duration) {
        let Some(pid) = self.cluster.local.pid(node) else { return };
        let inject = ["-e", "inject=fdatasync,fsync,sync_file_range:retval=0"];
        let trace = Trace::attach(pid, &self.strace(), &inject);
        sleep(long).await;
        drop(trace);
        self.cluster.local.kill(node);
    }

    fn strace(&self) -> PathBuf {
        self.cluster.folder.path().join("strace")
    }

    /// A node loses its data, or gets those of an earlier day. All others have what was acknowledged.
    async fn forget(&mut self, amnesia: Blow, copy: &Path) {
        self.settle().await;
        println!("  {amnesia:?}: node-{}", ODD + 1);
        *self.fired.entry(amnesia).or_default() += 1;
        self.stop(ODD).await;
        let data = self.data(ODD);
        fs::remove_dir_all(&data).unwrap();
        if amnesia == Blow::Restore {
            copy_folder(copy, &data);
        }
        self.amnesiac = true;
        self.start_all();
        let (client, member) = (self.cluster.client.clone(), self.cluster.local.member(ODD).unwrap());
        let why = eventually("the node notices that its data are not what they were", PATIENCE, || async {
            client.status(member).await.ok()?.counts.err().filter(|why| why.contains("new actor"))
        });
        println!("    it says: {}", why.await);
        self.settle().await;
    }

    async fn stop(&mut self, node: usize) {
        self.cluster.local.terminate(node).await.unwrap();
    }

    /// Nothing goes wrong any more.
    fn calm(&self) {
        self.everywhere(Faults::NONE);
        (0..self.nodes()).for_each(|node| self.cluster.local.signal(node, Signal::CONT).unwrap());
    }

    /// Starts what does not run.
    fn start_all(&mut self) {
        let env = odd_clock(&self.clock);
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        self.cluster.local.start_with(ODD, &env).unwrap();
        self.cluster.local.start_all().unwrap();
    }

    /// Starts what does not run, and waits until all reach each other and all that may count do.
    pub(super) async fn settle(&mut self) {
        self.start_all();
        let begun = now();
        loop {
            let mut wrong = None;
            for node in 0..self.nodes() {
                let status = self.cluster.local.status(&self.cluster.client, node).await;
                let may_count = !(self.amnesiac && node == ODD);
                wrong = match status {
                    None => Some(format!("node-{} does not answer", node + 1)),
                    Some(status) if may_count && status.counts.is_err() => {
                        Some(format!("node-{}: {:?}", node + 1, status.counts))
                    }
                    Some(status) if status.peers.iter().any(|(_, up)| !up) => {
                        Some(format!("node-{} does not reach all", node + 1))
                    }
                    Some(_) => continue,
                };
                break;
            }
            let Some(wrong) = wrong else { return };
            assert!(since(begun) < PATIENCE, "not healed within {PATIENCE:?}: {wrong}");
            sleep(Duration::from_millis(50)).await;
            // One that ended by itself, of a full disk say, is started again.
            let _ = self.cluster.local.check();
            self.start_all();
        }
    }
}
