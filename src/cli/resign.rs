//! `tanist resign`: lets go of a resource.

use serde_json::json;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::resource::{self, ResourceName};

/// Needs the fence of the tenure: --fenced-by, or TANIST_FENCE. Another may own the resource at once, and
/// the fence must not be used again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    resource: ResourceName,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let Some(fence) = global.fence()? else {
        return Err(Failure::usage("only who holds the tenure can resign it: there is no fence")
            .next(global.line(&["resign", args.resource.as_str(), "--fenced-by", "FILE"])));
    };
    if *fence.resource() != args.resource.key()? {
        let what = format!("the fence is of the resource {}, not of {}", fence.resource(), args.resource);
        return Err(Failure::usage(what).next("name its own resource"));
    }
    let resource = args.resource.open(global).await?;
    let ended = resource.resign(&fence).await;
    let ended = ended.map_err(|error| resource::campaign(global, &args.resource, &error))?;
    let term = fence.term();
    let out = global.output();
    out.result(
        || json!({ "resource": args.resource.as_str(), "term": term.to_string(), "ended": ended }),
        String::new,
    )?;
    out.note(match ended {
        true => format!("{}: term {term} is over", args.resource),
        false => format!("{}: term {term} was over already", args.resource),
    });
    Ok(Exit::Done)
}
