//! Rules of voters that random runs hardly need, each with a scenario that needs it. Played with the
//! rule switched off, outside the engine, the scenario must fail.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::identity::MemberId;
use tanist::core::object::{Key, NamespaceId, ObjectId};
use tanist::core::tenure;
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::{Batch, Change, View as _};
use tanist::storage::Store as _;
use tanist::storage::memory::Memory;
use tanist::wire::client::Read;
use tanist::wire::ownership::{Ballots, Campaign, Campaigned, Renewed};
use tanist::wire::register::Seal;
use tanist::wire::registry::{PeerMessage, Reply};

use crate::cluster::{Cluster, Spoil, applied, id};
use crate::registers::{Candidate, LEASE, billing, jobs};

/// What an acceptor has accepted.
fn accepted(store: &Memory, namespace: NamespaceId, key: &Key) -> RegisterRow {
    let row = store.get(&rows::register(namespace, key)).unwrap();
    row.map_or_else(RegisterRow::default, |row| rows::decode(&row).unwrap())
}

/// An acceptor that judges terms: it takes no state of a lower one than it holds.
fn vetoes() -> Spoil {
    Box::new(|_, _, (_, store), message| {
        let PeerMessage::AcceptRegister(accept) = &message else { return Some(message) };
        let term = |state: &tanist::core::register::RegisterState| state.bound.as_ref().map(|b| b.term);
        let held = accepted(store, accept.namespace, &accept.key).accepted;
        (held.and_then(|(_, state)| term(&state)) <= term(&accept.state)).then_some(message)
    })
}

/// A seal that one acceptor took, and nobody chose; then a write of the owner before, that two others
/// chose. Whoever recovers carries the write to the acceptor with the seal.
fn read_after_a_seal_that_was_not_chosen(spoil: Option<Spoil>) -> Option<Reply> {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let old = Candidate::new(&cluster, 1, None);
    let old_proof = old.win(&mut cluster, id(1));
    let first = old.fenced(&cluster, namespace, "one", None, Some(&old_proof));
    applied(cluster.ask(id(2), first.clone()));
    cluster.pass(u64::from(LEASE) + 100);
    let new = Candidate::new(&cluster, 2, Some((1, old.id())));
    let new_proof = new.win(&mut cluster, id(2));
    let key = Key::try_from("k").unwrap();
    let fence = new.fence();
    let of = cluster.nodes[&id(1)].config.cluster();
    let seal = tenure::Seal { cluster: of, namespace, key: key.clone(), fence };
    let signature = seal.sign(&new.key);
    // Node 2 holds the promise that came with the write: it needs nobody to accept the seal itself.
    cluster.cut.insert(id(2));
    let author = cluster.author.clone();
    cluster.start(id(2), Seal { seal, signature, tenure: Some(Arc::new(new_proof)) }, &author);
    cluster.pass(5_000);
    let sealed = accepted(&cluster.nodes[&id(2)].store.memory, namespace, &key).accepted.unwrap().1;
    assert_eq!(sealed.bound.map(|bound| bound.term), Some(new.tenure.term), "node 2 accepted the seal");
    let late = old.fenced(&cluster, namespace, "late", Some((1, first.signed.id())), Some(&old_proof));
    applied(cluster.ask(id(1), late.clone()));
    // Node 3 dies; a majority is left.
    cluster.spoil = spoil;
    cluster.cut = [id(3)].into();
    cluster.pass(1_000);
    let token = cluster.start(id(1), Read { namespace, key, local: false, history: false }, &author);
    cluster.pass(10_000);
    let reply = cluster.replies.remove(&token);
    if let Some(Reply::Versions(read)) = &reply {
        assert_eq!(read.versions[0].version.id(), late.signed.id(), "it was applied");
    }
    reply
}

#[test]
fn attack_08_terms_are_not_for_acceptors_to_judge() {
    let read = read_after_a_seal_that_was_not_chosen(None);
    assert!(matches!(read, Some(Reply::Versions(_))), "{read:?}");
    let read = read_after_a_seal_that_was_not_chosen(Some(vetoes()));
    assert!(!matches!(read, Some(Reply::Versions(_))), "the key is stuck: {read:?}");
}

/// A voter to which every acceptance is hearing from the owner.
fn hears_acceptances() -> Spoil {
    let mut heard: BTreeMap<MemberId, u64> = BTreeMap::new();
    Box::new(move |now, from, (to, _), mut message| {
        match &mut message {
            PeerMessage::AcceptRegister(accept) if accept.key == billing() => {
                heard.insert(from, now);
                heard.insert(to, now);
            }
            PeerMessage::ShowRegister(show) if show.key == billing() => {
                if let (Some(shown), Some(at)) = (&mut show.shown, heard.get(&from)) {
                    shown.left_ms = (at + u64::from(LEASE)).saturating_sub(now);
                }
            }
            _ => {}
        }
        Some(message)
    })
}

/// Whether a dead owner is followed, though rounds carry its tenure to the voters again and again.
fn is_followed(spoil: Option<Spoil>) -> bool {
    let mut cluster = Cluster::new();
    cluster.spoil = spoil;
    let owner = Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    let rival = Candidate::new(&cluster, 2, Some((1, owner.id())));
    for _ in 0..10 {
        cluster.pass(300);
        let again = cluster.ask(id(3), Campaign { afresh: true, ..owner.campaign() });
        assert!(matches!(again, Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. })));
    }
    let reply = cluster.ask(id(1), rival.campaign());
    matches!(reply, Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. }))
}

#[test]
fn attack_10c_an_acceptance_again_does_not_keep_a_dead_owner_alive() {
    assert!(is_followed(None));
    assert!(!is_followed(Some(hears_acceptances())));
}

/// A replica that promised a takeover hears its owner no more, even if the candidate never comes back; a
/// round of the owner's own tenure is what brings the two together. (The models play it without the rule.)
#[test]
fn attack_10a_no_renewal_is_heard_after_a_takeover_was_promised() {
    let mut cluster = Cluster::new();
    let mut owner = Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    cluster.pass(u64::from(LEASE) + 100);
    // The takeover is promised by all, and what the candidate wants accepted reaches nobody.
    cluster.spoil = Some(Box::new(|_, _, _, message| match message {
        PeerMessage::AcceptRegister(accept) if accept.key == billing() => None,
        message => Some(message),
    }));
    let rival = Candidate::new(&cluster, 2, Some((1, owner.id())));
    let author = cluster.author.clone();
    let token = cluster.start(id(2), rival.campaign(), &author);
    cluster.run();
    assert!(!cluster.replies.contains_key(&token), "nothing is chosen yet");
    let renewed: Vec<Renewed> = [1, 3].map(|node| owner.renew(&mut cluster, id(node))).into();
    assert!(renewed.iter().all(|said| matches!(said, Renewed::TakeoverPromised { .. })), "{renewed:?}");
    assert_eq!(owner.renew(&mut cluster, id(2)), Renewed::OtherTenure);
}

/// Takes what was accepted under a ballot for what the reader holds of that ballot.
fn compares_ballots_only() -> Spoil {
    let mut known = BTreeMap::new();
    Box::new(move |_, from, (to, _), mut message| {
        match &mut message {
            PeerMessage::AskRegister(ask) => drop(known.insert(from, ask.known)),
            PeerMessage::ShowRegister(show) => {
                if let (Some(shown), Some(known)) = (&mut show.shown, known.get(&to)) {
                    (shown.hash, shown.state) = (*known, None);
                }
            }
            _ => {}
        }
        Some(message)
    })
}

/// A read of a register of which two acceptors hold different states of one ballot, as after a ballot
/// that was used twice. Whether it asked for promises before it answered.
fn a_read_of_two_states_of_one_ballot_begins_a_round(spoil: Option<Spoil>) -> bool {
    let key = Key::try_from("k").unwrap();
    let written = |value: &str| {
        let mut cluster = Cluster::new();
        let namespace = jobs(&mut cluster);
        let write = cluster.write(namespace, "k", value, &[]);
        applied(cluster.ask(id(1), write.clone()));
        (cluster, namespace, write.signed.id())
    };
    let (other, namespace, write) = written("other");
    let put = |key: Bytes| {
        let value = other.nodes[&id(2)].store.memory.get(&key).unwrap().unwrap();
        Change::Put { key, value }
    };
    let object = ObjectId::new(namespace, &key);
    let changes = vec![put(rows::register(namespace, &key)), put(rows::value(object, write))];

    let (mut cluster, same, _) = written("one");
    let ballot =
        |cluster: &Cluster| accepted(&cluster.nodes[&id(2)].store.memory, same, &key).accepted.unwrap().0;
    assert_eq!((same, ballot(&cluster)), (namespace, ballot(&other)), "the same course, but for the value");
    let store = &cluster.nodes[&id(2)].store.memory;
    store.commit(&Batch { number: store.last_batch() + 1, changes }).unwrap();
    cluster.restart(id(2));
    cluster.pass(1_000);
    cluster.cut = [id(3)].into();
    cluster.pass(1_000);
    let began = Rc::new(Cell::new(false));
    let (seen, mut spoil) = (Rc::clone(&began), spoil);
    cluster.spoil = Some(Box::new(move |now, from, to, message| {
        seen.set(seen.get() || matches!(message, PeerMessage::PrepareRegister(_)));
        match &mut spoil {
            Some(spoil) => spoil(now, from, to, message),
            None => Some(message),
        }
    }));
    let author = cluster.author.clone();
    cluster.start(id(1), Read { namespace, key: key.clone(), local: false, history: false }, &author);
    cluster.pass(5_000);
    began.get()
}

#[test]
fn a_quick_read_compares_hashes() {
    assert!(a_read_of_two_states_of_one_ballot_begins_a_round(None));
    assert!(!a_read_of_two_states_of_one_ballot_begins_a_round(Some(compares_ballots_only())));
}
