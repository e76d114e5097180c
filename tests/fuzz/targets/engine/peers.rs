//! What a member may say: questions, answers to what the node asked, what it said itself, and bytes.

use bytes::Bytes;
use tanist::core::chain::{Ballot, Chain, Decided, Vote};
use tanist::core::hash::Hash;
use tanist::core::identity::{ActorId, Incarnation};
use tanist::core::tenure::{SignedVote, TenureVote};
use tanist::core::version::Version;
use tanist::wire::client::{AskConfig, Config, Failure, Listed, Versions};
use tanist::wire::frame::Frame;
use tanist::wire::peer::{
    self, Accept, Envelope, Evidence, Exchange, Exchanged, Forward, Forwarded, Known, Learn, Prepare,
    Promise, Recall, Recalled,
};
use tanist::wire::register::{
    AcceptRegister, Accepted, AcceptedRegister, AskRegister, ChosenRegister, PrepareRegister, Promised,
    PromisedRegister, ShowRegister, Shown,
};
use tanist::wire::registry::{PeerMessage, Reply};
use tanist::wire::values::Values;

use super::house::{House, NODE};
use super::node::Node;
use super::requests;
use super::things::Things;
use crate::targets::source::Source;

/// A frame from the member `from`.
pub fn frame(source: &mut Source<'_>, node: &Node, things: &mut Things, from: u8) -> Frame {
    let message = match source.below(8) {
        0..=3 => answer(source, node, things, from),
        4..=6 => Some(fresh(source, node, things, from)),
        _ => None,
    };
    let incarnation = if source.rarely() { Incarnation(source.array()) } else { House::incarnation(from) };
    match message {
        Some(message) => message.encode(Envelope { incarnation, synced: source.number() }),
        None => damaged(source, node),
    }
}

/// What the node itself sent, sent back with some bytes changed; or bytes.
fn damaged(source: &mut Source<'_>, node: &Node) -> Frame {
    if let Some(sent) = source.pick(&node.sent)
        && source.coin()
    {
        let mut header = sent.frame.header.to_vec();
        for _ in 0..source.below(4) {
            let at = usize::from(u16::from_be_bytes(source.array())) % header.len().max(1);
            let byte = source.byte();
            header.get_mut(at).into_iter().for_each(|place| *place = byte);
        }
        return Frame { header: header.into(), ..sent.frame.clone() };
    }
    let kind = source.pick(PeerMessage::KINDS).map_or(0, |(kind, _)| *kind);
    Frame { kind, header: source.bytes(255).into(), body: source.bytes(16).into() }
}

/// An answer to something that the node asked; absent, if nothing asks for one.
fn answer(source: &mut Source<'_>, node: &Node, things: &mut Things, from: u8) -> Option<PeerMessage> {
    let asked: Vec<_> = node.sent.iter().rev().filter(|sent| sent.to == from || source_of(sent)).collect();
    let sent = source.pick(&asked)?;
    Some(match sent.message.clone() {
        PeerMessage::Exchange(m) => {
            let (versions, values) = versions(source, things);
            Exchanged {
                operation: m.operation,
                namespace: m.namespace,
                key: m.key,
                counts: !source.rarely(),
                live: if source.coin() { m.live } else { things.ids(source, 3) },
                about: known(source, things),
                superseded: things.pairs(source),
                versions,
                values,
            }
            .into()
        }
        PeerMessage::Forward(m) => forwarded(source, things, m.operation).into(),
        PeerMessage::Prepare(m) => Promise {
            chain: m.chain,
            number: m.number,
            ballot: m.ballot,
            answer: match source.below(4) {
                0 => Err(things.ballot(source)),
                1 => Ok(Some((things.ballot(source), things.entry(source, node)))),
                _ => Ok(None),
            },
        }
        .into(),
        PeerMessage::Accept(m) => accepted(source, things, &m, from).into(),
        PeerMessage::Recall(m) => {
            let batch = if source.rarely() { source.number() } else { 0 };
            Recalled { start: m.start, incarnation: House::incarnation(NODE), batch }.into()
        }
        PeerMessage::AskConfig(_) => config(source, node, things).into(),
        PeerMessage::PrepareRegister(m) => {
            let (state, value) = things.state(source);
            let (answer, value) = match source.below(6) {
                0 => (Promised::Higher(things.ballot(source)), Values::none()),
                1 => (Promised::Running(source.number()), Values::none()),
                2 => (Promised::Abstains, Values::none()),
                3 => (Promised::Yes(None), Values::none()),
                _ => (Promised::Yes(Some((things.ballot(source), state))), value),
            };
            let (operation, namespace, key, ballot) = (m.operation, m.namespace, m.key, m.ballot);
            PromisedRegister { operation, namespace, key, ballot, answer, value }.into()
        }
        PeerMessage::AcceptRegister(m) => {
            let vote = m.state.version.as_ref().map(|version| {
                let (config, tenure) = (node.config.voters_hash(), version.id());
                let ballot = m.ballot;
                let cluster = things.house.cluster;
                vote(TenureVote { cluster, config, ballot, tenure, actor: actor(from) }, from)
            });
            let answer = match source.below(8) {
                0 => Accepted::Higher(things.ballot(source)),
                1 => Accepted::OtherBytes,
                2 => Accepted::Abstains,
                3 => Accepted::Yes { next: source.coin(), vote: None },
                _ => Accepted::Yes { next: source.coin(), vote },
            };
            let (operation, namespace, key, ballot) = (m.operation, m.namespace, m.key, m.ballot);
            AcceptedRegister { operation, namespace, key, ballot, answer }.into()
        }
        PeerMessage::AskRegister(m) => {
            let (state, value) = things.state(source);
            let hash = match source.below(4) {
                0 => Hash(source.array()),
                1 => m.known,
                _ => state.hash(),
            };
            let whole = source.below(3) > 0;
            let shown = Shown {
                ballot: (!source.rarely()).then(|| things.ballot(source)),
                promised: source.coin().then(|| things.ballot(source)),
                hash,
                state: whole.then_some(state),
                vote: source.coin().then(|| (actor(from), things.signature(source))),
                left_ms: source.number(),
            };
            let value = if whole { value } else { Values::none() };
            let shown = (!source.rarely()).then_some(shown);
            let (operation, namespace, key) = (m.operation, m.namespace, m.key);
            ShowRegister { operation, namespace, key, shown, value }.into()
        }
        // Not a question: the node hears its own words.
        other => other,
    })
}

/// Whether a message that was sent to another member may be answered by this one: a liar heard of it.
fn source_of(sent: &super::node::Sent) -> bool {
    matches!(sent.message, PeerMessage::Accept(_) | PeerMessage::Prepare(_))
}

/// Something that nobody asked for.
fn fresh(source: &mut Source<'_>, node: &Node, things: &mut Things, from: u8) -> PeerMessage {
    let operation = source.number();
    let (namespace, key) = (things.namespace(source), things.key(source));
    let ballot = things.ballot(source);
    match source.below(15) {
        0..=2 => {
            let (versions, values) = versions(source, things);
            let (namespace, key) = match versions.first() {
                Some(version) if !source.rarely() => (version.write().namespace, version.write().key.clone()),
                _ => (namespace, key),
            };
            Exchange {
                operation,
                namespace,
                key,
                live: things.ids(source, 3),
                about: source.coin().then(|| things.id(source)),
                versions,
                values,
                superseded: things.pairs(source),
                fetch: source.coin(),
            }
            .into()
        }
        3 => {
            let client = things.client(source);
            let Frame { kind, header, body } = requests::frame(source, things, &client);
            let values = if body.is_empty() { Values::none() } else { [body].into_iter().collect() };
            Forward { operation, client: client.public(), kind, header: header.to_vec(), values }.into()
        }
        4 => Prepare { chain: things.chain(source), number: place(source, node), ballot }.into(),
        5 => Accept { ballot, signed: things.entry(source, node) }.into(),
        6 => learn(source, node, things).into(),
        7 => {
            let chains = AskConfig { have: [source.number(), source.number(), source.number()] };
            Recall { start: source.number(), chains }.into()
        }
        8 => AskConfig { have: [source.number(), source.number(), source.number()] }.into(),
        9 => config(source, node, things).into(),
        10 => {
            let (signed, _) = things.written(source);
            Evidence { first: things.stamp(source, &signed), second: things.stamp(source, &signed) }.into()
        }
        11 => PrepareRegister { operation, namespace, key, ballot, takeover: source.coin() }.into(),
        12 => {
            let (state, value) = things.state(source);
            let (namespace, key) = match &state.version {
                Some(version) if !source.rarely() => (version.write().namespace, version.write().key.clone()),
                _ => (namespace, key),
            };
            let ballot = if source.coin() { mine(things, source, from) } else { ballot };
            let next = source.coin().then(|| things.ballot(source));
            let chosen = source.coin().then(|| things.ballot(source));
            AcceptRegister { operation, namespace, key, ballot, next, chosen, state, value }.into()
        }
        13 => AskRegister { operation, namespace, key, known: Hash([source.byte(); 32]) }.into(),
        _ => ChosenRegister { namespace, key, ballot }.into(),
    }
}

/// A ballot of the member's own.
fn mine(things: &Things, source: &mut Source<'_>, from: u8) -> Ballot {
    Ballot { actor: actor(from), ..things.ballot(source) }
}

fn place(source: &mut Source<'_>, node: &Node) -> u64 {
    let chain = Chain::ALL[source.below(3)];
    if source.rarely() { source.number() } else { node.config.length(chain) + 1 }
}

fn versions(source: &mut Source<'_>, things: &mut Things) -> (Vec<Version>, Values) {
    let (versions, values): (Vec<Version>, Vec<Bytes>) =
        (0..source.below(4)).map(|_| things.version(source)).unzip();
    (versions, values.into_iter().collect())
}

fn known(source: &mut Source<'_>, things: &Things) -> Known {
    match source.below(3) {
        0 => Known::Nothing,
        1 => Known::Live,
        _ => Known::Superseded(things.id(source)),
    }
}

fn forwarded(source: &mut Source<'_>, things: &mut Things, operation: u64) -> Forwarded {
    let failure = if source.coin() { Failure::Overloaded } else { Failure::Unavailable(String::new()) };
    let reply = match source.below(3) {
        0 => Reply::from(failure),
        1 => Reply::from(Versions { versions: Vec::new(), values: Values::none(), evidence: Vec::new() }),
        _ => {
            let (version, value) = things.version(source);
            Reply::from(Versions {
                versions: vec![Listed { version, live: true, inline: true }],
                values: [value].into_iter().collect(),
                evidence: Vec::new(),
            })
        }
    };
    let Frame { kind, header, body } = reply.encode();
    let values = if body.is_empty() { Values::none() } else { [body].into_iter().collect() };
    Forwarded { operation, kind, header: header.to_vec(), values }
}

/// A vote for what the node proposed, or not.
fn accepted(source: &mut Source<'_>, things: &Things, asked: &Accept, from: u8) -> peer::Accepted {
    let entry = &asked.signed.entry;
    let (chain, number, ballot) = (entry.chain, entry.number, asked.ballot);
    let vote = Vote {
        cluster: things.house.cluster,
        chain,
        number,
        ballot,
        entry: entry.hash(),
        actor: actor(from),
    };
    let answer = match source.below(4) {
        0 => Err(things.ballot(source)),
        1 => Ok((actor(from), things.signature(source))),
        _ => Ok((actor(from), vote.sign(&House::member_key(from)))),
    };
    peer::Accepted { chain, number, ballot, entry: entry.hash(), answer }
}

/// An entry with the votes of both liars, which are a majority.
fn decided(source: &mut Source<'_>, node: &Node, things: &Things) -> Decided {
    let signed = things.entry(source, node);
    let ballot = things.ballot(source);
    let (chain, number, entry) = (signed.entry.chain, signed.entry.number, signed.entry.hash());
    let voters: &[u8] = if source.rarely() { &[2, 2] } else { &[2, 3] };
    let cluster = things.house.cluster;
    let votes = voters.iter().map(|member| {
        let vote = Vote { cluster, chain, number, ballot, entry, actor: actor(*member) };
        (vote.actor, vote.sign(&House::member_key(*member)))
    });
    Decided { votes: votes.collect(), signed, ballot }
}

fn learn(source: &mut Source<'_>, node: &Node, things: &Things) -> Learn {
    Learn { decided: decided(source, node, things) }
}

fn config(source: &mut Source<'_>, node: &Node, things: &Things) -> Config {
    let entries = (0..source.below(3)).map(|_| decided(source, node, things)).collect();
    Config { entries, lengths: [source.number(), source.number(), source.number()] }
}

fn actor(member: u8) -> ActorId {
    ActorId::new(House::get().cluster, House::member(member), House::incarnation(member))
}

fn vote(vote: TenureVote, from: u8) -> SignedVote {
    let signature = vote.sign(&House::member_key(from));
    (vote.actor, signature)
}
