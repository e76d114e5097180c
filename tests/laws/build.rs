//! Writes, stamps and versions without signatures: the laws of causality do not look at those.

use std::sync::Arc;

use tanist::core::events::Past;
use tanist::core::identity::{ActorId, ClusterId, PublicKey, SecretKey, Signature};
use tanist::core::object::{Key, NamespaceId, ObjectId};
use tanist::core::signature::Proof;
use tanist::core::stamp::{STAMP_FORMAT, SignedStamp, Stamp};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Body, WRITE_FORMAT, Write, WriteId};

pub(crate) const CLUSTER: ClusterId = ClusterId([0xc1; 32]);
pub(crate) const NAMESPACE: NamespaceId = NamespaceId([0x0a; 32]);

pub(crate) fn actor(n: usize) -> ActorId {
    ActorId([n as u8 + 1; 16])
}

pub(crate) fn key() -> Key {
    Key::try_from("key").unwrap()
}

pub(crate) fn author() -> PublicKey {
    SecretKey::from_seed(&[3; 32]).public()
}

pub(crate) fn no_proof() -> Proof {
    Proof { signature: Signature([0; 64]), count: 1, index: 0, path: Vec::new() }
}

/// A write that names `parents`; `nonce` keeps it apart from others.
pub(crate) fn write(nonce: u64, parents: &[&Write]) -> Write {
    let mut ids: Vec<WriteId> = parents.iter().map(|parent| parent.id()).collect();
    ids.sort();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&nonce.to_be_bytes());
    Write {
        format: WRITE_FORMAT,
        cluster: CLUSTER,
        namespace: NAMESPACE,
        key: key(),
        epoch: 1,
        generation: 1 + parents.iter().map(|parent| parent.generation).max().unwrap_or(0),
        parents: ids,
        body: Body::put(&nonce.to_be_bytes()),
        author: author(),
        nonce: bytes,
        fence: None,
        wall_ms: 0,
    }
}

pub(crate) fn stamp(write: &Write, n: usize, previous: u64, counter: u64, past: Past) -> Arc<SignedStamp> {
    let stamp = Stamp {
        format: STAMP_FORMAT,
        cluster: CLUSTER,
        object: ObjectId::new(NAMESPACE, &key()),
        write: write.id(),
        config_epoch: 1,
        policy_revision: 1,
        actor: actor(n),
        previous,
        counter,
        past,
    };
    Arc::new(SignedStamp::new(stamp, no_proof()))
}

pub(crate) fn version(write: &Write, all: &[Arc<SignedStamp>]) -> Version {
    let mut stamps = Stamps::default();
    for stamp in all {
        stamps.insert(Arc::clone(stamp));
    }
    Version { signed: Arc::new(SignedWrite::new(write.clone(), no_proof(), None)), stamps }
}

/// The events and pasts of `versions`: the past of a write that names exactly them.
pub(crate) fn past_of(versions: &[&Version]) -> Past {
    let mut past = Past::new();
    for stamp in versions.iter().flat_map(|version| version.stamps.iter()) {
        past.union(&stamp.stamp().past);
        past.insert(stamp.stamp().actor, stamp.stamp().event());
    }
    past
}
