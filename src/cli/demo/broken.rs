//! Rules that a test breaks: the world is changed behind the demonstration's back, and the line about
//! the rule must then fail. What judges the replies does not know of it.

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Rule {
    /// The first creator's value is deleted before the second one comes.
    Create,
    /// One of the updaters overwrites what it has read before.
    Update,
    /// A second node is stopped with the one that is killed.
    Kill,
    /// A second node is stopped with the one that is stopped.
    Stop,
    /// The nodes' logs go while all of them are dead.
    Durable,
    /// The wires are not cut.
    Partition,
    /// The forger has the author's key.
    Forgery,
    /// Every retry is signed anew.
    Retry,
    /// One of those who count in a register overwrites what it has read before.
    Count,
    /// A second node is stopped with the one that is killed, while registers are written.
    KillRegisters,
    /// The owner that was paused gets the fence of the one that followed.
    Owner,
    /// The write whose answer was lost is written over before it is settled.
    Settle,
    /// The certificate is not changed.
    Certificate,
}
