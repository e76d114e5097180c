//! Links: one connection per peer, made again whenever it breaks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::link::{self, Greeted, Hello, Link, Streams};
use super::peer::{DownReason, LinkEvent, LinkOptions, Peer, Twin, Whoami};
use super::queue::Queue;
use super::{Code, Connection, ConnectionError, Endpoint, lock};
use crate::core::identity::{MemberId, PublicKey};
use crate::wire::frame::Frame;

/// A link that breaks sooner than this does not shorten the wait before the next dial.
const SETTLED: Duration = Duration::from_secs(1);

/// The links of this process to its peers. Clones are handles of the same links; with the last one all
/// links close.
#[derive(Clone)]
pub struct Links(Arc<Owner>);

struct Owner(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    own: Whoami,
    options: LinkOptions,
    events: mpsc::Sender<LinkEvent>,
    peers: Mutex<BTreeMap<MemberId, Arc<Slot>>>,
    next_id: AtomicU64,
}

/// What is known of one peer.
struct Slot {
    member: MemberId,
    key: PublicKey,
    addresses: Mutex<Vec<SocketAddr>>,
    queue: Arc<Queue>,
    /// The link in use. Events about the peer's state are sent under this lock, so that they come in order.
    current: AsyncMutex<Option<Arc<Link>>>,
    /// The common protocol level while the link is up.
    up: watch::Sender<Option<u32>>,
    removed: watch::Sender<bool>,
}

impl Links {
    /// Links out of `endpoint`, at first to nobody, and the events they report. The receiver must be drained:
    /// while it is full, peers wait.
    pub fn new(endpoint: Endpoint, own: Whoami, options: LinkOptions) -> (Self, mpsc::Receiver<LinkEvent>) {
        let (events, reported) = mpsc::channel(options.events.max(1));
        let peers = Mutex::default();
        let inner = Inner { endpoint, own, options, events, peers, next_id: AtomicU64::new(0) };
        (Links(Arc::new(Owner(Arc::new(inner)))), reported)
    }

    /// Replaces the peer table: links to peers that are gone, or have another key, close; new peers are dialled.
    /// This member's own entry is passed over. Must be called within a tokio runtime.
    pub fn update(&self, peers: Vec<Peer>) {
        let inner = &self.0.0;
        let mut slots = lock(&inner.peers);
        let mut kept = BTreeMap::new();
        for peer in peers.into_iter().filter(|peer| peer.member != inner.own.member) {
            let slot = match slots.remove(&peer.member) {
                Some(slot) if slot.key == peer.key => {
                    *lock(&slot.addresses) = peer.addresses;
                    slot
                }
                other => {
                    if let Some(old) = &other {
                        old.removed.send_replace(true);
                    }
                    let slot = Arc::new(Slot::new(peer, inner.options.queue_len));
                    tokio::spawn(keep_linked(inner.clone(), slot.clone(), other));
                    slot
                }
            };
            kept.insert(slot.member, slot);
        }
        for gone in std::mem::replace(&mut *slots, kept).into_values() {
            gone.removed.send_replace(true);
        }
    }

    /// Takes a connection that the endpoint accepted from a member. Must be called within a tokio runtime.
    pub fn adopt(&self, connection: Connection) {
        let inner = self.0.0.clone();
        tokio::spawn(async move { inner.establish(connection).await });
    }

    /// Queues `frame` for `member`. False, and the frame is dropped and counted, if the link is not up, too much
    /// waits already, or the frame is larger than any receiver takes.
    pub fn send(&self, member: MemberId, frame: Frame) -> bool {
        let slot = lock(&self.0.0.peers).get(&member).cloned();
        slot.is_some_and(|slot| slot.queue.push(frame))
    }

    /// The protocol level shared with `member`, while its link is up.
    pub fn level(&self, member: MemberId) -> Option<u32> {
        lock(&self.0.0.peers).get(&member).and_then(|slot| *slot.up.borrow())
    }

    /// Frames for `member` that were dropped since it came into the peer table.
    pub fn dropped(&self, member: MemberId) -> u64 {
        lock(&self.0.0.peers).get(&member).map_or(0, |slot| slot.queue.dropped())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for slot in lock(&self.0.peers).values() {
            slot.removed.send_replace(true);
        }
    }
}

impl Slot {
    fn new(peer: Peer, queue_len: usize) -> Self {
        Slot {
            member: peer.member,
            key: peer.key,
            addresses: Mutex::new(peer.addresses),
            queue: Queue::new(queue_len),
            current: AsyncMutex::new(None),
            up: watch::Sender::new(None),
            removed: watch::Sender::new(false),
        }
    }
}

impl Inner {
    async fn emit(&self, event: LinkEvent) {
        let _ = self.events.send(event).await;
    }

    /// Makes a link of a connection, whoever dialled it. False if that came to nothing.
    async fn establish(self: &Arc<Self>, connection: Connection) -> bool {
        let greeted = link::greet(&connection, &self.own, self.options.patience).await;
        if connection.peer_key() == self.endpoint.key() {
            let mirror = greeted.is_ok_and(|greeted| greeted.hello.process == self.own.process);
            connection.close(Code::OTHER_PROCESS, "both ends of this connection hold the same key");
            self.emit(LinkEvent::Twin(if mirror { Twin::Mirror } else { Twin::Met })).await;
            return false;
        }
        let key = connection.peer_key();
        let slot = lock(&self.peers).values().find(|slot| slot.key == key).cloned();
        let Greeted { hello, streams } = match greeted {
            Ok(greeted) => greeted,
            Err(error) => {
                tracing::debug!(%key, %error, "no link came of a connection");
                return false;
            }
        };
        match slot {
            Some(slot) if slot.member == hello.member => self.install(slot, connection, hello, streams).await,
            Some(slot) => {
                let reason = format!("this key speaks for member {}, not for {}", slot.member, hello.member);
                tracing::warn!(%key, reason, "a link was refused");
                connection.close(Code::WRONG_MEMBER, &reason);
                false
            }
            None => {
                // Normal for a moment while a change of the configuration spreads.
                connection
                    .close(Code::WRONG_MEMBER, "this key speaks for no peer known here; try again later");
                false
            }
        }
    }

    /// Puts a greeted connection in its peer's slot, or retires whichever of two connections has to give way.
    async fn install(
        self: &Arc<Self>,
        slot: Arc<Slot>,
        connection: Connection,
        hello: Hello,
        streams: Streams,
    ) -> bool {
        let dialled_by = if connection.is_dialled() { self.own.member } else { slot.member };
        let link = Arc::new(Link {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            connection,
            process: hello.process,
            dialled_by,
            level: hello.level.min(self.own.level),
            retired: watch::Sender::new(false),
            ended: watch::Sender::new(false),
        });
        let mut current = slot.current.lock().await;
        if *slot.removed.borrow() {
            link.connection.close(Code::CHANGED, "no longer a peer");
            return false;
        }
        match current.take() {
            None => self.raise(&slot, &link, &mut current).await,
            Some(old) if old.process != link.process || old.connection.close_reason().is_some() => {
                // If the old process still runs, these words tell it of its twin.
                old.connection
                    .close(Code::OTHER_PROCESS, "another process has connected with this member's key");
                let _ = old.ended.subscribe().wait_for(|ended| *ended).await;
                let reason = match old.connection.close_reason() {
                    Some(error) if old.process == link.process => DownReason::Lost(error),
                    _ => DownReason::Restarted,
                };
                self.lower(&slot, reason).await;
                self.raise(&slot, &link, &mut current).await;
            }
            // A second one from the same dialler: it has given the first one up. Of two dialled at once,
            // the lower member's stays; both ends know who dialled, so they decide alike.
            Some(old) if link.dialled_by <= old.dialled_by => {
                slot.up.send_replace(Some(link.level));
                *current = Some(link.clone());
                old.retired.send_replace(true);
            }
            Some(old) => {
                *current = Some(old);
                link.retired.send_replace(true);
            }
        }
        drop(current);
        tokio::spawn(run(self.clone(), slot, link, streams));
        true
    }

    async fn raise(&self, slot: &Slot, link: &Arc<Link>, current: &mut Option<Arc<Link>>) {
        *current = Some(link.clone());
        slot.queue.open();
        slot.up.send_replace(Some(link.level));
        self.emit(LinkEvent::Up(slot.member)).await;
    }

    async fn lower(&self, slot: &Slot, reason: DownReason) {
        slot.queue.close();
        slot.up.send_replace(None);
        self.emit(LinkEvent::Down(slot.member, reason)).await;
    }
}

/// Serves one link to its end.
async fn run(inner: Arc<Inner>, slot: Arc<Slot>, link: Arc<Link>, streams: Streams) {
    let error = link::drive(&link, streams, slot.queue.clone(), slot.member, inner.events.clone()).await;
    link.ended.send_replace(true);
    let mut current = slot.current.lock().await;
    if current.as_ref().is_some_and(|current| current.id == link.id) {
        *current = None;
        inner.lower(&slot, DownReason::Lost(error.clone())).await;
    }
    drop(current);
    if let ConnectionError::Closed { code: Code::OTHER_PROCESS, .. } = error {
        inner.emit(LinkEvent::Twin(Twin::ReportedBy(slot.member))).await;
    }
}

/// Dials a peer whenever there is no link to it, until it is removed.
async fn keep_linked(inner: Arc<Inner>, slot: Arc<Slot>, replaced: Option<Arc<Slot>>) {
    if let Some(old) = replaced {
        // Under the old key the member goes down before it comes up under the new one.
        let _no_link_yet = slot.current.lock().await;
        let _ = old.up.subscribe().wait_for(Option::is_none).await;
        drop(old.current.lock().await);
    }
    let mut removed = slot.removed.subscribe();
    tokio::select! {
        biased;
        _ = removed.wait_for(|removed| *removed) => {}
        () = dial_for_ever(&inner, &slot) => {}
    }
    if let Some(link) = slot.current.lock().await.as_ref() {
        link.connection.close(Code::CHANGED, "no longer a peer");
    }
}

async fn dial_for_ever(inner: &Arc<Inner>, slot: &Arc<Slot>) {
    // The jitter adds as much again at most, so the longest pause is one second.
    let backoff = ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(25))
        .with_max_delay(Duration::from_millis(500))
        .without_max_times()
        .with_jitter();
    let mut delays = backoff.build();
    let mut up = slot.up.subscribe();
    // The higher member gives the lower one's dial a head start, as that one would win anyway.
    let mut wait = inner.own.member > slot.member;
    loop {
        if std::mem::replace(&mut wait, true) {
            // The builder has no last time and no total, so it never runs out.
            sleep(delays.next().unwrap_or(SETTLED)).await;
        }
        if !slot_is_up(slot) {
            dial_once(inner, slot).await;
        }
        if slot_is_up(slot) {
            let since = Instant::now();
            let _ = up.wait_for(Option::is_none).await;
            if since.elapsed() >= SETTLED {
                delays = backoff.build();
            }
        }
    }
}

fn slot_is_up(slot: &Slot) -> bool {
    slot.up.borrow().is_some()
}

/// Tries each address until one leads to a link.
async fn dial_once(inner: &Arc<Inner>, slot: &Slot) {
    let addresses = lock(&slot.addresses).clone();
    for addr in addresses {
        match inner.endpoint.dial_link(addr, slot.key, inner.options.timing).await {
            Ok(connection) => {
                // A task of its own, as half an installation must not be cancelled when the peer is removed.
                let inner = inner.clone();
                let established = tokio::spawn(async move { inner.establish(connection).await });
                if established.await.unwrap_or(false) || slot_is_up(slot) {
                    return;
                }
            }
            Err(error) => tracing::debug!(member = %slot.member, %error, "a peer was not reached"),
        }
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
