//! UDP relays inside the process: the wires between nodes, which can be cut.
//!
//! There is one for each directed link: a node that dials another is told the relay's address in its
//! place. What a relay does to packets is set from outside, the same for every packet from then on; what
//! chance decides is decided by a seed.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};

/// The largest UDP packet.
const PACKET: usize = 65_535;
/// Senders that a relay remembers: far more than nodes dial from.
const SENDERS: usize = 256;

/// What happens to packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing passes.
    pub cut: bool,
    /// So many of a thousand packets are lost.
    pub lost_per_mille: u16,
    /// Every packet is late by this.
    pub delay: Duration,
}

impl Faults {
    /// A wire that was cut.
    pub const CUT: Faults = Faults { cut: true, lost_per_mille: 0, delay: Duration::ZERO };
}

/// A wire from whoever dials it to one target, and back.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    there: Arc<Direction>,
    back: Arc<Direction>,
    task: AbortHandle,
}

/// One direction of a wire.
#[derive(Debug)]
pub struct Direction {
    name: String,
    faults: Mutex<Faults>,
    random: AtomicU64,
    passed: AtomicU64,
    lost: AtomicU64,
}

impl Relay {
    /// A relay to `target` at a port that the system chooses. `name` is for the log.
    ///
    /// Must be called within a tokio runtime.
    pub async fn start(name: &str, target: SocketAddr, seed: u64) -> io::Result<Self> {
        let front = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let address = front.local_addr()?;
        let there = Arc::new(Direction::new(format!("{name} >"), seed));
        let back = Arc::new(Direction::new(format!("{name} <"), !seed));
        let task = tokio::spawn(carry(front, target, there.clone(), back.clone())).abort_handle();
        Ok(Relay { address, there, back, task })
    }

    /// Where it takes packets for its target.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Packets towards the target.
    pub fn there(&self) -> &Direction {
        &self.there
    }

    /// Packets from the target: replies.
    pub fn back(&self) -> &Direction {
        &self.back
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Direction {
    fn new(name: String, seed: u64) -> Self {
        Direction {
            name,
            faults: Mutex::default(),
            random: AtomicU64::new(seed),
            passed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Has `faults` happen from now on.
    pub fn set(&self, faults: Faults) {
        tracing::debug!(wire = self.name, ?faults, "a wire changes");
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Packets that passed so far, and packets that were lost.
    pub fn counts(&self) -> (u64, u64) {
        (self.passed.load(Relaxed), self.lost.load(Relaxed))
    }

    /// How late the next packet is; `None` if it is lost.
    fn verdict(&self, len: usize) -> Option<Duration> {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let lost =
            faults.cut || faults.lost_per_mille > 0 && self.draw() % 1000 < u64::from(faults.lost_per_mille);
        tracing::trace!(wire = self.name, len, lost, "a packet");
        if lost { &self.lost } else { &self.passed }.fetch_add(1, Relaxed);
        (!lost).then_some(faults.delay)
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014): a sequence that the seed determines.
    fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.random.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Carries packets to `target` from one socket for each sender, so that answers find their way back.
async fn carry(front: Arc<UdpSocket>, target: SocketAddr, there: Arc<Direction>, back: Arc<Direction>) {
    let mut senders: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut answering = JoinSet::new();
    let mut packet = vec![0; PACKET];
    loop {
        // An error is an earlier packet that nobody wanted: whoever sent it finds out by itself.
        let Ok((len, from)) = front.recv_from(&mut packet).await else { continue };
        let upstream = match senders.get(&from) {
            Some(upstream) => upstream.clone(),
            None => {
                let Ok(upstream) = dial(target).await else { continue };
                let upstream = Arc::new(upstream);
                if senders.len() == SENDERS {
                    senders.clear();
                    answering.abort_all();
                }
                answering.spawn(answer(upstream.clone(), front.clone(), from, back.clone()));
                senders.insert(from, upstream.clone());
                upstream
            }
        };
        match there.verdict(len) {
            None => {}
            Some(Duration::ZERO) => drop(upstream.send(&packet[..len]).await),
            Some(delay) => {
                let packet = packet[..len].to_vec();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = upstream.send(&packet).await;
                });
            }
        }
    }
}

async fn answer(upstream: Arc<UdpSocket>, front: Arc<UdpSocket>, to: SocketAddr, back: Arc<Direction>) {
    let mut packet = vec![0; PACKET];
    loop {
        let Ok(len) = upstream.recv(&mut packet).await else { continue };
        match back.verdict(len) {
            None => {}
            Some(Duration::ZERO) => drop(front.send_to(&packet[..len], to).await),
            Some(delay) => {
                let (packet, front) = (packet[..len].to_vec(), front.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = front.send_to(&packet, to).await;
                });
            }
        }
    }
}

async fn dial(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(target).await?;
    Ok(socket)
}

/// The wires between nodes: one relay from each to each other.
#[derive(Debug)]
pub struct Network(BTreeMap<(usize, usize), Relay>);

impl Network {
    /// Wires between nodes that listen at `addresses`.
    pub async fn between(addresses: &[SocketAddr], seed: u64) -> io::Result<Self> {
        let mut relays = BTreeMap::new();
        for from in 0..addresses.len() {
            for (to, target) in addresses.iter().enumerate().filter(|(to, _)| *to != from) {
                let name = format!("node-{} to node-{}", from + 1, to + 1);
                let seed = seed.wrapping_add((from * addresses.len() + to) as u64);
                relays.insert((from, to), Relay::start(&name, *target, seed).await?);
            }
        }
        Ok(Network(relays))
    }

    /// Where node `from` finds the others, by their number.
    pub fn addresses(&self, from: usize) -> impl Iterator<Item = (usize, SocketAddr)> {
        self.0.range((from, 0)..(from + 1, 0)).map(|((_, to), relay)| (*to, relay.address()))
    }

    /// Has `faults` happen to what travels from one node to another, whoever dialled.
    pub fn set(&self, from: usize, to: usize, faults: Faults) {
        if let Some(relay) = self.0.get(&(from, to)) {
            relay.there().set(faults);
        }
        if let Some(relay) = self.0.get(&(to, from)) {
            relay.back().set(faults);
        }
    }

    /// Has `faults` happen to everything between `node` and the others, both ways.
    pub fn set_around(&self, node: usize, faults: Faults) {
        for (from, to) in self.0.keys().filter(|(from, to)| *from == node || *to == node) {
            self.set(*from, *to, faults);
        }
    }

    /// Packets that passed between all nodes, and packets that were lost.
    pub fn counts(&self) -> (u64, u64) {
        let directions = self.0.values().flat_map(|relay| [relay.there(), relay.back()]);
        directions.map(Direction::counts).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    async fn pair() -> (UdpSocket, UdpSocket, Relay) {
        let target = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let relay = Relay::start("test", target.local_addr().unwrap(), 7).await.unwrap();
        (dial(relay.address()).await.unwrap(), target, relay)
    }

    #[tokio::test]
    async fn packets_and_their_answers_pass_until_they_are_cut() {
        let (near, far, relay) = pair().await;
        let mut buffer = [0; 16];
        near.send(b"ask").await.unwrap();
        let (len, from) = tokio::time::timeout(LONG, far.recv_from(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(&buffer[..len], b"ask");
        far.send_to(b"answer", from).await.unwrap();
        let len = tokio::time::timeout(LONG, near.recv(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(&buffer[..len], b"answer");

        relay.back().set(Faults::CUT);
        far.send_to(b"lost", from).await.unwrap();
        while relay.back().counts() != (1, 1) {
            tokio::task::yield_now().await;
        }
        relay.back().set(Faults { delay: Duration::from_millis(5), ..Faults::default() });
        far.send_to(b"late", from).await.unwrap();
        let len = tokio::time::timeout(LONG, near.recv(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(&buffer[..len], b"late");
    }

    #[test]
    fn the_seed_decides_what_is_lost() {
        let lost = |seed| {
            let direction = Direction::new(String::new(), seed);
            direction.set(Faults { lost_per_mille: 300, ..Faults::default() });
            (0..1000).map(|_| direction.verdict(1).is_none()).collect::<Vec<_>>()
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        let count = lost(1).into_iter().filter(|lost| *lost).count();
        assert!((200..400).contains(&count), "{count}");
    }
}
