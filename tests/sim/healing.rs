//! The heal phase: everything is well, so what was acknowledged must be there, on every node, and
//! work must go on.

use std::collections::BTreeMap;

use tanist::core::chain::{Chain, ConfigChange};
use tanist::core::object::{Key, ObjectId};
use tanist::core::write::WriteId;
use tanist::engine::rows;
use tanist::engine::store::View as _;
use tanist::wire::client::{Failure, OnConflict, Propose, Proposed, Submitted};
use tanist::wire::registry::{Reply, Request};

use super::clients::{Seen, see};
use super::founding::{next_entry, sign};
use super::history::Asked;
use super::nodes::Node;
use super::world::World;

/// The live versions of every key after the heal phase.
pub type Final = BTreeMap<Key, Vec<WriteId>>;

/// Rounds of reads through every node after which all must agree.
const ROUNDS: usize = 12;

impl World {
    /// Heals the cluster. What is live in the end comes back, unless a promise was broken.
    pub fn heal_phase(&mut self) -> Option<Final> {
        self.make_whole();
        self.run_for(20_000);
        if self.options.readmit {
            self.readmit();
        }
        let mut last = Final::new();
        for key in (0..self.options.keys).map(World::key) {
            last.insert(key.clone(), self.converge(&key)?);
        }
        self.violation.is_none().then_some(last)
    }

    /// Asks one node and waits for its answer.
    pub fn call(&mut self, node: usize, asked: Asked, request: &Request) -> Option<Reply> {
        let attempt = self.ask(0, node, asked, request);
        let end = self.now + 10_000;
        self.run_until(end, |world| world.history.attempts[attempt].answered.is_some());
        self.history.attempts[attempt].reply().cloned()
    }

    /// Reads a key through one node, until it answers with versions.
    pub fn read_through(&mut self, node: usize, key: &Key) -> Option<Vec<Seen>> {
        let request = self.reading(key, false);
        for _ in 0..5 {
            let asked = Asked::Read { key: key.clone(), local: false };
            match self.call(node, asked, &request) {
                Some(Reply::Versions(read)) => {
                    let live = read.versions.iter().filter(|listed| listed.live);
                    return Some(live.map(|listed| see(&listed.version)).collect());
                }
                _ => self.run_for(500),
            }
        }
        None
    }

    /// Whether a write's value rotted wherever it came to: one that was never acknowledged, on one disk.
    /// That node goes on to list it, and nobody can repair it (seed 300072).
    fn is_lost(&self, key: &Key, id: WriteId) -> bool {
        let namespace = self.founding.namespace;
        let object = ObjectId::new(namespace, key);
        let holds = |node: &&Node| node.disk.key_row(namespace, key).siblings.version(id).is_some();
        let rotted = |node: &Node| {
            let value = node.disk.rows.get(&rows::value(object, id)).expect("memory reads");
            value.is_some_and(|stored| rows::decode_value(&stored).is_err())
        };
        let mut holders = self.nodes.iter().filter(holds).peekable();
        holders.peek().is_some() && holders.all(rotted)
    }

    /// Reads the key through every node until all say the same, and hold the same.
    fn converge(&mut self, key: &Key) -> Option<Vec<WriteId>> {
        let mut state = String::new();
        for _ in 0..ROUNDS {
            let mut views: Vec<Vec<WriteId>> = Vec::new();
            for node in 0..self.options.nodes {
                let Some(read) = self.read_through(node, key) else {
                    self.fail(
                        "progress",
                        format!("node {node} does not answer a read of {key} after healing"),
                    );
                    return None;
                };
                views.push(read.iter().map(|seen| seen.id).collect());
            }
            self.run_for(1_000);
            let replicas = self.replicas(key);
            let held = replicas.into_iter().filter(|node| self.nodes[*node].counts());
            let rows = held.map(|node| self.nodes[node].disk.key_row(self.founding.namespace, key));
            views.extend(rows.map(|row| row.siblings.live_ids()));
            for view in &mut views {
                view.retain(|id| !self.is_lost(key, *id));
            }
            if views.windows(2).all(|pair| pair[0] == pair[1]) {
                return views.pop();
            }
            state = format!("{views:?}");
        }
        self.fail("convergence", format!("{key}: reads through all nodes do not make them equal: {state}"));
        None
    }

    /// After the checks: a write that names all that is live must be applied, and be alone.
    pub fn progress(&mut self, last: &Final) {
        for key in last.keys() {
            for node in 0..self.options.nodes {
                let Some(seen) = self.read_through(node, key) else {
                    return self.fail("progress", format!("node {node} does not answer a read of {key}"));
                };
                let value = Some(format!("resolved through {node}").into());
                let prepared = self.prepare(key, &seen, value, OnConflict::Refuse);
                let request = World::submission(&prepared);
                let reply = self.call(node, Asked::Submit(prepared.id()), &request);
                match reply {
                    Some(Reply::Submitted(Submitted::Applied { siblings, .. }))
                        if siblings.iter().all(|id| self.is_lost(key, *id)) => {}
                    other => {
                        let what =
                            format!("a write of {key} through node {node} after healing ended in {other:?}");
                        return self.fail("progress", what);
                    }
                }
            }
        }
    }

    /// Lists the present incarnations of all nodes.
    fn readmit(&mut self) {
        let mut voters = self.config.current().clone();
        for (member, node) in voters.members.iter_mut().zip(&self.nodes) {
            member.incarnation = node.disk.incarnation.unwrap_or(member.incarnation);
        }
        if voters == *self.config.current() {
            return;
        }
        voters.nonce = [0; 16];
        let number = self.config.config_epoch() + 1;
        let previous = self.config.head(Chain::Voters);
        let entry = next_entry(Chain::Voters, number, previous, ConfigChange::Voters(voters));
        let signed = sign(&self.founding.admin, self.founding.cluster, entry);
        for _ in 0..5 {
            for node in 0..self.options.nodes {
                let request = Request::from(Propose { signed: signed.clone() });
                let reply = self.call(node, Asked::Other, &request);
                self.note(|| format!("readmission through node {node}: {reply:?}"));
                if let Some(Reply::Proposed(Proposed::Chosen)) = reply {
                    self.coverage.readmitted += 1;
                    self.run_for(5_000);
                    return;
                }
                if let Some(Reply::Failure(Failure::NotBuilt(_))) = reply {
                    // The node goes on forwarding; the cluster converges and works without it.
                    return;
                }
                if self.config.config_epoch() >= number {
                    return;
                }
            }
        }
        self.fail("progress", "a readmission is not chosen".to_owned());
    }
}
