//! `tanist conflicts`: the keys with siblings.

use serde_json::{Value, json};

use super::args::{Global, namespace_name};
use super::error::Failure;
use super::exit::Exit;
use super::failures;
use super::list::{all, entry};
use super::words::Site;
use crate::client::{Listed, Mode, OpenError, Versions};

/// One key a line: the namespace, the key and its versions, separated by tabs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The namespace; all that this key may read, if absent
    #[arg(value_name = "NS")]
    namespace: Option<String>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let mut found: Vec<(String, Listed)> = Vec::new();
    if let Some(name) = &args.namespace {
        namespace_name(name)?;
        let client = global.connect().await?;
        let site = Site { global, namespace: name, key: None };
        match client.siblings(name).await {
            Ok(handle) => {
                let listed = all(site, || handle.conflicts("")).await?;
                found.extend(listed.into_iter().map(|one| (name.clone(), one)));
            }
            // A register has one version.
            Err(OpenError::Mode { mode: Mode::Linearizable, .. }) => {
                global.output().note(format!("{name} is linearizable: its keys have no siblings"));
            }
            Err(error) => return Err(failures::open(site, &error)),
        }
    } else {
        let client = global.connect().await?;
        let config = client.configuration();
        let author = client.identity().public();
        let readable = config.policy().live_namespaces().filter(|namespace| {
            namespace.policy.mode == Mode::Siblings && config.policy().may_list(&author, namespace.id, b"")
        });
        let mut names: Vec<String> = readable.map(|namespace| namespace.policy.name.to_string()).collect();
        names.sort_unstable();
        for name in names {
            let site = Site { global, namespace: &name, key: None };
            // Dropped since: it has no conflicts.
            let Ok(handle) = client.siblings(&name).await else { continue };
            let listed = all(site, || handle.conflicts("")).await?;
            found.extend(listed.into_iter().map(|one| (name.clone(), one)));
        }
    }
    global.output().result(
        || json!({ "keys": found.iter().map(|(name, one)| entry(name, one)).collect::<Vec<Value>>() }),
        || found.iter().map(|(name, one)| line(name, one)).collect(),
    )?;
    Ok(Exit::Done)
}

fn line(namespace: &str, listed: &Listed) -> String {
    let versions: Versions = listed.live.iter().map(|(version, _)| version.clone()).collect();
    format!("{namespace}\t{}\t{versions}\n", listed.key)
}
