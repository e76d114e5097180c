//! What the SDK makes sure of before it believes a node: signatures, membership, rights, and that the
//! answer is about what was asked.

use bytes::Bytes;

use super::attempt::Heard;
use crate::core::chain::{Mode, Rights};
use crate::core::cluster::Configuration;
use crate::core::object::{NamespaceId, ObjectId};
use crate::core::stamp::SignedStamp;
use crate::core::verified::RootCache;
use crate::core::version::Version;
use crate::core::write::WriteId;
use crate::wire::client::{Outcome, Submitted, Versions};
use crate::wire::register::{Sealed, Verdict};
use crate::wire::registry::Reply;

/// An answer that cannot be believed, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Forged, damaged, or the answer to another question.
    Forged(String),
    /// It names entries that are not known here: the lengths of the chains that are needed.
    Behind([u64; 3]),
}

/// Judges answers by a configuration.
#[derive(Clone, Copy)]
pub(super) struct Checker<'a> {
    pub(super) config: &'a Configuration,
    pub(super) cache: &'a RootCache,
}

type Checked = Result<(), Rejected>;

fn forged(why: &str) -> Rejected {
    Rejected::Forged(why.to_owned())
}

impl Rejected {
    pub(super) fn heard(self) -> Heard {
        match self {
            Rejected::Forged(why) => Heard::Forged(why),
            Rejected::Behind(_) => Heard::Forged("a stamp names a configuration that nobody has".into()),
        }
    }
}

/// The answer to a question of another kind.
pub(super) fn unexpected() -> Rejected {
    forged("the answer does not belong to the question")
}

impl Checker<'_> {
    /// The answer to a `Read`: every version is genuine and of this object, and inline values fit. A register
    /// has one live version, or none.
    pub(super) fn versions(&self, object: ObjectId, answer: &Versions, history: bool) -> Checked {
        let inline = answer.versions.iter().filter(|listed| listed.inline).count();
        if inline != answer.values.as_slice().len() {
            return Err(forged("the values are not those that are listed"));
        }
        let mut live = answer.versions.iter().filter(|listed| listed.live);
        if live.nth(1).is_some_and(|second| self.is_register(second.version.write().namespace)) {
            return Err(forged("a register with several versions"));
        }
        let mut values = answer.values.as_slice().iter();
        for listed in &answer.versions {
            self.version(object, &listed.version)?;
            if listed.inline && !values.next().is_some_and(|value| listed.version.write().body.matches(value))
            {
                return Err(forged("a value does not have the length and hash that its author signed"));
            }
            if !listed.live && !history {
                return Err(forged("superseded versions were not asked for"));
            }
        }
        let sorted =
            answer.versions.windows(2).all(|pair| matches!(pair, [a, b] if a.version.id() < b.version.id()));
        if !sorted {
            return Err(forged("versions out of order"));
        }
        answer.evidence.iter().try_for_each(|stamp| self.stamp(object, None, stamp))
    }

    /// The answer to a `Submit`, `AskOutcome` or `AskVerdict` of `write`.
    pub(super) fn verdict(&self, object: ObjectId, write: WriteId, reply: &Reply) -> Checked {
        match reply {
            // None, if the write has been superseded since and is not held any more.
            Reply::Submitted(Submitted::Applied { stamps, .. })
            | Reply::Outcome(Outcome::Applied { stamps, .. }) => {
                stamps.iter().try_for_each(|stamp| self.stamp(object, Some(write), stamp))
            }
            Reply::Submitted(Submitted::Refused { current }) => {
                current.iter().flatten().try_for_each(|version| self.version(object, version))
            }
            Reply::Verdict(Verdict::Applied { stamps, .. }) => {
                stamps.iter().try_for_each(|stamp| self.stamp(object, Some(write), stamp))
            }
            Reply::Verdict(Verdict::Refused { current }) => {
                current.iter().try_for_each(|version| self.version(object, version))
            }
            _ => Ok(()),
        }
    }

    /// The answer to a `Seal`: the version is genuine and of this object, and the value is its.
    pub(super) fn sealed(&self, object: ObjectId, answer: &Sealed) -> Checked {
        self.current(object, answer.version.as_ref(), answer.value.as_slice())
    }

    /// One version, or none, with its value.
    pub(super) fn current(&self, object: ObjectId, version: Option<&Version>, value: &[Bytes]) -> Checked {
        match (version, value) {
            (None, []) => Ok(()),
            (Some(version), [value]) if version.write().body.matches(value) => self.version(object, version),
            _ => Err(forged("the value does not have the length and hash that its author signed")),
        }
    }

    /// A version without its value.
    pub(super) fn version(&self, object: ObjectId, version: &Version) -> Checked {
        let write = version.write();
        if write.cluster != self.config.cluster() || write.object() != object {
            return Err(forged("a version of another key or cluster"));
        }
        if version.stamps.is_empty() {
            return Err(forged("a version without a stamp"));
        }
        if self.is_register(write.namespace) && !is_agreed(version) {
            return Err(forged("a register's version has one stamp, without a past"));
        }
        for stamp in version.stamps.iter() {
            self.stamp(object, Some(version.id()), stamp)?;
            let revision = stamp.stamp().policy_revision;
            let policy = self.config.policy();
            let elects = write.namespace == NamespaceId::resources(write.cluster);
            let right = if elects { Rights::ELECT } else { Rights::WRITE };
            if !policy.allowed(&write.author, write.namespace, &write.key, right, revision) {
                return Err(forged("its author had no right to write it"));
            }
        }
        let id = version.id().into();
        if self.cache.verifies(version.signed.proof(), &write.author, write.cluster, id) {
            Ok(())
        } else {
            Err(forged("the author's signature does not fit the write"))
        }
    }

    fn is_register(&self, namespace: NamespaceId) -> bool {
        let known = self.config.policy().namespace_by_id(namespace);
        namespace == NamespaceId::resources(self.config.cluster())
            || known.is_some_and(|namespace| namespace.policy.mode == Mode::Linearizable)
    }

    /// A stamp: of this object, of this write if that is known, and its node's.
    fn stamp(&self, object: ObjectId, write: Option<WriteId>, signed: &SignedStamp) -> Checked {
        let stamp = signed.stamp();
        let config = self.config;
        if stamp.cluster != config.cluster()
            || stamp.object != object
            || write.is_some_and(|write| stamp.write != write)
        {
            return Err(forged("a stamp belongs to another key or another write"));
        }
        if stamp.config_epoch > config.config_epoch() || stamp.policy_revision > config.policy().revision() {
            return Err(Rejected::Behind([stamp.config_epoch, stamp.policy_revision, 0]));
        }
        let member = config
            .member_at(stamp.actor, stamp.config_epoch)
            .ok_or_else(|| forged("a stamp's actor was not a member then"))?;
        let proof = signed.proof().ok_or_else(|| forged("a stamp without its proof"))?;
        if self.cache.verifies(proof, &member.key, stamp.cluster, signed.hash()) {
            Ok(())
        } else {
            Err(forged("a stamp's signature does not fit"))
        }
    }
}

/// Whether a version has the form of those that a register's replicas agree on.
fn is_agreed(version: &Version) -> bool {
    let mut stamps = version.stamps.iter();
    let only = stamps.next().filter(|_| stamps.next().is_none());
    only.is_some_and(|stamp| stamp.stamp().past.is_empty())
}
