//! From bytes to inputs: what is checked before the engine sees a message.
//!
//! This is the expensive part (signatures, hashes), so it runs off the engine's thread. A version
//! that does not pass is left out and counted; the rest of its message goes on.

use super::Input;
use crate::core::chain::{Chain, Rights, SignedEntry};
use crate::core::cluster::Configuration;
use crate::core::identity::{MemberId, PublicKey};
use crate::core::limits;
use crate::core::object::{Key, NamespaceId};
use crate::core::verified::{Copy, Rejection, RootCache, Submission, Verified, Verifier};
use crate::core::version::Version;
use crate::core::write::WriteId;
use crate::wire::client::{AskConfig, AskOutcome, Failure, List, OnConflict, Read, ReadValue};
use crate::wire::frame::Frame;
use crate::wire::peer::{
    Accept, Accepted, Evidence, Forward, Forwarded, Known, Learn, Prepare, Promise, Recall, Recalled,
};
use crate::wire::registry::{self, MessageError, PeerMessage, Reply};
use crate::wire::values::Values;

/// A client's request that may be served: its signatures and the client's rights were checked.
#[derive(Debug, Clone)]
pub struct Request {
    /// The key of the client's connection.
    pub client: PublicKey,
    /// The request as it came, to be forwarded as it is.
    pub frame: Frame,
    /// What it asks.
    pub ask: Ask,
}

/// What a client asks.
#[derive(Debug, Clone)]
pub enum Ask {
    /// To take a write.
    Submit {
        /// The write.
        submission: Verified<Submission>,
        /// What to do if its parents are not the live versions.
        on_conflict: OnConflict,
        /// Whether a refusal may show the current versions.
        may_read: bool,
    },
    /// To read a key.
    Read(Read),
    /// To read a version's value.
    ReadValue(ReadValue),
    /// What became of a write.
    Outcome(AskOutcome),
    /// To list keys.
    List(List),
    /// To change the configuration.
    Propose(Box<SignedEntry>),
    /// For the configuration.
    Config(AskConfig),
    /// How the node is.
    Status,
}

/// A peer's message whose versions were checked.
#[derive(Debug, Clone)]
pub enum Message {
    /// See [`crate::wire::peer::Exchange`].
    Exchange(Exchange),
    /// See [`crate::wire::peer::Exchanged`].
    Exchanged(Exchanged),
    /// A client's request that another node could not serve.
    Forward {
        /// Repeated in the answer.
        operation: u64,
        /// The request, or why it cannot be served.
        request: Box<Result<Request, Failure>>,
    },
    /// The answer to a forwarded request.
    Forwarded {
        /// The request's.
        operation: u64,
        /// The answer.
        reply: Box<Reply>,
    },
    /// Chains, phase 1.
    Prepare(Prepare),
    /// Its answer.
    Promise(Promise),
    /// Chains, phase 2.
    Accept(Accept),
    /// Its answer.
    Accepted(Accepted),
    /// A chosen entry.
    Learn(Learn),
    /// What is remembered of the sender?
    Recall(Recall),
    /// Its answer.
    Recalled(Recalled),
    /// Asks for entries.
    AskConfig(AskConfig),
    /// Entries.
    Config(crate::wire::client::Config),
    /// Evidence against an actor, both stamps verified.
    Evidence(Evidence),
}

/// A checked [`crate::wire::peer::Exchange`].
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Repeated in the answer.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// The ids that are live at the sender.
    pub live: Vec<WriteId>,
    /// A write that the sender wants to know about.
    pub about: Option<WriteId>,
    /// The versions that passed.
    pub copies: Vec<Verified<Copy>>,
    /// What the sender knows superseded.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// Whether to send what the sender lacks.
    pub fetch: bool,
}

/// A checked [`crate::wire::peer::Exchanged`].
#[derive(Debug, Clone)]
pub struct Exchanged {
    /// The request's.
    pub operation: u64,
    /// Where.
    pub namespace: NamespaceId,
    /// What.
    pub key: Key,
    /// Whether the sender counts.
    pub counts: bool,
    /// The ids that are live at the sender.
    pub live: Vec<WriteId>,
    /// What it knows of the write it was asked about.
    pub about: Known,
    /// For ids that were live here: what superseded them.
    pub superseded: Vec<(WriteId, WriteId)>,
    /// The versions that passed.
    pub copies: Vec<Verified<Copy>>,
}

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
            let submission = verifier.submission(submission).map_err(failure(config, namespace))?;
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
        // Not the client's fault: this node learns of the entry sooner or later.
        Rejection::NeedsEntry { .. } => Failure::Unavailable(rejection.to_string()),
        other => Failure::Rejected(other.to_string()),
    }
}
