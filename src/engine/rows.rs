//! How the store's rows are named and what is in them. `proto-docs/storage.md` shows the layout.
//!
//! Every row begins with one byte for its table, so that the order of the bytes is the order of the
//! tables, and keys of one namespace lie together in their own order.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::store::StoreError;
use crate::core::chain::{Ballot, Chain, SignedEntry};
use crate::core::codec;
use crate::core::identity::{ActorId, MemberId};
use crate::core::object::{Key, NamespaceId, ObjectId};
use crate::core::register::RegisterState;
use crate::core::siblings::Siblings;
use crate::core::stamp::SignedStamp;
use crate::core::version::Version;
use crate::core::write::WriteId;

const COUNTER: u8 = 1;
const KEY: u8 = 2;
const INDEX: u8 = 3;
const VALUE: u8 = 4;
const ENTRY: u8 = 5;
const ACCEPTOR: u8 = 6;
const MEMORY: u8 = 7;
const EQUIVOCATOR: u8 = 8;
const MENDING: u8 = 9;
const REGISTER: u8 = 10;

/// The first byte of every row's value.
const ROW_FORMAT: u8 = 1;

/// What a replica holds of one key, values aside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    /// The held versions.
    pub siblings: Siblings,
    /// The last event that an actor of this node made on this key. Only its own minting writes it:
    /// a row that came back from peers does not know it, and must not pretend to (S2).
    pub minted: Option<(ActorId, u64)>,
    /// Stamps that contradict one another, in pairs.
    pub evidence: Vec<Arc<SignedStamp>>,
}

impl KeyRow {
    /// Bytes of the row, roughly and not below.
    pub fn footprint(&self) -> usize {
        self.siblings.held().map(Version::footprint).sum()
    }
}

/// What an acceptor of a chain's place promised and accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptorRow {
    /// The highest ballot promised.
    pub promised: Option<Ballot>,
    /// The entry accepted last, and at which ballot.
    pub accepted: Option<(Ballot, SignedEntry)>,
}

/// What an acceptor of a register promised and accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRow {
    /// The highest ballot promised.
    pub promised: Option<Ballot>,
    /// The highest ballot ever promised to a takeover. Kept beside the other one: an ordinary promise
    /// must not lift the ban on renewals (O2).
    pub takeover: Option<Ballot>,
    /// The state accepted last, and at which ballot.
    pub accepted: Option<(Ballot, RegisterState)>,
    /// What is known to be chosen.
    pub chosen: Chosen,
}

/// The newest state of a register that an acceptor knows to be chosen. What is only accepted may yet
/// lose, so nobody is shown it (attack 20).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chosen {
    /// None yet.
    #[default]
    Nothing,
    /// The accepted one.
    Accepted,
    /// One that was accepted before.
    Earlier(RegisterState),
}

impl RegisterRow {
    /// The newest state that is known to be chosen.
    pub fn chosen(&self) -> Option<&RegisterState> {
        match &self.chosen {
            Chosen::Nothing => None,
            Chosen::Accepted => self.accepted.as_ref().map(|(_, state)| state),
            Chosen::Earlier(state) => Some(state),
        }
    }

    /// The versions whose values the row needs.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        let accepted = self.accepted.as_ref().map(|(_, state)| state);
        let earlier = match &self.chosen {
            Chosen::Earlier(state) => Some(state),
            Chosen::Nothing | Chosen::Accepted => None,
        };
        [accepted, earlier].into_iter().flatten().filter_map(|state| state.version.as_ref())
    }

    /// Bytes of the row, roughly and not below.
    pub fn footprint(&self) -> usize {
        4096 + self.versions().map(Version::footprint).sum::<usize>()
    }
}

/// The row of the counters reserved durably.
pub fn counter() -> Bytes {
    Bytes::from_static(&[COUNTER])
}

/// The row of a key.
pub fn key(namespace: NamespaceId, key: &Key) -> Bytes {
    [&[KEY], &namespace.0[..], key.as_bytes()].concat().into()
}

/// What the rows of the keys with this prefix begin with.
pub fn keys(namespace: NamespaceId, prefix: &[u8]) -> Bytes {
    [&[KEY], &namespace.0[..], prefix].concat().into()
}

/// The row of a register.
pub fn register(namespace: NamespaceId, key: &Key) -> Bytes {
    [&[REGISTER], &namespace.0[..], key.as_bytes()].concat().into()
}

/// What the rows of the registers with this prefix begin with.
pub fn registers(namespace: NamespaceId, prefix: &[u8]) -> Bytes {
    [&[REGISTER], &namespace.0[..], prefix].concat().into()
}

/// The key whose row this is, a register's or another's.
pub fn key_of(row: &[u8]) -> Result<Key, StoreError> {
    let bytes = row.get(33..).unwrap_or_default();
    Key::try_from(bytes.to_vec()).map_err(|error| StoreError::Damaged(format!("row of a key: {error}")))
}

/// The row that says which write superseded `write`.
pub fn index(object: ObjectId, write: WriteId) -> Bytes {
    [&[INDEX], &object.0[..], &write.0].concat().into()
}

/// What all index rows of a key begin with.
pub fn index_of(object: ObjectId) -> Bytes {
    [&[INDEX], &object.0[..]].concat().into()
}

/// The row of a version's value.
pub fn value(object: ObjectId, write: WriteId) -> Bytes {
    [&[VALUE], &object.0[..], &write.0].concat().into()
}

/// The row of a decided entry.
pub fn entry(chain: Chain, number: u64) -> Bytes {
    [&entries(chain)[..], &number.to_be_bytes()].concat().into()
}

/// What the rows of a chain's entries begin with.
pub fn entries(chain: Chain) -> Bytes {
    vec![ENTRY, chain as u8].into()
}

/// The row of what was promised and accepted for a place in a chain.
pub fn acceptor(chain: Chain, number: u64) -> Bytes {
    [&[ACCEPTOR, chain as u8], &number.to_be_bytes()[..]].concat().into()
}

/// The row that remembers how far a member's disk was.
pub fn memory(member: MemberId) -> Bytes {
    [&[MEMORY], &member.0[..]].concat().into()
}

/// The row that remembers that an actor contradicted itself.
pub fn equivocator(actor: ActorId) -> Bytes {
    [&[EQUIVOCATOR], &actor.0[..]].concat().into()
}

/// What the rows of actors that contradicted themselves begin with.
pub fn equivocators() -> Bytes {
    Bytes::from_static(&[EQUIVOCATOR])
}

/// The row that remembers that a key is to be read from its peers.
pub fn mending(object: ObjectId) -> Bytes {
    [&[MENDING], &object.0[..]].concat().into()
}

/// What the rows of keys that are to be read from their peers begin with.
pub fn all_mending() -> Bytes {
    Bytes::from_static(&[MENDING])
}

/// The actor of an [`equivocator`] row.
pub fn equivocator_of(row: &[u8]) -> Result<ActorId, StoreError> {
    let bytes = row.get(1..).and_then(|bytes| bytes.try_into().ok());
    bytes.map(ActorId).ok_or_else(|| StoreError::Damaged("row of an actor".to_owned()))
}

/// A row's value: the format byte, then the encoding.
pub fn encode<T: Serialize>(value: &T) -> Bytes {
    let mut bytes = vec![ROW_FORMAT];
    bytes.extend(codec::encode(value));
    bytes.into()
}

/// The value of a row.
pub fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&ROW_FORMAT, encoded)) => {
            codec::decode_stored(encoded).map_err(|error| StoreError::Damaged(error.to_string()))
        }
        // Not damage: another version of the software wrote it, and nothing of it may be thrown away.
        Some((format, _)) => Err(StoreError::Failed(format!(
            "a row has format {format}, and this version knows {ROW_FORMAT}: run the version that wrote it"
        ))),
        None => Err(StoreError::Damaged("an empty row".to_owned())),
    }
}

/// The stored form of a version's value: an encoding byte (0: as it is), then the bytes.
pub fn encode_value(value: &[u8]) -> Bytes {
    [&[0], value].concat().into()
}

/// The value in its stored form.
pub fn decode_value(stored: &Bytes) -> Result<Bytes, StoreError> {
    match stored.first() {
        Some(0) => Ok(stored.slice(1..)),
        _ => Err(StoreError::Damaged("a value in an unknown encoding".to_owned())),
    }
}
