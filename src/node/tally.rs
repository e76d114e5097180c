//! What was refused at the door, by kind: for `status` and the log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::clock::Clock;
use crate::core::verified::Rejection;
use crate::engine::Millis;
use crate::wire::client::{Failure, Status};

/// A line in the log about refusals at most this often.
const LOG_EVERY: Millis = 1_000;

/// The counters' names: what clients sent, then what peers sent, then what found no room.
const NAMES: [&str; 14] = [
    "rejected_denied",
    "rejected_forged",
    "rejected_malformed",
    "rejected_other",
    "rejected_peer_cluster",
    "rejected_peer_author_signature",
    "rejected_peer_stamp_signature",
    "rejected_peer_stamp_object",
    "rejected_peer_unknown_actor",
    "rejected_peer_value",
    "rejected_peer_no_right",
    "rejected_peer_other",
    "rejected_peer_malformed",
    "rejected_overloaded",
];
const PEER_MALFORMED: usize = 12;
const OVERLOADED: usize = 13;

/// Counts refusals.
pub(super) struct Tally {
    clock: Clock,
    counts: [AtomicU64; NAMES.len()],
    /// When the next line may be logged, and what was counted since the last one.
    next_log: AtomicU64,
    unlogged: AtomicU64,
}

impl Tally {
    pub(super) fn new(clock: Clock) -> Self {
        Tally {
            clock,
            counts: [const { AtomicU64::new(0) }; NAMES.len()],
            next_log: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        }
    }

    /// A client's request was refused before the engine saw it.
    pub(super) fn request(&self, failure: &Failure, from: &dyn std::fmt::Display) {
        self.count(request_kind(failure), from, failure);
    }

    /// A version from a peer was left out.
    pub(super) fn version(&self, rejection: &Rejection, from: &dyn std::fmt::Display) {
        self.count(version_kind(rejection), from, rejection);
    }

    /// A peer's message makes no sense.
    pub(super) fn message(&self, error: &dyn std::fmt::Display, from: &dyn std::fmt::Display) {
        self.count(PEER_MALFORMED, from, error);
    }

    /// A request found no room.
    pub(super) fn overloaded(&self, from: &dyn std::fmt::Display) {
        self.count(OVERLOADED, from, &Failure::Overloaded);
    }

    /// Adds the counters to an answer.
    pub(super) fn add_to(&self, status: &mut Status) {
        let counted = NAMES.iter().zip(&self.counts);
        status.counters.extend(counted.map(|(name, count)| ((*name).to_owned(), count.load(Relaxed))));
    }

    fn count(&self, kind: usize, from: &dyn std::fmt::Display, why: &dyn std::fmt::Display) {
        let (Some(name), Some(count)) = (NAMES.get(kind), self.counts.get(kind)) else { return };
        count.fetch_add(1, Relaxed);
        let unlogged = self.unlogged.fetch_add(1, Relaxed);
        let (now, next) = (self.clock.now(), self.next_log.load(Relaxed));
        // Of several that come at once one logs, and says how many there were.
        if now >= next && self.next_log.compare_exchange(next, now + LOG_EVERY, Relaxed, Relaxed).is_ok() {
            self.unlogged.fetch_sub(unlogged + 1, Relaxed);
            tracing::warn!(kind = name, %from, %why, others = unlogged, "refused what came in");
        }
    }
}

fn request_kind(failure: &Failure) -> usize {
    match failure {
        Failure::Denied(_) => 0,
        Failure::Rejected(_) => 1,
        Failure::Malformed(_) => 2,
        _ => 3,
    }
}

fn version_kind(rejection: &Rejection) -> usize {
    match rejection {
        Rejection::Cluster => 4,
        Rejection::AuthorSignature => 5,
        Rejection::StampSignature => 6,
        Rejection::StampObject => 7,
        Rejection::UnknownActor => 8,
        Rejection::Value => 9,
        Rejection::NoRight => 10,
        _ => 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_counter_of_its_name() {
        let named = |kind: usize| NAMES[kind];
        assert_eq!(named(request_kind(&Failure::Rejected(String::new()))), "rejected_forged");
        assert_eq!(named(request_kind(&Failure::UnknownNamespace)), "rejected_other");
        assert_eq!(named(version_kind(&Rejection::NoRight)), "rejected_peer_no_right");
        assert_eq!(named(version_kind(&Rejection::NoStamp)), "rejected_peer_other");
        assert_eq!(named(PEER_MALFORMED), "rejected_peer_malformed");
        assert_eq!(named(OVERLOADED), "rejected_overloaded");
    }

    #[test]
    fn what_is_counted_is_told() {
        let tally = Tally::new(Clock::start());
        for _ in 0..3 {
            tally.version(&Rejection::StampSignature, &"a peer");
        }
        let mut status = Status {
            version: String::new(),
            member: crate::core::identity::MemberId([0; 16]),
            incarnation: crate::core::identity::Incarnation([0; 16]),
            counts: Ok(()),
            synced: 0,
            chains: [0; 3],
            peers: Vec::new(),
            counters: Vec::new(),
        };
        tally.add_to(&mut status);
        assert_eq!(status.counters.len(), NAMES.len());
        assert!(status.counters.contains(&("rejected_peer_stamp_signature".to_owned(), 3)));
    }
}
