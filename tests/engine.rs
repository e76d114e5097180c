//! Three machines, a network that loses nothing, and no clock: what one request does, step by step.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tanist::core::chain::{
    Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Mode, NamespacePolicy, Rights,
    SignedEntry, Voters,
};
use tanist::core::cluster::Configuration;
use tanist::core::hash::Hash;
use tanist::core::identity::{Incarnation, MemberId, SecretKey};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::verified::RootCache;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use tanist::engine::machine::Machine;
use tanist::engine::{Effect, Identity, Input, Timing, arrival};
use tanist::storage::Store as _;
use tanist::storage::memory::Memory;
use tanist::wire::client::{
    AskOutcome, AskStatus, Failure, List, OnConflict, Outcome, Propose, Proposed, Read, Submit, Submitted,
};
use tanist::wire::registry::{Reply, Request};
use tanist::wire::values::Values;

struct Node {
    machine: Machine,
    store: Memory,
    config: Arc<Configuration>,
    batches: u64,
}

struct Cluster {
    nodes: BTreeMap<MemberId, Node>,
    wire: VecDeque<(MemberId, MemberId, tanist::wire::frame::Frame)>,
    replies: BTreeMap<u64, Reply>,
    cache: RootCache,
    sent: u64,
    token: u64,
    admin: SecretKey,
    author: SecretKey,
}

fn id(n: u8) -> MemberId {
    MemberId([n; 16])
}

impl Cluster {
    fn new() -> Self {
        let admin = SecretKey::from_seed(&[100; 32]);
        let author = SecretKey::from_seed(&[101; 32]);
        let members: Vec<Member> = (1..=3u8)
            .map(|n| Member {
                id: id(n),
                name: format!("node-{n}"),
                key: SecretKey::from_seed(&[n; 32]).public(),
                incarnation: Incarnation([n; 16]),
                zone: String::new(),
            })
            .collect();
        let all =
            Grant { author: Some(author.public()), namespace: None, prefix: vec![], rights: Rights::ALL };
        let voters = Voters {
            nonce: [7; 16],
            recovery: 0,
            electorate: members.iter().map(|m| m.id).collect(),
            members,
            replicas: 3,
            admins: vec![admin.public()],
            grants: vec![all],
        };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Voters,
            number: 1,
            previous: Hash([0; 32]),
            change: ConfigChange::Voters(voters),
        };
        let cluster = tanist::core::identity::ClusterId(entry.hash().0);
        let proof = sign_one(&admin, cluster, entry.hash());
        let genesis = Decided::genesis(SignedEntry { entry, admin: Some((admin.public(), proof)) });
        let nodes = (1..=3u8)
            .map(|n| {
                let store = Memory::new();
                let identity = Identity {
                    member: id(n),
                    incarnation: Incarnation([n; 16]),
                    key: SecretKey::from_seed(&[n; 32]),
                    software: "test".to_owned(),
                    first_operation: 0,
                };
                let machine =
                    Machine::new(identity, genesis.clone(), Timing::default(), 0, 0, &store).unwrap();
                let config = Arc::clone(machine.config());
                (id(n), Node { machine, store, config, batches: 0 })
            })
            .collect();
        let mut cluster = Cluster {
            nodes,
            wire: VecDeque::new(),
            replies: BTreeMap::new(),
            cache: RootCache::default(),
            sent: 0,
            token: 0,
            admin,
            author,
        };
        for a in 1..=3 {
            for b in 1..=3 {
                if a != b {
                    cluster.input(id(a), Input::PeerUp(id(b)));
                }
            }
        }
        cluster.run();
        cluster
    }

    fn input(&mut self, at: MemberId, input: Input) {
        let node = self.nodes.get_mut(&at).unwrap();
        node.machine.step(0, input, &node.store).unwrap();
    }

    /// Syncs and delivers until nothing moves.
    fn run(&mut self) {
        loop {
            let mut moved = false;
            for member in [id(1), id(2), id(3)] {
                let node = self.nodes.get_mut(&member).unwrap();
                if let Some(batch) = node.machine.close() {
                    node.store.commit(&batch).unwrap();
                    node.batches += 1;
                    node.machine.synced();
                    moved = true;
                }
                for effect in node.machine.released() {
                    moved = true;
                    match effect {
                        Effect::Send { to, envelope, message } => {
                            self.sent += 1;
                            self.wire.push_back((member, to, message.encode(envelope)));
                        }
                        Effect::Reply { token, reply } => {
                            self.replies.insert(token, reply);
                        }
                        Effect::Configured(config) => node.config = config,
                        other => panic!("{other:?}"),
                    }
                }
            }
            while let Some((from, to, frame)) = self.wire.pop_front() {
                moved = true;
                let node = self.nodes.get_mut(&to).unwrap();
                let checked = arrival::message(frame, from, &node.config, &self.cache).unwrap();
                assert_eq!(checked.rejected, []);
                for input in checked.inputs {
                    node.machine.step(0, input, &node.store).unwrap();
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn start(&mut self, at: MemberId, request: impl Into<Request>, key: &SecretKey) -> u64 {
        self.token += 1;
        let token = self.token;
        let node = self.nodes.get_mut(&at).unwrap();
        match arrival::request(request.into().encode(), key.public(), &node.config, &self.cache) {
            Ok(request) => self.input(at, Input::Request { token, request }),
            Err(failure) => {
                self.replies.insert(token, failure.into());
            }
        }
        token
    }

    fn ask(&mut self, at: MemberId, request: impl Into<Request>) -> Reply {
        let author = self.author.clone();
        let token = self.start(at, request, &author);
        self.run();
        self.replies.remove(&token).expect("an answer")
    }

    fn namespace(&mut self, name: &str) -> NamespaceId {
        let config = &self.nodes[&id(1)].config;
        let policy =
            NamespacePolicy { name: name.parse().unwrap(), mode: Mode::Siblings, write_quorum: None };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: config.length(Chain::Policy) + 1,
            previous: config.head(Chain::Policy),
            change: ConfigChange::CreateNamespace(policy),
        };
        let proof = sign_one(&self.admin, config.cluster(), entry.hash());
        let id = NamespaceId(entry.hash().0);
        let signed = SignedEntry { entry, admin: Some((self.admin.public(), proof)) };
        let reply = self.ask(MemberId([2; 16]), Propose { signed });
        assert_eq!(reply, Reply::Proposed(Proposed::Chosen));
        id
    }

    fn write(&self, namespace: NamespaceId, key: &str, value: &str, parents: &[(u64, WriteId)]) -> Submit {
        let cluster = self.nodes[&id(1)].config.cluster();
        let mut ids: Vec<WriteId> = parents.iter().map(|(_, id)| *id).collect();
        ids.sort();
        let write = Write {
            format: WRITE_FORMAT,
            cluster,
            namespace,
            key: Key::try_from(key).unwrap(),
            epoch: 1,
            generation: 1 + parents.iter().map(|(g, _)| *g).max().unwrap_or(0),
            parents: ids,
            body: Body::put(value.as_bytes()),
            author: self.author.public(),
            nonce: Hash::of_value(value.as_bytes()).0[..16].try_into().unwrap(),
            fence: None,
            wall_ms: 0,
        };
        let proof = sign_one(&self.author, cluster, write.id().into());
        Submit {
            signed: Arc::new(SignedWrite::new(write, proof, None)),
            on_conflict: OnConflict::Refuse,
            presented: vec![],
            tenure: None,
            value: [Bytes::copy_from_slice(value.as_bytes())].into_iter().collect(),
        }
    }

    fn live(&mut self, at: MemberId, namespace: NamespaceId, key: &str) -> Vec<(u64, WriteId)> {
        let key = Key::try_from(key).unwrap();
        match self.ask(at, Read { namespace, key, local: false, history: false }) {
            Reply::Versions(v) => {
                v.versions.iter().map(|l| (l.version.write().generation, l.version.id())).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn applied(reply: Reply) -> Vec<WriteId> {
    match reply {
        Reply::Submitted(Submitted::Applied { siblings, .. }) => siblings,
        other => panic!("not applied: {other:?}"),
    }
}

#[test]
fn a_write_is_read_back_everywhere_and_costs_one_batch_a_replica() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let first = cluster.write(namespace, "k", "one", &[]);
    applied(cluster.ask(id(1), first.clone()));
    let before: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    let sent = cluster.sent;
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    assert_eq!(applied(cluster.ask(id(1), second.clone())), []);
    let after: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    for (before, after) in before.iter().zip(after) {
        assert_eq!(after - before, 1, "one batch, one sync");
    }
    assert_eq!(cluster.sent - sent, 4, "one message to each of two replicas, and their answers");
    for n in 1..=3 {
        assert_eq!(cluster.live(id(n), namespace, "k"), [(2, second.signed.id())]);
    }
}

#[test]
fn two_hundred_and_fifty_six_waiting_writes_cost_a_replica_few_syncs() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let author = cluster.author.clone();
    let before: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    let tokens: Vec<u64> = (0..256)
        .map(|n| {
            let write = cluster.write(namespace, &format!("k{n}"), "v", &[]);
            cluster.start(id(1), write, &author)
        })
        .collect();
    cluster.run();
    for token in tokens {
        assert_eq!(applied(cluster.replies.remove(&token).expect("an answer")), []);
    }
    let after: Vec<u64> = cluster.nodes.values().map(|node| node.batches).collect();
    for (before, after) in before.iter().zip(after) {
        assert!(after - before <= 8, "{} syncs", after - before);
    }
}

#[test]
fn attack_01_two_writes_drained_together_do_not_both_win() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let (a, b) = (cluster.write(namespace, "k", "a", &[]), cluster.write(namespace, "k", "b", &[]));
    let author = cluster.author.clone();
    let (first, second) = (cluster.start(id(1), a.clone(), &author), cluster.start(id(1), b, &author));
    assert!(
        cluster
            .nodes
            .get_mut(&id(1))
            .unwrap()
            .machine
            .released()
            .iter()
            .all(|effect| { !matches!(effect, Effect::Reply { .. }) }),
        "nothing is answered before the winner is synced"
    );
    cluster.run();
    applied(cluster.replies.remove(&first).unwrap());
    match cluster.replies.remove(&second).unwrap() {
        Reply::Submitted(Submitted::Refused { current: Some(current) }) => {
            assert_eq!(current.iter().map(|v| v.id()).collect::<Vec<_>>(), [a.signed.id()]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keep_both_leaves_two_siblings_and_a_write_naming_both_replaces_them() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let base = cluster.write(namespace, "k", "base", &[]);
    applied(cluster.ask(id(1), base.clone()));
    let parent = [(1, base.signed.id())];
    let mut a = cluster.write(namespace, "k", "a", &parent);
    let mut b = cluster.write(namespace, "k", "b", &parent);
    (a.on_conflict, b.on_conflict) = (OnConflict::KeepBoth, OnConflict::KeepBoth);
    applied(cluster.ask(id(1), a.clone()));
    let met = applied(cluster.ask(id(2), b.clone()));
    assert_eq!(met, [a.signed.id()], "the second writer is told at once (P2)");
    let live = cluster.live(id(3), namespace, "k");
    assert_eq!(live.len(), 2);
    let merged = cluster.write(namespace, "k", "both", &live);
    assert_eq!(applied(cluster.ask(id(3), merged.clone())), []);
    for n in 1..=3 {
        assert_eq!(cluster.live(id(n), namespace, "k"), [(3, merged.signed.id())]);
    }
}

#[test]
fn attack_04a_a_retry_after_being_built_upon_is_applied_not_refused() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let first = cluster.write(namespace, "k", "one", &[]);
    let second = cluster.write(namespace, "k", "two", &[(1, first.signed.id())]);
    applied(cluster.ask(id(1), first.clone()));
    applied(cluster.ask(id(2), second.clone()));
    for n in [3, 1, 2] {
        applied(cluster.ask(id(n), first.clone()));
        assert_eq!(cluster.live(id(n), namespace, "k"), [(2, second.signed.id())]);
    }
    let key = Key::try_from("k").unwrap();
    match cluster.ask(id(3), AskOutcome { namespace, key, write: first.signed.id() }) {
        Reply::Outcome(Outcome::Applied { superseded_by, .. }) => {
            assert_eq!(superseded_by, Some(second.signed.id()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_parents_wrong_generations_and_forged_values_change_nothing() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    let orphan = cluster.write(namespace, "k", "x", &[(4, WriteId([9; 32]))]);
    assert_eq!(cluster.ask(id(1), orphan), Reply::Failure(Failure::UnknownParents(vec![WriteId([9; 32])])));
    let base = cluster.write(namespace, "k", "base", &[]);
    applied(cluster.ask(id(1), base.clone()));
    let jump = cluster.write(namespace, "k", "jump", &[(7, base.signed.id())]);
    assert_eq!(cluster.ask(id(1), jump), Reply::Failure(Failure::Generation));
    let mut forged = cluster.write(namespace, "k", "good", &[(1, base.signed.id())]);
    forged.value = [Bytes::from_static(b"evil")].into_iter().collect();
    assert!(matches!(cluster.ask(id(1), forged), Reply::Failure(Failure::Rejected(_))));
    let mut empty = cluster.write(namespace, "k", "good", &[(1, base.signed.id())]);
    empty.value = Values::none();
    assert!(matches!(cluster.ask(id(1), empty), Reply::Failure(Failure::Rejected(_))));
    assert_eq!(cluster.live(id(2), namespace, "k"), [(1, base.signed.id())]);
}

#[test]
fn a_listing_shows_keys_in_order_and_status_counts() {
    let mut cluster = Cluster::new();
    let namespace = cluster.namespace("carts");
    for key in ["b", "a", "ab", "c"] {
        let write = cluster.write(namespace, key, "v", &[]);
        applied(cluster.ask(id(1), write));
    }
    let list = List { namespace, prefix: b"a".to_vec(), after: None, limit: 10, conflicts: false };
    match cluster.ask(id(2), list) {
        Reply::Page(page) => {
            let keys: Vec<String> = page.keys.iter().map(|k| k.key.to_string()).collect();
            assert_eq!((keys, page.next), (vec!["a".to_owned(), "ab".to_owned()], None));
        }
        other => panic!("{other:?}"),
    }
    match cluster.ask(id(1), AskStatus {}) {
        Reply::Status(status) => {
            assert_eq!(status.counts, Ok(()));
            assert!(status.counters.contains(&("stamped".to_owned(), 4)), "{:?}", status.counters);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn attack_11_one_of_two_administrators_gets_the_place() {
    let mut cluster = Cluster::new();
    let config = Arc::clone(&cluster.nodes[&id(1)].config);
    let admin = cluster.admin.clone();
    let propose = |name: &str| {
        let policy =
            NamespacePolicy { name: name.parse().unwrap(), mode: Mode::Siblings, write_quorum: None };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Policy,
            number: 1,
            previous: config.head(Chain::Policy),
            change: ConfigChange::CreateNamespace(policy),
        };
        let proof = sign_one(&admin, config.cluster(), entry.hash());
        Propose { signed: SignedEntry { entry, admin: Some((admin.public(), proof)) } }
    };
    let author = cluster.author.clone();
    let a = cluster.start(id(1), propose("one"), &author);
    let b = cluster.start(id(2), propose("two"), &author);
    cluster.run();
    let chosen = [a, b]
        .into_iter()
        .filter(|token| cluster.replies.get(token) == Some(&Reply::Proposed(Proposed::Chosen)))
        .count();
    assert!(chosen <= 1, "a chain cannot fork");
    let heads: Vec<Hash> = cluster.nodes.values().map(|n| n.config.head(Chain::Policy)).collect();
    assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{heads:?}");
}
