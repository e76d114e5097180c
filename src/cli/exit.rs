//! Exit codes: what scripts branch on.

use std::process::ExitCode;

/// How a command ended. The numbers are part of the contract and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// It is done.
    Done = 0,
    /// It failed, and nothing changed: expired, too large, too many siblings, disk full, unknown
    /// namespace, not built, a file that cannot be read.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Refused: what was named is not what is there.
    Refused = 3,
    /// There is nothing.
    Absent = 4,
    /// The outcome is unknown, or fewer replicas than needed have the write.
    Unknown = 5,
    /// A newer owner, or a fence of another resource, forbids it.
    Fenced = 6,
    /// There are siblings. A write that ends so **was** applied.
    Siblings = 7,
    /// Too few nodes answer, or they are overloaded; nothing changed, and it is safe to try again.
    Unavailable = 8,
    /// This key may not do that.
    Denied = 9,
}

impl Exit {
    /// The number.
    pub(super) fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
