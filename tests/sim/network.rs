//! Links that lose, delay, repeat, overtake, and are cut.

use std::collections::{BTreeMap, BTreeSet};

use super::dice::Dice;
use super::options::Options;

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The node with this index.
    Node(usize),
    /// The client with this index.
    Client(usize),
}

/// Shapes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// One node and nobody else.
    Isolate,
    /// One node is heard by nobody, but hears.
    Mute,
    /// One node hears nobody, but is heard.
    Deaf,
    /// One direction between two nodes.
    OneWay,
    /// One link in both directions: the third node is the bridge.
    Bridge,
    /// Every node hears its predecessor in a ring only.
    Ring,
    /// Two groups, clients with them.
    Halves,
    /// Node after node is cut off; they come back in another order.
    Swizzle,
}

/// All shapes.
pub const CUTS: [Cut; 8] =
    [Cut::Isolate, Cut::Mute, Cut::Deaf, Cut::OneWay, Cut::Bridge, Cut::Ring, Cut::Halves, Cut::Swizzle];

/// The state of all links.
pub struct Network {
    /// Directed links that pass nothing.
    closed: BTreeSet<(Place, Place)>,
    /// Of two nodes: a number for each connection they had, and whether it is up.
    connections: BTreeMap<(usize, usize), (u64, bool)>,
    /// Messages lost, of 100.
    pub loss: u64,
    /// Messages that arrive twice, of 100.
    pub duplicates: u64,
    /// Fastest and slowest way.
    pub delay_ms: (u64, u64),
}

impl Network {
    /// Open links.
    pub fn new(options: &Options) -> Self {
        Network {
            closed: BTreeSet::new(),
            connections: BTreeMap::new(),
            loss: options.loss,
            duplicates: options.duplicates,
            delay_ms: options.delay_ms,
        }
    }

    /// Whether messages pass from one to the other.
    pub fn is_open(&self, from: Place, to: Place) -> bool {
        !self.closed.contains(&(from, to))
    }

    /// Closes one direction.
    pub fn close(&mut self, from: Place, to: Place) {
        if from != to {
            self.closed.insert((from, to));
        }
    }

    /// Closes both directions.
    pub fn close_both(&mut self, one: Place, other: Place) {
        self.close(one, other);
        self.close(other, one);
    }

    /// Opens both directions of all links of `place`.
    pub fn open_all_of(&mut self, place: Place) {
        self.closed.retain(|(from, to)| *from != place && *to != place);
    }

    /// Opens every link.
    pub fn open_all(&mut self) {
        self.closed.clear();
    }

    /// After how long copies of a message arrive: none if it is lost.
    pub fn ways(&self, dice: &mut Dice, from: Place, to: Place) -> Vec<u64> {
        let mut ways = Vec::new();
        if !self.is_open(from, to) || dice.chance(self.loss) {
            return ways;
        }
        ways.push(dice.range(self.delay_ms.0, self.delay_ms.1));
        let between_nodes = matches!((from, to), (Place::Node(_), Place::Node(_)));
        // A client's request is a stream of its own: it is never repeated by the network.
        if between_nodes && dice.chance(self.duplicates) {
            ways.push(dice.range(self.delay_ms.0, self.delay_ms.1 * 10));
        }
        ways
    }

    /// The connection of two nodes, `None` if there is none now. `alive` says who is running.
    pub fn connection(&mut self, one: usize, other: usize, alive: bool) -> Option<u64> {
        let pair = (one.min(other), one.max(other));
        let open = alive
            && self.is_open(Place::Node(one), Place::Node(other))
            && self.is_open(Place::Node(other), Place::Node(one));
        let connection = self.connections.entry(pair).or_insert((0, false));
        if open && !connection.1 {
            connection.0 += 1;
        }
        connection.1 = open;
        open.then_some(connection.0)
    }

    /// Cuts links in the shape of `cut`; the nodes are numbered from 0 to `nodes`.
    pub fn cut(&mut self, cut: Cut, dice: &mut Dice, nodes: usize, clients: usize) {
        let victim = dice.index(nodes);
        let other = (victim + 1 + dice.index(nodes - 1)) % nodes;
        let (v, o) = (Place::Node(victim), Place::Node(other));
        let all = || (0..nodes).map(Place::Node);
        match cut {
            Cut::Isolate | Cut::Swizzle => all().for_each(|peer| self.close_both(v, peer)),
            Cut::Mute => all().for_each(|peer| self.close(v, peer)),
            Cut::Deaf => all().for_each(|peer| self.close(peer, v)),
            Cut::OneWay => self.close(v, o),
            Cut::Bridge => self.close_both(v, o),
            Cut::Ring => {
                for from in 0..nodes {
                    for to in (0..nodes).filter(|to| *to != (from + 1) % nodes) {
                        self.close(Place::Node(from), Place::Node(to));
                    }
                }
            }
            Cut::Halves => {
                let places = all().chain((0..clients).map(Place::Client));
                let (left, right): (Vec<Place>, Vec<Place>) = places.partition(|_| dice.chance(50));
                for one in &left {
                    right.iter().for_each(|other| self.close_both(*one, *other));
                }
            }
        }
    }
}
