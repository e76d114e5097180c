//! Writes, updates and their outcomes against scripted nodes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::fake::{
    Answer, Cluster, KEY, applied, current, extend, nothing, same_config, soon, version, versions, write,
};
use super::*;
use crate::core::chain::ConfigChange;
use crate::core::version::SignedWrite;
use crate::wire::client::{self as wire, Failure};
use crate::wire::registry::Request;

#[tokio::test]
async fn the_same_bytes_go_to_the_next_replica_after_150_ms() {
    soon(async {
        let config = same_config();
        let cluster = Cluster::start(move |node, request| match request {
            Request::Submit(_) if node == 0 => Answer::Never,
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        cluster.warm(carts.client()).await;
        let started = Instant::now();
        let written = carts.create(KEY, "v").await.unwrap();
        assert!(matches!(written, Written::Applied { .. }));
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(150) && took < Duration::from_secs(2), "{took:?}");
        let submitted = cluster.submitted();
        let nodes: Vec<usize> = submitted.iter().map(|(node, _)| *node).collect();
        assert_eq!(nodes, [0, 1]);
        assert_eq!(submitted[0].1, submitted[1].1);
        // For a while it is not asked first any more.
        carts.create(KEY, "v").await.unwrap();
        assert_eq!(cluster.submitted()[2].0, 1);
    })
    .await;
}

#[tokio::test]
async fn fails_over_at_once_to_a_replica_that_can() {
    soon(async {
        let config = same_config();
        let cluster = Cluster::start(move |node, request| match request {
            Request::Submit(_) if node == 0 => Failure::Overloaded.into(),
            Request::Submit(_) if node == 1 => Answer::Break,
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        let written = carts.create(KEY, "v").await.unwrap();
        let submitted = cluster.submitted();
        assert_eq!(submitted.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1, 2]);
        let version = written.applied().unwrap();
        assert_eq!(version.id(), submitted[0].1.signed.id());
        assert_eq!(version.causality().stamps().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn attack_06b_unknown_carries_a_receipt_that_settles() {
    soon(async {
        let config = same_config();
        let other = version(&config, 1, write(&config, 1, &[], Some(b"other")));
        let cluster = Cluster::start(move |node, request| match request {
            Request::Submit(submit) if submit.on_conflict == OnConflict::KeepBoth => {
                applied(&config, submit).into()
            }
            Request::Submit(_) if node == 0 => Answer::Break,
            Request::Submit(_) => current(&[&other]).into(),
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        let error = carts.create(KEY, "mine").await.unwrap_err();
        let WriteError::Unknown(unknown) = &error else { panic!("{error:?}") };
        assert!(!error.nothing_changed());
        // From a file, in another process.
        let receipt = Receipt::from_bytes(&unknown.receipt().to_bytes()).unwrap();
        assert_eq!(&receipt, unknown.receipt());
        let again = carts.client().submit(&receipt).await;
        assert!(matches!(again, Err(WriteError::Unknown(_))), "a refusal now is no refusal then: {again:?}");
        let settled = unknown.settle().await.unwrap();
        assert_eq!(settled.applied().unwrap().id(), receipt.id());
        let ids: Vec<_> = cluster.submitted().iter().map(|(_, submit)| submit.signed.id()).collect();
        assert!(ids.iter().all(|id| *id == receipt.id()));
    })
    .await;
}

#[tokio::test]
async fn case_12_an_update_is_not_run_again_while_its_write_is_unknown() {
    soon(async {
        let config = same_config();
        let zero = version(&config, 1, write(&config, 1, &[], Some(b"0")));
        let submits = Arc::new(AtomicUsize::new(0));
        let counted = submits.clone();
        // The first attempt is lost, a refusal follows, then the first turns out to be applied.
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => match counted.fetch_add(1, Ordering::SeqCst) {
                0 => Answer::Break,
                1 => current(&[&zero]).into(),
                _ => applied(&config, submit).into(),
            },
            _ => versions(&[(&zero, b"0")]).into(),
        });
        let carts = cluster.carts().await;
        let runs = AtomicUsize::new(0);
        let updated = carts.update(KEY, |current| {
            runs.fetch_add(1, Ordering::SeqCst);
            assert_eq!(current, Some(Bytes::from_static(b"0")));
            Change::put("1")
        });
        assert!(matches!(updated.await.unwrap(), Updated::Applied { .. }));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let submitted = cluster.submitted();
        assert!(submitted.len() >= 3);
        assert!(submitted.iter().all(|(_, submit)| submit.signed == submitted[0].1.signed));
    })
    .await;
}

#[tokio::test]
async fn an_update_is_run_again_after_a_refusal() {
    soon(async {
        let config = same_config();
        let zero = version(&config, 1, write(&config, 1, &[], Some(b"0")));
        let one = version(&config, 2, write(&config, 2, &[&zero], Some(b"1")));
        let newest = Arc::new(Mutex::new((zero, b"0" as &'static [u8])));
        let cluster = Cluster::start(move |_, request| {
            let mut newest = newest.lock().unwrap();
            match request {
                Request::Submit(submit) if submit.signed.write().names(one.id()) => {
                    applied(&config, submit).into()
                }
                Request::Submit(_) => {
                    *newest = (one.clone(), b"1");
                    current(&[&one]).into()
                }
                _ => versions(&[(&newest.0, newest.1)]).into(),
            }
        });
        let carts = cluster.carts().await;
        let mut seen = Vec::new();
        let updated = carts.update(KEY, |current| {
            seen.push(current.clone().unwrap());
            Change::put([&current.unwrap()[..], b"+"].concat())
        });
        let Updated::Applied { version, .. } = updated.await.unwrap() else { panic!() };
        assert_eq!(version.generation(), 3);
        assert_eq!(seen, ["0", "1"]);
    })
    .await;
}

#[tokio::test]
async fn case_16_create_over_a_deletion_names_it() {
    soon(async {
        let config = same_config();
        let one = version(&config, 1, write(&config, 1, &[], Some(b"1")));
        let gone = version(&config, 2, write(&config, 2, &[&one], None));
        let tombstone = gone.id();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) if submit.signed.write().names(tombstone) => {
                applied(&config, submit).into()
            }
            Request::Submit(_) => current(&[&gone]).into(),
            _ => versions(&[(&gone, b"")]).into(),
        });
        let carts = cluster.carts().await;
        assert_eq!(carts.get(KEY).await.unwrap().value(), Ok(None));
        let mut receipts = 0;
        let created = carts.create(KEY, "2").before_send(|_| {
            receipts += 1;
            Ok(())
        });
        let written = created.await.unwrap();
        assert_eq!(written.applied().unwrap().generation(), 3);
        assert_eq!(receipts, 2, "each write is saved before it is sent");
        let submitted = cluster.submitted();
        assert_eq!(submitted[0].1.signed.write().parents, []);
        assert_eq!(submitted[1].1.presented.len(), 1, "with the tombstone's stamps");
    })
    .await;
}

#[tokio::test]
async fn create_is_refused_where_a_value_is() {
    soon(async {
        let config = same_config();
        let one = version(&config, 1, write(&config, 1, &[], Some(b"1")));
        let id = one.id();
        let cluster = Cluster::start(move |_, _| current(&[&one]).into());
        let carts = cluster.carts().await;
        let Written::Refused { reason, current } = carts.create(KEY, "2").await.unwrap() else { panic!() };
        assert_eq!(reason, RefusedReason::Exists);
        assert_eq!(current.unwrap()[0].id(), id);
        assert_eq!(cluster.submitted().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_operation_is_the_same_write_in_every_process() {
    soon(async {
        let config = same_config();
        let store: Arc<Mutex<Vec<SignedWrite>>> = Arc::default();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => {
                store.lock().unwrap().push((*submit.signed).clone());
                applied(&config, submit).into()
            }
            Request::AskOutcome(ask) => {
                let held = store.lock().unwrap().iter().any(|signed| signed.id() == ask.write);
                match held {
                    true => wire::Outcome::Applied {
                        stamps: Vec::new(),
                        siblings: Vec::new(),
                        superseded_by: None,
                    }
                    .into(),
                    false => wire::Outcome::Unknown.into(),
                }
            }
            _ => nothing().into(),
        });
        let (first, second) = (cluster.carts().await, cluster.carts().await);
        let one = first.create(KEY, "v").operation("order-1").await.unwrap();
        let two = second.create(KEY, "v").operation("order-1").await.unwrap();
        assert_eq!(one.applied().unwrap().id(), two.applied().unwrap().id());
        assert_eq!(cluster.submitted().len(), 1);
        assert_eq!(cluster.submitted()[0].1.signed.write().wall_ms, 0);
        // The write epoch advances between two runs: the earlier write is found.
        extend(&mut cluster.config.lock().unwrap(), ConfigChange::AdvanceEpoch);
        let three = second.create(KEY, "v").operation("order-1").await.unwrap();
        assert_eq!(one.applied().unwrap().id(), three.applied().unwrap().id());
        let other = second.create(KEY, "v").operation("order-2").await.unwrap();
        assert_ne!(one.applied().unwrap().id(), other.applied().unwrap().id());
        assert_eq!(cluster.submitted().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_text_is_completed_with_stamps() {
    soon(async {
        let config = same_config();
        let one = version(&config, 1, write(&config, 1, &[], Some(b"one")));
        let text = format!("1-{}", one.id());
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => versions(&[(&one, b"one")]).into(),
        });
        let carts = cluster.carts().await;
        carts.replace(Basis::new(KEY, text.parse().unwrap()), "two").await.unwrap();
        assert_eq!(cluster.submitted()[0].1.presented.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn nothing_sent_is_unavailable_and_something_sent_unknown() {
    soon(async {
        let cluster = Cluster::start(|_, request| match request {
            Request::Submit(_) => Failure::Unavailable("alone".into()).into(),
            _ => Answer::Never,
        });
        let client = cluster.client(Duration::from_millis(400)).await;
        let carts = client.siblings("carts").await.unwrap();
        let error = carts.create(KEY, "v").await.unwrap_err();
        assert!(matches!(error, WriteError::Unavailable(_)), "{error:?}");
        assert!(matches!(carts.get(KEY).await, Err(ReadError::Unavailable(_))));
        assert!(matches!(
            carts.create(KEY, vec![0; (1 << 20) + 1]).await,
            Err(WriteError::TooLarge { len: 1_048_577 })
        ));
    })
    .await;
}

#[tokio::test]
async fn a_node_that_lags_behind_is_asked_again() {
    soon(async {
        let config = same_config();
        let answers = AtomicUsize::new(0);
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(_) if answers.fetch_add(1, Ordering::SeqCst) < 4 => {
                Failure::UnknownNamespace.into()
            }
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        assert!(carts.create(KEY, "v").await.unwrap().applied().is_some());
        assert_eq!(cluster.submitted().len(), 5);
    })
    .await;
}

#[tokio::test]
async fn outcomes_are_asked_for_by_receipt() {
    soon(async {
        let config = same_config();
        let other = write(&config, 1, &[], Some(b"x")).id();
        let step = AtomicUsize::new(0);
        let cluster = Cluster::start(move |_, request| match request {
            Request::AskOutcome(_) => match step.fetch_add(1, Ordering::SeqCst) {
                0 => wire::Outcome::Unknown.into(),
                1 => wire::Outcome::Incomplete { copies: 1, needed: 2 }.into(),
                _ => wire::Outcome::Applied {
                    stamps: Vec::new(),
                    siblings: Vec::new(),
                    superseded_by: Some(other),
                }
                .into(),
            },
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        let receipt = carts.create(KEY, "v").prepare().await.unwrap();
        assert!(cluster.submitted().is_empty(), "prepared is not sent");
        let client = carts.client();
        assert_eq!(client.outcome(&receipt).await.unwrap(), Outcome::Unknown);
        assert_eq!(client.outcome(&receipt).await.unwrap(), Outcome::Incomplete { copies: 1, needed: 2 });
        let Outcome::Applied { version, superseded_by, .. } = client.outcome(&receipt).await.unwrap() else {
            panic!()
        };
        assert_eq!((version.id(), superseded_by), (receipt.id(), Some(other)));
    })
    .await;
}

#[tokio::test]
async fn a_receipt_is_saved_before_its_write_is_sent() {
    soon(async {
        let config = same_config();
        let cluster = Cluster::start(move |_, request| match request {
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => nothing().into(),
        });
        let carts = cluster.carts().await;
        let full = carts.create(KEY, "v").before_send(|_| Err(std::io::Error::other("the disk is full")));
        assert!(matches!(full.await, Err(WriteError::Receipt(_))));
        assert!(cluster.submitted().is_empty());
        let mut saved = Vec::new();
        let written = carts.create(KEY, "v").before_send(|receipt| {
            saved = receipt.to_bytes();
            Ok(())
        });
        let written = written.await.unwrap();
        let receipt = Receipt::from_bytes(&saved).unwrap();
        assert_eq!(receipt.id(), written.applied().unwrap().id());
        saved.push(0);
        assert!(Receipt::from_bytes(&saved).is_err(), "nothing is left over");
    })
    .await;
}
