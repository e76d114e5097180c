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
    /// The entry that creates the namespace of registers.
    pub registers_entry: Decided,
    /// The namespace of registers.
    pub registers: NamespaceId,
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
        let policy = |name: &str, mode, write_quorum| {
            let name = name.parse().expect("a name");
            ConfigChange::CreateNamespace(NamespacePolicy { name, mode, write_quorum })
        };
        let decide = |number, previous, change| {
            let signed = sign(&admin, cluster, next_entry(Chain::Policy, number, previous, change));
            let actor = voters.members[0].actor(cluster);
            let ballot = Ballot { config_epoch: 1, counter: number, actor };
            let vote = |(member, key): (&Member, &SecretKey)| {
                let actor = member.actor(cluster);
                let entry = signed.entry.hash();
                let vote = Vote { cluster, chain: Chain::Policy, number, ballot, entry, actor };
                (actor, vote.sign(key))
            };
            let mut votes: Vec<_> = voters.members.iter().zip(&nodes).map(vote).collect();
            votes.sort_by_key(|(actor, _)| *actor);
            Decided { signed, ballot, votes }
        };
        let carts = policy("carts", Mode::Siblings, options.write_quorum);
        let namespace_entry = decide(1, Hash(cluster.0), carts);
        let first = namespace_entry.signed.entry.hash();
        let registers_entry = decide(2, first, policy("jobs", Mode::Linearizable, None));
        Founding {
            cluster,
            namespace: NamespaceId(first.0),
            registers: NamespaceId(registers_entry.signed.entry.hash().0),
            genesis,
            namespace_entry,
            registers_entry,
            admin,
            nodes,
            client,
            stranger,
        }
    }

    /// The first batch of every store: the namespaces exist.
    pub fn first_batch(&self) -> Batch {
        let put = |(number, entry): (u64, &Decided)| {
            let value: Bytes = rows::encode(entry);
            Change::Put { key: rows::entry(Chain::Policy, number), value }
        };
        let entries = [(1, &self.namespace_entry), (2, &self.registers_entry)];
        Batch { number: 1, changes: entries.map(put).into() }
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
