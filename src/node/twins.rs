//! What to do when another process turns out to have this member's key.
//!
//! Peers keep the newer of two connections, since after a crash the newer one is the live one. So of
//! two processes with one key each pushes the other out in turn, and each learns of it. The one that
//! was connected for a moment only is the intruder and goes; the other is disturbed for about as
//! long. If that does not end it, because both had settled while they could not meet, both go.

use super::clock::Clock;
use super::error::NodeError;
use crate::engine::Millis;
use crate::transport::Twin;

/// Whoever was connected first so long ago did not just come. Longer than a peer waits to dial again.
const SETTLED: Millis = 1_500;
/// Reports that a settled process bears, within [`SPAN`].
const BORNE: usize = 8;
const SPAN: Millis = 30_000;

/// The reports so far.
pub(super) struct Twins {
    clock: Clock,
    first_link: Option<Millis>,
    reports: Vec<Millis>,
}

impl Twins {
    /// For a process that starts now.
    pub(super) fn new(clock: Clock) -> Self {
        Twins { clock, first_link: None, reports: Vec::new() }
    }

    /// A link is up.
    pub(super) fn linked(&mut self) {
        let now = self.clock.now();
        self.first_link.get_or_insert(now);
    }

    /// Another holder of the key was noticed: an error if this process is to go.
    pub(super) fn met(&mut self, twin: Twin) -> Option<NodeError> {
        self.met_at(self.clock.now(), twin)
    }

    fn met_at(&mut self, now: Millis, twin: Twin) -> Option<NodeError> {
        let how = match twin {
            Twin::Mirror => {
                tracing::error!("an address of a peer leads back to this node: correct `peers` in node.toml");
                return None;
            }
            Twin::Met => "it is at the other end of a connection".to_owned(),
            Twin::ReportedBy(peer) => format!("member {peer} reports it"),
        };
        tracing::error!(how, "another process runs with the key of this node");
        self.reports.retain(|report| now.saturating_sub(*report) < SPAN);
        self.reports.push(now);
        let settled = self.first_link.is_some_and(|first| now.saturating_sub(first) >= SETTLED);
        (!settled || self.reports.len() > BORNE).then_some(NodeError::Twin { how })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::MemberId;

    #[test]
    fn who_just_came_goes_and_the_other_only_if_that_does_not_end_it() {
        let twin = Twin::ReportedBy(MemberId([1; 16]));
        let linked_at = |first| Twins { first_link: Some(first), ..Twins::new(Clock::start()) };
        let mut new = linked_at(100);
        assert!(new.met_at(150, Twin::Mirror).is_none());
        assert!(matches!(new.met_at(150, twin), Some(NodeError::Twin { .. })));

        let mut old = linked_at(100);
        for report in 0..BORNE as u64 {
            assert!(old.met_at(10_000 + report, twin).is_none());
        }
        assert!(old.met_at(10_000 + SPAN + 9, twin).is_none(), "the earlier ones are forgotten");
        for report in 1..BORNE as u64 {
            assert!(old.met_at(10_000 + SPAN + 9 + report, twin).is_none());
        }
        assert!(old.met_at(10_000 + SPAN + 99, twin).is_some());
    }
}
