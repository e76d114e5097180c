//! Attacks on registers and ownership, by their numbers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tanist::core::chain::{ConfigChange, Grant, Rights};
use tanist::core::identity::{Incarnation, SecretKey};
use tanist::core::limits;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::version::SignedWrite;
use tanist::core::write::Write;
use tanist::engine::Input;
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::View as _;
use tanist::wire::client::{Failure, Submit, Submitted};
use tanist::wire::ownership::{Ballots, Campaigned, Observe, Renewed};
use tanist::wire::peer::Envelope;
use tanist::wire::register::{Accepted, AskVerdict, Verdict};
use tanist::wire::registry::{PeerMessage, Reply};

use crate::cluster::{Cluster, applied, id};
use crate::registers::{Candidate, billing, jobs, read, refused};

fn row(cluster: &Cluster, node: u8, namespace: NamespaceId) -> RegisterRow {
    let row = rows::register(namespace, &Key::try_from("k").unwrap());
    cluster.nodes[&id(node)]
        .store
        .get(&row)
        .unwrap()
        .map_or_else(Default::default, |row| rows::decode(&row).unwrap())
}

#[test]
fn attack_07_siblings_take_no_fence() {
    let mut cluster = Cluster::new();
    let carts = cluster.namespace("carts");
    let owner = Candidate::new(&cluster, 1, None);
    let proof = owner.win(&mut cluster, id(1));
    let write = owner.fenced(&cluster, carts, "one", None, Some(&proof));
    assert!(matches!(cluster.ask(id(1), write), Reply::Failure(Failure::Rejected(_))));
}

#[test]
fn attack_08_a_right_that_was_taken_back_wedges_nothing() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let guest = SecretKey::from_seed(&[77; 32]);
    let grant = Grant {
        author: Some(guest.public()),
        namespace: Some(namespace),
        prefix: Vec::new(),
        rights: Rights { read: true, write: true, elect: false },
    };
    cluster.change(ConfigChange::AddGrant(grant.clone()));
    let by_guest = |cluster: &Cluster, text: &str| -> Submit {
        let submit = cluster.write(namespace, "k", text, &[]);
        let write = Write { author: guest.public(), ..submit.signed.write().clone() };
        let proof = sign_one(&guest, write.cluster, write.id().into());
        Submit { signed: Arc::new(SignedWrite::new(write, proof, None)), ..submit }
    };
    // Accepted by node 1 alone, under the policy of that moment.
    let write = by_guest(&cluster, "one");
    let other = if cluster.nodes[&id(1)].config.replicas(namespace, write.signed.write().object())[0] == id(1)
    {
        1
    } else {
        2
    };
    cluster.input(id(other), Input::Tick);
    let token = cluster.start(id(other), write.clone(), &guest);
    cluster.run();
    cluster.replies.remove(&token);
    cluster.change(ConfigChange::RemoveGrant(grant));
    // Whoever recovers it carries it, and judges it by the policy that its stamp names.
    let shown: Vec<_> = (1..=3).map(|node| read(&mut cluster, id(node), namespace, false)).collect();
    assert!(shown.iter().all(|one| *one == shown[0]), "{shown:?}");
    assert_eq!(shown[0].as_ref().unwrap().0, write.signed.id());
    let token = cluster.start(id(1), by_guest(&cluster, "two"), &guest);
    cluster.run();
    assert!(matches!(cluster.replies.remove(&token), Some(Reply::Failure(Failure::Denied(_)))));
}

#[test]
fn attack_09_no_ballot_is_used_again_after_a_restart() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let mut parent = None;
    let mut highest = None;
    for n in 0..6u64 {
        let write = cluster.write(namespace, "k", &n.to_string(), parent.as_slice());
        applied(cluster.ask(id(1), write.clone()));
        parent = Some((n + 1, write.signed.id()));
        let (ballot, _) = row(&cluster, 1, namespace).accepted.unwrap();
        assert!(highest < Some(ballot), "{highest:?} before {ballot:?}");
        highest = row(&cluster, 1, namespace).promised;
        cluster.restart(id(1));
    }
}

#[test]
fn attack_13_two_processes_with_one_key_are_two_candidates() {
    let mut cluster = Cluster::new();
    let (mut one, mut two) = (Candidate::new(&cluster, 1, None), Candidate::new(&cluster, 2, None));
    assert_eq!(one.signed.write().author, two.signed.write().author);
    let author = cluster.author.clone();
    let tokens =
        [cluster.start(id(1), one.campaign(), &author), cluster.start(id(2), two.campaign(), &author)];
    cluster.pass(3_000);
    let chosen = tokens.map(|token| {
        let reply = cluster.replies.remove(&token);
        matches!(reply, Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. })))
    });
    assert_eq!(chosen.iter().filter(|won| **won).count(), 1);
    let (owner, other) = if chosen[0] { (&mut one, &mut two) } else { (&mut two, &mut one) };
    let heard =
        (1..=3).filter(|n| matches!(owner.renew(&mut cluster, id(*n)), Renewed::Heard { .. })).count();
    assert!(heard >= 2);
    let heard =
        (1..=3).filter(|n| matches!(other.renew(&mut cluster, id(*n)), Renewed::Heard { .. })).count();
    assert!(heard < 2, "the other one never has a majority");
}

#[test]
fn attack_19_a_read_after_a_fast_write_needs_no_ballot() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    applied(cluster.ask(id(1), cluster.write(namespace, "k", "two", &[(1, first.signed.id())])));
    // Every acceptance promised the next ballot; that hinders no look.
    let (accepted, promised) = (row(&cluster, 2, namespace).accepted, row(&cluster, 2, namespace).promised);
    assert!(promised > accepted.map(|(ballot, _)| ballot));
    let ballots =
        |cluster: &Cluster| cluster.nodes.values().map(|n| n.machine.counters().ballots).sum::<u64>();
    let before = ballots(&cluster);
    for node in 1..=3 {
        assert_eq!(read(&mut cluster, id(node), namespace, false).unwrap().1, "two");
    }
    assert_eq!(ballots(&cluster), before);
}

#[test]
fn r1_a_repeated_acceptance_promises_nothing_that_a_higher_promise_forbids() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    // Node 1 accepts alone; what it asks of the others is kept back.
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    cluster.start(id(1), second, &author);
    cluster.run();
    let kept = cluster.dropped.iter().rev().find_map(|(_, to, envelope, message)| match message {
        PeerMessage::AcceptRegister(accept) if *to == id(2) => Some((*envelope, accept.clone())),
        _ => None,
    });
    let (envelope, accept) = kept.expect("an accept for node 2");
    assert!(accept.next.is_some());
    // The same state comes to node 2 another way, without a next ballot.
    let mut repair = accept.clone();
    (repair.operation, repair.next) = (0, None);
    cluster.deliver(id(1), id(2), envelope, &repair.into());
    assert_eq!(row(&cluster, 2, namespace).accepted.unwrap().0, accept.ballot);
    // Node 3 gets promises; then the original arrives.
    let third = cluster.write(namespace, "k", "three", &[(1, first.signed.id())]);
    let reply = cluster.ask(id(3), third);
    assert!(matches!(reply, Reply::Submitted(_)), "{reply:?}");
    let promised = row(&cluster, 2, namespace).promised;
    cluster.dropped.clear();
    cluster.deliver(id(1), id(2), envelope, &accept.into());
    assert_eq!(row(&cluster, 2, namespace).promised, promised, "no promise was taken back");
    for (_, _, _, message) in &cluster.dropped {
        if let PeerMessage::AcceptedRegister(answer) = message {
            assert!(!matches!(answer.answer, Accepted::Yes { next: true, .. }), "{answer:?}");
        }
    }
}

/// A member uses one ballot for two writes: whoever holds the first takes no other bytes, and counts it.
#[test]
fn attack_09_an_acceptor_takes_no_other_bytes_at_a_ballot_that_it_accepted() {
    let accept_of = |value: &str| {
        let mut cluster = Cluster::new();
        let namespace = jobs(&mut cluster);
        let kept = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&kept);
        cluster.spoil = Some(Box::new(move |_, _, (to, _), message| match message {
            PeerMessage::AcceptRegister(accept) => {
                if to == id(2) {
                    *seen.borrow_mut() = Some(accept);
                }
                None
            }
            other => Some(other),
        }));
        let (author, write) = (cluster.author.clone(), cluster.write(namespace, "k", value, &[]));
        cluster.start(id(1), write, &author);
        cluster.run();
        let accept = kept.borrow_mut().take();
        (cluster, namespace, accept.expect("an accept for node 2"))
    };
    let (mut cluster, namespace, one) = accept_of("one");
    let (.., other) = accept_of("other");
    assert_eq!(one.ballot, other.ballot, "the same course, but for the value");
    assert_ne!(one.state, other.state);
    let answers = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&answers);
    cluster.spoil = Some(Box::new(move |_, _, _, message| {
        if let PeerMessage::AcceptedRegister(accepted) = &message {
            heard.borrow_mut().push(accepted.answer.clone());
        }
        Some(message)
    }));
    let envelope = Envelope { incarnation: Incarnation([1; 16]), synced: 1 };
    cluster.deliver(id(1), id(2), envelope, &one.clone().into());
    assert!(matches!(answers.take()[..], [Accepted::Yes { .. }]));
    cluster.deliver(id(1), id(2), envelope, &other.into());
    assert!(matches!(answers.take()[..], [Accepted::OtherBytes]));
    assert_eq!(row(&cluster, 2, namespace).accepted, Some((one.ballot, one.state)));
    assert_eq!(cluster.nodes[&id(2)].machine.counters().contradictions, 1);
}

#[test]
fn r4_a_full_list_of_void_writes_forbids_no_more_and_forgets_none() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let ahead = |cluster: &Cluster, n: usize| {
        let parent = tanist::core::write::WriteId([n as u8; 32]);
        Arc::clone(&cluster.write(namespace, "k", &n.to_string(), &[(5, parent)]).signed)
    };
    let writes: Vec<_> = (0..=limits::VOID).map(|n| ahead(&cluster, n)).collect();
    for signed in &writes[..limits::VOID] {
        let reply = cluster.ask(id(1), AskVerdict { signed: Arc::clone(signed), forbid: true });
        assert!(matches!(reply, Reply::Verdict(Verdict::Refused { .. })), "{reply:?}");
    }
    let last = AskVerdict { signed: Arc::clone(&writes[limits::VOID]), forbid: true };
    assert_eq!(cluster.ask(id(2), last), Reply::Failure(Failure::Overloaded));
    for signed in &writes[..limits::VOID] {
        let reply = cluster.ask(id(3), AskVerdict { signed: Arc::clone(signed), forbid: false });
        assert!(matches!(reply, Reply::Verdict(Verdict::Refused { .. })), "{reply:?}");
    }
}

#[test]
fn r6_an_absent_key_is_read_in_one_round_trip() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let sent = cluster.sent;
    assert_eq!(read(&mut cluster, id(2), namespace, false), None);
    assert_eq!(cluster.sent - sent, 4, "asked once, answered once");
    assert_eq!(cluster.nodes.values().map(|node| node.machine.counters().ballots).sum::<u64>(), 0);
}

#[test]
fn attack_06_an_open_write_is_decided_by_settling_it() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let write = cluster.write(namespace, "k", "one", &[]);
    let ask = |forbid| AskVerdict { signed: Arc::clone(&write.signed), forbid };
    assert_eq!(cluster.ask(id(1), ask(false)), Reply::Verdict(Verdict::Open));
    assert_eq!(cluster.ask(id(2), ask(true)), Reply::Verdict(Verdict::Refused { current: None }));
    // Forbidden, it is refused whenever and wherever it comes, and others are not.
    assert_eq!(refused(cluster.ask(id(3), write.clone())), []);
    applied(cluster.ask(id(3), cluster.write(namespace, "k", "other", &[])));
    assert!(matches!(cluster.ask(id(1), write), Reply::Submitted(Submitted::Refused { .. })));
}

#[test]
fn attack_10_a_voter_whose_disk_hangs_keeps_no_owner_alive() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let mut owner = Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    assert!(matches!(owner.renew(&mut cluster, id(1)), Renewed::Heard { .. }));
    // A batch of node 1 is written and its sync does not return.
    let author = cluster.author.clone();
    let write = cluster.write(namespace, "k", "one", &[]);
    cluster.start(id(1), write, &author);
    let batch = cluster.nodes.get_mut(&id(1)).unwrap().machine.close();
    assert!(batch.is_some());
    cluster.pass(900);
    assert!(matches!(owner.renew(&mut cluster, id(1)), Renewed::Heard { .. }));
    cluster.pass(200);
    assert_eq!(owner.renew(&mut cluster, id(1)), Renewed::Stalled, "older than half the lease");
    assert!(matches!(owner.renew(&mut cluster, id(2)), Renewed::Heard { .. }));
}

#[test]
fn attack_04c_what_comes_after_its_epoch_is_not_applied_a_second_time() {
    let mut cluster = Cluster::new();
    for namespace in [cluster.namespace("carts"), jobs(&mut cluster)] {
        let epoch = |cluster: &Cluster| cluster.nodes[&id(1)].config.write_epoch();
        let first = epoch(&cluster);
        let at = |submit: Submit, cluster: &Cluster| -> Submit {
            let write = Write { epoch: first, ..submit.signed.write().clone() };
            let proof = sign_one(&cluster.author, write.cluster, write.id().into());
            Submit { signed: Arc::new(SignedWrite::new(write, proof, None)), ..submit }
        };
        let done = at(cluster.write(namespace, "k", "done", &[]), &cluster);
        let late = at(cluster.write(namespace, "other", "late", &[]), &cluster);
        applied(cluster.ask(id(1), done.clone()));
        let next = at(cluster.write(namespace, "k", "next", &[(1, done.signed.id())]), &cluster);
        applied(cluster.ask(id(2), next.clone()));
        for _ in 0..100 {
            cluster.pass(10_000);
            if epoch(&cluster) >= first + 2 {
                break;
            }
        }
        assert!(epoch(&cluster) >= first + 2, "the members end an epoch when it is time");
        for node in 1..=3 {
            // What was done is told as done; what was not is done no more.
            applied(cluster.ask(id(node), done.clone()));
            let reply = cluster.ask(id(node), late.clone());
            assert!(matches!(reply, Reply::Failure(Failure::Expired { .. })), "{reply:?}");
        }
        assert_eq!(cluster.live(id(3), namespace, "k"), [(2, next.signed.id())]);
        assert_eq!(cluster.live(id(3), namespace, "other"), []);
    }
}

#[test]
fn o4_any_ballot_carries_a_tenure_that_phase_1_shows() {
    let mut cluster = Cluster::new();
    // Node 1 alone accepts the tenure.
    cluster.spoil = Some(Box::new(|_, _, _, message| match message {
        PeerMessage::AcceptRegister(accept) if accept.key == billing() => None,
        message => Some(message),
    }));
    let owner = Candidate::new(&cluster, 1, None);
    let author = cluster.author.clone();
    cluster.start(id(1), owner.campaign(), &author);
    cluster.run();
    cluster.spoil = None;
    // A reader's round, whose ballot nobody promised as a takeover, finds it and has it chosen.
    cluster.cut.insert(id(2));
    match cluster.ask(id(3), Observe { resource: billing() }) {
        Reply::Observed(observed) => {
            assert_eq!(observed.version.map(|version| version.id()), Some(owner.id()));
            assert!(observed.votes.len() >= 2);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn o6_a_takeover_that_cannot_succeed_leaves_no_promise() {
    let mut cluster = Cluster::new();
    let mut owner = Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    // One voter is dead: a promise of either of the others would starve the owner.
    cluster.cut.insert(id(3));
    let resources = NamespaceId::resources(cluster.nodes[&id(1)].config.cluster());
    let promised = |cluster: &Cluster, node: u8| {
        let row = cluster.nodes[&id(node)].store.get(&rows::register(resources, &billing())).unwrap();
        let row: Option<RegisterRow> = row.map(|row| rows::decode(&row).unwrap());
        row.map(|row| (row.promised, row.takeover))
    };
    let before = [promised(&cluster, 1), promised(&cluster, 2)];
    let rival = Candidate::new(&cluster, 2, Some((1, owner.id())));
    for node in [1, 2, 1, 2] {
        let reply = cluster.ask(id(node), rival.campaign());
        assert!(matches!(reply, Reply::Campaigned(Campaigned { result: Ballots::Running { .. }, .. })));
    }
    assert_eq!([promised(&cluster, 1), promised(&cluster, 2)], before);
    for node in [1, 2] {
        assert!(matches!(owner.renew(&mut cluster, id(node)), Renewed::Heard { .. }));
    }
}
