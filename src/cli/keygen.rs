//! `tanist keygen`: makes a private key.

use std::path::PathBuf;

use serde_json::json;

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::words::quoted;
use crate::node::{entropy, files};

/// An ed25519 key in PKCS#8 PEM that only you may read. Prints the public half, which grants name. A file
/// that exists is never written over.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the private key goes
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed("file", error).next("tanist keygen ANOTHER_FILE");
    let key = entropy::key().map_err(|error| failed(&error))?;
    files::save_key(&args.file, &key).map_err(|error| failed(&error))?;
    let public = key.public();
    let out = global.output();
    let file = args.file.to_string_lossy();
    out.result(|| json!({ "file": file, "public_key": public.to_string() }), || public.to_string())?;
    out.note(format!("an administrator can grant it rights: tanist grant add {public} NS --may read,write"));
    out.note(format!("to act with it: export TANIST_KEY={}", quoted(&file)));
    Ok(Exit::Done)
}
