//! A cart that two sites edit while the line between them is cut, with removals, merged by a callback.
//!
//! ```text
//! cargo run --release --example cart
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use tanist::cli::relay::Faults;
use tanist::client::resolvers::{add_remove_set, decode_set, encode_set};
use tanist::client::{Change, Client, Siblings, Updated};

use common::{Cluster, create_namespace};

const CART: &str = "user-7";

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (cluster, client) = Cluster::start(true).await?;
    // One replica is enough, so that a site that is cut off goes on; both sites' writes are kept.
    create_namespace(&client, "carts", Some(1)).await?;
    let (berlin, oslo) = (site(&client, "node-1").await?, site(&client, "node-3").await?);

    edit(&berlin, &["milk", "eggs"], &[]).await?;
    while oslo.get(CART).local().await?.is_absent() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let wires = cluster.local.network().ok_or("this cluster has no wires")?;
    wires.set_around(0, Faults::CUT);
    println!("the line to Berlin is cut");
    edit(&berlin, &["bread"], &["milk"]).await?;
    println!("Berlin takes out the milk and adds bread: {}", show(&berlin).await?);
    edit(&oslo, &["butter"], &[]).await?;
    println!("Oslo adds butter:                         {}", show(&oslo).await?);

    wires.set_around(0, Faults::default());
    println!("the line is whole again");
    for site in [&berlin, &oslo] {
        // Nothing was lost: the two carts are live side by side until somebody merges them.
        while site.get(CART).local().await?.siblings().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    println!("both sites have two siblings; merged:     {}", show(&oslo).await?);

    // The next edit names both siblings, and so replaces them.
    edit(&oslo, &["apples"], &[]).await?;
    let reading = berlin.get(CART).await?;
    println!("Oslo adds apples, Berlin reads:           {}", show(&berlin).await?);
    let [only] = reading.siblings() else { return Err("there are still siblings".into()) };
    assert_eq!(only.head().parents().len(), 2, "the merged version names both carts");
    assert_eq!(items(&berlin).await?, set(&["apples", "bread", "butter", "eggs"]), "and the milk stays out");
    Ok(())
}

/// The carts as one site sees them, merged by the callback when there are siblings.
async fn site(client: &Client, node: &str) -> Result<Siblings, Box<dyn Error>> {
    Ok(client.at(node)?.siblings("carts").await?.resolve_with(add_remove_set))
}

/// Adds and removes items. If somebody was faster the change is made again, on what is there then.
async fn edit(carts: &Siblings, add: &[&str], remove: &[&str]) -> Result<(), Box<dyn Error>> {
    let change = |current: Option<bytes::Bytes>| {
        let mut items = current.and_then(|cart| decode_set(&cart)).unwrap_or_default();
        items.extend(set(add));
        items.retain(|item| !remove.iter().any(|gone| gone.as_bytes() == item));
        Change::put(encode_set(items))
    };
    match carts.update(CART, change).await? {
        Updated::Applied { .. } => Ok(()),
        Updated::Kept | Updated::Aborted => Err("the cart was not written".into()),
    }
}

async fn items(carts: &Siblings) -> Result<BTreeSet<Vec<u8>>, Box<dyn Error>> {
    let reading = carts.get(CART).await?;
    Ok(reading.value()?.and_then(|cart| decode_set(cart)).unwrap_or_default())
}

async fn show(carts: &Siblings) -> Result<String, Box<dyn Error>> {
    let items = items(carts).await?;
    Ok(items.iter().map(|item| String::from_utf8_lossy(item)).collect::<Vec<_>>().join(", "))
}

fn set(items: &[&str]) -> BTreeSet<Vec<u8>> {
    items.iter().map(|item| item.as_bytes().to_vec()).collect()
}
