//! `--if`: the versions that a write replaces, in text or from a file.

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use super::error::Failure;
use super::exit::Exit;
use super::failures;
use super::json;
use super::words::Site;
use crate::client::{Basis, Head, Space, Version, Versions};
use crate::core::object::Key;

/// Digits of an id that are enough to name it.
const SHORTEST: usize = 8;
/// Digits of a whole id.
const WHOLE: usize = 64;

/// What is given with `--if`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum If {
    /// `ID[+ID]`, or `absent`.
    Named(Vec<Name>),
    /// `@FILE`: what `get --save-version` wrote.
    Saved(PathBuf),
}

/// A version, or the beginning of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    generation: u64,
    digits: String,
}

impl FromStr for If {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(If::Saved(path.into()));
        }
        if text == "absent" {
            return Ok(If::Named(Vec::new()));
        }
        text.split('+').map(str::parse).collect::<Result<_, _>>().map(If::Named)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{text:?} is no version: give GENERATION-HEX with {SHORTEST} to {WHOLE} digits, several joined by +, \
                 `absent`, or @FILE"
            )
        };
        let (generation, digits) = text.split_once('-').ok_or_else(refused)?;
        let canonical = generation.bytes().all(|byte| byte.is_ascii_digit()) && !generation.starts_with('0');
        let hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !canonical || !hex || !(SHORTEST..=WHOLE).contains(&digits.len()) {
            return Err(refused());
        }
        let generation = generation.parse().map_err(|_| refused())?;
        Ok(Name { generation, digits: digits.to_owned() })
    }
}

impl Name {
    fn names(&self, version: &Version) -> bool {
        version.generation() == self.generation && version.id().to_string().starts_with(&self.digits)
    }

    /// The version, if the name is whole.
    fn whole(&self) -> Option<Version> {
        self.to_string().parse().ok()
    }

    /// The one version among `heads` that it names.
    pub(super) fn among<'a>(&self, heads: impl Iterator<Item = &'a Head>) -> Result<&'a Head, Lost> {
        let mut named = heads.filter(|head| self.names(head.version()));
        match (named.next(), named.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Lost::Nothing),
            (Some(_), Some(_)) => Err(Lost::Several),
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.generation, self.digits)
    }
}

/// A name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// No known version has it.
    Nothing,
    /// Several have.
    Several,
}

impl If {
    /// A line with `--op` is the same write whenever it is run again, so it has to fix what it replaces: the
    /// beginning of an id means something only while that version is held.
    pub(super) fn fixed_for(&self, operation: Option<&str>) -> Result<(), Failure> {
        let cut = match self {
            If::Named(names) => names.iter().find(|name| name.whole().is_none()),
            If::Saved(_) => None,
        };
        match (operation, cut) {
            (Some(_), Some(name)) => Err(Failure::usage(format!(
                "with --op the versions in --if have all {WHOLE} digits, and {name} has not: it would mean nothing \
                 when the line is run again later"
            ))
            .next("give the whole version, or @FILE of `get --save-version FILE`")),
            _ => Ok(()),
        }
    }

    /// The basis for a write of `key`.
    pub(super) async fn resolve(&self, site: Site<'_>, key: &Key, handle: &Space) -> Result<Basis, Failure> {
        match self {
            If::Saved(path) => self.saved(site, key, handle, path),
            If::Named(names) => {
                let versions = match names.iter().map(Name::whole).collect::<Option<Vec<_>>>() {
                    Some(whole) => whole,
                    None => by_reading(site, key, handle, names).await?,
                };
                Ok(Basis::new(key.as_bytes(), Versions::from(versions)))
            }
        }
    }

    fn saved(&self, site: Site<'_>, key: &Key, handle: &Space, path: &PathBuf) -> Result<Basis, Failure> {
        let shown = path.display();
        let failed = |what: String| {
            Failure::failed("file", what).next(site.line("get", &["--save-version", &path.to_string_lossy()]))
        };
        let bytes = std::fs::read(path).map_err(|error| failed(format!("cannot read {shown}: {error}")))?;
        let basis = Basis::from_bytes(&bytes).map_err(|error| failed(format!("{shown}: {error}")))?;
        let saved_key = basis.key().map_err(|error| failed(format!("{shown}: {error}")))?;
        if saved_key != key || basis.namespace().is_some_and(|saved| saved != handle.id()) {
            let what = format!("{shown} was saved of another key or namespace: of the key {saved_key}");
            return Err(Failure::usage(what).next(site.line("get", &["--save-version", "FILE"])));
        }
        Ok(basis)
    }
}

/// Beginnings of ids name versions that are known of the key, superseded ones too: `--or-sibling` may mean
/// one of these, and a refusal says what is there instead.
async fn by_reading(
    site: Site<'_>,
    key: &Key,
    handle: &Space,
    names: &[Name],
) -> Result<Vec<Version>, Failure> {
    let reading = handle.get(key.as_bytes()).history().await.map_err(|error| failures::read(site, &error))?;
    let known = || reading.siblings().iter().chain(reading.history()).map(|one| one.head());
    let live: Vec<&Head> = reading.siblings().iter().map(|one| one.head()).collect();
    let found = names.iter().map(|name| match (name.whole(), name.among(known())) {
        (Some(whole), _) => Ok(whole),
        (None, Ok(head)) => Ok(head.version().clone()),
        (None, Err(Lost::Several)) => {
            Err(Failure::usage(format!("{name} is the beginning of several versions of {}", site.name()))
                .next(site.line("show", &[])))
        }
        (None, Err(Lost::Nothing)) => {
            let there: Versions = live.iter().map(|head| head.version().clone()).collect();
            let what = format!(
                "no version of {} that is still known begins with {name}: there is {there}",
                site.name()
            );
            let current: Value = live.iter().map(|head| json::head(head)).collect();
            Err(Failure::new(Exit::Refused, "changed", what)
                .detail("current", current)
                .next(site.line("get", &[]))
                .next(site.line("show", &[])))
        }
    });
    found.collect()
}
