//! Registers and ownership: any of their messages, and what no sequence of changes can break.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tanist::core::authority::{FencedMessage, Gate, admit};
use tanist::core::certificate::{CERTIFICATE_FORMAT, Certificate};
use tanist::core::codec;
use tanist::core::events::Past;
use tanist::core::identity::ClusterId;
use tanist::core::register::{Bound, RegisterState, Standing};
use tanist::core::stamp::{SignedStamp, Stamp};
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
            stamps.insert(Arc::new(SignedStamp::new(of_it, proof)));
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
    /// A write of one of the writes made last, applied or not; sent now, or kept for later.
    Write {
        behind: usize,
        term: Option<u64>,
        sent: bool,
    },
    /// As above, of the current version and under the term that the key is bound to.
    Fitting,
    /// A write that was made before, again.
    Again(usize),
    Seal(u64),
    /// A ban of a write that was made before, or of one that never was.
    Forbid {
        made: usize,
        later: u64,
    },
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let one = prop_oneof![
        6 => (0usize..5, option::of(1u64..6), any::<bool>())
            .prop_map(|(behind, term, sent)| Asked::Write { behind, term, sent }),
        8 => Just(Asked::Fitting),
        4 => any::<usize>().prop_map(Asked::Again),
        1 => (1u64..6).prop_map(Asked::Seal),
        2 => (any::<usize>(), 0u64..4).prop_map(|(made, later)| Asked::Forbid { made, later }),
    ];
    vec(one, 1..120)
}

fn fence_of(number: u64) -> Fence {
    Fence { resource: build::key(), term: Term { recovery: 0, number }, tenure: WriteId([9; 32]) }
}

/// What happened to a register, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Applied(WriteId),
    Sealed(Term),
    Forbidden(WriteId),
}

/// Everything that was made, the states that were passed through, and what happened.
#[derive(Default)]
struct Run {
    writes: Vec<Write>,
    states: Vec<RegisterState>,
    events: Vec<Event>,
}

impl Run {
    fn of(asked: &[Asked]) -> Run {
        let mut run = Run { states: vec![RegisterState::default()], ..Run::default() };
        for (n, asked) in (1u64..).zip(asked) {
            run.step(n, asked);
        }
        run
    }

    fn now(&self) -> RegisterState {
        self.states.last().unwrap().clone()
    }

    fn step(&mut self, n: u64, asked: &Asked) {
        let now = self.now();
        let made = |at: usize| self.writes.get(at % self.writes.len().max(1)).cloned();
        match asked {
            Asked::Write { behind, term, sent } => {
                let at = self.writes.len().checked_sub(1 + behind);
                let parent = at.map(|at| self.writes[at].clone());
                let write = self.make(n, parent.as_ref(), *term);
                if *sent {
                    self.submit(n, &write);
                }
            }
            Asked::Fitting => {
                let current = now.current().map(|id| self.write(id).clone());
                let write = self.make(n, current.as_ref(), now.bound.map(|bound| bound.term.number));
                self.submit(n, &write);
            }
            Asked::Again(at) => {
                if let Some(write) = made(*at) {
                    self.submit(n, &write);
                }
            }
            Asked::Seal(number) => {
                if now.fences(Some(&fence_of(*number)), None).is_none() {
                    self.states.push(now.seal(&fence_of(*number)));
                    self.events.push(Event::Sealed(fence_of(*number).term));
                }
            }
            Asked::Forbid { made: at, later } => {
                let (generation, id) = made(*at)
                    .map_or((now.generation + later, WriteId([7; 32])), |write| {
                        (write.generation, write.id())
                    });
                self.states.push(now.forbid(generation, id).unwrap());
                // At or below the current generation it is decided already, whichever way.
                if generation > now.generation {
                    self.events.push(Event::Forbidden(id));
                }
            }
        }
    }

    fn make(&mut self, n: u64, parent: Option<&Write>, term: Option<u64>) -> Write {
        let mut write = build::write(n, &Vec::from_iter(parent));
        write.fence = term.map(fence_of);
        self.writes.push(write.clone());
        write
    }

    fn submit(&mut self, n: u64, write: &Write) {
        let now = self.now();
        if now.standing(write, write.id(), None) != Standing::Open {
            return;
        }
        let stamp = Stamp {
            format: 1,
            cluster: build::CLUSTER,
            object: write.object(),
            write: write.id(),
            config_epoch: 1,
            policy_revision: 1,
            actor: build::actor(0),
            previous: n - 1,
            counter: n,
            past: Past::new(),
        };
        let mut stamps = Stamps::default();
        stamps.insert(Arc::new(SignedStamp::new(stamp, build::no_proof())));
        let signed = Arc::new(SignedWrite::new(write.clone(), build::no_proof(), None));
        self.states.push(now.apply(Version { signed, stamps }));
        self.events.push(Event::Applied(write.id()));
    }

    fn write(&self, id: WriteId) -> &Write {
        self.writes.iter().find(|write| write.id() == id).unwrap()
    }

    /// What the events break, told without looking at any state.
    fn broken(&self) -> Option<String> {
        let (mut applied, mut forbidden) = (Vec::new(), BTreeSet::new());
        let mut highest: Option<Term> = None;
        for event in &self.events {
            match event {
                Event::Forbidden(id) => {
                    forbidden.insert(*id);
                }
                Event::Sealed(term) => {
                    if highest > Some(*term) {
                        return Some("a seal of a lower term".to_owned());
                    }
                    highest = Some(*term);
                }
                Event::Applied(id) => {
                    let write = self.write(*id);
                    let term = write.fence.as_ref().map(|fence| fence.term);
                    if applied.contains(id) {
                        return Some("applied twice".to_owned());
                    }
                    if forbidden.contains(id) {
                        return Some("applied after it was forbidden".to_owned());
                    }
                    if term < highest {
                        return Some("applied under a lower term, or none".to_owned());
                    }
                    if write.parents != Vec::from_iter(applied.last().copied()) {
                        return Some("applied over a version that it did not name".to_owned());
                    }
                    highest = term;
                    applied.push(*id);
                }
            }
        }
        None
    }
}

fn is_final(standing: &Standing) -> bool {
    matches!(standing, Standing::Applied | Standing::Refused | Standing::Fenced(_) | Standing::Expired)
}

/// Whether somebody was told once that the write was, or was not, applied, and then otherwise.
fn contradicted(run: &Run, write: &Write) -> bool {
    let was = run.events.contains(&Event::Applied(write.id()));
    run.states
        .iter()
        .scan(false, |decided, state| {
            let now = state.standing(write, write.id(), None);
            let wrong = match now {
                Standing::Applied => !was,
                Standing::Refused | Standing::Fenced(_) => was,
                Standing::Expired => false,
                Standing::Open | Standing::Ahead => *decided,
            };
            *decided |= is_final(&now);
            Some(wrong)
        })
        .any(|wrong| wrong)
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

    /// P3, P7: what is applied names what was applied before it, is under the highest term, was not
    /// forbidden, and is applied once; and every state has a valid form.
    #[test]
    fn p3_p7_applied_writes_are_one_chain_of_rising_terms(asked in asked()) {
        let run = Run::of(&asked);
        for state in &run.states {
            prop_assert_eq!(state.check(), Ok(()));
        }
        prop_assert_eq!(run.broken(), None);
    }

    /// P5: what was once said of a write for good is true, and is never contradicted.
    #[test]
    fn p5_what_was_final_of_a_write_stays_final(asked in asked()) {
        let run = Run::of(&asked);
        for write in &run.writes {
            prop_assert!(!contradicted(&run, write), "{write:?}");
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
