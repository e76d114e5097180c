//! Reads, listings, configuration and administration against scripted nodes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::fake::{
    ADMIN, AUTHOR, Cluster, KEY, applied, decide, extend, nothing, same_config, secret, soon, stamp, version,
    versions, write,
};
use super::*;
use crate::core::chain::{ConfigChange, Decided};
use crate::core::cluster::Configuration;
use crate::core::version::{SignedWrite, Version as Held};
use crate::wire::client::{self as wire, Failure};
use crate::wire::registry::Request;

/// What a client makes of a read that every node answers with `answer`.
async fn reading(answer: wire::Versions) -> Result<Reading, ReadError> {
    let cluster = Cluster::start(move |_, _| answer.clone().into());
    let carts = cluster.carts().await;
    carts.get(KEY).await
}

#[tokio::test]
async fn attack_03_forged_answers_are_refused() {
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
async fn the_wrong_mode_says_which() {
    soon(async {
        let cluster = Cluster::start(|_, _| nothing().into());
        let client = cluster.client(Duration::from_secs(5)).await;
        let error = client.siblings("jobs").await.unwrap_err();
        assert_eq!(error.to_string(), "\"jobs\" is linearizable: open it with `client.linearizable(..)`");
        let error = client.linearizable("carts").await.unwrap_err();
        assert_eq!(error.to_string(), "\"carts\" is siblings: open it with `client.siblings(..)`");
        assert!(client.space("jobs").await.unwrap().is_linearizable());
        assert!(!client.space("carts").await.unwrap().is_linearizable());
        assert_eq!(client.siblings("none").await.unwrap_err(), OpenError::Unknown("none".into()));
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
        let registers = admin.create_namespace("more", Mode::Linearizable, None).await.unwrap();
        assert_eq!(client.linearizable("more").await.unwrap().id(), registers);
        let quorum = admin.create_namespace("less", Mode::Linearizable, Some(2)).await;
        assert!(matches!(quorum, Err(AdminError::Refused(_))), "a majority decides: {quorum:?}");
        let billing: crate::core::object::Key = "billing".try_into().unwrap();
        admin.create_owned_namespace("ledger", billing.clone()).await.unwrap();
        assert_eq!(client.linearizable("ledger").await.unwrap().owned_by(), Some(&billing));
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

#[tokio::test]
async fn a_newer_configuration_is_fetched_before_judging() {
    soon(async {
        let mut config = same_config();
        let newest = Arc::new(Mutex::new(versions(&[])));
        let answer = newest.clone();
        let cluster = Cluster::start(move |_, _| answer.lock().unwrap().clone().into());
        let carts = cluster.carts().await;
        // A grant is added, and a version stamped under it, that the client has not heard of.
        let grant = Grant {
            author: Some(secret(60).public()),
            namespace: None,
            prefix: Vec::new(),
            rights: Rights::WRITE,
        };
        extend(&mut config, ConfigChange::AddGrant(grant));
        let mut by_another = write(&config, 1, &[], Some(b"new")).write().clone();
        by_another.author = secret(60).public();
        let proof = crate::core::signature::sign_one(&secret(60), config.cluster(), by_another.id().into());
        let stamped = version(&config, 1, SignedWrite::new(by_another, proof, None));
        *newest.lock().unwrap() = versions(&[(&stamped, b"new")]);
        let early = carts.get(KEY).await;
        assert!(matches!(early, Err(ReadError::Forged(_))), "nobody has that revision: {early:?}");
        *cluster.config.lock().unwrap() = config;
        let reading = carts.get(KEY).await.unwrap();
        assert_eq!(reading.siblings()[0].head().author(), secret(60).public());
        assert_eq!(carts.client().configuration().policy().revision(), 3);
    })
    .await;
}

#[tokio::test]
async fn attack_11_a_configuration_without_votes_is_not_believed() {
    soon(async {
        let cluster = Cluster::start(|_, _| nothing().into());
        let forged = {
            let mut config = cluster.config.lock().unwrap();
            let mut longer = config.clone();
            extend(&mut longer, ConfigChange::AdvanceEpoch);
            let mut entry = Decided::clone(&longer.entries(crate::core::chain::Chain::WriteEpochs)[0]);
            entry.votes.truncate(1);
            let refused = config.extend(entry.clone());
            assert!(refused.is_err());
            entry
        };
        *cluster.lie.lock().unwrap() = Some(forged);
        let connected = Client::builder().identity(secret(AUTHOR)).connect(&cluster.ticket).await;
        assert!(matches!(connected, Err(ConnectError::Forged(_))), "{connected:?}");
    })
    .await;
}

#[tokio::test]
async fn a_deletion_beside_a_value_is_a_conflict_and_deletions_alone_are_none() {
    soon(async {
        let config = same_config();
        let ([base, left, _], _) = siblings(&config, [b"0", b"1", b"2"]);
        let gone = version(&config, 4, write(&config, 4, &[&base], None));
        let gone_too = version(&config, 5, write(&config, 5, &[&base], None));
        let mixed = reading(versions(&[(&left, b"1"), (&gone, b"")])).await.unwrap();
        assert_eq!(mixed.value(), Err(Unresolved { count: 2 }));
        let conflict = mixed.conflict().unwrap();
        assert!(conflict.has_deletion() && conflict.values().eq([&Bytes::from_static(b"1")]));
        let deleted = reading(versions(&[(&gone, b""), (&gone_too, b"")])).await.unwrap();
        assert_eq!(deleted.value(), Ok(None));
        assert!(deleted.is_absent() && deleted.conflict().is_none());
    })
    .await;
}
