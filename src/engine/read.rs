//! Reading a key, and handing requests to nodes that can serve them.

use std::sync::Arc;

use super::arrival::{Ask, Request};
use super::key::At;
use super::machine::{State, Step};
use super::operation::{Forwarding, Operation, Requester, Then};
use super::store::StoreError;
use crate::core::identity::MemberId;
use crate::core::limits;
use crate::wire::client::{Failure, Listed, Proposed, Read, ReadValue, Submitted, Value, Versions};
use crate::wire::peer::Forward;
use crate::wire::registry::Reply;
use crate::wire::values::Values;

/// Bytes of values in one answer, roughly; further ones are read one by one.
const INLINE: usize = limits::FRAME_LEN / 4 * 3;

impl State {
    /// Reads a key for a client.
    pub(super) fn read(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        read: Read,
    ) -> Result<(), StoreError> {
        let at = At::new(read.namespace, read.key);
        self.check_row(step, &at)?;
        if read.local {
            return self.answer_read(step, requester, &at, read.history);
        }
        let replicas = self.replicas(at.object);
        if self.counts().is_err() || !replicas.contains(&self.identity.member) {
            self.forward(step, requester, request, replicas);
            return Ok(());
        }
        let needed = self.read_quorum(at.namespace);
        let reachable = replicas.iter().filter(|member| self.reaches(**member)).count();
        if reachable < needed {
            let why = format!("{reachable} of the {needed} replicas that a read asks can be reached");
            self.fail(step, requester, Failure::Unavailable(why));
            return Ok(());
        }
        self.gather(step, requester, at, None, Then::Read { history: read.history })
    }

    /// Answers with what is held here.
    pub(super) fn answer_read(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        at: &At,
        history: bool,
    ) -> Result<(), StoreError> {
        self.counters.reads += 1;
        let row = step.rows.key_row(&at.row)?;
        let mut versions = Vec::new();
        let mut values = Values::none();
        let mut room = INLINE.saturating_sub(row.footprint());
        for version in row.siblings.held() {
            let live = row.siblings.is_live(version.id());
            if !live && !history {
                continue;
            }
            let len = version.write().body.value_len();
            let fits = len <= room || values.as_slice().is_empty();
            let value = if fits { self.value(step, at, version)? } else { None };
            let inline = value.is_some();
            if let Some(value) = value {
                room = room.saturating_sub(len);
                values.push(value);
            }
            versions.push(Listed { version: version.clone(), live, inline });
        }
        let evidence = row.evidence.iter().map(Arc::clone).collect();
        self.reply(step, requester, Versions { versions, values, evidence });
        Ok(())
    }

    /// Answers with one version's value, if it is held here; else lets another replica answer.
    pub(super) fn read_value(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        read: ReadValue,
    ) -> Result<(), StoreError> {
        let at = At::new(read.namespace, read.key);
        self.check_row(step, &at)?;
        let row = step.rows.key_row(&at.row)?;
        let value = match row.siblings.version(read.version) {
            Some(version) => self.value(step, &at, version)?,
            None => None,
        };
        match (value, requester) {
            (Some(value), _) => self.reply(step, requester, Value { value: [value].into_iter().collect() }),
            (None, Requester::Client(_)) => {
                let replicas = self.replicas(at.object);
                self.forward(step, requester, request, replicas);
            }
            (None, _) => self.reply(step, requester, Value { value: Values::none() }),
        }
        Ok(())
    }

    /// Lets another replica serve a request that this node cannot. A request is forwarded once.
    pub(super) fn forward(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        request: Request,
        replicas: Vec<MemberId>,
    ) {
        if !matches!(requester, Requester::Client(_)) {
            let why = match self.counts() {
                Err(why) => why,
                Ok(()) => "this node cannot serve it".to_owned(),
            };
            self.fail(step, requester, Failure::Unavailable(why));
            return;
        }
        let me = self.identity.member;
        let others = replicas.into_iter().filter(|r| *r != me && self.up.contains(r)).collect();
        let deadline = self.now + self.timing.deadline;
        self.counters.forwarded += 1;
        self.forward_on(
            step,
            Forwarding { requester, request, target: me, others, doubtful: false, deadline },
        );
    }

    /// Hands the request to the next candidate.
    pub(super) fn forward_on(&mut self, step: &mut Step<'_>, mut forwarding: Forwarding) {
        forwarding.others.retain(|member| self.up.contains(member));
        if forwarding.others.is_empty() {
            let why = match self.counts() {
                Err(why) => format!("{why}; and no other replica can be reached"),
                Ok(()) => "no replica of this key can be reached".to_owned(),
            };
            self.conclude(step, forwarding, Failure::Unavailable(why).into());
            return;
        }
        forwarding.target = forwarding.others.remove(0);
        let number = self.operations.number();
        let request = &forwarding.request;
        let forward = Forward {
            operation: number,
            client: request.client,
            kind: request.frame.kind,
            header: request.frame.header.to_vec(),
            values: body(request.frame.body.clone()),
        };
        step.send(forwarding.target, forward);
        self.operations.insert(number, Operation::Forwarding(forwarding));
    }

    /// Passes the answer of another node on.
    pub(super) fn forwarded(&mut self, step: &mut Step<'_>, operation: u64, reply: Reply) {
        match self.operations.take(operation) {
            Some(Operation::Forwarding(forwarding)) => match reply {
                // It did nothing: another one may.
                Reply::Failure(Failure::Unavailable(_)) if !forwarding.others.is_empty() => {
                    self.forward_on(step, forwarding);
                }
                // It does not hold the value: another one may.
                Reply::Value(Value { value })
                    if value.as_slice().is_empty() && !forwarding.others.is_empty() =>
                {
                    self.forward_on(step, forwarding);
                }
                reply => self.conclude(step, forwarding, reply),
            },
            Some(other) => self.operations.insert(operation, other),
            None => {}
        }
    }

    /// Gives up on another node's answer.
    pub(super) fn end_forwarding(&mut self, step: &mut Step<'_>, mut forwarding: Forwarding) {
        forwarding.doubtful = true;
        let why = "the replica that was asked did not answer".to_owned();
        self.conclude(step, forwarding, Failure::Unavailable(why).into());
    }

    /// Passes an answer on. If a node that had the request went away without one, the request may
    /// have been done there: then nobody can say that it was not.
    fn conclude(&mut self, step: &mut Step<'_>, forwarding: Forwarding, reply: Reply) {
        let negative = matches!(
            &reply,
            Reply::Failure(_)
                | Reply::Submitted(Submitted::Refused { .. } | Submitted::Forgotten)
                | Reply::Proposed(Proposed::Refused { .. })
        );
        let reply = match &forwarding.request.ask {
            Ask::Submit { submission, .. } if forwarding.doubtful && negative => {
                let namespace = submission.get().signed.write().namespace;
                let needed = u8::try_from(self.write_quorum(namespace)).unwrap_or(u8::MAX);
                Submitted::Incomplete { copies: 0, needed }.into()
            }
            Ask::Propose(_) if forwarding.doubtful && negative => Proposed::Unknown.into(),
            _ => reply,
        };
        self.reply(step, forwarding.requester, reply);
    }
}

/// A frame's body as one value of another frame; none, if it is empty.
fn body(body: bytes::Bytes) -> Values {
    if body.is_empty() { Values::none() } else { [body].into_iter().collect() }
}
