//! Registers against scripted nodes: final verdicts, fences, and what is not believed.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::fake::*;
use super::*;
use crate::core::chain::ConfigChange;
use crate::core::cluster::Configuration;
use crate::core::events::{Past, Range};
use crate::core::register::Bound;
use crate::core::signature::sign_one;
use crate::core::stamp::SignedStamp;
use crate::core::tenure::verifies_fence;
use crate::core::version::{self, Stamps};
use crate::core::write::Term;
use crate::wire::client::{Failure, Submitted};
use crate::wire::register::{Sealed, Verdict};
use crate::wire::registry::Request;
use crate::wire::values::Values;

/// For what is answered at once.
const PATIENT: Duration = Duration::from_secs(5);
/// For what is to end in doubt.
const SHORT: Duration = Duration::from_millis(300);

/// The version of a register that the first member stamped.
fn held(config: &Configuration, nonce: u8, parents: &[&version::Version], value: &[u8]) -> version::Version {
    let signed = write_in(config, "jobs", nonce, parents, Some(value));
    version(config, u64::from(nonce), signed)
}

fn bound(term: u64) -> Bound {
    Bound { resource: "billing".try_into().unwrap(), term: Term { recovery: 0, number: term } }
}

/// Whether each write that was submitted came with the proof of its tenure.
fn proofs(cluster: &Cluster) -> Vec<bool> {
    cluster.submitted().iter().map(|(_, submit)| submit.tenure.is_some()).collect()
}

#[tokio::test]
async fn p5_a_lost_answer_settles_to_the_verdict() {
    soon(async {
        let config = same_config();
        let other = held(&config, 1, &[], b"other");
        for wins in [true, false] {
            let reachable = Arc::new(AtomicBool::new(false));
            let (seen, config, other) = (reachable.clone(), config.clone(), other.clone());
            let cluster = Cluster::start(move |_, request| match request {
                Request::Submit(_) if !seen.load(Ordering::SeqCst) => Answer::Break,
                Request::Submit(submit) if wins => applied(&config, submit).into(),
                Request::Submit(_) => current(&[&other]).into(),
                _ => nothing().into(),
            });
            let jobs = cluster.jobs(SHORT).await;
            let error = jobs.create(KEY, "mine").await.unwrap_err();
            let WriteError::Unknown(unknown) = &error else { panic!("{error:?}") };
            reachable.store(true, Ordering::SeqCst);
            let settled = unknown.settle().await.unwrap();
            match wins {
                true => assert_eq!(settled.applied().unwrap().id(), unknown.receipt().id()),
                // Not unknown, as it were of siblings.
                false => assert!(matches!(
                    settled,
                    Written::Refused { reason: RefusedReason::Exists, current: Some(_) }
                )),
            }
            let submitted = cluster.submitted();
            assert!(submitted.iter().all(|(_, submit)| submit.signed == *unknown.receipt().signed()));
            assert!(submitted.iter().all(|(_, submit)| submit.presented.is_empty()));
        }
    })
    .await;
}

#[tokio::test]
async fn p5_settle_forbids_what_cannot_be_applied_as_things_are() {
    soon(async {
        for expired in [true, false] {
            let epoch_passed = Arc::new(AtomicBool::new(false));
            let seen = epoch_passed.clone();
            let cluster = Cluster::start(move |_, request| match request {
                Request::Submit(_) if !seen.load(Ordering::SeqCst) => Answer::Break,
                Request::Submit(_) if expired => Failure::Expired { epoch: 1, now: 3 }.into(),
                Request::Submit(_) => Failure::UnknownParents(Vec::new()).into(),
                Request::AskVerdict(ask) if ask.forbid => Verdict::Refused { current: None }.into(),
                Request::AskVerdict(_) => Verdict::Open.into(),
                _ => nothing().into(),
            });
            let jobs = cluster.jobs(SHORT).await;
            let error = jobs.create(KEY, "mine").await.unwrap_err();
            let receipt = error.receipt().unwrap().clone();
            for _ in 0..2 {
                extend(&mut cluster.config.lock().unwrap(), ConfigChange::AdvanceEpoch);
            }
            epoch_passed.store(true, Ordering::SeqCst);
            // From a file, in another process.
            let receipt = Receipt::from_bytes(&receipt.to_bytes()).unwrap();
            let patient = cluster.client(PATIENT).await;
            assert_eq!(patient.outcome(&receipt).await.unwrap(), Outcome::Open, "asking decides nothing");
            let settled = patient.settle(&receipt).await.unwrap();
            assert!(
                matches!(settled, Written::Refused { reason: RefusedReason::Changed, .. }),
                "{settled:?}"
            );
            let asked = cluster.asked.lock().unwrap();
            let forbidden: Vec<_> = asked
                .iter()
                .filter_map(|(_, request)| match request {
                    Request::AskVerdict(ask) if ask.forbid => Some(ask.signed.id()),
                    _ => None,
                })
                .collect();
            assert_eq!(forbidden, [receipt.id()]);
        }
    })
    .await;
}

#[tokio::test]
async fn settle_does_not_forbid_for_want_of_nodes() {
    soon(async {
        let cluster = Cluster::start(|_, request| match request {
            Request::Submit(_) => Failure::Overloaded.into(),
            Request::AskVerdict(_) => panic!("nobody asked for that"),
            _ => nothing().into(),
        });
        let jobs = cluster.jobs(SHORT).await;
        let receipt = jobs.create(KEY, "mine").prepare().await.unwrap().doubted();
        let unsettled = jobs.client().settle(&receipt).await;
        assert!(matches!(unsettled, Err(WriteError::Unknown(_))), "{unsettled:?}");
    })
    .await;
}

#[tokio::test]
async fn settle_finds_the_form_of_an_operation_that_was_applied() {
    soon(async {
        // The earlier form is applied while the doubt is being ended: asked first it was not.
        let cluster = Cluster::start(|_, request| match request {
            Request::AskVerdict(ask) if ask.forbid => {
                Verdict::Applied { stamps: Vec::new(), superseded_by: None }.into()
            }
            Request::AskVerdict(_) => Verdict::Open.into(),
            Request::Submit(_) => panic!("the other form would be a second effect"),
            _ => nothing().into(),
        });
        extend(&mut cluster.config.lock().unwrap(), ConfigChange::AdvanceEpoch);
        let jobs = cluster.jobs(PATIENT).await;
        let receipt = jobs.create(KEY, "v").operation("order-1").prepare().await.unwrap();
        let settled = jobs.client().settle(&receipt).await.unwrap();
        assert_ne!(settled.applied().unwrap().id(), receipt.id(), "it is the form for the epoch before");
    })
    .await;
}

#[tokio::test]
async fn outcomes_of_registers_are_told_apart() {
    soon(async {
        let config = same_config();
        let other = held(&config, 1, &[], b"other");
        let by = other.id();
        let answers = [
            Verdict::Applied { stamps: Vec::new(), superseded_by: Some(by) },
            Verdict::Refused { current: Some(other) },
            Verdict::Fenced(bound(2)),
            Verdict::Open,
            Verdict::Forgotten,
        ];
        let step = AtomicUsize::new(0);
        let cluster = Cluster::start(move |_, request| match request {
            Request::AskVerdict(ask) => {
                assert!(!ask.forbid);
                answers[step.fetch_add(1, Ordering::SeqCst)].clone().into()
            }
            _ => nothing().into(),
        });
        let jobs = cluster.jobs(PATIENT).await;
        let receipt = jobs.create(KEY, "v").prepare().await.unwrap();
        let mut said = Vec::new();
        for _ in 0..5 {
            said.push(jobs.client().outcome(&receipt).await.unwrap());
        }
        assert!(matches!(&said[0], Outcome::Applied { superseded_by, .. } if *superseded_by == Some(by)));
        assert!(matches!(&said[1], Outcome::Refused { reason: RefusedReason::Exists, current: Some(_) }));
        assert_eq!(said[2], Outcome::Refused { reason: RefusedReason::Fenced(bound(2)), current: None });
        assert_eq!(said[3..], [Outcome::Open, Outcome::Forgotten]);
    })
    .await;
}

#[tokio::test]
async fn what_nobody_remembers_is_typed() {
    soon(async {
        let config = same_config();
        let newest = held(&config, 1, &[], b"much later");
        let id = newest.id();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(_) => Submitted::Forgotten.into(),
            _ => versions(&[(&newest, b"much later")]).into(),
        });
        let jobs = cluster.jobs(PATIENT).await;
        // A write that was made just now, and is in nobody's doubt, was not applied.
        let Written::Refused { reason, current } = jobs.create(KEY, "v").await.unwrap() else { panic!() };
        assert_eq!((reason, current.unwrap()[0].id()), (RefusedReason::Changed, id));
        // Of one that was sent before nobody can tell.
        let receipt = jobs.create(KEY, "v").prepare().await.unwrap().doubted();
        let error = jobs.client().settle(&receipt).await.unwrap_err();
        assert!(matches!(error, WriteError::Forgotten) && !error.nothing_changed(), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn case_12_an_update_of_a_register_is_not_run_again_before_the_verdict() {
    soon(async {
        let config = same_config();
        let (zero, ten) = (held(&config, 1, &[], b"0"), held(&config, 2, &[], b"10"));
        for wins in [true, false] {
            let newest = Arc::new(Mutex::new((zero.clone(), b"0" as &'static [u8])));
            let first: Arc<Mutex<Option<Instant>>> = Arc::default();
            let (config, zero, ten) = (config.clone(), zero.clone(), ten.clone());
            let cluster = Cluster::start(move |_, request| {
                let mut newest = newest.lock().unwrap();
                let Request::Submit(submit) = request else {
                    return versions(&[(&newest.0, newest.1)]).into();
                };
                // Longer than the client waits for one submission nobody answers.
                let since = *first.lock().unwrap().get_or_insert_with(Instant::now);
                if since.elapsed() < SHORT + SHORT / 2 {
                    return Answer::Break;
                }
                if !wins && submit.signed.write().names(zero.id()) {
                    *newest = (ten.clone(), b"10");
                    return current(&[&ten]).into();
                }
                applied(&config, submit).into()
            });
            let jobs = cluster.jobs(SHORT).await;
            let mut seen = Vec::new();
            let updated = jobs.update(KEY, |current| {
                seen.push(current.clone().unwrap());
                Change::put([&current.unwrap()[..], b"+"].concat())
            });
            assert!(matches!(updated.await.unwrap(), Updated::Applied { .. }));
            let expected: &[&[u8]] = if wins { &[b"0"] } else { &[b"0", b"10"] };
            assert_eq!(seen, expected);
            let mut ids: Vec<_> = cluster.submitted().iter().map(|(_, submit)| submit.signed.id()).collect();
            assert!(ids.len() > 2, "it was sent again: {ids:?}");
            ids.dedup();
            assert_eq!(ids.len(), seen.len(), "one write for each run of the function");
        }
    })
    .await;
}

#[tokio::test]
async fn the_proof_of_a_tenure_is_sent_once_and_when_a_node_asks_for_it() {
    soon(async {
        let config = same_config();
        let forgets = Arc::new(AtomicBool::new(false));
        let seen = forgets.clone();
        let signer = config.clone();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) if submit.tenure.is_none() && seen.load(Ordering::SeqCst) => {
                Failure::NeedsTenure.into()
            }
            Request::Submit(submit) => applied(&signer, submit).into(),
            Request::Seal(seal) if seal.tenure.is_none() && seen.load(Ordering::SeqCst) => {
                Failure::NeedsTenure.into()
            }
            Request::Seal(_) => Sealed { result: Ok(()), version: None, value: Values::none() }.into(),
            _ => nothing().into(),
        });
        let jobs = cluster.jobs(PATIENT).await;
        let key = fence(&config, 1);
        for _ in 0..2 {
            jobs.create(KEY, "v").fenced_by(&key).await.unwrap();
        }
        assert_eq!(proofs(&cluster), [true, false]);
        assert!(jobs.get(KEY).fenced_by(&key).await.unwrap().siblings().is_empty());
        forgets.store(true, Ordering::SeqCst);
        let owned = jobs.fenced_by(&key);
        let written = owned.create(KEY, "v").await.unwrap();
        assert!(written.applied().is_some());
        assert_eq!(proofs(&cluster), [true, false, false, true]);
        assert!(owned.get(KEY).await.unwrap().is_absent());

        let submitted = cluster.submitted();
        for (_, submit) in &submitted {
            let (id, signature) = (submit.signed.id(), submit.signed.fence().unwrap());
            assert!(verifies_fence(&key.public(), config.cluster(), id, signature));
            assert_eq!(submit.signed.write().fence.as_ref().unwrap().tenure, key.proof().signed.id());
        }
        let asked = cluster.asked.lock().unwrap();
        let seals: Vec<_> = asked
            .iter()
            .filter_map(|(_, request)| match request {
                Request::Seal(seal) => Some(seal),
                _ => None,
            })
            .collect();
        assert_eq!(seals.iter().map(|seal| seal.tenure.is_some()).collect::<Vec<_>>(), [false, false, true]);
        assert!(seals.iter().all(|seal| seal.seal.verifies(&key.public(), &seal.signature)));
    })
    .await;
}

#[tokio::test]
async fn the_node_that_knew_the_tenure_may_be_the_one_that_is_lost() {
    soon(async {
        let config = same_config();
        let signer = config.clone();
        let submits = AtomicUsize::new(0);
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => match (submits.fetch_add(1, Ordering::SeqCst), &submit.tenure) {
                (1, _) => Answer::Break,
                (_, None) => Failure::NeedsTenure.into(),
                (_, Some(_)) => applied(&signer, submit).into(),
            },
            _ => nothing().into(),
        });
        let jobs = cluster.jobs(PATIENT).await.fenced_by(fence(&config, 1));
        jobs.create(KEY, "v").await.unwrap();
        let written = jobs.create(KEY, "w").await.unwrap();
        assert!(written.applied().is_some());
        assert_eq!(proofs(&cluster), [true, false, false, true]);
    })
    .await;
}

#[tokio::test]
async fn p7_a_fence_that_is_too_old_is_told_what_it_met() {
    soon(async {
        let config = same_config();
        let zero = held(&config, 1, &[], b"0");
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(_) => Submitted::Fenced(bound(2)).into(),
            Request::Seal(seal) if seal.seal.key.as_bytes() == b"open" => {
                Sealed { result: Ok(()), version: None, value: Values::none() }.into()
            }
            Request::Seal(_) => Sealed { result: Err(bound(2)), version: None, value: Values::none() }.into(),
            _ => versions(&[(&zero, b"0")]).into(),
        });
        let jobs = cluster.jobs(PATIENT).await;
        let old = jobs.fenced_by(fence(&config, 1));
        let fenced = Written::Refused { reason: RefusedReason::Fenced(bound(2)), current: None };
        assert_eq!(jobs.create(KEY, "1").await.unwrap(), fenced, "without any fence");
        assert_eq!(old.create(KEY, "1").await.unwrap(), fenced);
        assert_eq!(old.overwrite(KEY, "1").await.unwrap(), fenced, "and it is not tried again");
        assert_eq!(cluster.submitted().len(), 3);
        assert!(matches!(old.get(KEY).await, Err(ReadError::Fenced(met)) if met == bound(2)));
        // An update seals what it reads; another owner may come in between.
        let raced = old.update("open", |_| Change::put("1")).await;
        assert!(matches!(raced, Err(UpdateError::Fenced(met)) if met == bound(2)));
        let carts = cluster.carts().await;
        let sealed = carts.get(KEY).fenced_by(fence(&config, 1)).await;
        assert!(matches!(sealed, Err(ReadError::NotFenced)), "siblings are never fenced");
    })
    .await;
}

#[tokio::test]
async fn what_no_majority_agrees_on_is_not_a_register() {
    soon(async {
        let config = same_config();
        let one = held(&config, 1, &[], b"one");
        let two = held(&config, 2, &[], b"two");
        let mut twice = one.clone();
        twice.stamps.insert(stamp(&config, 2, 7, &one.signed));
        let mut stamp = stamp(&config, 1, 1, &one.signed).stamp().clone();
        stamp.past.insert(stamp.actor, Range { after: 3, upto: 4 });
        assert_ne!(stamp.past, Past::new());
        let proof = sign_one(&secret(1), stamp.cluster, stamp.hash());
        let mut descended = version::Version { signed: one.signed.clone(), stamps: Stamps::default() };
        descended.stamps.insert(Arc::new(SignedStamp::new(stamp, proof)));
        let answers = [
            versions(&[(&one, b"one"), (&two, b"two")]),
            versions(&[(&twice, b"one")]),
            versions(&[(&descended, b"one")]),
            versions(&[(&one, b"two")]),
        ];
        for answer in answers {
            let cluster = Cluster::start(move |_, _| answer.clone().into());
            let read = cluster.jobs(PATIENT).await.get(KEY).await;
            assert!(matches!(read, Err(ReadError::Forged(_))), "{read:?}");
        }
        let sealed = [
            Sealed { result: Ok(()), version: Some(twice), value: value(b"one") },
            Sealed { result: Ok(()), version: Some(one.clone()), value: value(b"two") },
            Sealed { result: Ok(()), version: Some(one.clone()), value: Values::none() },
        ];
        for answer in sealed {
            let cluster = Cluster::start(move |_, _| answer.clone().into());
            let read = cluster.jobs(PATIENT).await.get(KEY).fenced_by(fence(&same_config(), 1)).await;
            assert!(matches!(read, Err(ReadError::Forged(_))), "{read:?}");
        }
        let genuine = Sealed { result: Ok(()), version: Some(one.clone()), value: value(b"one") };
        let cluster = Cluster::start(move |_, _| genuine.clone().into());
        let read = cluster.jobs(PATIENT).await.get(KEY).fenced_by(fence(&same_config(), 1)).await.unwrap();
        assert_eq!(
            (read.value().unwrap().unwrap(), read.versions().ids()),
            (&Bytes::from("one"), vec![one.id()])
        );
    })
    .await;
}

fn value(bytes: &'static [u8]) -> Values {
    [Bytes::from_static(bytes)].into_iter().collect()
}

#[tokio::test]
async fn a_fenced_write_can_be_saved_and_settled_by_another_process() {
    soon(async {
        let config = same_config();
        let signer = config.clone();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => applied(&signer, submit).into(),
            _ => nothing().into(),
        });
        let jobs = cluster.jobs(PATIENT).await;
        let pending = jobs.create(KEY, "v").fenced_by(fence(&config, 1)).or_sibling();
        let receipt = pending.prepare().await.unwrap();
        let read = Receipt::from_bytes(&receipt.to_bytes()).unwrap();
        assert_eq!(read, receipt);
        let other = cluster.client(PATIENT).await;
        assert!(other.settle(&read.doubted()).await.unwrap().applied().is_some());
        let (_, submit) = &cluster.submitted()[0];
        assert_eq!(submit.tenure.as_ref(), Some(fence(&config, 1).proof()), "it needs no secret for that");
        assert_eq!(submit.on_conflict, OnConflict::Refuse, "nothing is kept beside a register");
    })
    .await;
}

#[test]
fn a_fence_is_a_secret_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fence");
    std::fs::write(&path, "readable by all").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let key = fence(&same_config(), 3);
    key.save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let read = FenceKey::load(&path).unwrap();
    assert_eq!((read.resource(), read.term(), read.public()), (key.resource(), key.term(), key.public()));
    assert_eq!(read.proof(), key.proof());
    let seed = format!("{:?}", key.secret().seed());
    assert!(!format!("{key:?}").contains(&seed) && format!("{key:?}").contains("billing"));

    let text = key.to_text();
    assert!(text.starts_with("tanist-fence-1\n") && text.lines().all(|line| line.len() <= 76), "{text}");
    let short: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert!(matches!(FenceKey::from_text(&short), Err(FenceError::Damaged)));
    let other = FenceKey::from_text("tanist-ticket-1\nAAAA\n").unwrap_err();
    assert!(other.to_string().contains("elect"), "it says what makes one: {other}");
    assert!(matches!(FenceKey::load(dir.path().join("none")), Err(FenceError::Read(_))));
    let proof = key.proof().clone();
    assert!(FenceKey::new(proof, secret(1)).is_none(), "the key of another tenure");
}
