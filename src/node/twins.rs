//! What to do when another process turns out to have this member's key.
//!
//! Peers keep the newer of two connections, since after a crash the newer one is the live one. So of
//! two processes with one key each learns of the other in turn. The one that started last is the
//! intruder and goes; the other is disturbed for a moment only. If that does not end it, both go.

use super::clock::Clock;
use super::error::NodeError;
use crate::engine::Millis;
use crate::transport::Twin;

/// A process younger than this is the one that came last.
const YOUNG: Millis = 10_000;
/// Reports that an older process bears, within [`SPAN`].
const BORNE: usize = 8;
const SPAN: Millis = 30_000;

/// The reports so far.
pub(super) struct Twins {
    clock: Clock,
    reports: Vec<Millis>,
}

impl Twins {
    /// For a process that starts now.
    pub(super) fn new(clock: Clock) -> Self {
        Twins { clock, reports: Vec::new() }
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
        (now < YOUNG || self.reports.len() > BORNE).then_some(NodeError::Twin { how })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::MemberId;

    #[test]
    fn the_younger_goes_and_the_elder_only_if_it_does_not_end() {
        let twin = Twin::ReportedBy(MemberId([1; 16]));
        let mut young = Twins::new(Clock::start());
        assert!(young.met_at(5, Twin::Mirror).is_none());
        assert!(matches!(young.met_at(5, twin), Some(NodeError::Twin { .. })));

        let mut old = Twins::new(Clock::start());
        for report in 0..BORNE as u64 {
            assert!(old.met_at(YOUNG + report, twin).is_none());
        }
        assert!(old.met_at(YOUNG + SPAN + 1, twin).is_none(), "the earlier ones are forgotten");
        for report in 2..=BORNE as u64 {
            assert!(old.met_at(YOUNG + SPAN + report, twin).is_none());
        }
        assert!(old.met_at(YOUNG + SPAN + 100, twin).is_some());
    }
}
