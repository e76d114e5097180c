//! Planted faults: one rule broken at a time, outside the engine. Each must be caught, or the checks
//! prove nothing.

use std::sync::Arc;

use tanist::core::chain::Ballot;
use tanist::core::events::Range;
use tanist::core::identity::ActorId;
use tanist::core::signature::sign_one;
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::version::{Stamps, Version};
use tanist::engine::store::{Batch, Change, View as _};
use tanist::engine::{Effect, rows};
use tanist::wire::client::{Outcome, Submitted};
use tanist::wire::ownership::Renewed;
use tanist::wire::register::{Accepted, Promised};
use tanist::wire::registry::{PeerMessage, Reply};
use tanist::wire::values::Values;

use super::disk::{Disk, INDEX_TABLE};
use super::nodes::{Node, Running};
use super::world::World;

/// The first byte of a register's row.
pub const REGISTER_TABLE: u8 = 10;

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None.
    Nothing,
    /// Steps do not see the batch in flight (attack 1).
    NoOverlay,
    /// Effects leave before the batch they rest on is durable (P9).
    ReleaseEarly,
    /// The disk says that it synced, and did not.
    LyingSync,
    /// No applied index.
    NoIndex,
    /// A stamp's past is all that its node knows (attack 2, the crude form).
    KnownPast,
    /// A stamp's past is a plain vector (attack 2).
    VectorPast,
    /// Counters begin again after a restart (attack 12).
    CountersAgain,
    /// One copy is enough for an acknowledgement (attack 14).
    OneCopy,
    /// Peers do not remember how far a disk was (P11).
    PeersForget,
    /// Acknowledgements do not list what they met (P2).
    ListsNothing,
    /// Nothing is repaired: versions travel in writes only.
    NoRepair,
    /// A version that nobody signed is in a store (P8).
    ForgedRow,
    /// The clock of an owner runs far slower than those of the voters (O5).
    SlowOwner,
    /// An acceptor promises and does not say what it had accepted (P3).
    SaysNothing,
    /// An acceptor says that it accepted what it refused (P3).
    SaysYes,
    /// A promise to a takeover does not end the renewals of the owner (attack 10).
    NoBan,
    /// What may have been done is told as refused (P5).
    UnknownIsRefused,
    /// A promise is not on the disk (P9).
    PromiseInMemory,
}

impl Plant {
    /// All faults. One stamp kept per version (attack 5) is not among them: the claims of the applied
    /// index travel in every exchange, so that stamps beyond the first are a second line of defence.
    pub const ALL: [Plant; 18] = [
        Plant::NoOverlay,
        Plant::ReleaseEarly,
        Plant::LyingSync,
        Plant::NoIndex,
        Plant::KnownPast,
        Plant::VectorPast,
        Plant::CountersAgain,
        Plant::OneCopy,
        Plant::PeersForget,
        Plant::ListsNothing,
        Plant::NoRepair,
        Plant::ForgedRow,
        Plant::SlowOwner,
        Plant::SaysNothing,
        Plant::SaysYes,
        Plant::NoBan,
        Plant::UnknownIsRefused,
        Plant::PromiseInMemory,
    ];

    /// Whether the machine is told that a batch is durable as soon as it is written.
    pub fn syncs_early(self) -> bool {
        matches!(self, Plant::NoOverlay | Plant::ReleaseEarly)
    }
}

/// Before a node reads its disk.
pub fn before_start(plant: Plant, node: &mut Node) {
    match plant {
        Plant::CountersAgain => {
            node.disk.rows.lose_rows(|row, _| row == &rows::counter()[..]);
        }
        Plant::LyingSync => node.disk.rows.sync_lies(true),
        _ => {}
    }
}

/// A batch was written and is not synced.
pub fn after_write(plant: Plant, node: &mut Node) {
    if plant == Plant::ReleaseEarly {
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
    if plant == Plant::ReleaseEarly {
        node.disk.rows.sync_lies(false);
    }
}

/// What a planted fault holds back, or lets go.
pub fn hold(plant: Plant, running: &mut Running, effects: &mut Vec<Effect>) {
    if plant == Plant::NoOverlay && running.syncing() {
        // Only the view is broken: effects still wait for the disk.
        running.early.append(effects);
    } else {
        let mut all = std::mem::take(&mut running.early);
        all.append(effects);
        *effects = all;
    }
}

/// What reaches the disk instead of a batch.
pub fn rewrite_batch(plant: Plant, world: &mut World, node: usize, batch: &mut Batch) {
    match plant {
        Plant::NoIndex => batch.changes.retain(|change| match change {
            Change::Put { key, .. } => key.first() != Some(&INDEX_TABLE),
            Change::Delete { .. } => true,
        }),
        Plant::KnownPast | Plant::VectorPast => {
            for change in &mut batch.changes {
                if let Change::Put { key, value } = change
                    && Disk::is_key_row(key)
                {
                    *value = restamp_row(plant, world, node, value);
                }
            }
        }
        Plant::PromiseInMemory => batch.changes.retain(|change| match change {
            Change::Put { key, value } if key.first() == Some(&REGISTER_TABLE) => {
                let before = world.nodes[node].disk.rows.get(key).expect("memory reads");
                let row = |bytes: &bytes::Bytes| rows::decode::<rows::RegisterRow>(bytes).expect("a row");
                let accepted = |row: &rows::RegisterRow| row.accepted.as_ref().map(|(ballot, _)| *ballot);
                let before = before.map(|bytes| accepted(&row(&bytes))).unwrap_or_default();
                accepted(&row(value)) != before
            }
            _ => true,
        }),
        Plant::ForgedRow if world.now > 3_000 => {
            for change in &mut batch.changes {
                if let Change::Put { key, value } = change
                    && Disk::is_key_row(key)
                {
                    *value = forge_row(value);
                }
            }
        }
        _ => {}
    }
}

/// What reaches the network instead of a message.
pub fn rewrite_message(
    plant: Plant,
    world: &mut World,
    node: usize,
    mut message: PeerMessage,
) -> PeerMessage {
    let versions = match &mut message {
        PeerMessage::Exchange(m) => Some(&mut m.versions),
        PeerMessage::Exchanged(m) => Some(&mut m.versions),
        _ => None,
    };
    match (plant, versions) {
        (Plant::KnownPast | Plant::VectorPast, Some(versions)) => {
            for version in versions {
                version.stamps = restamped(plant, world, node, &version.stamps, &[]);
            }
        }
        (Plant::NoRepair, Some(_)) => match &mut message {
            PeerMessage::Exchange(m) if m.about.is_none() => {
                (m.versions, m.values) = Default::default();
                m.superseded.clear();
            }
            PeerMessage::Exchanged(m) => {
                (m.versions, m.values) = Default::default();
                m.superseded.clear();
            }
            _ => {}
        },
        (Plant::SaysNothing, _) => {
            if let PeerMessage::PromisedRegister(m) = &mut message
                && let Promised::Yes(accepted) = &mut m.answer
            {
                *accepted = None;
                m.value = Values::none();
            }
        }
        (Plant::SaysYes, _) => {
            if let PeerMessage::AcceptedRegister(m) = &mut message
                && let Accepted::Higher(_) = m.answer
            {
                m.answer = Accepted::Yes { next: true, vote: None };
            }
        }
        (Plant::PeersForget, _) => {
            if let PeerMessage::Recalled(m) = &mut message {
                m.batch = 0;
            }
        }
        _ => {}
    }
    message
}

/// What a client hears instead of an answer.
pub fn rewrite_reply(plant: Plant, mut reply: Reply) -> Reply {
    if plant == Plant::ListsNothing
        && let Reply::Submitted(Submitted::Applied { siblings, .. })
        | Reply::Outcome(Outcome::Applied { siblings, .. }) = &mut reply
    {
        siblings.clear();
    }
    if plant == Plant::NoBan
        && let Reply::Renewed(Renewed::TakeoverPromised { .. } | Renewed::OtherTenure) = reply
    {
        let ballot = Ballot { config_epoch: 1, counter: 1, actor: ActorId([0; 16]) };
        reply = Renewed::Heard { ballot }.into();
    }
    if plant == Plant::UnknownIsRefused
        && let Reply::Submitted(Submitted::Incomplete { .. }) = reply
    {
        reply = Submitted::Refused { current: None }.into();
    }
    reply
}

/// A key's row as it lies on the disk.
type Row = (Vec<(Version, bool)>, Option<(ActorId, u64)>, Vec<Arc<SignedStamp>>);

fn restamp_row(plant: Plant, world: &mut World, node: usize, value: &bytes::Bytes) -> bytes::Bytes {
    let mut row: Row = rows::decode(value).expect("the row decodes");
    let known: Vec<Arc<SignedStamp>> = row.0.iter().flat_map(|(v, _)| v.stamps.iter().cloned()).collect();
    for (version, _) in &mut row.0 {
        version.stamps = restamped(plant, world, node, &version.stamps, &known);
    }
    rows::encode(&row)
}

/// The node's own stamps with the past that the planted fault gives them; always the same one.
fn restamped(
    plant: Plant,
    world: &mut World,
    node: usize,
    stamps: &Stamps,
    known: &[Arc<SignedStamp>],
) -> Stamps {
    let mut changed = Stamps::default();
    for stamp in stamps.iter() {
        let own = world.nodes[node].actor(world.founding.cluster) == Some(stamp.stamp().actor);
        let dot = stamp.stamp().dot();
        let hash = stamp.hash();
        let replacement = match world.restamps.get(&hash) {
            Some(done) => Arc::clone(done),
            None if own && !world.dots.contains_key(&dot) => {
                let new = Arc::new(spoil(plant, world, node, stamp, known));
                world.restamps.insert(hash, Arc::clone(&new));
                // The machine still holds the stamp it made; what is on the disk may come back.
                world.restamps.insert(new.hash(), Arc::clone(&new));
                new
            }
            None => Arc::clone(stamp),
        };
        changed.insert(replacement);
    }
    changed
}

fn spoil(
    plant: Plant,
    world: &World,
    node: usize,
    stamp: &SignedStamp,
    known: &[Arc<SignedStamp>],
) -> SignedStamp {
    let mut spoilt: Stamp = stamp.stamp().clone();
    if plant == Plant::KnownPast {
        for other in known.iter().map(|other| other.stamp()).filter(|other| other.write != spoilt.write) {
            spoilt.past.union(&other.past);
            spoilt.past.insert(other.actor, other.event());
        }
    } else {
        let ends: Vec<_> =
            spoilt.past.iter().map(|(actor, ranges)| (actor, ranges.last().copied())).collect();
        for (actor, last) in ends {
            let upto = last.map_or(0, |range| range.upto);
            spoilt.past.insert(actor, Range { after: 0, upto });
        }
    }
    let proof = sign_one(&world.nodes[node].key, world.founding.cluster, spoilt.hash());
    SignedStamp::new(spoilt, proof)
}

fn forge_row(value: &bytes::Bytes) -> bytes::Bytes {
    let mut row: Row = rows::decode(value).expect("the row decodes");
    for (version, _) in &mut row.0 {
        let mut write = version.write().clone();
        write.wall_ms += 1;
        let proof = version.signed.proof().clone();
        version.signed = Arc::new(tanist::core::version::SignedWrite::new(write, proof, None));
    }
    rows::encode(&row)
}
