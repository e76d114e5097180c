//! Registers: agreement on the state of one key among its replicas, without a log and without a
//! leader (CASPaxos: Rystsov, "CASPaxos: Replicated State Machines without logs", 2018).
//!
//! ```text
//! acceptor   promises, acceptances, what is shown      lease   who was heard, renewals
//! job        what somebody wants of a register: judged by a state, and answered
//! proposer   rounds: phase 1, phase 2, the next promise that comes with it
//! look       one round trip without a ballot, for whatever changes nothing
//! timer      deadlines, resends, pauses, telling what was chosen
//! ```
//!
//! Whatever is asked of a register is a [`Job`](job::Job). Jobs queue per key; a round takes all of
//! them, judges one after another by the newest state, and proposes what comes out. No answer leaves
//! before its round is finished, or a majority showed the same ballot and state (R5).

mod acceptor;
mod job;
mod lease;
mod look;
mod proposer;
mod timer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use self::job::{Answer, Job};
use super::Millis;
use super::machine::State;
use super::rows;
use crate::core::chain::{Ballot, Mode};
use crate::core::hash::Hash;
use crate::core::identity::MemberId;
use crate::core::object::{Key, NamespaceId, ObjectId};
use crate::core::tenure::SignedVote;
use crate::core::verified::Held;
use crate::core::write::WriteId;

/// Which register, and the names that follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    namespace: NamespaceId,
    key: Key,
    object: ObjectId,
    row: Bytes,
}

impl At {
    pub(super) fn new(namespace: NamespaceId, key: Key) -> Self {
        let object = ObjectId::new(namespace, &key);
        let row = rows::register(namespace, &key);
        At { namespace, key, object, row }
    }
}

/// The registers that this node is in the middle of something with, and the owners it heard.
#[derive(Debug)]
pub(super) struct Registers {
    table: BTreeMap<ObjectId, Register>,
    wakes: BTreeSet<(Millis, ObjectId)>,
    /// Which register an operation is about.
    operations: BTreeMap<u64, ObjectId>,
    /// When owners were heard last. Volatile: a restart counts as hearing.
    heard: BTreeMap<ObjectId, Heard>,
    /// When this life began.
    started: Millis,
    /// Jobs that wait.
    jobs: usize,
    /// Ballots that are known to be chosen, where the row does not say so yet.
    known: BTreeMap<ObjectId, (At, Ballot)>,
    /// When the rows are to say so, at the latest.
    write_known: Millis,
    /// Rows that turned out to be damaged: this acceptor takes no part for them.
    damaged: BTreeSet<ObjectId>,
}

/// When the owner of a resource was heard.
#[derive(Debug, Clone, Copy)]
struct Heard {
    tenure: WriteId,
    at: Millis,
    /// The highest sequence of its renewals.
    sequence: u64,
}

/// What this node does as proposer of one register.
#[derive(Debug)]
struct Register {
    at: At,
    queue: VecDeque<Job>,
    round: Option<Round>,
    /// A promise for the next round, if a majority gave it with the last acceptance.
    lead: Option<Lead>,
    /// The highest ballot that is known here to be chosen, and whether the others were told.
    chosen: Option<(Ballot, bool)>,
    /// Not before this time is a fresh ballot tried.
    rest: Millis,
    /// The highest counter of a ballot that was heard of: the next one is above it.
    heard: u64,
    /// Ballots that failed in a row.
    failures: u32,
    /// When something was done last.
    used: Millis,
    wake: Millis,
}

/// A promise that came with the last acceptance.
#[derive(Debug)]
struct Lead {
    /// The promised ballot.
    ballot: Ballot,
    /// The chosen state.
    held: Arc<Held>,
    /// The batch that it rests on.
    batch: u64,
}

/// One attempt.
#[derive(Debug)]
struct Round {
    operation: u64,
    phase: Phase,
    jobs: Vec<Job>,
    /// The newest batch that this rests on.
    batch: u64,
    began: Millis,
    resend: Millis,
    /// Something was sent twice: the next promise is not used then.
    resent: bool,
}

impl Round {
    /// Whether somebody refused this ballot in a way in which others will, too: a higher one is about, of
    /// which `heard` is the counter, or a lease runs.
    fn is_hopeless(&self, heard: u64) -> bool {
        match &self.phase {
            Phase::Look { .. } => false,
            Phase::Prepare { ballot, refusals, .. } => {
                ballot.counter < heard || refusals.values().any(Option::is_some)
            }
            Phase::Accept { ballot, .. } => ballot.counter < heard,
        }
    }
}

#[derive(Debug)]
enum Phase {
    /// Waits until a majority shows the same.
    Look {
        /// What was shown.
        shown: BTreeMap<MemberId, Seen>,
        /// When to stop hoping that the rest agrees.
        patience: Millis,
    },
    /// Waits for promises.
    Prepare {
        ballot: Ballot,
        takeover: bool,
        promises: BTreeMap<MemberId, Option<(Ballot, Arc<Held>)>>,
        /// Acceptors that promised nothing, and how long a lease runs there.
        refusals: BTreeMap<MemberId, Option<u64>>,
    },
    /// Waits for acceptances.
    Accept {
        ballot: Ballot,
        next: Option<Ballot>,
        held: Arc<Held>,
        answers: Vec<Answer>,
        acceptances: BTreeMap<MemberId, (bool, Option<SignedVote>)>,
        refusals: BTreeSet<MemberId>,
    },
}

/// What one acceptor showed.
#[derive(Debug, Clone)]
struct Seen {
    ballot: Option<Ballot>,
    hash: Hash,
    held: Option<Arc<Held>>,
    vote: Option<SignedVote>,
    left_ms: Millis,
}

impl Registers {
    pub(super) fn new(now: Millis) -> Self {
        Registers {
            table: BTreeMap::new(),
            wakes: BTreeSet::new(),
            operations: BTreeMap::new(),
            heard: BTreeMap::new(),
            started: now,
            jobs: 0,
            known: BTreeMap::new(),
            write_known: Millis::MAX,
            damaged: BTreeSet::new(),
        }
    }

    /// Jobs that somebody waits for.
    pub(super) fn len(&self) -> usize {
        self.jobs
    }

    /// When a register is to be looked at next.
    pub(super) fn next_tick(&self) -> Millis {
        self.wakes.first().map_or(Millis::MAX, |(wake, _)| *wake).min(self.write_known)
    }

    /// Takes a register out, to be changed and [put back](Self::put).
    fn take(&mut self, at: &At, now: Millis) -> Register {
        match self.take_known(at.object) {
            Some(register) => register,
            None => Register {
                at: at.clone(),
                queue: VecDeque::new(),
                round: None,
                lead: None,
                chosen: None,
                rest: 0,
                heard: 0,
                failures: 0,
                used: now,
                wake: Millis::MAX,
            },
        }
    }

    fn take_known(&mut self, object: ObjectId) -> Option<Register> {
        let register = self.table.remove(&object)?;
        self.wakes.remove(&(register.wake, object));
        if let Some(round) = &register.round {
            self.operations.remove(&round.operation);
            self.jobs = self.jobs.saturating_sub(round.jobs.len());
        }
        self.jobs = self.jobs.saturating_sub(register.queue.len());
        Some(register)
    }

    /// The register that an operation is about, taken out.
    fn take_operation(&mut self, operation: u64) -> Option<Register> {
        let object = *self.operations.get(&operation)?;
        self.take_known(object)
    }

    fn put(&mut self, mut register: Register) {
        let object = register.at.object;
        let idle = register.round.is_none() && register.queue.is_empty();
        if idle && self.table.len() >= REMEMBERED {
            return;
        }
        let Some(wake) = register.next_wake() else { return };
        register.wake = wake;
        self.wakes.insert((wake, object));
        if let Some(round) = &register.round {
            self.operations.insert(round.operation, object);
            self.jobs += round.jobs.len();
        }
        self.jobs += register.queue.len();
        self.table.insert(object, register);
    }
}

/// Registers that are remembered at most, once nothing is under way with them.
const REMEMBERED: usize = 8192;
/// A promise for the next round is kept with its state if the value has at most so many bytes.
const LEAD_LEN: usize = 1 << 16;
/// A chosen ballot that no further round told the others of is told them after so long.
const TELL: Millis = 20;
/// What was told is written down with the next batch, or after so long.
const WRITE_KNOWN: Millis = 2_000;
/// A register is forgotten, and with it the promise for its next round, after so long without use.
const FORGET: Millis = 30_000;

impl Register {
    /// When to look at it next; never, if there is nothing to remember.
    fn next_wake(&self) -> Option<Millis> {
        let jobs = self.queue.iter().chain(self.round.iter().flat_map(|round| &round.jobs));
        let deadline = jobs.map(|job| job.deadline).min();
        let round = self.round.as_ref().map(|round| match &round.phase {
            Phase::Look { patience, .. } => round.resend.min(*patience),
            Phase::Prepare { .. } | Phase::Accept { .. } => round.resend,
        });
        let begin = (self.round.is_none() && !self.queue.is_empty()).then_some(self.rest);
        let idle = self.round.is_none();
        let tell = (idle && matches!(self.chosen, Some((_, false)))).then_some(self.used + TELL);
        let kept = self.lead.is_some() || self.chosen.is_some();
        let forget = kept.then_some(self.used + FORGET);
        [deadline, round, begin, tell, forget].into_iter().flatten().min()
    }
}

impl State {
    /// Whether the keys of a namespace are registers.
    pub(super) fn is_register(&self, namespace: NamespaceId) -> bool {
        self.is_resource(namespace)
            || self
                .config
                .policy()
                .namespace_by_id(namespace)
                .is_some_and(|namespace| namespace.policy.mode == Mode::Linearizable)
    }

    /// Whether the registers of a namespace are resources.
    fn is_resource(&self, namespace: NamespaceId) -> bool {
        namespace == NamespaceId::resources(self.config.cluster())
    }

    /// The acceptors of a register, the preferred coordinator first.
    fn acceptors(&self, at: &At) -> Vec<MemberId> {
        self.config.replicas(at.namespace, at.object)
    }

    /// Whether this node may promise, accept and show as acceptor of a register.
    fn is_acceptor(&self, at: &At) -> bool {
        self.counts().is_ok() && self.acceptors(at).contains(&self.identity.member)
    }
}
