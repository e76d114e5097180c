//! Clients that read and write, and write down what they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tanist::client::{
    CampaignError, Client, FenceKey, Head, Lease, Pending, Prepared, ReadError, Space, Tenure, WriteError,
    Written,
};
use tanist::core::write::WriteId;
use tanist::history::record::Call;
use tokio::sync::watch;
use tokio::time::sleep;

use super::recorder::Recorder;
use crate::support::{now, since};

/// Keys of each kind.
pub(super) const KEYS: u64 = 5;
/// The register that only owners write to.
pub(super) const LEDGER: &str = "ledger";
const RESOURCE: &str = "billing";
const LEASE: Duration = Duration::from_millis(1_500);
/// How long somebody waits who was told no.
const PAUSE: Duration = Duration::from_millis(10);

/// One client.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) space: Space,
    pub(super) recorder: Arc<Recorder>,
    pub(super) stop: watch::Receiver<bool>,
}

/// The name of a version in a history.
fn name(id: WriteId) -> String {
    // Enough to tell apart, short enough to read.
    data_encoding::HEXLOWER.encode(&id.0[..8])
}

pub(super) fn names(ids: impl IntoIterator<Item = WriteId>) -> Vec<String> {
    ids.into_iter().map(name).collect()
}

impl Worker {
    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Reads and writes until it is told to stop.
    pub(super) async fn work(self, seed: u64) {
        let mut dice = seed;
        while !self.stopped() {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = format!("key-{}", (dice >> 33) % KEYS);
            let value = format!("{} {dice}", self.name);
            match (dice >> 40) % 12 {
                0 => self.write(self.space.create(&key, value).or_sibling(), None).await,
                what => {
                    let Some(reading) = self.read(&key).await else {
                        sleep(PAUSE).await;
                        continue;
                    };
                    match what {
                        1..4 => {}
                        4 => self.write(self.space.delete(&reading).or_sibling(), None).await,
                        5 => self.write(self.space.replace(&reading, value), None).await,
                        _ => self.write(self.space.replace(&reading, value).or_sibling(), None).await,
                    }
                }
            }
        }
    }

    /// Reads a key.
    pub(super) async fn read(&self, key: &str) -> Option<tanist::client::Reading> {
        let call = if self.space.is_linearizable() {
            Call::Get { register: key.to_owned(), term: None }
        } else {
            Call::Read { siblings: key.to_owned() }
        };
        let op = self.recorder.invoke(&self.name, call);
        match self.space.get(key).await {
            Ok(reading) => {
                self.recorder.ok(op, Some(names(reading.versions().ids())));
                Some(reading)
            }
            Err(_) => {
                self.recorder.fail(op, None);
                None
            }
        }
    }

    fn call(&self, prepared: &Prepared, term: Option<u64>) -> Call {
        let write = prepared.signed().write();
        let key = String::from_utf8_lossy(prepared.key().as_bytes()).into_owned();
        let to = Some(name(prepared.id()));
        if self.space.is_linearizable() {
            Call::Swap { register: key, from: write.parents.first().copied().map(name), to, term }
        } else {
            Call::Put { siblings: key, names: names(write.parents.iter().copied()), to }
        }
    }

    /// Carries out a write.
    async fn write(&self, pending: Pending<'_>, term: Option<u64>) {
        // A write that was refused may be followed by another one.
        let open: Mutex<Option<u64>> = Mutex::new(None);
        let hook = |prepared: &Prepared| {
            let mut open = open.lock().unwrap();
            if let Some(refused) = open.take() {
                self.recorder.fail(refused, None);
            }
            *open = Some(self.recorder.invoke(&self.name, self.call(prepared, term)));
            Ok(())
        };
        let mut verdict = pending.before_send(hook).await;
        let Some(op) = open.into_inner().unwrap() else { return };
        if self.space.is_linearizable()
            && let Err(WriteError::Unknown(unknown)) = &verdict
        {
            verdict = unknown.settle().await;
        }
        match verdict {
            Ok(Written::Applied { siblings, .. }) => self.recorder.ok(op, Some(names(siblings))),
            Ok(Written::Refused { current, .. }) => {
                self.recorder.fail(op, current.map(|heads| names(heads.iter().map(Head::id))));
                sleep(PAUSE / 4).await;
            }
            Err(WriteError::Unknown(_) | WriteError::Forgotten) => self.recorder.unknown(op),
            Err(_) => {
                self.recorder.fail(op, None);
                sleep(PAUSE).await;
            }
        }
    }

    /// Campaigns, acts as the owner for a while, and again; now and then acts as if it still were the owner.
    pub(super) async fn own(self, client: Client, number: usize) {
        let resource = client.resource(RESOURCE).unwrap();
        let lease = Lease::try_from(LEASE).unwrap();
        let mut old: Option<FenceKey> = None;
        for turn in 0.. {
            if self.stopped() {
                return;
            }
            if let Some(fence) = &old {
                self.write_as(fence).await;
            }
            let op = self.recorder.invoke(&self.name, Call::Campaign { resource: RESOURCE.to_owned() });
            match resource.campaign_for(lease, 2 * LEASE).await {
                Ok(tenure) => {
                    let id = tenure.fence().proof().signed.id();
                    self.recorder.won(op, tenure.term().number, name(id));
                    old = Some(tenure.fence().clone());
                    self.hold(tenure, turn + number).await;
                }
                Err(CampaignError::Owned { .. }) => self.recorder.fail(op, None),
                Err(CampaignError::Unavailable(_) | CampaignError::Unknown(_)) => self.recorder.unknown(op),
                Err(CampaignError::Read(ReadError::Unavailable(_) | ReadError::Node(_))) => {
                    self.recorder.unknown(op);
                    sleep(PAUSE).await;
                }
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
    }

    async fn hold(&self, tenure: Tenure, turn: usize) {
        let leave = Duration::from_millis([700, 1_500, 4_000][turn % 3]);
        let begun = now();
        let mut held: Option<(u64, u64)> = None;
        let mut sealed = false;
        while !self.stopped() && since(begun) < leave {
            let asked = self.recorder.time();
            if !tenure.is_owner() {
                break;
            }
            let (from, _) = *held.get_or_insert((self.recorder.time(), asked));
            held = Some((from, asked.max(from)));
            if !sealed {
                sealed = self.seal(&tenure).await;
            }
            self.write_as(tenure.fence()).await;
            sleep(PAUSE).await;
        }
        if let Some((from, until)) = held {
            let call = Call::Hold { resource: RESOURCE.to_owned(), term: tenure.term().number };
            let op = self.recorder.invoke_at(from, &self.name, call);
            self.recorder.ended_at(op, until);
        }
        if turn.is_multiple_of(2) {
            // Whatever comes of it, the tenure is over.
            let _ = tenure.resign().await;
        }
    }

    /// Reads the ledger under the tenure.
    async fn seal(&self, tenure: &Tenure) -> bool {
        let term = Some(tenure.term().number);
        let op = self.recorder.invoke(&self.name, Call::Get { register: LEDGER.to_owned(), term });
        match self.space.get(LEDGER).fenced_by(tenure).await {
            Ok(reading) => {
                self.recorder.ok(op, Some(names(reading.versions().ids())));
                true
            }
            // Some acceptors may have taken the seal.
            Err(_) => {
                self.recorder.unknown(op);
                false
            }
        }
    }

    async fn write_as(&self, fence: &FenceKey) {
        let pending = self.space.overwrite(LEDGER, fence.term().to_string()).fenced_by(fence);
        self.write(pending, Some(fence.term().number)).await;
    }
}
