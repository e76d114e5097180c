//! P9: nothing leaves a node before what it rests on is durable.
//!
//! The simulation sees every disk, so it checks this at the moment something leaves, not only after
//! a crash happened to show it.

use bytes::Bytes;
use tanist::core::chain::{Ballot, Chain};
use tanist::core::object::{Key, NamespaceId};
use tanist::core::version::Version;
use tanist::core::write::WriteId;
use tanist::engine::rows::{self, AcceptorRow, RegisterRow};
use tanist::engine::store::View as _;
use tanist::wire::client::{Outcome, Submitted};
use tanist::wire::peer::Known;
use tanist::wire::register::{Accepted as AcceptedState, Promised};
use tanist::wire::registry::{PeerMessage, Reply};

use crate::healing::Final;
use crate::history::Asked;

use crate::world::World;

/// A message leaves a node: versions, ids and votes in it are durable there.
pub fn on_send(world: &World, node: usize, message: &PeerMessage) -> Result<(), String> {
    match message {
        PeerMessage::Exchange(m) => {
            m.versions.iter().try_for_each(|version| stamped(world, node, &m.key, version))
        }
        PeerMessage::Exchanged(m) => {
            m.versions.iter().try_for_each(|version| stamped(world, node, &m.key, version))?;
            if m.about == Known::Nothing {
                return Ok(());
            }
            m.live.iter().try_for_each(|id| durable(world, &[node], &m.key, *id))
        }
        PeerMessage::Promise(m) => match &m.answer {
            Ok(_) => promised(world, node, m.chain, m.number, m.ballot),
            Err(_) => Ok(()),
        },
        PeerMessage::Accepted(m) if m.answer.is_ok() => promised(world, node, m.chain, m.number, m.ballot),
        PeerMessage::PromisedRegister(m) if matches!(m.answer, Promised::Yes(_)) => {
            held(world, node, (m.namespace, &m.key), m.ballot, |row| row.promised)
        }
        PeerMessage::AcceptedRegister(m) if matches!(m.answer, AcceptedState::Yes { .. }) => {
            held(world, node, (m.namespace, &m.key), m.ballot, accepted)
        }
        PeerMessage::ShowRegister(m) => match m.shown.as_ref().and_then(|shown| shown.ballot) {
            Some(ballot) => held(world, node, (m.namespace, &m.key), ballot, accepted),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// An answer leaves a node: an acknowledged write has its copies, and what is shown is on a disk.
pub fn on_reply(world: &World, node: usize, attempt: usize, reply: &Reply) -> Result<(), String> {
    let asked = &world.history.attempts[attempt].asked;
    let Some(key) = world.history.key_of(asked) else { return Ok(()) };
    match (asked, reply) {
        (Asked::Submit(write), Reply::Submitted(Submitted::Applied { siblings, .. }))
        | (Asked::Outcome(write), Reply::Outcome(Outcome::Applied { siblings, .. })) => {
            copies(world, &key, *write)?;
            siblings.iter().try_for_each(|id| shown(world, &key, *id))
        }
        (_, Reply::Submitted(Submitted::Refused { current: Some(current) })) => {
            current.iter().try_for_each(|version| shown(world, &key, version.id()))
        }
        (_, Reply::Versions(read)) => {
            read.versions.iter().try_for_each(|listed| shown(world, &key, listed.version.id()))
        }
        _ => Ok(()),
    }
    .map_err(|why| format!("node {node} answers attempt {attempt}: {why}"))
}

/// What any answer ever showed as live is still there, or what came after it. Not claimed when a disk
/// lost something.
pub fn at_end(world: &World, last: &Final) -> Result<(), String> {
    if !world.damaged.is_empty() {
        return Ok(());
    }
    for (number, attempt) in world.history.attempts.iter().enumerate() {
        let Some(live) = world.history.key_of(&attempt.asked).and_then(|key| last.get(&key)) else {
            continue;
        };
        let ids: Vec<WriteId> = match attempt.released.as_ref().map(|(_, reply)| reply) {
            Some(Reply::Versions(read)) => read.versions.iter().map(|listed| listed.version.id()).collect(),
            Some(Reply::Submitted(Submitted::Refused { current: Some(current) })) => {
                current.iter().map(Version::id).collect()
            }
            Some(Reply::Submitted(Submitted::Applied { siblings, .. })) => siblings.clone(),
            _ => continue,
        };
        if let Some(id) = ids.iter().find(|id| !world.history.covered(**id, live)) {
            return Err(format!("attempt {number} was shown {id:?}, which vanished: live are {live:?}"));
        }
    }
    Ok(())
}

/// An acknowledged write has as many durable copies as the namespace asks for; one fewer, if the copy
/// was on the disk that went wrong.
fn copies(world: &World, key: &Key, write: WriteId) -> Result<(), String> {
    let holders: Vec<usize> = world
        .replicas(key)
        .into_iter()
        .filter(|node| world.nodes[*node].disk.knows(world.founding.namespace, key, write))
        .collect();
    let spare = world.damaged.iter().filter(|node| !holders.contains(node)).count();
    if holders.len() + spare >= 2 {
        Ok(())
    } else {
        Err(format!("{write:?} is acknowledged, and durable only on {holders:?}"))
    }
}

fn shown(world: &World, key: &Key, id: WriteId) -> Result<(), String> {
    if !world.damaged.is_empty() {
        return Ok(());
    }
    let all: Vec<usize> = (0..world.options.nodes).collect();
    durable(world, &all, key, id)
}

fn durable(world: &World, nodes: &[usize], key: &Key, id: WriteId) -> Result<(), String> {
    let lossy = world.options.damage.loses_rows();
    let lost = |node: &usize| lossy && world.damaged.contains(node);
    let on = |node: &usize| lost(node) || world.nodes[*node].disk.knows(world.founding.namespace, key, id);
    if nodes.iter().any(on) {
        Ok(())
    } else {
        Err(format!("{id:?} of {key} leaves nodes {nodes:?}, and is durable on none of them"))
    }
}

/// A version that leaves is on the node's disk with its stamps, or was superseded there since.
fn stamped(world: &World, node: usize, key: &Key, version: &Version) -> Result<(), String> {
    if world.damaged.contains(&node) && world.options.damage.loses_rows() {
        return Ok(());
    }
    durable(world, &[node], key, version.id())?;
    let row = world.nodes[node].disk.key_row(world.founding.namespace, key);
    let Some(held) = row.siblings.version(version.id()) else { return Ok(()) };
    match version.stamps.iter().find(|stamp| held.stamps.at(stamp.stamp().dot()).is_none()) {
        Some(stamp) => {
            let dot = stamp.stamp().dot();
            Err(format!(
                "{:?} leaves node {node} with the stamp {dot:?}, which is not durable there",
                version.id()
            ))
        }
        None => Ok(()),
    }
}

fn accepted(row: &RegisterRow) -> Option<Ballot> {
    row.accepted.as_ref().map(|(ballot, _)| *ballot)
}

/// What an acceptor of a register says of a ballot is on its disk, unless that lost the row since.
fn held(
    world: &World,
    node: usize,
    (namespace, key): (NamespaceId, &Key),
    ballot: Ballot,
    at: impl Fn(&RegisterRow) -> Option<Ballot>,
) -> Result<(), String> {
    if world.damaged.contains(&node) && world.options.damage.loses_rows() {
        return Ok(());
    }
    let row = world.nodes[node].disk.rows.get(&rows::register(namespace, key)).expect("memory reads");
    let row: RegisterRow =
        row.map_or_else(RegisterRow::default, |row| rows::decode(&row).expect("it decodes"));
    if at(&row) >= Some(ballot) {
        Ok(())
    } else {
        Err(format!("node {node} speaks of {ballot:?} of {key}, and its disk does not know of it"))
    }
}

/// A promise is on the node's disk, or the place it was made for is decided there.
fn promised(world: &World, node: usize, chain: Chain, number: u64, ballot: Ballot) -> Result<(), String> {
    let read = |row: Bytes| world.nodes[node].disk.rows.get(&row).expect("memory reads");
    if read(rows::entry(chain, number)).is_some() {
        return Ok(());
    }
    let row: AcceptorRow = read(rows::acceptor(chain, number))
        .map_or_else(AcceptorRow::default, |row| rows::decode(&row).expect("the row decodes"));
    if row.promised >= Some(ballot) {
        Ok(())
    } else {
        Err(format!("node {node} answers for ballot {ballot:?}, and its disk does not know of it"))
    }
}
