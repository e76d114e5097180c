//! `tanist check`: judges a recorded history, of this store or of another.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::Global;
use super::error::Failure;
use super::exit::Exit;
use crate::history::record::{Call, End, Judged, Kind, Line, Recorded, Recording};

/// A history is one object of JSON to a line: `invoke` before an operation is asked for, `ok`, `fail` or
/// `unknown` when it ended. Registers must be linearizable, what was acknowledged of siblings must be
/// there and told, and a resource must have had one owner at a time. Exit 1 if a promise was broken, with the
/// shortest explanation that was found.
#[derive(Debug, clap::Args)]
#[command(after_help = "The format is described in proto-docs/histories.md.")]
pub(super) struct Args {
    /// The file, or `-` for stdin
    #[arg(value_name = "HISTORY")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let recording = read(args)?;
    let judged = recording.judge().map_err(|error| file(args, &error))?;
    let operations = recording.operations();
    global.output().result(
        || json!({ "histories": judged.iter().map(|one| to_json(one, operations)).collect::<Vec<_>>() }),
        || judged.iter().map(|one| to_text(one, operations)).collect(),
    )?;
    let broken = judged.iter().filter(|one| one.finding.is_some()).count();
    if broken == 0 {
        return Ok(Exit::Done);
    }
    let what = format!("{broken} of {} histories break a promise", judged.len());
    Err(Failure::failed("violated", what).next("replay what is shown above; `tanist check --json` names it"))
}

fn read(args: &Args) -> Result<Recording, Failure> {
    let lines: Box<dyn BufRead> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(&args.file).map_err(|error| file(args, &error))?))
    };
    let mut recording = Recording::default();
    for (number, line) in (1..).zip(lines.lines()) {
        let at = |error: &dyn std::fmt::Display| file(args, &format!("line {number}: {error}"));
        let line = line.map_err(|error| at(&error))?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line).map_err(|error| at(&error))?;
        recording.add(line).map_err(|error| at(&error))?;
    }
    if recording.operations().is_empty() {
        return Err(file(args, &"there is no operation in it: nothing can be said"));
    }
    Ok(recording)
}

fn file(args: &Args, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed("file", format!("{}: {error}", args.file.display()))
        .next("give a history as proto-docs/histories.md describes it")
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Register => "register",
        Kind::Siblings => "siblings",
        Kind::Resource => "resource",
    }
}

fn to_json(judged: &Judged, operations: &[Recorded]) -> Value {
    let [done, failed, unknown] = judged.counts;
    let violation = judged.finding.as_ref().map(|finding| {
        let shown = finding.operations.iter().map(|place| operation_json(&operations[*place]));
        json!({ "rule": finding.rule, "operations": shown.collect::<Vec<_>>() })
    });
    json!({
        "kind": kind(judged.kind),
        "name": judged.name,
        "ok": done,
        "fail": failed,
        "unknown": unknown,
        "violation": violation,
    })
}

fn operation_json(recorded: &Recorded) -> Value {
    let (end, saw) = match &recorded.end {
        End::Ok(saw) => ("ok", saw),
        End::Fail(saw) => ("fail", saw),
        End::Unknown => ("unknown", &None),
    };
    json!({
        "op": recorded.op,
        "client": recorded.client,
        "asked": recorded.asked,
        "answered": recorded.answered,
        "call": recorded.call,
        "end": end,
        "saw": saw,
    })
}

fn to_text(judged: &Judged, operations: &[Recorded]) -> String {
    let [done, failed, unknown] = judged.counts;
    let verdict = match &judged.finding {
        None => "right".to_owned(),
        Some(finding) => format!("WRONG: {}", finding.rule),
    };
    let (kind, name) = (kind(judged.kind), &judged.name);
    let mut text = format!("{kind} {name}: {verdict} ({done} ok, {failed} fail, {unknown} unknown)\n");
    for place in judged.finding.iter().flat_map(|finding| &finding.operations) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", operation_text(&operations[*place]));
    }
    text
}

fn operation_text(recorded: &Recorded) -> String {
    let end = match &recorded.end {
        End::Ok(None) => "ok".to_owned(),
        End::Ok(Some(saw)) => format!("ok, saw {}", versions(saw)),
        End::Fail(None) => "failed".to_owned(),
        End::Fail(Some(saw)) => format!("failed, saw {}", versions(saw)),
        End::Unknown => "unknown".to_owned(),
    };
    let won = recorded.won.as_ref().map(|(term, tenure)| format!(", won term {term}, tenure {tenure}"));
    let until = recorded.answered.map_or("?".to_owned(), seconds);
    format!(
        "{} - {until}  {}  {}: {end}{}",
        seconds(recorded.asked),
        recorded.client,
        call(&recorded.call),
        won.unwrap_or_default(),
    )
}

fn call(call: &Call) -> String {
    let under = |term: &Option<u64>| term.map_or(String::new(), |term| format!(" under term {term}"));
    let or_absent = |version: &Option<String>| version.clone().unwrap_or_else(|| "absent".to_owned());
    match call {
        Call::Get { term, .. } => format!("get{}", under(term)),
        Call::Swap { from, to, term, .. } => {
            let to = to.as_deref().unwrap_or("?");
            format!("swap {} -> {to}{}", or_absent(from), under(term))
        }
        Call::Put { names, to, .. } => {
            format!("put {} -> {}", versions(names), to.as_deref().unwrap_or("?"))
        }
        Call::Read { .. } => "read".to_owned(),
        Call::Final { node, .. } => format!("final on {node}"),
        Call::Campaign { .. } => "campaign".to_owned(),
        Call::Hold { term, .. } => format!("hold term {term}"),
    }
}

fn versions(all: &[String]) -> String {
    if all.is_empty() { "absent".to_owned() } else { all.join("+") }
}

/// Nanoseconds as seconds.
fn seconds(time: u64) -> String {
    format!("{}.{:06} s", time / 1_000_000_000, time / 1_000 % 1_000_000)
}
