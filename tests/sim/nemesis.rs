//! What goes wrong, and when it stops: first everything may fail, then nothing does and the cluster
//! must converge.

use super::network::{CUTS, Cut, Place};
use super::options::Damage;
use super::world::{Event, World};

/// Something goes wrong, or is repaired.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// Links are cut.
    Cut,
    /// All links are open again.
    Heal,
    /// One more node is cut off.
    SwizzleCut { order: Vec<usize>, at: usize },
    /// One more node comes back.
    SwizzleHeal { order: Vec<usize>, at: usize },
    /// A node crashes, or all do.
    Crash,
    /// A process stops, and goes on later.
    Freeze,
    /// A disk fills up.
    Fill,
    /// There is room again.
    Room { node: usize },
    /// The disk that will go wrong is copied aside, or begins to lie.
    BackUp { node: usize },
    /// The disk goes wrong.
    Damage { node: usize },
}

impl World {
    /// The safety phase: clients act, everything may fail.
    pub fn safety_phase(&mut self) {
        self.unsafe_phase = true;
        for client in 0..self.options.clients {
            let delay = self.dice.range(100, 900);
            self.after(delay, Event::Client { client });
        }
        for actor in 0..self.actors.len() {
            let delay = self.dice.range(100, 900);
            self.after(delay, Event::Client { client: self.options.clients + actor });
        }
        if self.options.cut_ms > 0 {
            self.plan(self.options.cut_ms, Trouble::Cut);
        }
        if self.options.crash_ms > 0 {
            self.plan(self.options.crash_ms, Trouble::Crash);
        }
        if self.options.freeze_ms > 0 {
            self.plan(self.options.freeze_ms, Trouble::Freeze);
        }
        if self.options.full_ms > 0 {
            self.plan(self.options.full_ms, Trouble::Fill);
        }
        let span = self.options.safety_ms;
        if self.options.damage.is_some() {
            let node = self.dice.index(self.options.nodes);
            let backup = self.dice.range(span / 8, span / 2);
            let damage = self.dice.range(span / 2, span * 7 / 8);
            self.after(backup, Event::Trouble(Trouble::BackUp { node }));
            self.after(damage, Event::Trouble(Trouble::Damage { node }));
        }
        self.run_for(span);
        self.unsafe_phase = false;
    }

    fn plan(&mut self, mean: u64, trouble: Trouble) {
        let delay = self.dice.range(mean / 4, mean * 2);
        self.after(delay, Event::Trouble(trouble));
    }

    /// Something goes wrong, or is repaired.
    pub fn trouble(&mut self, trouble: Trouble) {
        if !self.unsafe_phase {
            return;
        }
        self.note(|| format!("trouble: {trouble:?}"));
        let nodes = self.options.nodes;
        match trouble {
            Trouble::Cut => {
                let cut = *self.dice.pick(&CUTS);
                *self.coverage.cuts.entry(cut).or_default() += 1;
                self.note(|| format!("cut: {cut:?}"));
                if cut == Cut::Swizzle {
                    let mut order: Vec<usize> = (0..nodes).collect();
                    self.dice.shuffle(&mut order);
                    self.after(0, Event::Trouble(Trouble::SwizzleCut { order, at: 0 }));
                } else {
                    self.net.cut(cut, &mut self.dice, nodes, self.options.clients);
                    let length = self.dice.range(200, 4_000);
                    self.after(length, Event::Trouble(Trouble::Heal));
                }
                self.links_changed();
            }
            Trouble::Heal => {
                self.net.open_all();
                self.links_changed();
                self.plan(self.options.cut_ms, Trouble::Cut);
            }
            Trouble::SwizzleCut { mut order, at } => {
                if let Some(node) = order.get(at) {
                    (0..nodes).for_each(|peer| self.net.close_both(Place::Node(*node), Place::Node(peer)));
                    self.links_changed();
                    let delay = self.dice.range(50, 700);
                    self.after(delay, Event::Trouble(Trouble::SwizzleCut { order, at: at + 1 }));
                } else {
                    self.dice.shuffle(&mut order);
                    self.after(300, Event::Trouble(Trouble::SwizzleHeal { order, at: 0 }));
                }
            }
            Trouble::SwizzleHeal { order, at } => {
                if let Some(node) = order.get(at) {
                    self.net.open_all_of(Place::Node(*node));
                    self.links_changed();
                    let delay = self.dice.range(50, 700);
                    self.after(delay, Event::Trouble(Trouble::SwizzleHeal { order, at: at + 1 }));
                } else {
                    self.after(0, Event::Trouble(Trouble::Heal));
                }
            }
            Trouble::Crash => {
                let all = self.options.crash_all && self.dice.chance(35);
                if all {
                    self.coverage.crashes_of_all += 1;
                }
                let victim = self.dice.index(nodes);
                for node in (0..nodes).filter(|node| all || *node == victim) {
                    let keep = self.dice.range(0, 1) as usize;
                    self.crash(node, keep);
                    let delay = self.dice.range(1, 3_000);
                    self.after(delay, Event::Start { node });
                }
                self.plan(self.options.crash_ms, Trouble::Crash);
            }
            Trouble::Freeze => {
                let node = self.dice.index(nodes);
                let length = self.dice.range(50, 6_000);
                self.freeze(node, length);
                self.plan(self.options.freeze_ms, Trouble::Freeze);
            }
            Trouble::Fill => {
                let node = self.dice.index(nodes);
                let length = self.dice.range(100, 5_000);
                self.fill_up(node, true);
                self.after(length, Event::Trouble(Trouble::Room { node }));
                self.plan(self.options.full_ms, Trouble::Fill);
            }
            Trouble::Room { node } => self.fill_up(node, false),
            Trouble::BackUp { node } => {
                self.nodes[node].disk.back_up();
                if matches!(self.options.damage, Damage::Lying { .. }) {
                    self.nodes[node].disk.lie(true);
                }
            }
            Trouble::Damage { node } => self.damage(node, self.options.damage),
        }
    }

    /// A node's disk goes wrong.
    pub fn damage(&mut self, node: usize, damage: Damage) {
        self.damaged.insert(node);
        match damage {
            Damage::None => {}
            Damage::LostRows { index } => {
                if self.dice.chance(50) {
                    self.crash(node, 0);
                    self.after(20, Event::Start { node });
                }
                for key in (0..self.options.keys).map(World::key) {
                    if self.dice.chance(70) {
                        let lost = self.nodes[node].disk.lose_key(self.founding.namespace, &key, index);
                        self.coverage.lost_rows += u64::from(lost);
                    }
                }
            }
            Damage::Rotten => {
                // A running node may have the row in memory; one that starts reads what is there.
                self.crash(node, 0);
                for row in self.nodes[node].disk.rows_that_rot() {
                    if self.dice.chance(40) {
                        self.nodes[node].disk.rot(&row);
                        self.coverage.rotten_rows += 1;
                    }
                }
                self.after(20, Event::Start { node });
            }
            Damage::Restored { mark } => {
                self.crash(node, 0);
                if let Some((before, after)) = self.nodes[node].disk.restore(mark) {
                    self.coverage.restored += 1;
                    self.note(|| format!("the disk of node {node} is back at batch {after} of {before}"));
                    self.note_rollback(node, after);
                }
                self.after(100, Event::Start { node });
            }
            Damage::Lying { mark } => {
                self.crash(node, 0);
                self.nodes[node].disk.lie(false);
                if mark {
                    self.nodes[node].disk.restore_mark();
                }
                self.coverage.lied += 1;
                self.after(100, Event::Start { node });
            }
            Damage::Wiped => {
                self.crash(node, 0);
                self.nodes[node].disk.wipe();
                self.coverage.wiped += 1;
                self.after(100, Event::Start { node });
            }
        }
    }

    /// Nothing goes wrong any more: everything is up and every message passes.
    pub fn make_whole(&mut self) {
        self.note(|| "everything is well from here on".to_owned());
        self.net.open_all();
        (self.net.loss, self.net.duplicates, self.net.delay_ms) = (0, 0, (1, 5));
        self.options.sync_ms = (1, 5);
        self.options.failing_syncs = 0;
        for node in 0..self.options.nodes {
            self.nodes[node].frozen_until = self.now;
            self.fill_up(node, false);
            self.start(node);
        }
        self.links_changed();
    }
}
