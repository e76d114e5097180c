//! Leases: when an owner was heard last, on this voter's own clock.

use super::super::machine::{State, Step};
use super::super::operation::Requester;
use super::super::store::StoreError;
use super::{At, Heard};
use crate::core::identity::PublicKey;
use crate::core::object::NamespaceId;
use crate::core::tenure::{Renewal, Tenure};
use crate::core::verified::{Held, Verified};
use crate::engine::Millis;
use crate::wire::ownership::Renewed;

impl State {
    /// How long the lease of the tenure in `held` still runs here; 0 without an owner.
    pub(super) fn lease_left(&self, at: &At, held: &Held) -> Millis {
        if !self.is_resource(at.namespace) {
            return 0;
        }
        let Some(tenure) = held.state.current() else { return 0 };
        let Ok(Tenure { key: Some(_), lease_ms, .. }) = Tenure::decode(&held.value) else { return 0 };
        let heard = self.registers.heard.get(&at.object).filter(|heard| heard.tenure == tenure);
        let at = heard.map_or(self.registers.started, |heard| heard.at);
        (at + Millis::from(lease_ms)).saturating_sub(self.now)
    }

    /// An owner says that it is alive. Nothing is written: a restart counts as hearing.
    pub(in crate::engine) fn renew(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        renewal: Verified<(Renewal, PublicKey)>,
    ) -> Result<(), StoreError> {
        let (renewal, key) = renewal.into_inner();
        let answer = self.heard(step, &renewal, key)?;
        self.reply(step, requester, answer);
        Ok(())
    }

    fn heard(
        &mut self,
        step: &mut Step<'_>,
        renewal: &Renewal,
        key: PublicKey,
    ) -> Result<Renewed, StoreError> {
        let at = At::new(NamespaceId::resources(self.config.cluster()), renewal.resource.clone());
        if !self.is_acceptor(&at) {
            return Ok(Renewed::Stalled);
        }
        let Some((row, held)) = self.whole(step, &at)? else { return Ok(Renewed::Stalled) };
        let Some((ballot, _)) =
            row.accepted.as_ref().filter(|_| held.state.current() == Some(renewal.tenure))
        else {
            return Ok(Renewed::OtherTenure);
        };
        let Ok(Tenure { key: Some(owner), lease_ms, .. }) = Tenure::decode(&held.value) else {
            return Ok(Renewed::OtherTenure);
        };
        if owner != key {
            return Ok(Renewed::OtherTenure);
        }
        // A disk that hangs must not keep an owner alive that could not be replaced here (attack 10).
        if self.unsynced_since().is_some_and(|since| self.now - since > Millis::from(lease_ms) / 2) {
            return Ok(Renewed::Stalled);
        }
        if let Some(takeover) = row.takeover.filter(|takeover| takeover > ballot) {
            return Ok(Renewed::TakeoverPromised { ballot: takeover });
        }
        let before = self.registers.heard.get(&at.object).filter(|heard| heard.tenure == renewal.tenure);
        if before.is_some_and(|before| before.sequence >= renewal.sequence) {
            return Ok(Renewed::Repeated);
        }
        let heard = Heard { tenure: renewal.tenure, at: self.now, sequence: renewal.sequence };
        self.registers.heard.insert(at.object, heard);
        Ok(Renewed::Heard { ballot: *ballot })
    }
}
