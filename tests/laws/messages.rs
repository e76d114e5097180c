//! Every message survives its encoding, whatever is in it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tanist::core::chain::{
    Ballot, Chain, ConfigChange, Decided, Entry, Grant, Member, Mode, NamespacePolicy, Rights, SignedEntry,
    Voters,
};
use tanist::core::codec;
use tanist::core::events::{Past, Range};
use tanist::core::hash::Hash;
use tanist::core::identity::{ActorId, ClusterId, Incarnation, MemberId, PublicKey, SecretKey, Signature};
use tanist::core::object::{Key, NamespaceId, ObjectId};
use tanist::core::signature::Proof;
use tanist::core::stamp::{SignedStamp, Stamp};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Body, Fence, Term, Write, WriteId};
use tanist::wire::client as c;
use tanist::wire::frame::Frame;
use tanist::wire::peer as p;
use tanist::wire::registry::{PeerMessage, Reply, Request};
use tanist::wire::values::Values;

use crate::merge::config as cases;
use crate::registers;

pub(crate) fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash)
}

pub(crate) fn id() -> impl Strategy<Value = WriteId> {
    any::<[u8; 32]>().prop_map(WriteId)
}

fn ids() -> impl Strategy<Value = Vec<WriteId>> {
    vec(id(), 0..4)
}

pub(crate) fn key() -> impl Strategy<Value = Key> {
    prop_oneof![vec(any::<u8>(), 1..20), vec(any::<u8>(), 1024)]
        .prop_map(|bytes| Key::try_from(bytes).unwrap())
}

pub(crate) fn place() -> impl Strategy<Value = (NamespaceId, Key)> {
    (any::<[u8; 32]>().prop_map(NamespaceId), key())
}

pub(crate) fn public_key() -> impl Strategy<Value = PublicKey> {
    (0u8..4).prop_map(|n| SecretKey::from_seed(&[n; 32]).public())
}

pub(crate) fn signature() -> impl Strategy<Value = Signature> {
    any::<([u8; 32], [u8; 32])>().prop_map(|(r, s)| Signature([r, s].concat().try_into().unwrap()))
}

fn proof() -> impl Strategy<Value = Proof> {
    (signature(), any::<u32>(), any::<u32>(), vec(hash(), 0..3))
        .prop_map(|(signature, count, index, path)| Proof { signature, count, index, path })
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![Just(Body::Delete), (0u64..=1 << 20, hash()).prop_map(|(len, hash)| Body::Put { len, hash }),]
}

pub(crate) fn fence() -> impl Strategy<Value = Fence> {
    (key(), any::<u32>(), any::<u64>(), id()).prop_map(|(resource, recovery, number, tenure)| Fence {
        resource,
        term: Term { recovery, number },
        tenure,
    })
}

fn write() -> impl Strategy<Value = Write> {
    let fields = (any::<[u8; 32]>(), place(), any::<u64>(), ids(), 2u64.., body());
    let rest = (public_key(), any::<[u8; 16]>(), option::of(fence()), any::<u64>());
    (fields, rest).prop_map(|((cluster, (namespace, key), epoch, mut parents, generation, body), rest)| {
        parents.sort();
        parents.dedup();
        let generation = if parents.is_empty() { 1 } else { generation };
        let (author, nonce, fence, wall_ms) = rest;
        let cluster = ClusterId(cluster);
        Write {
            format: 1,
            cluster,
            namespace,
            key,
            epoch,
            generation,
            parents,
            body,
            author,
            nonce,
            fence,
            wall_ms,
        }
    })
}

pub(crate) fn signed_write() -> impl Strategy<Value = Arc<SignedWrite>> {
    (write(), proof(), option::of(signature()))
        .prop_map(|(write, proof, fence)| Arc::new(SignedWrite::new(write, proof, fence)))
}

fn past() -> impl Strategy<Value = Past> {
    vec((any::<[u8; 16]>(), any::<u32>(), 1u32..9), 0..6).prop_map(|ranges| {
        let mut past = Past::new();
        for (actor, after, len) in ranges {
            let after = u64::from(after);
            past.insert(ActorId(actor), Range { after, upto: after + u64::from(len) });
        }
        past
    })
}

pub(crate) fn stamp() -> impl Strategy<Value = Arc<SignedStamp>> {
    let ids = any::<([u8; 32], [u8; 32], [u8; 16])>();
    (ids, id(), any::<(u64, u64)>(), (0u64..99, 1u64..9), past(), proof()).prop_map(
        |((cluster, object, actor), write, (config_epoch, policy_revision), (previous, len), past, proof)| {
            let stamp = Stamp {
                format: 1,
                cluster: ClusterId(cluster),
                object: ObjectId(object),
                write,
                config_epoch,
                policy_revision,
                actor: ActorId(actor),
                previous,
                counter: previous + len,
                past,
            };
            Arc::new(SignedStamp::new(stamp, proof))
        },
    )
}

pub(crate) fn stamps() -> impl Strategy<Value = Vec<Arc<SignedStamp>>> {
    vec(stamp(), 0..3)
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    (signed_write(), stamps()).prop_map(|(signed, list)| {
        let mut stamps = Stamps::default();
        for stamp in list {
            stamps.insert(stamp);
        }
        Version { signed, stamps }
    })
}

fn versions() -> impl Strategy<Value = Vec<Version>> {
    vec(version(), 0..3)
}

pub(crate) fn values() -> impl Strategy<Value = Values> {
    vec(vec(any::<u8>(), 0..40), 0..4).prop_map(|all| all.into_iter().map(Bytes::from).collect())
}

fn chain() -> impl Strategy<Value = Chain> {
    prop_oneof![Just(Chain::Voters), Just(Chain::Policy), Just(Chain::WriteEpochs)]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Siblings), Just(Mode::Linearizable)]
}

pub(crate) fn ballot() -> impl Strategy<Value = Ballot> {
    any::<(u64, u64, [u8; 16])>().prop_map(|(config_epoch, counter, actor)| Ballot {
        config_epoch,
        counter,
        actor: ActorId(actor),
    })
}

fn grant() -> impl Strategy<Value = Grant> {
    let rights = any::<(bool, bool, bool)>().prop_map(|(read, write, elect)| Rights { read, write, elect });
    let namespace = option::of(any::<[u8; 32]>().prop_map(NamespaceId));
    (option::of(public_key()), namespace, vec(any::<u8>(), 0..5), rights)
        .prop_map(|(author, namespace, prefix, rights)| Grant { author, namespace, prefix, rights })
}

fn member() -> impl Strategy<Value = Member> {
    (any::<[u8; 16]>(), ".*", public_key(), any::<[u8; 16]>(), "[a-z]*").prop_map(
        |(id, name, key, incarnation, zone)| Member {
            id: MemberId(id),
            name,
            key,
            incarnation: Incarnation(incarnation),
            zone,
        },
    )
}

fn voters() -> impl Strategy<Value = Voters> {
    let electorate = vec(any::<[u8; 16]>().prop_map(MemberId), 0..4);
    (
        any::<([u8; 16], u32, u8)>(),
        vec(member(), 0..4),
        electorate,
        vec(public_key(), 0..3),
        vec(grant(), 0..3),
    )
        .prop_map(|((nonce, recovery, replicas), members, electorate, admins, grants)| Voters {
            nonce,
            recovery,
            members,
            electorate,
            replicas,
            admins,
            grants,
        })
}

fn change() -> impl Strategy<Value = ConfigChange> {
    let namespace = || {
        ("[a-z0-9][a-z0-9._-]{0,62}", mode(), option::of(any::<u8>())).prop_map(
            |(name, mode, write_quorum)| NamespacePolicy { name: name.parse().unwrap(), mode, write_quorum },
        )
    };
    prop_oneof![
        voters().prop_map(ConfigChange::Voters),
        namespace().prop_map(ConfigChange::CreateNamespace),
        any::<[u8; 32]>().prop_map(|id| ConfigChange::DropNamespace(NamespaceId(id))),
        grant().prop_map(ConfigChange::AddGrant),
        grant().prop_map(ConfigChange::RemoveGrant),
        Just(ConfigChange::AdvanceEpoch),
        (namespace(), key())
            .prop_map(|(policy, resource)| ConfigChange::CreateOwnedNamespace(policy, resource)),
    ]
}

fn signed_entry() -> impl Strategy<Value = SignedEntry> {
    (any::<(u8, u64)>(), chain(), hash(), change(), option::of((public_key(), proof()))).prop_map(
        |((format, number), chain, previous, change, admin)| SignedEntry {
            entry: Entry { format, chain, number, previous, change },
            admin,
        },
    )
}

pub(crate) fn vote() -> impl Strategy<Value = (ActorId, Signature)> {
    (any::<[u8; 16]>().prop_map(ActorId), signature())
}

pub(crate) fn decided() -> impl Strategy<Value = Decided> {
    (signed_entry(), ballot(), vec(vote(), 0..4)).prop_map(|(signed, ballot, votes)| Decided {
        signed,
        ballot,
        votes,
    })
}

fn config() -> impl Strategy<Value = c::Config> {
    (vec(decided(), 0..3), any::<[u64; 3]>()).prop_map(|(entries, lengths)| c::Config { entries, lengths })
}

fn request() -> impl Strategy<Value = Request> {
    let conflict =
        any::<bool>().prop_map(|keep| if keep { c::OnConflict::KeepBoth } else { c::OnConflict::Refuse });
    prop_oneof![
        registers::request(),
        (signed_write(), conflict, stamps(), option::of(registers::proof()), values()).prop_map(
            |(signed, on_conflict, presented, tenure, value)| {
                c::Submit { signed, on_conflict, presented, tenure, value }.into()
            }
        ),
        (place(), any::<(bool, bool)>()).prop_map(|((namespace, key), (local, history))| c::Read {
            namespace,
            key,
            local,
            history
        }
        .into()),
        (place(), id())
            .prop_map(|((namespace, key), version)| c::ReadValue { namespace, key, version }.into()),
        (place(), id()).prop_map(|((namespace, key), write)| c::AskOutcome { namespace, key, write }.into()),
        (place(), vec(any::<u8>(), 0..9), option::of(key()), any::<(u32, bool)>()).prop_map(
            |((namespace, _), prefix, after, (limit, conflicts))| {
                c::List { namespace, prefix, after, limit, conflicts }.into()
            }
        ),
        signed_entry().prop_map(|signed| c::Propose { signed }.into()),
        any::<[u64; 3]>().prop_map(|have| c::AskConfig { have }.into()),
        Just(c::AskStatus {}.into()),
    ]
}

fn failure() -> impl Strategy<Value = c::Failure> {
    use c::Failure::*;
    prop_oneof![
        ".*".prop_map(Denied),
        Just(UnknownNamespace),
        mode().prop_map(Mode),
        any::<(u64, u64)>().prop_map(|(epoch, now)| Expired { epoch, now }),
        ids().prop_map(UnknownParents),
        Just(Generation),
        any::<u32>().prop_map(TooManySiblings),
        ".*".prop_map(Rejected),
        ".*".prop_map(Malformed),
        ".*".prop_map(Unavailable),
        Just(Overloaded),
        Just(DiskFull),
        ".*".prop_map(NotBuilt),
        Just(NeedsTenure),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let submitted = prop_oneof![
        (stamps(), ids()).prop_map(|(stamps, siblings)| c::Submitted::Applied { stamps, siblings }),
        option::of(versions()).prop_map(|current| c::Submitted::Refused { current }),
        any::<(u8, u8)>().prop_map(|(copies, needed)| c::Submitted::Incomplete { copies, needed }),
        registers::bound().prop_map(c::Submitted::Fenced),
        Just(c::Submitted::Forgotten),
    ];
    let listed = (version(), any::<(bool, bool)>()).prop_map(|(version, (live, inline))| c::Listed {
        version,
        live,
        inline,
    });
    let outcome = prop_oneof![
        (stamps(), ids(), option::of(id())).prop_map(|(stamps, siblings, superseded_by)| {
            c::Outcome::Applied { stamps, siblings, superseded_by }
        }),
        any::<(u8, u8)>().prop_map(|(copies, needed)| c::Outcome::Incomplete { copies, needed }),
        Just(c::Outcome::Unknown),
    ];
    let row = (key(), vec((any::<u64>(), id(), option::of(any::<u64>())), 0..3))
        .prop_map(|(key, live)| c::ListedKey { key, live });
    let proposed = prop_oneof![
        Just(c::Proposed::Chosen),
        ".*".prop_map(|why| c::Proposed::Refused { why }),
        Just(c::Proposed::Unknown),
    ];
    let who = any::<([u8; 16], [u8; 16], u64, [u64; 3])>();
    let counts = prop_oneof![Just(Ok(())), ".*".prop_map(Err)];
    let peers = vec(any::<([u8; 16], bool)>().prop_map(|(id, up)| (MemberId(id), up)), 0..4);
    let status = (".*", who, counts, peers, vec((".*", any::<u64>()), 0..4)).prop_map(
        |(version, (member, incarnation, synced, chains), counts, peers, counters)| c::Status {
            version,
            member: MemberId(member),
            incarnation: Incarnation(incarnation),
            counts,
            synced,
            chains,
            peers,
            counters,
        },
    );
    prop_oneof![
        registers::reply(),
        submitted.prop_map(Reply::from),
        (vec(listed, 0..3), values(), stamps()).prop_map(|(versions, values, evidence)| c::Versions {
            versions,
            values,
            evidence
        }
        .into()),
        values().prop_map(|value| c::Value { value }.into()),
        outcome.prop_map(Reply::from),
        (vec(row, 0..3), option::of(key())).prop_map(|(keys, next)| c::Page { keys, next }.into()),
        proposed.prop_map(Reply::from),
        config().prop_map(Reply::from),
        status.prop_map(Reply::from),
        failure().prop_map(Reply::from),
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(WriteId, WriteId)>> {
    vec((id(), id()), 0..4)
}

fn peer() -> impl Strategy<Value = PeerMessage> {
    let known =
        prop_oneof![Just(p::Known::Nothing), Just(p::Known::Live), id().prop_map(p::Known::Superseded),];
    let exchange = (any::<(u64, bool)>(), place(), ids(), option::of(id()), versions(), values(), pairs())
        .prop_map(|((operation, fetch), (namespace, key), live, about, versions, values, superseded)| {
            p::Exchange { operation, namespace, key, live, about, versions, values, superseded, fetch }
        });
    let exchanged =
        (any::<(u64, bool)>(), place(), ids(), known, pairs(), versions(), values()).prop_map(
            |((operation, counts), (namespace, key), live, about, superseded, versions, values)| {
                p::Exchanged { operation, namespace, key, counts, live, about, superseded, versions, values }
            },
        );
    let bytes = || vec(any::<u8>(), 0..60);
    let accepted_before = option::of((ballot(), signed_entry()));
    let promised = prop_oneof![accepted_before.prop_map(Ok), ballot().prop_map(Err)];
    let accepted = prop_oneof![vote().prop_map(Ok), ballot().prop_map(Err)];
    prop_oneof![
        registers::peer(),
        exchange.prop_map(PeerMessage::from),
        exchanged.prop_map(PeerMessage::from),
        (any::<(u64, u16)>(), public_key(), bytes(), values()).prop_map(
            |((operation, kind), client, header, values)| {
                p::Forward { operation, client, kind, header, values }.into()
            }
        ),
        (any::<(u64, u16)>(), bytes(), values()).prop_map(|((operation, kind), header, values)| {
            p::Forwarded { operation, kind, header, values }.into()
        }),
        (chain(), any::<u64>(), ballot()).prop_map(|(chain, number, ballot)| p::Prepare {
            chain,
            number,
            ballot
        }
        .into()),
        (chain(), any::<u64>(), ballot(), promised).prop_map(|(chain, number, ballot, answer)| p::Promise {
            chain,
            number,
            ballot,
            answer
        }
        .into()),
        (ballot(), signed_entry()).prop_map(|(ballot, signed)| p::Accept { ballot, signed }.into()),
        (chain(), any::<u64>(), ballot(), hash(), accepted).prop_map(
            |(chain, number, ballot, entry, answer)| {
                p::Accepted { chain, number, ballot, entry, answer }.into()
            }
        ),
        decided().prop_map(|decided| p::Learn { decided }.into()),
        any::<(u64, [u64; 3])>()
            .prop_map(|(start, have)| p::Recall { start, chains: c::AskConfig { have } }.into()),
        any::<(u64, [u8; 16], u64)>().prop_map(|(start, id, batch)| p::Recalled {
            start,
            incarnation: Incarnation(id),
            batch
        }
        .into()),
        any::<[u64; 3]>().prop_map(|have| c::AskConfig { have }.into()),
        config().prop_map(PeerMessage::from),
        (stamp(), stamp()).prop_map(|(first, second)| p::Evidence { first, second }.into()),
    ]
}

/// The frame after a trip through bytes, another frame behind it.
fn carried(frame: Frame) -> Frame {
    let mut bytes = BytesMut::new();
    frame.encode_into(&mut bytes);
    bytes.extend_from_slice(&[1, 0]);
    let taken = Frame::take(&mut bytes).unwrap().unwrap();
    assert_eq!(bytes.len(), 2);
    taken
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn requests_survive_their_encoding(request in request()) {
        prop_assert_eq!(Request::decode(carried(request.encode())), Ok(request));
    }

    #[test]
    fn replies_survive_their_encoding(reply in reply()) {
        prop_assert_eq!(Reply::decode(carried(reply.encode())), Ok(reply));
    }

    #[test]
    fn peer_messages_survive_their_encoding(peer in peer(), who in any::<([u8; 16], u64)>()) {
        let envelope = p::Envelope { incarnation: Incarnation(who.0), synced: who.1 };
        prop_assert_eq!(PeerMessage::decode(carried(peer.encode(envelope))), Ok((envelope, peer)));
    }

    #[test]
    fn versions_and_entries_survive_their_encoding(version in version(), decided in decided()) {
        // Equality of versions looks past the proofs of stamps, so the bytes are compared too.
        let bytes = codec::encode(&version);
        let again: Version = codec::decode(&bytes).unwrap();
        prop_assert_eq!(codec::encode(&again), bytes);
        prop_assert_eq!(again, version);
        prop_assert_eq!(codec::decode::<Decided>(&codec::encode(&decided)), Ok(decided));
    }
}
