//! The SDK against scripted nodes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::fake::{
    ADMIN, Answer, Cluster, KEY, applied, decide, extend, nothing, same_config, secret, stamp, version,
    versions, write,
};
use super::*;
use crate::core::chain::ConfigChange;
use crate::core::cluster::Configuration;
use crate::core::version::{SignedWrite, Version as Held};
use crate::wire::client::{self as wire, Failure, Submitted};
use crate::wire::registry::Request;

/// Far longer than anything here takes.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it should not hang")
}

fn current(live: &[&Held]) -> Submitted {
    Submitted::Refused { current: Some(live.iter().map(|version| (*version).clone()).collect()) }
}

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

/// What a client makes of a read that every node answers with `answer`.
async fn reading(answer: wire::Versions) -> Result<Reading, ReadError> {
    let cluster = Cluster::start(move |_, _| answer.clone().into());
    let carts = cluster.carts().await;
    carts.get(KEY).await
}

#[tokio::test]
async fn attack_s_forged_answers_are_refused() {
    soon(async {
        let config = same_config();
        let genuine = version(&config, 1, write(&config, 1, &[], Some(b"one")));
        let ok = reading(versions(&[(&genuine, b"one")])).await.unwrap();
        assert_eq!(ok.value().unwrap().unwrap(), "one");
        assert_eq!(ok.versions().to_string(), format!("1-{}", genuine.id()));

        let refused = |answer| async { assert!(matches!(reading(answer).await, Err(ReadError::Forged(_)))) };
        refused(versions(&[(&genuine, b"two")])).await;

        // Somebody else's signature under the author's name.
        let mut other = genuine.signed.write().clone();
        other.nonce = [9; 16];
        let forged = SignedWrite::new(other.clone(), genuine.signed.proof().clone(), None);
        refused(versions(&[(&version(&config, 1, forged), b"one")])).await;

        // An author without a right.
        other.author = secret(50).public();
        let proof = crate::core::signature::sign_one(&secret(50), other.cluster, other.id().into());
        let stranger = SignedWrite::new(other.clone(), proof, None);
        refused(versions(&[(&version(&config, 1, stranger), b"one")])).await;

        // A version of another key.
        other.author = genuine.signed.write().author;
        other.key = "another".try_into().unwrap();
        let proof = crate::core::signature::sign_one(&secret(100), other.cluster, other.id().into());
        let misplaced = SignedWrite::new(other, proof, None);
        refused(versions(&[(&version(&config, 1, misplaced), b"one")])).await;

        // A stamp with another node's signature, a stamp of another write, and none.
        let stamped = |stamps: Vec<Arc<crate::core::stamp::SignedStamp>>| Held {
            signed: genuine.signed.clone(),
            stamps: stamps.try_into().unwrap(),
        };
        let real = stamp(&config, 1, 1, &genuine.signed);
        let proof = crate::core::signature::sign_one(&secret(2), config.cluster(), real.hash());
        let forged = Arc::new(crate::core::stamp::SignedStamp::new(real.stamp().clone(), proof));
        refused(versions(&[(&stamped(vec![forged]), b"one")])).await;
        let foreign = stamp(&config, 1, 1, &write(&config, 2, &[], Some(b"two")));
        refused(versions(&[(&stamped(vec![foreign]), b"one")])).await;
        refused(versions(&[(&stamped(Vec::new()), b"one")])).await;
    })
    .await;
}

#[tokio::test]
async fn one_liar_does_not_keep_the_others_answer_away() {
    soon(async {
        let config = same_config();
        let genuine = version(&config, 1, write(&config, 1, &[], Some(b"one")));
        let cluster = Cluster::start(move |node, _| {
            let value: &[u8] = if node == 0 { b"lie" } else { b"one" };
            versions(&[(&genuine, value)]).into()
        });
        let reading = cluster.carts().await.get(KEY).await.unwrap();
        assert_eq!(reading.value().unwrap().unwrap(), "one");
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

fn set(elements: &[&str]) -> &'static [u8] {
    Box::leak(resolvers::encode_set(elements).to_vec().into_boxed_slice())
}

/// A base and two siblings on it, with the answers to plain and full reads.
fn siblings(config: &Configuration, values: [&'static [u8]; 3]) -> ([Held; 3], wire::Versions) {
    let base = version(config, 1, write(config, 1, &[], Some(values[0])));
    let left = version(config, 2, write(config, 2, &[&base], Some(values[1])));
    let right = version(config, 3, write(config, 3, &[&base], Some(values[2])));
    let mut all = versions(&[(&base, values[0]), (&left, values[1]), (&right, values[2])]);
    for listed in &mut all.versions {
        listed.live = listed.version.id() != base.id();
    }
    ([base, left, right], all)
}

#[tokio::test]
async fn siblings_are_merged_in_memory_and_a_write_names_all_of_them() {
    soon(async {
        let config = same_config();
        let values = [set(&["apple", "pear"]), set(&["apple", "fig"]), set(&["apple", "pear", "plum"])];
        let ([_, left, right], all) = siblings(&config, values);
        let (one, two) = (left.clone(), right.clone());
        let cluster = Cluster::start(move |_, request| match request {
            Request::Read(read) if read.history => all.clone().into(),
            Request::Read(_) => versions(&[(&one, values[1]), (&two, values[2])]).into(),
            Request::Submit(submit) => applied(&config, submit).into(),
            _ => Failure::NotBuilt("in this script".into()).into(),
        });
        let carts = cluster.carts().await;
        let plain = carts.get(KEY).await.unwrap();
        assert_eq!(plain.value(), Err(Unresolved { count: 2 }));
        assert!(matches!(
            carts.update(KEY, |_| panic!("there is nothing to work on")).await,
            Err(UpdateError::Siblings(2))
        ));

        let carts = carts.resolve_with(resolvers::add_remove_set);
        let merged = carts.get(KEY).await.unwrap();
        let value = merged.value().unwrap().unwrap();
        let expected = ["apple", "fig", "plum"].map(|text| text.as_bytes().to_vec());
        assert_eq!(resolvers::decode_set(value).unwrap(), expected.into_iter().collect());
        assert!(cluster.submitted().is_empty(), "a read writes nothing");
        let mut parents = vec![left.id(), right.id()];
        parents.sort();
        let written = carts.replace(&merged, value.clone()).await.unwrap();
        assert_eq!(written.applied().unwrap().generation(), 3);
        assert_eq!(cluster.submitted()[0].1.signed.write().parents, parents);
        assert_eq!(cluster.submitted()[0].1.presented.len(), 2);
        assert!(carts.resolve(KEY).await.unwrap().is_some());
        assert_eq!(cluster.submitted()[1].1.signed.write().parents, parents);

        let longest = carts.resolve_with(resolvers::longest_chain).get(KEY).await.unwrap();
        assert!(longest.is_merged());
    })
    .await;
}

#[tokio::test]
async fn values_that_did_not_fit_are_fetched_and_checked() {
    soon(async {
        let config = same_config();
        let one = version(&config, 1, write(&config, 1, &[], Some(b"one")));
        let mut answer = versions(&[(&one, b"one")]);
        answer.versions[0].inline = false;
        answer.values = Default::default();
        let cluster = Cluster::start(move |node, request| match request {
            Request::ReadValue(_) => {
                let value = match node {
                    0 => vec![],
                    1 => vec![Bytes::from_static(b"lie")],
                    _ => vec![Bytes::from_static(b"one")],
                };
                wire::Value { value: value.into_iter().collect() }.into()
            }
            _ => answer.clone().into(),
        });
        let reading = cluster.carts().await.get(KEY).await.unwrap();
        assert_eq!(reading.value().unwrap().unwrap(), "one");
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
async fn the_wrong_mode_says_which() {
    soon(async {
        let cluster = Cluster::start(|_, _| nothing().into());
        let client = cluster.client(Duration::from_secs(5)).await;
        let error = client.siblings("jobs").await.unwrap_err();
        assert_eq!(error.to_string(), "\"jobs\" is linearizable: open it with `client.linearizable(..)`");
        assert_eq!(client.siblings("none").await.unwrap_err(), OpenError::Unknown("none".into()));
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
async fn listings_are_merged_and_disagreements_read() {
    soon(async {
        let config = same_config();
        let one = version(&config, 1, write(&config, 1, &[], Some(b"one")));
        let two = version(&config, 2, write(&config, 2, &[&one], Some(b"four")));
        let (old, new) = (one.id(), two.id());
        let cluster = Cluster::start(move |node, request| match request {
            // One member still lists the superseded version, and a deleted key that nobody else has.
            Request::List(_) => {
                let listed = |key: &str, live| wire::ListedKey { key: key.try_into().unwrap(), live };
                let mut keys = vec![listed("a", vec![(1, old, Some(3))])];
                match node {
                    0 => keys.push(listed(KEY, vec![(1, old, Some(3))])),
                    _ => keys.push(listed(KEY, vec![(2, new, Some(4))])),
                }
                wire::Page { keys, next: None }.into()
            }
            _ => versions(&[(&two, b"four")]).into(),
        });
        let listing = cluster.carts().await.list("").await.unwrap();
        let found: Vec<_> =
            listing.keys.iter().map(|listed| (listed.key.to_string(), listed.live[0].0.id())).collect();
        assert_eq!(found, [("a".to_owned(), old), (KEY.to_owned(), new)]);
        assert_eq!(listing.next, None);
        let reads =
            cluster.asked.lock().unwrap().iter().filter(|(_, r)| matches!(r, Request::Read(_))).count();
        assert_eq!(reads, 1, "only where they disagree");
    })
    .await;
}

#[tokio::test]
async fn an_administrator_creates_and_grants() {
    soon(async {
        let mut cluster = Cluster::start(|_, _| Failure::NotBuilt("replaced below".into()).into());
        let chain: Arc<Mutex<Option<Arc<Mutex<Configuration>>>>> = Arc::default();
        let (decided, rival) = (chain.clone(), AtomicUsize::new(0));
        cluster = {
            drop(cluster);
            Cluster::start(move |_, request| {
                let Request::Propose(propose) = request else { return nothing().into() };
                let config = decided.lock().unwrap().clone().unwrap();
                let mut config = config.lock().unwrap();
                // Another administrator is faster the first time.
                if rival.fetch_add(1, Ordering::SeqCst) == 0 {
                    let grant = Grant {
                        author: None,
                        namespace: None,
                        prefix: b"public".to_vec(),
                        rights: Rights::READ,
                    };
                    extend(&mut config, ConfigChange::AddGrant(grant));
                    return wire::Proposed::Refused { why: "taken".into() }.into();
                }
                let next = decide(&config, propose.signed.clone());
                config.extend(next).unwrap();
                wire::Proposed::Chosen.into()
            })
        };
        *chain.lock().unwrap() = Some(cluster.config.clone());
        let client = cluster.client(Duration::from_secs(5)).await;
        let admin = client.admin(secret(ADMIN));
        let id = admin.create_namespace("mail", Mode::Siblings, None).await.unwrap();
        assert_eq!(client.siblings("mail").await.unwrap().id(), id);
        let again = admin.create_namespace("mail", Mode::Siblings, None).await;
        assert!(matches!(again, Err(AdminError::Refused(_))), "{again:?}");
        let jobs = admin.create_namespace("more", Mode::Linearizable, None).await;
        assert!(matches!(jobs, Err(AdminError::NotBuilt(_))));
        let grant = Grant { author: None, namespace: Some(id), prefix: Vec::new(), rights: Rights::ALL };
        admin.add_grant(grant.clone()).await.unwrap();
        admin.remove_grant(grant).await.unwrap();
        admin.drop_namespace("mail").await.unwrap();
        assert!(matches!(client.siblings("mail").await, Err(OpenError::Unknown(_))));
        let stranger = client.admin(secret(50)).create_namespace("x", Mode::Siblings, None).await;
        assert!(matches!(stranger, Err(AdminError::Refused(_))));
    })
    .await;
}

#[tokio::test]
async fn a_ticket_in_text() {
    let cluster = Cluster::start(|_, _| nothing().into());
    let text = cluster.ticket.to_string();
    assert!(text.starts_with("tanist-ticket-1\n"));
    assert_eq!(text.parse::<Ticket>().unwrap(), cluster.ticket);
    assert_eq!("hello".parse::<Ticket>(), Err(TicketError::NotATicket));
    assert_eq!("tanist-ticket-2\nxx".parse::<Ticket>(), Err(TicketError::Format("tanist-ticket-2".into())));
    assert_eq!("tanist-ticket-1\n*".parse::<Ticket>(), Err(TicketError::Base64));
    assert!(matches!("tanist-ticket-1\nAAAA".parse::<Ticket>(), Err(TicketError::Malformed(_))));
}
