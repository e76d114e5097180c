//! A cluster that exists: keys, the founding entry, one namespace.

use bytes::Bytes;
use tanist::core::chain::{
    Ballot, Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Mode, NamespacePolicy, Rights,
    SignedEntry, Vote, Voters,
};
use tanist::core::hash::Hash;
use tanist::core::identity::{ClusterId, Incarnation, MemberId, PublicKey, SecretKey};
use tanist::core::object::NamespaceId;
use tanist::core::signature::sign_one;
use tanist::engine::rows;
use tanist::engine::store::{Batch, Change};

use super::dice::Dice;
use super::options::Options;

/// Everything that `tanist cluster new` would write, and one namespace.
pub struct Founding {
    /// The cluster.
    pub cluster: ClusterId,
    /// The founding entry.
    pub genesis: Decided,
    /// The entry that creates the namespace.
    pub namespace_entry: Decided,
    /// The namespace, in siblings mode.
    pub namespace: NamespaceId,
    /// May change the configuration.
    pub admin: SecretKey,
    /// The nodes' keys.
    pub nodes: Vec<SecretKey>,
    /// May read and write everything.
    pub client: SecretKey,
    /// Has no right at all.
    pub stranger: SecretKey,
}

impl Founding {
    /// The cluster of a seed.
    pub fn new(options: &Options, dice: &mut Dice) -> Self {
        let mut key = || SecretKey::from_seed(&dice.bytes());
        let admin = key();
        let client = key();
        let stranger = key();
        let nodes: Vec<SecretKey> = (0..options.nodes).map(|_| key()).collect();
        let members: Vec<Member> = nodes.iter().enumerate().map(|(n, key)| member(n, key)).collect();
        let voters = Voters {
            nonce: dice.bytes(),
            recovery: 0,
            electorate: members.iter().map(|member| member.id).collect(),
            members,
            replicas: 3,
            admins: vec![admin.public()],
            grants: vec![Grant {
                author: Some(client.public()),
                namespace: None,
                prefix: Vec::new(),
                rights: Rights::ALL,
            }],
        };
        let entry = Entry {
            format: ENTRY_FORMAT,
            chain: Chain::Voters,
            number: 1,
            previous: Hash([0; 32]),
            change: ConfigChange::Voters(voters.clone()),
        };
        let cluster = ClusterId(entry.hash().0);
        let genesis = Decided::genesis(sign(&admin, cluster, entry));
        let policy = NamespacePolicy {
            name: "carts".parse().expect("a name"),
            mode: Mode::Siblings,
            write_quorum: options.write_quorum,
        };
        let entry = next_entry(Chain::Policy, 1, Hash(cluster.0), ConfigChange::CreateNamespace(policy));
        let namespace = NamespaceId(entry.hash().0);
        let signed = sign(&admin, cluster, entry);
        let actor = voters.members[0].actor(cluster);
        let ballot = Ballot { config_epoch: 1, counter: 1, actor };
        let mut votes: Vec<_> = voters
            .members
            .iter()
            .zip(&nodes)
            .map(|(member, key)| {
                let actor = member.actor(cluster);
                let entry = signed.entry.hash();
                let vote = Vote { cluster, chain: Chain::Policy, number: 1, ballot, entry, actor };
                (actor, vote.sign(key))
            })
            .collect();
        votes.sort_by_key(|(actor, _)| *actor);
        let namespace_entry = Decided { signed, ballot, votes };
        Founding { cluster, genesis, namespace_entry, namespace, admin, nodes, client, stranger }
    }

    /// The first batch of every store: the namespace exists.
    pub fn first_batch(&self) -> Batch {
        let key = rows::entry(Chain::Policy, 1);
        let value: Bytes = rows::encode(&self.namespace_entry);
        Batch { number: 1, changes: vec![Change::Put { key, value }] }
    }
}

/// The member with index `n`.
pub fn member_id(n: usize) -> MemberId {
    MemberId([n as u8 + 1; 16])
}

/// The first incarnation of the member with index `n`.
pub fn first_incarnation(n: usize) -> Incarnation {
    Incarnation([n as u8 + 1; 16])
}

/// An entry.
pub fn next_entry(chain: Chain, number: u64, previous: Hash, change: ConfigChange) -> Entry {
    Entry { format: ENTRY_FORMAT, chain, number, previous, change }
}

/// An entry signed by an administrator.
pub fn sign(admin: &SecretKey, cluster: ClusterId, entry: Entry) -> SignedEntry {
    let proof = sign_one(admin, cluster, entry.hash());
    let admin: PublicKey = admin.public();
    SignedEntry { entry, admin: Some((admin, proof)) }
}

fn member(n: usize, key: &SecretKey) -> Member {
    Member {
        id: member_id(n),
        name: format!("n{n}"),
        key: key.public(),
        incarnation: first_incarnation(n),
        zone: String::new(),
    }
}
