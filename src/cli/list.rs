//! `tanist list`: the keys of a namespace.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::args::{self, Global};
use super::error::Failure;
use super::exit::Exit;
use super::progress::Progress;
use super::words::Site;
use super::{failures, json as forms};
use crate::client::{List, Listed};
use crate::core::object::Key;

/// One key a line, in the order of their bytes; bytes that are no text as \xNN, a backslash as \\. Not a
/// snapshot: keys that are written meanwhile may be missing or not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The namespace
    #[arg(value_name = "NS")]
    namespace: String,
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// PREFIX is written in hexadecimal digits
    #[arg(long)]
    key_hex: bool,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let prefix = args::bytes(&args.prefix, args.key_hex)?;
    let handle = global.open(&args.namespace).await?;
    let site = Site { global, namespace: &args.namespace, key: None };
    let listed = all(site, || handle.list(&prefix)).await?;
    global.output().result(
        || json!({ "keys": listed.iter().map(|one| entry(site.namespace, one)).collect::<Vec<Value>>() }),
        || listed.iter().map(|one| format!("{}\n", one.key)).collect(),
    )?;
    Ok(Exit::Done)
}

/// Every page of a listing.
pub(super) async fn all<'a>(site: Site<'_>, ask: impl Fn() -> List<'a>) -> Result<Vec<Listed>, Failure> {
    let progress = Progress::start(site.global.output(), format!("keys of {}:", site.namespace));
    let mut listed = Vec::new();
    let mut after: Option<Key> = None;
    loop {
        let page = match after {
            Some(key) => ask().after(key),
            None => ask(),
        };
        let page = page.await.map_err(|error| failures::list(site, &error))?;
        progress.add(page.keys.len());
        listed.extend(page.keys);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(listed),
        }
    }
}

/// A key of a listing as JSON.
pub(super) fn entry(namespace: &str, listed: &Listed) -> Value {
    json!({
        "namespace": namespace,
        "key": forms::key(&listed.key),
        "versions": listed.live.iter().map(forms::listed).collect::<Vec<_>>(),
    })
}
