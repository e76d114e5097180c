//! The cluster that the vectors talk about: three members, one administrator, a client, fixed seeds.

use std::sync::Arc;

use tanist::core::chain::{
    Ballot, Chain, ConfigChange, Decided, ENTRY_FORMAT, Entry, Grant, Member, Mode, NamespacePolicy, Rights,
    SignedEntry, Vote, Voters,
};
use tanist::core::cluster::Configuration;
use tanist::core::events::{Past, Range};
use tanist::core::hash::Hash;
use tanist::core::identity::{ActorId, ClusterId, Incarnation, MemberId, PublicKey, SecretKey};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::signature::{Proof, sign_one};
use tanist::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};

pub(crate) fn key_of(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

pub(crate) fn admin() -> SecretKey {
    key_of(0x01)
}

pub(crate) fn client() -> SecretKey {
    key_of(0x02)
}

/// An author who may write under `user-` from policy revision 3 until revision 4.
pub(crate) fn guest() -> SecretKey {
    key_of(0x03)
}

pub(crate) fn node(n: usize) -> SecretKey {
    key_of(0x11 + n as u8)
}

pub(crate) fn member(n: usize) -> Member {
    let byte = 0xa1 + 0x11 * n as u8;
    Member {
        id: MemberId([byte; 16]),
        name: ["a", "b", "c", "d"][n].to_owned(),
        key: node(n).public(),
        incarnation: Incarnation([byte ^ 0xff; 16]),
        zone: ["x", "y", "z", "x"][n].to_owned(),
    }
}

pub(crate) fn founders() -> Voters {
    Voters {
        nonce: [0x5e; 16],
        recovery: 0,
        members: (0..3).map(member).collect(),
        electorate: (0..3).map(|n| member(n).id).collect(),
        replicas: 3,
        admins: vec![admin().public()],
        grants: vec![grant(&client().public(), None, b"", Rights::ALL)],
    }
}

pub(crate) fn grant(
    author: &PublicKey,
    namespace: Option<NamespaceId>,
    prefix: &[u8],
    rights: Rights,
) -> Grant {
    Grant { author: Some(*author), namespace, prefix: prefix.to_vec(), rights }
}

pub(crate) fn genesis_of(voters: Voters) -> Decided {
    let entry = Entry {
        format: ENTRY_FORMAT,
        chain: Chain::Voters,
        number: 1,
        previous: Hash([0; 32]),
        change: ConfigChange::Voters(voters),
    };
    let proof = sign_one(&admin(), ClusterId(entry.hash().0), entry.hash());
    Decided::genesis(SignedEntry { entry, admin: Some((admin().public(), proof)) })
}

pub(crate) fn next_entry(config: &Configuration, chain: Chain, change: ConfigChange) -> Entry {
    let (number, previous) = (config.length(chain) + 1, config.head(chain));
    Entry { format: ENTRY_FORMAT, chain, number, previous, change }
}

pub(crate) fn sign_entry(cluster: ClusterId, entry: Entry, admin: &SecretKey) -> SignedEntry {
    let admin = match entry.chain {
        Chain::WriteEpochs => None,
        _ => Some((admin.public(), sign_one(admin, cluster, entry.hash()))),
    };
    SignedEntry { entry, admin }
}

pub(crate) fn vote(config: &Configuration, entry: &Entry, ballot: Ballot, n: usize) -> Vote {
    let actor = member(n).actor(config.cluster());
    let cluster = config.cluster();
    Vote { cluster, chain: entry.chain, number: entry.number, ballot, entry: entry.hash(), actor }
}

/// `signed` with the votes of the members `voters`.
pub(crate) fn decide(config: &Configuration, signed: SignedEntry, voters: &[usize]) -> Decided {
    let cluster = config.cluster();
    let ballot = Ballot {
        config_epoch: config.config_epoch(),
        counter: 65_536 + signed.entry.number,
        actor: member(0).actor(cluster),
    };
    let mut votes: Vec<_> = voters
        .iter()
        .map(|n| {
            let vote = vote(config, &signed.entry, ballot, *n);
            (vote.actor, vote.sign(&node(*n)))
        })
        .collect();
    votes.sort_by_key(|(actor, _)| *actor);
    Decided { signed, ballot, votes }
}

pub(crate) fn decided(config: &Configuration, chain: Chain, change: ConfigChange) -> Decided {
    let signed = sign_entry(config.cluster(), next_entry(config, chain, change), &admin());
    decide(config, signed, &[0, 1])
}

/// The cluster after its founding and some changes, and all entries in the order of their taking.
pub(crate) struct World {
    pub(crate) config: Configuration,
    pub(crate) entries: Vec<Decided>,
    /// The namespace `carts`, of the siblings mode.
    pub(crate) carts: NamespaceId,
    /// The namespace `jobs`, of the linearizable mode.
    pub(crate) jobs: NamespaceId,
    /// The namespace `old`, dropped by revision 6.
    pub(crate) old: NamespaceId,
}

impl World {
    pub(crate) fn new() -> Self {
        let genesis = genesis_of(founders());
        let mut world = World {
            config: Configuration::found(genesis.clone()).unwrap(),
            entries: vec![genesis],
            carts: NamespaceId([0; 32]),
            jobs: NamespaceId([0; 32]),
            old: NamespaceId([0; 32]),
        };
        world.carts = world.create("carts", Mode::Siblings);
        world.jobs = world.create("jobs", Mode::Linearizable);
        let rights = Rights { read: false, write: true, elect: false };
        let guests = grant(&guest().public(), Some(world.carts), b"user-", rights);
        world.extend(Chain::Policy, ConfigChange::AddGrant(guests.clone()));
        world.extend(Chain::Policy, ConfigChange::RemoveGrant(guests));
        world.old = world.create("old", Mode::Siblings);
        world.extend(Chain::Policy, ConfigChange::DropNamespace(world.old));
        world.extend(Chain::WriteEpochs, ConfigChange::AdvanceEpoch);
        let mut second = founders();
        second.nonce = [0; 16];
        second.members.push(member(3));
        world.extend(Chain::Voters, ConfigChange::Voters(second));
        world
    }

    fn create(&mut self, name: &str, mode: Mode) -> NamespaceId {
        let policy = NamespacePolicy { name: name.parse().unwrap(), mode, write_quorum: None };
        self.extend(Chain::Policy, ConfigChange::CreateNamespace(policy));
        NamespaceId(self.config.head(Chain::Policy).0)
    }

    fn extend(&mut self, chain: Chain, change: ConfigChange) {
        let decided = decided(&self.config, chain, change);
        self.config.extend(decided.clone()).unwrap();
        self.entries.push(decided);
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        self.config.cluster()
    }

    pub(crate) fn actor(&self, n: usize) -> ActorId {
        member(n).actor(self.cluster())
    }

    /// A write of the client on a key of `carts`.
    pub(crate) fn write(&self, key: &str, nonce: u8, parents: &[&Write], body: Body) -> Write {
        let mut ids: Vec<WriteId> = parents.iter().map(|parent| parent.id()).collect();
        ids.sort();
        Write {
            format: WRITE_FORMAT,
            cluster: self.cluster(),
            namespace: self.carts,
            key: Key::try_from(key).unwrap(),
            epoch: 1,
            generation: 1 + parents.iter().map(|parent| parent.generation).max().unwrap_or(0),
            parents: ids,
            body,
            author: client().public(),
            nonce: [nonce; 16],
            fence: None,
            wall_ms: 0,
        }
    }

    /// The event `(previous, counter]` of member `n` for `write`.
    pub(crate) fn stamp(&self, write: &Write, n: usize, previous: u64, counter: u64, past: Past) -> Stamp {
        Stamp {
            format: STAMP_FORMAT,
            cluster: self.cluster(),
            object: write.object(),
            write: write.id(),
            config_epoch: 1,
            policy_revision: 1,
            actor: self.actor(n),
            previous,
            counter,
            past,
        }
    }

    pub(crate) fn sign_stamp(&self, stamp: Stamp, n: usize) -> Arc<SignedStamp> {
        let proof = sign_one(&node(n), self.cluster(), stamp.hash());
        Arc::new(SignedStamp::new(stamp, proof))
    }

    /// `write` with a signed stamp for each `(member, previous, counter, past)`.
    pub(crate) fn version(&self, write: &Write, events: &[(usize, u64, u64, Past)]) -> Version {
        let mut stamps = Stamps::default();
        for (n, previous, counter, past) in events {
            stamps.insert(self.sign_stamp(self.stamp(write, *n, *previous, *counter, past.clone()), *n));
        }
        Version { signed: sign(write, &client()), stamps }
    }

    /// What descends from `versions`.
    pub(crate) fn past_of(&self, versions: &[&Version]) -> Past {
        let mut past = Past::new();
        for stamp in versions.iter().flat_map(|version| version.stamps.iter()) {
            past.union(&stamp.stamp().past);
            past.insert(stamp.stamp().actor, stamp.stamp().event());
        }
        past
    }

    pub(crate) fn past(&self, ranges: &[(usize, u64, u64)]) -> Past {
        let mut past = Past::new();
        for (n, after, upto) in ranges {
            past.insert(self.actor(*n), Range { after: *after, upto: *upto });
        }
        past
    }
}

pub(crate) fn sign(write: &Write, author: &SecretKey) -> Arc<SignedWrite> {
    Arc::new(SignedWrite::new(write.clone(), author_proof(write, author), None))
}

pub(crate) fn author_proof(write: &Write, author: &SecretKey) -> Proof {
    sign_one(author, write.cluster, write.id().into())
}
