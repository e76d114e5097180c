//! What a register agrees on, and the change function: rules 2 and 3 of registers.
//!
//! Writes are numbered from 1 and everything about them is fixed by the configuration, as a write's hash
//! fixes it in the store; 0 stands for "nothing written yet".

use super::Fault;

/// The highest generation that a configuration may reach.
pub(crate) const GENERATIONS: usize = 2;

/// A write, as its author signed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// One more than that of its parent.
    pub(crate) generation: u8,
    /// The write that it names as what it read; 0 for none.
    pub(crate) parent: u8,
    /// The fence's term; 0 for a write without a fence.
    pub(crate) term: u8,
}

/// `RegisterState`. `history` names every applied write by its generation; the store keeps only its end,
/// `recent`, so the change function looks no further back than the configuration allows.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RegisterState {
    pub(crate) generation: u8,
    pub(crate) history: [u8; GENERATIONS],
    pub(crate) fence: u8,
    /// A bit for each voided write whose generation is not closed.
    pub(crate) void: u8,
}

/// What a client asks of a register.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Operation {
    Write(u8),
    Read,
    /// A fenced read: it raises the fence to this term.
    Seal(u8),
    /// Makes the outcome of a write final by voiding it, if it is open.
    Settle(u8),
}

/// What the client is told, once the round is finished.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// The write is in the history.
    Applied(u8),
    /// Final: the write never was and never will be applied.
    Refused(u8),
    /// The state, and nothing about a write: a read, a seal, or an answer that is not final
    /// (`UnknownParent`, `Expired`, `Overloaded`).
    Shown,
}

/// The limits and the broken rule that the change function works under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many of the newest write ids a state keeps in `recent`.
    pub(crate) recent: u8,
    /// How many writes a state may hold void.
    pub(crate) void: u32,
    pub(crate) fault: Option<Fault>,
}

impl RegisterState {
    /// The newest applied write; 0 if there is none.
    pub(crate) fn current(&self) -> u8 {
        self.generation.checked_sub(1).map_or(0, |newest| self.history[usize::from(newest)])
    }

    /// The applied writes, oldest first.
    pub(crate) fn applied(&self) -> &[u8] {
        &self.history[..usize::from(self.generation)]
    }

    /// Whether this state is `older` or was reached from it by changes.
    pub(crate) fn descends_from(&self, older: &RegisterState) -> bool {
        self.applied().starts_with(older.applied()) && self.fence >= older.fence
    }

    /// The change function: the state after `operation`, and what its client is told of it.
    pub(crate) fn after(self, operation: Operation, writes: &[Write], limits: Limits) -> (Self, Verdict) {
        match operation {
            Operation::Read => (self, Verdict::Shown),
            Operation::Seal(term) => (Self { fence: self.fence.max(term), ..self }, Verdict::Shown),
            Operation::Write(id) => self.after_write(id, writes, limits),
            Operation::Settle(id) => self.after_settle(id, writes, limits),
        }
    }

    /// Looks in `recent`, then checks fence, void, generation and parent.
    fn after_write(self, id: u8, writes: &[Write], limits: Limits) -> (Self, Verdict) {
        let write = writes[usize::from(id - 1)];
        let faulty = |fault| limits.fault == Some(fault);
        if !faulty(Fault::RecentIgnored)
            && let Some(verdict) = self.recall(id, write.generation, limits)
        {
            return (self, verdict);
        }
        if write.term < self.fence && !faulty(Fault::FenceUnchecked)
            || self.void & bit(id) != 0 && !faulty(Fault::VoidUnchecked)
            || write.generation <= self.generation
        {
            return (self, Verdict::Refused(id));
        }
        if write.generation > self.generation + 1 {
            let unknown_parent =
                if faulty(Fault::RefusedBelow) { Verdict::Refused(id) } else { Verdict::Shown };
            return (self, unknown_parent);
        }
        if write.parent != self.current() && !faulty(Fault::ParentsUnchecked) {
            return (self, Verdict::Refused(id));
        }
        let mut next = self;
        next.history[usize::from(self.generation)] = id;
        next.generation += 1;
        next.fence = next.fence.max(write.term);
        for (id, write) in (1..).zip(writes) {
            if write.generation <= next.generation {
                next.void &= !bit(id);
            }
        }
        (next, Verdict::Applied(id))
    }

    /// A closed write is looked up; an open one goes to `void`, unless that is full.
    fn after_settle(self, id: u8, writes: &[Write], limits: Limits) -> (Self, Verdict) {
        if let Some(verdict) = self.recall(id, writes[usize::from(id - 1)].generation, limits) {
            return (self, verdict);
        }
        let mut next = self;
        if (self.void & !bit(id)).count_ones() >= limits.void {
            if limits.fault != Some(Fault::VoidDropsOldest) {
                return (self, Verdict::Shown);
            }
            next.void = 0;
        }
        next.void |= bit(id);
        (next, Verdict::Refused(id))
    }

    /// How a write of a closed generation ended; nothing if its generation is open.
    fn recall(&self, id: u8, generation: u8, limits: Limits) -> Option<Verdict> {
        let age = self.generation.checked_sub(generation)?;
        if age >= limits.recent {
            let expired = limits.fault != Some(Fault::RefusedBeyondRecent);
            return Some(if expired { Verdict::Shown } else { Verdict::Refused(id) });
        }
        let applied = self.history[usize::from(generation - 1)] == id;
        Some(if applied { Verdict::Applied(id) } else { Verdict::Refused(id) })
    }
}

/// The bit of write `id` in a set of writes.
pub(crate) fn bit(id: u8) -> u8 {
    1 << id
}
