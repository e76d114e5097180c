//! `ownership.json`: tenures, what voters and owners sign, and what the gate says of campaigns, seals and
//! heartbeats.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tanist::core::codec;
use tanist::core::identity::{PublicKey, SecretKey, Signature};
use tanist::core::object::NamespaceId;
use tanist::core::tenure::{Renewal, Seal, Tenure, TenureProof, check_tenure, sign_fence};
use tanist::core::verified::{Rejection, RootCache, Verifier};
use tanist::core::version::SignedWrite;
use tanist::core::write::{Term, Write};

use crate::certificates::not_a_tenure;
use crate::owning::{Owned, resource, tenure_key};
use crate::support::{File, hex, shown};
use crate::versions::reason;
use crate::world::{World, author_proof, client, guest, key_of, node};

struct Ownership {
    world: World,
    file: File,
}

impl Ownership {
    fn add(&mut self, mut case: Value, expected: Option<&str>) {
        match expected {
            None => self.file.valid(case),
            Some(reason) => {
                case["reason"] = json!(reason);
                self.file.invalid(case);
            }
        }
    }

    fn tenure(&mut self, name: &str, owned: &Owned) {
        assert_eq!(check_tenure(&owned.signed, &owned.tenure), Ok(()), "{name}");
        assert_eq!(Tenure::decode(&owned.tenure.encode()).as_ref(), Ok(&owned.tenure));
        self.file.valid(json!({
            "name": name, "kind": "tenure", "fields": shown(&owned.tenure), "encoded": hex(owned.tenure.encode()),
            "signed": hex(codec::encode(&*owned.signed)), "id": shown(&owned.write.id()),
        }));
    }

    fn no_tenure(&mut self, name: &str, signed: &SignedWrite, tenure: &Tenure, expected: &str) {
        let why = check_tenure(signed, tenure).expect_err(name);
        assert_eq!(not_a_tenure(&why), expected, "{name}");
        self.file.invalid(json!({
            "name": name, "kind": "tenure", "encoded": hex(tenure.encode()), "signed": hex(codec::encode(signed)),
            "reason": expected,
        }));
    }

    /// A statement that is signed by itself: `context`, a zero byte, its encoding.
    fn statement<T: Serialize>(
        &mut self,
        name: &str,
        (kind, context): (&str, &str),
        statement: &T,
        key: &SecretKey,
        signature: &Signature,
    ) {
        let encoded = codec::encode(statement);
        let message = [context.as_bytes(), &[0], &encoded].concat();
        assert!(key.public().verifies(&message, signature), "{name}");
        let case = |signature: &Signature, key: &PublicKey| {
            json!({
                "name": name, "kind": kind, "fields": shown(statement), "encoded": hex(&encoded),
                "message": hex(&message), "key": shown(key), "signature": hex(signature.0),
            })
        };
        self.file.valid(case(signature, &key.public()));
        let bare = key.sign(&encoded);
        let other = key.sign(&[&b"tanist v1 vote\0"[..], &encoded].concat());
        for (how, signature, key) in [
            ("signed without its context", bare, key.public()),
            ("signed in another context", other, key.public()),
            ("signed by another key", *signature, key_of(0x66).public()),
        ] {
            let mut wrong = case(&signature, &key);
            wrong["name"] = json!(format!("{name}, {how}"));
            wrong["reason"] = json!("signature");
            self.file.invalid(wrong);
        }
    }

    fn judge<T>(&mut self, mut case: Value, judged: Result<T, Rejection>, expected: Option<&str>) {
        let found = judged.as_ref().err().map(reason);
        assert_eq!(found, expected, "{case}");
        case["chains"] = json!("the example cluster");
        self.add(case, expected);
    }

    fn campaign(
        &mut self,
        name: &str,
        signed: &Arc<SignedWrite>,
        value: &[u8],
        proof: Option<&TenureProof>,
        expected: Option<&str>,
    ) {
        let cache = RootCache::default();
        let value_bytes = Bytes::copy_from_slice(value);
        let config = self.world.config.clone();
        let judged = Verifier::new(&config, &cache).campaign(Arc::clone(signed), value_bytes, proof);
        let case = json!({
            "name": name, "kind": "campaign", "signed": hex(codec::encode(&**signed)), "value": hex(value),
            "tenure": proof.map(|proof| hex(codec::encode(proof))),
        });
        self.judge(case, judged, expected);
    }

    fn seal(
        &mut self,
        name: &str,
        seal: &Seal,
        signature: &Signature,
        who: (&PublicKey, Option<&TenureProof>),
        expected: Option<&str>,
    ) {
        let cache = RootCache::default();
        let config = self.world.config.clone();
        let judged = Verifier::new(&config, &cache).seal(seal.clone(), signature, who.0, who.1);
        let case = json!({
            "name": name, "kind": "seal", "seal": hex(codec::encode(seal)), "signature": hex(signature.0),
            "sealer": shown(who.0), "tenure": who.1.map(|proof| hex(codec::encode(proof))),
        });
        self.judge(case, judged, expected);
    }

    fn renewal(
        &mut self,
        name: &str,
        renewal: &Renewal,
        key: &PublicKey,
        signature: &Signature,
        expected: Option<&str>,
    ) {
        let cache = RootCache::default();
        let config = self.world.config.clone();
        let judged = Verifier::new(&config, &cache).renewal(renewal.clone(), *key, signature);
        let case = json!({
            "name": name, "kind": "renewal", "renewal": hex(codec::encode(renewal)), "key": shown(key),
            "signature": hex(signature.0),
        });
        self.judge(case, judged, expected);
    }
}

#[test]
fn ownership() {
    let world = World::new();
    let mut o = Ownership { world, file: File::new("ownership.json", "ownership.md") };
    let first = o.world.tenure("billing", 1, None);
    let second = o.world.tenure("billing", 2, Some(&first));
    let resigned = o.world.resignation(3, &second);
    o.tenure("the first tenure", &first);
    o.tenure("the next tenure", &second);
    o.tenure("a resignation", &resigned);
    tenures(&mut o, &first, &second, &resigned);
    statements(&mut o, &second);
    campaigns(&mut o, &first, &second, &resigned);
    seals(&mut o, &second);
    renewals(&mut o, &second);
    o.file.check();
}

fn tenures(o: &mut Ownership, first: &Owned, second: &Owned, resigned: &Owned) {
    let mut bytes = first.tenure.encode();
    bytes[0] = 2;
    o.file.refuse::<Tenure>("a tenure of format 2", "decode", &bytes.into(), "format");
    for (name, lease_ms) in [("a lease of 999 ms", 999), ("a lease of 300,001 ms", 300_001), ("no lease", 0)]
    {
        let bytes = Tenure { lease_ms, ..first.tenure.clone() }.encode();
        o.file.refuse::<Tenure>(name, "decode", &bytes.into(), "lease");
    }
    let mut bytes = first.tenure.encode();
    bytes[14..46].copy_from_slice(&[0; 32]);
    o.file.refuse::<Tenure>("a weak tenure key", "decode", &bytes.into(), "public-key");
    let left_over = [first.tenure.encode(), vec![0]].concat();
    o.file.refuse::<Tenure>("a byte left over", "decode", &left_over.into(), "left-over");

    let jobs = o.world.jobs;
    let cases: [(&str, Owned, &str); 7] = [
        ("a write elsewhere", second.changed(&|write, _| write.namespace = jobs), "tenure-place"),
        (
            "a term ahead of its generation",
            second.changed(&|_, tenure| tenure.term.number = u64::MAX),
            "tenure-term",
        ),
        ("the term before", second.changed(&|_, tenure| tenure.term.number = 1), "tenure-term"),
        ("a resignation without a fence", second.changed(&|_, tenure| tenure.key = None), "tenure-fence"),
        (
            "a fenced tenure with a key",
            resigned.changed(&|_, tenure| tenure.key = first.tenure.key),
            "tenure-fence",
        ),
        (
            "a resignation fenced by an earlier tenure",
            resigned.changed(&|write, _| write.fence = Some(first.fence())),
            "tenure-fence",
        ),
        (
            "a resignation fenced for another resource",
            resigned.changed(&|write, _| write.fence.as_mut().unwrap().resource = resource("other")),
            "tenure-fence",
        ),
    ];
    for (name, owned, expected) in cases {
        o.no_tenure(name, &owned.signed, &owned.tenure, expected);
    }
    o.no_tenure("the value of another tenure", &second.signed, &first.tenure, "tenure-value");
    let mut deletion = second.clone();
    deletion.write.body = tanist::core::write::Body::Delete;
    let deletion = deletion.signed_anew();
    o.no_tenure("a resource that is deleted", &deletion.signed, &second.tenure, "tenure-place");
}

fn statements(o: &mut Ownership, owned: &Owned) {
    let ballot = o.world.ballot(2, 70_000);
    let vote = o.world.tenure_vote(owned, ballot, 1);
    let signature = vote.sign(&node(1));
    o.statement("a vote", ("vote", "tanist v1 tenure vote"), &vote, &node(1), &signature);
    let key = owned.secret.clone().unwrap();
    let renewal = renewal(o, owned, 7);
    let signature = renewal.sign(&key);
    o.statement("a renewal", ("heartbeat", "tanist v1 renewal"), &renewal, &key, &signature);
    let seal = seal(o, owned);
    let signature = seal.sign(&key);
    o.statement("a seal", ("sealing", "tanist v1 seal"), &seal, &key, &signature);
    let write = o.world.write("job", 9, &[], tanist::core::write::Body::Delete);
    let signature = sign_fence(&key, o.world.cluster(), write.id());
    o.statement(
        "a fence",
        ("fencing", "tanist v1 fence"),
        &(o.world.cluster(), write.id()),
        &key,
        &signature,
    );
}

fn renewal(o: &Ownership, owned: &Owned, sequence: u64) -> Renewal {
    Renewal { cluster: o.world.cluster(), resource: resource("billing"), tenure: owned.write.id(), sequence }
}

fn seal(o: &Ownership, owned: &Owned) -> Seal {
    Seal { cluster: o.world.cluster(), namespace: o.world.jobs, key: resource("job"), fence: owned.fence() }
}

fn campaigns(o: &mut Ownership, first: &Owned, second: &Owned, resigned: &Owned) {
    let proof = o.world.proof(second, 2, &[0, 1]);
    let value = |owned: &Owned| owned.tenure.encode();
    o.campaign("a campaign", &second.signed, &value(second), None, None);
    o.campaign("a resignation with its proof", &resigned.signed, &value(resigned), Some(&proof), None);
    o.campaign(
        "a resignation without its proof",
        &resigned.signed,
        &value(resigned),
        None,
        Some("needs-tenure"),
    );
    let before = o.world.proof(first, 2, &[0, 1]);
    o.campaign(
        "a resignation with the proof of another tenure",
        &resigned.signed,
        &value(resigned),
        Some(&before),
        Some("needs-tenure"),
    );
    let few = o.world.proof(second, 2, &[1]);
    o.campaign(
        "a resignation of a tenure that is not proved",
        &resigned.signed,
        &value(resigned),
        Some(&few),
        Some("too-few"),
    );
    let with_fence = |signature| {
        let proof = author_proof(&resigned.write, &client());
        Arc::new(SignedWrite::new(resigned.write.clone(), proof, signature))
    };
    o.campaign(
        "a resignation that its key did not sign",
        &with_fence(None),
        &value(resigned),
        Some(&proof),
        Some("fence"),
    );
    let forged = sign_fence(&tenure_key(9), o.world.cluster(), resigned.write.id());
    o.campaign(
        "a resignation signed by another tenure's key",
        &with_fence(Some(forged)),
        &value(resigned),
        Some(&proof),
        Some("fence"),
    );
    o.campaign("a value that is no tenure", &second.signed, b"none", None, Some("value"));
    o.campaign(
        "a campaign with the value of another tenure",
        &second.signed,
        &value(first),
        None,
        Some("tenure-value"),
    );
    let late = second.changed(&|_, tenure| tenure.term.number = 9);
    o.campaign("a term that was chosen freely", &late.signed, &value(&late), None, Some("tenure-term"));
    let restored = second.changed(&|_, tenure| tenure.term = Term { recovery: 1, ..tenure.term });
    o.campaign("a term of another recovery", &restored.signed, &value(&restored), None, Some("recovery"));
    let stranger = second.changed(&|write, _| write.author = guest().public());
    o.campaign(
        "an author without the right to elect",
        &stranger.signed,
        &value(&stranger),
        None,
        Some("no-right"),
    );
    let wrong: Write = second.write.clone();
    let forged = Arc::new(SignedWrite::new(wrong, author_proof(&first.write, &client()), None));
    o.campaign(
        "a campaign that its author did not sign",
        &forged,
        &value(second),
        None,
        Some("author-signature"),
    );
}

fn seals(o: &mut Ownership, owned: &Owned) {
    let key = owned.secret.clone().unwrap();
    let proof = o.world.proof(owned, 2, &[0, 1]);
    let me = client().public();
    let good = seal(o, owned);
    let signature = good.sign(&key);
    o.seal("a seal with its proof", &good, &signature, (&me, Some(&proof)), None);
    o.seal("a seal without its proof", &good, &signature, (&me, None), Some("needs-tenure"));
    o.seal(
        "a seal from somebody without a right",
        &good,
        &signature,
        (&guest().public(), Some(&proof)),
        Some("no-right"),
    );
    let forged = good.sign(&tenure_key(9));
    o.seal("a seal signed by another key", &good, &forged, (&me, Some(&proof)), Some("fence"));
    let carts = o.world.carts;
    let resources = NamespaceId::resources(o.world.cluster());
    let changes: [(&str, &dyn Fn(&mut Seal), &str); 7] = [
        ("a seal of a resource", &|seal| seal.namespace = resources, "mode"),
        ("a seal of another key", &|seal| seal.key = resource("other"), "fence"),
        ("a seal of another term", &|seal| seal.fence.term.number = 3, "fence"),
        ("a seal of another resource", &|seal| seal.fence.resource = resource("other"), "fence"),
        ("a seal among siblings", &|seal| seal.namespace = carts, "mode"),
        ("a seal in no namespace", &|seal| seal.namespace.0 = [9; 32], "unknown-namespace"),
        ("a seal of another cluster", &|seal| seal.cluster.0[0] ^= 1, "cluster"),
    ];
    for (name, change, expected) in changes {
        let mut bad = good.clone();
        change(&mut bad);
        // All but the first are signed: what is wrong is what is said.
        let signature = if name == "a seal of another key" { signature } else { bad.sign(&key) };
        o.seal(name, &bad, &signature, (&me, Some(&proof)), Some(expected));
    }
}

fn renewals(o: &mut Ownership, owned: &Owned) {
    let key = owned.secret.clone().unwrap();
    let good = renewal(o, owned, 7);
    let signature = good.sign(&key);
    o.renewal("a heartbeat", &good, &key.public(), &signature, None);
    let later = Renewal { sequence: 8, ..good.clone() };
    o.renewal(
        "a heartbeat with a later number",
        &later,
        &key.public(),
        &signature,
        Some("renewal-signature"),
    );
    o.renewal(
        "a heartbeat shown with another key",
        &good,
        &tenure_key(9).public(),
        &signature,
        Some("renewal-signature"),
    );
    let mut abroad = good.clone();
    abroad.cluster.0[0] ^= 1;
    let signature = abroad.sign(&key);
    o.renewal("a heartbeat of another cluster", &abroad, &key.public(), &signature, Some("cluster"));
}
