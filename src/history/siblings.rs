//! Whether what was acknowledged of one key with siblings is there, and whether writers that passed each
//! other were told.
//!
//! A write names the versions that it read, so that every version has its ancestors. The last look at each
//! node, when nothing is written any more, must show exactly the maximal elements of what was acknowledged;
//! a write without an answer may be among what counts, or not.

use std::collections::BTreeMap;

use super::finding::Finding;

/// One operation, as the client that asked for it saw it. `V` names a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<V> {
    /// When it was asked for.
    pub asked: u64,
    /// When the answer came; never, if nobody knows how it ended.
    pub answered: Option<u64>,
    /// What it was.
    pub action: Action<V>,
}

/// What was asked, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<V> {
    /// A write.
    Put {
        /// The versions that it names: what it read.
        names: Vec<V>,
        /// The version that it makes.
        to: V,
        /// What came of it.
        came: Came<V>,
    },
    /// A read that a quorum answered, with the versions that it showed.
    Read(Vec<V>),
    /// What one node holds at the end.
    Final(Vec<V>),
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came<V> {
    /// It was acknowledged; the versions that the acknowledgement lists as there, if it lists any. Without
    /// a list nobody can say whether its writer was told of others.
    Applied(Option<Vec<V>>),
    /// Nothing was done.
    Refused,
    /// There is no answer.
    Unknown,
}

/// A version was shown that nobody wrote.
pub const UNWRITTEN: &str = "a version that no write made";
/// A version was shown whose write was told to have failed.
pub const REFUSED_AND_SEEN: &str = "a write that was refused took effect";
/// Two writes made the same version.
pub const TWO_MAKERS: &str = "two writes made the same version";
/// An acknowledged write is nowhere, and nothing that came after it is.
pub const LOST: &str = "an acknowledged write is lost";
/// Two nodes ended with different versions.
pub const DISAGREE: &str = "two nodes hold different versions at the end";
/// A version is shown beside one that descends from it.
pub const SUPERSEDED: &str = "a version is shown beside one that descends from it";
/// A read does not show what was acknowledged before it began.
pub const STALE: &str = "a read does not show what was acknowledged before it";
/// Two writes that read the same were acknowledged, and neither writer was told of the other.
pub const UNTOLD: &str = "two writes that read the same were acknowledged, and nobody was told";

/// What is right of the history; how much there was to judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Pairs of acknowledged writes that read the same.
    pub conflicts: u64,
}

/// Judges the operations on one key.
///
/// # Errors
///
/// The promise that was broken, with the fewest operations that show it that could be found.
pub fn judge<V: Clone + Ord>(operations: &[Operation<V>]) -> Result<Verdict, Finding> {
    let family = Family::of(operations)?;
    family.only_what_was_written()?;
    family.nothing_superseded()?;
    family.ends()?;
    family.reads()?;
    Ok(Verdict { conflicts: family.conflicts()? })
}

/// The versions by number, and which descend from which.
struct Family<'a, V> {
    operations: &'a [Operation<V>],
    numbers: BTreeMap<&'a V, usize>,
    /// What each version names; versions that nobody wrote are left out.
    parents: Vec<Vec<usize>>,
    /// The write that makes each version.
    makers: Vec<usize>,
}

/// A set of versions.
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, version: usize) -> bool {
        let (word, bit) = (version / 64, 1 << (version % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    fn has(&self, version: usize) -> bool {
        self.0[version / 64] & (1 << (version % 64)) != 0
    }
}

impl<'a, V: Clone + Ord> Family<'a, V> {
    fn of(operations: &'a [Operation<V>]) -> Result<Self, Finding> {
        let mut numbers = BTreeMap::new();
        let mut makers: Vec<usize> = Vec::new();
        let puts = || {
            operations.iter().enumerate().filter_map(|(number, operation)| match &operation.action {
                Action::Put { names, to, came } => Some((number, names, to, came)),
                _ => None,
            })
        };
        for (number, _, to, came) in puts() {
            if *came == Came::Refused {
                continue;
            }
            if let Some(other) = numbers.insert(to, makers.len()) {
                return Err(Finding::new(TWO_MAKERS, [makers[other], number]));
            }
            makers.push(number);
        }
        let mut parents = Vec::with_capacity(makers.len());
        for (_, names, _, came) in puts() {
            if *came != Came::Refused {
                parents.push(names.iter().filter_map(|name| numbers.get(name).copied()).collect());
            }
        }
        Ok(Family { operations, numbers, parents, makers })
    }

    /// All that `versions` are or descend from.
    fn covered(&self, versions: &[V]) -> Set {
        let mut set = Set(vec![0; self.makers.len().div_ceil(64)]);
        let mut next: Vec<usize> = versions.iter().filter_map(|v| self.numbers.get(v).copied()).collect();
        while let Some(version) = next.pop() {
            if set.insert(version) {
                next.extend(&self.parents[version]);
            }
        }
        set
    }

    fn acknowledged(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.makers.iter().enumerate().filter_map(|(version, maker)| {
            let operation = &self.operations[*maker];
            let Action::Put { came: Came::Applied(_), .. } = operation.action else { return None };
            Some((version, *maker, operation.answered?))
        })
    }

    /// What operations show: the operation, and the versions.
    fn shown(&self) -> impl Iterator<Item = (usize, &'a [V])> {
        self.operations.iter().enumerate().filter_map(|(number, operation)| match &operation.action {
            Action::Read(saw) | Action::Final(saw) => Some((number, &saw[..])),
            Action::Put { came: Came::Applied(Some(listed)), .. } => Some((number, &listed[..])),
            Action::Put { .. } => None,
        })
    }

    fn only_what_was_written(&self) -> Result<(), Finding> {
        let unknown = |version: &&V| !self.numbers.contains_key(*version);
        let wrong =
            self.shown().find_map(|(number, versions)| Some((number, versions.iter().find(unknown)?)));
        let Some((number, version)) = wrong else { return Ok(()) };
        let refused = |one: &Operation<V>| matches!(&one.action, Action::Put { to, came: Came::Refused, .. } if to == version);
        Err(match self.operations.iter().position(refused) {
            Some(write) => Finding::new(REFUSED_AND_SEEN, [write, number]),
            None => Finding::new(UNWRITTEN, [number]),
        })
    }

    /// What is shown side by side descends from nothing else that is.
    fn nothing_superseded(&self) -> Result<(), Finding> {
        for (number, operation) in self.operations.iter().enumerate() {
            let (Action::Read(saw) | Action::Final(saw)) = &operation.action else { continue };
            if saw.len() < 2 {
                continue;
            }
            for version in saw.iter().filter_map(|version| self.numbers.get(version).copied()) {
                let Action::Put { names, .. } = &self.operations[self.makers[version]].action else {
                    continue;
                };
                let older = self.covered(names);
                let beside = saw.iter().filter_map(|other| self.numbers.get(other));
                if let Some(other) = beside.copied().find(|other| older.has(*other)) {
                    let shown = [self.makers[other], self.makers[version], number];
                    return Err(Finding::new(SUPERSEDED, shown));
                }
            }
        }
        Ok(())
    }

    /// Every node ends with what was acknowledged, or what came after it, and all with the same.
    fn ends(&self) -> Result<(), Finding> {
        let mut first: Option<(usize, Vec<&V>)> = None;
        for (number, operation) in self.operations.iter().enumerate() {
            let Action::Final(saw) = &operation.action else { continue };
            let there = self.covered(saw);
            if let Some((_, write, _)) = self.acknowledged().find(|(version, ..)| !there.has(*version)) {
                return Err(Finding::new(LOST, [write, number]));
            }
            let mut saw: Vec<&V> = saw.iter().collect();
            saw.sort_unstable();
            match &first {
                Some((other, same)) if *same != saw => return Err(Finding::new(DISAGREE, [*other, number])),
                Some(_) => {}
                None => first = Some((number, saw)),
            }
        }
        Ok(())
    }

    fn reads(&self) -> Result<(), Finding> {
        let mut acknowledged: Vec<(u64, usize, usize)> =
            self.acknowledged().map(|(version, write, at)| (at, version, write)).collect();
        acknowledged.sort_unstable();
        for (number, operation) in self.operations.iter().enumerate() {
            let Action::Read(saw) = &operation.action else { continue };
            let there = self.covered(saw);
            let before = acknowledged.partition_point(|(at, ..)| *at < operation.asked);
            // The one acknowledged last tells most.
            let missing = acknowledged[..before].iter().rev().find(|(_, version, _)| !there.has(*version));
            if let Some((_, _, write)) = missing {
                return Err(Finding::new(STALE, [*write, number]));
            }
        }
        Ok(())
    }

    /// Of two acknowledged writes that read the same, one acknowledgement at least lists the other version,
    /// or one that descends from it.
    fn conflicts(&self) -> Result<u64, Finding> {
        // By what they read: the version, its write, and what its acknowledgement lists.
        type Reader<'v, V> = (usize, usize, &'v [V]);
        let mut readers: BTreeMap<Vec<&V>, Vec<Reader<'_, V>>> = BTreeMap::new();
        for (version, write, _) in self.acknowledged() {
            let Action::Put { names, came: Came::Applied(Some(listed)), .. } = &self.operations[write].action
            else {
                continue;
            };
            let mut names: Vec<&V> = names.iter().collect();
            names.sort_unstable();
            readers.entry(names).or_default().push((version, write, listed));
        }
        let mut pairs = 0;
        for same in readers.values().filter(|same| same.len() > 1) {
            let told: Vec<Set> = same.iter().map(|(_, _, listed)| self.covered(listed)).collect();
            for (one, (version, write, _)) in same.iter().enumerate() {
                for (other, (beside, rival, _)) in same.iter().enumerate().skip(one + 1) {
                    pairs += 1;
                    if !told[one].has(*beside) && !told[other].has(*version) {
                        return Err(Finding::new(UNTOLD, [*write, *rival]));
                    }
                }
            }
        }
        Ok(pairs)
    }
}
