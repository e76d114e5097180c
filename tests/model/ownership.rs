//! Ownership: takeovers, renewals and deadlines over three acceptors.
//!
//! What is bounded: three acceptors, a number of ballots and of tenures. A tenure has a key of its own, so
//! each is a candidate of its own: that one process holds the keys of two is not used, and two tenures that
//! are believed in at once are wrong even then. Any ballot may be asked for at any time, as a takeover or
//! ordinarily, by anybody: that covers every coordinator, piggybacked promises (an ordinary promise given
//! right after an acceptance), recoveries, crashes, and messages lost, late or repeated. There is no
//! pre-vote: it only forbids steps, so that no safety rests on it (it is there for the owner's peace).
//!
//! Time is counted in ticks and kept as what is left. Only two bounds matter: a lease ends no earlier than
//! `lease` ticks after it was heard, and an owner believes no later than `deadline` ticks after it sent. In
//! between each clock is free: nobody has to act when a timer is over. That 0.9 lease at one rate is no
//! longer than a lease at another, by at most 10/9, is what `deadline <= lease` says.

use stateright::{Model, Property};

use super::Fault;

const BALLOTS: usize = 4;
const TENURES: usize = 3;

/// A configuration: what may happen, and the rule that is broken.
#[derive(Clone, Debug)]
pub(crate) struct Ownership {
    pub(crate) ballots: u8,
    /// How many tenures there may be, resignations included.
    pub(crate) tenures: u8,
    pub(crate) lease: u8,
    pub(crate) deadline: u8,
    /// How many acceptors hold the first tenure, just submitted at ballot 1, in the beginning.
    pub(crate) holders: usize,
    pub(crate) restarts: bool,
    pub(crate) resignations: bool,
    /// Takeovers may use ballots up to this one only, ordinary prepares those from `ordinary_from` on.
    pub(crate) takeover_to: u8,
    pub(crate) ordinary_from: u8,
    pub(crate) fault: Option<Fault>,
}

/// A promise: the accepted ballot at the time (0 for none), and whether it was given to a takeover.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Promised {
    accepted: u8,
    takeover: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Acceptor {
    promised: u8,
    /// The highest ballot that it ever promised to a takeover.
    takeover: u8,
    accepted: u8,
    /// What is left of the lease of the tenure that it holds.
    lease: u8,
    /// Its promises to ballots at which nothing was proposed yet.
    promises: [Option<Promised>; BALLOTS],
    /// The ballots, not chosen, at which it ever accepted; its votes can be collected at any time.
    ever: u8,
    /// The tenures that it ever accepted.
    known: u8,
    /// For each tenure, the accepted ballot in its acknowledgement of the present renewal.
    renewed: [Option<u8>; TENURES],
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Tenure {
    term: u8,
    /// Somebody's; a resignation has no owner.
    owned: bool,
    /// The tenure that this one resigns, plus one; 0 if it does not.
    resigns: u8,
    /// Its holder has sent a resignation.
    resigned: bool,
    /// What is left until the deadline.
    deadline: u8,
    /// What would be left, if the present renewal counted; none if nothing was sent.
    renewal: Option<u8>,
    /// Only under a fault: the holder has read its votes.
    read: bool,
}

/// Everything: the nodes, and every message that still matters.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct World {
    acceptors: [Acceptor; 3],
    /// For each ballot, the tenure that its accept carries.
    sent: [Option<u8>; BALLOTS],
    tenures: [Option<Tenure>; TENURES],
    chosen: u8,
}

/// One step. Ballots count from 1, acceptors and tenures from 0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    Tick,
    Promise {
        acceptor: usize,
        ballot: u8,
        takeover: bool,
    },
    /// A new tenure is submitted at a ballot promised by two acceptors.
    Introduce {
        ballot: u8,
        highest: usize,
        other: usize,
    },
    /// A tenure that was submitted before is tried again at another ballot.
    Retry {
        tenure: u8,
        ballot: u8,
        highest: usize,
        other: usize,
    },
    /// What phase 1 shows is proposed again.
    Carry {
        ballot: u8,
        highest: usize,
    },
    /// The resignation of the tenure that phase 1 shows.
    ProposeResignation {
        ballot: u8,
        highest: usize,
        resignation: u8,
    },
    Accept {
        acceptor: usize,
        ballot: u8,
    },
    /// The holder of a tenure sends its resignation: from now on it does not use the tenure.
    Resign {
        tenure: u8,
    },
    SendRenewal {
        tenure: u8,
    },
    AcknowledgeRenewal {
        acceptor: usize,
        tenure: u8,
    },
    CountRenewal {
        tenure: u8,
    },
    Restart {
        acceptor: usize,
    },
    ReadVotes {
        tenure: u8,
    },
}

impl World {
    /// The tenure at `ballot`.
    fn at(&self, ballot: u8) -> Option<u8> {
        self.sent[usize::from(ballot.checked_sub(1)?)]
    }

    fn tenure(&self, tenure: u8) -> Tenure {
        self.tenures[usize::from(tenure)].unwrap_or_default()
    }

    fn change(&mut self, tenure: u8) -> Option<&mut Tenure> {
        self.tenures[usize::from(tenure)].as_mut()
    }

    /// The tenures of the chosen ballots, in order.
    fn chosen(&self) -> impl Iterator<Item = u8> + Clone {
        let ballots = (1..).zip(&self.sent).filter(|(ballot, _)| self.chosen & bit(*ballot) != 0);
        ballots.filter_map(|(_, tenure)| *tenure)
    }

    /// Whether the holder of `tenure` believes that it owns, at the very most: as if it had read every vote.
    fn believes(&self, tenure: u8) -> bool {
        let state = self.tenure(tenure);
        state.owned && state.deadline > 0 && self.chosen().any(|chosen| chosen == tenure)
    }

    fn next_tenure(&self, limit: u8) -> Option<u8> {
        (0..limit).find(|tenure| self.tenures[usize::from(*tenure)].is_none())
    }
}

impl Ownership {
    fn broken(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn clocks(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for tenure in 0..self.tenures {
            let state = world.tenure(tenure);
            if !state.owned || !world.chosen().any(|chosen| chosen == tenure) {
                continue;
            }
            if !state.resigned {
                actions.push(Action::SendRenewal { tenure });
                actions.extend(self.resignations.then_some(Action::Resign { tenure }));
            }
            if self.broken(Fault::DeadlineFromReceipt) && !state.read {
                actions.push(Action::ReadVotes { tenure });
            }
            if state.renewal.is_some() {
                let acknowledged = |acceptor| Action::AcknowledgeRenewal { acceptor, tenure };
                actions.extend((0..3).map(acknowledged));
                let ballots = world.acceptors.map(|acceptor| acceptor.renewed[usize::from(tenure)]);
                let most = ballots.iter().flatten().map(|one| {
                    let same = |other: &&u8| *other == one || self.broken(Fault::RenewalsOfAnyBallot);
                    ballots.iter().flatten().filter(same).count()
                });
                if most.max().is_some_and(|most| most > 1) {
                    actions.push(Action::CountRenewal { tenure });
                }
            }
        }
    }

    /// What a coordinator may propose at `ballot`, having the promises of `highest` and `other`.
    fn proposals(&self, world: &World, ballot: u8, highest: usize, other: usize, actions: &mut Vec<Action>) {
        let promises = [highest, other].map(|at| world.acceptors[at].promises[usize::from(ballot) - 1]);
        let [Some(first), Some(second)] = promises else { return };
        if first.accepted < second.accepted {
            return;
        }
        let shown = world.at(first.accepted);
        if let Some(shown) = shown {
            actions.push(Action::Carry { ballot, highest });
            let resignations = (0..self.tenures).filter(|one| world.tenure(*one).resigns == shown + 1);
            actions.extend(resignations.map(|one| Action::ProposeResignation {
                ballot,
                highest,
                resignation: one,
            }));
        }
        let takeovers = [first, second].iter().filter(|promise| promise.takeover).count();
        let may_introduce = match self.fault {
            Some(Fault::MixedIntroduces) => takeovers > 0,
            Some(Fault::OrdinaryIntroduces) => true,
            _ => takeovers == 2,
        };
        if !may_introduce {
            return;
        }
        let term = shown.map_or(0, |shown| world.tenure(shown).term) + 1;
        for tenure in 0..self.tenures {
            let state = world.tenure(tenure);
            if state.owned && state.term == term && !state.resigned {
                actions.push(Action::Retry { tenure, ballot, highest, other });
            }
        }
        if world.next_tenure(self.tenures).is_some() {
            actions.push(Action::Introduce { ballot, highest, other });
        }
    }

    fn promise(&self, acceptor: &mut Acceptor, ballot: u8, takeover: bool, open: bool) -> Option<()> {
        let unheard = acceptor.lease == 0 || self.broken(Fault::TakeoverUnasked);
        if acceptor.promised >= ballot || takeover && !unheard {
            return None;
        }
        acceptor.promised = ballot;
        if takeover {
            acceptor.takeover = ballot;
        } else if self.broken(Fault::BanInOneSlot) {
            acceptor.takeover = 0;
        }
        if open {
            let accepted = acceptor.accepted;
            acceptor.promises[usize::from(ballot) - 1] = Some(Promised { accepted, takeover });
        }
        Some(())
    }

    /// Sends the accept of `ballot`. The deadline counts from the first submission (O3).
    fn send(&self, world: &mut World, ballot: u8, tenure: u8) {
        world.sent[usize::from(ballot) - 1] = Some(tenure);
        for acceptor in &mut world.acceptors {
            acceptor.promises[usize::from(ballot) - 1] = None;
        }
        let chosen = world.chosen().any(|chosen| chosen == tenure);
        let again = self.broken(Fault::DeadlineOfTheWinner) && !chosen;
        if let Some(state) = world.change(tenure)
            && again
            && state.owned
        {
            state.deadline = self.deadline;
        }
    }

    fn accept(&self, world: &mut World, at: usize, ballot: u8) -> Option<()> {
        let tenure = world.at(ballot)?;
        let owned = world.tenure(tenure).owned;
        let acceptor = &mut world.acceptors[at];
        if acceptor.promised > ballot || acceptor.accepted >= ballot {
            return None;
        }
        (acceptor.promised, acceptor.accepted) = (ballot, ballot);
        if !owned {
            acceptor.lease = 0;
        } else if acceptor.known & bit(tenure) == 0 && !self.broken(Fault::FirstAcceptanceUnheard) {
            acceptor.lease = self.lease;
        }
        acceptor.known |= bit(tenure);
        if world.chosen & bit(ballot) == 0 {
            acceptor.ever |= bit(ballot);
        }
        if world.acceptors.iter().filter(|acceptor| acceptor.ever & bit(ballot) != 0).count() > 1 {
            world.chosen |= bit(ballot);
            world.acceptors.iter_mut().for_each(|acceptor| acceptor.ever &= !bit(ballot));
        }
        Some(())
    }

    fn acknowledge(&self, world: &mut World, at: usize, tenure: u8) -> Option<()> {
        let holds = world.at(world.acceptors[at].accepted) == Some(tenure);
        let acceptor = &mut world.acceptors[at];
        let banned = acceptor.takeover > acceptor.accepted && !self.broken(Fault::NoBan);
        if banned || !holds && !self.broken(Fault::RenewalOfAnother) {
            return None;
        }
        acceptor.lease = self.lease;
        acceptor.renewed[usize::from(tenure)] = Some(acceptor.accepted);
        Some(())
    }

    fn tick(world: &mut World) {
        for acceptor in &mut world.acceptors {
            acceptor.lease = acceptor.lease.saturating_sub(1);
        }
        for tenure in world.tenures.iter_mut().flatten() {
            tenure.deadline = tenure.deadline.saturating_sub(1);
            // A renewal so old that it could not count any more is forgotten.
            tenure.renewal = tenure.renewal.and_then(|left| left.checked_sub(1)).filter(|left| *left > 0);
        }
        for tenure in 0..TENURES {
            if world.tenures[tenure].is_some_and(|tenure| tenure.renewal.is_none()) {
                world.acceptors.iter_mut().for_each(|acceptor| acceptor.renewed[tenure] = None);
            }
        }
    }

    fn step(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Tick => Self::tick(world),
            Action::Promise { acceptor, ballot, takeover } => {
                let open = world.at(ballot).is_none();
                self.promise(&mut world.acceptors[acceptor], ballot, takeover, open)?;
            }
            Action::Introduce { ballot, highest, .. } => {
                let tenure = world.next_tenure(self.tenures)?;
                let shown = world.acceptors[highest].promises[usize::from(ballot) - 1]?.accepted;
                let term = world.at(shown).map_or(0, |shown| world.tenure(shown).term) + 1;
                let state = Tenure { term, owned: true, deadline: self.deadline, ..Tenure::default() };
                world.tenures[usize::from(tenure)] = Some(state);
                self.send(world, ballot, tenure);
            }
            Action::Retry { tenure, ballot, .. } => self.send(world, ballot, tenure),
            Action::Carry { ballot, highest } => {
                let shown = world.acceptors[highest].promises[usize::from(ballot) - 1]?.accepted;
                let tenure = world.at(shown)?;
                self.send(world, ballot, tenure);
            }
            Action::ProposeResignation { ballot, resignation, .. } => self.send(world, ballot, resignation),
            Action::Accept { acceptor, ballot } => self.accept(world, acceptor, ballot)?,
            Action::Resign { tenure } => {
                let resignation = world.next_tenure(self.tenures)?;
                let rise = u8::from(!self.broken(Fault::ResignationKeepsTerm));
                let state = world.change(tenure)?;
                let term = state.term + rise;
                state.resigned = true;
                if !self.broken(Fault::ResignedGoesOn) {
                    (state.deadline, state.renewal) = (0, None);
                    world.acceptors.iter_mut().for_each(|one| one.renewed[usize::from(tenure)] = None);
                }
                let state = Tenure { term, resigns: tenure + 1, ..Tenure::default() };
                world.tenures[usize::from(resignation)] = Some(state);
            }
            Action::SendRenewal { tenure } => {
                world.change(tenure)?.renewal = Some(self.deadline);
                world.acceptors.iter_mut().for_each(|one| one.renewed[usize::from(tenure)] = None);
            }
            Action::AcknowledgeRenewal { acceptor, tenure } => self.acknowledge(world, acceptor, tenure)?,
            Action::CountRenewal { tenure } => {
                let from_receipt = self.broken(Fault::RenewedFromReceipt).then_some(self.deadline);
                let state = world.change(tenure)?;
                state.deadline = state.deadline.max(from_receipt.or(state.renewal)?);
                state.renewal = None;
                world.acceptors.iter_mut().for_each(|one| one.renewed[usize::from(tenure)] = None);
            }
            Action::Restart { acceptor } => {
                let unheard = self.broken(Fault::RestartUnheard);
                world.acceptors[acceptor].lease = if unheard { 0 } else { self.lease };
            }
            Action::ReadVotes { tenure } => {
                let state = world.change(tenure)?;
                (state.read, state.deadline) = (true, self.deadline);
            }
        }
        Some(())
    }
}

impl Model for Ownership {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            acceptors: Default::default(),
            sent: Default::default(),
            tenures: Default::default(),
            chosen: 0,
        };
        if self.holders > 0 {
            let first = Tenure { term: 1, owned: true, deadline: self.deadline, ..Tenure::default() };
            (world.tenures[0], world.sent[0]) = (Some(first), Some(0));
            (0..self.holders).for_each(|at| self.accept(&mut world, at, 1).unwrap());
            world.acceptors.sort_unstable();
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.clocks(world, actions);
        for ballot in 1..=self.ballots {
            for acceptor in 0..3 {
                let promise = |takeover| Action::Promise { acceptor, ballot, takeover };
                actions.extend((ballot <= self.takeover_to).then_some(promise(true)));
                actions.extend((ballot >= self.ordinary_from).then_some(promise(false)));
                actions.push(Action::Accept { acceptor, ballot });
                for other in (0..3).filter(|other| *other != acceptor && world.at(ballot).is_none()) {
                    self.proposals(world, ballot, acceptor, other, actions);
                }
            }
        }
        if self.restarts {
            actions.extend((0..3).map(|acceptor| Action::Restart { acceptor }));
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, action)?;
        next.acceptors.sort_unstable();
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one owner believes", |model: &Self, world: &World| {
                (0..model.tenures).filter(|tenure| world.believes(*tenure)).count() < 2
            }),
            Property::always("P6: one tenure per term, and terms rise", |_, world: &World| {
                world.chosen().zip(world.chosen().skip(1)).all(|(older, newer)| {
                    older == newer || world.tenure(older).term < world.tenure(newer).term
                })
            }),
            Property::sometimes("an owner is replaced while terms rise", |_, world: &World| {
                world.chosen().any(|tenure| world.tenure(tenure).term > 1)
            }),
        ]
    }
}

/// The bit of a ballot or of a tenure in a set of them.
fn bit(number: u8) -> u8 {
    1 << number
}
