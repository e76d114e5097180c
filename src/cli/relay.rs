//! UDP relays inside the process: the wires between nodes, which can be cut.
//!
//! There is one for each directed link: a node that dials another is told the relay's address in its
//! place. What a relay does to packets is set from outside, the same for every packet from then on; what
//! chance decides is decided by a seed.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};

/// The largest UDP packet.
const PACKET: usize = 65_535;
/// Senders that a relay remembers: far more than nodes dial from.
const SENDERS: usize = 256;

/// A packet that is to be overtaken waits for so long, at most, in units of 256 µs.
const OVERTAKEN: u64 = 100;

/// What happens to packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing passes.
    pub cut: bool,
    /// So many of a thousand packets are lost.
    pub lost_per_mille: u16,
    /// So many of a thousand packets arrive twice.
    pub doubled_per_mille: u16,
    /// So many of a thousand packets are overtaken by later ones.
    pub overtaken_per_mille: u16,
    /// So many of a thousand packets arrive with a bit that is wrong.
    pub flipped_per_mille: u16,
    /// Every packet is late by this.
    pub delay: Duration,
}

impl Faults {
    /// A wire that does no harm.
    pub const NONE: Faults = Faults {
        cut: false,
        lost_per_mille: 0,
        doubled_per_mille: 0,
        overtaken_per_mille: 0,
        flipped_per_mille: 0,
        delay: Duration::ZERO,
    };
    /// A wire that was cut.
    pub const CUT: Faults = Faults { cut: true, ..Faults::NONE };
}

/// Packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that passed, whatever happened to them.
    pub passed: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Those that arrived twice.
    pub doubled: u64,
    /// Those that were held back so that others overtook them.
    pub overtaken: u64,
    /// Those with a bit that is wrong.
    pub flipped: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            lost: self.lost + other.lost,
            doubled: self.doubled + other.doubled,
            overtaken: self.overtaken + other.overtaken,
            flipped: self.flipped + other.flipped,
        }
    }
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
    counts: Mutex<Counts>,
}

/// What happens to one packet that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    delay: Duration,
    twice: bool,
    /// The bit that is wrong.
    flipped: Option<usize>,
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
        let random = AtomicU64::new(seed);
        Direction { name, faults: Mutex::default(), random, counts: Mutex::default() }
    }

    /// Has `faults` happen from now on.
    pub fn set(&self, faults: Faults) {
        tracing::debug!(wire = self.name, ?faults, "a wire changes");
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Packets so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to the next packet; `None` if it is lost.
    fn verdict(&self, len: usize) -> Option<Verdict> {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let happens = |per_mille: u16| per_mille > 0 && self.draw() % 1000 < u64::from(per_mille);
        if faults.cut || happens(faults.lost_per_mille) {
            tracing::trace!(wire = self.name, len, "a packet is lost");
            counts.lost += 1;
            return None;
        }
        let mut verdict = Verdict { delay: faults.delay, twice: false, flipped: None };
        counts.passed += 1;
        if happens(faults.doubled_per_mille) {
            counts.doubled += 1;
            verdict.twice = true;
        }
        if happens(faults.overtaken_per_mille) {
            counts.overtaken += 1;
            verdict.delay += Duration::from_micros(256 * (1 + self.draw() % OVERTAKEN));
        }
        if happens(faults.flipped_per_mille) && len > 0 {
            counts.flipped += 1;
            verdict.flipped = usize::try_from(self.draw()).ok().map(|bit| bit % (8 * len));
        }
        tracing::trace!(wire = self.name, len, ?verdict, "a packet");
        Some(verdict)
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
        let Some(verdict) = there.verdict(len) else { continue };
        // What cannot be sent is lost, as on any wire.
        let send = move |packet: Bytes| {
            let upstream = upstream.clone();
            async move { drop(upstream.send(&packet).await) }
        };
        verdict.deliver(&mut packet[..len], send).await;
    }
}

impl Verdict {
    /// Has `send` send the packet, as often, as late and as damaged as is decided.
    async fn deliver<S, F>(self, packet: &mut [u8], send: S)
    where
        S: Fn(Bytes) -> F + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        if let Some(bit) = self.flipped
            && let Some(byte) = packet.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        let packet = Bytes::copy_from_slice(packet);
        let sending = async move {
            if self.twice {
                send(packet.clone()).await;
            }
            send(packet).await;
        };
        if self.delay.is_zero() {
            return sending.await;
        }
        tokio::spawn(async move {
            tokio::time::sleep(self.delay).await;
            sending.await;
        });
    }
}

async fn answer(upstream: Arc<UdpSocket>, front: Arc<UdpSocket>, to: SocketAddr, back: Arc<Direction>) {
    let mut packet = vec![0; PACKET];
    loop {
        let Ok(len) = upstream.recv(&mut packet).await else { continue };
        let Some(verdict) = back.verdict(len) else { continue };
        let front = front.clone();
        let send = move |packet: Bytes| {
            let front = front.clone();
            async move { drop(front.send_to(&packet, to).await) }
        };
        verdict.deliver(&mut packet[..len], send).await;
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

    /// Packets between all nodes.
    pub fn counts(&self) -> Counts {
        let directions = self.0.values().flat_map(|relay| [relay.there(), relay.back()]);
        directions.map(Direction::counts).fold(Counts::default(), std::ops::Add::add)
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
        while (relay.back().counts().passed, relay.back().counts().lost) != (1, 1) {
            tokio::task::yield_now().await;
        }
        relay.back().set(Faults { delay: Duration::from_millis(5), ..Faults::NONE });
        far.send_to(b"late", from).await.unwrap();
        let len = tokio::time::timeout(LONG, near.recv(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(&buffer[..len], b"late");

        relay.back().set(Faults { doubled_per_mille: 1000, ..Faults::NONE });
        far.send_to(b"twice", from).await.unwrap();
        for _ in 0..2 {
            let len = tokio::time::timeout(LONG, near.recv(&mut buffer)).await.unwrap().unwrap();
            assert_eq!(&buffer[..len], b"twice");
        }
        relay.back().set(Faults { overtaken_per_mille: 1000, ..Faults::NONE });
        far.send_to(b"first", from).await.unwrap();
        while relay.back().counts().overtaken < 1 {
            tokio::task::yield_now().await;
        }
        relay.back().set(Faults { flipped_per_mille: 1000, ..Faults::NONE });
        far.send_to(&[0; 5], from).await.unwrap();
        let mut heard = Vec::new();
        for _ in 0..2 {
            let len = tokio::time::timeout(LONG, near.recv(&mut buffer)).await.unwrap().unwrap();
            heard.push(buffer[..len].to_vec());
        }
        heard.sort();
        assert_eq!(heard[0].iter().map(|byte| byte.count_ones()).sum::<u32>(), 1, "one bit");
        assert_eq!(heard[1], b"first");
    }

    #[test]
    fn the_seed_decides_what_is_lost() {
        let lost = |seed| {
            let direction = Direction::new(String::new(), seed);
            direction.set(Faults { lost_per_mille: 300, ..Faults::NONE });
            (0..1000).map(|_| direction.verdict(1).is_none()).collect::<Vec<_>>()
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        let count = lost(1).into_iter().filter(|lost| *lost).count();
        assert!((200..400).contains(&count), "{count}");
    }
}
