//! Which replica is asked when, and what the answers mean together: the attempts of one request as
//! a state machine without clock, network or randomness.
//!
//! The preferred replica is asked first. After 150 ms without an answer **the same signed bytes** go
//! to the next one too, and at once when a node says that it cannot, or the connection is lost.
//!
//! What several attempts of one write say is joined (P5, attack 6b): one that was sent and has no
//! definitive answer may have stamped the write on a node that the others cannot see, so a refusal
//! by another node does not mean that nothing happened.

use crate::core::identity::MemberId;
use crate::wire::client::{Failure, Submitted};
use crate::wire::ownership::{Ballots, Campaigned};
use crate::wire::register::Verdict as RegisterVerdict;
use crate::wire::registry::Reply;

/// When attempts are made, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// After this long without an answer the next replica is asked too. Default 150.
    pub hedge_ms: u64,
    /// After this long there is a verdict. Default 5,000.
    pub deadline_ms: u64,
    /// The pause before a replica that could not is asked again; doubled each time. Default 50.
    pub retry_ms: u64,
    /// The longest such pause. Default 800.
    pub retry_max_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { hedge_ms: 150, deadline_ms: 5_000, retry_ms: 50, retry_max_ms: 800 }
    }
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The node answered.
    Reply(Box<Reply>),
    /// The request was sent, or may have been, and there will be no answer.
    Lost(String),
    /// The node could not be reached: nothing was sent.
    Unreached(String),
    /// The node's answer is not genuine, so the request counts as not answered.
    Forged(String),
}

/// What the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send the request to this node. It counts as sent from now on, unless
    /// [`waits`](Attempts::waits) is called.
    Send {
        /// The node.
        node: MemberId,
    },
    /// Call [`on_tick`](Attempts::on_tick) at this time, if nothing else comes first.
    WakeAt(u64),
    /// The verdict; nothing more is to be sent, and what is under way may be dropped.
    Done(Box<Verdict>),
}

/// What the attempts came to together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This is the answer: it holds whatever became of other attempts.
    Answer(Reply),
    /// The write may have been applied, or may yet be.
    Unknown(String),
    /// Nobody took the request: nothing changed.
    Unavailable(String),
    /// Nothing but answers that are not genuine; the request was no write.
    Forged(String),
}

/// The attempts of one request.
///
/// Call [`start`](Self::start) once, then [`on_reply`](Self::on_reply) and
/// [`on_tick`](Self::on_tick) as things happen, and carry out the actions that each returns. After
/// [`Action::Done`] every call returns nothing.
#[derive(Debug, Clone)]
pub struct Attempts {
    writes: bool,
    /// The answers are agreed on by a majority: a refusal is final whatever other attempts did.
    agreed: bool,
    pace: Pace,
    slots: Vec<Slot>,
    started_ms: u64,
    hedge_at: u64,
    /// Why the write may have been stamped by an attempt without a definitive answer (P5).
    doubt: Option<String>,
    /// A definitive refusal by a node, in case no other attempt says more.
    refusal: Option<Reply>,
    /// The last "I cannot" of a node, in words.
    last: Option<String>,
    forged: Option<String>,
    done: bool,
}

#[derive(Debug, Clone)]
struct Slot {
    node: MemberId,
    state: State,
    /// How often it could not.
    failures: u32,
    /// Its last answer was that the write is incomplete there: it is worth asking again.
    incomplete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Untried,
    /// To be sent as soon as there is a connection.
    Waiting,
    Sent,
    RetryAt(u64),
    /// It answered definitively.
    Answered,
}

/// What one reply means for the whole.
enum Meaning {
    /// The verdict.
    Final,
    /// A definitive no that every replica would give; of a write only if no other attempt took it.
    Refusal,
    /// A no that another replica may not give: it may know more, or have more room.
    Elsewhere,
    /// It could not, and did nothing.
    Cannot(String),
    /// It stamped the write and could not finish.
    Incomplete(String),
}

impl Attempts {
    /// Attempts of a write, at `replicas` in placement order.
    pub fn write(replicas: impl IntoIterator<Item = MemberId>, pace: Pace) -> Self {
        Self::new(true, replicas, pace)
    }

    /// Attempts of a write to a register. Its replicas agree, so a refusal is the verdict, whatever other
    /// attempts did.
    pub fn register(replicas: impl IntoIterator<Item = MemberId>, pace: Pace) -> Self {
        Attempts { agreed: true, ..Self::new(true, replicas, pace) }
    }

    /// Attempts of a request that changes nothing.
    pub fn read(replicas: impl IntoIterator<Item = MemberId>, pace: Pace) -> Self {
        Self::new(false, replicas, pace)
    }

    fn new(writes: bool, replicas: impl IntoIterator<Item = MemberId>, pace: Pace) -> Self {
        let slot = |node| Slot { node, state: State::Untried, failures: 0, incomplete: false };
        Attempts {
            writes,
            agreed: false,
            pace,
            slots: replicas.into_iter().map(slot).collect(),
            started_ms: 0,
            hedge_at: 0,
            doubt: None,
            refusal: None,
            last: None,
            forged: None,
            done: false,
        }
    }

    /// Begins.
    pub fn start(&mut self, now_ms: u64) -> Vec<Action> {
        self.started_ms = now_ms;
        let mut out = Vec::new();
        self.send_next(now_ms, &mut out);
        self.conclude(now_ms, out)
    }

    /// The node has to be connected to first: until [`sent`](Self::sent) is called nothing may leave, and
    /// nobody waits for this attempt.
    pub fn waits(&mut self, node: MemberId) {
        self.change(node, State::Sent, State::Waiting);
    }

    /// The request is about to leave. Returns whether it still may.
    pub fn sent(&mut self, node: MemberId) -> bool {
        !self.done && self.change(node, State::Waiting, State::Sent)
    }

    /// An attempt came to something.
    pub fn on_reply(&mut self, node: MemberId, heard: Heard, now_ms: u64) -> Vec<Action> {
        let mut out = Vec::new();
        let Some(index) = self.slots.iter().position(|slot| slot.node == node) else { return out };
        if self.done {
            return out;
        }
        let meaning = match heard {
            Heard::Reply(reply) if self.agreed && is_agreed(&reply) => {
                return self.finish(Verdict::Answer(*reply), out);
            }
            Heard::Reply(reply) => match meaning(&reply) {
                Meaning::Final => return self.finish(Verdict::Answer(*reply), out),
                Meaning::Refusal => {
                    self.refusal = Some(*reply);
                    self.set(index, State::Answered);
                    return self.conclude(now_ms, out);
                }
                Meaning::Elsewhere => {
                    self.refusal.get_or_insert(*reply);
                    self.set(index, State::Answered);
                    self.send_next(now_ms, &mut out);
                    return self.conclude(now_ms, out);
                }
                other => other,
            },
            Heard::Lost(why) => {
                self.doubt.get_or_insert_with(|| why.clone());
                Meaning::Cannot(why)
            }
            Heard::Unreached(why) => Meaning::Cannot(why),
            Heard::Forged(why) => {
                self.doubt.get_or_insert_with(|| why.clone());
                self.forged = Some(why);
                self.set(index, State::Answered);
                self.send_next(now_ms, &mut out);
                return self.conclude(now_ms, out);
            }
        };
        let (why, incomplete) = match meaning {
            Meaning::Incomplete(why) => (why, true),
            Meaning::Cannot(why) => (why, false),
            Meaning::Final | Meaning::Refusal | Meaning::Elsewhere => return out,
        };
        if incomplete {
            self.doubt = Some(why.clone());
        }
        self.last = Some(why);
        self.put_off(index, incomplete, now_ms);
        self.send_next(now_ms, &mut out);
        self.conclude(now_ms, out)
    }

    /// Time has passed.
    pub fn on_tick(&mut self, now_ms: u64) -> Vec<Action> {
        let mut out = Vec::new();
        if self.done {
            return out;
        }
        if now_ms >= self.deadline() {
            let verdict = self.at_deadline();
            return self.finish(verdict, out);
        }
        for slot in &mut self.slots {
            if matches!(slot.state, State::RetryAt(at) if at <= now_ms) {
                slot.state = State::Sent;
                out.push(Action::Send { node: slot.node });
            }
        }
        if now_ms >= self.hedge_at {
            self.send_next(now_ms, &mut out);
        }
        self.conclude(now_ms, out)
    }

    /// The nodes whose answer is still awaited.
    pub fn awaited(&self) -> impl Iterator<Item = MemberId> {
        let awaited = |slot: &&Slot| matches!(slot.state, State::Sent | State::Waiting);
        self.slots.iter().filter(awaited).map(|slot| slot.node)
    }

    fn deadline(&self) -> u64 {
        self.started_ms.saturating_add(self.pace.deadline_ms)
    }

    fn change(&mut self, node: MemberId, from: State, to: State) -> bool {
        let slot = self.slots.iter_mut().find(|slot| slot.node == node && slot.state == from);
        slot.map(|slot| slot.state = to).is_some()
    }

    fn set(&mut self, index: usize, state: State) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.state = state;
            slot.incomplete = false;
        }
    }

    /// Asks this replica again after a pause that doubles.
    fn put_off(&mut self, index: usize, incomplete: bool, now_ms: u64) {
        if let Some(slot) = self.slots.get_mut(index) {
            let factor = 1u64 << slot.failures.min(16);
            let pause = self.pace.retry_ms.saturating_mul(factor).min(self.pace.retry_max_ms);
            slot.failures += 1;
            slot.state = State::RetryAt(now_ms.saturating_add(pause));
            slot.incomplete = incomplete;
        }
    }

    fn send_next(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        self.hedge_at = now_ms.saturating_add(self.pace.hedge_ms);
        if self.is_refused() {
            return;
        }
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.state == State::Untried) {
            slot.state = State::Sent;
            out.push(Action::Send { node: slot.node });
        }
    }

    /// A definitive no has come: there is nothing to ask of further replicas.
    fn is_refused(&self) -> bool {
        self.refusal.as_ref().is_some_and(|reply| matches!(meaning(reply), Meaning::Refusal))
    }

    fn any(&self, state: impl Fn(&Slot) -> bool) -> bool {
        self.slots.iter().any(state)
    }

    /// The verdict, if there is one; otherwise when to look again.
    fn conclude(&mut self, now_ms: u64, mut out: Vec<Action>) -> Vec<Action> {
        if self.slots.is_empty() {
            return self.finish(Verdict::Unavailable("there is nobody to ask".into()), out);
        }
        let sent = self.any(|slot| slot.state == State::Sent);
        let untried = self.any(|slot| slot.state == State::Untried);
        let incomplete = self.any(|slot| slot.incomplete);
        if let Some(refusal) = &self.refusal
            && (!sent || !self.writes)
            && !incomplete
        {
            let waiting = self.any(|slot| slot.state == State::Waiting);
            if self.is_refused() || (!untried && !sent && !waiting) {
                let verdict = match &self.doubt {
                    Some(why) if self.writes => Verdict::Unknown(doubtful(why, refusal)),
                    _ => Verdict::Answer(refusal.clone()),
                };
                return self.finish(verdict, out);
            }
        }
        if self.slots.iter().all(|slot| slot.state == State::Answered) {
            // Nothing but forgeries: asking again would bring more of them.
            let why = self.forged.clone().unwrap_or_default();
            let verdict = if self.writes { Verdict::Unknown(why) } else { Verdict::Forged(why) };
            return self.finish(verdict, out);
        }
        let retries = self.slots.iter().filter_map(|slot| match slot.state {
            State::RetryAt(at) => Some(at),
            _ => None,
        });
        let hedge = (untried && !self.is_refused()).then_some(self.hedge_at);
        let wake = retries.chain(hedge).min().unwrap_or(u64::MAX).min(self.deadline());
        out.push(Action::WakeAt(wake.max(now_ms)));
        out
    }

    fn at_deadline(&mut self) -> Verdict {
        let silent = self.any(|slot| slot.state == State::Sent);
        let in_time = "no definitive answer in time";
        match (self.writes, &self.doubt, &self.refusal) {
            (true, Some(why), _) => Verdict::Unknown(why.clone()),
            (true, None, _) if silent => Verdict::Unknown(in_time.into()),
            (_, _, Some(refusal)) => Verdict::Answer(refusal.clone()),
            (_, _, None) => {
                if let (None, Some(forged)) = (&self.last, &self.forged) {
                    return Verdict::Forged(forged.clone());
                }
                Verdict::Unavailable(self.last.clone().unwrap_or_else(|| "no answer in time".into()))
            }
        }
    }

    fn finish(&mut self, verdict: Verdict, mut out: Vec<Action>) -> Vec<Action> {
        self.done = true;
        out.retain(|action| !matches!(action, Action::Send { .. } | Action::WakeAt(_)));
        out.push(Action::Done(Box::new(verdict)));
        out
    }
}

fn doubtful(why: &str, refusal: &Reply) -> String {
    let refused = match refusal {
        Reply::Failure(failure) => failure.to_string(),
        _ => "refused".into(),
    };
    format!("one node said {refused:?}, but an attempt at another may have been taken ({why})")
}

/// Whether a register's replicas agreed on this answer.
fn is_agreed(reply: &Reply) -> bool {
    matches!(
        reply,
        // Not `Forgotten`: an attempt that is still under way may remember.
        Reply::Submitted(Submitted::Refused { .. } | Submitted::Fenced(_))
            | Reply::Campaigned(Campaigned { result: Ballots::Refused | Ballots::Running { .. }, .. })
    )
}

fn meaning(reply: &Reply) -> Meaning {
    match reply {
        Reply::Submitted(Submitted::Refused { .. } | Submitted::Fenced(_) | Submitted::Forgotten) => {
            Meaning::Refusal
        }
        Reply::Verdict(RegisterVerdict::Unknown) => {
            Meaning::Cannot("too few replicas answered in time".into())
        }
        Reply::Campaigned(Campaigned { result: Ballots::Incomplete, .. }) => {
            Meaning::Incomplete("no majority said so in time".into())
        }
        Reply::Submitted(Submitted::Incomplete { copies, needed }) => {
            Meaning::Incomplete(format!("{copies} of {needed} replicas have it"))
        }
        Reply::Value(value) if value.value.as_slice().is_empty() => Meaning::Elsewhere,
        Reply::Failure(failure) => match failure {
            Failure::Unavailable(_) | Failure::Overloaded => Meaning::Cannot(failure.to_string()),
            // A node may not have heard yet of a namespace, a grant or an epoch; another may have room.
            Failure::Denied(_)
            | Failure::UnknownNamespace
            | Failure::Expired { .. }
            | Failure::UnknownParents(_)
            | Failure::DiskFull => Meaning::Elsewhere,
            Failure::Mode(_)
            | Failure::Generation
            | Failure::TooManySiblings(_)
            | Failure::Rejected(_)
            | Failure::Malformed(_)
            | Failure::NeedsTenure
            | Failure::NotBuilt(_) => Meaning::Refusal,
        },
        _ => Meaning::Final,
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
