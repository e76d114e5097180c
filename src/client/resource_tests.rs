//! Campaigns and tenures against nodes that agree.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::fake::{AUTHOR, same_config, secret, soon};
use super::fixtures::Electorate;
use super::*;
use crate::core::certificate::prove;
use crate::core::identity::PublicKey;
use crate::core::signature::sign_one;
use crate::core::tenure::{self, Claim, check_tenure, verifies_fence};
use crate::core::version::SignedWrite;
use crate::core::write::WriteId;
use crate::wire::ownership::Campaign;

const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_secs(1);

fn lease(lease: Duration) -> Lease {
    lease.try_into().unwrap()
}

fn told(campaign: &Campaign) -> tenure::Tenure {
    tenure::Tenure::decode(&campaign.value.as_slice()[0]).unwrap()
}

fn key(campaign: &Campaign) -> Option<PublicKey> {
    told(campaign).key
}

fn id(tenure: &Tenure) -> WriteId {
    tenure.fence().proof().signed.id()
}

async fn campaigns(electorate: &Electorate, at_least: usize) {
    while electorate.campaigns().len() < at_least {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_lease_is_one_second_to_five_minutes() {
    assert_eq!(Lease::default().as_millis(), 15_000);
    assert_eq!(lease(SHORT).as_millis(), 1_000);
    assert_eq!(lease(LONG).as_millis(), 300_000);
    assert_eq!(Lease::try_from(Duration::from_millis(999)), Err(InvalidLease));
    assert_eq!(Lease::try_from(LONG + Duration::from_millis(1)), Err(InvalidLease));
}

#[tokio::test]
async fn p6_a_won_campaign_is_proved_to_anybody() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().leases_run = true;
        let billing = electorate.billing().await;
        assert_eq!(billing.observe().await.unwrap(), None);
        let tenure = billing.try_campaign(lease(LONG)).await.unwrap();
        assert_eq!((tenure.term().number, tenure.is_owner()), (1, true));
        let certificate = tenure.certificate();
        let proven = prove(&certificate.proof, &same_config()).unwrap();
        assert_eq!((proven.term, proven.key), (tenure.term(), Some(tenure.fence().public())));

        let seen = electorate.billing().await.observe().await.unwrap().unwrap();
        assert_eq!((seen.term, seen.tenure, seen.owner), (tenure.term(), proven.tenure, Some(proven.owner)));
        assert_eq!((seen.lease_ms, seen.certificate), (300_000, certificate));

        // Attack 13: the same identity is another candidate.
        let other = electorate.billing().await.try_campaign(lease(LONG)).await;
        assert!(
            matches!(other, Err(CampaignError::Owned { term, .. }) if term == tenure.term()),
            "{other:?}"
        );
        let keys: Vec<_> = electorate.campaigns().iter().map(key).collect();
        assert!(keys.len() == 2 && keys[0] != keys[1], "a key for each campaign");
    })
    .await;
}

#[tokio::test]
async fn p8_a_win_without_a_majority_of_votes_is_not_believed() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().votes_missing = 2;
        let client = electorate.cluster.client(Duration::from_millis(500)).await;
        let billing = client.resource("billing").unwrap();
        let won = billing.try_campaign(lease(SHORT)).await;
        assert!(matches!(won, Err(CampaignError::Unavailable(_))), "{won:?}");
        let seen = billing.observe().await;
        assert!(matches!(seen, Err(ReadError::Forged(_))), "{seen:?}");
    })
    .await;
}

#[tokio::test]
async fn o7_an_open_campaign_is_sent_again_with_the_same_tenure() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().incomplete = 12;
        let client = electorate.cluster.client(Duration::from_millis(100)).await;
        let tenure = client.resource("billing").unwrap().campaign(lease(LONG)).await.unwrap();
        assert_eq!(electorate.state().incomplete, 0);
        let campaigns = electorate.campaigns();
        assert_eq!(campaigns.len(), 1);
        assert_eq!(campaigns[0].signed.id(), id(&tenure));
    })
    .await;
}

#[tokio::test]
async fn whoever_came_too_late_stands_anew_for_the_next_term() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().incomplete = 12;
        let client = electorate.cluster.client(Duration::from_millis(100)).await;
        let campaign = tokio::spawn(async move {
            client.resource("billing").unwrap().campaign(lease(LONG)).await.unwrap().term()
        });
        campaigns(&electorate, 1).await;
        // Somebody else was faster, and is gone again.
        let config = same_config();
        let claim = Claim {
            cluster: config.cluster(),
            resource: "billing".try_into().unwrap(),
            current: None,
            recovery: 0,
            key: Some(secret(150).public()),
            lease_ms: 1_000,
            epoch: 1,
            author: secret(AUTHOR).public(),
            nonce: [8; 16],
            wall_ms: 0,
        };
        let (write, won) = claim.write();
        let proof = sign_one(&secret(AUTHOR), write.cluster, write.id().into());
        electorate.state().take(&config, SignedWrite::new(write, proof, None), won);
        assert_eq!(campaign.await.unwrap().number, 2);
        let campaigns = electorate.campaigns();
        let [first, second] = &campaigns[..] else { panic!("{campaigns:?}") };
        assert_ne!(key(first), key(second));
        let writes = [first, second].map(|campaign| campaign.signed.write());
        assert_eq!(writes.map(|write| (write.generation, write.parents.len())), [(1, 0), (2, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_resignation_lets_another_follow_at_once() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().leases_run = true;
        let first = electorate.billing().await.try_campaign(lease(LONG)).await.unwrap();
        let next = electorate.billing().await;
        let next = tokio::spawn(async move { next.campaign(lease(LONG)).await.unwrap() });
        campaigns(&electorate, 2).await;
        let (fence, tenure) = (first.fence().clone(), id(&first));
        first.resign().await.unwrap();
        let next = timeout(Duration::from_secs(5), next).await.expect("it looks now and then").unwrap();
        assert_eq!(next.term().number, 3, "the resignation has a term of its own");

        let campaigns = electorate.campaigns();
        let resignation = campaigns.iter().find(|campaign| key(campaign).is_none()).unwrap();
        let (signed, write) = (&resignation.signed, resignation.signed.write());
        assert_eq!((write.generation, &write.parents[..]), (2, &[tenure][..]));
        assert_eq!(told(resignation).lease_ms, 300_000);
        check_tenure(signed, &told(resignation)).unwrap();
        assert!(verifies_fence(&fence.public(), write.cluster, signed.id(), signed.fence().unwrap()));
        assert!(!electorate.billing().await.resign(&fence).await.unwrap(), "it was over");
    })
    .await;
}

#[tokio::test]
async fn what_nobody_has_heard_of_is_not_called_over() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().leases_run = true;
        let client = electorate.cluster.client(Duration::from_millis(300)).await;
        let billing = client.resource("billing").unwrap();
        let tenure = billing.try_campaign(lease(LONG)).await.unwrap();
        electorate.state().unheard = true;
        let resigned = billing.resign(tenure.fence()).await;
        assert!(matches!(resigned, Err(CampaignError::Unknown(_))), "{resigned:?}");
        let stale = billing.try_campaign(lease(LONG)).await;
        assert!(matches!(stale, Err(CampaignError::Unavailable(_))), "{stale:?}");
    })
    .await;
}

#[tokio::test]
async fn p10_an_ownership_is_lost_without_a_network() {
    soon(async {
        let electorate = Electorate::start();
        let tenure = electorate.billing().await.try_campaign(lease(SHORT)).await.unwrap();
        sleep(Duration::from_millis(1_500)).await;
        assert!(tenure.is_owner(), "it is renewed");
        electorate.state().silent = true;
        let silent = Instant::now();
        tenure.lost().await;
        assert!(!tenure.is_owner() && tenure.left().is_none());
        assert!(silent.elapsed() < Duration::from_millis(1_500), "{:?}", silent.elapsed());
        // O8: nothing brings it back.
        electorate.state().silent = false;
        sleep(Duration::from_millis(500)).await;
        assert!(!tenure.is_owner());
    })
    .await;
}

#[tokio::test]
async fn o1_ballots_apart_are_brought_together_by_a_round_of_the_same_tenure() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().apart = true;
        let tenure = electorate.billing().await.try_campaign(lease(SHORT)).await.unwrap();
        sleep(Duration::from_millis(2_000)).await;
        assert!(tenure.is_owner());
        let campaigns = electorate.campaigns();
        assert!(campaigns.iter().any(|campaign| campaign.afresh));
        assert!(campaigns.iter().all(|campaign| campaign.signed.id() == id(&tenure)));
    })
    .await;
}

#[tokio::test]
async fn o3_whoever_wins_late_renews_before_it_acts() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().leases_run = true;
        let first = electorate.billing().await.try_campaign(lease(LONG)).await.unwrap();
        let next = electorate.billing().await;
        let next = tokio::spawn(async move { next.campaign(lease(SHORT)).await.unwrap() });
        sleep(Duration::from_millis(1_500)).await;
        electorate.state().leases_run = false;
        let next = next.await.unwrap();
        assert!(electorate.renewals(id(&next)) >= 2);
        assert!(next.is_owner() && next.term() > first.term());
    })
    .await;
}

#[tokio::test]
async fn a_tenure_that_is_dropped_is_renewed_no_more() {
    soon(async {
        let electorate = Electorate::start();
        let tenure = electorate.billing().await.try_campaign(lease(SHORT)).await.unwrap();
        let tenure_id = id(&tenure);
        sleep(Duration::from_millis(500)).await;
        drop(tenure);
        // What had left already may still arrive.
        sleep(Duration::from_millis(100)).await;
        let before = electorate.renewals(tenure_id);
        sleep(Duration::from_millis(700)).await;
        assert_eq!((electorate.renewals(tenure_id), before > 0), (before, true));
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_unavailable_and_not_owned() {
    soon(async {
        let electorate = Electorate::start();
        let client = electorate.cluster.client(Duration::from_millis(300)).await;
        let jobs = client.linearizable("jobs").await.unwrap();
        let billing = client.resource("billing").unwrap();
        electorate.state().silent = true;
        let wait = Duration::from_millis(200);
        let lost = billing.campaign_for(lease(SHORT), wait).await;
        assert!(matches!(lost, Err(CampaignError::Unavailable(_))), "{lost:?}");
        let begun = jobs.once("k").unwrap().wait(wait).begin().await;
        assert!(matches!(begun, Err(OnceError::Read(ReadError::Unavailable(_)))), "{begun:?}");
    })
    .await;
}
