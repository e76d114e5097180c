//! Registers and ownership: any of their messages, and what no sequence of changes can break.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tanist::core::authority::{FencedMessage, Gate, admit};
use tanist::core::certificate::{CERTIFICATE_FORMAT, Certificate};
use tanist::core::codec;
use tanist::core::identity::ClusterId;
use tanist::core::register::{Bound, RegisterState, Standing};
use tanist::core::tenure::{self, Renewal, TENURE_FORMAT, Tenure, TenureProof};
use tanist::core::version::{SignedWrite, Stamps, Version};
use tanist::core::write::{Fence, Term, Write, WriteId};
use tanist::wire::ownership as o;
use tanist::wire::register as r;
use tanist::wire::registry::{PeerMessage, Reply, Request};

use crate::build;
use crate::merge::config as cases;
use crate::messages::{
    ballot, decided, fence, hash, id, key, place, public_key, signature, signed_write, stamp, stamps, values,
    version, vote,
};

fn term() -> impl Strategy<Value = Term> {
    any::<(u32, u64)>().prop_map(|(recovery, number)| Term { recovery, number })
}

pub(crate) fn bound() -> impl Strategy<Value = Bound> {
    (key(), term()).prop_map(|(resource, term)| Bound { resource, term })
}

/// Any state of a valid form.
fn state() -> impl Strategy<Value = RegisterState> {
    let void = vec((1u64..99, id()), 0..4);
    (0u64..50, signed_write(), stamp(), vec(id(), 31), option::of(bound()), void).prop_map(
        |(generation, signed, stamp, older, bound, void)| {
            let void: BTreeSet<_> = void.into_iter().map(|(more, id)| (generation + more, id)).collect();
            let void = void.into_iter().collect();
            if generation == 0 {
                return RegisterState { bound, void, ..RegisterState::default() };
            }
            let mut write = signed.write().clone();
            write.generation = generation;
            write.parents = if generation == 1 { vec![] } else { vec![older[0]] };
            let signed = SignedWrite::new(write, signed.proof().clone(), signed.fence().copied());
            let mut of_it = stamp.stamp().clone();
            of_it.write = signed.id();
            let proof = stamp.proof().unwrap().clone();
            let mut stamps = Stamps::default();
            stamps.insert(Arc::new(tanist::core::stamp::SignedStamp::new(of_it, proof)));
            let remembered = usize::try_from(generation - 1).unwrap().min(31);
            let recent = [&[signed.id()], &older[..remembered]].concat();
            let version = Some(Version { signed: Arc::new(signed), stamps });
            RegisterState { generation, version, bound, recent, void }
        },
    )
}

fn tenure() -> impl Strategy<Value = Tenure> {
    (term(), option::of(public_key()), 1_000u32..=300_000).prop_map(|(term, key, lease_ms)| Tenure {
        format: TENURE_FORMAT,
        term,
        key,
        lease_ms,
    })
}

pub(crate) fn proof() -> impl Strategy<Value = Arc<TenureProof>> {
    (signed_write(), tenure(), ballot(), vec(vote(), 0..4)).prop_map(|(signed, tenure, ballot, votes)| {
        Arc::new(TenureProof { signed: SignedWrite::clone(&signed), tenure, ballot, votes })
    })
}

fn certificate() -> impl Strategy<Value = Certificate> {
    (vec(decided(), 0..3), proof()).prop_map(|(voters, proof)| Certificate {
        format: CERTIFICATE_FORMAT,
        voters,
        proof: TenureProof::clone(&proof),
    })
}

fn cluster() -> impl Strategy<Value = ClusterId> {
    any::<[u8; 32]>().prop_map(ClusterId)
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let seal = (cluster(), place(), fence()).prop_map(|(cluster, (namespace, key), fence)| tenure::Seal {
        cluster,
        namespace,
        key,
        fence,
    });
    let renewal = (cluster(), key(), id(), any::<u64>())
        .prop_map(|(cluster, resource, tenure, sequence)| Renewal { cluster, resource, tenure, sequence });
    prop_oneof![
        (signed_write(), any::<bool>()).prop_map(|(signed, forbid)| r::AskVerdict { signed, forbid }.into()),
        (seal, signature(), option::of(proof())).prop_map(|(seal, signature, tenure)| r::Seal {
            seal,
            signature,
            tenure
        }
        .into()),
        (signed_write(), option::of(proof()), any::<bool>(), values())
            .prop_map(|(signed, tenure, afresh, value)| o::Campaign { signed, tenure, afresh, value }.into()),
        key().prop_map(|resource| o::Observe { resource }.into()),
        (renewal, public_key(), signature()).prop_map(|(renewal, key, signature)| o::Renew {
            renewal,
            key,
            signature
        }
        .into()),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    let verdict = prop_oneof![
        (stamps(), option::of(id()))
            .prop_map(|(stamps, superseded_by)| r::Verdict::Applied { stamps, superseded_by }),
        option::of(version()).prop_map(|current| r::Verdict::Refused { current }),
        bound().prop_map(r::Verdict::Fenced),
        Just(r::Verdict::Open),
        Just(r::Verdict::Forgotten),
        Just(r::Verdict::Unknown),
    ];
    let ballots = prop_oneof![
        (ballot(), vec(vote(), 0..4)).prop_map(|(ballot, votes)| o::Ballots::Chosen { ballot, votes }),
        any::<u64>().prop_map(|left_ms| o::Ballots::Running { left_ms }),
        Just(o::Ballots::Refused),
        Just(o::Ballots::Incomplete),
    ];
    let renewed = prop_oneof![
        ballot().prop_map(|ballot| o::Renewed::Heard { ballot }),
        Just(o::Renewed::OtherTenure),
        ballot().prop_map(|ballot| o::Renewed::TakeoverPromised { ballot }),
        Just(o::Renewed::Repeated),
        Just(o::Renewed::Stalled),
    ];
    let sealed = prop_oneof![Just(Ok(())), bound().prop_map(Err)];
    let votes = vec(vote(), 0..4);
    prop_oneof![
        verdict.prop_map(Reply::from),
        (sealed, option::of(version()), values()).prop_map(|(result, version, value)| r::Sealed {
            result,
            version,
            value
        }
        .into()),
        (ballots, option::of(version()), values()).prop_map(|(result, version, value)| o::Campaigned {
            result,
            version,
            value
        }
        .into()),
        (option::of(version()), option::of(ballot()), votes, any::<u64>(), values()).prop_map(
            |(version, ballot, votes, left_ms, value)| {
                o::Observed { version, ballot, votes, left_ms, value }.into()
            }
        ),
        renewed.prop_map(Reply::from),
    ]
}

pub(crate) fn peer() -> impl Strategy<Value = PeerMessage> {
    let promised = prop_oneof![
        option::of((ballot(), state())).prop_map(r::Promised::Yes),
        ballot().prop_map(r::Promised::Higher),
        any::<u64>().prop_map(r::Promised::Running),
        Just(r::Promised::Abstains),
    ];
    let accepted = prop_oneof![
        (any::<bool>(), option::of(vote())).prop_map(|(next, vote)| r::Accepted::Yes { next, vote }),
        ballot().prop_map(r::Accepted::Higher),
        Just(r::Accepted::OtherBytes),
        Just(r::Accepted::Abstains),
    ];
    let two = (option::of(ballot()), option::of(ballot()));
    let shown = (two, hash(), option::of(state()), option::of(vote()), any::<u64>()).prop_map(
        |((ballot, promised), hash, state, vote, left_ms)| r::Shown {
            ballot,
            promised,
            hash,
            state,
            vote,
            left_ms,
        },
    );
    let two = (option::of(ballot()), option::of(ballot()));
    prop_oneof![
        (any::<(u64, bool)>(), place(), ballot()).prop_map(
            |((operation, takeover), (namespace, key), ballot)| {
                r::PrepareRegister { operation, namespace, key, ballot, takeover }.into()
            }
        ),
        (any::<u64>(), place(), ballot(), promised, values()).prop_map(
            |(operation, (namespace, key), ballot, answer, value)| {
                r::PromisedRegister { operation, namespace, key, ballot, answer, value }.into()
            }
        ),
        (any::<u64>(), place(), ballot(), two, state(), values()).prop_map(
            |(operation, (namespace, key), ballot, (next, chosen), state, value)| {
                r::AcceptRegister { operation, namespace, key, ballot, next, chosen, state, value }.into()
            }
        ),
        (any::<u64>(), place(), ballot(), accepted).prop_map(
            |(operation, (namespace, key), ballot, answer)| {
                r::AcceptedRegister { operation, namespace, key, ballot, answer }.into()
            }
        ),
        (any::<u64>(), place(), hash()).prop_map(|(operation, (namespace, key), known)| {
            r::AskRegister { operation, namespace, key, known }.into()
        }),
        (any::<u64>(), place(), option::of(shown), values()).prop_map(
            |(operation, (namespace, key), shown, value)| {
                r::ShowRegister { operation, namespace, key, shown, value }.into()
            }
        ),
        (place(), ballot()).prop_map(|((namespace, key), ballot)| r::ChosenRegister {
            namespace,
            key,
            ballot
        }
        .into()),
    ]
}

/// One thing that somebody asks of a register.
#[derive(Debug, Clone)]
enum Asked {
    /// A write of the current version, or of an earlier one; fenced by a term, or not.
    Write {
        behind: usize,
        term: Option<u64>,
    },
    Seal(u64),
    /// A ban of a write that was made before, or of one that never was.
    Forbid {
        made: usize,
        later: u64,
    },
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let one = prop_oneof![
        6 => (prop_oneof![4 => Just(0usize), 1 => 0usize..4], option::of(1u64..6))
            .prop_map(|(behind, term)| Asked::Write { behind, term }),
        1 => (1u64..6).prop_map(Asked::Seal),
        1 => (any::<usize>(), 0u64..4).prop_map(|(made, later)| Asked::Forbid { made, later }),
    ];
    vec(one, 1..80)
}

fn fence_of(number: u64) -> Fence {
    Fence { resource: build::key(), term: Term { recovery: 0, number }, tenure: WriteId([9; 32]) }
}

/// Everything that was made, and the states that were passed through.
fn run(asked: &[Asked]) -> (Vec<Write>, Vec<RegisterState>) {
    let mut writes: Vec<Write> = Vec::new();
    let mut states = vec![RegisterState::default()];
    for (n, asked) in (1u64..).zip(asked) {
        let now = states.last().unwrap().clone();
        let next = match asked {
            Asked::Write { behind, term } => {
                let id = now.recent.get(*behind).copied();
                let parent = id.and_then(|id| writes.iter().find(|write| write.id() == id).cloned());
                let mut write = build::write(n, &parent.iter().collect::<Vec<_>>());
                write.fence = term.map(fence_of);
                writes.push(write.clone());
                let mut stamps = Stamps::default();
                stamps.insert(Arc::new(tanist::core::stamp::SignedStamp::new(
                    tanist::core::stamp::Stamp {
                        format: 1,
                        cluster: build::CLUSTER,
                        object: write.object(),
                        write: write.id(),
                        config_epoch: 1,
                        policy_revision: 1,
                        actor: build::actor(0),
                        previous: n - 1,
                        counter: n,
                        past: tanist::core::events::Past::new(),
                    },
                    build::no_proof(),
                )));
                let signed = Arc::new(SignedWrite::new(write.clone(), build::no_proof(), None));
                match now.standing(&write, write.id(), None) {
                    Standing::Open => now.apply(Version { signed, stamps }),
                    _ => continue,
                }
            }
            Asked::Seal(number) if now.fences(Some(&fence_of(*number)), None).is_none() => {
                now.seal(&fence_of(*number))
            }
            Asked::Seal(_) => continue,
            Asked::Forbid { made, later } => {
                let write = writes.get(*made % writes.len().max(1));
                let (generation, id) = write.map_or((now.generation + later, WriteId([7; 32])), |write| {
                    (write.generation, write.id())
                });
                now.forbid(generation, id).unwrap()
            }
        };
        states.push(next);
    }
    (writes, states)
}

fn is_final(standing: &Standing) -> bool {
    matches!(standing, Standing::Applied | Standing::Refused | Standing::Fenced(_) | Standing::Expired)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn states_tenures_and_certificates_survive_their_encoding(
        state in state(), tenure in tenure(), certificate in certificate()
    ) {
        let bytes = codec::encode(&state);
        let again: RegisterState = codec::decode(&bytes).unwrap();
        prop_assert_eq!(codec::encode(&again), bytes);
        prop_assert_eq!(again.hash(), state.hash());
        prop_assert_eq!(Tenure::decode(&tenure.encode()), Ok(tenure));
        prop_assert_eq!(Certificate::from_text(&certificate.to_text()), Ok(certificate));
    }

    /// P3, P5, P7: what was once said of a write for good is never contradicted; of the writes of one
    /// generation one is applied at most; terms only rise; and every state has a valid form.
    #[test]
    fn p5_what_was_final_of_a_write_stays_final(asked in asked()) {
        let (writes, states) = run(&asked);
        for state in &states {
            prop_assert_eq!(state.check(), Ok(()));
        }
        for pair in states.windows(2) {
            let term = |state: &RegisterState| state.bound.as_ref().map(|bound| bound.term);
            prop_assert!(term(&pair[0]) <= term(&pair[1]));
        }
        for write in &writes {
            let mut before: Option<Standing> = None;
            for state in &states {
                let now = state.standing(write, write.id(), None);
                if let Some(before) = &before {
                    let applied = *before == Standing::Applied;
                    prop_assert!(is_final(&now), "{before:?}, then {now:?}");
                    prop_assert!(!applied || matches!(now, Standing::Applied | Standing::Expired));
                    prop_assert!(applied || now != Standing::Applied, "{before:?}, then {now:?}");
                }
                if is_final(&now) {
                    before = Some(now);
                }
            }
        }
        let last = states.last().unwrap();
        let mut generations = BTreeSet::new();
        for write in writes.iter().filter(|write| last.standing(write, write.id(), None) == Standing::Applied) {
            prop_assert!(generations.insert(write.generation), "two writes of one generation are applied");
        }
    }

    /// Whatever is shown to a gate, in whatever order, the terms that it admits never fall.
    #[test]
    fn p7_a_gate_admits_terms_that_rise(shown in vec((0u32..3, 0u64..4), 0..30)) {
        let mut highest = None;
        for (recovery, number) in shown {
            let term = Term { recovery, number };
            match admit(highest, term) {
                Ok(kept) => {
                    prop_assert!(highest <= Some(kept) && kept == term);
                    highest = Some(kept);
                }
                Err(over) => prop_assert!(over.highest > term && Some(over.highest) == highest),
            }
        }
        prop_assert_eq!(Gate::default().highest(&build::key()), None);
    }

    #[test]
    fn a_fenced_message_has_one_form(cluster in cluster(), tenure in id(), message in vec(any::<u8>(), 0..60)) {
        let message = FencedMessage { cluster, tenure, message };
        prop_assert_eq!(codec::decode(&codec::encode(&message)), Ok(message));
    }
}
