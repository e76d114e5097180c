//! `chains.json`: the founding entry, decided entries, votes, and everything that must not extend a chain.

use serde_json::{Value, json};
use tanist::core::chain::{
    Ballot, Chain, ConfigChange, Decided, Entry, Mode, NamespacePolicy, Rights, SignedEntry, Vote, Voters,
};
use tanist::core::cluster::{ConfigError, Configuration};
use tanist::core::codec;
use tanist::core::hash::Hash;
use tanist::core::object::NamespaceId;

use crate::support::{File, hex, shown};
use crate::world::{
    World, admin, client, decide, decided, founders, genesis_of, grant, key_of, member, next_entry, node,
    sign_entry, vote,
};

/// The documents' name of an error.
fn reason(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Format(_) => "format",
        ConfigError::NotNext(_) => "not-next",
        ConfigError::NotAdmin => "not-admin",
        ConfigError::NoMajority => "no-majority",
        ConfigError::Voters(_) => "voters",
        ConfigError::Policy(_) => "policy",
        ConfigError::WrongChain => "wrong-chain",
    }
}

/// The message that `vote` signs.
fn message(vote: &Vote) -> Vec<u8> {
    [b"tanist v1 vote\0".as_slice(), &codec::encode(vote)].concat()
}

fn entry_of(config: &Configuration, decided: &Decided) -> Value {
    let entry = &decided.signed.entry;
    let votes: Vec<Value> = decided
        .votes
        .iter()
        .map(|(actor, signature)| {
            let n = (0..4).find(|n| member(*n).actor(config.cluster()) == *actor).unwrap();
            let vote = vote(config, entry, decided.ballot, n);
            assert!(vote.verifies(&node(n).public(), signature));
            assert!(node(n).public().verifies(&message(&vote), signature));
            json!({ "key": shown(&node(n).public()), "message": hex(message(&vote)), "signature": hex(signature.0) })
        })
        .collect();
    let admin_message =
        decided.signed.admin.as_ref().map(|(_, proof)| hex(proof.message(config.cluster(), entry.hash())));
    json!({
        "fields": shown(decided), "entry": hex(codec::encode(entry)), "hash": shown(&entry.hash()),
        "admin_message": admin_message, "votes": votes, "encoded": hex(codec::encode(decided)),
    })
}

fn chain(name: &str, entries: &[Decided]) -> Value {
    let mut config = Configuration::found(entries[0].clone()).unwrap();
    let mut listed = vec![entry_of(&config, &entries[0])];
    for decided in &entries[1..] {
        listed.push(entry_of(&config, decided));
        config.extend(decided.clone()).unwrap();
    }
    let lengths = Chain::ALL.map(|chain| config.length(chain));
    let heads = Chain::ALL.map(|chain| config.head(chain));
    let namespaces: Vec<Value> = config
        .policy()
        .live_namespaces()
        .map(|namespace| {
            json!([namespace.policy.name.to_string(), shown(&namespace.id), shown(&namespace.owned_by)])
        })
        .collect();
    json!({
        "name": name, "kind": "chain", "entries": listed, "cluster": shown(&config.cluster()), "lengths": lengths,
        "heads": shown(&heads), "write_epoch": config.write_epoch(), "namespaces": namespaces,
    })
}

struct Chains {
    world: World,
    file: File,
}

impl Chains {
    fn no_founding(&mut self, name: &str, decided: &Decided, expected: &str) {
        let error = Configuration::found(decided.clone()).map(|_| ()).expect_err(name);
        assert_eq!(reason(&error), expected, "{name}");
        let bytes = hex(codec::encode(decided));
        self.file.invalid(json!({ "name": name, "kind": "found", "hex": bytes, "reason": expected }));
    }

    fn no_voters(&mut self, name: &str, change: &dyn Fn(&mut Voters)) {
        let mut voters = founders();
        change(&mut voters);
        self.no_founding(name, &genesis_of(voters), "voters");
    }

    fn no_extension(&mut self, name: &str, decided: &Decided, expected: &str) {
        let error = self.world.config.clone().extend(decided.clone()).expect_err(name);
        assert_eq!(reason(&error), expected, "{name}");
        let bytes = hex(codec::encode(decided));
        self.file.invalid(json!({
            "name": name, "kind": "extend", "chains": "the example cluster", "hex": bytes, "reason": expected,
        }));
    }

    fn next(&self, chain: Chain, change: ConfigChange) -> Entry {
        next_entry(&self.world.config, chain, change)
    }

    fn signed(&self, entry: Entry) -> SignedEntry {
        sign_entry(self.world.cluster(), entry, &admin())
    }

    fn decided(&self, entry: Entry) -> Decided {
        decide(&self.world.config, self.signed(entry), &[0, 1])
    }
}

#[test]
fn chains() {
    let world = World::new();
    let mut file = File::new("chains.json", "chains/configuration.md");
    file.valid(chain("the example cluster", &world.entries));
    let mut alone = founders();
    alone.members.truncate(1);
    alone.electorate.truncate(1);
    file.valid(chain("a cluster of one", &[genesis_of(alone)]));
    let genesis = genesis_of(founders());
    let founded = Configuration::found(genesis.clone()).unwrap();
    let owned = decided(&founded, Chain::Policy, owned_namespace(Mode::Linearizable, None));
    file.valid(chain("a cluster with an owned namespace", &[genesis, owned]));
    let advance = next_entry(&world.config, Chain::WriteEpochs, ConfigChange::AdvanceEpoch);
    let ballot = Ballot { config_epoch: 2, counter: 70_000, actor: world.actor(1) };
    let single = vote(&world.config, &advance, ballot, 2);
    file.valid(json!({
        "name": "a vote", "kind": "vote", "fields": shown(&single), "message": hex(message(&single)),
        "key": shown(&node(2).public()), "signature": hex(single.sign(&node(2)).0),
    }));

    let mut chains = Chains { world, file };
    no_foundings(&mut chains);
    no_extensions(&mut chains);
    no_votes(&mut chains);
    let mut bytes = codec::encode(&chains.world.entries[1]);
    bytes.push(0);
    chains.file.refuse::<Decided>("a byte left over", "decided", &bytes.into(), "left-over");
    let mut bytes = codec::encode(&advance);
    bytes[4] = 3;
    chains.file.refuse::<Entry>("a chain that does not exist", "entry", &bytes.into(), "tag");
    chains.file.check();
}

fn owned_namespace(mode: Mode, write_quorum: Option<u8>) -> ConfigChange {
    let policy = NamespacePolicy { name: "invoices".parse().unwrap(), mode, write_quorum };
    ConfigChange::CreateOwnedNamespace(policy, crate::owning::resource("billing"))
}

fn no_foundings(chains: &mut Chains) {
    chains.no_voters("a cluster of two", &|voters| {
        voters.members.truncate(2);
        voters.electorate.truncate(1);
    });
    chains.no_voters("no members", &|voters| (voters.members, voters.electorate) = (vec![], vec![]));
    chains.no_voters("members out of order", &|voters| voters.members.reverse());
    chains.no_voters("a member twice", &|voters| voters.members[1].id = voters.members[0].id);
    chains.no_voters("one name for two members", &|voters| voters.members[1].name = "a".to_owned());
    chains.no_voters("one key for two members", &|voters| voters.members[1].key = voters.members[0].key);
    chains.no_voters("a member without a name", &|voters| voters.members[1].name = String::new());
    chains.no_voters("a zone of 64 bytes", &|voters| voters.members[1].zone = "z".repeat(64));
    chains.no_voters("an electorate of two", &|voters| voters.electorate.truncate(2));
    chains.no_voters("an electorate out of order", &|voters| voters.electorate.reverse());
    chains.no_voters("a voter twice", &|voters| voters.electorate[1] = voters.electorate[0]);
    chains.no_voters("a voter that is no member", &|voters| voters.electorate[2] = member(3).id);
    chains.no_voters("no replicas", &|voters| voters.replicas = 0);
    chains.no_voters("8 replicas", &|voters| voters.replicas = 8);
    chains.no_voters("no administrator", &|voters| voters.admins = vec![]);
    chains.no_voters("a founding grant for one namespace", &|voters| {
        voters.grants[0].namespace = Some(NamespaceId([1; 32]));
    });
    let genesis = genesis_of(founders());
    let mut unsigned = genesis.clone();
    unsigned.signed.admin = None;
    chains.no_founding("a founding entry that nobody signed", &unsigned, "not-admin");
    let refounded = |change: &dyn Fn(&mut Entry)| {
        let mut entry = genesis.signed.entry.clone();
        change(&mut entry);
        let cluster = tanist::core::identity::ClusterId(entry.hash().0);
        Decided::genesis(sign_entry(cluster, entry, &admin()))
    };
    let mut foreign = genesis.clone();
    let cluster = chains.world.cluster();
    foreign.signed = sign_entry(cluster, genesis.signed.entry.clone(), &key_of(0x66));
    chains.no_founding("a founding entry signed by a stranger", &foreign, "not-admin");
    chains.no_founding("a founding entry of format 2", &refounded(&|entry| entry.format = 2), "format");
    chains.no_founding(
        "a founding entry with a predecessor",
        &refounded(&|entry| entry.previous = Hash([1; 32])),
        "not-next",
    );
    chains.no_founding(
        "a founding entry that is the second",
        &refounded(&|entry| entry.number = 2),
        "not-next",
    );
    chains.no_founding(
        "a founding entry of the policy chain",
        &refounded(&|entry| entry.chain = Chain::Policy),
        "not-next",
    );
    chains.no_founding(
        "a founding entry that founds nothing",
        &refounded(&|entry| entry.change = ConfigChange::AdvanceEpoch),
        "wrong-chain",
    );
}

fn no_extensions(chains: &mut Chains) {
    let create = |name: &str, quorum: Option<u8>| {
        let name = name.parse().unwrap();
        ConfigChange::CreateNamespace(NamespacePolicy { name, mode: Mode::Siblings, write_quorum: quorum })
    };
    let change = |chains: &Chains, chain: Chain, change: ConfigChange, expected: &str, name: &str| {
        (name.to_owned(), chains.decided(chains.next(chain, change)), expected.to_owned())
    };
    let old = chains.world.old;
    let whole = grant(&client().public(), None, b"", Rights::ALL);
    let mut two = founders();
    two.members.truncate(2);
    two.electorate.truncate(1);
    let cases = [
        change(chains, Chain::Policy, create("carts", None), "policy", "a name that is taken"),
        change(chains, Chain::Policy, create("new", Some(0)), "policy", "a write quorum of 0"),
        change(chains, Chain::Policy, create("new", Some(4)), "policy", "a write quorum over the replicas"),
        change(
            chains,
            Chain::Policy,
            ConfigChange::DropNamespace(old),
            "policy",
            "a namespace dropped twice",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::DropNamespace(NamespaceId([9; 32])),
            "policy",
            "a drop of nothing",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::AddGrant(whole.clone()),
            "policy",
            "a grant that holds already",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::RemoveGrant(grant(&client().public(), None, b"x", Rights::ALL)),
            "policy",
            "a removal of no grant",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::AddGrant(grant(&client().public(), Some(NamespaceId([9; 32])), b"", Rights::ALL)),
            "policy",
            "a grant in no namespace",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::AddGrant(grant(&client().public(), None, &[b'p'; 1025], Rights::ALL)),
            "policy",
            "a prefix no key can have",
        ),
        change(
            chains,
            Chain::Policy,
            ConfigChange::AdvanceEpoch,
            "policy",
            "a write epoch in the policy chain",
        ),
        change(
            chains,
            Chain::WriteEpochs,
            create("new", None),
            "wrong-chain",
            "a namespace in the epoch chain",
        ),
        change(
            chains,
            Chain::Voters,
            ConfigChange::AdvanceEpoch,
            "wrong-chain",
            "a write epoch in the voters chain",
        ),
        change(chains, Chain::Voters, ConfigChange::Voters(two), "voters", "voters that shrink to two"),
    ];
    for (name, decided, expected) in cases {
        chains.no_extension(&name, &decided, &expected);
    }
    let quorum =
        NamespacePolicy { name: "new".parse().unwrap(), mode: Mode::Linearizable, write_quorum: Some(2) };
    for (name, bad) in [
        ("an owned namespace of siblings", owned_namespace(Mode::Siblings, None)),
        ("an owned namespace with a write quorum", owned_namespace(Mode::Linearizable, Some(2))),
        ("a linearizable namespace with a write quorum", ConfigChange::CreateNamespace(quorum)),
    ] {
        let decided = chains.decided(chains.next(Chain::Policy, bad));
        chains.no_extension(name, &decided, "policy");
    }
    let entry = |chains: &Chains, edit: &dyn Fn(&mut Entry)| {
        let mut entry = chains.next(Chain::Policy, create("new", None));
        edit(&mut entry);
        chains.decided(entry)
    };
    let bad = entry(chains, &|entry| entry.format = 9);
    chains.no_extension("an entry of format 9", &bad, "format");
    let bad = entry(chains, &|entry| entry.number += 1);
    chains.no_extension("a place that is skipped", &bad, "not-next");
    let bad = entry(chains, &|entry| entry.previous = Hash([3; 32]));
    chains.no_extension("another predecessor", &bad, "not-next");
    let again = chains.world.entries[1].clone();
    chains.no_extension("an entry that was taken before", &again, "not-next");
    let next = chains.next(Chain::Policy, create("new", None));
    let unsigned = SignedEntry { entry: next.clone(), admin: None };
    let bad = decide(&chains.world.config, unsigned, &[0, 1]);
    chains.no_extension("a policy entry that nobody signed", &bad, "not-admin");
    let stranger = sign_entry(chains.world.cluster(), next.clone(), &key_of(0x66));
    let bad = decide(&chains.world.config, stranger, &[0, 1]);
    chains.no_extension("a policy entry signed by a stranger", &bad, "not-admin");
    let mut forged = chains.signed(next);
    if let Some((_, proof)) = &mut forged.admin {
        proof.signature.0[0] ^= 1;
    }
    let bad = decide(&chains.world.config, forged, &[0, 1]);
    chains.no_extension("a forged administrator's signature", &bad, "not-admin");
}

fn no_votes(chains: &mut Chains) {
    let good = decided(&chains.world.config, Chain::WriteEpochs, ConfigChange::AdvanceEpoch);
    chains.world.config.clone().extend(good.clone()).unwrap();
    let voters =
        |chains: &Chains, voters: &[usize]| decide(&chains.world.config, good.signed.clone(), voters);
    let cases = [
        ("no votes", voters(chains, &[])),
        ("one vote of three", voters(chains, &[1])),
        ("one vote, twice", voters(chains, &[0, 0])),
        ("a majority and a vote twice", voters(chains, &[0, 1, 1])),
        ("a vote of a member that is not in the electorate", voters(chains, &[0, 3])),
        ("a majority and a vote from outside the electorate", voters(chains, &[0, 1, 3])),
    ];
    for (name, decided) in cases {
        chains.no_extension(name, &decided, "no-majority");
    }
    let mut edit = |name: &str, change: &dyn Fn(&mut Decided)| {
        let mut bad = good.clone();
        change(&mut bad);
        chains.no_extension(name, &bad, "no-majority");
    };
    edit("a forged vote", &|decided| decided.votes[0].1.0[5] ^= 1);
    edit("a vote of nobody", &|decided| decided.votes[0].0.0[0] ^= 1);
    edit("votes at another ballot", &|decided| decided.ballot.counter += 1);
    edit("a ballot of an epoch that does not exist", &|decided| decided.ballot.config_epoch = 3);
    edit("a ballot of epoch 0", &|decided| decided.ballot.config_epoch = 0);
    edit("the votes of the electorate before", &|decided| decided.ballot.config_epoch = 1);
    edit("signatures exchanged between voters", &|decided| {
        let first = decided.votes[0].1;
        decided.votes[0].1 = decided.votes[1].1;
        decided.votes[1].1 = first;
    });
    let mut third = founders();
    third.nonce = [0; 16];
    let voters = chains.next(Chain::Voters, ConfigChange::Voters(third));
    let signed = chains.signed(voters);
    let first_epoch = Ballot { config_epoch: 1, counter: 65_599, actor: chains.world.actor(0) };
    let votes = [0, 1].map(|n| {
        let vote = vote(&chains.world.config, &signed.entry, first_epoch, n);
        (vote.actor, vote.sign(&node(n)))
    });
    let bad = Decided { signed, ballot: first_epoch, votes: votes.to_vec() };
    chains.no_extension("a voters entry decided by an older electorate", &bad, "no-majority");
}
