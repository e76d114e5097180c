//! A cluster of scripted nodes on loopback: real transport, real signatures, answers made up by the test.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::config::lengths;
use super::{Client, FenceKey, Linearizable, Siblings, Ticket};
use crate::core::chain::{
    Ballot, Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Mode, NamespacePolicy, Rights,
    SignedEntry, Vote, Voters,
};
use crate::core::cluster::Configuration;
use crate::core::events::Past;
use crate::core::hash::Hash;
use crate::core::identity::{Incarnation, MemberId, SecretKey};
use crate::core::object::ObjectId;
use crate::core::placement;
use crate::core::signature::sign_one;
use crate::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use crate::core::tenure::{Claim, TenureProof};
use crate::core::version::{SignedWrite, Stamps, Version};
use crate::core::write::{Body, WRITE_FORMAT, Write, WriteId};
use crate::transport::{Admission, Admitted, Code, Endpoint};
use crate::wire::client::{Config, Listed, Submit, Submitted, Versions};
use crate::wire::registry::{Reply, Request};
use crate::wire::values::Values;

pub(super) fn secret(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

pub(super) const AUTHOR: u8 = 100;
pub(super) const ADMIN: u8 = 200;

/// What a node does with a request.
pub(super) enum Answer {
    Now(Reply),
    Never,
    /// The connection breaks after the request has arrived.
    Break,
}

impl<R: Into<Reply>> From<R> for Answer {
    fn from(reply: R) -> Self {
        Answer::Now(reply.into())
    }
}

/// The script: which node (0 is the preferred replica of `KEY`), what it is asked.
type Script = dyn Fn(usize, &Request) -> Answer + Send + Sync;

pub(super) const KEY: &str = "k";

pub(super) struct Cluster {
    pub(super) config: Arc<Mutex<Configuration>>,
    pub(super) ticket: Ticket,
    /// Every request except for the configuration, with the number of the node.
    pub(super) asked: Arc<Mutex<Vec<(usize, Request)>>>,
    /// An entry that all nodes give out as the next one.
    pub(super) lie: Arc<Mutex<Option<Decided>>>,
    /// By placement order of `KEY`.
    order: Vec<MemberId>,
    _nodes: Vec<Endpoint>,
}

struct Everybody;

impl Admission for Everybody {
    fn admit(&self, _: &crate::core::identity::PublicKey) -> Option<Admitted> {
        Some(Admitted::Client)
    }
}

fn founding() -> Decided {
    let member = |seed: u8| Member {
        id: MemberId([seed; 16]),
        name: format!("node-{seed}"),
        key: secret(seed).public(),
        incarnation: Incarnation([seed; 16]),
        zone: String::new(),
    };
    let voters = Voters {
        nonce: [7; 16],
        recovery: 0,
        members: (1..=3).map(member).collect(),
        electorate: (1..=3).map(|seed| MemberId([seed; 16])).collect(),
        replicas: 3,
        admins: vec![secret(ADMIN).public()],
        grants: vec![Grant {
            author: Some(secret(AUTHOR).public()),
            namespace: None,
            prefix: Vec::new(),
            rights: Rights::ALL,
        }],
    };
    let change = ConfigChange::Voters(voters);
    let previous = Hash([0; 32]);
    let entry = Entry { format: ENTRY_FORMAT, chain: Chain::Voters, number: 1, previous, change };
    let cluster = crate::core::identity::ClusterId(entry.hash().0);
    let proof = sign_one(&secret(ADMIN), cluster, entry.hash());
    Decided::genesis(SignedEntry { admin: Some((secret(ADMIN).public(), proof)), entry })
}

/// `signed` with the votes of all three members.
pub(super) fn decide(config: &Configuration, signed: SignedEntry) -> Decided {
    let members = &config.current().members;
    let ballot =
        Ballot { config_epoch: config.config_epoch(), counter: 1, actor: members[0].actor(config.cluster()) };
    let mut votes: Vec<_> = (1..=3)
        .zip(members)
        .map(|(seed, member)| {
            let vote = Vote {
                cluster: config.cluster(),
                chain: signed.entry.chain,
                number: signed.entry.number,
                ballot,
                entry: signed.entry.hash(),
                actor: member.actor(config.cluster()),
            };
            (vote.actor, vote.sign(&secret(seed)))
        })
        .collect();
    votes.sort_by_key(|(actor, _)| *actor);
    Decided { signed, ballot, votes }
}

/// `change` as the next entry of its chain.
pub(super) fn extend(config: &mut Configuration, change: ConfigChange) {
    let chain = if change == ConfigChange::AdvanceEpoch { Chain::WriteEpochs } else { Chain::Policy };
    let (number, previous) = (config.length(chain) + 1, config.head(chain));
    let entry = Entry { format: ENTRY_FORMAT, chain, number, previous, change };
    let proof = sign_one(&secret(ADMIN), config.cluster(), entry.hash());
    let admin = (chain == Chain::Policy).then(|| (secret(ADMIN).public(), proof));
    let decided = decide(config, SignedEntry { entry, admin });
    config.extend(decided).unwrap();
}

fn create(name: &str, mode: Mode) -> ConfigChange {
    ConfigChange::CreateNamespace(NamespacePolicy { name: name.parse().unwrap(), mode, write_quorum: None })
}

impl Cluster {
    /// Three nodes that do what `script` says, and answer for the configuration.
    pub(super) fn start(script: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let mut config = Configuration::found(founding()).unwrap();
        extend(&mut config, create("carts", Mode::Siblings));
        extend(&mut config, create("jobs", Mode::Linearizable));
        let namespace = config.policy().namespace(&"carts".parse().unwrap()).unwrap().id;
        let object = ObjectId::new(namespace, &KEY.try_into().unwrap());
        let order = placement::replicas(config.current(), object);
        let config = Arc::new(Mutex::new(config));
        let (asked, lie, script): (_, _, Arc<Script>) = (Arc::default(), Arc::default(), Arc::new(script));
        let mut addresses = BTreeMap::new();
        let mut nodes = Vec::new();
        for (number, member) in order.iter().enumerate() {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let endpoint = Endpoint::server(&secret(member.0[0]), socket, Arc::new(Everybody)).unwrap();
            addresses.insert(*member, vec![endpoint.local_addr().unwrap()]);
            let node = Node {
                number,
                script: script.clone(),
                config: config.clone(),
                lie: Arc::clone(&lie),
                asked: Arc::clone(&asked),
            };
            tokio::spawn(serve(endpoint.clone(), node));
            nodes.push(endpoint);
        }
        let ticket = Ticket::new(founding(), addresses).unwrap();
        Cluster { config, ticket, asked, lie, order, _nodes: nodes }
    }

    pub(super) async fn client(&self, timeout: Duration) -> Client {
        let builder = Client::builder().identity(secret(AUTHOR)).timeout(timeout);
        builder.connect(&self.ticket).await.unwrap()
    }

    pub(super) async fn carts(&self) -> Siblings {
        self.client(Duration::from_secs(5)).await.siblings("carts").await.unwrap()
    }

    /// The registers, for a client that does not wait for longer than this.
    pub(super) async fn jobs(&self, timeout: Duration) -> Linearizable {
        self.client(timeout).await.linearizable("jobs").await.unwrap()
    }

    /// The writes that were submitted, with the number of the node.
    pub(super) fn submitted(&self) -> Vec<(usize, Submit)> {
        let asked = self.asked.lock().unwrap();
        let submits = asked.iter().filter_map(|(node, request)| match request {
            Request::Submit(submit) => Some((*node, submit.clone())),
            _ => None,
        });
        submits.collect()
    }

    /// Opens a connection to every node before the test looks at the clock.
    pub(super) async fn warm(&self, client: &Client) {
        for member in &self.order {
            client.status(*member).await.unwrap();
        }
    }
}

#[derive(Clone)]
struct Node {
    number: usize,
    script: Arc<Script>,
    config: Arc<Mutex<Configuration>>,
    lie: Arc<Mutex<Option<Decided>>>,
    asked: Arc<Mutex<Vec<(usize, Request)>>>,
}

impl Node {
    fn answer(&self, request: &Request) -> Answer {
        match request {
            Request::AskConfig(ask) => {
                let mut known = known(&self.config.lock().unwrap(), ask.have);
                known.entries.extend(self.lie.lock().unwrap().clone());
                known.into()
            }
            Request::AskStatus(_) => Answer::Now(status(&self.config.lock().unwrap())),
            request => {
                self.asked.lock().unwrap().push((self.number, request.clone()));
                (self.script)(self.number, request)
            }
        }
    }
}

async fn serve(endpoint: Endpoint, node: Node) {
    while let Some(connection) = endpoint.accept().await {
        let node = node.clone();
        tokio::spawn(async move {
            while let Ok((frame, responder)) = connection.accept_request().await {
                let answer = node.answer(&Request::decode(frame).unwrap());
                let connection = connection.clone();
                tokio::spawn(async move {
                    match answer {
                        Answer::Now(reply) => drop(responder.respond(reply.encode()).await),
                        Answer::Never => responder.abandoned().await,
                        Answer::Break => connection.close(Code::SHUTTING_DOWN, "the script says so"),
                    }
                });
            }
        });
    }
}

fn known(config: &Configuration, have: [u64; 3]) -> Config {
    let new = Chain::ALL.iter().zip(have).flat_map(|(chain, have)| {
        config
            .entries(*chain)
            .iter()
            .skip(have as usize)
            .map(|decided| Decided::clone(decided))
            .collect::<Vec<_>>()
    });
    Config { entries: new.collect(), lengths: lengths(config) }
}

fn status(config: &Configuration) -> Reply {
    let status = crate::wire::client::Status {
        version: "0".into(),
        member: MemberId([1; 16]),
        incarnation: Incarnation([1; 16]),
        counts: Ok(()),
        synced: 0,
        chains: lengths(config),
        peers: Vec::new(),
        counters: Vec::new(),
    };
    status.into()
}

/// A write of `KEY` in `carts` by the author of the tests, named `nonce`.
pub(super) fn write(
    config: &Configuration,
    nonce: u8,
    parents: &[&Version],
    value: Option<&[u8]>,
) -> SignedWrite {
    write_in(config, "carts", nonce, parents, value)
}

/// The same in another namespace.
pub(super) fn write_in(
    config: &Configuration,
    namespace: &str,
    nonce: u8,
    parents: &[&Version],
    value: Option<&[u8]>,
) -> SignedWrite {
    let mut ids: Vec<_> = parents.iter().map(|parent| parent.id()).collect();
    ids.sort();
    let write = Write {
        format: WRITE_FORMAT,
        cluster: config.cluster(),
        namespace: config.policy().namespace(&namespace.parse().unwrap()).unwrap().id,
        key: KEY.try_into().unwrap(),
        epoch: 1,
        generation: parents.iter().map(|parent| parent.write().generation).max().unwrap_or(0) + 1,
        parents: ids,
        body: value.map_or(Body::Delete, Body::put),
        author: secret(AUTHOR).public(),
        nonce: [nonce; 16],
        fence: None,
        wall_ms: 5,
    };
    let proof = sign_one(&secret(AUTHOR), write.cluster, write.id().into());
    SignedWrite::new(write, proof, None)
}

/// A stamp of `signed` by the member with key `seed`.
pub(super) fn stamp(
    config: &Configuration,
    seed: u8,
    counter: u64,
    signed: &SignedWrite,
) -> Arc<SignedStamp> {
    let member = config.member(MemberId([seed; 16])).unwrap();
    let stamp = Stamp {
        format: STAMP_FORMAT,
        cluster: config.cluster(),
        object: signed.write().object(),
        write: signed.id(),
        config_epoch: 1,
        policy_revision: config.policy().revision(),
        actor: member.actor(config.cluster()),
        previous: counter - 1,
        counter,
        past: Past::new(),
    };
    let proof = sign_one(&secret(seed), stamp.cluster, stamp.hash());
    Arc::new(SignedStamp::new(stamp, proof))
}

/// `signed`, stamped by the first member.
pub(super) fn version(config: &Configuration, counter: u64, signed: SignedWrite) -> Version {
    let mut stamps = Stamps::default();
    stamps.insert(stamp(config, 1, counter, &signed));
    Version { signed: Arc::new(signed), stamps }
}

/// The answer to a read: live versions with their values.
pub(super) fn versions(live: &[(&Version, &'static [u8])]) -> Versions {
    let mut live = live.to_vec();
    live.sort_by_key(|(version, _)| version.id());
    let listed = |version: &Version| Listed { version: version.clone(), live: true, inline: true };
    Versions {
        versions: live.iter().map(|(version, _)| listed(version)).collect(),
        values: live.iter().map(|(_, value)| Bytes::from_static(value)).collect::<Values>(),
        evidence: Vec::new(),
    }
}

/// "Applied", with a stamp.
pub(super) fn applied(config: &Configuration, submit: &Submit) -> Submitted {
    Submitted::Applied { stamps: vec![stamp(config, 1, 9, &submit.signed)], siblings: Vec::new() }
}

pub(super) fn nothing() -> Versions {
    Versions { versions: Vec::new(), values: Values::none(), evidence: Vec::new() }
}

/// A configuration like that of every cluster in here, for scripts to sign with.
pub(super) fn same_config() -> Configuration {
    let mut config = Configuration::found(founding()).unwrap();
    extend(&mut config, create("carts", Mode::Siblings));
    extend(&mut config, create("jobs", Mode::Linearizable));
    config
}

/// Far longer than anything here takes.
pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it should not hang")
}

/// "Refused", because these are live.
pub(super) fn current(live: &[&Version]) -> Submitted {
    Submitted::Refused { current: Some(live.iter().map(|version| (*version).clone()).collect()) }
}

/// What the owner of `billing` at this term writes with. Its proof has no votes: nobody in here judges it.
pub(super) fn fence(config: &Configuration, term: u64) -> FenceKey {
    let key = secret(150);
    let claim = Claim {
        cluster: config.cluster(),
        resource: "billing".try_into().unwrap(),
        current: (term > 1).then(|| (term - 1, WriteId([8; 32]))),
        recovery: 0,
        key: Some(key.public()),
        lease_ms: 15_000,
        epoch: 1,
        author: secret(AUTHOR).public(),
        nonce: [8; 16],
        wall_ms: 0,
    };
    let (write, tenure) = claim.write();
    let proof = sign_one(&secret(AUTHOR), write.cluster, write.id().into());
    let actor = config.current().members[0].actor(config.cluster());
    let ballot = Ballot { config_epoch: 1, counter: 1, actor };
    let signed = SignedWrite::new(write, proof, None);
    FenceKey::new(Arc::new(TenureProof { signed, tenure, ballot, votes: Vec::new() }), key).unwrap()
}
