//! Durable compare-and-set writes: three node processes and their clients on one machine.
//!
//! ```text
//! make bench [ARGS="--seconds 10 --clients 1,16,64,256 --mode siblings"]
//! ```
//!
//! Each client owns 10,000/C keys and replaces their values in turn, naming the version it made last:
//! one compare-and-set an operation, never a conflict. Values are 256 bytes. The clients are tasks of this
//! process over min(C, 6) connections to the cluster. Prints a table in Markdown.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its table")]

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tanist::cli::local::{Local, Plan, scratch};
use tanist::client::{Basis, Client, Mode, Space, Version, Versions, Written};
use tokio::task::JoinSet;

const NAMESPACE: &str = "bench";
const KEYS: usize = 10_000;
const VALUE: usize = 256;
const CONNECTIONS: usize = 6;
const PRELOADERS: usize = 50;

/// A key, and the version that was made last.
type Held = (String, Option<Version>);
const WARM_UP: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { clients, seconds, mode } = arguments()?;
    let folder = scratch("tanist-bench")?;
    let binary = env!("CARGO_BIN_EXE_tanist");
    let plan = Plan::default();
    let mut cluster = Local::found(&folder.path().join("cluster"), binary.as_ref(), &plan).await?;
    cluster.start_all()?;
    let client = cluster.connect(PATIENCE).await?;
    cluster.ready(&client, PATIENCE).await?;
    client.admin(client.identity().clone()).create_namespace(NAMESPACE, mode, None).await?;

    println!(
        "| clients | ops/s | p50 ms | p99 ms | p99.9 ms | max ms | server CPU s / 1000 ops | client CPU s / 1000 ops \
         | batches / 1000 ops, a node | server RSS MiB | failed |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut keys = (0..KEYS).map(|n| (format!("key-{n}"), None)).collect();
    // Not measured: it creates the keys.
    measure(&cluster, &client, PRELOADERS, Duration::ZERO, &mut keys).await?;
    for count in clients {
        let row = measure(&cluster, &client, count, Duration::from_secs(seconds), &mut keys).await?;
        println!("{row}");
    }
    cluster.stop_all().await;
    Ok(())
}

/// What is measured.
struct Arguments {
    clients: Vec<usize>,
    seconds: u64,
    mode: Mode,
}

/// `--clients 1,16`, `--seconds 10` and `--mode linearizable`; what cargo adds of its own is ignored.
fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let (mut clients, mut seconds, mut mode) = (vec![1, 16, 64, 256], 10, Mode::Siblings);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &word[..] {
            "--clients" => {
                let list = words.next().unwrap_or_default();
                clients = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--seconds" => seconds = words.next().unwrap_or_default().parse()?,
            "--mode" => {
                mode = match words.next().unwrap_or_default().as_str() {
                    "siblings" => Mode::Siblings,
                    "linearizable" => Mode::Linearizable,
                    other => return Err(format!("{other}: a mode is siblings or linearizable").into()),
                };
            }
            "--bench" => {}
            other => {
                return Err(format!("{other}: only --clients, --seconds and --mode are known").into());
            }
        }
    }
    Ok(Arguments { clients, seconds, mode })
}

/// One row of the table.
async fn measure(
    cluster: &Local,
    client: &Client,
    count: usize,
    window: Duration,
    keys: &mut Vec<Held>,
) -> Result<String, Box<dyn Error>> {
    let mut handles = Vec::new();
    for _ in 0..count.min(CONNECTIONS) {
        let own = Client::builder().identity(client.identity().clone());
        handles.push(own.connect(cluster.ticket()).await?.space(NAMESPACE).await?);
    }
    let begun = now();
    let (from, to) = (begun + WARM_UP, begun + WARM_UP + window);
    let mut tasks = JoinSet::new();
    let each = keys.len() / count;
    for handle in handles.iter().cycle().take(count) {
        let own = keys.split_off(keys.len().saturating_sub(each));
        tasks.spawn(write(handle.clone(), own, from, to));
    }
    tokio::time::sleep_until(from.into()).await;
    let (servers, own, batches) = (server_cpu(cluster)?, own_cpu()?, batches(cluster, client).await);
    tokio::time::sleep_until(to.into()).await;
    let servers = server_cpu(cluster)? - servers;
    let own = own_cpu()? - own;
    let batches = self::batches(cluster, client).await - batches;

    let (mut latencies, mut failed) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        let (own, measured, errors) = done?;
        keys.extend(own);
        latencies.extend(measured);
        failed += errors;
    }
    latencies.sort_unstable();
    let operations = latencies.len();
    let at = |part: f64| {
        let rank = ((operations as f64 * part) as usize).min(operations.saturating_sub(1));
        latencies.get(rank).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
    };
    let thousands = operations as f64 / 1000.0;
    Ok(format!(
        "| {count} | {:.0} | {:.2} | {:.2} | {:.1} | {:.1} | {:.3} | {:.3} | {:.0} | {:.0} | {failed} |",
        operations as f64 / window.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        servers / thousands,
        own / thousands,
        batches as f64 / thousands / cluster.len() as f64,
        rss_mib(cluster)?,
    ))
}

/// Writes its keys in turn, each once at least, until `to`. Returns them, the latencies of what ended
/// after `from`, and how many failed.
async fn write(
    namespace: Space,
    mut keys: Vec<Held>,
    from: Instant,
    to: Instant,
) -> (Vec<Held>, Vec<Duration>, u64) {
    let (mut latencies, mut failed) = (Vec::new(), 0);
    for n in (0..keys.len()).cycle() {
        let (key, version) = &mut keys[n];
        let begun = now();
        if begun >= to && version.is_some() {
            break;
        }
        let basis = Basis::new(&*key, version.take().into_iter().collect::<Versions>());
        let written = namespace.replace(basis, Bytes::from(vec![b'x'; VALUE])).await;
        let ended = now();
        match written {
            Ok(Written::Applied { version: made, .. }) => *version = Some(made),
            other => {
                failed += 1;
                eprintln!(
                    "{key}: {}",
                    other.map_or_else(|error| error.to_string(), |_| "refused".to_owned())
                );
                // What is there now is named next.
                let reading = namespace.get(&*key).await.ok();
                *version = reading.and_then(|reading| reading.versions().iter().next().cloned());
                continue;
            }
        }
        if (from..to).contains(&ended) {
            latencies.push(ended - begun);
        }
    }
    (keys, latencies, failed)
}

/// Batches that the nodes have synced, all together.
async fn batches(cluster: &Local, client: &Client) -> u64 {
    let mut sum = 0;
    for node in 0..cluster.len() {
        sum += cluster.status(client, node).await.map_or(0, |status| status.synced);
    }
    sum
}

fn server_cpu(cluster: &Local) -> Result<f64, Box<dyn Error>> {
    let pids = (0..cluster.len()).filter_map(|node| cluster.pid(node));
    pids.map(|pid| cpu(&pid.as_raw_nonzero().to_string())).sum()
}

fn own_cpu() -> Result<f64, Box<dyn Error>> {
    cpu("self")
}

/// Seconds of CPU that a process has used, in the kernel and outside.
fn cpu(process: &str) -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in brackets may hold anything; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').ok_or("no such process")?;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0u64)).sum();
    Ok(ticks as f64 / ticks_per_second()?)
}

fn ticks_per_second() -> Result<f64, Box<dyn Error>> {
    let output = Command::new("getconf").arg("CLK_TCK").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Resident memory of all nodes.
fn rss_mib(cluster: &Local) -> Result<f64, Box<dyn Error>> {
    let mut kib = 0u64;
    for pid in (0..cluster.len()).filter_map(|node| cluster.pid(node)) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        kib += line.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(kib as f64 / 1024.0)
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
