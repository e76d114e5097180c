//! Nodes in trouble: full disks, slow networks, damaged rows, more requests than they can take, old answers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::identity::Incarnation;
use tanist::core::limits;
use tanist::core::object::Key;
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::Write;
use tanist::engine::Input;
use tanist::engine::rows;
use tanist::engine::store::{Batch, Change, View as _};
use tanist::storage::Store as _;
use tanist::wire::client::{AskStatus, Failure, Read, Submitted};
use tanist::wire::peer::Envelope;
use tanist::wire::register::{AskVerdict, Verdict};
use tanist::wire::registry::{PeerMessage, Reply};

use crate::cluster::{Cluster, applied, id};
use crate::registers::{jobs, read};

/// Its acceptance on one node may be found by whoever recovers the register.
#[test]
fn p5_a_risked_write_is_not_told_that_the_disk_is_full() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    cluster.pass(100);
    // Node 1 accepts "two" alone: its accepts do not arrive.
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    let token = cluster.start(id(1), second.clone(), &author);
    cluster.run();
    cluster.input(id(1), Input::DiskFull(true));
    // Its resends do not arrive either; then it begins afresh, without itself as acceptor.
    cluster.pass(990);
    cluster.cut.clear();
    cluster.pass(3_500);
    let reply = cluster.replies.remove(&token).unwrap();
    cluster.input(id(1), Input::DiskFull(false));
    cluster.cut.insert(id(3));
    let now = read(&mut cluster, id(2), namespace, false).unwrap().0;
    let doubt = matches!(reply, Reply::Submitted(Submitted::Incomplete { .. } | Submitted::Applied { .. }));
    assert!(doubt || now != second.signed.id(), "told {reply:?}, and it was applied");
}

/// Writes of generations that never come take no place among the forbidden ones.
#[test]
fn r4_void_is_not_filled_for_ever() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    for n in 0..limits::VOID as u64 {
        let mut submit = cluster.write(namespace, "k", "x", &[]);
        let parent = submit.signed.id();
        let write =
            Write { generation: u64::MAX - n, parents: vec![parent], ..submit.signed.write().clone() };
        let proof = sign_one(&cluster.author, write.cluster, write.id().into());
        submit.signed = Arc::new(SignedWrite::new(write, proof, None));
        cluster.ask(id(1), AskVerdict { signed: submit.signed, forbid: true });
    }
    let mut parent = None;
    for n in 0..40u64 {
        let write = cluster.write(namespace, "k", &n.to_string(), parent.as_slice());
        applied(cluster.ask(id(1), write.clone()));
        parent = Some((n + 1, write.signed.id()));
    }
    let open = cluster.write(namespace, "k", "open", parent.as_slice());
    let reply = cluster.ask(id(2), AskVerdict { signed: open.signed, forbid: true });
    assert!(matches!(reply, Reply::Verdict(Verdict::Refused { .. })), "settle: {reply:?}");
}

#[test]
fn a_damaged_row_is_not_shown_as_absent() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first));
    cluster.pass(3_000);
    let key = Key::try_from("k").unwrap();
    let name = rows::register(namespace, &key);
    let node = cluster.nodes.get_mut(&id(2)).unwrap();
    let whole = node.store.get(&name).unwrap().unwrap();
    let number = node.store.last_batch() + 1;
    let half: Bytes = whole.slice(..whole.len() / 2);
    node.store.commit(&Batch { number, changes: vec![Change::Put { key: name, value: half }] }).unwrap();
    cluster.restart(id(2));
    let reply = cluster.ask(id(2), Read { namespace, key, local: true, history: false });
    assert!(matches!(reply, Reply::Failure(Failure::Unavailable(_))), "{reply:?}");
}

#[test]
fn a_read_does_not_wait_for_a_replica_that_is_known_to_be_down() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    cluster.pass(100);
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    cluster.start(id(1), second, &author);
    cluster.run();
    cluster.cut = [id(3)].into();
    for other in [1, 2] {
        cluster.input(id(other), Input::PeerDown(id(3)));
    }
    let before = cluster.now;
    let _ = read(&mut cluster, id(2), namespace, false);
    let took = cluster.now - before;
    assert!(took < 100, "{took} ms on a network without latency");
}

/// Not "unavailable", after a wait for its deadline.
#[test]
fn a_full_disk_is_told_at_once() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    for n in 1..=3 {
        cluster.input(id(n), Input::DiskFull(true));
    }
    let before = cluster.now;
    let write = cluster.write(namespace, "k", "one", &[]);
    let reply = cluster.ask(id(1), write);
    let took = cluster.now - before;
    assert_eq!((reply, took), (Reply::Failure(Failure::DiskFull), 0));
}

/// An owner does not lose its lease because others ask much.
#[test]
fn heartbeats_are_heard_under_load() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let mut owner = crate::registers::Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    for n in 0..limits::OPERATIONS {
        let key = Key::try_from(format!("k{n}").as_str()).unwrap();
        cluster.start(id(1), Read { namespace, key, local: false, history: false }, &author);
    }
    let renewed = owner.renew(&mut cluster, id(1));
    assert!(matches!(renewed, tanist::wire::ownership::Renewed::Heard { .. }), "{renewed:?}");
}

/// A round that nobody refused is not given up because its answers are late.
#[test]
fn a_slow_network_is_slow_and_not_down() {
    const DELAY: u64 = 550;
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let author = cluster.author.clone();
    let write = cluster.write(namespace, "k", "one", &[]);
    cluster.cut = [id(1)].into();
    let token = cluster.start(id(1), write, &author);
    cluster.run();
    // Everything from and to node 1 takes DELAY, one way: three round trips need 3.3 s, the deadline is 4 s.
    let mut late: std::collections::VecDeque<(u64, _)> = Default::default();
    for _ in 0..1_200 {
        let now = cluster.now;
        late.extend(cluster.dropped.drain(..).map(|message| (now + DELAY, message)));
        cluster.pass(10);
        while late.front().is_some_and(|(due, _)| *due <= cluster.now) {
            let (_, (from, to, envelope, message)) = late.pop_front().unwrap();
            cluster.deliver(from, to, envelope, &message);
        }
        if cluster.replies.contains_key(&token) {
            break;
        }
    }
    let reply = cluster.replies.remove(&token).unwrap();
    assert!(matches!(reply, Reply::Submitted(Submitted::Applied { .. })), "{reply:?}");
}

/// Seed 100318: an answer that was under way while its node was stopped, and started again with older data,
/// let it count.
#[test]
fn p11_an_answer_to_an_earlier_start_does_not_let_a_node_count() {
    let mut cluster = Cluster::new();
    let held: Rc<RefCell<Vec<PeerMessage>>> = Rc::default();
    let holding = Rc::clone(&held);
    cluster.spoil = Some(Box::new(move |_, _, (to, _), message| {
        if to == id(1) && matches!(message, PeerMessage::Recalled(_)) {
            holding.borrow_mut().push(message);
            return None;
        }
        Some(message)
    }));
    let counts = |cluster: &mut Cluster| match cluster.ask(id(1), AskStatus {}) {
        Reply::Status(status) => status.counts,
        other => panic!("{other:?}"),
    };
    cluster.restart(id(1));
    let earlier = held.take();
    assert!(counts(&mut cluster).is_err() && !earlier.is_empty());
    cluster.restart(id(1));
    let now = held.take();
    let envelope = Envelope { incarnation: Incarnation([2; 16]), synced: 1 };
    let deliver = |cluster: &mut Cluster, message: &PeerMessage| {
        cluster.deliver(id(2), id(1), envelope, message);
        cluster.run();
    };
    deliver(&mut cluster, &earlier[0]);
    assert!(counts(&mut cluster).is_err(), "it was an earlier start that was told so");
    deliver(&mut cluster, &now[0]);
    assert_eq!(counts(&mut cluster), Ok(()));
}
