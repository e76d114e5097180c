//! What a command says when it does not end well: three lines, or one object of JSON, on stderr.
//!
//! The lines are what happened, what state is left, and what to type next.

use serde_json::{Map, Value, json};

use super::exit::Exit;

/// A command did not end well.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// How the process ends.
    pub(super) exit: Exit,
    /// For programs: one word that never changes.
    pub(super) kind: &'static str,
    /// What happened.
    pub(super) what: String,
    /// What state is left.
    pub(super) state: String,
    /// What to type next: commands, or advice. At least one.
    pub(super) next: Vec<String>,
    /// More for programs.
    pub(super) details: Map<String, Value>,
}

/// The state that most failures leave.
pub(super) const NOTHING_CHANGED: &str = "nothing changed";

impl Failure {
    /// A failure that changed nothing.
    pub(super) fn new(exit: Exit, kind: &'static str, what: impl ToString) -> Self {
        Failure {
            exit,
            kind,
            what: what.to_string(),
            state: NOTHING_CHANGED.to_owned(),
            next: Vec::new(),
            details: Map::new(),
        }
    }

    /// Something local went wrong before anything was done.
    pub(super) fn failed(kind: &'static str, what: impl ToString) -> Self {
        Self::new(Exit::Failed, kind, what)
    }

    /// The command line makes no sense.
    pub(super) fn usage(what: impl ToString) -> Self {
        Self::new(Exit::Usage, "usage", what)
    }

    /// It left this state.
    pub(super) fn state(mut self, state: impl Into<String>) -> Self {
        self.state = state.into();
        self
    }

    /// This may be typed next.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// More for programs.
    pub(super) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The three lines.
    pub(super) fn to_text(&self) -> String {
        let next = match self.next.as_slice() {
            [] => "see `tanist --help`".to_owned(),
            next => next.join("  |  "),
        };
        format!("error: {}\nstate: {}\nnext:  {next}\n", one_line(&self.what), one_line(&self.state))
    }

    /// The object.
    pub(super) fn to_json(&self) -> Value {
        let mut error = self.details.clone();
        error.insert("kind".to_owned(), json!(self.kind));
        error.insert("exit".to_owned(), json!(self.exit.code()));
        error.insert("message".to_owned(), json!(self.what));
        error.insert("state".to_owned(), json!(self.state));
        error.insert("next".to_owned(), json!(self.next));
        json!({ "error": error })
    }
}

/// An error that has lines of its own (of a parser, say) still takes one here.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}
