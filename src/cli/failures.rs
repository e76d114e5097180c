//! What the errors of the SDK mean on the command line: exit code, the state that is left, what to
//! type next.

use serde_json::{Value, json};

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use super::json;
use super::words::Site;
use crate::client::{
    AdminError, ConnectError, Head, ListError, Mode, OpenError, ReadError, RefusedReason, Versions,
    WriteError,
};
use crate::core::cluster::ConfigError;
use crate::core::identity::PublicKey;
use crate::core::policy::PolicyError;
use crate::core::register::Bound;
use crate::wire::client::Failure as NodeFailure;

/// There is no connection.
pub(super) fn connect(global: &Global, error: &ConnectError, public: &PublicKey) -> Failure {
    let status = || global.line(&["status"]);
    match error {
        ConnectError::Denied(_) => Failure::new(Exit::Denied, "denied", error)
            .next(grant(&public.to_string(), "NS"))
            .next("or act with a key that may: --key FILE"),
        ConnectError::Unavailable(_) => unavailable(error, status()),
        ConnectError::NoSuchMember(_) => {
            Failure::usage(error).next(Global { at: None, ..global.clone() }.line(&["status"]))
        }
        ConnectError::Forged(_) => Failure::failed("forged", error)
            .next("check that the ticket is of this cluster, and who answers at its addresses"),
        ConnectError::NoIdentity | ConnectError::Endpoint(_) | ConnectError::Ticket(_) => {
            Failure::failed("system", error).next(status())
        }
    }
}

/// A namespace cannot be opened.
pub(super) fn open(site: Site<'_>, error: &OpenError) -> Failure {
    let list = || site.global.line(&["namespace", "list"]);
    match error {
        OpenError::Name(_) => Failure::new(Exit::Usage, "invalid-namespace", error).next(list()),
        OpenError::Unknown(name) => {
            let create = ["namespace", "create", name, "--mode", "siblings", "--key", "ADMIN_KEY"];
            let global = Global { identity: None, at: None, ..site.global.clone() };
            Failure::failed("unknown-namespace", format!("there is no namespace {name:?}"))
                .next(global.line(&create))
                .next(list())
        }
        OpenError::Mode { name, mode } => {
            let lack = match mode {
                Mode::Linearizable => "its keys have no siblings",
                Mode::Siblings => "its keys are no registers",
            };
            let what = format!("{name:?} is {}: {lack}", mode_name(*mode));
            Failure::usage(what).next(site.global.line(&["namespace", "list"]))
        }
        OpenError::Unavailable(_) => unavailable(error, site.global.line(&["status"])),
    }
}

/// The word for a mode.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Siblings => "siblings",
        Mode::Linearizable => "linearizable",
    }
}

/// Something that a later version does.
pub(super) fn not_built(what: &str) -> Failure {
    Failure::failed("not-built", format!("{what} is not built yet"))
        .next("tanist namespace create NAME --mode siblings --key ADMIN_KEY   (the mode that is)")
}

/// A read failed.
pub(super) fn read(site: Site<'_>, error: &ReadError) -> Failure {
    match error {
        ReadError::Key(_) => {
            Failure::new(Exit::Usage, "invalid-key", error).next("choose a key of 1 to 1024 bytes")
        }
        ReadError::Denied(_) => denied(site, error, "read"),
        ReadError::UnknownNamespace => unknown_namespace(site),
        ReadError::Unavailable(_) => unavailable(error, site.global.line(&["status"])),
        ReadError::Forged(_) => Failure::failed("forged", error)
            .next(site.global.line(&["status"]))
            .next("send it to another node: --at NODE"),
        ReadError::Fenced(bound) => fenced(site, bound),
        ReadError::NotFenced => Failure::usage(error).next(site.global.line(&["namespace", "list"])),
        ReadError::Resolver(_) => {
            Failure::failed("command", error).next(site.line("get", &["--all", "--json"]))
        }
        ReadError::Node(failure) => node(site, failure),
    }
}

/// A write came to no verdict, or nothing was tried. An unknown outcome is worded by the writer, who
/// has its receipt.
pub(super) fn write(site: Site<'_>, error: &WriteError) -> Failure {
    match error {
        WriteError::Unknown(unknown) => Failure::new(Exit::Unknown, "unknown", unknown)
            .state("the write may have been applied, or may yet be; a new one could come on top of it"),
        WriteError::Key(_) => {
            Failure::new(Exit::Usage, "invalid-key", error).next("choose a key of 1 to 1024 bytes")
        }
        WriteError::OtherNamespace => {
            Failure::usage(error).next(site.line("get", &["--save-version", "FILE"]))
        }
        WriteError::TooLarge { .. } => Failure::failed("too-large", error)
            .next("store it in parts, or elsewhere under the name of its hash"),
        WriteError::Denied(_) => denied(site, error, "write"),
        WriteError::UnknownNamespace => unknown_namespace(site),
        WriteError::Expired { .. } => Failure::failed("expired", error).next(site.line("get", &[])),
        WriteError::Forgotten => Failure::new(Exit::Unknown, "forgotten", error)
            .state("it was applied or not, and nobody can tell any more; it never will be now")
            .next(site.line("get", &[])),
        WriteError::Unavailable(_) => unavailable(error, site.global.line(&["status"])),
        WriteError::Read(error) => read(site, error),
        WriteError::Receipt(_) => {
            Failure::failed("file", error).next("give --receipt a file that can be written")
        }
        WriteError::Node(failure) => node(site, failure),
    }
}

/// A listing is not complete.
pub(super) fn list(site: Site<'_>, error: &ListError) -> Failure {
    match error {
        ListError::Unavailable { .. } => unavailable(error, site.global.line(&["status"])),
        ListError::Read(error) => read(site, error),
    }
}

/// A change of the configuration failed; `again` is its command line.
pub(super) fn admin(global: &Global, error: &AdminError, again: &str) -> Failure {
    match error {
        AdminError::Name(_) => {
            Failure::new(Exit::Usage, "invalid-namespace", error).next("choose another name")
        }
        AdminError::Refused(ConfigError::NotAdmin) => {
            let what = "this key is no administrator's";
            Failure::new(Exit::Denied, "denied", what).next(format!("{again} --key DIR/admin.key"))
        }
        AdminError::Refused(ConfigError::Policy(error)) => policy(global, error),
        AdminError::Refused(_) => Failure::new(Exit::Refused, "changed", error).next(again),
        AdminError::Node(NodeFailure::Denied(_)) => {
            Failure::new(Exit::Denied, "denied", error).next(format!("{again} --key DIR/admin.key"))
        }
        AdminError::Node(NodeFailure::Overloaded) => unavailable(error, again.to_owned()),
        AdminError::Node(NodeFailure::DiskFull) => Failure::failed("disk-full", error).next("make room"),
        AdminError::Node(_) => Failure::failed("rejected", error).next(global.line(&["status"])),
        AdminError::NotBuilt(what) => not_built(what),
        AdminError::Unknown(_) => Failure::new(Exit::Unknown, "unknown", error)
            .state("the change may have been decided, or may yet be; making it again is safe")
            .next(again),
        AdminError::Unavailable(_) => unavailable(error, again.to_owned()),
    }
}

/// A change of the policy does not fit.
pub(super) fn policy(global: &Global, error: &PolicyError) -> Failure {
    let namespaces = global.line(&["namespace", "list"]);
    let grants = global.line(&["grant", "list"]);
    match error {
        PolicyError::NameTaken(_) | PolicyError::GrantExists => {
            Failure::new(Exit::Refused, "exists", error).next(namespaces).next(grants)
        }
        PolicyError::NoSuchNamespace => Failure::failed("unknown-namespace", error).next(namespaces),
        PolicyError::NoSuchGrant => Failure::new(Exit::Absent, "absent", error).next(grants),
        PolicyError::Full => Failure::failed("rejected", error).next(namespaces).next(grants),
        PolicyError::Quorum
        | PolicyError::RegisterQuorum
        | PolicyError::OwnedSiblings
        | PolicyError::NotPolicy => Failure::usage(error).next(namespaces),
    }
}

/// A write was refused.
pub(super) fn refused(
    site: Site<'_>,
    reason: RefusedReason,
    current: Option<&[Head]>,
    value: &[&str],
) -> Failure {
    let name = site.name();
    if let RefusedReason::Fenced(bound) = &reason {
        return fenced(site, bound);
    }
    let Some(heads) = current else {
        let what = format!("{name}: {reason}; this key may not read what is there");
        return Failure::new(Exit::Refused, kind(&reason), what)
            .detail("current", Value::Null)
            .next(grant("AUTHOR", site.namespace));
    };
    let there = heads.iter().map(json::in_words).collect::<Vec<_>>().join(", and ");
    let deleted = heads.iter().all(Head::is_delete);
    let what = match (&reason, heads.len()) {
        (RefusedReason::Exists, _) => format!("{name} exists: {there}"),
        (_, 0) => format!("{name}: {reason}: it is absent"),
        (_, _) => format!("{name}: {reason}: there is {there}"),
    };
    let failure = Failure::new(Exit::Refused, kind(&reason), what)
        .detail("current", heads.iter().map(json::head).collect::<Value>());
    if deleted {
        return failure.next(site.line("create", &[if value.is_empty() { "VALUE" } else { value[0] }]));
    }
    let versions: Versions = heads.iter().map(|head| head.version().clone()).collect();
    let versions = versions.to_string();
    let mut replace = if value.is_empty() { vec!["VALUE"] } else { value.to_vec() };
    replace.extend(["--if", &versions]);
    let failure = failure.next(site.line("get", if heads.len() > 1 { &["--all", "--json"] } else { &[] }));
    match heads.len() {
        1 => failure.next(site.line("replace", &replace)),
        _ => failure.next(site.line("resolve", &["--", "COMMAND"])).next(site.line("replace", &replace)),
    }
}

fn kind(reason: &RefusedReason) -> &'static str {
    match reason {
        RefusedReason::Exists => "exists",
        RefusedReason::Changed => "changed",
        RefusedReason::Fenced(_) => "fenced",
    }
}

/// A register is bound to an ownership that this command does not have, or no longer.
pub(super) fn fenced(site: Site<'_>, bound: &Bound) -> Failure {
    let resource = bound.resource.to_string();
    let held = site.global.term();
    let what = match &held {
        Some((held, term)) if *held == bound.resource => {
            format!("{}: fenced, term {term} < {}", site.name(), bound.term)
        }
        Some((held, _)) => {
            format!("{}: fenced: the key belongs to the owner of {resource}, not of {held}", site.name())
        }
        None => format!("{}: fenced: only the owner of {resource} may write here", site.name()),
    };
    let held = held.map(|(resource, term)| (json::key(&resource), term.to_string()));
    Failure::new(Exit::Fenced, "fenced", what)
        .detail("resource", json::key(&bound.resource))
        .detail("needed", bound.term.to_string())
        .detail("held", held.map(|(resource, term)| json!({ "resource": resource, "term": term })))
        .next(site.global.line(&["owner", &resource]))
        .next(site.global.line(&["elect", &resource, "--", "COMMAND"]))
}

/// There is nothing under the key.
pub(super) fn absent(site: Site<'_>, deletions: &[Head]) -> Failure {
    let what = match deletions {
        [] => format!("{} is absent", site.name()),
        some => {
            let who = some.iter().map(json::in_words).collect::<Vec<_>>().join(", and ");
            format!("{} was deleted: {who}", site.name())
        }
    };
    Failure::new(Exit::Absent, "absent", what)
        .detail("versions", deletions.iter().map(json::head).collect::<Value>())
        .next(site.line("create", &["VALUE"]))
        .next(site.line("show", &[]))
}

fn node(site: Site<'_>, failure: &NodeFailure) -> Failure {
    let status = || site.global.line(&["status"]);
    match failure {
        NodeFailure::Denied(_) => denied(site, failure, "read,write"),
        NodeFailure::UnknownNamespace => unknown_namespace(site),
        NodeFailure::Mode(mode) => {
            let what = format!("{:?} is {}, which does not do that", site.namespace, mode_name(*mode));
            Failure::usage(what).next(site.global.line(&["namespace", "list"]))
        }
        NodeFailure::Expired { .. } => Failure::failed("expired", failure).next(site.line("get", &[])),
        NodeFailure::UnknownParents(ids) => {
            let what = format!("{}: no replica knows the version that is named", site.name());
            let unknown: Vec<String> = ids.iter().map(ToString::to_string).collect();
            Failure::new(Exit::Refused, "changed", what)
                .detail("unknown", json!(unknown))
                .next(site.line("get", &[]))
        }
        NodeFailure::Generation => {
            let what = format!("{}: the generation of a version that is named is wrong", site.name());
            Failure::new(Exit::Refused, "changed", what).next(site.line("show", &[]))
        }
        NodeFailure::TooManySiblings(_) => Failure::failed("too-many-siblings", failure)
            .next(site.line("resolve", &["--", "COMMAND"]))
            .next(site.line("replace", &["VALUE", "--if", "ID"])),
        NodeFailure::Rejected(_) | NodeFailure::Malformed(_) => {
            Failure::failed("rejected", failure).next(status())
        }
        NodeFailure::Unavailable(_) | NodeFailure::Overloaded => unavailable(failure, status()),
        NodeFailure::DiskFull => Failure::failed("disk-full", failure)
            .next("make room on that node, then try again")
            .next(status()),
        NodeFailure::NeedsTenure => Failure::failed("needs-tenure", failure).next(site.line("get", &[])),
        NodeFailure::NotBuilt(what) => not_built(what),
    }
}

fn denied(site: Site<'_>, error: &dyn std::fmt::Display, right: &str) -> Failure {
    let author = site.global.identity().map_or("AUTHOR".to_owned(), |identity| identity.public().to_string());
    Failure::new(Exit::Denied, "denied", error).next(grant_right(&author, site.namespace, right))
}

fn grant(author: &str, namespace: &str) -> String {
    grant_right(author, namespace, "read,write")
}

fn grant_right(author: &str, namespace: &str, right: &str) -> String {
    format!("tanist grant add {author} {namespace} --may {right} --key ADMIN_KEY")
}

fn unknown_namespace(site: Site<'_>) -> Failure {
    Failure::failed("unknown-namespace", format!("there is no namespace {:?} any more", site.namespace))
        .next(site.global.line(&["namespace", "list"]))
}

pub(super) fn unavailable(error: &dyn std::fmt::Display, status: String) -> Failure {
    // The same state in the same words as everywhere: the SDK's message may hold it too.
    let what = error.to_string().replace("unavailable, nothing changed: ", "unavailable: ");
    Failure::new(Exit::Unavailable, "unavailable", what)
        .state("nothing changed; it is safe to run it again")
        .next("run it again")
        .next(status)
}
