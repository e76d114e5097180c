//! `tanist get`: the value's bytes on stdout, and nothing else.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::write::replace_file;
use super::{failures, json as forms};
use crate::client::{Head, ReadError, Reading, Sibling};

/// Exit 4 if the key is absent or deleted. If it has siblings nothing is on stdout, they are listed on
/// stderr, and the exit code is 7. With --fenced-by the key is sealed: no write of an earlier owner is
/// applied any more.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Give all siblings: with --json, or into the files of --dir (exit 7 if there are several)
    #[arg(long)]
    all: bool,
    /// With --all: write each version's value to a file of its name in this folder
    #[arg(long, value_name = "D", requires = "all")]
    dir: Option<PathBuf>,
    /// Take one node's word: faster, works in any partition, may be old
    #[arg(long)]
    local: bool,
    /// Save which versions were read, for --if @FILE
    #[arg(long, value_name = "FILE")]
    save_version: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    if args.all && !global.json && args.dir.is_none() {
        return Err(Failure::usage("several values do not fit on stdout: --all needs --json or --dir D")
            .next("add --json or --dir D"));
    }
    let handle = global.open(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let mut get = handle.get(key.as_bytes());
    if args.local {
        get = get.local();
    }
    if global.fenced_by.is_some()
        && let Some(fence) = global.fence()?
    {
        get = get.fenced_by(fence);
    }
    let reading = get.await.map_err(|error| match (&error, global.fenced_by.is_some()) {
        (ReadError::Unavailable(_), true) => failures::read(site, &error)
            .state("the key may have been sealed, and nothing else changed; it is safe to run it again"),
        _ => failures::read(site, &error),
    })?;
    if let Some(path) = &args.save_version {
        save_version(path, &reading)?;
    }
    show(args, site, &reading)
}

fn show(args: &Args, site: Site<'_>, reading: &Reading) -> Result<Exit, Failure> {
    let out = site.global.output();
    let heads = || reading.siblings().iter().map(Sibling::head).cloned().collect::<Vec<Head>>();
    let files = match &args.dir {
        Some(dir) => Some(save_values(dir, reading)?),
        None => None,
    };
    match reading.value() {
        Ok(None) => Err(failures::absent(site, &heads())),
        Ok(Some(value)) => {
            match files {
                Some(files) => out.result(|| all(site, reading), || files)?,
                None if out.is_json() => out.result(|| all(site, reading), String::new)?,
                None => out.bytes(value)?,
            }
            Ok(Exit::Done)
        }
        Err(_) if args.all => {
            out.result(|| all(site, reading), || files.unwrap_or_default())?;
            out.note(siblings(site, &heads()).to_text().trim_end());
            Ok(Exit::Siblings)
        }
        Err(_) => {
            for head in heads() {
                out.note(forms::in_words(&head));
            }
            Err(siblings(site, &heads()))
        }
    }
}

fn siblings(site: Site<'_>, heads: &[Head]) -> Failure {
    Failure::new(Exit::Siblings, "siblings", format!("{} has {} siblings", site.name(), heads.len()))
        .detail("versions", heads.iter().map(forms::head).collect::<Value>())
        .next(site.line("resolve", &["--", "COMMAND"]))
        .next(site.line("get", &["--all", "--json"]))
}

fn all(site: Site<'_>, reading: &Reading) -> Value {
    let value = reading.value().ok().flatten();
    json!({
        "namespace": site.namespace,
        "key": forms::key(reading.key()),
        "basis": reading.versions().to_string(),
        "value": value.map(|value| forms::bytes(value)),
        "versions": reading.siblings().iter().map(forms::sibling).collect::<Vec<_>>(),
    })
}

fn save_version(path: &Path, reading: &Reading) -> Result<(), Failure> {
    let bytes = reading.basis().to_bytes().map_err(|error| Failure::usage(error.to_string()))?;
    replace_file(path, &bytes).map_err(|error| unwritten(path, &error))
}

/// Writes every live value to a file, and returns a line for each: its version, and the file's path.
fn save_values(dir: &Path, reading: &Reading) -> Result<String, Failure> {
    std::fs::create_dir_all(dir).map_err(|error| unwritten(dir, &error))?;
    let mut lines = String::new();
    for sibling in reading.siblings() {
        let version = sibling.version();
        match sibling.value() {
            Some(value) => {
                let path = dir.join(version.to_string());
                replace_file(&path, value).map_err(|error| unwritten(&path, &error))?;
                lines.push_str(&format!("{version}\t{}\n", path.display()));
            }
            None => lines.push_str(&format!("{version}\tdeleted\n")),
        }
    }
    Ok(lines)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed("file", format!("cannot write {}: {error}", path.display()))
        .next("name a place that can be written")
}
