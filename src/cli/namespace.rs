//! `tanist namespace`: creates, lists and drops namespaces.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::args::{Global, namespace_name};
use super::error::Failure;
use super::exit::Exit;
use super::{failures, json as forms};
use crate::client::Mode;
use crate::core::cluster::Configuration;
use crate::core::object::Key;
use crate::core::policy::Namespace;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Create a namespace (needs an administrator's key)
    Create(Create),
    /// List namespaces
    List,
    /// Drop a namespace with all that is in it (needs an administrator's key)
    Drop {
        /// The namespace
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit
    #[arg(value_name = "NAME")]
    name: String,
    /// What its keys promise; there is no default, and it stays so
    #[arg(long, value_enum)]
    mode: ModeArg,
    /// Durable copies before a write is acknowledged; a majority of the replicas if absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    write_quorum: Option<u8>,
    /// Take a write quorum so small that two concurrent writers may both not learn of it
    #[arg(long, requires = "write_quorum")]
    allow_silent_conflicts: bool,
    /// Every key belongs to the owner of this resource: only its fenced writes are applied
    #[arg(long, value_name = "RESOURCE")]
    owned_by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Available: concurrent writes are kept side by side
    Siblings,
    /// One value, read and replaced atomically
    Linearizable,
}

pub(super) async fn run(command: &Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Create(args) => create(args, global).await,
        Command::List => list(global).await,
        Command::Drop { name } => drop_one(name, global).await,
    }
}

async fn create(args: &Create, global: &Global) -> Result<Exit, Failure> {
    namespace_name(&args.name)?;
    let mode = match args.mode {
        ModeArg::Siblings => Mode::Siblings,
        ModeArg::Linearizable => Mode::Linearizable,
    };
    if mode == Mode::Linearizable && args.write_quorum.is_some() {
        return Err(Failure::usage("a linearizable namespace takes no write quorum: a majority decides")
            .next("leave --write-quorum out"));
    }
    if mode == Mode::Siblings && args.owned_by.is_some() {
        return Err(Failure::usage("only a linearizable namespace can be owned: siblings are never fenced")
            .next("--mode linearizable"));
    }
    let owned_by = args.owned_by.as_ref().map(|resource| Key::try_from(resource.as_bytes().to_vec()));
    let owned_by = owned_by.transpose().map_err(|error| {
        Failure::usage(format!("--owned-by: {error}")).next("choose a resource of 1 to 1024 bytes")
    })?;
    let identity = global.identity()?;
    let client = global.connect().await?;
    let replicas = client.configuration().replica_count();
    if let Some(quorum) = args.write_quorum {
        check_quorum(quorum, replicas, args.allow_silent_conflicts)?;
    }
    let mut words = vec!["namespace", "create", &args.name, "--mode", failures::mode_name(mode)];
    words.extend(args.owned_by.iter().flat_map(|resource| ["--owned-by", resource]));
    let quorum = args.write_quorum.map(|quorum| quorum.to_string());
    words.extend(quorum.iter().flat_map(|quorum| ["--write-quorum", quorum]));
    words.extend(args.allow_silent_conflicts.then_some("--allow-silent-conflicts"));
    let again = Global { identity: None, ..global.clone() }.line(&words);
    let admin = client.admin(identity);
    let created = match owned_by {
        Some(resource) => admin.create_owned_namespace(&args.name, resource).await,
        None => admin.create_namespace(&args.name, mode, args.write_quorum).await,
    };
    let id = created.map_err(|error| failures::admin(global, &error, &again))?;
    let out = global.output();
    out.result(|| json!({ "name": args.name, "id": id.to_string() }), || id.to_string())?;
    // An administrator's key alone may not write.
    let next = Global { identity: None, ..global.clone() }.line(&["create", &args.name, "KEY", "VALUE"]);
    out.note(format!("{} is there: {next}", args.name));
    Ok(Exit::Done)
}

/// Two concurrent writers learn of each other only if their quorums overlap (P2).
fn check_quorum(quorum: u8, replicas: usize, allowed: bool) -> Result<(), Failure> {
    let written = usize::from(quorum);
    let majority = replicas / 2 + 1;
    if written > replicas {
        return Err(Failure::usage(format!(
            "a key has {replicas} replicas: {quorum} of them cannot be written"
        ))
        .next(format!("--write-quorum {majority}")));
    }
    if 2 * written <= replicas && !allowed {
        let what = format!(
            "with {quorum} of {replicas} replicas two concurrent writers may both be told that all is well, and \
             siblings turn up later"
        );
        return Err(Failure::usage(what)
            .next(format!("--write-quorum {majority}"))
            .next("add --allow-silent-conflicts if that is meant"));
    }
    Ok(())
}

async fn list(global: &Global) -> Result<Exit, Failure> {
    let client = global.connect().await?;
    let config = client.configuration();
    let mut namespaces: Vec<&Namespace> = config.policy().live_namespaces().collect();
    namespaces.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
    global.output().result(
        || json!({ "namespaces": namespaces.iter().map(|one| to_json(&config, one)).collect::<Vec<_>>() }),
        || namespaces.iter().map(|one| to_text(&config, one)).collect(),
    )?;
    Ok(Exit::Done)
}

fn to_json(config: &Configuration, namespace: &Namespace) -> Value {
    let replicas = config.replica_count();
    json!({
        "name": namespace.policy.name.as_str(),
        "id": namespace.id.to_string(),
        "mode": failures::mode_name(namespace.policy.mode),
        "write_quorum": namespace.write_quorum(replicas),
        "read_quorum": namespace.read_quorum(replicas),
        "owned_by": namespace.owned_by.as_ref().map(forms::key),
    })
}

fn to_text(config: &Configuration, namespace: &Namespace) -> String {
    let replicas = config.replica_count();
    let (write, read) = (namespace.write_quorum(replicas), namespace.read_quorum(replicas));
    let mode = failures::mode_name(namespace.policy.mode);
    let owned = match &namespace.owned_by {
        Some(resource) => format!("\towned by {resource}"),
        None => String::new(),
    };
    format!(
        "{}\t{mode}\twrites {write} of {replicas}\treads {read}\t{}{owned}\n",
        namespace.policy.name, namespace.id
    )
}

async fn drop_one(name: &str, global: &Global) -> Result<Exit, Failure> {
    namespace_name(name)?;
    let identity = global.identity()?;
    let client = global.connect().await?;
    let again = Global { identity: None, ..global.clone() }.line(&["namespace", "drop", name]);
    let dropped = client.admin(identity).drop_namespace(name).await;
    let id = dropped.map_err(|error| failures::admin(global, &error, &again))?;
    global.output().result(|| json!({ "name": name, "id": id.to_string() }), || id.to_string())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::check_quorum;

    #[test]
    fn a_quorum_that_hides_conflicts_is_asked_for_by_name() {
        assert!(check_quorum(2, 3, false).is_ok());
        assert!(check_quorum(1, 3, true).is_ok());
        assert!(check_quorum(1, 1, false).is_ok());
        let error = check_quorum(1, 3, false).unwrap_err();
        assert!(error.to_text().contains("--allow-silent-conflicts"), "{}", error.to_text());
        assert!(check_quorum(4, 3, true).is_err());
    }
}
