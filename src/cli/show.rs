//! `tanist show`: a key's known history.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{Global, Place};
use super::error::Failure;
use super::exit::Exit;
use super::words::Site;
use super::{failures, json as forms};
use crate::client::{Reading, Sibling};
use crate::core::cluster::Configuration;
use crate::core::identity::ActorId;
use crate::core::write::WriteId;

/// The live versions, and superseded ones that are still held: who wrote them, what they replaced, and
/// which nodes stamped them. All signatures were verified.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let key = args.place.key()?;
    let handle = global.open(&args.place.namespace).await?;
    let site = Site { global, namespace: &args.place.namespace, key: Some(&key) };
    let reading = handle.get(key.as_bytes()).history().await;
    let reading = reading.map_err(|error| failures::read(site, &error))?;
    if reading.siblings().is_empty() && reading.history().is_empty() {
        return Err(failures::absent(site, &[]));
    }
    let config = handle.client().configuration();
    let history = History { reading: &reading, config: &config };
    global.output().result(|| history.to_json(site), || history.to_text())?;
    Ok(Exit::Done)
}

struct History<'a> {
    reading: &'a Reading,
    config: &'a Configuration,
}

impl History<'_> {
    /// Newest first, with whether it is live.
    fn versions(&self) -> Vec<(&Sibling, bool)> {
        let live = self.reading.siblings().iter().map(|one| (one, true));
        let mut all: Vec<_> = live.chain(self.reading.history().iter().map(|one| (one, false))).collect();
        all.sort_by_key(|(one, live)| {
            (!live, std::cmp::Reverse(one.version().generation()), one.head().id())
        });
        all
    }

    fn node(&self, actor: ActorId) -> Option<&str> {
        let cluster = self.config.cluster();
        let members = &self.config.current().members;
        members.iter().find(|member| member.actor(cluster) == actor).map(|member| member.name.as_str())
    }

    /// A parent as it is written, if its generation is known.
    fn parent(&self, id: WriteId) -> String {
        let known = self.versions().into_iter().find(|(one, _)| one.head().id() == id);
        known.map_or(format!("{id} (not held any more)"), |(one, _)| one.version().to_string())
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (version, live) in self.versions() {
            let head = version.head();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{} {}",
                if live { "live      " } else { "superseded" },
                forms::in_words(head)
            );
            for parent in head.parents() {
                let _ = writeln!(text, "    replaces {}", self.parent(*parent));
            }
            for stamp in version.version().causality().stamps() {
                let stamp = stamp.stamp();
                let node = self.node(stamp.actor).unwrap_or("an earlier member");
                let _ = writeln!(
                    text,
                    "    stamped by {node} as event {} of {} (config epoch {}, policy revision {})",
                    stamp.counter, stamp.actor, stamp.config_epoch, stamp.policy_revision
                );
            }
        }
        for stamp in self.reading.evidence() {
            let (actor, counter) = stamp.stamp().dot();
            let node = self.node(actor).unwrap_or("an earlier member");
            let _ = writeln!(text, "evidence   {node} contradicts itself at event {counter} of {actor}");
        }
        text
    }

    fn to_json(&self, site: Site<'_>) -> Value {
        let versions = self.versions().into_iter().map(|(version, live)| {
            let mut object = forms::sibling(version);
            let causality = version.version().causality();
            let stamps = causality.stamps().map(|stamp| {
                let stamp = stamp.stamp();
                json!({
                    "actor": stamp.actor.to_string(),
                    "counter": stamp.counter,
                    "node": self.node(stamp.actor),
                    "config_epoch": stamp.config_epoch,
                    "policy_revision": stamp.policy_revision,
                })
            });
            if let Value::Object(fields) = &mut object {
                fields.insert("live".to_owned(), json!(live));
                fields.insert("stamps".to_owned(), stamps.collect());
            }
            object
        });
        let evidence = self.reading.evidence().iter().map(|stamp| {
            let (actor, counter) = stamp.stamp().dot();
            json!({ "actor": actor.to_string(), "counter": counter })
        });
        json!({
            "namespace": site.namespace,
            "key": forms::key(self.reading.key()),
            "versions": versions.collect::<Vec<_>>(),
            "evidence": evidence.collect::<Vec<_>>(),
        })
    }
}
