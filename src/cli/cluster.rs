//! `tanist cluster new`: founds a cluster.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::json;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::words::quoted;
use super::write::replace_file;
use crate::client::Ticket;
use crate::node::{ClusterPlan, FoundError, Founded, NodePlan};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Make the keys, the tickets and a folder for each node of a new cluster
    New(New),
}

/// Makes DIR with admin.key, client.key (may do everything except administer), cluster, ticket, and a
/// folder for each node: copy each to its machine, and run `tanist node` on it there.
#[derive(Debug, clap::Args)]
pub(super) struct New {
    /// The folder; it must not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// How many nodes, all on this machine: 1, 3 or more
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "node")]
    nodes: usize,
    /// They listen on the ports after this one
    #[arg(long, value_name = "PORT", default_value_t = 7400, conflicts_with = "node")]
    base_port: u16,
    /// A node: its name, its address, and its zone if there are several
    #[arg(long, value_name = "NAME=HOST:PORT[,zone=ZONE]")]
    node: Vec<Spec>,
}

/// A node as it is written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spec {
    name: String,
    address: SocketAddr,
    zone: String,
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or("write NAME=HOST:PORT[,zone=ZONE]")?;
        let (address, zone) = match rest.split_once(',') {
            Some((address, option)) => {
                let zone = option.strip_prefix("zone=");
                (address, zone.ok_or_else(|| format!("{option:?} is not zone=ZONE"))?)
            }
            None => (rest, ""),
        };
        let mut found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
        let address = found.next().ok_or_else(|| format!("{address} has no address"))?;
        match (name, address.port()) {
            ("", _) => Err("a node needs a name".to_owned()),
            (_, 0) => Err("a node of a cluster needs a port that others know: choose one".to_owned()),
            _ => Ok(Spec { name: name.to_owned(), address, zone: zone.to_owned() }),
        }
    }
}

pub(super) fn run(command: &Command, global: &Global) -> Result<Exit, Failure> {
    let Command::New(args) = command;
    if args.node.is_empty() && (args.base_port == 0 || usize::from(args.base_port) + args.nodes > 65_535) {
        return Err(Failure::usage(format!("there are no {} ports after {}", args.nodes, args.base_port))
            .next("choose another --base-port"));
    }
    let nodes = args.node.iter().map(|spec| NodePlan {
        name: spec.name.clone(),
        address: spec.address,
        zone: spec.zone.clone(),
    });
    let plan = match args.node.is_empty() {
        true => ClusterPlan::local(args.nodes, args.base_port),
        false => ClusterPlan { nodes: nodes.collect(), ..ClusterPlan::local(0, 0) },
    };
    let founded = plan.found(&args.dir).map_err(|error| refused(&error))?;
    let addresses = founded.addresses.iter().cloned().collect();
    let path = args.dir.join("ticket");
    let unwritten = |error: &dyn std::fmt::Display| {
        Failure::failed("file", format!("cannot write the ticket {}: {error}", path.display()))
            .state(format!("the folder {} is not complete", args.dir.display()))
            .next(format!("rm -r {}", quoted(&args.dir.to_string_lossy())))
    };
    let ticket = Ticket::new(founded.genesis.clone(), addresses).map_err(|error| unwritten(&error))?;
    replace_file(&path, ticket.to_string().as_bytes()).map_err(|error| unwritten(&error))?;
    report(global, &args.dir, &plan, &founded, &ticket)
}

fn report(
    global: &Global,
    dir: &Path,
    plan: &ClusterPlan,
    founded: &Founded,
    ticket: &Ticket,
) -> Result<Exit, Failure> {
    let out = global.output();
    let within = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let nodes = || plan.nodes.iter().zip(&founded.nodes);
    out.result(
        || {
            let nodes = nodes().map(|(plan, dir)| {
                let dir = dir.path().to_string_lossy();
                json!({ "name": plan.name, "dir": dir, "address": plan.address.to_string() })
            });
            json!({
                "dir": dir.to_string_lossy(),
                "cluster": ticket.cluster().to_string(),
                "ticket": within("ticket"),
                "admin_key": within("admin.key"),
                "client_key": within("client.key"),
                "nodes": nodes.collect::<Vec<_>>(),
            })
        },
        || {
            let [ticket, key] = ["ticket", "client.key"].map(|name| quoted(&within(name)));
            format!("export TANIST_TICKET={ticket}\nexport TANIST_KEY={key}\n")
        },
    )?;
    for (plan, dir) in nodes() {
        let dir = quoted(&dir.path().to_string_lossy());
        out.note(format!("{} at {}: tanist node {dir}", plan.name, plan.address));
    }
    let admin = quoted(&within("admin.key"));
    out.note(format!("then: tanist namespace create NAME --mode siblings --key {admin}"));
    Ok(Exit::Done)
}

fn refused(error: &FoundError) -> Failure {
    match error {
        FoundError::Plan(_) => Failure::usage(error).next("tanist cluster new DIR --nodes 3"),
        _ => Failure::failed("file", error).next("tanist cluster new ANOTHER_DIR"),
    }
}
