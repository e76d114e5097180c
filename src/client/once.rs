//! Effects that cannot be fenced: done once, or in doubt, and remembered.
//!
//! An e-mail cannot be refused after it was sent. What can be had is this: a ledger says before the effect
//! that it is about to happen, and after it that it did. Whoever comes later finds one of three answers: it
//! is done; nobody began, so it is yours; or somebody began and nobody knows whether it happened. Nobody
//! does it twice by accident; who was in doubt decides.
//!
//! The ledger is a register, bound to a resource of its own: its owner alone writes it, so two runs are
//! never under way at once, and a run that was given up for dead can no longer say that it is done.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::ambient;
use super::error::{CampaignError, ReadError, WriteError};
use super::linearizable::Linearizable;
use super::resource::{Lease, Resource};
use super::tenure::Tenure;
use super::version::Basis;
use super::write::Written;
use crate::core::codec;
use crate::core::identity::PublicKey;
use crate::core::limits;
use crate::core::object::{InvalidKey, Key, ObjectId};
use crate::core::write::Term;

/// What a ledger's register holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u8,
    /// Which run; also what the effect can be marked with.
    run: [u8; 16],
    by: PublicKey,
    term: Term,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    /// The effect is about to happen.
    Begun,
    /// It happened, with this result.
    Done(Vec<u8>),
    /// It certainly did not happen.
    Failed,
}

const RECORD_FORMAT: u8 = 1;
/// The longest lease that a run needs by default.
const LEASE: Duration = Duration::from_secs(60);

/// What is known of an effect.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "an answer is looked at once")]
pub enum Once {
    /// Nobody did it: do it now, then say so.
    Mine(Run),
    /// It was done, with this result.
    Done(Bytes),
    /// A run began and never said that it ended: perhaps it was done. Find out, then say which with
    /// [`OnceKey::decide_done`] or [`OnceKey::decide_again`].
    InDoubt {
        /// Whose run it was.
        by: PublicKey,
        /// Under which term.
        term: Term,
        /// Its id, with which the effect may have been marked.
        run: String,
    },
}

/// An effect cannot be begun or ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OnceError {
    /// Another run is under way. Nothing was begun.
    #[error("another run is under way: {0}")]
    Busy(CampaignError),
    /// The register holds something that is no record of a run. Nothing was begun.
    #[error("the key holds something else than the ledger of an effect")]
    NotALedger,
    /// The ownership was lost before anything was begun or decided. Nothing changed; safe to retry.
    #[error("the ownership was lost before anything was begun")]
    Lost,
    /// The run was given up for dead before it ended: what it did is in doubt.
    #[error("the run was given up for dead, so what it did is in doubt")]
    Over,
    /// The effect was done already, with this result: there is nothing to decide. Nothing changed.
    #[error("it was done already, with a result of {} bytes", .0.len())]
    Decided(Bytes),
    /// The result is longer than [`Run::RESULT_LEN`], so nothing was remembered. A run that ends so is in
    /// doubt, until [`OnceKey::decide_done`] is told a shorter one.
    #[error("a result of {len} bytes is not remembered: it has at most {most}", most = Run::RESULT_LEN)]
    ResultLen {
        /// How long it is.
        len: usize,
    },
    /// The ledger could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ledger could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The ledger of one effect.
#[derive(Debug, Clone)]
#[must_use = "nothing is begun before `begin`"]
pub struct OnceKey {
    space: Linearizable,
    key: Key,
    lease: Lease,
    wait: Duration,
}

/// A run that is under way. Dropped without a word it leaves the effect in doubt.
#[must_use = "a run that says nothing leaves the effect in doubt"]
pub struct Run {
    ledger: OnceKey,
    tenure: Tenure,
    record: Record,
    basis: Basis,
}

impl Linearizable {
    /// The ledger of the effect that `key` stands for: one key, one effect.
    pub fn once(&self, key: impl AsRef<[u8]>) -> Result<OnceKey, InvalidKey> {
        let key = Key::try_from(key.as_ref().to_vec())?;
        let lease = Lease::try_from(LEASE).unwrap_or_default();
        Ok(OnceKey { space: self.clone(), key, lease, wait: LEASE })
    }
}

impl OnceKey {
    /// How long a run is waited for after it was last heard; 60 seconds by default.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// How long to wait for another run that is under way; 60 seconds by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What is known of the effect. If nobody began it, it is begun: durably, before this returns.
    pub async fn begin(self) -> Result<Once, OnceError> {
        // Most of those who ask come after it was done.
        let reading = self.space.get(self.key.as_bytes()).await?;
        if let Some(Record { state: State::Done(result), .. }) = record(reading.value().ok().flatten())? {
            return Ok(Once::Done(result.into()));
        }
        let tenure = self.campaign().await?;
        // Sealed: whoever held an earlier term writes here no more.
        let reading = self.space.get(self.key.as_bytes()).fenced_by(&tenure).await?;
        let known = match record(reading.value().ok().flatten())? {
            None | Some(Record { state: State::Failed, .. }) => {
                let run = self.record(tenure, reading.basis(), ambient::random(), State::Begun).await?;
                if run.tenure.is_owner() {
                    return Ok(Once::Mine(run));
                }
                // Others hold the run for dead already, and nothing was done: say so while it can be said.
                run.failed().await?;
                return Err(OnceError::Lost);
            }
            Some(Record { state: State::Done(result), .. }) => Once::Done(result.into()),
            Some(Record { state: State::Begun, by, term, run, .. }) => {
                Once::InDoubt { by, term, run: HEXLOWER.encode(&run) }
            }
        };
        // Its lease would run out, too.
        let _ = tenure.resign().await;
        Ok(known)
    }

    /// Decides about an effect in doubt: it was done, with this result. If it was done already with another
    /// one, that stands: [`OnceError::Decided`].
    pub async fn decide_done(self, result: impl Into<Bytes>) -> Result<(), OnceError> {
        self.decide(done(result)?).await
    }

    /// Decides about an effect in doubt: it was not done, so that it may be begun again. If it was done,
    /// that stands: [`OnceError::Decided`].
    pub async fn decide_again(self) -> Result<(), OnceError> {
        self.decide(State::Failed).await
    }

    async fn decide(self, state: State) -> Result<(), OnceError> {
        let tenure = self.campaign().await?;
        let reading = self.space.get(self.key.as_bytes()).fenced_by(&tenure).await?;
        let known = record(reading.value().ok().flatten())?;
        let stands = known.as_ref().map_or(&State::Failed, |known| &known.state);
        let (tenure, decided) = match (stands, &state) {
            (stands, state) if stands == state => (tenure, Ok(())),
            (State::Done(result), _) => {
                let result = Bytes::from(result.clone());
                (tenure, Err(OnceError::Decided(result)))
            }
            _ => {
                // It is the run in doubt that is decided about: its id stays.
                let run = known.map_or_else(ambient::random, |known| known.run);
                (self.record(tenure, reading.basis(), run, state).await?.tenure, Ok(()))
            }
        };
        // Its lease would run out, too.
        let _ = tenure.resign().await;
        decided
    }

    async fn campaign(&self) -> Result<Tenure, OnceError> {
        match self.resource().campaign_for(self.lease, self.wait).await {
            Ok(tenure) => Ok(tenure),
            Err(CampaignError::Read(error)) => Err(error.into()),
            Err(CampaignError::Unavailable(why) | CampaignError::Unknown(why)) => {
                Err(ReadError::Unavailable(why).into())
            }
            Err(owned @ CampaignError::Owned { .. }) => Err(OnceError::Busy(owned)),
        }
    }

    /// What the run has to own.
    fn resource(&self) -> Resource {
        let object = ObjectId::new(self.space.id(), &self.key);
        let name = [b"once/", HEXLOWER.encode(&object.0).as_bytes()].concat();
        let name = Key::try_from(name).unwrap_or_else(|_| self.key.clone());
        Resource { client: self.space.client().clone(), name }
    }

    /// Writes down under `tenure` how it stands with `run`.
    async fn record(
        self,
        tenure: Tenure,
        basis: Basis,
        run: [u8; 16],
        state: State,
    ) -> Result<Run, OnceError> {
        let by = self.space.client().identity().public();
        let record = Record { format: RECORD_FORMAT, run, by, term: tenure.term(), state };
        match put(&self, &tenure, basis, &record).await {
            Ok(basis) => Ok(Run { ledger: self, tenure, record, basis }),
            // It was refused for good: somebody followed before there was anything to be in doubt about.
            Err(OnceError::Over) => Err(OnceError::Lost),
            Err(error) => Err(error),
        }
    }
}

impl Run {
    /// The longest result that can be remembered, in bytes: what a value leaves beside the record.
    pub const RESULT_LEN: usize = limits::VALUE_LEN - 128;

    /// The run's id, 32 hexadecimal digits: mark the effect with it, as the Message-ID of a mail, say, so
    /// that one who is in doubt can find out.
    pub fn id(&self) -> String {
        HEXLOWER.encode(&self.record.run)
    }

    /// The ownership that the run holds: when it is [lost](Tenure::lost), others hold the run for dead.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// The effect happened, with this result of at most [`RESULT_LEN`](Self::RESULT_LEN) bytes.
    pub async fn done(self, result: impl Into<Bytes>) -> Result<(), OnceError> {
        self.end(done(result)?).await
    }

    /// The effect certainly did not happen: it may be begun again.
    pub async fn failed(self) -> Result<(), OnceError> {
        self.end(State::Failed).await
    }

    /// Nobody knows whether the effect happened: it stays in doubt, and whoever asks next learns that at once.
    pub async fn leave(self) {
        if self.tenure.is_owner() {
            // Its lease would run out, too.
            let _ = self.tenure.resign().await;
        }
    }

    async fn end(self, state: State) -> Result<(), OnceError> {
        let Run { ledger, tenure, record, basis } = self;
        let record = Record { state, ..record };
        put(&ledger, &tenure, basis, &record).await?;
        let _ = tenure.resign().await;
        Ok(())
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id()).field("tenure", &self.tenure).finish_non_exhaustive()
    }
}

/// Puts a record in the place of what was read, whatever it takes to know that it is there.
async fn put(ledger: &OnceKey, tenure: &Tenure, basis: Basis, record: &Record) -> Result<Basis, OnceError> {
    let space = &ledger.space;
    let write = space.replace(basis, codec::encode(record)).fenced_by(tenure);
    let written = match write.await {
        Err(WriteError::Unknown(unknown)) => unknown.settle().await,
        written => written,
    };
    match written? {
        Written::Applied { version, .. } => Ok(Basis {
            namespace: Some(space.id()),
            key: Ok(ledger.key.clone()),
            versions: [version].into_iter().collect(),
        }),
        Written::Refused { .. } => Err(OnceError::Over),
    }
}

/// "It happened, with this result", if that can be remembered.
fn done(result: impl Into<Bytes>) -> Result<State, OnceError> {
    let result: Bytes = result.into();
    if result.len() <= Run::RESULT_LEN {
        Ok(State::Done(result.to_vec()))
    } else {
        Err(OnceError::ResultLen { len: result.len() })
    }
}

fn record(value: Option<&Bytes>) -> Result<Option<Record>, OnceError> {
    let Some(value) = value else { return Ok(None) };
    let record: Record = codec::decode(value).map_err(|_| OnceError::NotALedger)?;
    if record.format == RECORD_FORMAT { Ok(Some(record)) } else { Err(OnceError::NotALedger) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::identity::SecretKey;

    #[test]
    fn the_longest_result_fits_into_a_value() {
        let record = |len| Record {
            format: RECORD_FORMAT,
            run: [1; 16],
            by: SecretKey::from_seed(&[1; 32]).public(),
            term: Term { recovery: 0, number: u64::MAX },
            state: State::Done(vec![7; len]),
        };
        assert!(codec::encode(&record(Run::RESULT_LEN)).len() <= limits::VALUE_LEN);
        assert!(matches!(done(vec![0; Run::RESULT_LEN]), Ok(State::Done(_))));
        let too_long = done(vec![0; Run::RESULT_LEN + 1]);
        assert!(matches!(too_long, Err(OnceError::ResultLen { len }) if len == Run::RESULT_LEN + 1));
    }
}
