//! Links between two and three endpoints on loopback.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

use std::net::UdpSocket;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::super::fixtures::{Table, frame, member, secret, socket, soon};
use super::super::{Admitted, Options, Timing};
use super::*;

/// A member whose key and id come from one seed.
struct Node {
    endpoint: Endpoint,
    links: Links,
    events: mpsc::Receiver<LinkEvent>,
}

impl Node {
    /// Knows the members of seeds 1 and 2; must be called within the runtime it is to live in.
    fn start(seed: u8, process: u64, socket: UdpSocket) -> Node {
        let table = Arc::new(Table::default());
        for seed in [1, 2] {
            table.set(secret(seed).public(), Some(Admitted::Member(member(seed))));
        }
        let endpoint = Endpoint::server_with(&secret(seed), socket, table, Options::default()).unwrap();
        let own = Whoami { member: member(seed), process, level: 1 };
        let (links, events) = Links::new(endpoint.clone(), own, LinkOptions::default());
        let (accepting, adopting) = (endpoint.clone(), links.clone());
        tokio::spawn(async move {
            while let Some(connection) = accepting.accept().await {
                adopting.adopt(connection);
            }
        });
        Node { endpoint, links, events }
    }

    fn addr(&self) -> SocketAddr {
        self.endpoint.local_addr().unwrap()
    }

    /// Sets the peer table to one peer, at `addr` or only calling in.
    fn knows(&self, seed: u8, addr: Option<SocketAddr>) {
        self.links.update(vec![Peer {
            member: member(seed),
            key: secret(seed).public(),
            addresses: addr.into_iter().collect(),
        }]);
    }

    async fn event(&mut self) -> LinkEvent {
        soon(self.events.recv()).await.unwrap()
    }

    async fn frame_kind(&mut self) -> u16 {
        match self.event().await {
            LinkEvent::Frame(_, frame) => frame.kind,
            other => panic!("{other:?}"),
        }
    }
}

/// Nodes 1 and 2, each listening, with no addresses to dial yet.
fn pair() -> (Node, Node) {
    let (a, b) = (Node::start(1, 11, socket()), Node::start(2, 22, socket()));
    a.knows(2, None);
    b.knows(1, None);
    (a, b)
}

async fn linked() -> (Node, Node) {
    let (mut a, mut b) = pair();
    a.knows(2, Some(b.addr()));
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
    (a, b)
}

#[tokio::test]
async fn a_link_is_up_on_both_sides_and_brings_each_frame_once() {
    let (mut a, mut b) = pair();
    assert!(!a.links.send(member(2), frame(1, 1)), "there is no link yet");
    assert_eq!(a.links.dropped(member(2)), 1);
    // Both dial, as in real life.
    a.knows(2, Some(b.addr()));
    b.knows(1, Some(a.addr()));
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
    assert_eq!((a.links.level(member(2)), b.links.level(member(1))), (Some(1), Some(1)));
    for kind in 1..=500 {
        assert!(a.links.send(member(2), frame(kind, 20)));
        assert!(b.links.send(member(1), frame(kind, 20)));
    }
    for node in [&mut a, &mut b] {
        let mut kinds = Vec::new();
        for _ in 1..=500 {
            kinds.push(node.frame_kind().await);
        }
        // Sorted, as one connection may have given way to the other meanwhile.
        kinds.sort_unstable();
        assert!(kinds.into_iter().eq(1..=500));
    }
}

#[tokio::test]
async fn small_frames_stay_in_order_beside_large_ones() {
    let (a, mut b) = linked().await;
    for kind in 1..=400 {
        assert!(a.links.send(member(2), frame(kind, 300)));
        if kind % 40 == 0 {
            assert!(a.links.send(member(2), frame(1000 + kind, 1 << 20)));
        }
    }
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..410 {
        let kind = b.frame_kind().await;
        if kind < 1000 { small.push(kind) } else { large.push(kind) }
    }
    assert!(small.into_iter().eq(1..=400));
    large.sort_unstable();
    assert!(large.into_iter().eq((1..=10).map(|n| 1000 + 40 * n)));
}

#[tokio::test]
async fn of_two_connections_dialled_at_once_the_lower_members_stays() {
    let (mut a, mut b) = pair();
    let by_a = soon(a.endpoint.dial_link(b.addr(), secret(2).public(), Timing::LINK)).await.unwrap();
    let by_b = soon(b.endpoint.dial_link(a.addr(), secret(1).public(), Timing::LINK)).await.unwrap();
    a.links.adopt(by_a.clone());
    b.links.adopt(by_b.clone());
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
    // These meet the change-over, or not; either way each comes exactly once.
    for kind in 1..=100 {
        assert!(a.links.send(member(2), frame(kind, 10)));
        assert!(b.links.send(member(1), frame(kind, 10)));
    }
    let gone = soon(by_b.closed()).await;
    assert!(
        matches!(gone, ConnectionError::ClosedHere | ConnectionError::Closed { code: Code::DUPLICATE, .. }),
        "{gone}"
    );
    assert_eq!(by_a.close_reason(), None);
    for node in [&mut a, &mut b] {
        let mut kinds = Vec::new();
        for _ in 1..=100 {
            kinds.push(node.frame_kind().await);
        }
        kinds.sort_unstable();
        assert!(kinds.into_iter().eq(1..=100), "the link never went down");
    }
}

/// Ends a runtime as a kill ends a process: nothing more is sent.
async fn kill(runtime: Runtime) {
    soon(tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(10))))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_vanished_peer_is_noticed_and_one_that_restarts_is_found_again() {
    let port = socket();
    let restart = port.try_clone().unwrap();
    let first = Runtime::new().unwrap();
    let mut a = Node::start(1, 11, socket());
    let b = {
        let _guard = first.enter();
        Node::start(2, 22, port)
    };
    let addr = b.addr();
    b.knows(1, None);
    a.knows(2, Some(addr));
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));

    kill(first).await;
    let down = timeout(Duration::from_secs(2), a.events.recv()).await.expect("noticed within two seconds");
    assert_eq!(down, Some(LinkEvent::Down(member(2), DownReason::Lost(ConnectionError::TimedOut))));
    assert!(!a.links.send(member(2), frame(1, 1)));
    drop(b);

    let mut b = Node::start(2, 23, restart);
    b.knows(1, None);
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
    assert!(a.links.send(member(2), frame(5, 1)));
    assert_eq!(b.frame_kind().await, 5);
}

#[tokio::test]
async fn a_peer_that_restarts_before_its_death_is_noticed_takes_its_place_at_once() {
    let (port, restart) = {
        let port = socket();
        (port.try_clone().unwrap(), port)
    };
    let first = Runtime::new().unwrap();
    let mut a = Node::start(1, 11, socket());
    a.knows(2, None);
    let b = {
        let _guard = first.enter();
        let b = Node::start(2, 22, port);
        b.knows(1, Some(a.addr()));
        b
    };
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    kill(first).await;
    drop(b);
    let mut b = Node::start(2, 23, restart);
    b.knows(1, Some(a.addr()));
    assert_eq!(a.event().await, LinkEvent::Down(member(2), DownReason::Restarted));
    assert_eq!(a.event().await, LinkEvent::Up(member(2)));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
}

#[tokio::test]
async fn another_holder_of_our_key_is_reported() {
    let (mut a, mut b) = linked().await;
    let whoami = |seed, process| Whoami { member: member(seed), process, level: 1 };
    let twin = Endpoint::client(&secret(1)).unwrap();

    // It meets us.
    let met = soon(twin.dial_link(a.addr(), secret(1).public(), Timing::LINK)).await.unwrap();
    let _held = soon(link::greet(&met, &whoami(1, 99), Duration::from_secs(5))).await;
    assert_eq!(a.event().await, LinkEvent::Twin(Twin::Met));

    // It takes our place at a peer.
    let other = soon(twin.dial_link(b.addr(), secret(2).public(), Timing::LINK)).await.unwrap();
    let _greeted = soon(link::greet(&other, &whoami(1, 99), Duration::from_secs(5))).await.unwrap();
    assert_eq!(b.event().await, LinkEvent::Down(member(1), DownReason::Restarted));
    assert_eq!(b.event().await, LinkEvent::Up(member(1)));
    assert!(matches!(a.event().await, LinkEvent::Down(..)));
    let mut reported = false;
    while !reported {
        reported = a.event().await == LinkEvent::Twin(Twin::ReportedBy(member(2)));
    }
}

#[tokio::test]
async fn a_dial_that_comes_back_is_a_mirror() {
    let mut a = Node::start(1, 11, socket());
    let itself = a.addr();
    a.links.update(vec![Peer { member: member(2), key: secret(1).public(), addresses: vec![itself] }]);
    assert_eq!(a.event().await, LinkEvent::Twin(Twin::Mirror));
}

#[tokio::test]
async fn a_member_id_that_is_not_the_keys_is_refused() {
    let (a, _b) = pair();
    let liar = Endpoint::client(&secret(2)).unwrap();
    let connection = soon(liar.dial_link(a.addr(), secret(1).public(), Timing::LINK)).await.unwrap();
    let lie = Whoami { member: member(7), process: 1, level: 1 };
    let _held = soon(link::greet(&connection, &lie, Duration::from_secs(5))).await;
    let error = soon(connection.closed()).await;
    assert!(matches!(error, ConnectionError::Closed { code: Code::WRONG_MEMBER, .. }), "{error}");
}

#[tokio::test]
async fn a_removed_peer_goes_down_and_is_not_dialled_again() {
    let (mut a, mut b) = linked().await;
    a.links.update(Vec::new());
    assert!(matches!(a.event().await, LinkEvent::Down(..)));
    assert_eq!(a.links.level(member(2)), None);
    let gone = b.event().await;
    let LinkEvent::Down(_, DownReason::Lost(ConnectionError::Closed { code, .. })) = gone else {
        panic!("{gone:?}")
    };
    assert_eq!(code, Code::CHANGED);
}

#[tokio::test]
async fn a_peer_with_another_key_is_another_connection() {
    let (mut a, _b) = linked().await;
    let rekeyed = Peer { member: member(2), key: secret(3).public(), addresses: Vec::new() };
    a.links.update(vec![rekeyed]);
    assert_eq!(a.event().await, LinkEvent::Down(member(2), DownReason::Lost(ConnectionError::ClosedHere)));
    assert_eq!(a.links.level(member(2)), None);
    assert!(!a.links.send(member(2), frame(1, 1)), "the new key has no link yet");
}
