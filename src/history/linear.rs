//! Whether what clients were told of one register is linearizable, whatever its values are.
//!
//! This is the algorithm of Wing and Gong (1993) with the memo of Lowe (2017): look for an order of the
//! operations that keeps to real time and that a register, doing one after the other, could have answered
//! with; never look twice at the same operations done with the same value left. It knows nothing of
//! generations, ballots or the register's history. [`register`](super::register) is faster where every
//! write makes a value of its own, and is held against this.

use std::collections::BTreeSet;

/// One operation, as the client that asked for it saw it. `V` names a version; every write makes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<V> {
    /// When it was asked for.
    pub asked: u64,
    /// When the answer came; never, if nobody knows how it ended: then it may happen at any later time, or not
    /// at all.
    pub answered: Option<u64>,
    /// What it was.
    pub action: Action<V>,
}

/// What was asked, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<V> {
    /// A read that showed this version, or that there was none.
    Read(Option<V>),
    /// A compare-and-set, and what came of it.
    Swap {
        /// The version that it named; none, if it wanted none to be there.
        from: Option<V>,
        /// The version that it makes.
        to: V,
        /// What came of it.
        came: Came<V>,
    },
}

/// What came of a compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came<V> {
    /// It was applied.
    Applied,
    /// It was refused, because this was there.
    Refused(Option<V>),
    /// Nothing changed, and the answer does not say what was there.
    Failed,
    /// There is no answer.
    Unknown,
}

impl<V: Clone + Eq> Action<V> {
    /// What the register holds afterwards, if it could have answered so while it held `held`.
    fn run(&self, held: Option<&V>) -> Option<Option<V>> {
        let (possible, after) = match self {
            Action::Read(saw) => (saw.as_ref() == held, held),
            Action::Swap { from, to, came: Came::Applied | Came::Unknown } => {
                (from.as_ref() == held, Some(to))
            }
            Action::Swap { from, came: Came::Refused(saw), .. } => {
                (saw.as_ref() == held && saw != from, held)
            }
            Action::Swap { came: Came::Failed, .. } => (true, held),
        };
        possible.then(|| after.cloned())
    }
}

/// An order that explains the operations, as their places in the list; or `None` if there is none. The
/// register is absent at first.
pub fn order<V: Clone + Ord>(operations: &[Operation<V>]) -> Option<Vec<usize>> {
    let mut search = Search::new(operations);
    let mut seen = BTreeSet::new();
    let mut held: Option<V> = None;
    // What was done, and what the register held before each.
    let mut done: Vec<(usize, Option<V>)> = Vec::new();
    let mut at = search.next(search.head());
    loop {
        match search.events[at] {
            // Everything that was answered is done.
            Event::End => return Some(done.into_iter().map(|(operation, _)| operation).collect()),
            Event::Asked(operation) => {
                let after = operations[operation].action.run(held.as_ref());
                if let Some(after) = after {
                    search.lift(operation);
                    if seen.insert((search.done.clone(), after.clone())) {
                        done.push((operation, std::mem::replace(&mut held, after)));
                        at = search.next(search.head());
                        continue;
                    }
                    search.put_back(operation);
                }
                at = search.next(at);
            }
            // This one must be done by now, and cannot be: take back the last one, try what comes after it.
            Event::Answered => {
                let (operation, before) = done.pop()?;
                search.put_back(operation);
                held = before;
                at = search.next(search.asked(operation));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Asked(usize),
    Answered,
    End,
}

/// The events that are left, in the order of time, as a list from which operations are lifted and put back
/// in the reverse order.
struct Search {
    events: Vec<Event>,
    after: Vec<usize>,
    before: Vec<usize>,
    /// Where each operation was asked for, and where it was answered.
    places: Vec<(usize, Option<usize>)>,
    /// Which operations are done, as bits.
    done: Vec<u64>,
}

impl Search {
    fn new<V>(operations: &[Operation<V>]) -> Self {
        // At one moment, what is asked for overlaps what is answered.
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            times.push((operation.asked, false, number));
            times.extend(operation.answered.map(|at| (at, true, number)));
        }
        times.sort_unstable();
        let mut events = Vec::new();
        let mut places = vec![(0, None); operations.len()];
        for (_, answered, number) in times {
            if answered {
                places[number].1 = Some(events.len());
                events.push(Event::Answered);
            } else {
                places[number].0 = events.len();
                events.push(Event::Asked(number));
            }
        }
        // What was never answered need not be done: the end comes before it would have to be.
        events.push(Event::End);
        let len = events.len();
        // The head of the list is one past the end.
        let after = (1..len).chain([len, 0]).collect();
        let before = std::iter::once(len).chain(0..len).collect();
        Search { events, after, before, places, done: vec![0; operations.len().div_ceil(64)] }
    }

    fn head(&self) -> usize {
        self.events.len()
    }

    fn next(&self, at: usize) -> usize {
        self.after[at]
    }

    fn asked(&self, operation: usize) -> usize {
        self.places[operation].0
    }

    fn lift(&mut self, operation: usize) {
        self.done[operation / 64] |= 1 << (operation % 64);
        let (asked, answered) = self.places[operation];
        self.unlink(asked);
        answered.into_iter().for_each(|at| self.unlink(at));
    }

    fn put_back(&mut self, operation: usize) {
        self.done[operation / 64] &= !(1 << (operation % 64));
        let (asked, answered) = self.places[operation];
        answered.into_iter().for_each(|at| self.link(at));
        self.link(asked);
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.before[at], self.after[at]);
        self.after[before] = after;
        self.before[after] = before;
    }

    fn link(&mut self, at: usize) {
        let (before, after) = (self.before[at], self.after[at]);
        self.after[before] = at;
        self.before[after] = at;
    }
}
