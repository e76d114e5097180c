//! `tanist certificate`: checks what proves an ownership, without asking anybody.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use crate::core::authority::{self, Authority};
use crate::core::certificate::Certificate;
use crate::core::write::Term;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Check a certificate by the cluster's founding entry: no node is asked
    Verify(Verify),
}

/// A certificate proves that somebody was owner at a term, not that nobody owns a later one: who keeps
/// the highest term that it saw gives it as --min-term. Exit 6 if the term is lower, 1 if it proves nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// The file of `elect --certificate`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The cluster: DIR/cluster of `tanist cluster new`
    #[arg(long, value_name = "DIR/cluster")]
    cluster: PathBuf,
    /// The resource that it must be of
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// The lowest term that counts: the highest that was seen before
    #[arg(long, value_name = "N")]
    min_term: Option<Term>,
}

pub(super) fn run(command: &Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Verify(args) => verify(args, global),
    }
}

fn verify(args: &Verify, global: &Global) -> Result<Exit, Failure> {
    let authority =
        Authority::from_cluster_file(&text(&args.cluster, "DIR/cluster of `tanist cluster new`")?);
    let authority = authority.map_err(|error| {
        Failure::failed("file", format!("{}: {error}", args.cluster.display()))
            .next("give DIR/cluster of `tanist cluster new`")
    })?;
    let certificate = Certificate::from_text(&text(&args.file, "the file of `elect --certificate`")?);
    let refused = |what: String| {
        Failure::failed("not-proven", format!("{}: {what}", args.file.display()))
            .next("ask whoever gave it for another; trust nothing that it says")
    };
    let certificate = certificate.map_err(|error| refused(error.to_string()))?;
    let proven = authority.verify(&certificate).map_err(|error| refused(error.to_string()))?;
    if let Some(wanted) = &args.resource
        && proven.resource.as_bytes() != wanted.as_bytes()
    {
        return Err(refused(format!("it is of the resource {}, not of {wanted}", proven.resource)));
    }
    if authority::admit(args.min_term, proven.term).is_err()
        && let Some(least) = args.min_term
    {
        let what = format!("fenced, term {} < {least}: a later owner was seen", proven.term);
        return Err(Failure::new(Exit::Fenced, "fenced", what)
            .detail("term", proven.term.to_string())
            .next("refuse what it is shown for"));
    }
    global.output().result(
        || {
            json!({
                "resource": proven.resource.to_string(),
                "term": proven.term.to_string(),
                "tenure": proven.tenure.to_string(),
                "owner": proven.owner.to_string(),
                "key": proven.key.map(|key| key.to_string()),
                "lease_ms": proven.lease_ms,
                "config_epoch": proven.config_epoch,
                "votes": certificate.proof.votes.len(),
            })
        },
        || {
            let what = match proven.key {
                Some(_) => format!("was owned by {}", proven.owner),
                None => format!("was given up by {}", proven.owner),
            };
            let votes = certificate.proof.votes.len();
            format!("{} {what}, term {}, by {votes} votes", proven.resource, proven.term)
        },
    )?;
    Ok(Exit::Done)
}

fn text(path: &Path, what: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::failed("file", format!("cannot read {}: {error}", path.display()))
            .next(format!("give {what}"))
    })
}
