//! Planted faults in what clients ask and hear.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tanist::client::attempt::Verdict;
use tanist::core::object::{NamespaceId, ObjectId};
use tanist::core::signature::sign_one;
use tanist::core::stamp::SignedStamp;
use tanist::core::version::SignedWrite;
use tanist::core::write::{Write, WriteId};
use tanist::engine::rows::{self, RegisterRow};
use tanist::engine::store::View as _;
use tanist::wire::client::{Failure, Outcome, Submit, Submitted};
use tanist::wire::frame::Frame;
use tanist::wire::ownership::{Ballots, Campaigned, Renewed};
use tanist::wire::registry::{Reply, Request};

use super::super::history::{Asked, Verdict as Ended};
use super::super::registers::resource;
use super::super::world::World;
use super::Plant;

/// What reaches a node of a client's request.
pub fn rewrite_request(plant: Plant, world: &World, attempt: usize, bytes: Bytes) -> Bytes {
    let planted = matches!(
        plant,
        Plant::AnyObject
            | Plant::PresentsNothing
            | Plant::AnyAuthor
            | Plant::HashIsEnough
            | Plant::ReadsAlone
    );
    let request = planted.then(|| Frame::take(&mut BytesMut::from(&bytes[..])).ok().flatten()).flatten();
    let Some(mut request) = request.and_then(|frame| Request::decode(frame).ok()) else { return bytes };
    match (&mut request, plant) {
        (Request::Read(read), Plant::ReadsAlone) if world.unsafe_phase => read.local = true,
        (Request::Submit(submit), Plant::PresentsNothing) => submit.presented.clear(),
        (Request::Submit(submit), Plant::AnyObject) => fit_stamps(world, submit),
        (Request::Submit(submit), Plant::AnyAuthor) => {
            let write = Write { author: world.founding.client.public(), ..submit.signed.write().clone() };
            let proof = sign_one(&world.founding.client, write.cluster, write.id().into());
            submit.signed = Arc::new(SignedWrite::new(write, proof, None));
        }
        (Request::Submit(submit), Plant::HashIsEnough) => {
            if let Asked::Submit(write) = world.history.attempts[attempt].asked
                && let Some(prepared) = world.history.writes.get(&write)
            {
                submit.value = std::iter::once(prepared.value.clone()).collect();
            }
        }
        _ => return bytes,
    }
    let mut changed = BytesMut::new();
    request.encode().encode_into(&mut changed);
    changed.freeze()
}

/// Stamps of other objects pass for stamps of this one.
fn fit_stamps(world: &World, submit: &mut Submit) {
    let write = submit.signed.write();
    let object = ObjectId::new(write.namespace, &write.key);
    for presented in &mut submit.presented {
        let mut stamp = presented.stamp().clone();
        let node = (0..world.nodes.len())
            .find(|node| world.nodes[*node].actor(world.founding.cluster) == Some(stamp.actor));
        let Some(node) = node.filter(|_| stamp.object != object) else { continue };
        stamp.object = object;
        let proof = sign_one(&world.nodes[node].key, world.founding.cluster, stamp.hash());
        *presented = Arc::new(SignedStamp::new(stamp, proof));
    }
}

/// What a client hears instead of an answer.
pub fn rewrite_reply(plant: Plant, world: &World, attempt: usize, reply: Reply) -> Reply {
    let asked = world.history.attempts.get(attempt).map(|attempt| &attempt.asked);
    match (plant, reply) {
        (Plant::ListsNothing, Reply::Submitted(Submitted::Applied { mut siblings, stamps })) => {
            siblings.clear();
            Submitted::Applied { siblings, stamps }.into()
        }
        (Plant::ListsNothing, Reply::Outcome(Outcome::Applied { mut siblings, stamps, superseded_by })) => {
            siblings.clear();
            Outcome::Applied { siblings, stamps, superseded_by }.into()
        }
        (Plant::RetryRefused, reply @ Reply::Submitted(Submitted::Applied { .. })) => match asked {
            Some(Asked::Submit(write)) if was_acknowledged(world, attempt, *write) => {
                Submitted::Refused { current: None }.into()
            }
            _ => reply,
        },
        (Plant::DoneIsNothing, reply) => match asked {
            Some(Asked::Submit(write) | Asked::Outcome(write)) if write.0[0].is_multiple_of(2) => {
                Failure::Overloaded.into()
            }
            _ => reply,
        },
        (
            Plant::IndexAnswers,
            reply @ (Reply::Failure(_) | Reply::Submitted(Submitted::Incomplete { .. })),
        ) => match asked {
            Some(Asked::Submit(write)) => from_index(world, attempt, *write).unwrap_or(reply),
            _ => reply,
        },
        (Plant::UnknownIsRefused, Reply::Submitted(Submitted::Incomplete { .. })) => {
            Submitted::Refused { current: None }.into()
        }
        (Plant::NoBan, Reply::Renewed(Renewed::TakeoverPromised { ballot })) => {
            let node = world.history.attempts[attempt].node;
            let row = rows::register(NamespaceId::resources(world.founding.cluster), &resource());
            let row = world.nodes[node].disk.rows.get(&row).expect("memory reads");
            let row: Option<RegisterRow> = row.and_then(|row| rows::decode(&row).ok());
            let accepted = row.and_then(|row| row.accepted).map_or(ballot, |(accepted, _)| accepted);
            Renewed::Heard { ballot: accepted }.into()
        }
        (Plant::ShortOfVotes, Reply::Campaigned(mut campaigned)) => {
            if let Campaigned { result: Ballots::Chosen { votes, .. }, .. } = &mut campaigned {
                votes.truncate(1);
            }
            campaigned.into()
        }
        (_, reply) => reply,
    }
}

/// That `write` is applied, if the node that was asked knows it.
fn from_index(world: &World, attempt: usize, write: WriteId) -> Option<Reply> {
    let key = world.history.key_of(&Asked::Submit(write))?;
    let disk = &world.nodes[world.history.attempts[attempt].node].disk;
    let knows = disk.knows(world.founding.namespace, &key, write);
    knows.then(|| Submitted::Applied { siblings: Vec::new(), stamps: Vec::new() }.into())
}

/// Whether an earlier attempt of `write` was acknowledged before this one was sent.
fn was_acknowledged(world: &World, attempt: usize, write: WriteId) -> bool {
    let sent = world.history.attempts[attempt].sent;
    world.history.submissions(write).any(|(_, earlier)| {
        matches!(earlier.verdict(), Ended::Acknowledged(_))
            && earlier.released.as_ref().is_some_and(|(at, _)| *at < sent)
    })
}

/// What the application hears instead of the SDK's verdict.
pub fn rewrite_verdict(plant: Plant, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Unknown(why) if plant == Plant::UnknownIsFailed => Verdict::Unavailable(why),
        verdict => verdict,
    }
}
