//! Registers: per-key CASPaxos with piggybacked promises, cached promises and quick reads.
//!
//! What is bounded: three acceptors, two coordinators, one quick reader, and a number of ballots. The
//! network loses, repeats, delays and reorders without a bound: what was sent can be delivered at any
//! later time, any number of times or never. A coordinator finishes a phase with any majority of the
//! replies that exist. Its crash, its time-out and a refusal are one step: it begins something else, and
//! has lost its round and its cached promise, never its ballot counter (rule 1). Acceptors keep
//! everything (P9). They are interchangeable, so states that differ in their order are one.
//!
//! Any coordinator may take up any operation at any time, as often as there are ballots: that is every
//! client, every retry and every late copy of a request.

use stateright::{Model, Property};

use super::Fault;
use super::change::{Limits, Operation, RegisterState, Verdict, Write, bit};

/// The most ballots that a configuration may have.
const BALLOTS: usize = 4;

/// A configuration: what may happen, and the rule that is broken.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    pub(crate) ballots: u8,
    pub(crate) writes: Vec<Write>,
    pub(crate) operations: Vec<Operation>,
    /// Whether accepts carry the next promise (rule 5).
    pub(crate) piggyback: bool,
    /// Whether there is a quick reader (rule 4).
    pub(crate) quick_read: bool,
    pub(crate) limits: Limits,
}

/// A ballot, and which proposal of it: there is a second one only under a fault. 0 is a missing row.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Held {
    ballot: u8,
    second: bool,
}

/// How far a coordinator's accept was acknowledged.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Acknowledged {
    #[default]
    Not,
    Plainly,
    /// And the carried promise was taken.
    WithPromise,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Acceptor {
    promised: u8,
    accepted: Held,
    /// Every proposal that it ever accepted, chosen ones left out.
    ever: u16,
    /// For each coordinator, the reply to its present prepare: what was accepted then.
    replies: [Option<Held>; 2],
    acknowledged: [Acknowledged; 2],
    /// The reply to the quick reader.
    shown: Option<Held>,
}

/// A coordinator's accept, which stays deliverable for ever.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Proposal {
    state: RegisterState,
    /// The carried promise; 0 for none.
    next: u8,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Ballot {
    /// Whether some coordinator has it for its own.
    taken: bool,
    /// Whether a prepare was sent.
    prepared: bool,
    proposals: [Option<Proposal>; 2],
}

/// The newest generation and fence that any client had been told of, at some moment.
type Seen = (u8, u8);

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Phase {
    #[default]
    Idle,
    Preparing {
        operation: Operation,
        seen: Seen,
    },
    Accepting {
        proposal: Held,
        verdict: Verdict,
        seen: Seen,
    },
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Coordinator {
    /// Its newest own ballot.
    last: u8,
    phase: Phase,
    /// The ballot that a majority promised with its last acceptance, and the state that it accepted.
    cached: Option<(u8, RegisterState)>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Reader {
    #[default]
    Before,
    Asking(Seen),
    Done,
}

/// What clients were told so far.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Told {
    /// Writes that were in a state that some answer rests on.
    applied: u8,
    refused: u8,
    newest: Seen,
    /// Whether an answer was older than one that was complete when its operation began.
    stale: bool,
}

/// Everything: the nodes, and every message ever sent.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct World {
    acceptors: [Acceptor; 3],
    ballots: [Ballot; BALLOTS],
    coordinators: [Coordinator; 2],
    reader: Reader,
    told: Told,
    chosen: u16,
}

/// One step. Acceptors and coordinators are named by their place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// A coordinator begins an operation with a fresh ballot, whatever it was doing.
    Prepare {
        coordinator: usize,
        operation: Operation,
        ballot: u8,
    },
    /// A coordinator begins an operation with its cached promise.
    UseCached {
        coordinator: usize,
        operation: Operation,
        next: u8,
    },
    Promise {
        acceptor: usize,
        ballot: u8,
    },
    /// A coordinator has promises of two acceptors, the first with the highest accepted ballot.
    Propose {
        coordinator: usize,
        highest: usize,
        other: usize,
        next: u8,
    },
    Accept {
        acceptor: usize,
        proposal: Held,
    },
    /// Reconciliation delivers what some acceptor holds: no promise with it, and no acknowledgement.
    Reconcile {
        acceptor: usize,
        proposal: Held,
    },
    /// A coordinator has acknowledgements of two acceptors: its round is finished.
    Finish {
        coordinator: usize,
    },
    AskQuickly,
    Show {
        acceptor: usize,
    },
    /// The quick reader has two replies, the first with the higher accepted ballot.
    AnswerQuickly {
        highest: usize,
        other: usize,
    },
}

impl Held {
    fn bit(self) -> u16 {
        1 << (self.ballot * 2 + u8::from(self.second))
    }
}

impl World {
    fn proposal(&self, held: Held) -> Option<Proposal> {
        let ballot = self.ballots.get(usize::from(held.ballot).checked_sub(1)?)?;
        ballot.proposals[usize::from(held.second)]
    }

    fn state(&self, held: Held) -> RegisterState {
        self.proposal(held).map(|proposal| proposal.state).unwrap_or_default()
    }

    fn ballot(&mut self, ballot: u8) -> &mut Ballot {
        &mut self.ballots[usize::from(ballot) - 1]
    }

    /// The chosen states, in order of their ballots.
    fn chosen(&self) -> impl Iterator<Item = RegisterState> + Clone {
        let all = (1..)
            .zip(&self.ballots)
            .flat_map(|(ballot, _)| [false, true].map(|second| Held { ballot, second }));
        all.filter(|held| self.chosen & held.bit() != 0).map(|held| self.state(held))
    }

    /// A client is told `verdict`, which rests on `state`; its operation began when others had `seen`.
    fn tell(&mut self, state: RegisterState, verdict: Verdict, seen: Seen) {
        self.told.stale |= state.generation < seen.0 || state.fence < seen.1;
        for id in state.applied() {
            self.told.applied |= bit(*id);
        }
        match verdict {
            Verdict::Applied(id) => self.told.applied |= bit(id),
            Verdict::Refused(id) => self.told.refused |= bit(id),
            Verdict::Shown => {}
        }
        let newest = &mut self.told.newest;
        *newest = (newest.0.max(state.generation), newest.1.max(state.fence));
    }

    /// Forgets replies to a coordinator's former round: it would not look at them.
    fn forget_replies(&mut self, coordinator: usize) {
        for acceptor in &mut self.acceptors {
            acceptor.replies[coordinator] = None;
            acceptor.acknowledged[coordinator] = Acknowledged::Not;
        }
    }

    fn accepts(&mut self, acceptor: usize, proposal: Held) {
        self.acceptors[acceptor].accepted = proposal;
        self.acceptors[acceptor].ever |= proposal.bit() & !self.chosen;
        let holders = self.acceptors.iter().filter(|acceptor| acceptor.ever & proposal.bit() != 0).count();
        if holders > 1 {
            self.chosen |= proposal.bit();
            self.acceptors.iter_mut().for_each(|acceptor| acceptor.ever &= !proposal.bit());
        }
    }

    /// The acceptors that have a reply `of` the kind asked for.
    fn with<T>(&self, of: impl Fn(&Acceptor) -> Option<T>) -> Vec<(usize, T)> {
        self.acceptors.iter().enumerate().filter_map(|(at, acceptor)| Some((at, of(acceptor)?))).collect()
    }
}

impl Register {
    fn broken(&self, fault: Fault) -> bool {
        self.limits.fault == Some(fault)
    }

    /// Ballots that nobody has for its own yet, above `last`.
    fn fresh(&self, world: &World, last: u8) -> impl Iterator<Item = u8> {
        let taken = world.ballots.map(|ballot| ballot.taken);
        (last + 1..=self.ballots).filter(move |ballot| !taken[usize::from(*ballot) - 1])
    }

    /// The promises that an accept may carry; 0 for none. `last` is its own ballot or one above it.
    fn nexts(&self, world: &World, last: u8) -> Vec<u8> {
        let mut nexts = vec![0];
        if self.piggyback {
            nexts.extend(self.fresh(world, last));
        }
        nexts
    }

    /// Rule 1: a fresh ballot per attempt, above the coordinator's own.
    fn begin(&self, world: &World, actions: &mut Vec<Action>) {
        let untouched = world.ballots.iter().all(|ballot| !ballot.taken);
        for (at, coordinator) in world.coordinators.iter().enumerate().take(if untouched { 1 } else { 2 }) {
            let mut ballots: Vec<u8> = self.fresh(world, coordinator.last).collect();
            if self.broken(Fault::BallotReused) && coordinator.last > 0 {
                let spent = world.ballots[usize::from(coordinator.last) - 1].proposals[1].is_some();
                ballots.extend((!spent).then_some(coordinator.last));
            }
            for &operation in &self.operations {
                actions.extend(ballots.iter().map(|&ballot| Action::Prepare {
                    coordinator: at,
                    operation,
                    ballot,
                }));
                let Some((cached, _)) = coordinator.cached else { continue };
                if world.ballots[usize::from(cached) - 1].proposals[1].is_none() {
                    let nexts = self.nexts(world, coordinator.last);
                    actions.extend(nexts.into_iter().map(|next| Action::UseCached {
                        coordinator: at,
                        operation,
                        next,
                    }));
                }
            }
        }
    }

    /// What coordinators may do with the replies they have.
    fn go_on(&self, world: &World, actions: &mut Vec<Action>) {
        for (coordinator, own) in world.coordinators.iter().enumerate() {
            match own.phase {
                Phase::Idle => {}
                Phase::Preparing { .. } => {
                    let replies = world.with(|acceptor| acceptor.replies[coordinator]);
                    for (highest, other) in pairs(&replies, self.broken(Fault::LowerCarried)) {
                        for next in self.nexts(world, own.last) {
                            actions.push(Action::Propose { coordinator, highest, other, next });
                        }
                    }
                }
                Phase::Accepting { .. } => {
                    let acknowledged =
                        |acceptor: &&Acceptor| acceptor.acknowledged[coordinator] != Acknowledged::Not;
                    if world.acceptors.iter().filter(acknowledged).count() > 1 {
                        actions.push(Action::Finish { coordinator });
                    }
                }
            }
        }
    }

    fn read_quickly(&self, world: &World, actions: &mut Vec<Action>) {
        if self.quick_read && world.reader == Reader::Before {
            actions.push(Action::AskQuickly);
        }
        let Reader::Asking(_) = world.reader else { return };
        let silent = (0..3).filter(|at| world.acceptors[*at].shown.is_none());
        actions.extend(silent.map(|acceptor| Action::Show { acceptor }));
        let shown = world.with(|acceptor| acceptor.shown);
        for (highest, other) in pairs(&shown, false) {
            let [a, b] = [highest, other].map(|at| world.acceptors[at].shown.unwrap_or_default());
            let same_state = world.state(a) == world.state(b);
            let enough = match self.limits.fault {
                Some(Fault::QuickReadAnyBallot) => true,
                Some(Fault::QuickReadStateOnly) => same_state,
                Some(Fault::QuickReadBallotOnly) => a.ballot == b.ballot,
                _ => a.ballot == b.ballot && same_state,
            };
            if enough {
                actions.push(Action::AnswerQuickly { highest, other });
            }
        }
    }

    /// What the network may deliver to acceptors.
    fn deliver(&self, world: &World, actions: &mut Vec<Action>) {
        for (ballot, sent) in (1..).zip(&world.ballots) {
            for acceptor in 0..3 {
                if sent.prepared {
                    actions.push(Action::Promise { acceptor, ballot });
                }
                for second in [false, true] {
                    let proposal = Held { ballot, second };
                    let Some(content) = sent.proposals[usize::from(second)] else { continue };
                    actions.push(Action::Accept { acceptor, proposal });
                    let spread = world.chosen & proposal.bit() != 0
                        || world.acceptors.iter().any(|other| other.ever & proposal.bit() != 0);
                    if spread && content.next != 0 {
                        actions.push(Action::Reconcile { acceptor, proposal });
                    }
                }
            }
        }
    }

    /// Applies the change function to `current` and sends the accept at `ballot`.
    fn propose(
        &self,
        world: &mut World,
        coordinator: usize,
        (ballot, next): (u8, u8),
        (current, operation, seen): (RegisterState, Operation, Seen),
    ) {
        let (state, verdict) = current.after(operation, &self.writes, self.limits);
        let early = if state == current { Fault::ShownEarly } else { Fault::AppliedEarly };
        if self.broken(early) {
            world.tell(state, verdict, seen);
        }
        if next != 0 {
            world.ballot(next).taken = true;
        }
        let proposals = &mut world.ballot(ballot).proposals;
        let second = proposals[0].is_some();
        proposals[usize::from(second)] = Some(Proposal { state, next });
        let own = &mut world.coordinators[coordinator];
        own.last = own.last.max(next);
        own.phase = Phase::Accepting { proposal: Held { ballot, second }, verdict, seen };
    }

    fn promise(&self, world: &mut World, at: usize, ballot: u8) -> Option<()> {
        let acceptor = &mut world.acceptors[at];
        let equal_again = self.broken(Fault::BallotReused) && acceptor.promised == ballot;
        if acceptor.promised >= ballot && !equal_again {
            return None;
        }
        acceptor.promised = ballot;
        for (coordinator, own) in world.coordinators.iter().enumerate() {
            if own.last == ballot && matches!(own.phase, Phase::Preparing { .. }) {
                acceptor.replies[coordinator] = Some(acceptor.accepted);
            }
        }
        Some(())
    }

    /// Rule 1 of acceptors, and rule 5: whether the carried promise is taken with this acceptance.
    fn accept(&self, world: &mut World, at: usize, proposal: Held, carried: u8) -> Option<bool> {
        let acceptor = &mut world.acceptors[at];
        if acceptor.accepted == proposal {
            if self.broken(Fault::RepeatTakesPromise) {
                return Some(carried != 0);
            }
            let takes = carried != 0 && acceptor.promised <= carried;
            if takes {
                acceptor.promised = carried;
            }
            return Some(takes);
        }
        let outdated = acceptor.promised > proposal.ballot && !self.broken(Fault::AcceptIgnoresPromise);
        if outdated || acceptor.accepted.ballot >= proposal.ballot {
            return None;
        }
        acceptor.promised = acceptor.promised.max(proposal.ballot).max(carried);
        world.accepts(at, proposal);
        Some(carried != 0)
    }

    fn step(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Prepare { coordinator, operation, ballot } => {
                world.forget_replies(coordinator);
                let phase = Phase::Preparing { operation, seen: world.told.newest };
                world.coordinators[coordinator] = Coordinator { last: ballot, phase, cached: None };
                let ballot = world.ballot(ballot);
                (ballot.taken, ballot.prepared) = (true, true);
            }
            Action::UseCached { coordinator, operation, next } => {
                world.forget_replies(coordinator);
                let own = &mut world.coordinators[coordinator];
                let (ballot, state) = own.cached?;
                if !self.broken(Fault::CachedAfterFailure) {
                    own.cached = None;
                }
                let seen = world.told.newest;
                self.propose(world, coordinator, (ballot, next), (state, operation, seen));
            }
            Action::Promise { acceptor, ballot } => self.promise(world, acceptor, ballot)?,
            Action::Propose { coordinator, highest, other, next } => {
                let own = world.coordinators[coordinator];
                let Phase::Preparing { operation, seen } = own.phase else { return None };
                let [a, b] = [highest, other].map(|at| world.acceptors[at].replies[coordinator]);
                let current = world.state(a?);
                world.forget_replies(coordinator);
                let (after, verdict) = current.after(operation, &self.writes, self.limits);
                if a == b && after == current {
                    world.coordinators[coordinator].phase = Phase::Idle;
                    world.tell(current, verdict, seen);
                } else {
                    self.propose(world, coordinator, (own.last, next), (current, operation, seen));
                }
            }
            Action::Accept { acceptor, proposal } => {
                let carried = world.proposal(proposal)?.next;
                let took = self.accept(world, acceptor, proposal, carried)?;
                let level = if took { Acknowledged::WithPromise } else { Acknowledged::Plainly };
                for coordinator in 0..2 {
                    if let Phase::Accepting { proposal: own, .. } = world.coordinators[coordinator].phase
                        && own == proposal
                    {
                        let known = &mut world.acceptors[acceptor].acknowledged[coordinator];
                        *known = level.max(*known);
                    }
                }
            }
            Action::Reconcile { acceptor, proposal } => {
                self.accept(world, acceptor, proposal, 0)?;
            }
            Action::Finish { coordinator } => {
                let Phase::Accepting { proposal, verdict, seen } = world.coordinators[coordinator].phase
                else {
                    return None;
                };
                let Proposal { state, next } = world.proposal(proposal)?;
                let took =
                    |acceptor: &&Acceptor| acceptor.acknowledged[coordinator] == Acknowledged::WithPromise;
                let kept = world.acceptors.iter().filter(took).count() > 1;
                world.forget_replies(coordinator);
                let own = &mut world.coordinators[coordinator];
                own.cached = kept.then_some((next, state));
                own.phase = Phase::Idle;
                world.tell(state, verdict, seen);
            }
            Action::AskQuickly => world.reader = Reader::Asking(world.told.newest),
            Action::Show { acceptor } => {
                let acceptor = &mut world.acceptors[acceptor];
                acceptor.shown = Some(acceptor.accepted);
            }
            Action::AnswerQuickly { highest, .. } => {
                let Reader::Asking(seen) = world.reader else { return None };
                let state = world.state(world.acceptors[highest].shown?);
                world.acceptors.iter_mut().for_each(|acceptor| acceptor.shown = None);
                world.reader = Reader::Done;
                world.tell(state, Verdict::Shown, seen);
            }
        }
        Some(())
    }
}

impl Model for Register {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        assert!(usize::from(self.ballots) <= BALLOTS);
        vec![World {
            acceptors: Default::default(),
            ballots: Default::default(),
            coordinators: Default::default(),
            reader: Reader::Before,
            told: Told::default(),
            chosen: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.deliver(world, actions);
        self.go_on(world, actions);
        self.begin(world, actions);
        self.read_quickly(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, action)?;
        next.acceptors.sort_unstable();
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P3: chosen states are one history", |_, world: &World| {
                world.chosen().zip(world.chosen().skip(1)).all(|(older, newer)| newer.descends_from(&older))
            }),
            Property::always(
                "rule 2: every write was applied to its parent",
                |model: &Self, world: &World| {
                    world.chosen().all(|state| {
                        let parents = [0].into_iter().chain(state.applied().iter().copied());
                        let named =
                            state.applied().iter().map(|id| model.writes[usize::from(*id) - 1].parent);
                        named.eq(parents.take(state.applied().len()))
                    })
                },
            ),
            Property::always("P7: no lower term after a higher one", |model: &Self, world: &World| {
                world.chosen().zip(world.chosen().skip(1)).all(|(older, newer)| {
                    let later = newer.applied().iter().skip(usize::from(older.generation));
                    later.into_iter().all(|id| model.writes[usize::from(*id) - 1].term >= older.fence)
                })
            }),
            Property::always("P5: what was answered is chosen, and stays", |_, world: &World| {
                let newest = world.chosen().last().unwrap_or_default();
                let applied = newest.applied().iter().fold(0, |all, id| all | bit(*id));
                world.told.applied & !applied == 0
                    && (newest.generation, newest.fence).0 >= world.told.newest.0
                    && newest.fence >= world.told.newest.1
            }),
            Property::always("P5: refused is final", |_, world: &World| {
                world
                    .chosen()
                    .all(|state| state.applied().iter().all(|id| world.told.refused & bit(*id) == 0))
            }),
            Property::always("P3: no answer is older than one before it", |_, world: &World| {
                !world.told.stale
            }),
            Property::sometimes("a write is applied", |_, world: &World| world.told.applied != 0),
        ]
    }
}

/// Pairs of acceptors, the one with the higher ballot first; of equal ballots, and `any_order`, both ways.
fn pairs(replies: &[(usize, Held)], any_order: bool) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for &(a, held) in replies {
        for &(b, other) in replies {
            let first =
                any_order || held.ballot > other.ballot || held.ballot == other.ballot && held != other;
            if a != b && (first || held == other && a < b) {
                pairs.push((a, b));
            }
        }
    }
    pairs
}
