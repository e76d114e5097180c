//! Forgeries: what a network, a stranger or a lying node could put in place of a genuine version.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tanist::core::events::Range;
use tanist::core::identity::{ActorId, SecretKey, Signature};
use tanist::core::object::ObjectId;
use tanist::core::signature::{Proof, sign_one};
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::Body;
use tanist::wire::peer::Envelope;
use tanist::wire::registry::{PeerMessage, Reply};
use tanist::wire::values::Values;

use super::history::Asked;
use super::world::{Event, World};

/// Ways to forge a version.
const WAYS: u64 = 12;

impl World {
    /// Now and then, sends a forged copy of a message beside it, and a stranger's or a damaged request.
    pub fn forge(&mut self, from: usize, to: usize, envelope: Envelope, message: &PeerMessage) {
        if !self.options.forged || !self.unsafe_phase || !self.dice.chance(4) {
            return;
        }
        let way = self.dice.range(0, WAYS - 1);
        let mut message = message.clone();
        let forged = match &mut message {
            PeerMessage::Exchange(m) => self.forge_version(from, way, &mut m.versions, &mut m.values),
            PeerMessage::Exchanged(m) => self.forge_version(from, way, &mut m.versions, &mut m.values),
            _ => false,
        };
        if forged {
            self.coverage.forged += 1;
            let mut bytes = BytesMut::new();
            message.encode(envelope).encode_into(&mut bytes);
            let delay = self.dice.range(1, 50);
            self.after(delay, Event::Frame { from, to, bytes: bytes.freeze() });
        }
        self.damage_request();
    }

    /// Flips a bit of a genuine submission, and sends it on a connection of its own.
    fn damage_request(&mut self) {
        let Some(last) = self.history.writes.last_key_value().map(|(_, prepared)| prepared.clone()) else {
            return;
        };
        let mut bytes = BytesMut::new();
        World::submission(&last).encode().encode_into(&mut bytes);
        // The prelude and the request's own flags lie before the signed write and after it.
        let at = self.dice.index(bytes.len());
        let bit = self.dice.range(0, 7);
        bytes[at] ^= 1 << bit;
        let attempt = self.history.attempts.len();
        let node = self.dice.index(self.options.nodes);
        self.history.attempts.push(super::history::Attempt {
            client: self.options.clients,
            node,
            asked: Asked::Submit(last.id()),
            sent: self.now,
            delivered: false,
            released: None,
            answered: None,
        });
        self.coverage.forged += 1;
        self.after(1, Event::Request { attempt, bytes: bytes.freeze() });
    }

    fn forge_version(
        &mut self,
        from: usize,
        way: u64,
        versions: &mut [Version],
        values: &mut Values,
    ) -> bool {
        let Some(genuine) = versions.first().cloned() else { return false };
        let Some(stamp) = genuine.stamps.iter().next().cloned() else { return false };
        let node = self.founding.nodes[from].clone();
        let stranger = self.founding.stranger.clone();
        let mut forged = genuine.clone();
        match way {
            0 => {
                let mut all: Vec<Bytes> = values.as_slice().to_vec();
                let Some(first) = all.first_mut() else { return false };
                if first.is_empty() {
                    return false;
                }
                let mut changed = first.to_vec();
                changed[0] ^= 1;
                *first = changed.into();
                *values = all.into_iter().collect();
            }
            1 => {
                let mut proof = genuine.signed.proof().clone();
                proof.signature = flip(proof.signature);
                forged.signed = Arc::new(SignedWrite::new(genuine.write().clone(), proof, None));
            }
            2 => {
                // Another value under the same signature: the id changes with it.
                let mut write = genuine.write().clone();
                write.nonce[0] ^= 1;
                let proof = genuine.signed.proof().clone();
                forged.signed = Arc::new(SignedWrite::new(write, proof, None));
            }
            3 => {
                let Some(proof) = stamp.proof() else { return false };
                let proof = Proof { signature: flip(proof.signature), ..proof.clone() };
                forged.stamps = one(stamp.stamp().clone(), proof);
            }
            4 => forged.stamps = restamp(&stamp, None, |stamp| stamp.actor = ActorId([7; 16])),
            5 => {
                forged.stamps = restamp(&stamp, Some((&node, self)), |stamp| stamp.object = ObjectId([7; 32]))
            }
            6 => {
                // Claims to come after everything.
                let actors: Vec<ActorId> = self.dots.keys().map(|(actor, _)| *actor).collect();
                forged.stamps = restamp(&stamp, None, |stamp| {
                    for actor in &actors {
                        stamp.past.insert(*actor, Range { after: 0, upto: u64::MAX });
                    }
                });
            }
            7 => {
                // A stranger's write, stamped by a genuine node that lies about the right.
                let mut write = genuine.write().clone();
                write.author = stranger.public();
                let proof = sign_one(&stranger, self.founding.cluster, write.id().into());
                forged.signed = Arc::new(SignedWrite::new(write, proof, None));
                let id = forged.id();
                forged.stamps = restamp(&stamp, Some((&node, self)), |stamp| stamp.write = id);
            }
            8 => {
                // Stamped by somebody who is no member.
                forged.stamps =
                    restamp(&stamp, Some((&stranger, self)), |stamp| stamp.actor = ActorId([9; 16]));
            }
            9 => forged.stamps = restamp(&stamp, Some((&stranger, self)), |stamp| stamp.counter += 1),
            10 => forged.stamps = Stamps::default(),
            _ => {
                let mut write = genuine.write().clone();
                write.body = Body::Delete;
                let proof = genuine.signed.proof().clone();
                forged.signed = Arc::new(SignedWrite::new(write, proof, None));
            }
        }
        if super::faults::trusts_signatures(self.plant) {
            forged = self.sign_again(from, forged);
        }
        versions[0] = forged;
        true
    }

    /// The forgery with signatures that fit, as if nobody looked at them.
    fn sign_again(&self, from: usize, mut forged: Version) -> Version {
        let cluster = self.founding.cluster;
        let write = forged.write().clone();
        let proof = sign_one(&self.founding.client, cluster, write.id().into());
        forged.signed = Arc::new(SignedWrite::new(write, proof, None));
        let id = forged.id();
        let own = self.nodes[from].actor(cluster);
        let stamps: Vec<Stamp> = forged.stamps.iter().map(|stamp| stamp.stamp().clone()).collect();
        if let Some(stamp) = stamps.into_iter().find(|stamp| Some(stamp.actor) == own) {
            let counter = stamp.counter + (1 << 40);
            let stamp = Stamp { write: id, previous: counter - 1, counter, ..stamp };
            let proof = sign_one(&self.founding.nodes[from], cluster, stamp.hash());
            forged.stamps = one(stamp, proof);
        }
        forged
    }

    /// Submits a write signed by somebody without any right; the answer comes back.
    pub fn submit_as_stranger(&mut self, node: usize) -> Option<Reply> {
        let key = World::key(0);
        let prepared =
            self.prepare(&key, &[], Some("stolen".into()), tanist::wire::client::OnConflict::KeepBoth);
        self.history.writes.remove(&prepared.id());
        let mut write = prepared.signed.write().clone();
        write.author = self.founding.stranger.public();
        let proof = sign_one(&self.founding.stranger, self.founding.cluster, write.id().into());
        let forged =
            super::history::Prepared { signed: Arc::new(SignedWrite::new(write, proof, None)), ..prepared };
        self.call(node, Asked::Other, &World::submission(&forged))
    }
}

fn flip(signature: Signature) -> Signature {
    let Signature(mut bytes) = signature;
    bytes[3] ^= 4;
    Signature(bytes)
}

fn one(stamp: Stamp, proof: Proof) -> Stamps {
    let mut stamps = Stamps::default();
    stamps.insert(Arc::new(SignedStamp::new(stamp, proof)));
    stamps
}

/// Another stamp in place of a genuine one: with its signature, or signed anew by `signer`.
fn restamp(
    genuine: &SignedStamp,
    signer: Option<(&SecretKey, &World)>,
    change: impl FnOnce(&mut Stamp),
) -> Stamps {
    let mut stamp = genuine.stamp().clone();
    change(&mut stamp);
    let proof = match signer {
        Some((key, world)) => sign_one(key, world.founding.cluster, stamp.hash()),
        None => genuine.proof().expect("a stamp that left its node is signed").clone(),
    };
    one(stamp, proof)
}
