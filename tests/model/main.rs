//! The protocols of registers and ownership, explored completely in small configurations.
//!
//! These models state the rules of the design a second time, apart from the engine: each reachable state
//! of a configuration is visited and held against the promises. A checker that finds nothing proves little
//! until it has been seen to find something, so each rule is also broken alone, and a run that then ends
//! without a counterexample fails.
//!
//! Not modelled: reconfiguration, wiped or damaged acceptors, floors, signatures, several keys, the hung
//! disk, and liveness. The pre-vote, and that re-acceptance is not hearing, matter for liveness only.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod change;
mod ownership;
mod register;
mod tables;

/// A rule that is broken on purpose, one at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Rule 1: a restarted coordinator counts from its last ballot again, and acceptors promise an equal one.
    BallotReused,
    /// Rule 1: a cached promise is used again after the round that used it failed.
    CachedAfterFailure,
    /// Rule 1: an acceptor takes an accept below its promise.
    AcceptIgnoresPromise,
    /// A coordinator goes on from any of the states that it was shown, not from the highest.
    LowerCarried,
    /// Rule 2: a retry is not looked up in `recent`.
    RecentIgnored,
    /// Rule 2.
    ParentsUnchecked,
    /// Rule 2.
    FenceUnchecked,
    /// Rule 2.
    VoidUnchecked,
    /// Rule 3: beyond the end of `recent` the answer is `Refused`.
    RefusedBeyondRecent,
    /// Rule 3: a write whose parent's generation is still open is `Refused`.
    RefusedBelow,
    /// Rule 3: a full `void` makes room.
    VoidDropsOldest,
    /// Rule 4: `Applied` leaves before its round is finished.
    AppliedEarly,
    /// Rule 4: a read or a refusal leaves before its round is finished.
    ShownEarly,
    /// Rule 4: a quick read takes the highest of what it is shown.
    QuickReadAnyBallot,
    /// Rule 4: a quick read compares states, not ballots.
    QuickReadStateOnly,
    /// Rule 4: a quick read compares ballots, not states.
    QuickReadBallotOnly,
    /// Rule 5: an acceptor that already held the state says that it took the carried promise.
    RepeatTakesPromise,
    /// A replica promises a takeover while the lease runs.
    TakeoverUnasked,
    /// A replica acknowledges renewals of a tenure below a takeover that it promised.
    NoBan,
    /// O2: the ban is kept with the promise, so that an ordinary promise lifts it.
    BanInOneSlot,
    /// A ballot with one takeover promise and an ordinary one introduces a tenure.
    MixedIntroduces,
    /// A ballot with ordinary promises, a piggybacked one for example, introduces a tenure.
    OrdinaryIntroduces,
    /// A restart does not count as hearing.
    RestartUnheard,
    /// The first acceptance of a tenure does not count as hearing.
    FirstAcceptanceUnheard,
    /// O1: a renewal counts when it was acknowledged at different accepted ballots.
    RenewalsOfAnyBallot,
    /// O3: the deadline counts from the send of the attempt that won.
    DeadlineOfTheWinner,
    /// The deadline counts from when the votes were read.
    DeadlineFromReceipt,
    /// The deadline counts from when the acknowledgements of a renewal were read.
    RenewedFromReceipt,
    /// A resignation has the term that it ends.
    ResignationKeepsTerm,
    /// O7: an owner that sent its resignation goes on.
    ResignedGoesOn,
    /// A replica acknowledges renewals of a tenure that it does not hold.
    RenewalOfAnother,
}
