//! `tanist owner`: who owns a resource.

use serde_json::json;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::resource::{self, ResourceName};
use crate::client::Observation;

/// Exit 4 if nobody owns it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    resource: ResourceName,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let resource = args.resource.open(global).await?;
    let seen = resource.observe().await.map_err(|error| resource::read(global, &args.resource, &error))?;
    let Some(Observation { term, tenure, owner: Some(owner), lease_ms, left, .. }) = seen else {
        let what = match seen {
            Some(resigned) => {
                format!("nobody owns {}: its last owner resigned, term {}", args.resource, resigned.term)
            }
            None => format!("nobody ever owned {}", args.resource),
        };
        return Err(Failure::new(Exit::Absent, "absent", what).next(global.line(&[
            "elect",
            args.resource.as_str(),
            "--",
            "COMMAND",
        ])));
    };
    global.output().result(
        || {
            json!({
                "resource": args.resource.as_str(),
                "owner": owner.to_string(),
                "term": term.to_string(),
                "tenure": tenure.to_string(),
                "lease_ms": lease_ms,
                "left_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            })
        },
        || {
            let lease = f64::from(lease_ms) / 1_000.0;
            format!(
                "{owner}\tterm {term}\tlease {lease} s, followed in {:.1} s if it is not renewed",
                left.as_secs_f64()
            )
        },
    )?;
    Ok(Exit::Done)
}
