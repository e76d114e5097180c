//! What a node is in the middle of: operations that wait for other nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::Millis;
use super::arrival::Request;
use super::key::At;
use crate::core::identity::MemberId;
use crate::core::object::ObjectId;
use crate::core::verified::{Submission, Verified};
use crate::core::write::WriteId;
use crate::wire::client::OnConflict;
use crate::wire::peer::Known;

/// Who waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    /// A client of this node.
    Client(u64),
    /// A node that forwarded its client's request.
    Peer {
        /// The node.
        member: MemberId,
        /// Its operation.
        operation: u64,
    },
    /// Nobody: the node repairs itself.
    Nobody,
}

/// An operation that waits.
#[derive(Debug)]
pub(super) enum Operation {
    /// Asks a read quorum about a key.
    Gather(Gather),
    /// Brings a write to as many replicas as needed.
    Spread(Spread),
    /// Waits for another node to answer a request.
    Forwarding(Forwarding),
}

/// Asks a read quorum about a key, then goes on.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) requester: Requester,
    pub(super) at: At,
    /// The write that the question is about, if it is about one.
    pub(super) about: Option<WriteId>,
    pub(super) then: Then,
    /// Replicas that were asked.
    pub(super) asked: BTreeSet<MemberId>,
    /// Counting replicas, this one included, all of whose live versions were merged here; and what
    /// they knew of `about`.
    pub(super) answers: BTreeMap<MemberId, Known>,
    /// Replicas all of whose live versions were merged here, counting or not.
    pub(super) heard: BTreeSet<MemberId>,
    /// How many answers are needed.
    pub(super) needed: usize,
    pub(super) deadline: Millis,
    pub(super) wake: Millis,
    /// The newest batch that this rests on.
    pub(super) batch: u64,
}

/// What follows a [`Gather`].
#[derive(Debug, Clone)]
pub(super) enum Then {
    /// Answer a read.
    Read {
        /// Superseded versions, too.
        history: bool,
    },
    /// Decide about a write.
    Submit(Box<Attempt>),
    /// Answer what became of a write.
    Outcome,
    /// Nothing: the merge was what it was for.
    Mend,
}

/// A submitted write, as it waits for the decision.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) request: Request,
    pub(super) submission: Verified<Submission>,
    pub(super) on_conflict: OnConflict,
    pub(super) may_read: bool,
}

/// Brings a write to as many replicas as needed, and after the answer to the others.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) requester: Requester,
    pub(super) at: At,
    pub(super) write: WriteId,
    pub(super) report: Report,
    /// Counting replicas, this one included, that hold it durably or know it superseded.
    pub(super) holders: BTreeSet<MemberId>,
    /// Live versions that they listed, this write aside.
    pub(super) met: BTreeSet<WriteId>,
    /// How many holders are needed.
    pub(super) needed: usize,
    pub(super) answered: bool,
    pub(super) deadline: Millis,
    /// When the replicas that still miss it are left to read repair.
    pub(super) until: Millis,
    /// How often replicas that miss it were asked again.
    pub(super) tries: u32,
    pub(super) wake: Millis,
    /// The newest batch that this rests on.
    pub(super) batch: u64,
}

/// In which form a [`Spread`] is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// As the answer to a submission.
    Submitted,
    /// As the answer to a question about it.
    Outcome,
}

/// Waits for another node to answer a request.
#[derive(Debug)]
pub(super) struct Forwarding {
    pub(super) requester: Requester,
    pub(super) request: Request,
    /// Who has it now.
    pub(super) target: MemberId,
    /// Who may have it next.
    pub(super) others: Vec<MemberId>,
    /// Somebody who had it went away without an answer: it may have been done.
    pub(super) doubtful: bool,
    pub(super) deadline: Millis,
}

impl Operation {
    fn wake(&self) -> Millis {
        match self {
            Operation::Gather(gather) => gather.wake.min(gather.deadline),
            Operation::Spread(spread) if spread.answered => spread.wake.min(spread.until),
            Operation::Spread(spread) => spread.wake.min(spread.deadline),
            Operation::Forwarding(forwarding) => forwarding.deadline,
        }
    }
}

/// All operations, and when each is to be looked at again.
#[derive(Debug, Default)]
pub(super) struct Operations {
    last: u64,
    table: BTreeMap<u64, Operation>,
    wakes: BTreeSet<(Millis, u64)>,
    /// Keys that are read from their peers after damage.
    pub(super) mending: BTreeSet<ObjectId>,
    /// Those of them for which nobody was asked yet since the start.
    pub(super) unmended: Vec<At>,
    /// Spreads that were answered, and go on for replicas that miss the write.
    lingering: BTreeSet<u64>,
}

impl Operations {
    /// Operations whose numbers begin after `first`.
    pub(super) fn new(first: u64) -> Self {
        Operations { last: first, ..Operations::default() }
    }

    /// A fresh number. 0 is nobody's: a message that bears it asks for no operation.
    pub(super) fn number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// The last number that was handed out.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn insert(&mut self, number: u64, operation: Operation) {
        /// Answered spreads at most; what is dropped is left to repair.
        const LINGERING: usize = 1024;
        if matches!(&operation, Operation::Spread(spread) if spread.answered) {
            self.lingering.insert(number);
        }
        self.wakes.insert((operation.wake(), number));
        self.table.insert(number, operation);
        if self.lingering.len() > LINGERING
            && let Some(oldest) = self.lingering.first().copied()
        {
            self.take(oldest);
        }
    }

    /// Takes an operation out, to be changed and [inserted](Self::insert) again.
    pub(super) fn take(&mut self, number: u64) -> Option<Operation> {
        let operation = self.table.remove(&number)?;
        self.wakes.remove(&(operation.wake(), number));
        self.lingering.remove(&number);
        Some(operation)
    }

    /// The numbers of the operations that are to be looked at by `now`.
    pub(super) fn due(&self, now: Millis) -> Vec<u64> {
        self.wakes.iter().take_while(|(wake, _)| *wake <= now).map(|(_, number)| *number).collect()
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.table.keys().copied().collect()
    }

    /// How many somebody waits for.
    pub(super) fn len(&self) -> usize {
        self.table.len() - self.lingering.len()
    }

    /// When one is to be looked at next.
    pub(super) fn next_tick(&self) -> Millis {
        self.wakes.first().map_or(Millis::MAX, |(wake, _)| *wake)
    }
}
