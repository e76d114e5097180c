//! What a seed turns on: every seed is another mix, so that rare faults meet in some of them.

use super::dice::Dice;

/// What happens to the one node whose disk goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing: all promises hold.
    None,
    /// Rows of keys vanish; their rows in the applied index stay, or go too.
    LostRows {
        /// Whether the index rows go with them.
        index: bool,
    },
    /// Rows of keys, registers and values rot where they lie.
    Rotten,
    /// An old state of the disk comes back.
    Restored {
        /// Whether the high-water file comes back with it, so that only peers can tell.
        mark: bool,
    },
    /// The data directory is emptied.
    Wiped,
    /// For a while the disk says that it synced and did not; then the power fails.
    Lying {
        /// Whether the high-water file lies, too.
        mark: bool,
    },
}

impl Damage {
    /// Whether the node knows more than its disk: P2 and exact reads are not claimed then.
    pub fn is_some(self) -> bool {
        self != Damage::None
    }

    /// Whether rows are gone, or as good as gone, from a store that is otherwise what it was.
    pub fn loses_rows(self) -> bool {
        matches!(self, Damage::LostRows { .. } | Damage::Rotten)
    }
}

/// The mix of a seed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Members of the cluster; three hold a key.
    pub nodes: usize,
    /// Clients.
    pub clients: usize,
    /// Keys.
    pub keys: usize,
    /// Clients of registers, candidates among them.
    pub actors: usize,
    /// How long clients work and things go wrong, in milliseconds.
    pub safety_ms: u64,
    /// Longest pause of a client between operations.
    pub pause_ms: u64,
    /// Messages lost, of 100.
    pub loss: u64,
    /// Messages between nodes that arrive twice, of 100.
    pub duplicates: u64,
    /// Fastest and slowest way of a message.
    pub delay_ms: (u64, u64),
    /// Fastest and slowest sync.
    pub sync_ms: (u64, u64),
    /// Inputs that a node takes into one batch.
    pub batch: usize,
    /// Mean time between cuts of links; 0 for none.
    pub cut_ms: u64,
    /// Mean time between crashes; 0 for none.
    pub crash_ms: u64,
    /// Crashes of all nodes at once, too.
    pub crash_all: bool,
    /// Mean time between stops of a process that goes on later; 0 for none.
    pub freeze_ms: u64,
    /// Mean time between disks that fill up; 0 for none.
    pub full_ms: u64,
    /// Syncs that fail, of a thousand.
    pub failing_syncs: u64,
    /// Whether the clocks of nodes run at different rates.
    pub drift: bool,
    /// Forged messages.
    pub forged: bool,
    /// Length of a write epoch.
    pub epoch_ms: u64,
    /// Durable copies that the namespace asks for; a majority, if absent.
    pub write_quorum: Option<u8>,
    /// The disk that goes wrong.
    pub damage: Damage,
    /// Whether a damaged node that became a new actor is listed again at the end.
    pub readmit: bool,
}

impl Options {
    /// The mix of `seed`.
    pub fn of(dice: &mut Dice) -> Self {
        let slow = dice.chance(30);
        let quiet = dice.chance(15);
        Options {
            nodes: if dice.chance(75) { 3 } else { 5 },
            clients: dice.range(2, 4) as usize,
            keys: dice.range(1, 3) as usize,
            actors: if dice.chance(75) { dice.range(3, 6) as usize } else { 0 },
            safety_ms: dice.range(5_000, 11_000),
            pause_ms: dice.range(50, 900),
            loss: if quiet || dice.chance(40) { 0 } else { dice.range(1, 30) },
            duplicates: if dice.chance(50) { 0 } else { dice.range(1, 30) },
            delay_ms: (1, if slow { 400 } else { dice.range(2, 60) }),
            sync_ms: (1, if dice.chance(20) { 300 } else { dice.range(2, 30) }),
            batch: *dice.pick(&[1, 2, 8, 1_024]),
            cut_ms: if quiet || dice.chance(30) { 0 } else { dice.range(800, 4_000) },
            crash_ms: if quiet || dice.chance(40) { 0 } else { dice.range(1_000, 5_000) },
            crash_all: dice.chance(40),
            freeze_ms: if quiet || dice.chance(60) { 0 } else { dice.range(1_000, 5_000) },
            full_ms: if quiet || dice.chance(75) { 0 } else { dice.range(1_000, 5_000) },
            failing_syncs: if quiet || dice.chance(75) { 0 } else { dice.range(1, 8) },
            drift: dice.chance(50),
            forged: dice.chance(40),
            epoch_ms: if dice.chance(25) { dice.range(2_000, 6_000) } else { 300_000 },
            write_quorum: None,
            damage: match dice.range(0, 11) {
                0 => Damage::LostRows { index: false },
                1 => Damage::LostRows { index: true },
                2 => Damage::Restored { mark: true },
                3 => Damage::Restored { mark: false },
                4 => Damage::Wiped,
                5 => Damage::Lying { mark: false },
                6 => Damage::Lying { mark: true },
                7 => Damage::Rotten,
                _ => Damage::None,
            },
            readmit: dice.chance(50),
        }
    }

    /// Three nodes, one key, nothing goes wrong, nobody acts: the ground of a scripted test.
    pub fn calm() -> Self {
        Options {
            nodes: 3,
            clients: 3,
            keys: 2,
            actors: 0,
            safety_ms: 0,
            pause_ms: 100,
            loss: 0,
            duplicates: 0,
            delay_ms: (1, 3),
            sync_ms: (2, 5),
            batch: 1_024,
            cut_ms: 0,
            crash_ms: 0,
            crash_all: false,
            freeze_ms: 0,
            full_ms: 0,
            failing_syncs: 0,
            drift: false,
            forged: false,
            epoch_ms: 300_000,
            write_quorum: None,
            damage: Damage::None,
            readmit: false,
        }
    }
}
