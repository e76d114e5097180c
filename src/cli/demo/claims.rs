//! The list of claims, and what comes of each.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value, json};

use super::world::World;
use super::{counting, creating, failure, forgery, ownership, partition, proof, race, retry, settling};

type Checked<'a> = Pin<Box<dyn Future<Output = Result<Finding, Surprise>> + 'a>>;

/// What is claimed.
pub(super) struct Claim {
    /// The promise behind it, as the design numbers them.
    promise: &'static str,
    /// For programs.
    name: &'static str,
    what: &'static str,
    check: for<'a> fn(&'a mut World) -> Checked<'a>,
}

/// All claims, in the order in which they are told.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        promise: "P3",
        name: "create",
        what: "a second creator is refused",
        check: |world| Box::pin(creating::check(world)),
    },
    Claim {
        promise: "P3",
        name: "count",
        what: "a register counts every increment once",
        check: |world| Box::pin(counting::check(world)),
    },
    Claim {
        promise: "P7",
        name: "owner",
        what: "an owner that was paused overwrites nothing",
        check: |world| Box::pin(ownership::check(world)),
    },
    Claim {
        promise: "P5",
        name: "settle",
        what: "a write whose answer was lost is settled for good",
        check: |world| Box::pin(settling::check(world)),
    },
    Claim {
        promise: "P1",
        name: "update",
        what: "a write that names what it read loses nothing",
        check: |world| Box::pin(race::check(world)),
    },
    Claim {
        promise: "P4",
        name: "retry",
        what: "a write sent ten times through three nodes is one version",
        check: |world| Box::pin(retry::check(world)),
    },
    Claim {
        promise: "P8",
        name: "forgery",
        what: "what its author did not sign, or may not write, is refused and counted",
        check: |world| Box::pin(forgery::check(world)),
    },
    Claim {
        promise: "P2",
        name: "partition",
        what: "both sides of a cut write, nothing is lost, a callback merges",
        check: |world| Box::pin(partition::check(world)),
    },
    Claim {
        promise: "P1",
        name: "kill",
        what: "kill -9 of a node hardly shows",
        check: |world| Box::pin(failure::check_kill(world)),
    },
    Claim {
        promise: "P3",
        name: "kill-registers",
        what: "kill -9 of a node hardly shows to who writes registers",
        check: |world| Box::pin(failure::check_kill_of_registers(world)),
    },
    Claim {
        promise: "P1",
        name: "stop",
        what: "a node that hangs (SIGSTOP) hardly shows",
        check: |world| Box::pin(failure::check_stop(world)),
    },
    Claim {
        promise: "P9",
        name: "durable",
        what: "kill -9 of all nodes at once loses nothing acknowledged",
        check: |world| Box::pin(failure::check_durable(world)),
    },
    Claim {
        promise: "P6",
        name: "certificate",
        what: "an ownership is proved with all nodes stopped, and nothing else is",
        check: |world| Box::pin(proof::check(world)),
    },
];

/// What was found.
pub(super) struct Finding {
    /// Whether it is as claimed.
    pub(super) holds: bool,
    /// In words.
    pub(super) found: String,
    /// For programs.
    pub(super) numbers: Map<String, Value>,
}

/// Something that keeps a claim from being checked: it does not hold then.
#[derive(Debug)]
pub(super) struct Surprise(String);

/// A claim that was checked.
pub(super) struct Told {
    pub(super) claim: &'static Claim,
    pub(super) holds: bool,
    pub(super) found: String,
    pub(super) numbers: Map<String, Value>,
    pub(super) ms: u64,
}

impl Claim {
    pub(super) async fn check(&self, world: &mut World) -> Result<Finding, Surprise> {
        (self.check)(world).await
    }
}

impl Finding {
    pub(super) fn new(holds: bool, found: impl Into<String>) -> Self {
        Finding { holds, found: found.into(), numbers: Map::new() }
    }

    pub(super) fn number(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.numbers.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn failed(surprise: Surprise) -> Self {
        Finding::new(false, surprise.0)
    }
}

impl Surprise {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Surprise(what.into())
    }
}

impl<E: Display> From<E> for Surprise {
    fn from(error: E) -> Self {
        Surprise(error.to_string())
    }
}

impl Told {
    pub(super) fn to_text(&self) -> String {
        let verdict = if self.holds { "ok  " } else { "FAIL" };
        let Claim { promise, what, .. } = self.claim;
        format!("{verdict} {promise} {:>6} ms  {what}: {}", self.ms, self.found)
    }

    pub(super) fn to_json(&self) -> Value {
        let Claim { promise, name, what, .. } = self.claim;
        json!({
            "name": name, "promise": promise, "claim": what, "holds": self.holds, "found": self.found,
            "numbers": self.numbers, "ms": self.ms,
        })
    }
}
