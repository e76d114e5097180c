//! From bytes to inputs: what is checked before the engine sees a message.
//!
//! This is the expensive part (signatures, hashes), so it runs off the engine's thread. A version
//! that does not pass is left out and counted; the rest of its message goes on.

mod message;

pub use self::message::{
    Answer, Ask, Exchange, Exchanged, Message, RegisterAccept, RegisterPromise, RegisterShow, Request,
};
use super::Input;
use crate::core::chain::{Chain, Rights};
use crate::core::cluster::Configuration;
use crate::core::identity::{MemberId, PublicKey};
use crate::core::limits;
use crate::core::object::{Key, NamespaceId};
use crate::core::register::RegisterState;
use crate::core::verified::{Copy, Held, Rejection, RootCache, Submission, Verified, Verifier};
use crate::core::version::Version;
use crate::core::write::Write;
use crate::wire::client::Failure;
use crate::wire::frame::Frame;
use crate::wire::peer::{Forward, Forwarded};
use crate::wire::register::{Promised, Shown};
use crate::wire::registry::{self, MessageError, PeerMessage, Reply};
use crate::wire::values::Values;

/// A peer's message after the check.
#[derive(Debug)]
pub struct Checked {
    /// For the engine: the message, and before it the news that an entry is missing, if one is.
    pub inputs: Vec<Input>,
    /// Versions that were left out, to be counted.
    pub rejected: Vec<Rejection>,
}

/// Checks a client's request. An error is the answer to send.
pub fn request(
    frame: Frame,
    client: PublicKey,
    config: &Configuration,
    cache: &RootCache,
) -> Result<Request, Failure> {
    let decoded = registry::Request::decode(frame.clone()).map_err(|e| Failure::Malformed(e.to_string()))?;
    let verifier = Verifier::new(config, cache);
    let reader =
        |namespace, key: &Key| verifier.reader(&client, namespace, key).map_err(failure(config, namespace));
    let ask = match decoded {
        registry::Request::Submit(submit) => {
            let namespace = submit.signed.write().namespace;
            let value = match submit.value.into_vec().as_slice() {
                [] => bytes::Bytes::new(),
                [value] => value.clone(),
                _ => return Err(Failure::Malformed("a write carries one value at most".to_owned())),
            };
            let submission = Submission { signed: submit.signed, value, presented: submit.presented };
            let proof = submit.tenure.as_deref();
            let submission = verifier.submission(submission, proof).map_err(failure(config, namespace))?;
            let may_read = reader(namespace, &submission.get().signed.write().key).is_ok();
            Ask::Submit { submission, on_conflict: submit.on_conflict, may_read }
        }
        registry::Request::Read(read) => {
            reader(read.namespace, &read.key)?;
            Ask::Read(read)
        }
        registry::Request::ReadValue(read) => {
            reader(read.namespace, &read.key)?;
            Ask::ReadValue(read)
        }
        registry::Request::AskOutcome(ask) => {
            reader(ask.namespace, &ask.key)?;
            Ask::Outcome(ask)
        }
        registry::Request::List(list) => {
            let policy = config.policy();
            let live = policy.namespace_by_id(list.namespace).is_some_and(|n| n.dropped.is_none());
            if !live {
                return Err(Failure::UnknownNamespace);
            }
            if !policy.may_list(&client, list.namespace, &list.prefix) {
                return Err(Failure::Denied("this key may not read here".to_owned()));
            }
            Ask::List(list)
        }
        registry::Request::Propose(propose) => {
            let admins = &config.current().admins;
            let hash = propose.signed.entry.hash();
            let named = propose.signed.admin.as_ref().is_some_and(|(admin, proof)| {
                admins.contains(admin) && proof.verifies(admin, config.cluster(), hash)
            });
            if !named || propose.signed.entry.chain == Chain::WriteEpochs {
                return Err(Failure::Denied("only an administrator changes the configuration".to_owned()));
            }
            if propose.signed.entry.chain == Chain::Voters {
                return Err(Failure::NotBuilt("changing the membership".to_owned()));
            }
            Ask::Propose(Box::new(propose.signed))
        }
        registry::Request::AskVerdict(ask) => {
            let write = ask.signed.write();
            let (namespace, key) = (write.namespace, &write.key);
            verifier.asked(&ask.signed).map_err(failure(config, namespace))?;
            let policy = config.policy();
            let is_resource = namespace == NamespaceId::resources(config.cluster());
            let right = if is_resource { Rights::ELECT } else { Rights::WRITE };
            let writes = |who| policy.allowed(who, namespace, key, right, policy.revision());
            let may_read = reader(namespace, key).is_ok();
            // To forbid takes a place in the register. Whoever may not write it takes none, not even with
            // the help of somebody who may.
            let forbids = writes(&client) && writes(&write.author);
            if !(if ask.forbid { forbids } else { may_read || writes(&client) }) {
                return Err(Failure::Denied("no grant allows this".to_owned()));
            }
            Ask::Verdict { signed: ask.signed, forbid: ask.forbid, may_read }
        }
        registry::Request::Seal(ask) => {
            let namespace = ask.seal.namespace;
            let seal = verifier.seal(ask.seal, &ask.signature, &client, ask.tenure.as_deref());
            Ask::Seal(seal.map_err(failure(config, namespace))?)
        }
        registry::Request::Campaign(ask) => {
            let value = ask.value.into_vec().pop().unwrap_or_default();
            let campaign = verifier.campaign(ask.signed, value, ask.tenure.as_deref());
            let resources = NamespaceId::resources(config.cluster());
            let campaign = campaign.map_err(failure(config, resources))?;
            Ask::Campaign { campaign, afresh: ask.afresh }
        }
        registry::Request::Observe(ask) => {
            reader(NamespaceId::resources(config.cluster()), &ask.resource)?;
            Ask::Observe(ask.resource)
        }
        registry::Request::Renew(ask) => {
            let renewal = verifier.renewal(ask.renewal, ask.key, &ask.signature);
            Ask::Renew(renewal.map_err(failure(config, NamespaceId::resources(config.cluster())))?)
        }
        registry::Request::AskConfig(ask) => Ask::Config(ask),
        registry::Request::AskStatus(_) => Ask::Status,
    };
    Ok(Request { client, frame, ask })
}

/// Checks a peer's message.
pub fn message(
    frame: Frame,
    from: MemberId,
    config: &Configuration,
    cache: &RootCache,
) -> Result<Checked, MessageError> {
    let (envelope, message) = PeerMessage::decode(frame)?;
    let mut sieve = Sieve { verifier: Verifier::new(config, cache), is_behind: false, rejected: Vec::new() };
    let message = match message {
        PeerMessage::Exchange(m) => Message::Exchange(Exchange {
            operation: m.operation,
            copies: sieve.copies(m.versions, m.values, m.namespace, &m.key),
            namespace: m.namespace,
            key: m.key,
            live: bounded(m.live),
            about: m.about,
            superseded: bounded(m.superseded),
            fetch: m.fetch,
        }),
        PeerMessage::Exchanged(m) => Message::Exchanged(Exchanged {
            operation: m.operation,
            copies: sieve.copies(m.versions, m.values, m.namespace, &m.key),
            namespace: m.namespace,
            key: m.key,
            counts: m.counts,
            live: bounded(m.live),
            about: m.about,
            superseded: bounded(m.superseded),
        }),
        PeerMessage::Forward(m) => {
            let Forward { operation, client, kind, header, values } = m;
            let frame = Frame { kind, header: header.into(), body: values.body() };
            Message::Forward { operation, request: Box::new(request(frame, client, config, cache)) }
        }
        PeerMessage::Forwarded(m) => {
            let Forwarded { operation, kind, header, values } = m;
            let frame = Frame { kind, header: header.into(), body: values.body() };
            Message::Forwarded { operation, reply: Box::new(Reply::decode(frame)?) }
        }
        PeerMessage::Prepare(m) => Message::Prepare(m),
        PeerMessage::Promise(m) => Message::Promise(m),
        PeerMessage::Accept(m) => Message::Accept(m),
        PeerMessage::Accepted(m) => Message::Accepted(m),
        PeerMessage::Learn(m) => Message::Learn(m),
        PeerMessage::Recall(m) => Message::Recall(m),
        PeerMessage::Recalled(m) => Message::Recalled(m),
        PeerMessage::AskConfig(m) => Message::AskConfig(m),
        PeerMessage::Config(m) => Message::Config(m),
        PeerMessage::Evidence(m) => {
            if let Err(rejection) = sieve.verifier.evidence(&m.first, &m.second) {
                return Ok(Checked { inputs: Vec::new(), rejected: vec![rejection] });
            }
            Message::Evidence(m)
        }
        PeerMessage::PrepareRegister(m) => Message::PrepareRegister(m),
        PeerMessage::PromisedRegister(m) => {
            let answer = match m.answer {
                Promised::Yes(None) => Some(Answer::Yes(None)),
                Promised::Yes(Some((ballot, state))) => sieve
                    .held(state, m.value, m.namespace, &m.key)
                    .map(|held| Answer::Yes(Some((ballot, held)))),
                Promised::Higher(ballot) => Some(Answer::Higher(ballot)),
                Promised::Running(left_ms) => Some(Answer::Running(left_ms)),
                Promised::Abstains => Some(Answer::Abstains),
            };
            let Some(answer) = answer else { return Ok(sieve.nothing(from)) };
            Message::PromisedRegister(RegisterPromise { operation: m.operation, ballot: m.ballot, answer })
        }
        PeerMessage::AcceptRegister(m) => {
            let Some(held) = sieve.held(m.state, m.value, m.namespace, &m.key) else {
                return Ok(sieve.nothing(from));
            };
            Message::AcceptRegister(RegisterAccept {
                operation: m.operation,
                namespace: m.namespace,
                key: m.key,
                ballot: m.ballot,
                next: m.next,
                chosen: m.chosen,
                held,
            })
        }
        PeerMessage::AcceptedRegister(m) => Message::AcceptedRegister(m),
        PeerMessage::AskRegister(m) => Message::AskRegister(m),
        PeerMessage::ShowRegister(m) => {
            let Some(shown) = m.shown else { return Ok(sieve.nothing(from)) };
            let Shown { ballot, promised, hash, state, vote, left_ms } = shown;
            let held = match state {
                None => None,
                Some(state) => {
                    let same = state.hash() == hash;
                    let Some(held) = sieve.held(state, m.value, m.namespace, &m.key).filter(|_| same) else {
                        return Ok(sieve.nothing(from));
                    };
                    Some(held)
                }
            };
            let operation = m.operation;
            Message::ShowRegister(RegisterShow { operation, ballot, promised, hash, held, vote, left_ms })
        }
        PeerMessage::ChosenRegister(m) => Message::ChosenRegister(m),
    };
    let mut inputs = Vec::new();
    if sieve.is_behind {
        inputs.push(Input::Behind { from });
    }
    inputs.push(Input::Peer { from, envelope, message });
    Ok(Checked { inputs, rejected: sieve.rejected })
}

/// Whether `client` may do `rights` on `key` now: for a request that waited while the policy changed.
pub(super) fn still_allowed(
    config: &Configuration,
    client: &PublicKey,
    namespace: NamespaceId,
    key: &Key,
    rights: Rights,
) -> bool {
    config.policy().allowed(client, namespace, key, rights, config.policy().revision())
}

/// Lets versions through that pass, and notes why others do not.
struct Sieve<'a> {
    verifier: Verifier<'a>,
    is_behind: bool,
    rejected: Vec<Rejection>,
}

impl Sieve<'_> {
    /// A register's state with its value, if it passes and is this key's.
    fn held(
        &mut self,
        state: RegisterState,
        value: Values,
        namespace: NamespaceId,
        key: &Key,
    ) -> Option<Verified<Held>> {
        let value = value.into_vec();
        if value.len() != usize::from(state.version.is_some()) {
            self.rejected.push(Rejection::Value);
            return None;
        }
        let other = |write: &Write| write.namespace != namespace || write.key != *key;
        if state.version.as_ref().is_some_and(|version| other(version.write())) {
            self.rejected.push(Rejection::StampObject);
            return None;
        }
        let value = value.into_iter().next().unwrap_or_default();
        match self.verifier.held(Held { state, value }) {
            Ok(held) => Some(held),
            Err(Rejection::NeedsEntry { .. }) => {
                self.is_behind = true;
                None
            }
            Err(rejection) => {
                self.rejected.push(rejection);
                None
            }
        }
    }

    /// What is left of a message that says nothing without what did not pass.
    fn nothing(self, from: MemberId) -> Checked {
        let inputs = if self.is_behind { vec![Input::Behind { from }] } else { Vec::new() };
        Checked { inputs, rejected: self.rejected }
    }

    fn copies(
        &mut self,
        versions: Vec<Version>,
        values: Values,
        namespace: NamespaceId,
        key: &Key,
    ) -> Vec<Verified<Copy>> {
        let values = values.into_vec();
        if values.len() != versions.len() {
            self.rejected.push(Rejection::Value);
            return Vec::new();
        }
        let mut passed = Vec::with_capacity(versions.len());
        for (version, value) in versions.into_iter().zip(values) {
            let write = version.write();
            if write.namespace != namespace || write.key != *key {
                self.rejected.push(Rejection::StampObject);
                continue;
            }
            match self.verifier.copy(Copy { version, value }) {
                Ok(copy) => passed.push(copy),
                Err(Rejection::NeedsEntry { .. }) => self.is_behind = true,
                Err(rejection) => self.rejected.push(rejection),
            }
        }
        passed
    }
}

/// As much of a list as any honest node sends.
fn bounded<T>(mut list: Vec<T>) -> Vec<T> {
    list.truncate(2 * limits::VERSIONS);
    list
}

/// The answer to a client whose request was rejected.
fn failure(config: &Configuration, namespace: NamespaceId) -> impl Fn(Rejection) -> Failure + '_ {
    move |rejection| match rejection {
        Rejection::NoRight => Failure::Denied("no grant allows this".to_owned()),
        Rejection::UnknownNamespace => Failure::UnknownNamespace,
        Rejection::Mode => {
            let mode = config.policy().namespace_by_id(namespace).map(|n| n.policy.mode);
            mode.map_or(Failure::UnknownNamespace, Failure::Mode)
        }
        Rejection::NeedsTenure => Failure::NeedsTenure,
        // Not the client's fault: this node learns of the entry sooner or later.
        Rejection::NeedsEntry { .. } => Failure::Unavailable(rejection.to_string()),
        other => Failure::Rejected(other.to_string()),
    }
}
