//! Reads.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;

use super::attempt::Verdict;
use super::check::{Checker, Rejected, unexpected};
use super::error::ReadError;
use super::exchange::{Deadline, Target, pauses};
use super::fence::FenceKey;
use super::reading::{Head, Reading, Resolution, Sibling};
use super::space::{Resolver, Space};
use crate::core::chain::Rights;
use crate::core::object::{InvalidKey, Key, ObjectId};
use crate::core::write::Write;
use crate::wire::client as wire;
use crate::wire::register::Seal;
use crate::wire::registry::{Reply, Request};

/// A read that is about to be made: await it.
#[must_use = "a read is made when it is awaited"]
pub struct Get<'a> {
    handle: &'a Space,
    key: Result<Key, InvalidKey>,
    local: bool,
    history: bool,
    fence: Option<FenceKey>,
}

impl<'a> Get<'a> {
    pub(super) fn new(handle: &'a Space, key: Result<Key, InvalidKey>) -> Self {
        Get { handle, key, local: false, history: false, fence: handle.fence.clone() }
    }

    /// Takes one node's word instead of a read quorum's: faster, works in any partition, may be old.
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    /// Seals the key while reading it: from then on no write of a lower term of the tenure's resource is
    /// applied. Only registers can be sealed; it needs the right to write. A read that fails for want of an
    /// answer may have sealed; doing it again is safe.
    pub fn fenced_by(mut self, fence: impl AsRef<FenceKey>) -> Self {
        self.fence = Some(fence.as_ref().clone());
        self
    }

    /// Gives superseded versions too, as far as they are still held.
    pub fn history(mut self) -> Self {
        self.history = true;
        self
    }
}

impl<'a> IntoFuture for Get<'a> {
    type Output = Result<Reading, ReadError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let key = self.key?;
            let deadline = Deadline::after(self.handle.client.timeout());
            if let Some(fence) = &self.fence {
                return self.handle.seal(&key, fence, deadline).await;
            }
            let mut reading = self.handle.read(&key, self.local, self.history, deadline).await?;
            if let Some(resolver) = &self.handle.resolver
                && reading.is_conflict()
            {
                if !self.history {
                    // The common ancestor is among what is superseded and still held.
                    reading = self.handle.read(&key, self.local, true, deadline).await?;
                }
                resolve(&mut reading, &**resolver)?;
                if !self.history {
                    reading.history.clear();
                }
            }
            Ok(reading)
        })
    }
}

/// Has the resolver decide, if there still is anything to resolve.
fn resolve(reading: &mut Reading, resolver: &Resolver) -> Result<(), ReadError> {
    let Some(conflict) = reading.conflict() else { return Ok(()) };
    reading.resolved = match resolver(&conflict) {
        Resolution::Merge(value) => Some(Some(value)),
        Resolution::Delete => Some(None),
        Resolution::Keep => None,
        Resolution::Abort(why) => return Err(ReadError::Resolver(why)),
    };
    Ok(())
}

impl Space {
    /// Reads a key without resolving: versions, then the values that did not fit.
    pub(super) async fn read(
        &self,
        key: &Key,
        local: bool,
        history: bool,
        deadline: Deadline,
    ) -> Result<Reading, ReadError> {
        let mut pauses = pauses();
        loop {
            let answer = self.read_versions(key, local, history, deadline).await?;
            if let Some(reading) = self.with_values(key, answer, deadline).await? {
                return Ok(reading);
            }
            // A live version's value went while it was fetched: it was superseded in between.
            if !deadline.pause(&mut pauses).await {
                return Err(ReadError::Unavailable("the key changes faster than it can be read".into()));
            }
        }
    }

    pub(super) fn target<'a>(&self, key: &'a Key, rights: Rights) -> Target<'a> {
        let who = self.client.identity().public();
        Target { namespace: self.namespace.id, key, who, rights, epoch: None, agreed: self.is_linearizable() }
    }

    /// Reads a register and raises its fence.
    async fn seal(&self, key: &Key, fence: &FenceKey, deadline: Deadline) -> Result<Reading, ReadError> {
        let (namespace, client) = (self.namespace.id, &self.client);
        if !self.is_linearizable() {
            return Err(ReadError::NotFenced);
        }
        let object = ObjectId::new(namespace, key);
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Sealed(sealed) => checker.sealed(object, sealed),
            _ => Err(unexpected()),
        };
        let (seal, signature) = fence.seal(namespace, key.clone());
        let target = self.target(key, Rights::WRITE);
        let mut known = client.has_presented(fence.proof());
        loop {
            let tenure = (!known).then(|| fence.proof().clone());
            let request = Request::Seal(Seal { seal: seal.clone(), signature, tenure });
            let sealed = match client.ask_key(&target, &request, deadline, &check).await {
                Verdict::Answer(Reply::Sealed(sealed)) => sealed,
                Verdict::Answer(Reply::Failure(wire::Failure::NeedsTenure)) if known => {
                    known = false;
                    continue;
                }
                other => return Err(ReadError::from_verdict(other)),
            };
            client.note_presented(fence.proof());
            if let Err(bound) = sealed.result {
                return Err(ReadError::Fenced(bound));
            }
            let value = sealed.value.into_vec().into_iter();
            let siblings = sealed.version.into_iter().zip(value);
            let siblings = siblings.map(|(version, value)| Sibling::new(Head::new(version), value));
            return Ok(Reading {
                namespace,
                key: key.clone(),
                siblings: siblings.collect(),
                history: Vec::new(),
                evidence: Vec::new(),
                resolved: None,
            });
        }
    }

    async fn read_versions(
        &self,
        key: &Key,
        local: bool,
        history: bool,
        deadline: Deadline,
    ) -> Result<wire::Versions, ReadError> {
        let namespace = self.namespace.id;
        let request = Request::Read(wire::Read { namespace, key: key.clone(), local, history });
        let object = ObjectId::new(namespace, key);
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Versions(versions) => checker.versions(object, versions, history),
            _ => Err(unexpected()),
        };
        let target = self.target(key, Rights::READ);
        match self.client.ask_key(&target, &request, deadline, &check).await {
            Verdict::Answer(Reply::Versions(versions)) => Ok(versions),
            other => Err(ReadError::from_verdict(other)),
        }
    }

    /// Fetches what was not inline. `None` if a live version's value is gone.
    async fn with_values(
        &self,
        key: &Key,
        answer: wire::Versions,
        deadline: Deadline,
    ) -> Result<Option<Reading>, ReadError> {
        let mut inline = answer.values.into_vec().into_iter();
        let mut reading = Reading {
            namespace: self.namespace.id,
            key: key.clone(),
            siblings: Vec::new(),
            history: Vec::new(),
            evidence: answer.evidence,
            resolved: None,
        };
        for listed in answer.versions {
            let value = match if listed.inline { inline.next() } else { None } {
                Some(value) => Some(value),
                None if listed.version.write().is_delete() => Some(Bytes::new()),
                None => self.read_value(key, listed.version.signed.write(), deadline).await?,
            };
            match (value, listed.live) {
                (Some(value), live) => {
                    let sibling = Sibling::new(Head::new(listed.version), value);
                    if live { &mut reading.siblings } else { &mut reading.history }.push(sibling);
                }
                (None, true) => return Ok(None),
                (None, false) => {}
            }
        }
        Ok(Some(reading))
    }

    async fn read_value(
        &self,
        key: &Key,
        write: &Write,
        deadline: Deadline,
    ) -> Result<Option<Bytes>, ReadError> {
        let version = write.id();
        let request =
            Request::ReadValue(wire::ReadValue { namespace: self.namespace.id, key: key.clone(), version });
        let body = write.body.clone();
        let check = move |_: &Checker<'_>, reply: &Reply| match reply {
            Reply::Value(value) => match value.value.as_slice() {
                [] => Ok(()),
                [value] if body.matches(value) => Ok(()),
                _ => Err(Rejected::Forged("the value is not the one that its author signed".into())),
            },
            _ => Err(unexpected()),
        };
        let target = self.target(key, Rights::READ);
        match self.client.ask_key(&target, &request, deadline, &check).await {
            Verdict::Answer(Reply::Value(value)) => Ok(value.value.into_vec().into_iter().next()),
            other => Err(ReadError::from_verdict(other)),
        }
    }
}
