//! Connections to members: dialled when needed, with the expected key, and again with growing pauses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::attempt::{Heard, Pace};
use crate::core::identity::{MemberId, PublicKey};
use crate::transport::{Connection, ConnectionError, Endpoint};
use crate::wire::client::Failure;
use crate::wire::frame::Frame;

/// How long a node that let others answer first is not preferred.
const SUSPICION: Duration = Duration::from_secs(2);

/// The longest pause before the next replica is asked too.
const HEDGE_MAX_MS: u64 = 1_000;

/// The members that the ticket has addresses of.
pub(super) struct Peers {
    endpoint: Endpoint,
    slots: BTreeMap<MemberId, Arc<Slot>>,
    /// How long an answer takes lately, in eighths of a millisecond.
    usual: AtomicU64,
}

struct Slot {
    addresses: Vec<SocketAddr>,
    link: Mutex<Option<Link>>,
    suspected_until: Mutex<Option<Instant>>,
    dialling: AsyncMutex<Dialling>,
}

/// A connection, and whether it has ever brought an answer.
#[derive(Clone)]
pub(super) struct Link {
    connection: Connection,
    admitted: Arc<AtomicBool>,
}

struct Dialling {
    pauses: ExponentialBackoff,
    not_before: Option<Instant>,
    why: String,
}

impl Peers {
    pub(super) fn new(endpoint: Endpoint, addresses: &BTreeMap<MemberId, Vec<SocketAddr>>) -> Self {
        let slot = |addresses: &Vec<SocketAddr>| {
            Arc::new(Slot {
                addresses: addresses.clone(),
                link: Mutex::new(None),
                suspected_until: Mutex::new(None),
                dialling: AsyncMutex::new(Dialling {
                    pauses: pauses(),
                    not_before: None,
                    why: String::new(),
                }),
            })
        };
        let slots = addresses.iter().map(|(member, at)| (*member, slot(at))).collect();
        Peers { endpoint, slots, usual: AtomicU64::new(0) }
    }

    /// Notes how long the replica that was asked first took to answer.
    pub(super) fn answered_in(&self, took_ms: u64) {
        // A smoothed mean as TCP keeps of its round trips; a lost update does no harm.
        let usual = self.usual.load(Ordering::Relaxed);
        self.usual.store(usual - usual / 8 + took_ms, Ordering::Relaxed);
    }

    /// After how long without an answer the next replica is asked too: the usual pause, unless answers
    /// take long. Then asking twice would only make them take longer.
    pub(super) fn hedge_ms(&self) -> u64 {
        let usual_ms = self.usual.load(Ordering::Relaxed) / 8;
        (4 * usual_ms).clamp(Pace::default().hedge_ms, HEDGE_MAX_MS)
    }

    /// The open connection to `member`, if there is one and it holds `key`.
    pub(super) fn ready(&self, member: MemberId, key: PublicKey) -> Option<Link> {
        self.slots.get(&member)?.ready(key)
    }

    /// A connection to `member`, dialled if there is none. It goes on in the background if nobody waits
    /// any more: the next request will want it.
    pub(super) async fn connect(&self, member: MemberId, key: PublicKey) -> Result<Link, String> {
        let Some(slot) = self.slots.get(&member).cloned() else {
            return Err(format!("the ticket has no address of member {member}"));
        };
        let endpoint = self.endpoint.clone();
        let dial = tokio::spawn(async move { slot.connect(&endpoint, key).await });
        dial.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// `members` with those last that recently let others answer first.
    pub(super) fn ordered(&self, mut members: Vec<MemberId>) -> Vec<MemberId> {
        let now = Instant::now();
        members.sort_by_key(|member| {
            let until = self.slots.get(member).and_then(|slot| *lock(&slot.suspected_until));
            until.is_some_and(|until| now < until)
        });
        members
    }

    /// `member` has not answered in time: for a while it is asked last.
    pub(super) fn suspect(&self, member: MemberId) {
        if let Some(slot) = self.slots.get(&member) {
            *lock(&slot.suspected_until) = Some(Instant::now() + SUSPICION);
        }
    }

    /// `member` has answered.
    pub(super) fn trust(&self, member: MemberId) {
        if let Some(slot) = self.slots.get(&member) {
            *lock(&slot.suspected_until) = None;
        }
    }
}

impl Slot {
    fn ready(&self, key: PublicKey) -> Option<Link> {
        let mut link = lock(&self.link);
        let usable = link.as_ref().is_some_and(|link| {
            link.connection.peer_key() == key && link.connection.close_reason().is_none()
        });
        if !usable {
            *link = None;
        }
        link.clone()
    }

    async fn connect(&self, endpoint: &Endpoint, key: PublicKey) -> Result<Link, String> {
        let mut dialling = self.dialling.lock().await;
        if let Some(link) = self.ready(key) {
            return Ok(link);
        }
        if dialling.not_before.is_some_and(|at| Instant::now() < at) {
            return Err(dialling.why.clone());
        }
        let mut why = "no address".to_owned();
        for address in &self.addresses {
            match endpoint.dial(*address, key).await {
                Ok(connection) => {
                    let link = Link { connection, admitted: Arc::new(AtomicBool::new(false)) };
                    *lock(&self.link) = Some(link.clone());
                    *dialling = Dialling { pauses: pauses(), not_before: None, why: String::new() };
                    return Ok(link);
                }
                Err(error) => why = error.to_string(),
            }
        }
        dialling.not_before = dialling.pauses.next().map(|pause| Instant::now() + pause);
        dialling.why.clone_from(&why);
        Err(why)
    }
}

impl Link {
    /// Asks, and says what came of it.
    pub(super) async fn ask(self, frame: Frame) -> Result<Frame, Heard> {
        match self.connection.request(frame).await {
            Ok(frame) => {
                self.admitted.store(true, Ordering::Relaxed);
                Ok(frame)
            }
            // Before the first answer these mean that nothing was looked at.
            Err(ConnectionError::Denied { reason }) if !self.admitted.load(Ordering::Relaxed) => {
                Err(Heard::Reply(Box::new(Failure::Denied(reason).into())))
            }
            Err(ConnectionError::Busy { reason }) if !self.admitted.load(Ordering::Relaxed) => {
                Err(Heard::Unreached(reason))
            }
            Err(error) => Err(Heard::Lost(error.to_string())),
        }
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(Duration::from_secs(2))
        .with_jitter()
        .without_max_times()
        .build()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
