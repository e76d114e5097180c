//! Read, modify, write, and again if somebody was faster: first by hand, then with `update`.
//!
//! ```text
//! cargo run --release --example counter
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use tanist::client::{Change, Conflict, Resolution, Siblings, Written};

use common::{Cluster, create_namespace};

const WRITERS: u64 = 4;
const EACH: u64 = 25;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (_cluster, client) = Cluster::start(false).await?;
    create_namespace(&client, "counters", None).await?;
    let counters = client.siblings("counters").await?.resolve_with(add_up);

    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let counters = counters.clone();
        writers.spawn(async move {
            let mut refused = 0;
            for _ in 0..EACH {
                refused += by_hand(&counters, "visits").await.map_err(|error| error.to_string())?;
                counters.update("visits", next).await.map_err(|error| error.to_string())?;
            }
            Ok::<u64, String>(refused)
        });
    }
    let mut refused = 0;
    while let Some(writer) = writers.join_next().await {
        refused += writer??;
    }
    let visits = number(counters.get("visits").await?.value()?);
    println!(
        "{WRITERS} writers counted to {visits}; by hand they were refused {refused} times, and tried again"
    );
    assert_eq!(visits, 2 * WRITERS * EACH);
    Ok(())
}

/// What `update` does; returns how often somebody was faster.
async fn by_hand(counters: &Siblings, key: &str) -> Result<u64, Box<dyn Error>> {
    let mut refused = 0;
    loop {
        let read = counters.get(key).await?;
        let value = (number(read.value()?) + 1).to_string();
        // Names exactly what was read. If the outcome is unknown this is an error that can be settled,
        // not a second attempt: that might count twice.
        match counters.replace(&read, value).await? {
            Written::Applied { .. } => return Ok(refused),
            Written::Refused { .. } => refused += 1,
        }
        tokio::time::sleep(Duration::from_millis(refused.min(20))).await;
    }
}

fn next(current: Option<Bytes>) -> Change {
    Change::put((number(current.as_ref()) + 1).to_string())
}

/// In a `siblings` namespace two writes that read the same may both be kept, and nothing is lost: each
/// counts for what it added to what they have in common.
fn add_up(conflict: &Conflict) -> Resolution {
    let Some(ancestor) = &conflict.ancestor else {
        return Resolution::Abort("what the counts have in common is not held any more".to_owned());
    };
    let base = number(ancestor.value());
    let added: u64 = conflict.values().map(|count| number(Some(count)).saturating_sub(base)).sum();
    Resolution::Merge((base + added).to_string().into())
}

fn number(value: Option<&Bytes>) -> u64 {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}
