//! One scenario, run again for every call of a node's store and every way in which it can fail.
//!
//! The node whose store fails ends, as its driver would end it, and is started again on what is durable.
//! Whatever fails: what a client was told stays true, no read gives what was never written or what an
//! acknowledged write has replaced, and the other two nodes go on.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tanist::core::chain::{ConfigChange, Mode, NamespacePolicy, SignedEntry};
use tanist::core::identity::MemberId;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::write::{Body, Write, WriteId};
use tanist::wire::client::{Failure, List, OnConflict, Propose, Proposed, Read, Submit, Submitted};
use tanist::wire::ownership::{Ballots, Campaigned, Observe, Renewed};
use tanist::wire::registry::Reply;

use crate::cluster::{Cluster, id};
use crate::disk::Fault;
use crate::registers::{Candidate, billing};

/// What a client knows of a write that it sent.
struct Sent {
    key: &'static str,
    value: Option<String>,
    parents: Vec<WriteId>,
    generation: u64,
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Applied,
    Refused,
    /// It may have been applied or not, now or later.
    Nothing,
}

/// A client of three nodes, of which one has a disk that fails.
struct Scenario {
    cluster: Cluster,
    sent: BTreeMap<WriteId, Sent>,
    /// The highest generation that a read of a register has shown, by key.
    shown: BTreeMap<&'static str, u64>,
    siblings: NamespaceId,
    registers: NamespaceId,
    /// The owner, if it was told that it is.
    owner: Option<Candidate>,
    /// What became of a batch whose sync failed: so many are kept.
    keep: usize,
}

impl Scenario {
    /// Runs everything with the fault at call `number` of `node`.
    fn run(faults: &[(MemberId, Fault, u64)], keep: usize) -> Scenario {
        let cluster = Cluster::new();
        let none = NamespaceId([0; 32]);
        let (sent, shown) = Default::default();
        let mut all = Scenario { cluster, sent, shown, siblings: none, registers: none, owner: None, keep };
        all.cluster.may_end = true;
        for (node, member) in &all.cluster.nodes {
            let fault = faults.iter().find(|(at, ..)| at == node);
            member.store.fail(fault.map(|(_, fault, number)| (*fault, *number)));
        }
        all.siblings = all.found("carts", Mode::Siblings);
        all.registers = all.found("jobs", Mode::Linearizable);
        all.write_and_merge();
        all.write_registers();
        all.restart(2);
        all.own();
        all.repair();
        all.end();
        all
    }

    /// The nodes that live, beginning with `first`.
    fn living(&self, first: u8) -> Vec<MemberId> {
        let nodes = (0..3).map(|n| id((first - 1 + n) % 3 + 1));
        nodes.filter(|node| self.cluster.nodes[node].ended.is_none()).collect()
    }

    /// Starts what has ended.
    fn revive(&mut self) {
        for node in [1, 2, 3].map(id) {
            if self.cluster.nodes[&node].ended.is_some() {
                self.cluster.revive(node, self.keep);
            }
        }
        self.cluster.pass(300);
    }

    /// Whatever else was ended, this node is started again.
    fn restart(&mut self, node: u8) {
        self.revive();
        self.cluster.revive(id(node), 0);
        self.cluster.pass(300);
    }

    /// Creates a namespace, through whoever lives.
    fn found(&mut self, name: &str, mode: Mode) -> NamespaceId {
        let policy = NamespacePolicy { name: name.parse().unwrap(), mode, write_quorum: None };
        let signed: SignedEntry = self.cluster.policy(ConfigChange::CreateNamespace(policy));
        let namespace = NamespaceId(signed.entry.hash().0);
        for attempt in 0..6 {
            let at = self.living(1 + attempt % 3)[0];
            let reply = self.cluster.try_ask(at, Propose { signed: signed.clone() });
            match reply {
                Some(Reply::Proposed(Proposed::Chosen)) => {
                    self.cluster.pass(100);
                    return namespace;
                }
                Some(Reply::Proposed(Proposed::Unknown)) | Some(Reply::Failure(_)) | None => {}
                Some(Reply::Proposed(Proposed::Refused { .. })) => {
                    let known = |node: &MemberId| {
                        self.cluster.nodes[node].config.policy().namespace_by_id(namespace).is_some()
                    };
                    assert!(self.living(1).iter().any(known), "refused, and it is not there");
                    return namespace;
                }
                other => panic!("{other:?}"),
            }
            self.cluster.pass(500);
        }
        panic!("two of three nodes do not agree on an entry");
    }

    fn write_and_merge(&mut self) {
        let base = self.put(1, "k", "base", &[]);
        self.put(1, "k", "a", &[base]);
        self.put(2, "k", "b", &[base]);
        let live = self.read(3, "k");
        self.put(3, "k", "both", &live);
        self.put(1, "gone", "there", &[]);
        let live = self.read(1, "gone");
        self.delete(1, "gone", &live);
        self.read(2, "gone");
        self.read(1, "k");
    }

    fn write_registers(&mut self) {
        for (at, text) in [(1, "one"), (2, "two"), (1, "three")] {
            let live = self.read(at, "r");
            self.put(at, "r", text, &live);
        }
        self.read(3, "r");
        let stale: Vec<_> = self.sent.iter().filter(|(_, sent)| sent.key == "r").collect();
        let stale = stale.into_iter().min_by_key(|(_, sent)| sent.generation);
        let stale = stale.map(|(id, sent)| (sent.generation, *id)).unwrap();
        self.put(1, "r", "late", &[stale]);
        self.read(1, "r");
    }

    /// Elects an owner, renews, and writes under its fence.
    fn own(&mut self) {
        let mut owner = Candidate::new(&self.cluster, 1, None);
        for first in [1, 2, 3] {
            let Some(at) = self.living(first).first().copied() else { continue };
            let reply = self.cluster.try_ask(at, owner.campaign());
            match reply {
                Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. })) => {
                    self.owner = Some(owner.clone());
                    break;
                }
                Some(Reply::Campaigned(_) | Reply::Failure(_)) | None => {}
                other => panic!("{other:?}"),
            }
        }
        for at in [1, 2, 3].map(id) {
            let renewal = owner.renewal(&self.cluster);
            match self.cluster.try_ask(at, renewal) {
                None | Some(Reply::Renewed(Renewed::Heard { .. } | Renewed::Stalled)) => {}
                // A node that has not heard of the election yet.
                Some(Reply::Renewed(Renewed::OtherTenure)) => {}
                Some(Reply::Failure(Failure::Unavailable(_) | Failure::DiskFull)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Node 3 misses a write, and a read brings it there.
    fn repair(&mut self) {
        self.cluster.cut.insert(id(3));
        self.put(1, "missed", "x", &[]);
        self.cluster.cut.clear();
        self.read(3, "missed");
        self.cluster.pass(500);
        let list =
            List { namespace: self.siblings, prefix: Vec::new(), after: None, limit: 10, conflicts: false };
        if let Some(Reply::Page(page)) = self.cluster.try_ask(id(1), list) {
            for listed in page.keys {
                for (_, id, _) in listed.live {
                    assert!(self.sent.contains_key(&id), "a listing shows what nobody wrote");
                }
            }
        }
    }

    /// Everything is started again; then all that was told must hold.
    fn end(&mut self) {
        for node in [1, 2, 3].map(id) {
            self.cluster.revive(node, self.keep);
        }
        self.revive();
        self.cluster.pass(2_000);
        for key in ["k", "gone", "missed", "r"] {
            for at in 1..=3 {
                self.read(at, key);
            }
        }
        if let Some(owner) = self.owner.take() {
            // One tenure per term (P6), and whoever asks is shown it.
            let rival = Candidate::new(&self.cluster, 2, None);
            for at in self.living(1) {
                let reply = self.cluster.try_ask(at, rival.campaign());
                let won = matches!(
                    reply,
                    Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. }))
                );
                assert!(!won, "two owners of one term");
                match self.cluster.try_ask(at, Observe { resource: billing() }) {
                    Some(Reply::Observed(observed)) => {
                        let shown = observed.version.map(|version| version.id());
                        assert!(shown.is_none_or(|shown| shown == owner.id()), "another owner is shown");
                    }
                    Some(Reply::Failure(_)) | None => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        // And all of them take more.
        for (key, text) in [("k", "last"), ("r", "last")] {
            for at in 1..=3 {
                let live = self.read(at, key);
                let text = format!("{text} {at}");
                let told = self.put_as(at, key, Some(&text), &live);
                assert_eq!(told.1, Told::Applied, "nothing fails any more");
            }
        }
    }

    /// Writes, through `first` or whoever lives, and goes on when there is no answer.
    fn put(
        &mut self,
        first: u8,
        key: &'static str,
        text: &str,
        parents: &[(u64, WriteId)],
    ) -> (u64, WriteId) {
        self.put_as(first, key, Some(text), parents).0
    }

    fn delete(&mut self, first: u8, key: &'static str, parents: &[(u64, WriteId)]) {
        self.put_as(first, key, None, parents);
    }

    fn put_as(
        &mut self,
        first: u8,
        key: &'static str,
        text: Option<&str>,
        parents: &[(u64, WriteId)],
    ) -> ((u64, WriteId), Told) {
        let submit = self.submit(key, text, parents);
        let (write, generation) = (submit.signed.id(), submit.signed.write().generation);
        let sent = Sent {
            key,
            value: text.map(str::to_owned),
            parents: parents.iter().map(|(_, id)| *id).collect(),
            generation,
            told: Told::Nothing,
        };
        self.sent.insert(write, sent);
        let mut told = Told::Nothing;
        // What one attempt left open, a later refusal does not close.
        let mut open = false;
        for node in self.living(first) {
            match self.cluster.try_ask(node, submit.clone()) {
                Some(Reply::Submitted(Submitted::Applied { .. })) => told = Told::Applied,
                Some(Reply::Submitted(Submitted::Refused { .. })) if !open => told = Told::Refused,
                Some(Reply::Failure(_)) => continue,
                Some(Reply::Submitted(_)) | None => {
                    open = true;
                    continue;
                }
                other => panic!("{other:?}"),
            }
            break;
        }
        self.sent.get_mut(&write).unwrap().told = told;
        ((generation, write), told)
    }

    fn submit(&self, key: &'static str, text: Option<&str>, parents: &[(u64, WriteId)]) -> Submit {
        let mut submit = self.cluster.write(self.namespace(key), key, text.unwrap_or("gone"), parents);
        if !is_register(key) {
            submit.on_conflict = OnConflict::KeepBoth;
        }
        if text.is_none() {
            let write = Write { body: Body::Delete, ..submit.signed.write().clone() };
            submit = self.cluster.resigned(submit, write);
        }
        submit
    }

    fn namespace(&self, key: &str) -> NamespaceId {
        if is_register(key) { self.registers } else { self.siblings }
    }

    /// Reads through `first`, or whoever lives, and holds what is shown against what was told.
    fn read(&mut self, first: u8, key: &'static str) -> Vec<(u64, WriteId)> {
        let namespace = self.namespace(key);
        for node in self.living(first) {
            let read = Read { namespace, key: Key::try_from(key).unwrap(), local: false, history: false };
            match self.cluster.try_ask(node, read) {
                Some(Reply::Versions(versions)) => {
                    let mut values = versions.values.as_slice().iter();
                    let mut live = Vec::new();
                    for listed in versions.versions {
                        let shown = listed.version.id();
                        let sent = self.sent.get(&shown).expect("a read shows what nobody wrote");
                        assert_eq!(sent.key, key);
                        if listed.inline {
                            let value = values.next().expect("a value");
                            assert_eq!(
                                sent.value.as_deref().unwrap_or_default().as_bytes(),
                                &value[..],
                                "{key}"
                            );
                        }
                        live.push((sent.generation, shown));
                    }
                    self.check(key, &live);
                    return live;
                }
                // It ended over this very read, or has not heard of the namespace: another node serves it.
                None | Some(Reply::Failure(Failure::UnknownNamespace)) => {}
                other => panic!("reads go on where they can: {node} says {other:?}"),
            }
        }
        panic!("nobody serves a read of {key}");
    }

    fn check(&mut self, key: &'static str, live: &[(u64, WriteId)]) {
        let mut known = BTreeSet::new();
        for (_, shown) in live {
            let before = self.ancestors(*shown);
            for (_, other) in live {
                assert!(!before.contains(other), "{key}: {other} is live beside what replaced it");
            }
            known.extend(before);
            known.insert(*shown);
        }
        for (id, sent) in self.sent.iter().filter(|(_, sent)| sent.key == key) {
            match sent.told {
                Told::Applied => {
                    assert!(known.contains(id), "{key}: {:?} was acknowledged and is lost", sent.value)
                }
                Told::Refused => {
                    assert!(!known.contains(id), "{key}: {:?} was refused and is there", sent.value)
                }
                Told::Nothing => {}
            }
        }
        if is_register(key) {
            let now = live.first().map_or(0, |(generation, _)| *generation);
            let before = self.shown.insert(key, now).unwrap_or(0);
            assert!(live.len() <= 1 && before <= now, "{key}: {before} was read, and then {now}");
        }
    }

    fn ancestors(&self, write: WriteId) -> BTreeSet<WriteId> {
        let mut found = BTreeSet::new();
        let mut open = self.sent[&write].parents.clone();
        while let Some(parent) = open.pop() {
            if found.insert(parent) {
                open.extend(&self.sent[&parent].parents);
            }
        }
        found
    }
}

fn is_register(key: &str) -> bool {
    key == "r"
}

/// How a panic is told.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs the scenario for every call of each node's store. Returns how often.
fn every(fault: Fault, keep: usize, step: u64) -> u64 {
    let calm = Scenario::run(&[], 0);
    let mut runs = 0;
    for node in [1, 2, 3].map(id) {
        let calls = calm.cluster.nodes[&node].store.calls(fault);
        assert!(calls > 20, "{node} did nothing");
        for number in (0..calls).step_by(step as usize) {
            let run = catch_unwind(AssertUnwindSafe(|| Scenario::run(&[(node, fault, number)], keep)));
            match run {
                Ok(end) => {
                    assert!(
                        end.cluster.nodes[&node].store.fired(),
                        "{fault:?} at {number} of {node} never came"
                    );
                }
                Err(panic) => panic!("{fault:?} at call {number} of {node}, {keep} kept: {}", said(&*panic)),
            }
            runs += 1;
        }
    }
    println!("{fault:?}, {keep} kept: {runs} runs");
    runs
}

#[test]
fn a_read_that_fails() {
    every(Fault::ReadFails, 0, 1);
}

#[test]
fn a_row_that_is_damaged_for_good() {
    every(Fault::Damaged, 0, 1);
}

#[test]
fn a_batch_without_space() {
    every(Fault::Full, 0, 1);
}

#[test]
fn a_write_that_fails() {
    every(Fault::WriteFails, 0, 1);
}

#[test]
fn a_sync_that_fails_and_lost_its_batch() {
    every(Fault::SyncFails, 0, 1);
}

#[test]
fn a_sync_that_fails_and_kept_its_batch() {
    every(Fault::SyncFails, 1, 1);
}

/// The checks see it if something that was acknowledged is gone.
#[test]
fn syncs_that_lie_are_caught() {
    let calm = Scenario::run(&[], 0);
    let nodes = [1, 2, 3].map(id);
    let commits = nodes.map(|node| calm.cluster.nodes[&node].store.calls(Fault::SyncLies));
    let (mut caught, mut runs) = (0, 0);
    // From some moment on no node keeps what it acknowledges.
    for tenth in 2..7 {
        let faults: Vec<_> = nodes
            .into_iter()
            .zip(commits)
            .map(|(node, all)| (node, Fault::SyncLies, all * tenth / 10))
            .collect();
        runs += 1;
        caught += u32::from(catch_unwind(AssertUnwindSafe(|| Scenario::run(&faults, 0))).is_err());
    }
    assert_eq!(caught, runs, "acknowledged writes were lost, and no check has seen it");
}
