//! Planted faults: one rule broken at a time, outside the engine, by changing what goes into a machine
//! and what comes out of it. Which check has to catch which of them, and how soon, is in
//! [`planted`](super::planted); attacks are run again with their rule switched off in
//! [`without`](super::scripts).
//!
//! ```text
//! here       when a node starts, writes, syncs, lets effects out
//! rows       what reaches the disk
//! messages   what nodes tell each other
//! talks      what clients ask and hear
//! ```

mod messages;
mod rows;
mod talks;

use tanist::engine::{Effect, rows as engine_rows};
use tanist::wire::client::Submitted;
use tanist::wire::registry::{PeerMessage, Reply};

pub use self::messages::{arrives, rewrite_message, trusts_signatures};
pub use self::rows::rewrite_batch;
pub use self::talks::{rewrite_reply, rewrite_request, rewrite_verdict};
use super::disk::REGISTER_TABLE;
use super::nodes::{Node, Running};
use super::options::{Damage, Options};

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None.
    Nothing,
    /// Steps do not see the batch in flight (attack 1).
    NoOverlay,
    /// Effects leave before the batch they rest on is durable (P9).
    ReleaseEarly,
    /// A refusal leaves before the winner that it shows is durable (attack 1).
    RefusalEarly,
    /// The disk says that it synced, and did not.
    LyingSync,
    /// A failed sync is taken for one that succeeded (attack 26).
    SyncRetried,
    /// Nobody tells the machine that the disk is full (attack 26).
    FullUnnoticed,
    /// No applied index (attack 4).
    NoIndex,
    /// Superseded ids are not exchanged. What several stamps are for shows only without them.
    NoClaims,
    /// One stamp is kept per version (attack 5), and superseded ids are not exchanged.
    OneStamp,
    /// A stamp's past is all that its node knows (attack 2, the crude form).
    KnownPast,
    /// A stamp's past is a plain vector (attack 2).
    VectorPast,
    /// A stamp holds for whatever object it is presented for (attack 3).
    AnyObject,
    /// Presented stamps are not looked at (S5).
    PresentsNothing,
    /// An event begins where the versions that came back from peers end (S2).
    PreviousFromPeers,
    /// Counters begin again after a restart (attack 12).
    CountersAgain,
    /// Ballots begin again after a restart, and an equal one is promised again (attack 9).
    BallotsAgain,
    /// One copy is enough for an acknowledgement (attack 14).
    OneCopy,
    /// Whoever finds a write in its index answers without asking for copies (S4).
    IndexAnswers,
    /// A read asks nobody else.
    ReadsAlone,
    /// Peers do not remember how far a disk was (P11).
    PeersForget,
    /// Nobody looks at the high-water file (attack 15).
    MarkIgnored,
    /// Acknowledgements do not list what they met (P2).
    ListsNothing,
    /// Nothing is repaired: versions travel in writes only.
    NoRepair,
    /// Past 64 siblings a replica merges nothing (attack 23).
    MergeCapped,
    /// Of what lives side by side the latest by the clock stays, and what is earlier than what it replaces
    /// does not (P10).
    ClockWins,
    /// A deletion is collected on a timer (attack 16).
    TombstonesGo,
    /// A kept ancestor in a store is not what its author signed (P8). It is never sent.
    UnsignedAncestor,
    /// Signatures are checked when clients write, and not among nodes (P8).
    PeersUnchecked,
    /// Whoever asks may write (attack 8).
    AnyAuthor,
    /// Rights are judged by the policy of today, by every replica (attack 8).
    TodaysRights,
    /// Whoever knows a hash has the value (attack 25).
    HashIsEnough,
    /// A write that was acknowledged is refused when it is sent again (P4).
    RetryRefused,
    /// Writes are applied, and everybody is told that nothing was done (P4).
    DoneIsNothing,
    /// What may have been done is told as refused (P5).
    UnknownIsRefused,
    /// The application is told that nothing changed when nobody knows (attack 6b).
    UnknownIsFailed,
    /// A promise is not on the disk: it is given twice (P9, attack 9).
    PromiseInMemory,
    /// An acceptor of a chain does not write down what it promised and accepted (attack 11).
    VotesInMemory,
    /// An acceptor promises and does not say what it had accepted (P3).
    SaysNothing,
    /// An acceptor says that it accepted what it refused (P3).
    SaysYes,
    /// An answer leaves before its round is finished (rule 4 of registers).
    AnsweredEarly,
    /// A quick read compares neither ballots nor hashes (rule 4 of registers).
    LookUnchecked,
    /// A node shows what it only accepted (attack 20, R8).
    ShowsAccepted,
    /// An acceptor that lost its rows goes on as if nothing were (attack 15).
    WipedVotes,
    /// The state of a register forgets its fence (P7, attack 8).
    FenceForgotten,
    /// The clock of an owner runs far slower than those of the voters (O5).
    SlowOwner,
    /// A promise to a takeover does not end the renewals of the owner (attack 10a).
    NoBan,
    /// A ballot that nobody promised as a takeover introduces a tenure (attack 10b, O4).
    OrdinaryIntroduces,
    /// A tenure is shown with fewer votes than a majority (attack 18).
    ShortOfVotes,
}

impl Plant {
    /// Whether the machine is told that a batch is durable as soon as it is written.
    pub fn syncs_early(self) -> bool {
        matches!(self, Plant::NoOverlay | Plant::ReleaseEarly | Plant::RefusalEarly)
    }

    /// Whether a batch is visible as soon as it is written.
    fn shows_early(self) -> bool {
        matches!(self, Plant::ReleaseEarly | Plant::RefusalEarly)
    }

    /// Turns on what the fault needs to show itself, and off what hides it or takes time for nothing.
    pub fn direct(self, options: &mut Options) {
        match self {
            Plant::Nothing => return,
            Plant::PeersForget => options.damage = Damage::Restored { mark: true },
            _ => options.damage = Damage::None,
        }
        if self.is_about_registers() {
            (options.clients, options.keys) = (0, 0);
            options.actors = options.actors.max(6);
            options.pause_ms = options.pause_ms.min(200);
        } else if !matches!(self, Plant::NoOverlay | Plant::ReleaseEarly | Plant::LyingSync) {
            options.actors = 0;
        }
        match self {
            Plant::OneCopy => options.write_quorum = Some(1),
            Plant::ReleaseEarly | Plant::LyingSync | Plant::CountersAgain => {
                (options.crash_ms, options.crash_all) = (600, true);
                options.sync_ms = (50, 400);
            }
            Plant::WipedVotes => (options.crash_ms, options.crash_all) = (800, false),
            Plant::PeersUnchecked => (options.forged, options.safety_ms) = (true, 3_000),
            // Heartbeats that come late, and candidates enough to take over meanwhile.
            Plant::NoBan => {
                (options.actors, options.delay_ms, options.loss) = (8, (1, 150), 25);
                (options.crash_ms, options.freeze_ms, options.safety_ms) = (0, 0, 20_000);
            }
            _ => {}
        }
    }

    /// Whether only registers and their owners show it.
    fn is_about_registers(self) -> bool {
        matches!(
            self,
            Plant::PromiseInMemory
                | Plant::SaysNothing
                | Plant::SaysYes
                | Plant::AnsweredEarly
                | Plant::LookUnchecked
                | Plant::ShowsAccepted
                | Plant::WipedVotes
                | Plant::FenceForgotten
                | Plant::SlowOwner
                | Plant::NoBan
                | Plant::OrdinaryIntroduces
                | Plant::ShortOfVotes
                | Plant::UnknownIsRefused
        )
    }
}

/// Before a node reads its disk.
pub fn before_start(plant: Plant, node: &mut Node) {
    match plant {
        Plant::CountersAgain => {
            node.disk.rows.lose_rows(|row, _| row == &engine_rows::counter()[..]);
        }
        // What it promised itself would tell it which ballot is next.
        Plant::BallotsAgain => {
            node.disk.rows.lose_rows(|row, value| {
                row == &engine_rows::counter()[..]
                    || row.first() == Some(&REGISTER_TABLE) && rows::is_promise(value)
            });
        }
        Plant::WipedVotes => {
            node.disk.rows.lose_rows(|row, _| row.first() == Some(&REGISTER_TABLE));
        }
        Plant::MarkIgnored => node.disk.note_mark(),
        Plant::LyingSync => node.disk.rows.sync_lies(true),
        _ => {}
    }
}

/// A batch was written and is not synced.
pub fn after_write(plant: Plant, node: &mut Node) {
    if plant.shows_early() {
        // Visible at once, durable when the sync comes.
        node.disk.rows.sync_lies(true);
        node.disk.rows.sync().expect("a sync that lies");
    }
    if plant.syncs_early()
        && let Some(running) = node.running.as_mut()
    {
        running.machine.synced();
        let effects = running.machine.released();
        running.early.extend(effects);
    }
}

/// The sync is about to be honest.
pub fn before_sync(plant: Plant, node: &mut Node) {
    if plant.shows_early() {
        node.disk.rows.sync_lies(false);
    }
}

/// What a planted fault holds back, or lets go.
pub fn hold(plant: Plant, running: &mut Running, effects: &mut Vec<Effect>) {
    if !plant.syncs_early() {
        return;
    }
    let mut all = std::mem::take(&mut running.early);
    all.append(effects);
    let waits = |effect: &Effect| match plant {
        // Only the view is broken: effects still wait for the disk.
        Plant::NoOverlay => true,
        // Questions may leave, so that the refusal can be decided.
        Plant::RefusalEarly => match effect {
            Effect::Reply { reply: Reply::Submitted(Submitted::Refused { current }), .. } => {
                current.is_none()
            }
            Effect::Send { message: PeerMessage::Exchange(asked), .. } => !asked.versions.is_empty(),
            _ => true,
        },
        _ => false,
    };
    let syncing = running.syncing();
    (running.early, *effects) = all.into_iter().partition(|effect| syncing && waits(effect));
}
