//! `tanist status`: how the nodes are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::progress::Progress;
use crate::core::chain::Member;
use crate::core::cluster::Configuration;
use crate::core::identity::MemberId;
use crate::wire::client::Status;

/// Exit 0 if any node answers, 8 if none does.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// A node that says nothing for so long is shown as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Answers = BTreeMap<MemberId, Result<Status, String>>;

pub(super) async fn run(_args: &Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.connect().await?;
    let config = client.configuration();
    let progress = Progress::start(global.output(), "nodes that answered:".to_owned());
    let mut asking = JoinSet::new();
    let wanted = |member: &&Member| {
        global.at.as_ref().is_none_or(|at| member.name == *at || member.id.to_string() == *at)
    };
    for member in config.current().members.iter().filter(wanted) {
        let (client, id) = (client.clone(), member.id);
        asking.spawn(async move {
            let answer = match timeout(PATIENCE, client.status(id)).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            (id, answer)
        });
    }
    let mut answers = Answers::new();
    while let Some(joined) = asking.join_next().await {
        if let Ok((id, answer)) = joined {
            answers.insert(id, answer);
            progress.add(1);
        }
    }
    drop(progress);
    global.output().result(|| to_json(&config, &answers), || to_text(&config, &answers))?;
    match answers.values().any(Result::is_ok) {
        true => Ok(Exit::Done),
        false => {
            Err(Failure::new(Exit::Unavailable, "unavailable", "no node answers").next("tanist node DIR"))
        }
    }
}

fn name(config: &Configuration, id: MemberId) -> String {
    config.member(id).map_or(id.to_string(), |member| member.name.clone())
}

fn to_text(config: &Configuration, answers: &Answers) -> String {
    let mut text = format!("cluster {}\n", config.cluster());
    let width = config.current().members.iter().map(|member| member.name.len()).max().unwrap_or(0);
    for member in &config.current().members {
        let Some(answer) = answers.get(&member.id) else { continue };
        // Writing to a string does not fail.
        let _ = write!(text, "{:width$}  ", member.name);
        let status = match answer {
            Ok(status) => status,
            Err(why) => {
                let _ = writeln!(text, "unreachable: {why}");
                continue;
            }
        };
        let counts = match &status.counts {
            Ok(()) => "counts".to_owned(),
            Err(why) => format!("does not count: {why}"),
        };
        let [voters, policy, epochs] = status.chains;
        let peers = status.peers.iter().map(|(peer, up)| {
            format!("{} {}", name(config, *peer), if *up { "connected" } else { "not connected" })
        });
        let peers = peers.collect::<Vec<_>>().join(", ");
        let indent = " ".repeat(width + 2);
        let _ = writeln!(text, "reachable, {counts}; version {}, zone {:?}", status.version, member.zone);
        let _ = writeln!(text, "{indent}incarnation {}, batch {}", status.incarnation, status.synced);
        let _ = writeln!(
            text,
            "{indent}chains: voters {voters}, policy {policy}, epochs {epochs}; peers: {peers}"
        );
        let counted = status.counters.iter().filter(|(_, count)| *count > 0);
        let counted = counted.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
        let counted = if counted.is_empty() { "all zero".to_owned() } else { counted };
        let _ = writeln!(text, "{indent}counters: {counted}");
    }
    text
}

fn to_json(config: &Configuration, answers: &Answers) -> Value {
    let members = config.current().members.iter();
    let nodes = members.filter_map(|member| Some((member, answers.get(&member.id)?)));
    let nodes: Vec<Value> = nodes.map(|(member, answer)| node_to_json(config, member, answer)).collect();
    json!({ "cluster": config.cluster().to_string(), "nodes": nodes })
}

fn node_to_json(config: &Configuration, member: &Member, answer: &Result<Status, String>) -> Value {
    let mut node = json!({
        "name": member.name,
        "id": member.id.to_string(),
        "zone": member.zone,
        "reachable": answer.is_ok(),
        "error": answer.as_ref().err(),
    });
    let (Value::Object(fields), Ok(status)) = (&mut node, answer) else { return node };
    let [voters, policy, epochs] = status.chains;
    let peers = status.peers.iter();
    let peers = peers.map(|(peer, up)| json!({ "name": name(config, *peer), "connected": up }));
    let counters: BTreeMap<&String, u64> = status.counters.iter().map(|(name, n)| (name, *n)).collect();
    let told = json!({
        "version": status.version,
        "incarnation": status.incarnation.to_string(),
        "counts": status.counts.is_ok(),
        "why_not": status.counts.as_ref().err(),
        "synced": status.synced,
        "chains": { "voters": voters, "policy": policy, "epochs": epochs },
        "peers": peers.collect::<Vec<_>>(),
        "counters": counters,
    });
    if let Value::Object(told) = told {
        fields.extend(told);
    }
    node
}
