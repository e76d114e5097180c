//! `frames.json`: a frame of every kind of message, and what is no frame or no message.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::json;
use tanist::core::chain::{Ballot, Chain, Mode};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::hash::Hash;
use tanist::core::identity::{ActorId, Incarnation, MemberId};
use tanist::core::object::Key;
use tanist::core::register::{Bound, RegisterState};
use tanist::core::tenure::{self, Renewal};
use tanist::core::version::{SignedWrite, Version};
use tanist::core::write::{Body, Fence, Term, Write, WriteId};
use tanist::wire::client as c;
use tanist::wire::frame::{Frame, FrameError};
use tanist::wire::ownership as o;
use tanist::wire::peer as p;
use tanist::wire::register as r;
use tanist::wire::registry::{MessageError, PeerMessage, Reply, Request};
use tanist::wire::values::Values;

use crate::owning::resource;
use crate::support::{File, category, hex, shown};
use crate::world::{World, client, member, node, sign};

const ENVELOPE: p::Envelope = p::Envelope { incarnation: Incarnation([0x5e; 16]), synced: 41 };

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame.encode_into(&mut out);
    out.to_vec()
}

fn values(all: &[&'static [u8]]) -> Values {
    all.iter().map(|value| Bytes::from_static(value)).collect()
}

struct Frames {
    file: File,
    seen: BTreeSet<u16>,
}

impl Frames {
    fn add<M: Serialize>(&mut self, direction: &str, name: &str, message: &M, frame: &Frame) {
        self.seen.insert(frame.kind);
        let longer = [&frame.header[..], &[0]].concat();
        let left_over = raw(frame.kind, &longer, &frame.body);
        self.refuse(&format!("{name}, a byte left over"), direction, left_over, "left-over");
        self.file.valid(json!({
            "name": name, "kind": direction, "number": frame.kind, "fields": shown(message),
            "header": hex(&frame.header), "body": hex(&frame.body), "frame": hex(bytes_of(frame)),
        }));
    }

    fn request<M: Serialize + Clone + Into<Request>>(&mut self, name: &str, message: &M) {
        let request: Request = message.clone().into();
        let frame = request.encode();
        assert_eq!(Request::decode(frame.clone()), Ok(request));
        self.add("request", name, message, &frame);
    }

    fn reply<M: Serialize + Clone + Into<Reply>>(&mut self, name: &str, message: &M) {
        let reply: Reply = message.clone().into();
        let frame = reply.encode();
        assert_eq!(Reply::decode(frame.clone()), Ok(reply));
        self.add("reply", name, message, &frame);
    }

    fn peer<M: Serialize + Clone + Into<PeerMessage>>(&mut self, name: &str, message: &M) {
        let peer: PeerMessage = message.clone().into();
        let frame = peer.encode(ENVELOPE);
        assert_eq!(PeerMessage::decode(frame.clone()), Ok((ENVELOPE, peer)));
        self.add("peer", name, message, &frame);
    }

    /// Bytes that are no frame, or not a message from this direction.
    fn refuse(&mut self, name: &str, direction: &str, bytes: Vec<u8>, expected: &str) {
        let found = match Frame::take(&mut BytesMut::from(&bytes[..])) {
            Err(FrameError::Version(_)) => "version",
            Err(FrameError::TooLarge(_)) => "too-large",
            Ok(None) | Err(FrameError::Short { .. }) => "short",
            Ok(Some(frame)) => {
                let decoded = match direction {
                    "request" => Request::decode(frame).map(|_| ()),
                    "reply" => Reply::decode(frame).map(|_| ()),
                    _ => PeerMessage::decode(frame).map(|_| ()),
                };
                match decoded.expect_err(name) {
                    MessageError::Kind(_) => "kind",
                    MessageError::Header(error) => category(&error),
                    MessageError::Body(_) => "body",
                }
            }
        };
        assert_eq!(found, expected, "{name}");
        self.file.invalid(json!({ "name": name, "kind": direction, "hex": hex(bytes), "reason": expected }));
    }
}

#[test]
fn frames() {
    let world = World::new();
    let mut frames = Frames { file: File::new("frames.json", "wire.md"), seen: BTreeSet::new() };
    client_messages(&world, &mut frames);
    register_messages(&world, &mut frames);
    ownership_messages(&world, &mut frames);
    register_peers(&world, &mut frames);
    peer_messages(&world, &mut frames);
    let all: BTreeSet<u16> =
        [Request::KINDS, Reply::KINDS, PeerMessage::KINDS].concat().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(frames.seen, all, "a frame of every kind");
    refusals(&world, &mut frames);
    frames.file.check();
}

fn client_messages(world: &World, frames: &mut Frames) {
    let key = Key::try_from("user-7").unwrap();
    let namespace = world.carts;
    let first = world.write("user-7", 1, &[], Body::put(b"one"));
    let version = world.version(&first, &[(0, 0, 1, Past::new())]);
    let second = world.write("user-7", 2, &[&first], Body::put(b"two"));
    let stamps: Vec<_> = version.stamps.iter().cloned().collect();
    let (id, other) = (first.id(), second.id());

    let submit = c::Submit {
        signed: sign(&second, &client()),
        on_conflict: c::OnConflict::KeepBoth,
        presented: stamps.clone(),
        tenure: None,
        value: values(&[b"two"]),
    };
    frames.request("Submit", &submit);
    let deletion = sign(&world.write("user-7", 3, &[&first], Body::Delete), &client());
    frames.request(
        "Submit, a deletion",
        &c::Submit { signed: deletion, value: Values::none(), presented: vec![], ..submit },
    );
    frames.request("Read", &c::Read { namespace, key: key.clone(), local: true, history: false });
    frames.request("ReadValue", &c::ReadValue { namespace, key: key.clone(), version: id });
    frames.request("AskOutcome", &c::AskOutcome { namespace, key: key.clone(), write: id });
    let list = c::List {
        namespace,
        prefix: b"user-".to_vec(),
        after: Some(key.clone()),
        limit: 100,
        conflicts: false,
    };
    frames.request("List", &list);
    frames.request("Propose", &c::Propose { signed: world.entries[1].signed.clone() });
    frames.request("AskConfig", &c::AskConfig { have: [1, 0, 0] });
    frames.request("AskStatus", &c::AskStatus {});

    frames.reply(
        "Submitted, applied",
        &c::Submitted::Applied { stamps: stamps.clone(), siblings: vec![other] },
    );
    frames.reply("Submitted, refused", &c::Submitted::Refused { current: Some(vec![version.clone()]) });
    frames.reply("Submitted, refused without the right to read", &c::Submitted::Refused { current: None });
    frames.reply("Submitted, incomplete", &c::Submitted::Incomplete { copies: 1, needed: 2 });
    let listed = c::Listed { version: version.clone(), live: true, inline: true };
    let far = c::Listed { inline: false, live: false, ..listed.clone() };
    frames.reply(
        "Versions",
        &c::Versions { versions: vec![listed, far], values: values(&[b"one"]), evidence: vec![] },
    );
    frames.reply("Value", &c::Value { value: values(&[b"one"]) });
    frames.reply("Value, not held", &c::Value { value: Values::none() });
    let outcome =
        c::Outcome::Applied { stamps: stamps.clone(), siblings: vec![], superseded_by: Some(other) };
    frames.reply("Outcome, applied", &outcome);
    frames.reply("Outcome, incomplete", &c::Outcome::Incomplete { copies: 1, needed: 2 });
    frames.reply("Outcome, unknown", &c::Outcome::Unknown);
    let row = c::ListedKey { key: key.clone(), live: vec![(1, id, Some(3)), (2, other, None)] };
    frames.reply("Page", &c::Page { keys: vec![row], next: Some(key.clone()) });
    frames.reply("Proposed, chosen", &c::Proposed::Chosen);
    frames.reply("Proposed, refused", &c::Proposed::Refused { why: "the name is taken".to_owned() });
    frames.reply("Proposed, unknown", &c::Proposed::Unknown);
    frames.reply("Config", &c::Config { entries: vec![world.entries[0].clone()], lengths: [1, 6, 1] });
    let status = c::Status {
        version: "0.1.0".to_owned(),
        member: member(0).id,
        incarnation: member(0).incarnation,
        counts: Err("not every member has answered yet".to_owned()),
        synced: 12,
        chains: [2, 6, 1],
        peers: vec![(MemberId([2; 16]), true), (MemberId([3; 16]), false)],
        counters: vec![("refused".to_owned(), 3)],
    };
    frames.reply("Status", &status);
    frames.reply("Status, counting", &c::Status { counts: Ok(()), ..status });
    failures(frames, id);
}

fn failures(frames: &mut Frames, id: WriteId) {
    use c::Failure::*;
    let why = || "why".to_owned();
    for (name, failure) in [
        ("Denied", Denied(why())),
        ("UnknownNamespace", UnknownNamespace),
        ("Mode", Mode(self::Mode::Linearizable)),
        ("Expired", Expired { epoch: 1, now: 3 }),
        ("UnknownParents", UnknownParents(vec![id])),
        ("Generation", Generation),
        ("TooManySiblings", TooManySiblings(64)),
        ("Rejected", Rejected(why())),
        ("Malformed", Malformed(why())),
        ("Unavailable", Unavailable(why())),
        ("Overloaded", Overloaded),
        ("DiskFull", DiskFull),
        ("NotBuilt", NotBuilt(why())),
        ("NeedsTenure", NeedsTenure),
    ] {
        frames.reply(&format!("Failure, {name}"), &failure);
    }
}

fn peer_messages(world: &World, frames: &mut Frames) {
    let key = Key::try_from("user-7").unwrap();
    let namespace = world.carts;
    let first = world.write("user-7", 1, &[], Body::put(b"one"));
    let version = world.version(&first, &[(0, 0, 1, Past::new())]);
    let (id, other) = (first.id(), WriteId([0x77; 32]));
    let exchange = p::Exchange {
        operation: 9,
        namespace,
        key: key.clone(),
        live: vec![id],
        about: Some(id),
        versions: vec![version.clone()],
        values: values(&[b"one"]),
        superseded: vec![(other, id)],
        fetch: true,
    };
    frames.peer("Exchange", &exchange);
    let question =
        p::Exchange { versions: vec![], values: Values::none(), superseded: vec![], about: None, ..exchange };
    frames.peer("Exchange, a question only", &question);
    let exchanged = |about: p::Known| p::Exchanged {
        operation: 9,
        namespace,
        key: key.clone(),
        counts: true,
        live: vec![id],
        about,
        superseded: vec![(other, id)],
        versions: vec![version.clone()],
        values: values(&[b"one"]),
    };
    frames.peer("Exchanged, of a live write", &exchanged(p::Known::Live));
    frames.peer("Exchanged, of a superseded write", &exchanged(p::Known::Superseded(other)));
    frames.peer("Exchanged, of nothing", &exchanged(p::Known::Nothing));
    let read = Request::from(c::Read { namespace, key, local: false, history: false }).encode();
    let header = read.header.to_vec();
    let forward = p::Forward {
        operation: 10,
        client: client().public(),
        kind: read.kind,
        header,
        values: Values::none(),
    };
    frames.peer("Forward", &forward);
    let reply = Reply::from(c::Value { value: values(&[b"one"]) }).encode();
    let header = reply.header.to_vec();
    frames.peer(
        "Forwarded",
        &p::Forwarded { operation: 10, kind: reply.kind, header, values: values(&[b"one"]) },
    );

    let ballot = Ballot { config_epoch: 2, counter: 70_000, actor: world.actor(1) };
    let higher = Ballot { counter: 70_001, ..ballot };
    let (chain, number) = (Chain::Policy, 1);
    let signed = world.entries[1].signed.clone();
    frames.peer("Prepare", &p::Prepare { chain, number, ballot });
    let promise = |answer| p::Promise { chain, number, ballot, answer };
    frames.peer("Promise, nothing accepted before", &promise(Ok(None)));
    frames.peer("Promise, with what was accepted", &promise(Ok(Some((ballot, signed.clone())))));
    frames.peer("Promise, refused", &promise(Err(higher)));
    frames.peer("Accept", &p::Accept { ballot, signed: signed.clone() });
    let accepted = |answer| p::Accepted { chain, number, ballot, entry: signed.entry.hash(), answer };
    frames.peer("Accepted", &accepted(Ok((world.actor(1), node(1).sign(b"a vote")))));
    frames.peer("Accepted, refused", &accepted(Err(higher)));
    frames.peer("Learn", &p::Learn { decided: world.entries[1].clone() });
    let chains = c::AskConfig { have: [2, 6, 1] };
    frames.peer("Recall", &p::Recall { start: 40, chains });
    frames.peer("Recalled", &p::Recalled { start: 40, incarnation: ENVELOPE.incarnation, batch: 41 });
    frames.peer("AskConfig, between nodes", &chains);
    frames.peer("Config, between nodes", &c::Config { entries: vec![], lengths: [2, 6, 1] });
    let twin = world.sign_stamp(world.stamp(&first, 0, 0, 1, world.past(&[(1, 0, 1)])), 0);
    let one = Arc::clone(version.stamps.iter().next().unwrap());
    frames.peer("Evidence", &p::Evidence { first: one, second: twin });
}

/// A version of a register of `jobs`, and its state.
fn register(world: &World) -> (Write, Version, RegisterState) {
    let mut write = world.write("job", 1, &[], Body::put(b"one"));
    write.namespace = world.jobs;
    let mut version = world.version(&write, &[]);
    let mut stamp = world.stamp(&write, 0, 0, 1, Past::new());
    stamp.policy_revision = 2;
    version.stamps.insert(world.sign_stamp(stamp, 0));
    let state = RegisterState::default().apply(version.clone());
    (write, version, state)
}

fn bound() -> Bound {
    Bound { resource: resource("billing"), term: Term { recovery: 0, number: 2 } }
}

fn register_messages(world: &World, frames: &mut Frames) {
    let (write, version, _) = register(world);
    let owned = world.tenure("billing", 1, None);
    let key = owned.secret.clone().unwrap();
    let proof = Arc::new(world.proof(&owned, 2, &[0, 1]));
    let fence: Fence = owned.fence();
    let mut fenced = write.clone();
    fenced.fence = Some(fence.clone());
    let signature = tenure::sign_fence(&key, world.cluster(), fenced.id());
    let author = crate::world::author_proof(&fenced, &client());
    let signed = Arc::new(SignedWrite::new(fenced, author, Some(signature)));
    let submit = c::Submit {
        signed: Arc::clone(&signed),
        on_conflict: c::OnConflict::Refuse,
        presented: vec![],
        tenure: Some(Arc::clone(&proof)),
        value: values(&[b"one"]),
    };
    frames.request("Submit, fenced", &submit);
    frames.request("AskVerdict", &r::AskVerdict { signed, forbid: true });
    let seal =
        tenure::Seal { cluster: world.cluster(), namespace: world.jobs, key: write.key.clone(), fence };
    let signature = seal.sign(&key);
    frames.request("Seal", &r::Seal { seal: seal.clone(), signature, tenure: Some(proof) });
    frames.request("Seal, of a tenure that is known", &r::Seal { seal, signature, tenure: None });

    frames.reply("Submitted, fenced", &c::Submitted::Fenced(bound()));
    frames.reply("Submitted, forgotten", &c::Submitted::Forgotten);
    let stamps: Vec<_> = version.stamps.iter().cloned().collect();
    let other = WriteId([0x77; 32]);
    frames.reply("Verdict, applied", &r::Verdict::Applied { stamps, superseded_by: None });
    frames.reply("Verdict, superseded", &r::Verdict::Applied { stamps: vec![], superseded_by: Some(other) });
    frames.reply("Verdict, refused", &r::Verdict::Refused { current: Some(version.clone()) });
    frames.reply("Verdict, fenced", &r::Verdict::Fenced(bound()));
    frames.reply("Verdict, open", &r::Verdict::Open);
    frames.reply("Verdict, forgotten", &r::Verdict::Forgotten);
    frames.reply("Verdict, unknown", &r::Verdict::Unknown);
    let sealed = r::Sealed { result: Ok(()), version: Some(version), value: values(&[b"one"]) };
    frames.reply("Sealed", &sealed);
    let refused = r::Sealed { result: Err(bound()), version: None, value: Values::none() };
    frames.reply("Sealed, bound to another", &refused);
}

fn ownership_messages(world: &World, frames: &mut Frames) {
    let owned = world.tenure("billing", 1, None);
    let value: &'static [u8] = owned.tenure.encode().leak();
    let key = owned.secret.clone().unwrap();
    let proof = world.proof(&owned, 2, &[0, 1]);
    let (ballot, votes) = (proof.ballot, proof.votes.clone());
    let signed = Arc::clone(&owned.signed);
    let campaign = o::Campaign { signed, tenure: None, afresh: false, value: values(&[value]) };
    frames.request("Campaign", &campaign);
    let ended = world.resignation(2, &owned);
    let nothing: &'static [u8] = ended.tenure.encode().leak();
    let resignation = o::Campaign {
        signed: Arc::clone(&ended.signed),
        tenure: Some(Arc::new(proof)),
        afresh: true,
        value: values(&[nothing]),
    };
    frames.request("Campaign, a resignation", &resignation);
    frames.request("Observe", &o::Observe { resource: resource("billing") });
    let (cluster, tenure) = (world.cluster(), owned.write.id());
    let renewal = Renewal { cluster, resource: resource("billing"), tenure, sequence: 7 };
    let signature = renewal.sign(&key);
    frames.request("Renew", &o::Renew { renewal, key: key.public(), signature });

    let version = world.version(&owned.write, &[(0, 0, 1, Past::new())]);
    let chosen = o::Ballots::Chosen { ballot, votes: votes.clone() };
    let campaigned = |result| o::Campaigned { result, version: None, value: Values::none() };
    frames.reply("Campaigned, chosen", &campaigned(chosen));
    let running = o::Ballots::Running { left_ms: 12_000 };
    let running = o::Campaigned { result: running, version: Some(version.clone()), value: values(&[value]) };
    frames.reply("Campaigned, while a lease runs", &running);
    frames.reply("Campaigned, refused", &o::Campaigned { result: o::Ballots::Refused, ..running });
    frames.reply("Campaigned, incomplete", &campaigned(o::Ballots::Incomplete));
    let observed = o::Observed {
        version: Some(version),
        ballot: Some(ballot),
        votes,
        left_ms: 9_000,
        value: values(&[value]),
    };
    frames.reply("Observed", &observed);
    let never = o::Observed { version: None, ballot: None, votes: vec![], left_ms: 0, value: Values::none() };
    frames.reply("Observed, never owned", &never);
    frames.reply("Renewed, heard", &o::Renewed::Heard { ballot });
    frames.reply("Renewed, another tenure", &o::Renewed::OtherTenure);
    frames.reply("Renewed, a takeover promised", &o::Renewed::TakeoverPromised { ballot });
    frames.reply("Renewed, repeated", &o::Renewed::Repeated);
    frames.reply("Renewed, stalled", &o::Renewed::Stalled);
}

fn register_peers(world: &World, frames: &mut Frames) {
    let (write, _, state) = register(world);
    let (namespace, key, operation) = (world.jobs, write.key, 11);
    let ballot = world.ballot(2, 70_000);
    let higher = world.ballot(2, 70_001);
    let one = || values(&[b"one"]);
    let prepare = r::PrepareRegister { operation, namespace, key: key.clone(), ballot, takeover: false };
    frames.peer("PrepareRegister", &prepare);
    frames.peer("PrepareRegister, a takeover", &r::PrepareRegister { takeover: true, ..prepare });
    let promised = |answer, value| r::PromisedRegister {
        operation,
        namespace,
        key: key.clone(),
        ballot: higher,
        answer,
        value,
    };
    let accepted = r::Promised::Yes(Some((ballot, state.clone())));
    frames.peer("PromisedRegister", &promised(accepted, one()));
    frames.peer("PromisedRegister, nothing accepted", &promised(r::Promised::Yes(None), Values::none()));
    frames.peer("PromisedRegister, higher", &promised(r::Promised::Higher(higher), Values::none()));
    frames.peer("PromisedRegister, a lease runs", &promised(r::Promised::Running(800), Values::none()));
    frames.peer("PromisedRegister, abstains", &promised(r::Promised::Abstains, Values::none()));
    let accept = r::AcceptRegister {
        operation,
        namespace,
        key: key.clone(),
        ballot,
        next: Some(higher),
        chosen: None,
        state: state.clone(),
        value: one(),
    };
    frames.peer("AcceptRegister", &accept);
    let empty = r::AcceptRegister {
        operation: 0,
        next: None,
        chosen: Some(ballot),
        state: RegisterState::default(),
        value: Values::none(),
        ..accept
    };
    frames.peer("AcceptRegister, of nothing", &empty);
    let vote = (world.actor(1), node(1).sign(b"a vote"));
    let accepted = |answer| r::AcceptedRegister { operation, namespace, key: key.clone(), ballot, answer };
    frames.peer("AcceptedRegister", &accepted(r::Accepted::Yes { next: true, vote: None }));
    let voted = accepted(r::Accepted::Yes { next: false, vote: Some(vote) });
    frames.peer("AcceptedRegister, with a vote", &voted);
    frames.peer("AcceptedRegister, higher", &accepted(r::Accepted::Higher(higher)));
    frames.peer("AcceptedRegister, other bytes", &accepted(r::Accepted::OtherBytes));
    frames.peer("AcceptedRegister, abstains", &accepted(r::Accepted::Abstains));
    let known: Hash = state.hash();
    frames.peer("AskRegister", &r::AskRegister { operation, namespace, key: key.clone(), known });
    let shown = r::Shown {
        ballot: Some(ballot),
        promised: Some(higher),
        hash: known,
        state: Some(state),
        vote: Some(vote),
        left_ms: 5,
    };
    let show = |shown, value| r::ShowRegister { operation, namespace, key: key.clone(), shown, value };
    frames.peer("ShowRegister", &show(Some(shown.clone()), one()));
    let equal = r::Shown { state: None, vote: None, left_ms: 0, ..shown };
    frames.peer("ShowRegister, an equal state", &show(Some(equal), Values::none()));
    frames.peer("ShowRegister, takes no part", &show(None, Values::none()));
    frames.peer("ChosenRegister", &r::ChosenRegister { namespace, key, ballot });
}

/// The bytes of a frame with a well-formed prelude around any header and body.
fn raw(kind: u16, header: &[u8], body: &[u8]) -> Vec<u8> {
    bytes_of(&Frame { kind, header: Bytes::copy_from_slice(header), body: Bytes::copy_from_slice(body) })
}

fn refusals(world: &World, frames: &mut Frames) {
    let good = raw(7, &codec::encode(&c::AskConfig { have: [1, 0, 0] }), b"");
    let patched = |at: usize, bytes: &[u8]| {
        let mut all = good.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    frames.refuse("frame version 0", "request", patched(0, &[0]), "version");
    frames.refuse("frame version 2", "request", patched(0, &[2]), "version");
    frames.refuse(
        "a header over the limit",
        "request",
        patched(3, &((2u32 << 20) + 1).to_be_bytes()),
        "too-large",
    );
    frames.refuse("a body over the limit", "request", patched(7, &u32::MAX.to_be_bytes()), "too-large");
    let both = [(1u32 << 20).to_be_bytes(), ((1u32 << 20) + 1).to_be_bytes()].concat();
    frames.refuse("header and body together over the limit", "request", patched(3, &both), "too-large");
    frames.refuse("a prelude that ends early", "request", good[..10].to_vec(), "short");
    frames.refuse("a header that ends early", "request", good[..good.len() - 1].to_vec(), "short");
    frames.refuse("a body that does not come", "request", patched(7, &1u32.to_be_bytes()), "short");
    for (name, direction, kind) in [
        ("kind 0", "request", 0),
        ("a request of kind 14", "request", 14),
        ("a reply of kind 115", "reply", 115),
        ("a peer message of kind 222", "peer", 222),
        ("the greatest kind", "peer", 0xffff),
        ("a reply where a request belongs", "request", 107),
        ("a request where a reply belongs", "reply", 7),
        ("a client's request between nodes", "peer", 7),
        ("a node's message from a client", "request", 201),
    ] {
        let bytes = raw(kind, &[&[0; 24][..], &good[11..]].concat(), b"");
        frames.refuse(name, direction, bytes, "kind");
    }
    let header = &good[11..];
    frames.refuse(
        "a header with a byte left over",
        "request",
        raw(7, &[header, &[0]].concat(), b""),
        "left-over",
    );
    frames.refuse("a header that is too short", "request", raw(7, &header[..23], b""), "end");
    frames.refuse("a status request with a header", "request", raw(8, &[0], b""), "left-over");
    frames.refuse("a status request with a body", "request", raw(8, &[], b"x"), "body");
    frames.refuse("a body that nothing announces", "request", raw(7, header, b"x"), "body");
    let list = codec::encode(&vec![3u64]);
    frames.refuse("a value shorter than announced", "reply", raw(103, &list, b"on"), "body");
    frames.refuse("a value longer than announced", "reply", raw(103, &list, b"one!"), "body");
    let huge = codec::encode(&vec![u64::MAX, 1]);
    frames.refuse("a value of nearly 2^64 bytes", "reply", raw(103, &huge, b"one"), "body");
    let many = codec::encode(&vec![0u64; 1025]);
    frames.refuse("1025 values", "reply", raw(103, &many, b""), "values");
    frames.refuse("an outcome of an unknown variant", "reply", raw(104, &3u32.to_be_bytes(), b""), "tag");
    frames.refuse("a failure of an unknown variant", "reply", raw(109, &14u32.to_be_bytes(), b""), "tag");
    let why = [&0u32.to_be_bytes()[..], &2u64.to_be_bytes(), &[0xc3, 0x28]].concat();
    frames.refuse("a failure whose text is not UTF-8", "reply", raw(109, &why, b""), "text");
    let key = Key::try_from("user-7").unwrap();
    let read = codec::encode(&c::Read { namespace: world.carts, key, local: false, history: false });
    let mut flag = read.clone();
    *flag.last_mut().unwrap() = 2;
    frames.refuse("a read with a flag of 2", "request", raw(2, &flag, b""), "tag");
    let empty_key = [&world.carts.0[..], &[0; 8], &[0, 0]].concat();
    frames.refuse("a read of the empty key", "request", raw(2, &empty_key, b""), "key");
    let envelope = codec::encode(&ENVELOPE);
    frames.refuse("a peer message without its envelope", "peer", raw(212, header, b""), "end");
    frames.refuse("an envelope that is cut", "peer", raw(210, &envelope[..23], b""), "end");
    let prepare = p::Prepare {
        chain: Chain::Policy,
        number: 1,
        ballot: Ballot { config_epoch: 1, counter: 1, actor: ActorId([0; 16]) },
    };
    let mut prepare = codec::encode(&prepare);
    prepare[3] = 3;
    frames.refuse(
        "a prepare for no chain",
        "peer",
        raw(205, &[&envelope[..], &prepare].concat(), b""),
        "tag",
    );
    let weak =
        [&1u64.to_be_bytes()[..], &[0; 32], &2u16.to_be_bytes(), &0u64.to_be_bytes(), &0u64.to_be_bytes()]
            .concat();
    frames.refuse(
        "a forward for a weak key",
        "peer",
        raw(203, &[&envelope[..], &weak].concat(), b""),
        "public-key",
    );
}
