//! The cluster that an input meets: three members, three namespaces, some writes and an owner.
//!
//! It is made once, by honest machines, and each input begins on a copy of the first node's disk.

use std::sync::{Arc, OnceLock};

use tanist::core::chain::{Chain, ConfigChange, Decided, Grant, Mode, Rights};
use tanist::core::cluster::Configuration;
use tanist::core::hash::Hash;
use tanist::core::identity::{ClusterId, Incarnation, MemberId, SecretKey};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::sign_one;
use tanist::core::tenure::{Claim, TenureProof, sign_fence};
use tanist::core::version::SignedWrite;
use tanist::core::write::{Fence, Write, WriteId};
use tanist::storage::memory::Snapshot;
use tanist::wire::client::{OnConflict, Submit};
use tanist::wire::ownership::{Ballots, Campaign, Campaigned};
use tanist::wire::registry::Reply;
use tanist::wire::values::Values;

use super::cluster::{Cluster, applied, id};

/// What all inputs begin with.
pub struct House {
    pub cluster: ClusterId,
    pub genesis: Decided,
    /// The configuration after the prologue.
    pub config: Arc<Configuration>,
    /// The disk of the node under test.
    pub disk: Snapshot,
    /// Namespaces: siblings, registers, registers owned by "billing", resources, and none at all.
    pub namespaces: [NamespaceId; 5],
    pub keys: [Key; 5],
    /// Writes that authors with the right signed, and their values.
    pub writes: Vec<(Arc<SignedWrite>, Vec<u8>)>,
    /// The tenure of "billing", its proof, and its key.
    pub proof: Arc<TenureProof>,
    pub tenure_key: SecretKey,
    /// Keys: an administrator's; of an author with all rights; of one who may only read; of nobody.
    pub admin: SecretKey,
    pub author: SecretKey,
    pub reader: SecretKey,
    pub stranger: SecretKey,
}

/// The node under test.
pub const NODE: u8 = 1;
/// The others.
pub const PEERS: [u8; 2] = [2, 3];

impl House {
    /// The one house of the process.
    pub fn get() -> &'static House {
        static HOUSE: OnceLock<House> = OnceLock::new();
        HOUSE.get_or_init(House::build)
    }

    /// The key of a member.
    pub fn member_key(member: u8) -> SecretKey {
        SecretKey::from_seed(&[member; 32])
    }

    /// The incarnation of a member.
    pub fn incarnation(member: u8) -> Incarnation {
        Incarnation([member; 16])
    }

    /// The id of a member.
    pub fn member(member: u8) -> MemberId {
        id(member)
    }

    /// The fence of the tenure that the house knows.
    pub fn fence(&self) -> Fence {
        let write = self.proof.signed.write();
        Fence { resource: write.key.clone(), term: self.proof.tenure.term, tenure: self.proof.signed.id() }
    }

    fn build() -> House {
        let mut cluster = Cluster::new();
        let reader = SecretKey::from_seed(&[102; 32]);
        let carts = cluster.namespace("carts");
        let jobs = cluster.namespace_of("jobs", Mode::Linearizable, None);
        let paid = cluster.namespace_of("paid", Mode::Linearizable, Some("billing"));
        cluster.change(ConfigChange::AddGrant(Grant {
            author: Some(reader.public()),
            namespace: None,
            prefix: Vec::new(),
            rights: Rights::READ,
        }));
        let mut writes = Vec::new();
        for (namespace, key, value, parent, on_conflict) in [
            (carts, "k", "one", None, OnConflict::Refuse),
            (carts, "k", "two", Some(0), OnConflict::Refuse),
            (carts, "m", "left", None, OnConflict::Refuse),
            (carts, "m", "right", None, OnConflict::KeepBoth),
            (jobs, "k", "one", None, OnConflict::Refuse),
            (jobs, "k", "two", Some(4), OnConflict::Refuse),
        ] {
            let parents: Vec<(u64, WriteId)> =
                parent.into_iter().map(|at: usize| named(&writes[at])).collect();
            let mut submit = cluster.write(namespace, key, value, &parents);
            submit.on_conflict = on_conflict;
            submit.presented = presented(&cluster, namespace, &parents);
            writes.push((Arc::clone(&submit.signed), value.as_bytes().to_vec()));
            applied(cluster.ask(id(NODE), submit));
        }
        let tenure_key = SecretKey::from_seed(&[103; 32]);
        let proof = Arc::new(won(&mut cluster, &tenure_key));
        writes.push((Arc::new(proof.signed.clone()), proof.tenure.encode()));
        let fenced = fenced(&cluster, paid, &tenure_key, &proof);
        writes.push((Arc::clone(&fenced.signed), b"paid".to_vec()));
        applied(cluster.ask(id(NODE), fenced));
        cluster.pass(30_000);
        let node = &cluster.nodes[&id(NODE)];
        let config = Arc::clone(&node.config);
        let id = config.cluster();
        let key = |text: &str| Key::try_from(text).expect("a key");
        House {
            cluster: id,
            genesis: Decided::clone(&config.entries(Chain::Voters)[0]),
            config,
            disk: node.store.memory.snapshot(),
            namespaces: [carts, jobs, paid, NamespaceId::resources(id), NamespaceId([7; 32])],
            keys: [
                key("k"),
                key("m"),
                key("billing"),
                key("new"),
                Key::try_from(vec![0xff; 1024]).expect("a key"),
            ],
            writes,
            proof,
            tenure_key,
            admin: cluster.admin.clone(),
            author: cluster.author.clone(),
            reader,
            stranger: SecretKey::from_seed(&[104; 32]),
        }
    }
}

fn named((signed, _): &(Arc<SignedWrite>, Vec<u8>)) -> (u64, WriteId) {
    (signed.write().generation, signed.id())
}

/// The stamps of what a write names, as a client would show them.
fn presented(
    cluster: &Cluster,
    namespace: NamespaceId,
    parents: &[(u64, WriteId)],
) -> Vec<Arc<tanist::core::stamp::SignedStamp>> {
    use tanist::engine::rows;
    use tanist::engine::store::View as _;
    let config = &cluster.nodes[&id(NODE)].config;
    if config.policy().namespace_by_id(namespace).is_none_or(|n| n.policy.mode != Mode::Siblings) {
        return Vec::new();
    }
    let row = rows::key(namespace, &Key::try_from("k").expect("a key"));
    let row = cluster.nodes[&id(NODE)].store.get(&row).expect("memory reads");
    let row: rows::KeyRow =
        row.map_or_else(Default::default, |row| rows::decode(&row).expect("an honest row"));
    let named = parents.iter().filter_map(|(_, id)| row.siblings.version(*id));
    named.flat_map(|version| version.stamps.iter().cloned()).collect()
}

/// Has "billing" owned by the author.
fn won(cluster: &mut Cluster, key: &SecretKey) -> TenureProof {
    let config = Arc::clone(&cluster.nodes[&id(NODE)].config);
    let claim = Claim {
        cluster: config.cluster(),
        resource: Key::try_from("billing").expect("a key"),
        current: None,
        recovery: 0,
        key: Some(key.public()),
        lease_ms: 2_000,
        epoch: 1,
        author: cluster.author.public(),
        nonce: [9; 16],
        wall_ms: 0,
    };
    let (write, tenure) = claim.write();
    let proof = sign_one(&cluster.author, config.cluster(), write.id().into());
    let signed = SignedWrite::new(write, proof, None);
    let value: Values = [bytes::Bytes::from(tenure.encode())].into_iter().collect();
    let campaign = Campaign { signed: Arc::new(signed.clone()), tenure: None, afresh: false, value };
    match cluster.ask(id(NODE), campaign) {
        Reply::Campaigned(Campaigned { result: Ballots::Chosen { ballot, votes }, .. }) => {
            TenureProof { signed, tenure, ballot, votes }
        }
        other => panic!("not chosen: {other:?}"),
    }
}

/// A write under that tenure.
fn fenced(cluster: &Cluster, namespace: NamespaceId, key: &SecretKey, proof: &TenureProof) -> Submit {
    let mut submit = cluster.write(namespace, "k", "paid", &[]);
    let write = proof.signed.write();
    let fence = Fence { resource: write.key.clone(), term: proof.tenure.term, tenure: proof.signed.id() };
    let write = Write { fence: Some(fence), ..submit.signed.write().clone() };
    let by_author = sign_one(&cluster.author, write.cluster, Hash(write.id().0));
    let by_owner = sign_fence(key, write.cluster, write.id());
    submit.signed = Arc::new(SignedWrite::new(write, by_author, Some(by_owner)));
    submit.tenure = Some(Arc::new(proof.clone()));
    submit
}
