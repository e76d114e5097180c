//! Registers and ownership: what one request does, step by step.

use std::sync::Arc;

use bytes::Bytes;
use tanist::core::certificate::prove;
use tanist::core::chain::Mode;
use tanist::core::identity::{MemberId, SecretKey};
use tanist::core::limits;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::tenure::{self, Renewal, TENURE_FORMAT, Tenure, TenureProof, sign_fence};
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, Fence, Term, WRITE_FORMAT, Write, WriteId};
use tanist::wire::client::{Failure, Read, Submit, Submitted};
use tanist::wire::ownership::{Ballots, Campaign, Campaigned, Observe, Observed, Renew, Renewed};
use tanist::wire::register::{AskVerdict, Seal, Sealed, Verdict};
use tanist::wire::registry::Reply;
use tanist::wire::values::Values;

use crate::cluster::{Cluster, applied, id};

pub const LEASE: u32 = 2_000;

/// Somebody who campaigns: its tenure key and its tenure.
#[derive(Clone)]
pub struct Candidate {
    pub key: SecretKey,
    pub tenure: Tenure,
    pub signed: Arc<SignedWrite>,
    sequence: u64,
}

impl Candidate {
    /// A candidate for "billing" that names `parent`, of a generation before.
    pub fn new(cluster: &Cluster, seed: u8, parent: Option<(u64, WriteId)>) -> Self {
        let key = SecretKey::from_seed(&[seed; 32]);
        let term = Term { recovery: 0, number: 1 + parent.map_or(0, |(generation, _)| generation) };
        let tenure = Tenure { format: TENURE_FORMAT, term, key: Some(key.public()), lease_ms: LEASE };
        let signed = tenure_write(cluster, &tenure, parent, None);
        Candidate { key, tenure, signed, sequence: 0 }
    }

    pub fn campaign(&self) -> Campaign {
        Campaign { signed: Arc::clone(&self.signed), tenure: None, afresh: false, value: value(&self.tenure) }
    }

    pub fn id(&self) -> WriteId {
        self.signed.id()
    }

    pub fn fence(&self) -> Fence {
        Fence { resource: billing(), term: self.tenure.term, tenure: self.id() }
    }

    /// Campaigns, expects to win, and checks the certificate.
    pub fn win(&self, cluster: &mut Cluster, at: MemberId) -> TenureProof {
        match cluster.ask(at, self.campaign()) {
            Reply::Campaigned(Campaigned { result: Ballots::Chosen { ballot, votes }, .. }) => {
                let proof = TenureProof {
                    signed: SignedWrite::clone(&self.signed),
                    tenure: self.tenure.clone(),
                    ballot,
                    votes,
                };
                let proven = prove(&proof, &cluster.nodes[&id(1)].config).unwrap();
                assert_eq!(proven.term, self.tenure.term);
                proof
            }
            other => panic!("not chosen: {other:?}"),
        }
    }

    /// Says to one voter that it is alive.
    pub fn renew(&mut self, cluster: &mut Cluster, at: MemberId) -> Renewed {
        let renew = self.renewal(cluster);
        match cluster.ask(at, renew) {
            Reply::Renewed(renewed) => renewed,
            other => panic!("{other:?}"),
        }
    }

    /// The next renewal.
    pub fn renewal(&mut self, cluster: &Cluster) -> Renew {
        self.sequence += 1;
        let renewal = Renewal {
            cluster: cluster.nodes[&id(1)].config.cluster(),
            resource: billing(),
            tenure: self.id(),
            sequence: self.sequence,
        };
        let signature = renewal.sign(&self.key);
        Renew { renewal, key: self.key.public(), signature }
    }

    /// A resignation.
    pub fn resign(&self, cluster: &Cluster, proof: TenureProof) -> Campaign {
        let term = Term { number: self.tenure.term.number + 1, ..self.tenure.term };
        let tenure = Tenure { format: TENURE_FORMAT, term, key: None, lease_ms: LEASE };
        let parent = (self.tenure.term.number, self.id());
        let signed = tenure_write(cluster, &tenure, Some(parent), Some((self.fence(), &self.key)));
        Campaign { signed, tenure: Some(Arc::new(proof)), afresh: false, value: value(&tenure) }
    }

    /// A write of "jobs/k" under this tenure.
    pub fn fenced(
        &self,
        cluster: &Cluster,
        namespace: NamespaceId,
        text: &str,
        parent: Option<(u64, WriteId)>,
        proof: Option<&TenureProof>,
    ) -> Submit {
        let mut submit = cluster.write(namespace, "k", text, parent.as_slice());
        let write = Write { fence: Some(self.fence()), ..submit.signed.write().clone() };
        let author = sign_one(&cluster.author, write.cluster, write.id().into());
        let fence = sign_fence(&self.key, write.cluster, write.id());
        submit.signed = Arc::new(SignedWrite::new(write, author, Some(fence)));
        submit.tenure = proof.cloned().map(Arc::new);
        submit
    }
}

pub fn billing() -> Key {
    Key::try_from("billing").unwrap()
}

fn value(tenure: &Tenure) -> Values {
    [Bytes::from(tenure.encode())].into_iter().collect()
}

fn tenure_write(
    cluster: &Cluster,
    tenure: &Tenure,
    parent: Option<(u64, WriteId)>,
    fence: Option<(Fence, &SecretKey)>,
) -> Arc<SignedWrite> {
    let id = cluster.nodes[&id(1)].config.cluster();
    let write = Write {
        format: WRITE_FORMAT,
        cluster: id,
        namespace: NamespaceId::resources(id),
        key: billing(),
        epoch: 1,
        generation: tenure.term.number,
        parents: parent.map(|(_, id)| id).into_iter().collect(),
        body: Body::put(&tenure.encode()),
        author: cluster.author.public(),
        nonce: [9; 16],
        fence: fence.as_ref().map(|(fence, _)| fence.clone()),
        wall_ms: 0,
    };
    let author = sign_one(&cluster.author, id, write.id().into());
    let signature = fence.map(|(_, key)| sign_fence(key, id, write.id()));
    Arc::new(SignedWrite::new(write, author, signature))
}

pub fn jobs(cluster: &mut Cluster) -> NamespaceId {
    cluster.namespace_of("jobs", Mode::Linearizable, None)
}

pub fn read(
    cluster: &mut Cluster,
    at: MemberId,
    namespace: NamespaceId,
    local: bool,
) -> Option<(WriteId, Bytes)> {
    let key = Key::try_from("k").unwrap();
    match cluster.ask(at, Read { namespace, key, local, history: false }) {
        Reply::Versions(mut versions) => {
            let listed = versions.versions.pop()?;
            assert_eq!(versions.values.as_slice().len(), 1);
            Some((listed.version.id(), versions.values.as_slice()[0].clone()))
        }
        other => panic!("{other:?}"),
    }
}

pub fn refused(reply: Reply) -> Vec<WriteId> {
    match reply {
        Reply::Submitted(Submitted::Refused { current: Some(current) }) => {
            current.iter().map(|version| version.id()).collect()
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn one_of_two_writes_that_read_the_same_is_applied_and_the_other_refused_with_it() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let (one, two) = (cluster.write(namespace, "k", "one", &[]), cluster.write(namespace, "k", "two", &[]));
    let author = cluster.author.clone();
    let first = cluster.start(id(1), one.clone(), &author);
    let second = cluster.start(id(2), two.clone(), &author);
    cluster.pass(2_000);
    let (first, second) = (cluster.replies.remove(&first).unwrap(), cluster.replies.remove(&second).unwrap());
    let (winner, loser) = match &first {
        Reply::Submitted(Submitted::Applied { .. }) => (one.signed.id(), second),
        _ => (two.signed.id(), first),
    };
    assert_eq!(refused(loser), [winner]);
    for at in 1..=3 {
        assert_eq!(read(&mut cluster, id(at), namespace, false).unwrap().0, winner);
    }
    cluster.pass(50);
    // What is known to be chosen comes to everybody, and is shown without asking anybody.
    for at in 1..=3 {
        assert_eq!(read(&mut cluster, id(at), namespace, true).unwrap().0, winner);
    }
}

#[test]
fn in_the_steady_state_a_write_costs_one_round_trip_and_one_batch_a_replica() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let mut parent = None;
    for n in 0..10 {
        let before: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
        let sent = cluster.sent;
        let write = cluster.write(namespace, "k", &n.to_string(), parent.as_slice());
        assert_eq!(applied(cluster.ask(id(1), write.clone())), []);
        parent = Some((n + 1, write.signed.id()));
        if n == 0 {
            continue;
        }
        let after: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
        let cost: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        assert_eq!(cost, [1, 1, 1], "one batch on every replica");
        assert_eq!(cluster.sent - sent, 4, "two accepts and their answers");
    }
    let sent = cluster.sent;
    let before: u64 = cluster.nodes.values().map(|node| node.batches).sum();
    assert_eq!(read(&mut cluster, id(2), namespace, false).unwrap().1, "9");
    assert_eq!(cluster.sent - sent, 4, "a read asks once");
    assert_eq!(cluster.nodes.values().map(|node| node.batches).sum::<u64>(), before, "and writes nothing");
}

#[test]
fn attack_01_two_writes_drained_together_do_not_both_win() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let author = cluster.author.clone();
    let writes: Vec<Submit> =
        ["one", "two", "three"].map(|text| cluster.write(namespace, "k", text, &[])).into();
    let tokens: Vec<u64> = writes.iter().map(|write| cluster.start(id(1), write.clone(), &author)).collect();
    cluster.run();
    let replies: Vec<Reply> = tokens.iter().map(|token| cluster.replies.remove(token).unwrap()).collect();
    let won = replies.iter().filter(|r| matches!(r, Reply::Submitted(Submitted::Applied { .. }))).count();
    assert_eq!(won, 1, "{replies:?}");
}

#[test]
fn attack_04b_a_retry_after_being_built_upon_is_applied_not_refused() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let mut parent = None;
    let mut writes = Vec::new();
    for n in 0..40u64 {
        let write = cluster.write(namespace, "k", &n.to_string(), parent.as_slice());
        applied(cluster.ask(id(1), write.clone()));
        parent = Some((n + 1, write.signed.id()));
        writes.push(write);
    }
    applied(cluster.ask(id(3), writes[38].clone()));
    applied(cluster.ask(id(2), writes[40 - limits::RECENT].clone()));
    let forgotten = cluster.ask(id(2), writes[40 - limits::RECENT - 1].clone());
    assert_eq!(forgotten, Reply::Submitted(Submitted::Forgotten), "never refused, which would be a lie");
    // Another write of a generation that is remembered was not applied, and that is told.
    let other = cluster.write(namespace, "k", "other", &[(38, writes[37].signed.id())]);
    assert_eq!(refused(cluster.ask(id(2), other)), [writes[39].signed.id()]);
}

#[test]
fn a_write_that_was_proposed_and_is_forgotten_is_in_doubt() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "0", &[]);
    applied(cluster.ask(id(1), first.clone()));
    // Node 1 accepts alone, and waits for answers.
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    let write = cluster.write(namespace, "k", "1", &[(1, first.signed.id())]);
    let token = cluster.start(id(1), write.clone(), &author);
    cluster.run();
    // What it accepted is recovered by node 2, and built upon until nobody remembers it.
    cluster.cut = [id(3)].into();
    let mut parent = (2, write.signed.id());
    for n in 2..2 + limits::RECENT as u64 {
        let next = cluster.write(namespace, "k", &n.to_string(), &[parent]);
        applied(cluster.ask(id(2), next.clone()));
        parent = (n + 1, next.signed.id());
    }
    cluster.cut.clear();
    cluster.pass(5_000);
    let reply = cluster.replies.remove(&token).unwrap();
    assert!(matches!(reply, Reply::Submitted(Submitted::Incomplete { .. })), "it was applied: {reply:?}");
    assert_eq!(
        cluster.ask(id(1), write),
        Reply::Submitted(Submitted::Forgotten),
        "a new request risked nothing"
    );
}

#[test]
fn r2_a_write_of_a_later_generation_is_not_refused_but_can_be_forbidden() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    let reply = cluster.ask(id(1), second.clone());
    assert_eq!(reply, Reply::Failure(Failure::UnknownParents(vec![first.signed.id()])));
    let ask = |forbid| AskVerdict { signed: Arc::clone(&second.signed), forbid };
    assert_eq!(cluster.ask(id(1), ask(false)), Reply::Verdict(Verdict::Open));
    assert_eq!(cluster.ask(id(2), ask(true)), Reply::Verdict(Verdict::Refused { current: None }));
    applied(cluster.ask(id(1), first.clone()));
    assert_eq!(refused(cluster.ask(id(3), second.clone())), [first.signed.id()]);
    let third = cluster.write(namespace, "k", "three", &[(1, first.signed.id())]);
    applied(cluster.ask(id(3), third));
    assert!(matches!(cluster.ask(id(1), ask(false)), Reply::Verdict(Verdict::Refused { .. })));
}

#[test]
fn a_lost_answer_is_found_out_whoever_is_asked() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let write = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), write.clone()));
    cluster.cut.insert(id(1));
    for other in [2, 3] {
        cluster.input(id(other), tanist::engine::Input::PeerDown(id(1)));
    }
    let ask = AskVerdict { signed: Arc::clone(&write.signed), forbid: true };
    let reply = cluster.ask(id(2), ask);
    assert!(matches!(reply, Reply::Verdict(Verdict::Applied { superseded_by: None, .. })), "{reply:?}");
}

#[test]
fn attack_20_r8_what_few_accepted_is_carried_or_lost_and_not_shown_before() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    // Node 1 accepts alone: its messages do not arrive.
    cluster.cut.insert(id(1));
    let author = cluster.author.clone();
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    let token = cluster.start(id(1), second.clone(), &author);
    cluster.pass(5_000);
    let reply = cluster.replies.remove(&token).unwrap();
    assert!(matches!(reply, Reply::Submitted(Submitted::Incomplete { .. })), "{reply:?}");
    assert_eq!(read(&mut cluster, id(1), namespace, true).map(|(id, _)| id), Some(first.signed.id()), "R8");
    cluster.cut.clear();
    // Whatever a read shows now stays.
    let shown = read(&mut cluster, id(2), namespace, false).unwrap().0;
    for at in 1..=3 {
        assert_eq!(read(&mut cluster, id(at), namespace, false).unwrap().0, shown);
    }
    let ask = AskVerdict { signed: Arc::clone(&second.signed), forbid: true };
    // Asked for good, it is applied if whoever answered still holds it, and never else.
    let after = match cluster.ask(id(3), ask.clone()) {
        Reply::Verdict(Verdict::Applied { .. }) => second.signed.id(),
        Reply::Verdict(Verdict::Refused { .. }) => first.signed.id(),
        other => panic!("{other:?}"),
    };
    for at in 1..=3 {
        assert_eq!(read(&mut cluster, id(at), namespace, false).unwrap().0, after);
    }
}

#[test]
fn a_restarted_node_keeps_what_it_promised_and_accepted() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let mut parent = None;
    for n in 0..6u64 {
        let write = cluster.write(namespace, "k", &n.to_string(), parent.as_slice());
        applied(cluster.ask(id(1 + (n % 3) as u8), write.clone()));
        parent = Some((n + 1, write.signed.id()));
        cluster.restart(id(1 + (n % 3) as u8));
    }
    assert_eq!(read(&mut cluster, id(2), namespace, false).unwrap().0, parent.unwrap().1);
}

#[test]
fn a_resource_has_one_owner_who_is_proved_and_followed_when_its_lease_ran_out() {
    let mut cluster = Cluster::new();
    let mut first = Candidate::new(&cluster, 1, None);
    first.win(&mut cluster, id(1));
    let second = Candidate::new(&cluster, 2, Some((1, first.id())));
    match cluster.ask(id(2), second.campaign()) {
        Reply::Campaigned(Campaigned { result: Ballots::Running { left_ms }, version, .. }) => {
            assert!((1..=u64::from(LEASE)).contains(&left_ms), "{left_ms}");
            assert_eq!(version.unwrap().id(), first.id());
        }
        other => panic!("{other:?}"),
    }
    // A heartbeat on a majority keeps it.
    cluster.pass(1_500);
    let Renewed::Heard { ballot } = first.renew(&mut cluster, id(1)) else { panic!() };
    assert_eq!(first.renew(&mut cluster, id(3)), Renewed::Heard { ballot });
    cluster.pass(1_000);
    let running = cluster.ask(id(2), second.campaign());
    assert!(matches!(running, Reply::Campaigned(Campaigned { result: Ballots::Running { .. }, .. })));
    // A dead owner is followed, and looking at it meanwhile does not keep it alive (attack 10c).
    for _ in 0..10 {
        cluster.pass(100);
        let observed = cluster.ask(id(3), Observe { resource: billing() });
        assert!(matches!(observed, Reply::Observed(Observed { version: Some(_), .. })));
    }
    let proof = second.win(&mut cluster, id(2));
    assert_eq!(first.renew(&mut cluster, id(1)), Renewed::OtherTenure);
    match cluster.ask(id(1), Observe { resource: billing() }) {
        Reply::Observed(Observed { version, votes, .. }) => {
            assert_eq!(version.unwrap().id(), second.id());
            assert!(votes.len() >= 2);
        }
        other => panic!("{other:?}"),
    }
    // Two campaigns of one generation: the later one is refused for good.
    let late = Candidate::new(&cluster, 3, Some((1, first.id())));
    let reply = cluster.ask(id(1), late.campaign());
    assert!(matches!(reply, Reply::Campaigned(Campaigned { result: Ballots::Refused, .. })), "{reply:?}");
    // A resignation needs no lease to run out, and has its own term.
    match cluster.ask(id(3), second.resign(&cluster, proof)) {
        Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. }) => {}
        other => panic!("{other:?}"),
    }
    let resigned = match cluster.ask(id(1), Observe { resource: billing() }) {
        Reply::Observed(Observed { version: Some(version), left_ms: 0, .. }) => version,
        other => panic!("{other:?}"),
    };
    let next = Candidate::new(&cluster, 4, Some((3, resigned.id())));
    let term = next.win(&mut cluster, id(2)).tenure.term;
    assert_eq!(term.number, 4);
}

#[test]
fn attack_10_what_a_voter_does_with_renewals_and_takeovers() {
    let mut cluster = Cluster::new();
    let mut owner = Candidate::new(&cluster, 1, None);
    owner.win(&mut cluster, id(1));
    // A restart counts as hearing.
    cluster.pass(1_900);
    for n in 1..=3 {
        cluster.restart(id(n));
    }
    cluster.pass(500);
    let rival = Candidate::new(&cluster, 2, Some((1, owner.id())));
    let reply = cluster.ask(id(2), rival.campaign());
    assert!(matches!(reply, Reply::Campaigned(Campaigned { result: Ballots::Running { .. }, .. })));
    // An old renewal that is sent again counts for nothing.
    assert!(matches!(owner.renew(&mut cluster, id(1)), Renewed::Heard { .. }));
    owner.sequence -= 1;
    assert_eq!(owner.renew(&mut cluster, id(1)), Renewed::Repeated);
    // Another key than the tenure's is not the owner.
    let mut thief = Candidate { key: SecretKey::from_seed(&[66; 32]), ..owner.clone() };
    thief.sequence = 10;
    assert_eq!(thief.renew(&mut cluster, id(1)), Renewed::OtherTenure);
    // A round of its own tenure, afresh, brings it to all voters at one ballot.
    let afresh = Campaign { afresh: true, ..owner.campaign() };
    let reply = cluster.ask(id(2), afresh);
    assert!(
        matches!(reply, Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. })),
        "{reply:?}"
    );
    owner.sequence = 20;
    let ballots: Vec<Renewed> = (1..=3).map(|n| owner.renew(&mut cluster, id(n))).collect();
    assert!(ballots.iter().all(|b| *b == ballots[0] && matches!(b, Renewed::Heard { .. })), "{ballots:?}");
}

#[test]
fn p7_a_write_of_a_lower_term_is_never_applied_after_a_higher_one() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let old = Candidate::new(&cluster, 1, None);
    let old_proof = old.win(&mut cluster, id(1));
    let first = old.fenced(&cluster, namespace, "one", None, Some(&old_proof));
    applied(cluster.ask(id(1), first.clone()));
    cluster.pass(2_100);
    let new = Candidate::new(&cluster, 2, Some((1, old.id())));
    let new_proof = new.win(&mut cluster, id(2));
    // The new owner seals what it guards before it acts.
    let key = Key::try_from("k").unwrap();
    let seal =
        tenure::Seal { cluster: cluster.nodes[&id(1)].config.cluster(), namespace, key, fence: new.fence() };
    let signature = seal.sign(&new.key);
    let sealing = Seal { seal, signature, tenure: Some(Arc::new(new_proof.clone())) };
    match cluster.ask(id(3), sealing.clone()) {
        Reply::Sealed(Sealed { result: Ok(()), version: Some(version), value }) => {
            assert_eq!(version.id(), first.signed.id());
            assert_eq!(value.as_slice()[0], "one");
        }
        other => panic!("{other:?}"),
    }
    let parent = Some((1, first.signed.id()));
    let late = old.fenced(&cluster, namespace, "late", parent, Some(&old_proof));
    match cluster.ask(id(1), late) {
        Reply::Submitted(Submitted::Fenced(bound)) => assert_eq!(bound.term, new.tenure.term),
        other => panic!("{other:?}"),
    }
    // Nor is one without a fence (attack 17).
    let plain = cluster.write(namespace, "k", "plain", parent.as_slice());
    assert!(matches!(cluster.ask(id(2), plain), Reply::Submitted(Submitted::Fenced(_))));
    applied(cluster.ask(id(2), new.fenced(&cluster, namespace, "two", parent, Some(&new_proof))));
    // The old one cannot seal it back.
    let seal = tenure::Seal { fence: old.fence(), ..sealing.seal };
    let signature = seal.sign(&old.key);
    match cluster.ask(id(2), Seal { seal, signature, tenure: Some(Arc::new(old_proof)) }) {
        Reply::Sealed(Sealed { result: Err(bound), version: None, .. }) => {
            assert_eq!(bound.term, new.tenure.term);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn attack_17_a_term_is_not_for_anybody_to_choose() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace_of("ledger", Mode::Linearizable, Some("billing"));
    // A key of an owned namespace is bound from birth.
    let plain = cluster.write(namespace, "k", "plain", &[]);
    assert!(matches!(cluster.ask(id(1), plain), Reply::Submitted(Submitted::Fenced(_))));
    // A term that does not follow from the generation is no tenure.
    let mut greedy = Candidate::new(&cluster, 1, None);
    greedy.tenure.term.number = u64::MAX;
    greedy.signed = {
        let honest = Candidate::new(&cluster, 1, None);
        let write = Write { body: Body::put(&greedy.tenure.encode()), ..honest.signed.write().clone() };
        let proof = sign_one(&cluster.author, write.cluster, write.id().into());
        Arc::new(SignedWrite::new(write, proof, None))
    };
    assert!(matches!(cluster.ask(id(1), greedy.campaign()), Reply::Failure(Failure::Rejected(_))));
    // Nobody signs itself a term: without the proof a fence is not taken.
    let owner = Candidate::new(&cluster, 1, None);
    let proof = owner.win(&mut cluster, id(1));
    let mut liar = owner.clone();
    liar.tenure.term.number = 7;
    let write = liar.fenced(&cluster, namespace, "x", None, Some(&proof));
    assert!(matches!(cluster.ask(id(1), write), Reply::Failure(Failure::Rejected(_))));
    let write = owner.fenced(&cluster, namespace, "x", None, Some(&proof));
    applied(cluster.ask(id(2), write));
}

#[test]
fn a_fence_needs_its_proof_once() {
    let mut cluster = Cluster::new();
    let namespace = jobs(&mut cluster);
    let owner = Candidate::new(&cluster, 1, None);
    let proof = owner.win(&mut cluster, id(1));
    let first = owner.fenced(&cluster, namespace, "one", None, None);
    assert_eq!(cluster.ask(id(1), first.clone()), Reply::Failure(Failure::NeedsTenure));
    applied(cluster.ask(id(1), Submit { tenure: Some(Arc::new(proof)), ..first.clone() }));
    let parent = Some((1, first.signed.id()));
    applied(cluster.ask(id(1), owner.fenced(&cluster, namespace, "two", parent, None)));
}

/// Found by the simulator, seed 1507: jobs that share a round share its votes.
#[test]
fn a_tenure_that_ends_in_the_round_that_proves_it_is_not_shown_with_the_votes_for_its_end() {
    let mut cluster = Cluster::new();
    let owner = Candidate::new(&cluster, 1, None);
    let proof = owner.win(&mut cluster, id(1));
    let author = cluster.author.clone();
    let first = cluster.start(id(1), Observe { resource: billing() }, &author);
    // These two wait for the first one, and are taken together.
    let afresh = cluster.start(id(1), Campaign { afresh: true, ..owner.campaign() }, &author);
    let resign = owner.resign(&cluster, proof);
    let resigned = cluster.start(id(1), resign, &author);
    cluster.pass(3_000);
    assert!(matches!(cluster.replies.remove(&first), Some(Reply::Observed(_))));
    assert!(matches!(
        cluster.replies.remove(&resigned),
        Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { .. }, .. }))
    ));
    match cluster.replies.remove(&afresh) {
        Some(Reply::Campaigned(Campaigned { result: Ballots::Chosen { ballot, votes }, .. })) => {
            let signed = SignedWrite::clone(&owner.signed);
            let proof = TenureProof { signed, tenure: owner.tenure.clone(), ballot, votes };
            prove(&proof, &cluster.nodes[&id(1)].config).unwrap();
        }
        Some(Reply::Campaigned(Campaigned { result: Ballots::Refused, .. })) => {}
        other => panic!("{other:?}"),
    }
}
