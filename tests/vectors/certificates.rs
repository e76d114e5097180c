//! `certificates.json`: certificates, what they prove, and every way in which one proves nothing.

use serde_json::{Value, json};
use tanist::core::armor;
use tanist::core::authority::{Authority, CLUSTER_TITLE, FencedMessage, Gate, Refusal};
use tanist::core::certificate::{CERTIFICATE_FORMAT, Certificate, NotProven};
use tanist::core::chain::{Chain, ConfigChange, Decided, Voters};
use tanist::core::codec;
use tanist::core::identity::{ActorId, ClusterId, SecretKey};
use tanist::core::tenure::{NotATenure, Tenure, TenureProof, TenureVote};
use tanist::core::version::SignedWrite;
use tanist::core::write::{Term, Write};

use crate::owning::{Owned, resource, tenure_key};
use crate::support::{File, hex, shown};
use crate::world::{
    World, admin, client, decide, founders, genesis_of, key_of, next_entry, node, sign_entry,
};

pub(crate) fn not_a_tenure(why: &NotATenure) -> &'static str {
    match why {
        NotATenure::Place => "tenure-place",
        NotATenure::Value => "tenure-value",
        NotATenure::Term => "tenure-term",
        NotATenure::Fence => "tenure-fence",
    }
}

pub(crate) fn not_proven(why: &NotProven) -> &'static str {
    match why {
        NotProven::Cluster => "cluster",
        NotProven::Tenure(why) => not_a_tenure(why),
        NotProven::OwnerSignature => "owner-signature",
        NotProven::Epoch(_) => "epoch",
        NotProven::Recovery { .. } => "recovery",
        NotProven::NotAVoter => "not-a-voter",
        NotProven::Repeated => "repeated",
        NotProven::VoteSignature => "vote-signature",
        NotProven::TooFew { .. } => "too-few",
    }
}

fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Cluster => "cluster",
        Refusal::Fork(_) => "fork",
        Refusal::Membership { .. } => "membership",
        Refusal::Floor { .. } => "floor",
        Refusal::NotProven(why) => not_proven(why),
        Refusal::Resource(_) => "resource",
    }
}

/// What is changed of a vote before it is signed, by who votes.
type Forgery<'a> = &'a dyn Fn(usize, &mut TenureVote);

struct Certificates {
    world: World,
    file: File,
}

impl Certificates {
    fn voters(&self) -> Vec<Decided> {
        self.world.config.entries(Chain::Voters).iter().map(|entry| Decided::clone(entry)).collect()
    }

    fn certificate(&self, proof: TenureProof) -> Certificate {
        Certificate::new(&self.world.config, proof)
    }

    fn judge(
        &mut self,
        name: &str,
        (pinned, floor): (usize, u64),
        certificate: &Certificate,
        expected: Option<&str>,
    ) {
        let authority = Authority::pin(self.voters().into_iter().take(pinned)).unwrap().with_floor(floor);
        assert_eq!(Certificate::decode(&certificate.encode()).as_ref(), Ok(certificate), "{name}");
        assert_eq!(Certificate::from_text(&certificate.to_text()).as_ref(), Ok(certificate), "{name}");
        let judged = authority.verify_for(certificate, &resource("billing"));
        assert_eq!(judged.as_ref().err().map(reason), expected, "{name}: {judged:?}");
        let mut case = json!({
            "name": name, "kind": "certificate", "chains": "the example cluster", "pinned": pinned, "floor": floor,
            "resource": hex("billing"), "certificate": hex(certificate.encode()),
        });
        match judged {
            Ok(proven) => {
                case["fields"] = shown(certificate);
                case["proven"] = json!({
                    "cluster": shown(&proven.cluster), "resource": shown(&proven.resource),
                    "term": shown(&proven.term), "tenure": shown(&proven.tenure), "key": shown(&proven.key),
                    "owner": shown(&proven.owner), "lease_ms": proven.lease_ms,
                    "config_epoch": proven.config_epoch,
                });
                self.file.valid(case);
            }
            Err(refusal) => {
                case["reason"] = json!(reason(&refusal));
                self.file.invalid(case);
            }
        }
    }

    /// A certificate that proves nothing, judged by the founding entry.
    fn refuse(&mut self, name: &str, proof: TenureProof, expected: &str) {
        let certificate = self.certificate(proof);
        self.judge(name, (1, 1), &certificate, Some(expected));
    }
}

#[test]
fn certificates() {
    let world = World::new();
    let file = File::new("certificates.json", "ownership.md");
    let mut c = Certificates { world, file };
    let first = c.world.tenure("billing", 1, None);
    let second = c.world.tenure("billing", 2, Some(&first));
    let resigned = c.world.resignation(3, &second);
    let proof =
        |c: &Certificates, owned: &Owned, epoch, voters: &[usize]| c.world.proof(owned, epoch, voters);

    let founding =
        Certificate { voters: c.voters()[..1].to_vec(), ..c.certificate(proof(&c, &first, 1, &[0, 1])) };
    c.judge("votes of the founders", (1, 1), &founding, None);
    let later = c.certificate(proof(&c, &second, 2, &[0, 2]));
    c.judge("votes of a later membership, carried along", (1, 1), &later, None);
    c.judge("votes of a later membership, pinned", (2, 2), &later, None);
    c.judge("votes of the lowest epoch that counts", (1, 2), &later, None);
    let whole = c.certificate(proof(&c, &second, 2, &[0, 1, 2]));
    c.judge("votes of the whole electorate", (1, 1), &whole, None);
    let resignation = c.certificate(proof(&c, &resigned, 2, &[1, 2]));
    c.judge("a resignation", (1, 1), &resignation, None);
    let short = Certificate { voters: c.voters()[..1].to_vec(), ..later.clone() };
    c.judge("a carried chain shorter than the pinned one", (2, 2), &short, None);

    pins(&c, &founding, &later);
    forged_votes(&mut c, &second);
    other_tenures(&mut c, &first, &second, &resigned);
    memberships(&mut c, &founding, &later);
    messages(&mut c, &first, &second, &resigned);
    gates(&mut c);
    encodings(&mut c, &later);
    c.file.check();
}

/// What is pinned can be a file, grows with what certificates prove, and can be kept.
fn pins(c: &Certificates, founding: &Certificate, later: &Certificate) {
    let file = armor::write(CLUSTER_TITLE, &codec::encode(&c.voters()[0]));
    let mut authority = Authority::from_cluster_file(&file).unwrap();
    assert_eq!((authority.cluster(), authority.floor()), (c.world.cluster(), 1));
    assert!(authority.verify(founding).is_ok());
    authority.adopt(later).unwrap();
    assert_eq!((authority.voters(), authority.floor()), (c.voters(), 2));
    assert!(matches!(authority.verify(founding), Err(Refusal::Floor { epoch: 1, floor: 2 })));
    let kept = Authority::pin(authority.voters()).unwrap();
    assert_eq!(kept.verify(later), authority.verify(later));
    assert!(Authority::pin([]).is_err() && Authority::pin(c.voters().into_iter().skip(1)).is_err());
    assert!(
        Authority::pin(c.world.entries.iter().take(2).cloned()).is_err(),
        "a policy entry is no membership"
    );
    for bad in [later.to_text(), file.replace("cluster-1", "cluster-2"), file[..file.len() / 2].to_owned()] {
        assert!(Authority::from_cluster_file(&bad).is_err());
    }
}

fn forged_votes(c: &mut Certificates, owned: &Owned) {
    let good = c.world.proof(owned, 2, &[0, 1]);
    let cases = [("no votes", vec![]), ("one vote of three", vec![1])];
    for (name, voters) in cases {
        let proof = c.world.proof(owned, 2, &voters);
        c.refuse(name, proof, "too-few");
    }
    for (name, voters) in [("one vote twice", vec![0, 0]), ("a majority and a vote twice", vec![0, 1, 1])] {
        let proof = c.world.proof(owned, 2, &voters);
        c.refuse(name, proof, "repeated");
    }
    let mut unsorted = good.clone();
    unsorted.votes.reverse();
    c.refuse("votes out of order", unsorted, "repeated");
    let outside = c.world.proof(owned, 2, &[0, 3]);
    c.refuse("a vote of a member outside the electorate", outside, "not-a-voter");
    let spoilt = c.world.proof(owned, 2, &[0, 1, 3]);
    c.refuse("a majority and a vote from outside the electorate", spoilt, "not-a-voter");
    let mut nobody = good.clone();
    nobody.votes[0].0 = ActorId([0; 16]);
    c.refuse("a vote of an actor that is nobody", nobody, "not-a-voter");
    let forged = |c: &Certificates, change: &dyn Fn(usize, &mut TenureVote)| {
        let ballot = good.ballot;
        TenureProof { votes: c.world.votes(owned, ballot, &[0, 1], change), ..good.clone() }
    };
    let first_hash = c.world.voters_entry(1);
    let other = c.world.tenure("billing", 9, None).write.id();
    let changes: [(&str, Forgery<'_>); 7] = [
        ("votes at two ballots", &|n, vote| vote.ballot.counter += n as u64),
        ("votes at two proposers' ballots", &|n, vote| vote.ballot.actor.0[0] ^= n as u8),
        ("votes at another ballot", &|_, vote| vote.ballot.counter += 1),
        ("votes for another tenure", &|_, vote| vote.tenure = other),
        ("votes in another cluster", &|_, vote| vote.cluster = ClusterId([7; 32])),
        ("votes under another configuration's hash", &|_, vote| vote.config = first_hash),
        ("votes in another voter's name", &|_, vote| vote.actor.0[0] ^= 1),
    ];
    for (name, change) in changes {
        let proof = forged(c, change);
        c.refuse(name, proof, "vote-signature");
    }
    let mut flipped = good.clone();
    flipped.votes[1].1.0[40] ^= 1;
    c.refuse("a vote with a bit flipped", flipped, "vote-signature");
    let mut exchanged = good.clone();
    let signature = exchanged.votes[0].1;
    exchanged.votes[0].1 = exchanged.votes[1].1;
    exchanged.votes[1].1 = signature;
    c.refuse("signatures exchanged between voters", exchanged, "vote-signature");
    let mut spoilt = c.world.proof(owned, 2, &[0, 1, 2]);
    spoilt.votes[2].1.0[3] ^= 1;
    c.refuse("a majority and a forged vote", spoilt, "vote-signature");
    let mut author = good.clone();
    author.votes[0].1 = c.world.tenure_vote(owned, good.ballot, 0).sign(&client());
    c.refuse("a vote signed by the candidate", author, "vote-signature");
    let mut moved = good.clone();
    moved.ballot.config_epoch = 1;
    c.refuse("votes passed off as the founders'", moved, "vote-signature");
    let mut unknown = good.clone();
    unknown.ballot.config_epoch = 3;
    c.refuse("votes of an epoch that nobody knows", unknown, "epoch");
    let mut bare = good;
    bare.votes[0].1 = node(0).sign(&codec::encode(&c.world.tenure_vote(owned, bare.ballot, 0)));
    c.refuse("a vote signed without its context", bare, "vote-signature");
}

fn other_tenures(c: &mut Certificates, first: &Owned, second: &Owned, resigned: &Owned) {
    let good = c.world.proof(second, 2, &[0, 1]);
    let mut swapped = good.clone();
    swapped.tenure = first.tenure.clone();
    c.refuse("the value of another tenure", swapped, "tenure-value");
    let mut stolen = good.clone();
    stolen.tenure.key = Some(tenure_key(9).public());
    c.refuse("another key in the tenure", stolen, "tenure-value");
    let mut earlier = good.clone();
    (earlier.signed, earlier.tenure) = (SignedWrite::clone(&first.signed), first.tenure.clone());
    c.refuse("the votes of another tenure", earlier, "vote-signature");
    // Of these the voters signed everything: what is wrong is in the tenure itself.
    let voted = |c: &Certificates, change: &dyn Fn(&mut Write, &mut Tenure)| {
        c.world.proof(&second.changed(change), 2, &[0, 1])
    };
    let proof = voted(c, &|_, tenure| tenure.term.number = 3);
    c.refuse("a term that is not the generation", proof, "tenure-term");
    let proof = voted(c, &|_, tenure| tenure.term = Term { recovery: 1, ..tenure.term });
    c.refuse("a term of another recovery than the votes", proof, "recovery");
    let jobs = c.world.jobs;
    let proof = voted(c, &|write, _| write.namespace = jobs);
    c.refuse("a write that is no tenure", proof, "tenure-place");
    let fence = first.fence();
    let proof = voted(c, &|write, _| write.fence = Some(fence.clone()));
    c.refuse("a fenced tenure that has a key", proof, "tenure-fence");
    let proof = voted(c, &|_, tenure| tenure.key = None);
    c.refuse("a resignation that nobody fenced", proof, "tenure-fence");
    let bad = resigned.changed(&|write, _| write.fence = Some(fence.clone()));
    let proof = c.world.proof(&bad, 2, &[0, 1]);
    c.refuse("a resignation fenced by an earlier tenure", proof, "tenure-fence");
    let bad = resigned.changed(&|write, _| write.fence.as_mut().unwrap().resource = resource("other"));
    let proof = c.world.proof(&bad, 2, &[0, 1]);
    c.refuse("a resignation fenced for another resource", proof, "tenure-fence");
    let proof = voted(c, &|write, _| write.author = key_of(0x66).public());
    c.refuse("an owner that did not sign", proof, "owner-signature");
    let mut forged = good.clone();
    forged.signed = SignedWrite::new(second.write.clone(), first.signed.proof().clone(), None);
    c.refuse("the owner's signature of another tenure", forged, "owner-signature");
    let proof = voted(c, &|write, _| write.cluster.0[0] ^= 1);
    c.refuse("a tenure of another cluster", proof, "cluster");
    let other = c.world.tenure("other", 5, None);
    let proof = c.world.proof(&other, 2, &[0, 1]);
    c.refuse("a certificate for another resource", proof, "resource");
}

fn memberships(c: &mut Certificates, founding: &Certificate, later: &Certificate) {
    c.judge("votes of an epoch that counts no more", (2, 2), founding, Some("floor"));
    c.judge("votes below a floor of the future", (1, 3), later, Some("floor"));
    c.judge(
        "no membership at all",
        (1, 1),
        &Certificate { voters: vec![], ..later.clone() },
        Some("cluster"),
    );
    let short = Certificate { voters: c.voters()[..1].to_vec(), ..later.clone() };
    c.judge("a membership that is left out", (1, 1), &short, Some("epoch"));
    let mut voters = founders();
    voters.nonce = [0x77; 16];
    let foreign = Certificate { voters: vec![genesis_of(voters)], ..founding.clone() };
    c.judge("another founding entry", (1, 1), &foreign, Some("cluster"));
    let config = Authority::pin(c.voters().into_iter().take(1)).unwrap();
    let mut config_one = tanist::core::cluster::Configuration::found(config.voters()[0].clone()).unwrap();
    let next = |change: &dyn Fn(&mut Voters), signer: &SecretKey, voters: &[usize]| {
        let mut second = founders();
        second.nonce = [0; 16];
        change(&mut second);
        let entry = next_entry(&config_one, Chain::Voters, ConfigChange::Voters(second));
        decide(&config_one, sign_entry(config_one.cluster(), entry, signer), voters)
    };
    let coup = |voters: &mut Voters| voters.members[2].key = key_of(0x66).public();
    let cases = [
        ("a membership that one founder voted for", next(&coup, &admin(), &[0]), "membership"),
        ("a membership signed by a stranger", next(&coup, &key_of(0x66), &[0, 1]), "membership"),
        (
            "a membership that no cluster can have",
            next(&|v| v.electorate.truncate(2), &admin(), &[0, 1]),
            "membership",
        ),
    ];
    let with = |entry: &Decided| Certificate {
        voters: vec![founding.voters[0].clone(), entry.clone()],
        ..later.clone()
    };
    for (name, entry, expected) in &cases {
        c.judge(name, (1, 1), &with(entry), Some(expected));
    }
    let policy = c.world.entries[1].clone();
    c.judge("an entry of another chain", (1, 1), &with(&policy), Some("membership"));
    c.judge("the founding entry twice", (1, 1), &with(&founding.voters[0]), Some("membership"));
    let fork = next(&|_| (), &admin(), &[0, 1]);
    config_one.extend(fork.clone()).unwrap();
    c.judge("another membership than the pinned one", (2, 2), &with(&fork), Some("fork"));
}

fn messages(c: &mut Certificates, first: &Owned, second: &Owned, resigned: &Owned) {
    let text = b"put config.toml at version 4";
    let certificate = |c: &Certificates, owned: &Owned| c.certificate(c.world.proof(owned, 2, &[0, 1]));
    let key = |owned: &Owned| owned.secret.clone().unwrap();
    let good = FencedMessage::new(&c.world.proof(second, 2, &[0, 1]), text);
    let mut abroad = good.clone();
    abroad.cluster.0[0] ^= 1;
    let earlier = FencedMessage { tenure: first.write.id(), ..good.clone() };
    let nobody = FencedMessage { tenure: resigned.write.id(), ..good.clone() };
    let bare = key(second).sign(text);
    let cases = [
        ("a message of the owner", second, text.to_vec(), good.sign(&key(second)), true),
        ("another message", second, b"put config.toml at version 5".to_vec(), good.sign(&key(second)), false),
        ("a message signed by the owner before", second, text.to_vec(), good.sign(&key(first)), false),
        ("a message of the tenure before", second, text.to_vec(), earlier.sign(&key(second)), false),
        ("a message signed by the author's key", second, text.to_vec(), good.sign(&client()), false),
        ("a message for another cluster", second, text.to_vec(), abroad.sign(&key(second)), false),
        ("a message signed without its context", second, text.to_vec(), bare, false),
        ("a message under a resignation", resigned, text.to_vec(), nobody.sign(&key(second)), false),
    ];
    for (name, owned, message, signature, good) in cases {
        let certificate = certificate(c, owned);
        let authority = Authority::pin(c.voters()).unwrap();
        let proven = authority.verify(&certificate).unwrap();
        assert_eq!(proven.signed(&message, &signature), good, "{name}");
        let mut case = json!({
            "name": name, "kind": "message", "chains": "the example cluster", "cluster": shown(&proven.cluster),
            "tenure": shown(&proven.tenure), "key": shown(&proven.key), "message": hex(&message),
            "signature": hex(signature.0),
        });
        if good {
            let form =
                FencedMessage { cluster: proven.cluster, tenure: proven.tenure, message: message.clone() };
            case["signed"] = json!(hex([&b"tanist v1 fenced message\0"[..], &codec::encode(&form)].concat()));
            c.file.valid(case);
        } else {
            case["reason"] = json!("message-signature");
            c.file.invalid(case);
        }
    }
}

fn gates(c: &mut Certificates) {
    let term = |recovery, number| Term { recovery, number };
    let second = c.world.tenure("billing", 2, None);
    let proof = c.world.proof(&second, 2, &[0, 1]);
    let proven = Authority::pin(c.voters()).unwrap().verify(&c.certificate(proof)).unwrap();
    let cases = [
        ("terms that rise", vec![term(0, 1), term(0, 2), term(0, 5)], true),
        ("a term again", vec![term(0, 3), term(0, 3)], true),
        ("a restore", vec![term(0, 900), term(1, 1)], true),
        ("a term that is over", vec![term(0, 1), term(0, 2), term(0, 1)], false),
        ("a term of before a restore", vec![term(1, 1), term(0, 900)], false),
        ("the greatest term of before a restore", vec![term(1, 0), term(0, u64::MAX)], false),
    ];
    for (name, terms, good) in cases {
        let mut gate = Gate::default();
        let mut show =
            |term: &Term| gate.admit(&tanist::core::certificate::Proven { term: *term, ..proven.clone() });
        assert_eq!(terms.iter().all(|term| show(term).is_ok()), good, "{name}");
        let case: Value = json!({ "name": name, "kind": "gate", "terms": shown(&terms) });
        match good {
            true => c.file.valid(case),
            false => c
                .file
                .invalid(json!({ "name": name, "kind": "gate", "terms": shown(&terms), "reason": "term" })),
        }
    }
}

fn encodings(c: &mut Certificates, good: &Certificate) {
    let bytes = good.encode();
    let mut newer = bytes.clone();
    newer[0] = CERTIFICATE_FORMAT + 1;
    c.file.refuse::<Certificate>("a certificate of format 2", "decode", &newer.into(), "format");
    let left_over = [&bytes[..], &[0]].concat();
    c.file.refuse::<Certificate>("a byte left over", "decode", &left_over.into(), "left-over");
    c.file.refuse::<Certificate>(
        "a certificate that ends early",
        "decode",
        &bytes[..bytes.len() - 1].to_vec().into(),
        "end",
    );
    let key = good.proof.tenure.key.unwrap();
    let at = bytes.windows(32).rposition(|window| window == key.as_bytes()).unwrap();
    let mut weak = bytes;
    weak[at..at + 32].copy_from_slice(&[0; 32]);
    c.file.refuse::<Certificate>("a tenure with a weak key", "decode", &weak.into(), "public-key");
    c.file.valid(json!({ "name": "a file", "kind": "file", "text": good.to_text(), "certificate": hex(good.encode()) }));
    for (name, text) in [
        ("another title", good.to_text().replace("certificate-1", "certificate-2")),
        ("no title", good.to_text().split_once('\n').unwrap().1.to_owned()),
        ("a digit that is none", good.to_text().replacen('A', "-", 1)),
        ("a text that is cut", good.to_text().lines().take(3).collect::<Vec<_>>().join("\n")),
    ] {
        assert!(Certificate::from_text(&text).is_err(), "{name}");
        let reason = if name == "a text that is cut" { "end" } else { "file" };
        c.file.invalid(json!({ "name": name, "kind": "file", "text": text, "reason": reason }));
    }
}

/// Of what proves a tenure every bit counts. What comes before it, the memberships, is not believed where
/// it is pinned already, nor the resigned owner's signature, which the voters have judged: a bit of these
/// may be anything, and nothing else is proven by it.
#[test]
fn one_bit_of_a_certificate_proves_nothing_else() {
    let world = World::new();
    let first = world.tenure("billing", 1, None);
    let second = world.tenure("billing", 2, Some(&first));
    let resigned = world.resignation(3, &second);
    let voters: Vec<Decided> =
        world.config.entries(Chain::Voters).iter().map(|entry| Decided::clone(entry)).collect();
    let authority = Authority::pin(voters.into_iter().take(1)).unwrap();
    for owned in [&second, &resigned] {
        let certificate = Certificate::new(&world.config, world.proof(owned, 2, &[0, 2]));
        let proven = authority.verify(&certificate).unwrap();
        let bytes = certificate.encode();
        let proof = 8 * (bytes.len() - codec::encode(&certificate.proof).len());
        let mut changed = bytes.clone();
        for bit in (0..proof).step_by(7).chain(proof..8 * bytes.len()) {
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(changed) = Certificate::decode(&changed)
                && let Ok(other) = authority.verify(&changed)
            {
                assert!(bit < proof || proven.key.is_none(), "bit {bit} of a proof that begins at {proof}");
                assert_eq!(other, proven, "bit {bit}");
            }
            changed[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
