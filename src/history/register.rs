//! Whether a register whose every write makes another version was linearizable, and if not, why.
//!
//! A write names the version that it replaces, so the versions that were ever there form a chain, and
//! everything that a client was told has a place on it: a read and a refusal at the version that they
//! saw, a write at the version that it made. The register was linearizable if and only if nothing that was
//! asked for after an answer has a place before it: then the order of the places, with the write that
//! makes a version before whoever saw it, is an order that explains all. That is a sort instead of a
//! search, and whatever breaks it is shown by two operations.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::linear::{Action, Came, Operation, order};

/// A version was seen, or replaced, that no write can have made.
pub const UNWRITTEN: &str = "a version that no write made";
/// A version was seen whose write was told to have failed.
pub const REFUSED_AND_SEEN: &str = "a write that was refused took effect";
/// Two writes replaced the same version.
pub const TWO_WINNERS: &str = "two writes replaced the same version";
/// Something was answered with what had been replaced before it was asked for.
pub const STALE: &str = "a stale answer";
/// A write was refused although what it named was there.
pub const NO_REASON: &str = "a write was refused although what it named was there";
/// No order of the operations explains the answers.
pub const UNEXPLAINED: &str = "no order of the operations explains the answers";

/// An order that explains the operations, as their places in the list; or what is wrong.
///
/// # Errors
///
/// What breaks linearizability, with the fewest operations that show it that could be found.
pub fn judge<V: Clone + Ord>(operations: &[Operation<V>]) -> Result<Vec<usize>, Finding> {
    if has_one_maker_each(operations) {
        return Chain::of(operations)?.judge();
    }
    order(operations).ok_or_else(|| Finding::new(UNEXPLAINED, shrink(operations)))
}

/// Whether no two writes would make the same version.
fn has_one_maker_each<V: Ord>(operations: &[Operation<V>]) -> bool {
    let mut made = BTreeSet::new();
    operations.iter().all(|operation| match &operation.action {
        // What a refused write would have made is made by nobody.
        Action::Swap { to, came: Came::Applied | Came::Unknown, .. } => made.insert(to),
        _ => true,
    })
}

/// The versions that were there, and what was told of them.
struct Chain<'a, V> {
    operations: &'a [Operation<V>],
    /// Where each version is in the chain; absence is at 0.
    places: BTreeMap<&'a V, usize>,
    /// The write that made the version at each place; none at 0.
    makers: Vec<Option<usize>>,
}

impl<'a, V: Clone + Ord> Chain<'a, V> {
    fn of(operations: &'a [Operation<V>]) -> Result<Self, Finding> {
        let mut makers: BTreeMap<&V, usize> = BTreeMap::new();
        let mut refused: BTreeMap<&V, usize> = BTreeMap::new();
        // What must have been there, and the operation that says so.
        let mut there: Vec<(&V, usize)> = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            match &operation.action {
                Action::Read(saw) => there.extend(saw.as_ref().map(|saw| (saw, number))),
                Action::Swap { from, to, came } => match came {
                    Came::Applied => {
                        makers.insert(to, number);
                        there.push((to, number));
                    }
                    Came::Unknown => {
                        makers.insert(to, number);
                    }
                    Came::Refused(saw) if saw == from => return Err(Finding::new(NO_REASON, [number])),
                    Came::Refused(saw) => {
                        refused.insert(to, number);
                        there.extend(saw.as_ref().map(|saw| (saw, number)));
                    }
                    Came::Failed => {
                        refused.insert(to, number);
                    }
                },
            }
        }
        let mut next: BTreeMap<Option<&V>, (&V, usize)> = BTreeMap::new();
        let mut known = BTreeSet::new();
        while let Some((version, witness)) = there.pop() {
            if !known.insert(version) {
                continue;
            }
            let Some(maker) = makers.get(version) else {
                return Err(match refused.get(version) {
                    Some(write) => Finding::new(REFUSED_AND_SEEN, [*write, witness]),
                    None => Finding::new(UNWRITTEN, [witness]),
                });
            };
            let Action::Swap { from, .. } = &operations[*maker].action else { continue };
            if let Some((_, other)) = next.insert(from.as_ref(), (version, *maker)) {
                return Err(Finding::new(TWO_WINNERS, [other.min(*maker), other.max(*maker)]));
            }
            there.extend(from.as_ref().map(|from| (from, *maker)));
        }
        let mut chain = Chain { operations, places: BTreeMap::new(), makers: vec![None] };
        let mut last = None;
        while let Some((version, maker)) = next.remove(&last) {
            chain.places.insert(version, chain.makers.len());
            chain.makers.push(Some(maker));
            last = Some(version);
        }
        match next.into_values().next() {
            // A ring: each descends from the others, and none from the beginning.
            Some((_, maker)) => Err(Finding::new(UNWRITTEN, [maker])),
            None => Ok(chain),
        }
    }

    fn place(&self, version: Option<&V>) -> usize {
        version.and_then(|version| self.places.get(version).copied()).unwrap_or(0)
    }

    /// Where an operation happened: at twice the place of the version that it made, one after that if it
    /// saw the version. None, if it may have happened anywhere, or never.
    fn moment(&self, operation: &Operation<V>) -> Option<usize> {
        match &operation.action {
            Action::Read(saw) => Some(2 * self.place(saw.as_ref()) + 1),
            Action::Swap { to, came: Came::Applied | Came::Unknown, .. } => {
                self.places.get(to).map(|place| 2 * place)
            }
            Action::Swap { came: Came::Refused(saw), .. } => Some(2 * self.place(saw.as_ref()) + 1),
            Action::Swap { came: Came::Failed, .. } => None,
        }
    }

    fn judge(&self) -> Result<Vec<usize>, Finding> {
        // (moment, when it was asked for, number)
        let mut placed: Vec<(usize, u64, usize)> = Vec::new();
        let mut anywhere = Vec::new();
        for (number, operation) in self.operations.iter().enumerate() {
            match self.moment(operation) {
                Some(moment) => placed.push((moment, operation.asked, number)),
                None if operation.answered.is_some() => anywhere.push((operation.asked, number)),
                None => {}
            }
        }
        if let Some(finding) = self.stale(&placed) {
            return Err(finding);
        }
        placed.sort_unstable();
        Ok(self.with_those_anywhere(placed.into_iter().map(|(_, _, number)| number).collect(), anywhere))
    }

    /// An operation that was answered before another one was asked for, and happened after it: the pair
    /// whose versions are nearest to each other.
    fn stale(&self, placed: &[(usize, u64, usize)]) -> Option<Finding> {
        let mut asked = placed.to_owned();
        asked.sort_unstable_by_key(|(_, asked, number)| (*asked, *number));
        let mut answered: Vec<(u64, usize, usize)> = placed
            .iter()
            .filter_map(|(moment, _, number)| Some((self.operations[*number].answered?, *moment, *number)))
            .collect();
        answered.sort_unstable();
        let mut before: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut answers = answered.into_iter().peekable();
        let mut nearest: Option<(usize, Finding)> = None;
        for (moment, at, number) in asked {
            while let Some((_, moment, number)) = answers.next_if(|(answered, ..)| *answered < at) {
                before.insert((moment, number));
            }
            let Some((later, earlier)) = before.range((moment + 1, 0)..).next().copied() else { continue };
            let apart = later - moment;
            if nearest.as_ref().is_none_or(|(least, _)| apart < *least) {
                let between = self.makers[moment / 2 + 1..=later / 2].iter().flatten().copied();
                let mut shown: Vec<usize> = between.filter(|maker| *maker != earlier).collect();
                shown.extend([earlier, number]);
                let mut once = BTreeSet::new();
                shown.retain(|operation| once.insert(*operation));
                nearest = Some((apart, Finding::new(STALE, shown)));
            }
        }
        nearest.map(|(_, finding)| finding)
    }

    /// Puts operations that changed nothing and saw nothing where time wants them: after all that was
    /// answered before they were asked for.
    fn with_those_anywhere(&self, placed: Vec<usize>, mut anywhere: Vec<(u64, usize)>) -> Vec<usize> {
        anywhere.sort_unstable();
        let mut order = Vec::with_capacity(placed.len() + anywhere.len());
        let mut rest = anywhere.into_iter().peekable();
        // What is asked for after the answer to one of them comes after it, and so does all that follows.
        let mut soonest = vec![u64::MAX; placed.len() + 1];
        for (place, number) in placed.iter().enumerate().rev() {
            let answered = self.operations[*number].answered.unwrap_or(u64::MAX);
            soonest[place] = soonest[place + 1].min(answered);
        }
        for (place, number) in placed.into_iter().enumerate() {
            while let Some((_, free)) = rest.next_if(|(asked, _)| *asked <= soonest[place]) {
                order.push(free);
            }
            order.push(number);
        }
        order.extend(rest.map(|(_, free)| free));
        order
    }
}

/// Fewer operations that no order explains either: the shortest beginning of the history that is wrong,
/// without those that neither wrote nor are needed to show it.
///
/// What was asked for before a beginning ends and answered after it has no answer in it, so a beginning of
/// what is linearizable is, too; and so is what is left when a read is taken out.
fn shrink<V: Clone + Ord>(operations: &[Operation<V>]) -> Vec<usize> {
    let mut answers: Vec<u64> = operations.iter().filter_map(|operation| operation.answered).collect();
    answers.sort_unstable();
    answers.dedup();
    let first = answers.partition_point(|end| order(&beginning(operations, *end).1).is_some());
    let end = answers.get(first).copied().unwrap_or(u64::MAX);
    let (mut numbers, mut left) = beginning(operations, end);
    let mut place = 0;
    while place < left.len() {
        let writes = matches!(left[place].action, Action::Swap { came: Came::Applied | Came::Unknown, .. });
        let taken = (!writes).then(|| (left.remove(place), numbers.remove(place)));
        match taken {
            Some((operation, number)) if order(&left).is_some() => {
                left.insert(place, operation);
                numbers.insert(place, number);
                place += 1;
            }
            Some(_) => {}
            None => place += 1,
        }
    }
    numbers
}

/// What was known at a moment: numbers of operations, and the operations as they looked then.
fn beginning<V: Clone + Ord>(operations: &[Operation<V>], end: u64) -> (Vec<usize>, Vec<Operation<V>>) {
    let known = operations.iter().enumerate().filter_map(|(number, operation)| {
        if operation.asked > end {
            return None;
        }
        if operation.answered.is_some_and(|at| at <= end) {
            return Some((number, operation.clone()));
        }
        let Action::Swap { from, to, came: Came::Applied | Came::Unknown } = &operation.action else {
            return None;
        };
        let action = Action::Swap { from: from.clone(), to: to.clone(), came: Came::Unknown };
        Some((number, Operation { asked: operation.asked, answered: None, action }))
    });
    known.unzip()
}
