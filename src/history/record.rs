//! Recorded histories: the lines of a file, and the judgement of all that is in them.
//!
//! A file is one object of JSON to a line. The first is `{"type":"history","version":1}`; then every
//! operation has an `invoke`, written before it is asked for, and at most one `ok`, `fail` or `unknown`,
//! written when it is known how it ended. One without an end is `unknown`. Versions, tenures, keys and
//! clients are any texts; times are nanoseconds on one clock.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::{linear, ownership, register, siblings};

/// The version of the format.
pub const VERSION: u32 = 1;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Line {
    /// The first line.
    History {
        /// The version of the format.
        version: u32,
    },
    /// An operation is asked for.
    Invoke {
        /// Its number: no other operation has it.
        op: u64,
        /// When.
        time: u64,
        /// Who asks.
        client: String,
        /// What.
        call: Call,
    },
    /// It was done.
    Ok {
        /// Which.
        op: u64,
        /// When that was known.
        time: u64,
        /// `get`, `read` and `final`: the versions that were shown. `put`: the versions that the
        /// acknowledgement lists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saw: Option<Vec<String>>,
        /// `swap` and `put`: the version that was made, if the `invoke` does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// `campaign`: the number of the term that was won.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        term: Option<u64>,
        /// `campaign`: the tenure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenure: Option<String>,
    },
    /// Nothing was done, and nothing will be.
    Fail {
        /// Which.
        op: u64,
        /// When that was known.
        time: u64,
        /// `swap`: the version that was there, or none; left out, if the answer does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saw: Option<Vec<String>>,
    },
    /// Nobody knows whether it was done, is, or will be.
    Unknown {
        /// Which.
        op: u64,
        /// `swap` and `put`: the version that it would make, if the `invoke` does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Call {
    /// To read a register.
    Get {
        /// Its key.
        register: String,
        /// The term under which it is sealed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        term: Option<u64>,
    },
    /// To put a version in the place of another (compare-and-set).
    Swap {
        /// The register's key.
        register: String,
        /// The version that must be there; left out, if none may be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The version that it makes: no other write makes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// The term under which it is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        term: Option<u64>,
    },
    /// To write to a key with siblings.
    Put {
        /// The key.
        siblings: String,
        /// The versions that the writer read.
        names: Vec<String>,
        /// The version that it makes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// To read a key with siblings from a quorum.
    Read {
        /// The key.
        siblings: String,
    },
    /// What one node holds when nothing is written any more.
    Final {
        /// The key with siblings.
        siblings: String,
        /// The node.
        node: String,
    },
    /// To own a resource.
    Campaign {
        /// The resource.
        resource: String,
    },
    /// To act as the owner, from here to the end of the operation.
    Hold {
        /// The resource.
        resource: String,
        /// The number of the term.
        term: u64,
    },
}

/// A line that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The first line is not that of a history of this version.
    #[error("the first line is not {{\"type\":\"history\",\"version\":{VERSION}}}")]
    NotAHistory,
    /// Two operations have one number, or one ends twice.
    #[error("operation {0} begins or ends a second time")]
    Twice(u64),
    /// The end of an operation that did not begin.
    #[error("operation {0} ends, and did not begin before")]
    NotBegun(u64),
    /// The answer came before the question.
    #[error("operation {0} ends before it begins")]
    Backwards(u64),
    /// The end does not say what an operation of this kind has to.
    #[error("operation {op}: {lacks}")]
    Lacks {
        /// Which.
        op: u64,
        /// What is not there.
        lacks: &'static str,
    },
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was done; what was shown.
    Ok(Option<Vec<String>>),
    /// Nothing was done; what was there.
    Fail(Option<Vec<String>>),
    /// Nobody knows.
    Unknown,
}

/// One operation of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub op: u64,
    /// Who asked.
    pub client: String,
    /// When it was asked for.
    pub asked: u64,
    /// When its answer came.
    pub answered: Option<u64>,
    /// What was asked; with the version that a write makes, if it is known.
    pub call: Call,
    /// How it ended.
    pub end: End,
    /// The term and the tenure of a campaign that was won.
    pub won: Option<(u64, String)>,
}

/// A history as it was recorded.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    begun: bool,
    operations: Vec<Recorded>,
    places: BTreeMap<u64, usize>,
    ended: BTreeSet<u64>,
}

/// What operations are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A register.
    Register,
    /// A key with siblings.
    Siblings,
    /// A resource with owners.
    Resource,
}

/// The judgement of one key or resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Operations that were done, that changed nothing, and of which nobody knows.
    pub counts: [u64; 3],
    /// What is wrong; the operations are places in [`Recording::operations`].
    pub finding: Option<Finding>,
}

impl Recording {
    /// Adds a line.
    ///
    /// # Errors
    ///
    /// The line cannot be where it is; nothing was added.
    pub fn add(&mut self, line: Line) -> Result<(), RecordError> {
        if let Line::History { version } = line {
            if self.begun || version != VERSION {
                return Err(RecordError::NotAHistory);
            }
            self.begun = true;
            return Ok(());
        }
        if !self.begun {
            return Err(RecordError::NotAHistory);
        }
        match line {
            Line::History { .. } => Ok(()),
            Line::Invoke { op, time, client, call } => {
                if self.places.insert(op, self.operations.len()).is_some() {
                    return Err(RecordError::Twice(op));
                }
                let end = End::Unknown;
                self.operations.push(Recorded {
                    op,
                    client,
                    asked: time,
                    answered: None,
                    call,
                    end,
                    won: None,
                });
                Ok(())
            }
            Line::Ok { op, time, saw, to, term, tenure } => {
                let recorded = self.end(op, Some(time), to)?;
                let lacks = match (&recorded.call, &saw) {
                    (Call::Get { .. } | Call::Read { .. } | Call::Final { .. }, None) => {
                        Some("it does not say what it saw")
                    }
                    (Call::Get { .. }, Some(saw)) if saw.len() > 1 => Some("a register has no siblings"),
                    _ => None,
                };
                if let Some(lacks) = lacks {
                    return Err(RecordError::Lacks { op, lacks });
                }
                recorded.won = match (&recorded.call, term, tenure) {
                    (Call::Campaign { .. }, Some(term), Some(tenure)) => Some((term, tenure)),
                    (Call::Campaign { .. }, ..) => {
                        return Err(RecordError::Lacks { op, lacks: "it does not say which term was won" });
                    }
                    _ => None,
                };
                recorded.end = End::Ok(saw);
                Ok(())
            }
            Line::Fail { op, time, saw } => {
                let recorded = self.end(op, Some(time), None)?;
                if saw.as_ref().is_some_and(|saw| saw.len() > 1) && matches!(recorded.call, Call::Swap { .. })
                {
                    return Err(RecordError::Lacks { op, lacks: "a register has no siblings" });
                }
                recorded.end = End::Fail(saw);
                Ok(())
            }
            Line::Unknown { op, to } => self.end(op, None, to).map(|_| ()),
        }
    }

    fn end(
        &mut self,
        op: u64,
        time: Option<u64>,
        made: Option<String>,
    ) -> Result<&mut Recorded, RecordError> {
        let place = self.places.get(&op).ok_or(RecordError::NotBegun(op))?;
        let recorded = &mut self.operations[*place];
        if time.is_some_and(|time| time < recorded.asked) {
            return Err(RecordError::Backwards(op));
        }
        if !self.ended.insert(op) {
            return Err(RecordError::Twice(op));
        }
        if let (Some(made), Call::Swap { to, .. } | Call::Put { to, .. }) = (made, &mut recorded.call) {
            *to = Some(made);
        }
        recorded.answered = time;
        Ok(recorded)
    }

    /// The operations, in the order in which they were asked for.
    pub fn operations(&self) -> &[Recorded] {
        &self.operations
    }

    /// Judges everything: registers, keys with siblings, resources, in this order and by name.
    ///
    /// # Errors
    ///
    /// A write that may have happened does not say which version it would have made.
    pub fn judge(&self) -> Result<Vec<Judged>, RecordError> {
        let mut about: BTreeMap<(Kind, &str), Vec<usize>> = BTreeMap::new();
        for (place, recorded) in self.operations.iter().enumerate() {
            about.entry(recorded.call.about()).or_default().push(place);
        }
        let judged = about.into_iter().map(|((kind, name), places)| {
            let mut counts = [0; 3];
            for place in &places {
                counts[match self.operations[*place].end {
                    End::Ok(_) => 0,
                    End::Fail(_) => 1,
                    End::Unknown => 2,
                }] += 1;
            }
            let finding = match kind {
                Kind::Register => self.register(&places)?,
                Kind::Siblings => self.siblings(&places)?,
                Kind::Resource => self.resource(&places),
            };
            Ok(Judged { kind, name: name.to_owned(), counts, finding })
        });
        judged.collect()
    }

    fn register(&self, places: &[usize]) -> Result<Option<Finding>, RecordError> {
        use linear::{Action, Came, Operation};
        let (mut fenced, mut of) = (Vec::new(), Vec::new());
        for place in places {
            let recorded = &self.operations[*place];
            let (action, term) = match (&recorded.call, &recorded.end) {
                (Call::Get { term, .. }, End::Ok(saw)) => {
                    (Action::Read(saw.iter().flatten().next()), term.unwrap_or(0))
                }
                (Call::Swap { from, to, term, .. }, end) => {
                    let came = match end {
                        End::Ok(_) => Came::Applied,
                        End::Fail(Some(saw)) => Came::Refused(saw.first()),
                        End::Fail(None) => Came::Failed,
                        End::Unknown => Came::Unknown,
                    };
                    let Some(to) = recorded.version(to)? else { continue };
                    (Action::Swap { from: from.as_ref(), to, came }, term.unwrap_or(0))
                }
                _ => continue,
            };
            fenced.push((Operation { asked: recorded.asked, answered: recorded.answered, action }, term));
            of.push(*place);
        }
        let operations: Vec<_> = fenced.iter().map(|(operation, _)| operation.clone()).collect();
        let judged = register::judge(&operations);
        let judged = judged.and_then(|order| ownership::judge_writes(&fenced, &order));
        Ok(found(judged, &of))
    }

    fn siblings(&self, places: &[usize]) -> Result<Option<Finding>, RecordError> {
        use siblings::{Action, Came, Operation};
        let (mut operations, mut of) = (Vec::new(), Vec::new());
        for place in places {
            let recorded = &self.operations[*place];
            let action = match (&recorded.call, &recorded.end) {
                (Call::Read { .. }, End::Ok(Some(saw))) => Action::Read(saw.clone()),
                (Call::Final { .. }, End::Ok(Some(saw))) => Action::Final(saw.clone()),
                (Call::Put { names, to, .. }, end) => {
                    let came = match end {
                        End::Ok(listed) => Came::Applied(listed.clone()),
                        End::Fail(_) => Came::Refused,
                        End::Unknown => Came::Unknown,
                    };
                    let Some(to) = recorded.version(to)?.cloned() else { continue };
                    Action::Put { names: names.clone(), to, came }
                }
                _ => continue,
            };
            operations.push(Operation { asked: recorded.asked, answered: recorded.answered, action });
            of.push(*place);
        }
        Ok(found(siblings::judge(&operations), &of))
    }

    fn resource(&self, places: &[usize]) -> Option<Finding> {
        use ownership::{Action, Operation};
        let (mut operations, mut of) = (Vec::new(), Vec::new());
        for place in places {
            let recorded = &self.operations[*place];
            let action = match (&recorded.call, &recorded.won) {
                (Call::Campaign { .. }, Some((term, tenure))) => Action::Won { term: *term, tenure },
                (Call::Hold { term, .. }, _) => Action::Held { term: *term },
                _ => continue,
            };
            operations.push(Operation { asked: recorded.asked, answered: recorded.answered, action });
            of.push(*place);
        }
        found(ownership::judge(&operations), &of)
    }
}

/// A finding in terms of the whole recording.
fn found<T>(judged: Result<T, Finding>, of: &[usize]) -> Option<Finding> {
    let finding = judged.err()?;
    Some(Finding::new(finding.rule, finding.operations.into_iter().map(|place| of[place])))
}

impl Call {
    /// What it is about.
    pub fn about(&self) -> (Kind, &str) {
        match self {
            Call::Get { register, .. } | Call::Swap { register, .. } => (Kind::Register, register),
            Call::Put { siblings, .. } | Call::Read { siblings } | Call::Final { siblings, .. } => {
                (Kind::Siblings, siblings)
            }
            Call::Campaign { resource } | Call::Hold { resource, .. } => (Kind::Resource, resource),
        }
    }
}

impl Recorded {
    /// The version that a write makes; none, if it makes none and does not say.
    fn version<'a>(&self, to: &'a Option<String>) -> Result<Option<&'a String>, RecordError> {
        match (to, &self.end) {
            (None, End::Ok(_) | End::Unknown) => Err(RecordError::Lacks {
                op: self.op,
                lacks: "it may have been done, and does not say what it made",
            }),
            (None, End::Fail(_)) => Ok(None),
            (Some(to), _) => Ok(Some(to)),
        }
    }
}
