//! `versions.json`: versions, and what the gate takes and refuses.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::stamp::SignedStamp;
use tanist::core::tenure::{TenureProof, sign_fence};
use tanist::core::verified::{Copy, Rejection, RootCache, Submission, Verifier};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Body, Fence, Term, Write, WriteId};

use crate::certificates::{not_a_tenure, not_proven};
use crate::owning::Owned;
use crate::support::{File, hex, shown};
use crate::world::{World, author_proof, client, guest, key_of, node, sign};

/// The documents' name of a rejection.
pub(crate) fn reason(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Cluster => "cluster",
        Rejection::AuthorSignature => "author-signature",
        Rejection::StampSignature => "stamp-signature",
        Rejection::StampObject => "stamp-object",
        Rejection::UnknownActor => "unknown-actor",
        Rejection::NoStamp => "no-stamp",
        Rejection::Value => "value",
        Rejection::NoRight => "no-right",
        Rejection::UnknownNamespace => "unknown-namespace",
        Rejection::Mode => "mode",
        Rejection::NoEvidence => "no-evidence",
        Rejection::Fenced => "fenced",
        Rejection::NeedsEntry { .. } => "needs-entry",
        Rejection::Past => "past",
        Rejection::NeedsTenure => "needs-tenure",
        Rejection::NotProven(why) => not_proven(why),
        Rejection::Fence => "fence",
        Rejection::Tenure(why) => not_a_tenure(why),
        Rejection::Recovery => "recovery",
        Rejection::Renewal => "renewal-signature",
    }
}

struct Gate<'a> {
    world: &'a World,
    cache: RootCache,
    file: File,
}

impl Gate<'_> {
    fn copy(&mut self, name: &str, version: &Version, value: &[u8], expected: Option<&str>) {
        let copy = Copy { version: version.clone(), value: Bytes::copy_from_slice(value) };
        let judged = Verifier::new(&self.world.config, &self.cache).copy(copy).map(|_| ());
        assert_eq!(judged.as_ref().err().map(reason), expected, "{name}");
        let encoded = hex(codec::encode(version));
        self.add(json!({ "name": name, "kind": "copy", "version": encoded, "value": hex(value) }), expected);
    }

    fn submission(
        &mut self,
        name: &str,
        signed: &Arc<SignedWrite>,
        value: &[u8],
        presented: &[Arc<SignedStamp>],
        expected: Option<&str>,
    ) {
        self.fenced(name, signed, (value, presented), None, expected);
    }

    fn fenced(
        &mut self,
        name: &str,
        signed: &Arc<SignedWrite>,
        (value, presented): (&[u8], &[Arc<SignedStamp>]),
        proof: Option<&TenureProof>,
        expected: Option<&str>,
    ) {
        let submission = Submission {
            signed: Arc::clone(signed),
            value: Bytes::copy_from_slice(value),
            presented: presented.to_vec(),
        };
        let judged = Verifier::new(&self.world.config, &self.cache).submission(submission, proof).map(|_| ());
        assert_eq!(judged.as_ref().err().map(reason), expected, "{name}");
        let stamps: Vec<String> = presented.iter().map(|stamp| hex(codec::encode(&**stamp))).collect();
        let case = json!({
            "name": name, "kind": "submission", "signed": hex(codec::encode(&**signed)), "value": hex(value),
            "presented": stamps, "tenure": proof.map(|proof| hex(codec::encode(proof))),
        });
        self.add(case, expected);
    }

    fn evidence(&mut self, name: &str, first: &SignedStamp, second: &SignedStamp, expected: Option<&str>) {
        let judged = Verifier::new(&self.world.config, &self.cache).evidence(first, second);
        assert_eq!(judged.as_ref().err().map(reason), expected, "{name}");
        let (first, second) = (hex(codec::encode(first)), hex(codec::encode(second)));
        self.add(json!({ "name": name, "kind": "evidence", "first": first, "second": second }), expected);
    }

    fn add(&mut self, mut case: Value, expected: Option<&str>) {
        case["chains"] = json!("the example cluster");
        match expected {
            None => self.file.valid(case),
            Some(reason) => {
                case["reason"] = json!(reason);
                self.file.invalid(case);
            }
        }
    }
}

fn one_stamp(write: &Write, stamp: Arc<SignedStamp>) -> Version {
    let mut stamps = Stamps::default();
    stamps.insert(stamp);
    Version { signed: sign(write, &client()), stamps }
}

#[test]
fn versions() {
    let world = World::new();
    let file = File::new("versions.json", "objects.md");
    let mut gate = Gate { world: &world, cache: RootCache::default(), file };
    let first = world.write("user-7", 1, &[], Body::put(b"one"));
    let good = world.version(&first, &[(0, 0, 1, Past::new())]);
    let twice =
        world.version(&first, &[(0, 0, 18, Past::new()), (0, 18, 20, Past::new()), (2, 0, 4, Past::new())]);
    let second = world.write("user-7", 2, &[&first], Body::Delete);
    let child = world.version(&second, &[(1, 0, 7, world.past_of(&[&good]))]);
    for (name, version) in
        [("one stamp", &good), ("three stamps, two of one actor", &twice), ("a child", &child)]
    {
        let encoded = codec::encode(version);
        gate.file.valid(json!({
            "name": name, "kind": "version", "fields": shown(version), "encoded": hex(&encoded),
            "id": shown(&version.id()), "past": shown(&version.past()),
        }));
    }

    gate.copy("a good copy", &good, b"one", None);
    gate.copy("a good copy with several stamps", &twice, b"one", None);
    gate.copy("a good deletion", &child, b"", None);
    let guests = |revision: u64| {
        let mut write = world.write("user-9", 3, &[], Body::put(b"hi"));
        write.author = guest().public();
        let mut stamp = world.stamp(&write, 0, 0, 30, Past::new());
        stamp.policy_revision = revision;
        let mut version = one_stamp(&write, world.sign_stamp(stamp, 0));
        version.signed = sign(&write, &guest());
        version
    };
    gate.copy("a right that was revoked later", &guests(3), b"hi", None);
    let in_old = |revision: u64| {
        let mut write = world.write("user-9", 4, &[], Body::put(b"hi"));
        write.namespace = world.old;
        let mut stamp = world.stamp(&write, 0, 0, 31, Past::new());
        stamp.policy_revision = revision;
        one_stamp(&write, world.sign_stamp(stamp, 0))
    };
    gate.copy("a namespace that was dropped later", &in_old(5), b"hi", None);
    let later = |actor: usize, epoch: u64, revision: u64| {
        let mut stamp = world.stamp(&first, actor, 0, 9, Past::new());
        (stamp.config_epoch, stamp.policy_revision) = (epoch, revision);
        one_stamp(&first, world.sign_stamp(stamp, actor))
    };
    gate.copy("a member of the second epoch", &later(3, 2, 1), b"one", None);

    gate.copy("another value", &good, b"two", Some("value"));
    gate.copy("no stamp", &Version { stamps: Stamps::default(), ..good.clone() }, b"one", Some("no-stamp"));
    gate.copy("a member before its epoch", &later(3, 1, 1), b"one", Some("unknown-actor"));
    gate.copy("an epoch that is not known yet", &later(0, 3, 1), b"one", Some("needs-entry"));
    gate.copy("an epoch of 0", &later(0, 0, 1), b"one", Some("unknown-actor"));
    gate.copy("a revision that is not known yet", &later(0, 1, 7), b"one", Some("needs-entry"));
    gate.copy("a revision before the namespace", &later(0, 1, 0), b"one", Some("no-right"));
    gate.copy("a right before it was granted", &guests(2), b"hi", Some("no-right"));
    gate.copy("a right at the revision that revoked it", &guests(4), b"hi", Some("no-right"));
    gate.copy("a dropped namespace", &in_old(6), b"hi", Some("no-right"));
    let mut elsewhere = world.stamp(&first, 0, 0, 9, Past::new());
    elsewhere.object = world.write("user-8", 1, &[], Body::Delete).object();
    gate.copy(
        "a stamp for another object",
        &one_stamp(&first, world.sign_stamp(elsewhere.clone(), 0)),
        b"one",
        Some("stamp-object"),
    );
    let other = world.write("user-7", 9, &[], Body::Delete);
    let of_other = world.sign_stamp(world.stamp(&other, 0, 0, 9, Past::new()), 0);
    gate.copy("a stamp of another write", &one_stamp(&first, of_other), b"one", Some("stamp-object"));
    let mut abroad = world.stamp(&first, 0, 0, 9, Past::new());
    abroad.cluster.0[0] ^= 1;
    gate.copy(
        "a stamp of another cluster",
        &one_stamp(&first, world.sign_stamp(abroad, 0)),
        b"one",
        Some("cluster"),
    );
    let forged = world.sign_stamp(world.stamp(&first, 0, 0, 9, Past::new()), 1);
    gate.copy("a stamp signed by another node", &one_stamp(&first, forged), b"one", Some("stamp-signature"));
    let mut foreign = world.stamp(&first, 0, 0, 9, Past::new());
    foreign.actor.0[0] ^= 1;
    gate.copy(
        "an actor that is no member",
        &one_stamp(&first, world.sign_stamp(foreign, 0)),
        b"one",
        Some("unknown-actor"),
    );
    let mut second_bad = good.clone();
    second_bad.stamps.insert(world.sign_stamp(world.stamp(&first, 2, 0, 4, Past::new()), 0));
    gate.copy("one good stamp and one forged", &second_bad, b"one", Some("stamp-signature"));
    let proof = author_proof(&other, &client());
    let unsigned = Version { signed: Arc::new(SignedWrite::new(first.clone(), proof, None)), ..good.clone() };
    gate.copy("the author's signature of another write", &unsigned, b"one", Some("author-signature"));
    let mut moved = first.clone();
    moved.cluster.0[0] ^= 1;
    let mut stamp = world.stamp(&moved, 0, 0, 9, Past::new());
    stamp.cluster = world.cluster();
    gate.copy(
        "a write of another cluster",
        &one_stamp(&moved, world.sign_stamp(stamp, 0)),
        b"one",
        Some("cluster"),
    );

    let first_signed = sign(&first, &client());
    let parent: Vec<_> = good.stamps.iter().cloned().collect();
    gate.submission("a good submission", &first_signed, b"one", &[], None);
    gate.submission("a submission with its parent's stamp", &sign(&second, &client()), b"", &parent, None);
    let submit =
        |gate: &mut Gate<'_>, name: &str, change: &dyn Fn(&mut Write), value: &[u8], expected: &str| {
            let mut write = first.clone();
            change(&mut write);
            gate.submission(name, &sign(&write, &client()), value, &[], Some(expected));
        };
    submit(
        &mut gate,
        "an unknown namespace",
        &|write| write.namespace.0 = [7; 32],
        b"one",
        "unknown-namespace",
    );
    submit(
        &mut gate,
        "a namespace that is dropped now",
        &|write| write.namespace = world.old,
        b"one",
        "unknown-namespace",
    );
    let fence = |write: &mut Write| {
        let (resource, term) = (write.key.clone(), Term { recovery: 0, number: 1 });
        write.fence = Some(Fence { resource, term, tenure: WriteId([1; 32]) });
    };
    submit(&mut gate, "a fenced write among siblings", &fence, b"one", "fenced");
    let fence_only =
        SignedWrite::new(first.clone(), author_proof(&first, &client()), Some(key_of(0x31).sign(b"fence")));
    gate.submission(
        "a fence's signature without a fence",
        &Arc::new(fence_only),
        b"one",
        &[],
        Some("fenced"),
    );
    submit(&mut gate, "a submission of another cluster", &|write| write.cluster.0[0] ^= 1, b"one", "cluster");
    submit(&mut gate, "a submission with another value", &|_| (), b"two", "value");
    submit(
        &mut gate,
        "an author without a right",
        &|write| write.author = node(0).public(),
        b"one",
        "no-right",
    );
    submit(
        &mut gate,
        "an author whose right ended",
        &|write| write.author = guest().public(),
        b"one",
        "no-right",
    );
    let badly = Arc::new(SignedWrite::new(first.clone(), author_proof(&other, &client()), None));
    gate.submission("a forged author", &badly, b"one", &[], Some("author-signature"));
    let stray = [world.sign_stamp(elsewhere, 0)];
    gate.submission(
        "a presented stamp of another object",
        &first_signed,
        b"one",
        &stray,
        Some("stamp-object"),
    );
    let mut child = first.clone();
    (child.parents, child.generation) = (vec![other.id()], 2);
    let child = Arc::new(SignedWrite::new(child.clone(), author_proof(&child, &client()), None));
    let good_stamp = [world.sign_stamp(world.stamp(&other, 0, 0, 9, Past::new()), 0)];
    gate.submission("a parent's stamp, presented", &child, b"one", &good_stamp, None);
    gate.submission(
        "a presented stamp of a write that is no parent",
        &first_signed,
        b"one",
        &good_stamp,
        Some("stamp-object"),
    );
    let many: Vec<_> =
        (9..26).map(|counter| world.sign_stamp(world.stamp(&other, 0, 0, counter, Past::new()), 0)).collect();
    gate.submission("seventeen stamps of one parent", &child, b"one", &many, Some("stamp-object"));
    let false_stamp = [world.sign_stamp(world.stamp(&other, 0, 0, 9, Past::new()), 2)];
    gate.submission(
        "a presented stamp that is forged",
        &child,
        b"one",
        &false_stamp,
        Some("stamp-signature"),
    );

    let honest = world.sign_stamp(world.stamp(&first, 0, 0, 40, Past::new()), 0);
    let other_write = world.sign_stamp(world.stamp(&other, 0, 0, 40, Past::new()), 0);
    let other_past = world.sign_stamp(world.stamp(&first, 0, 0, 40, world.past(&[(1, 0, 1)])), 0);
    gate.evidence("one dot, two writes", &honest, &other_write, None);
    gate.evidence("one dot, two pasts", &honest, &other_past, None);
    gate.evidence("one stamp twice", &honest, &honest, Some("no-evidence"));
    let next = world.sign_stamp(world.stamp(&first, 0, 40, 41, Past::new()), 0);
    gate.evidence("two dots", &honest, &next, Some("no-evidence"));
    let of_b = world.sign_stamp(world.stamp(&first, 1, 0, 40, Past::new()), 1);
    gate.evidence("one counter of two actors", &honest, &of_b, Some("no-evidence"));
    let framed = world.sign_stamp(world.stamp(&other, 0, 0, 40, Past::new()), 1);
    gate.evidence("evidence that another node made up", &honest, &framed, Some("stamp-signature"));

    fenced_submissions(&mut gate);

    let mut file = gate.file;
    let stamps: Vec<Arc<SignedStamp>> = twice.stamps.iter().cloned().collect();
    let list = |order: &[usize]| {
        let picked: Vec<_> = order.iter().map(|n| Arc::clone(&stamps[*n])).collect();
        codec::encode(&(&twice.signed, picked))
    };
    assert!(codec::decode::<Version>(&list(&[0, 1, 2])).is_ok());
    file.refuse::<Version>("stamps out of order", "version", &list(&[1, 0, 2]).into(), "stamps");
    file.refuse::<Version>("a stamp twice", "version", &list(&[0, 0]).into(), "stamps");
    let many: Vec<_> =
        (1..=17).map(|n| world.sign_stamp(world.stamp(&first, 0, n - 1, n, Past::new()), 0)).collect();
    file.refuse::<Version>("17 stamps", "version", &codec::encode(&(&good.signed, many)).into(), "stamps");
    let left_over = [codec::encode(&good), vec![0]].concat();
    file.refuse::<Version>("a byte left over", "version", &left_over.into(), "left-over");
    file.check();
}

/// Submissions to registers: with and without fences.
fn fenced_submissions(gate: &mut Gate<'_>) {
    let world = gate.world;
    let owned = world.tenure("billing", 1, None);
    let proof = world.proof(&owned, 2, &[0, 1]);
    let write = |nonce: u8, change: &dyn Fn(&mut Write)| {
        let mut write = world.write("job", nonce, &[], Body::put(b"one"));
        (write.namespace, write.fence) = (world.jobs, Some(owned.fence()));
        change(&mut write);
        write
    };
    let signed_by = |write: &Write, owned: &Owned| {
        let fence = sign_fence(owned.secret.as_ref().unwrap(), world.cluster(), write.id());
        Arc::new(SignedWrite::new(write.clone(), author_proof(write, &client()), Some(fence)))
    };
    let one: (&[u8], &[Arc<SignedStamp>]) = (b"one", &[]);
    let plain = sign(&write(1, &|write| write.fence = None), &client());
    gate.fenced("a write to a register", &plain, one, None, None);
    let good = write(2, &|_| ());
    // Judged before the proof is remembered.
    gate.fenced("a fenced write without a proof", &signed_by(&good, &owned), one, None, Some("needs-tenure"));
    let other = world.tenure("billing", 2, Some(&owned));
    let other_proof = world.proof(&other, 2, &[0, 1]);
    let fenced = signed_by(&good, &owned);
    gate.fenced("a proof of another tenure", &fenced, one, Some(&other_proof), Some("needs-tenure"));
    let weak = world.proof(&owned, 2, &[0]);
    gate.fenced("a proof of one vote", &fenced, one, Some(&weak), Some("too-few"));
    let mut early = world.proof(&owned, 2, &[0, 1]);
    early.ballot.config_epoch = 3;
    gate.fenced("a proof of an epoch not known yet", &fenced, one, Some(&early), Some("needs-entry"));
    gate.fenced("a fenced write with its proof", &fenced, one, Some(&proof), None);
    let of_other = signed_by(&good, &other);
    gate.fenced("a fence signed by another tenure's key", &of_other, one, Some(&proof), Some("fence"));
    let unsigned = sign(&good, &client());
    gate.fenced("a fence that nobody signed", &unsigned, one, Some(&proof), Some("fence"));
    let no_fence = write(3, &|write| write.fence = None);
    gate.fenced(
        "a signature without a fence",
        &signed_by(&no_fence, &owned),
        one,
        Some(&proof),
        Some("fence"),
    );
    let higher = write(4, &|write| write.fence.as_mut().unwrap().term.number = 2);
    gate.fenced("a fence of another term", &signed_by(&higher, &owned), one, Some(&proof), Some("fence"));
    let foreign = write(5, &|write| write.fence.as_mut().unwrap().resource = write.key.clone());
    gate.fenced(
        "a fence of another resource",
        &signed_by(&foreign, &owned),
        one,
        Some(&proof),
        Some("fence"),
    );
    let ended = world.resignation(3, &owned);
    let ended_proof = world.proof(&ended, 2, &[1, 2]);
    let under = write(6, &|write| write.fence = Some(ended.fence()));
    gate.fenced(
        "a fence of a resignation",
        &signed_by(&under, &owned),
        one,
        Some(&ended_proof),
        Some("fence"),
    );
    let value = owned.tenure.encode();
    let taken: (&[u8], &[Arc<SignedStamp>]) = (&value, &[]);
    gate.fenced("a tenure that is submitted as a write", &owned.signed, taken, None, Some("mode"));
    let mut child = write(7, &|write| write.fence = None);
    (child.parents, child.generation) = (vec![good.id()], 2);
    let stamp = [world.sign_stamp(world.stamp(&good, 0, 0, 9, Past::new()), 0)];
    let presented: (&[u8], &[Arc<SignedStamp>]) = (b"one", &stamp);
    gate.fenced("a stamp presented for a register", &sign(&child, &client()), presented, None, Some("past"));
}
