//! `tanist grant`: says who may do what.

use std::ffi::OsString;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::args::{self, Global, namespace_name};
use super::error::Failure;
use super::exit::Exit;
use super::resource::RESOURCES;
use super::{failures, json as forms};
use crate::client::{Client, Grant, Rights};
use crate::core::cluster::Configuration;
use crate::core::identity::PublicKey;
use crate::core::object::{Key, NamespaceId};
use crate::core::policy::PolicyError;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Let an author do more (needs an administrator's key)
    Add(Args),
    /// Take back exactly this grant (needs an administrator's key)
    Remove(Args),
    /// List grants
    List,
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A public key, or '*' for everybody who has a key
    #[arg(value_name = "AUTHOR")]
    author: String,
    /// The namespace, '*' for all, or @resources: to read and elect there is to see owners and to campaign
    #[arg(value_name = "NS")]
    namespace: String,
    /// For keys that begin so only
    #[arg(long, value_name = "P", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// The prefix is written in hexadecimal digits
    #[arg(long, requires = "prefix")]
    key_hex: bool,
    /// What: separated by commas
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    may: Vec<May>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum May {
    /// Read values and what is known of them
    Read,
    /// Write and delete
    Write,
    /// Campaign for resources
    Elect,
}

pub(super) async fn run(command: &Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Add(args) => change(args, global, true).await,
        Command::Remove(args) => change(args, global, false).await,
        Command::List => list(global).await,
    }
}

async fn change(args: &Args, global: &Global, add: bool) -> Result<Exit, Failure> {
    let author = match args.author.as_str() {
        "*" => None,
        text => Some(text.parse::<PublicKey>().map_err(|error| {
            Failure::usage(format!("{text:?} is no author: {error}"))
                .next("give the 64 digits that `tanist keygen` prints, or '*'")
        })?),
    };
    if args.namespace != "*" && args.namespace != RESOURCES {
        namespace_name(&args.namespace)?;
    }
    let prefix = args::bytes(&args.prefix, args.key_hex)?;
    let identity = global.identity()?;
    let client = global.connect().await?;
    let grant = grant(args, global, author, prefix, &client)?;
    let may = names(grant.rights).join(",");
    let verb = if add { "add" } else { "remove" };
    let mut words = vec!["grant".to_owned(), verb.to_owned(), args.author.clone(), args.namespace.clone()];
    if !grant.prefix.is_empty() {
        words.extend(["--prefix".to_owned(), args.prefix.to_string_lossy().into_owned()]);
    }
    words.extend(["--may".to_owned(), may.clone()]);
    let again = Global { identity: None, ..global.clone() }.line(&words);
    let admin = client.admin(identity);
    let made = match add {
        true => admin.add_grant(grant.clone()).await,
        false => admin.remove_grant(grant.clone()).await,
    };
    made.map_err(|error| failures::admin(global, &error, &again))?;
    let out = global.output();
    let config = client.configuration();
    out.result(|| to_json(&config, &grant), String::new)?;
    out.note(format!("{} {may} in {}", if add { "granted:" } else { "taken back:" }, args.namespace));
    Ok(Exit::Done)
}

fn grant(
    args: &Args,
    global: &Global,
    author: Option<PublicKey>,
    prefix: Vec<u8>,
    client: &Client,
) -> Result<Grant, Failure> {
    let config = client.configuration();
    let namespace = match args.namespace.as_str() {
        "*" => None,
        RESOURCES => Some(NamespaceId::resources(config.cluster())),
        name => {
            let found = config.policy().namespace(&namespace_name(name)?).map(|namespace| namespace.id);
            let unknown = || failures::policy(global, &PolicyError::NoSuchNamespace);
            Some(found.ok_or_else(unknown)?)
        }
    };
    let has = |right| args.may.contains(&right);
    let rights = Rights { read: has(May::Read), write: has(May::Write), elect: has(May::Elect) };
    Ok(Grant { author, namespace, prefix, rights })
}

async fn list(global: &Global) -> Result<Exit, Failure> {
    let client = global.connect().await?;
    let config = client.configuration();
    let grants: Vec<&Grant> = config.policy().grants().collect();
    global.output().result(
        || json!({ "grants": grants.iter().map(|grant| to_json(&config, grant)).collect::<Vec<_>>() }),
        || grants.iter().map(|grant| to_text(&config, grant)).collect(),
    )?;
    Ok(Exit::Done)
}

fn names(rights: Rights) -> Vec<&'static str> {
    let all = [("read", rights.read), ("write", rights.write), ("elect", rights.elect)];
    all.into_iter().filter(|(_, held)| *held).map(|(name, _)| name).collect()
}

/// The name of the grant's namespace; its id if it was dropped.
fn namespace(config: &Configuration, grant: &Grant) -> Option<String> {
    let id = grant.namespace?;
    if id == NamespaceId::resources(config.cluster()) {
        return Some(RESOURCES.to_owned());
    }
    let known = config.policy().namespace_by_id(id).filter(|namespace| namespace.dropped.is_none());
    Some(known.map_or(id.to_string(), |namespace| namespace.policy.name.to_string()))
}

fn to_json(config: &Configuration, grant: &Grant) -> Value {
    json!({
        "author": grant.author.map(|author| author.to_string()),
        "namespace": namespace(config, grant),
        "prefix": forms::bytes(&grant.prefix),
        "may": names(grant.rights),
    })
}

fn to_text(config: &Configuration, grant: &Grant) -> String {
    let author = grant.author.map_or("*".to_owned(), |author| author.to_string());
    let namespace = namespace(config, grant).unwrap_or("*".to_owned());
    // A prefix has the form of a key.
    let prefix = Key::try_from(grant.prefix.clone()).map_or(String::new(), |prefix| prefix.to_string());
    format!("{author}\t{namespace}\t{prefix}\t{}\n", names(grant.rights).join(","))
}
