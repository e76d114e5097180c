//! Effects that are done once, against nodes that agree.

use std::time::Duration;

use super::fake::soon;
use super::fixtures::Electorate;
use super::*;

async fn ledger(electorate: &Electorate) -> OnceKey {
    let jobs = electorate.client().await.linearizable("jobs").await.unwrap();
    jobs.once("order-1/receipt").unwrap().wait(Duration::ZERO)
}

async fn mine(electorate: &Electorate) -> Run {
    match ledger(electorate).await.begin().await {
        Ok(Once::Mine(run)) => run,
        other => panic!("{other:?}"),
    }
}

async fn in_doubt(electorate: &Electorate) -> String {
    match ledger(electorate).await.begin().await {
        Ok(Once::InDoubt { run, .. }) => run,
        other => panic!("{other:?}"),
    }
}

async fn is_done(electorate: &Electorate, with: &str) -> bool {
    matches!(ledger(electorate).await.begin().await, Ok(Once::Done(result)) if result == with)
}

#[tokio::test]
async fn what_was_done_is_remembered_with_its_result() {
    soon(async {
        let electorate = Electorate::start();
        let run = mine(&electorate).await;
        assert_eq!(run.id().len(), 32);
        run.done("sent").await.unwrap();
        assert!(is_done(&electorate, "sent").await);
        // It resigned: nobody has to wait.
        assert!(electorate.state().seats.values().all(|seat| seat.tenure.key.is_none()));
    })
    .await;
}

#[tokio::test]
async fn a_run_that_says_nothing_leaves_it_in_doubt_until_somebody_decides() {
    soon(async {
        let electorate = Electorate::start();
        let run = mine(&electorate).await;
        let id = run.id();
        drop(run);
        assert_eq!(in_doubt(&electorate).await, id);
        assert_eq!(in_doubt(&electorate).await, id, "it stays in doubt");
        ledger(&electorate).await.decide_again().await.unwrap();
        let again = mine(&electorate).await;
        assert_ne!(again.id(), id);
        again.leave().await;
        ledger(&electorate).await.decide_done("found").await.unwrap();
        assert!(is_done(&electorate, "found").await);
    })
    .await;
}

#[tokio::test]
async fn what_is_done_cannot_be_decided_away() {
    soon(async {
        let electorate = Electorate::start();
        mine(&electorate).await.done("sent").await.unwrap();
        let again = ledger(&electorate).await.decide_again().await;
        assert!(matches!(again, Err(OnceError::Decided(result)) if result == "sent"));
        let other = ledger(&electorate).await.decide_done("another").await;
        assert!(matches!(other, Err(OnceError::Decided(result)) if result == "sent"));
        ledger(&electorate).await.decide_done("sent").await.unwrap();
        assert!(is_done(&electorate, "sent").await);
    })
    .await;
}

#[tokio::test]
async fn what_failed_may_be_begun_again() {
    soon(async {
        let electorate = Electorate::start();
        let first = mine(&electorate).await;
        let id = first.id();
        first.failed().await.unwrap();
        assert_ne!(mine(&electorate).await.id(), id);
    })
    .await;
}

#[tokio::test]
async fn two_runs_are_never_under_way_at_once() {
    soon(async {
        let electorate = Electorate::start();
        electorate.state().leases_run = true;
        let run = mine(&electorate).await;
        let busy = ledger(&electorate).await.begin().await;
        assert!(matches!(busy, Err(OnceError::Busy(CampaignError::Owned { .. }))), "{busy:?}");
        // Held for dead, it can no longer say that it is done.
        electorate.state().leases_run = false;
        assert_eq!(in_doubt(&electorate).await, run.id());
        assert!(matches!(run.done("late").await, Err(OnceError::Over)));
    })
    .await;
}

#[tokio::test]
async fn a_result_that_is_too_long_is_not_half_remembered() {
    soon(async {
        let electorate = Electorate::start();
        let run = mine(&electorate).await;
        let id = run.id();
        let long = run.done(vec![0; Run::RESULT_LEN + 1]).await;
        assert!(matches!(long, Err(OnceError::ResultLen { .. })), "{long:?}");
        assert_eq!(in_doubt(&electorate).await, id);
    })
    .await;
}

#[tokio::test]
async fn a_key_that_holds_something_else_is_no_ledger() {
    soon(async {
        let electorate = Electorate::start();
        let jobs = electorate.client().await.linearizable("jobs").await.unwrap();
        jobs.create("order-1/receipt", "a value of somebody's").await.unwrap();
        assert!(matches!(ledger(&electorate).await.begin().await, Err(OnceError::NotALedger)));
    })
    .await;
}
