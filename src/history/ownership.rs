//! Whether ownership was exclusive: one tenure to a term, terms that rise, no two processes that believed
//! at once that they own a resource, and no write of an older owner after one of a newer.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::linear::{Action as Register, Came};

/// What was told of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<V> {
    /// When it was asked for, or when a belief began.
    pub asked: u64,
    /// When the answer came, or the belief ended; never, if nobody knows.
    pub answered: Option<u64>,
    /// What it was.
    pub action: Action<V>,
}

/// What was asked, and what was answered. `V` names a tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<V> {
    /// A campaign that was won.
    Won {
        /// The term's number.
        term: u64,
        /// The tenure.
        tenure: V,
    },
    /// For all of this time a process acted as the owner.
    Held {
        /// The term's number.
        term: u64,
    },
}

/// One term has two tenures.
pub const TWO_TENURES: &str = "two tenures of one term";
/// A campaign that began later won a lower term.
pub const TERM_FELL: &str = "a later campaign won a lower term";
/// Two processes believed at once that they own the resource.
pub const TWO_OWNERS: &str = "two owners at once";
/// A write of an older owner was applied after one of a newer.
pub const LATE_WRITE: &str = "a write of an older owner was applied after a newer one's";
/// A write of an older owner was applied after a newer one had sealed what it replaces.
pub const UNSEALED: &str = "a write of an older owner was applied after a newer one had sealed the key";

/// Judges what was told of one resource.
///
/// # Errors
///
/// The promise that was broken, with the operations that show it.
pub fn judge<V: Ord>(operations: &[Operation<V>]) -> Result<(), Finding> {
    one_tenure_to_a_term(operations)?;
    terms_rise(operations)?;
    one_owner_at_a_time(operations)
}

fn one_tenure_to_a_term<V: Ord>(operations: &[Operation<V>]) -> Result<(), Finding> {
    let mut tenures: BTreeMap<u64, (&V, usize)> = BTreeMap::new();
    for (number, operation) in operations.iter().enumerate() {
        let Action::Won { term, tenure } = &operation.action else { continue };
        let (first, other) = *tenures.entry(*term).or_insert((tenure, number));
        if first != tenure {
            return Err(Finding::new(TWO_TENURES, [other, number]));
        }
    }
    Ok(())
}

fn terms_rise<V>(operations: &[Operation<V>]) -> Result<(), Finding> {
    let won = operations.iter().enumerate().filter_map(|(number, operation)| match &operation.action {
        Action::Won { term, .. } => Some((number, operation, *term)),
        Action::Held { .. } => None,
    });
    let mut asked: Vec<_> = won.collect();
    let mut answered = asked.clone();
    asked.sort_by_key(|(_, operation, _)| operation.asked);
    answered.sort_by_key(|(_, operation, _)| operation.answered.unwrap_or(u64::MAX));
    let mut answers = answered.into_iter().peekable();
    let mut highest: Option<(u64, usize)> = None;
    for (number, operation, term) in asked {
        let earlier = |one: &(_, &Operation<V>, _)| one.1.answered.is_some_and(|at| at < operation.asked);
        while let Some((number, _, term)) = answers.next_if(earlier) {
            highest = highest.max(Some((term, number)));
        }
        if let Some((before, earlier)) = highest
            && before > term
        {
            return Err(Finding::new(TERM_FELL, [earlier, number]));
        }
    }
    Ok(())
}

fn one_owner_at_a_time<V>(operations: &[Operation<V>]) -> Result<(), Finding> {
    let held = operations.iter().enumerate().filter_map(|(number, operation)| match operation.action {
        Action::Held { term } => Some((operation.asked, operation.answered?, term, number)),
        Action::Won { .. } => None,
    });
    let mut held: Vec<(u64, u64, u64, usize)> = held.collect();
    held.sort_unstable();
    // Of each term that which lasts longest is remembered; at most two matter at any time.
    let mut lasting: Vec<(u64, u64, usize)> = Vec::new();
    for (from, until, term, number) in held {
        lasting.retain(|(end, ..)| *end > from);
        if let Some((_, _, other)) = lasting.iter().find(|(_, other, _)| *other != term) {
            return Err(Finding::new(TWO_OWNERS, [*other, number]));
        }
        lasting.push((until, term, number));
    }
    Ok(())
}

/// What was told of one register, and the term that each operation was done under; 0 is none.
pub type Fenced<V> = (super::linear::Operation<V>, u64);

/// Judges the writes to one register: along its versions terms do not fall, and once a read under a
/// term showed a version, nothing under a lower one replaces it. `order` is how the operations happened,
/// as [`register::judge`](super::register::judge) found it.
///
/// # Errors
///
/// A write that came too late, with what it came after.
pub fn judge_writes<V: Ord>(operations: &[Fenced<V>], order: &[usize]) -> Result<(), Finding> {
    let mut highest: (u64, Option<usize>) = (0, None);
    let mut sealed = false;
    for number in order.iter().copied() {
        let (operation, term) = &operations[number];
        match &operation.action {
            Register::Swap { came: Came::Applied | Came::Unknown, .. } => {
                if let (above, Some(before)) = highest
                    && above > *term
                {
                    let rule = if sealed { UNSEALED } else { LATE_WRITE };
                    return Err(Finding::new(rule, [before, number]));
                }
                if *term > highest.0 {
                    highest = (*term, Some(number));
                    sealed = false;
                }
            }
            Register::Read(_) if *term > highest.0 => {
                highest = (*term, Some(number));
                sealed = true;
            }
            _ => {}
        }
    }
    Ok(())
}
