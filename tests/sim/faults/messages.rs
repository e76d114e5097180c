//! Planted faults in what nodes tell each other.

use bytes::{Bytes, BytesMut};
use tanist::core::chain::Rights;
use tanist::core::register::RegisterState;
use tanist::core::version::Version;
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::View as _;
use tanist::wire::frame::Frame;
use tanist::wire::peer::Envelope;
use tanist::wire::register::{AcceptRegister, Promised};
use tanist::wire::register::{Accepted, AcceptedRegister, PromisedRegister, ShowRegister};
use tanist::wire::registry::PeerMessage;
use tanist::wire::values::Values;

use super::super::world::{Event, World};
use super::Plant;
use super::rows::restamped;

/// What reaches the network instead of a message.
pub fn rewrite_message(
    plant: Plant,
    world: &mut World,
    from: usize,
    to: usize,
    mut message: PeerMessage,
) -> PeerMessage {
    match plant {
        Plant::KnownPast | Plant::VectorPast => {
            for version in versions_of(&mut message).into_iter().flatten() {
                version.stamps = restamped(plant, world, from, &version.stamps, &[]);
            }
        }
        Plant::NoClaims | Plant::OneStamp => match &mut message {
            PeerMessage::Exchange(m) => m.superseded.clear(),
            PeerMessage::Exchanged(m) => m.superseded.clear(),
            _ => {}
        },
        Plant::NoRepair => match &mut message {
            PeerMessage::Exchange(m) if m.about.is_none() => {
                (m.versions, m.values) = Default::default();
                m.superseded.clear();
            }
            // Whoever asks has all there is.
            PeerMessage::Exchanged(m) => {
                let row = world.nodes[to].disk.key_row(m.namespace, &m.key);
                m.live = row.siblings.live_ids();
                (m.versions, m.values) = Default::default();
                m.superseded.clear();
            }
            _ => {}
        },
        Plant::SaysNothing => {
            if let PeerMessage::PromisedRegister(m) = &mut message
                && let Promised::Yes(accepted) = &mut m.answer
            {
                *accepted = None;
                m.value = Values::none();
            }
        }
        Plant::SaysYes => {
            if let PeerMessage::AcceptedRegister(m) = &mut message
                && let Accepted::Higher(_) = m.answer
            {
                m.answer = Accepted::Yes { next: true, vote: None };
            }
        }
        Plant::AnsweredEarly => {
            if let PeerMessage::AcceptRegister(m) = &message
                && m.namespace == world.founding.registers
            {
                answer_for(world, to, from, m);
            }
        }
        Plant::LookUnchecked => {
            if let PeerMessage::ShowRegister(m) = &mut message
                && m.namespace == world.founding.registers
            {
                show_the_same(world, to, m);
            }
        }
        Plant::BallotsAgain => match &mut message {
            PeerMessage::PromisedRegister(m) if matches!(m.answer, Promised::Higher(ballot) if ballot == m.ballot) =>
            {
                promise_again(world, from, m);
            }
            // Nobody reminds it of its own ballots.
            PeerMessage::ShowRegister(ShowRegister { shown: Some(shown), .. }) => {
                let asker = world.nodes[to].actor(world.founding.cluster);
                shown.promised = shown.promised.filter(|promised| Some(promised.actor) != asker);
            }
            _ => {}
        },
        Plant::FenceForgotten => forget_fence(world, &mut message),
        Plant::OrdinaryIntroduces => match &mut message {
            PeerMessage::PrepareRegister(m) => m.takeover = false,
            PeerMessage::ShowRegister(m) => {
                if let Some(shown) = &mut m.shown {
                    shown.left_ms = 0;
                }
            }
            _ => {}
        },
        Plant::PeersForget => {
            if let PeerMessage::Recalled(m) = &mut message {
                m.batch = 0;
            }
        }
        _ => {}
    }
    message
}

/// What reaches a node of a frame that arrives.
pub fn arrives(plant: Plant, world: &World, to: usize, bytes: Bytes) -> Option<Bytes> {
    if !matches!(plant, Plant::MergeCapped | Plant::TodaysRights) {
        return Some(bytes);
    }
    let frame = Frame::take(&mut BytesMut::from(&bytes[..])).ok()??;
    let (envelope, mut message) = PeerMessage::decode(frame).ok()?;
    let policy = world.config.policy();
    let full = |key: &tanist::core::object::Key| {
        world.nodes[to].disk.key_row(world.founding.namespace, key).siblings.live().count() >= 64
    };
    let kept = |version: &Version| match plant {
        Plant::MergeCapped => !full(&version.write().key),
        _ => {
            let write = version.write();
            policy.allowed(&write.author, write.namespace, &write.key, Rights::WRITE, policy.revision())
        }
    };
    let (versions, values) = match &mut message {
        PeerMessage::Exchange(m) => (&mut m.versions, &mut m.values),
        PeerMessage::Exchanged(m) => (&mut m.versions, &mut m.values),
        _ => return Some(bytes),
    };
    let pairs = std::mem::take(versions).into_iter().zip(std::mem::take(values).into_vec());
    let (left, carried): (Vec<Version>, Vec<Bytes>) = pairs.filter(|(version, _)| kept(version)).unzip();
    (*versions, *values) = (left, carried.into_iter().collect());
    Some(encode(envelope, &message))
}

/// Whether a forgery is as good as the genuine thing among nodes: it is then signed with stolen keys,
/// which says the same as a check that is left out.
pub fn trusts_signatures(plant: Plant) -> bool {
    plant == Plant::PeersUnchecked
}

fn versions_of(message: &mut PeerMessage) -> Option<&mut Vec<Version>> {
    match message {
        PeerMessage::Exchange(m) => Some(&mut m.versions),
        PeerMessage::Exchanged(m) => Some(&mut m.versions),
        _ => None,
    }
}

fn encode(envelope: Envelope, message: &PeerMessage) -> Bytes {
    let mut bytes = BytesMut::new();
    message.clone().encode(envelope).encode_into(&mut bytes);
    bytes.freeze()
}

fn row_of(world: &World, node: usize, key: &tanist::core::object::Key) -> RegisterRow {
    let row = rows::register(world.founding.registers, key);
    let row = world.nodes[node].disk.rows.get(&row).expect("memory reads");
    row.map_or_else(RegisterRow::default, |row| rows::decode(&row).expect("the row decodes"))
}

/// Has an acceptor say yes to an acceptance that may never reach it.
fn answer_for(world: &mut World, acceptor: usize, proposer: usize, accept: &AcceptRegister) {
    let Some(incarnation) = world.nodes[acceptor].disk.incarnation else { return };
    if accept.operation == 0 {
        return;
    }
    let answer = PeerMessage::from(AcceptedRegister {
        operation: accept.operation,
        namespace: accept.namespace,
        key: accept.key.clone(),
        ballot: accept.ballot,
        answer: Accepted::Yes { next: false, vote: None },
    });
    let bytes = encode(Envelope { incarnation, synced: 0 }, &answer);
    world.after(1, Event::Frame { from: acceptor, to: proposer, bytes });
}

/// Shows the asker its own state, whatever is accepted here.
fn show_the_same(world: &World, asker: usize, show: &mut ShowRegister) {
    let Some(shown) = &mut show.shown else { return };
    let own = row_of(world, asker, &show.key);
    shown.ballot = own.accepted.as_ref().map(|(ballot, _)| *ballot);
    shown.hash = own.accepted.map_or_else(RegisterState::default, |(_, state)| state).hash();
    shown.state = None;
    show.value = Values::none();
}

/// Promises a ballot that was promised already.
fn promise_again(world: &World, node: usize, promise: &mut PromisedRegister) {
    if promise.namespace != world.founding.registers {
        return;
    }
    let accepted = row_of(world, node, &promise.key).accepted;
    let object = tanist::core::object::ObjectId::new(promise.namespace, &promise.key);
    promise.value = match accepted.as_ref().and_then(|(_, state)| state.version.as_ref()) {
        None => Values::none(),
        Some(version) if version.write().is_delete() => std::iter::once(Bytes::new()).collect(),
        Some(version) => {
            let row = rows::value(object, version.id());
            let stored = world.nodes[node].disk.rows.get(&row).expect("memory reads");
            stored.map(|stored| rows::decode_value(&stored).expect("a value")).into_iter().collect()
        }
    };
    promise.answer = Promised::Yes(accepted);
}

fn forget_fence(world: &World, message: &mut PeerMessage) {
    let registers = world.founding.registers;
    match message {
        PeerMessage::PromisedRegister(m) if m.namespace == registers => {
            if let Promised::Yes(Some((_, state))) = &mut m.answer {
                state.bound = None;
            }
        }
        PeerMessage::AcceptRegister(m) if m.namespace == registers => m.state.bound = None,
        PeerMessage::ShowRegister(m) if m.namespace == registers => {
            if let Some(shown) = &mut m.shown
                && let Some(state) = &mut shown.state
            {
                state.bound = None;
                shown.hash = state.hash();
            }
        }
        _ => {}
    }
}
