//! The engine's thread: the one loop that steps the machine. [`crate::engine`] says in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::clock::Clock;
use super::disk::{Data, Hands};
use super::entropy::{self, EntropyError};
use super::mailbox::{Letter, Mailbox, Signal};
use crate::core::chain::Decided;
use crate::core::cluster::Configuration;
use crate::core::identity::{Incarnation, MemberId};
use crate::core::limits;
use crate::engine::machine::{Machine, StartError};
use crate::engine::store::{Batch, StoreError};
use crate::engine::{Effect, Identity, Input, Millis, Timing};
use crate::wire::frame::Frame;
use crate::wire::registry::Reply;

/// A batch that found no space is tried again this often.
const RETRY: Millis = 1_000;
/// How long the last batches may take when the node stops.
const LAST_SYNC: Millis = 10_000;

/// Where effects go that are no answers.
pub(super) trait Outlets: Send {
    /// Sends a frame to a peer, or loses it.
    fn send(&self, to: MemberId, frame: Frame);

    /// The configuration changed.
    fn configured(&self, config: Arc<Configuration>);
}

/// What a machine is made of, again and again.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) identity: Identity,
    pub(super) genesis: Decided,
    pub(super) timing: Timing,
}

/// The engine cannot go on. Nothing that was not durable has left.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store cannot be read.
    #[error(
        "the data cannot be trusted any more: {0}; start the node again, and if it ends so again, move `data` in its data directory away to come back as a new actor"
    )]
    Store(#[from] StoreError),
    /// A write or a sync failed, or a thread that others need.
    #[error("{0}")]
    Failed(String),
    /// What is stored does not make a node.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No new incarnation can be drawn.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The thread of the engine is gone.
    #[error("the engine panicked; the log says where")]
    Panicked,
}

impl Origin {
    /// A machine on `data`.
    pub(super) fn machine(&self, now: Millis, data: &dyn Data) -> Result<Machine, StartError> {
        let Origin { identity, genesis, timing } = self.clone();
        Machine::new(identity, genesis, timing, now, data.last_batch(), data)
    }
}

/// The engine's thread.
pub(super) struct Driver {
    machine: Machine,
    origin: Origin,
    data: Arc<dyn Data>,
    hands: Hands,
    mailbox: Arc<Mailbox>,
    outlets: Box<dyn Outlets>,
    clock: Clock,
    /// Clients that wait for an answer, by token, with their share of what may be worked on.
    open: BTreeMap<u64, (oneshot::Sender<Reply>, OwnedSemaphorePermit)>,
    next_token: u64,
    up: BTreeSet<MemberId>,
    in_flight: InFlight,
    /// Inputs that changed the batch that is not closed yet.
    changed: usize,
    /// What the keeper of the disk says, and what the machine was told.
    short: bool,
    full: bool,
}

/// Where the batch is that was closed last.
enum InFlight {
    Nothing,
    Writing,
    Refused { batch: Batch, retry: Millis },
}

/// How a round ends.
enum Next {
    Round,
    Stop,
    Abandon,
}

impl Driver {
    pub(super) fn new(
        machine: Machine,
        origin: Origin,
        data: Arc<dyn Data>,
        hands: Hands,
        mailbox: Arc<Mailbox>,
        outlets: Box<dyn Outlets>,
        clock: Clock,
    ) -> Self {
        Driver {
            machine,
            origin,
            data,
            hands,
            mailbox,
            outlets,
            clock,
            open: BTreeMap::new(),
            next_token: 0,
            up: BTreeSet::new(),
            in_flight: InFlight::Nothing,
            changed: 0,
            short: false,
            full: false,
        }
    }

    /// Steps until the node stops.
    pub(super) fn run(mut self) -> Result<(), EngineError> {
        loop {
            self.close()?;
            self.release()?;
            match self.round(true)? {
                Next::Round => {}
                Next::Stop => return self.finish(),
                Next::Abandon => return Ok(()),
            }
        }
    }

    /// Waits for something, and steps it. Without `inputs` only what happens to the disk.
    fn round(&mut self, inputs: bool) -> Result<Next, EngineError> {
        let left = limits::BATCH_LEN.saturating_sub(self.machine.weight());
        let count = if inputs { limits::BATCH_INPUTS.saturating_sub(self.changed) } else { 0 };
        let patience =
            self.wake().map(|at| Duration::from_millis(at.saturating_sub(self.clock.now()).max(1)));
        let taken = self.mailbox.take(count, left, patience);
        let now = self.clock.now();
        let mut next = Next::Round;
        for signal in taken.signals {
            match signal {
                Signal::Committed => {
                    self.in_flight = InFlight::Nothing;
                    self.machine.synced();
                }
                Signal::Refused(batch) => {
                    self.in_flight = InFlight::Refused { batch, retry: now.saturating_add(RETRY) };
                }
                Signal::Short(short) => {
                    self.short = short;
                    if let InFlight::Refused { retry, .. } = &mut self.in_flight {
                        *retry = now;
                    }
                }
                Signal::Failed(why) => return Err(EngineError::Failed(why)),
                Signal::Stop => next = Next::Stop,
                Signal::Abandon => return Ok(Next::Abandon),
            }
        }
        self.tell_whether_full(now)?;
        for letter in taken.letters {
            self.open_letter(now, letter)?;
        }
        if now >= self.machine.next_tick() {
            self.step(now, Input::Tick)?;
        }
        Ok(next)
    }

    /// When to look up, at the latest.
    fn wake(&self) -> Option<Millis> {
        let retry = match &self.in_flight {
            InFlight::Refused { retry, .. } => *retry,
            InFlight::Nothing | InFlight::Writing => Millis::MAX,
        };
        let wake = self.machine.next_tick().min(retry);
        (wake < Millis::MAX).then_some(wake)
    }

    fn open_letter(&mut self, now: Millis, letter: Letter) -> Result<(), StoreError> {
        match letter {
            Letter::Request { request, reply, room, .. } => {
                self.next_token += 1;
                self.open.insert(self.next_token, (reply, room));
                self.step(now, Input::Request { token: self.next_token, request: *request })
            }
            Letter::Input { input, room, .. } => {
                match &*input {
                    Input::PeerUp(peer) => drop(self.up.insert(*peer)),
                    Input::PeerDown(peer) => drop(self.up.remove(peer)),
                    _ => {}
                }
                let stepped = self.step(now, *input);
                drop(room);
                stepped
            }
        }
    }

    fn step(&mut self, now: Millis, input: Input) -> Result<(), StoreError> {
        let before = self.machine.weight();
        self.machine.step(now, input, &*self.data)?;
        // Reads go on when a batch is full: only what adds to it counts.
        self.changed += usize::from(self.machine.weight() != before);
        Ok(())
    }

    /// Hands the next batch to the disk, or again the one that found no space.
    fn close(&mut self) -> Result<(), EngineError> {
        let batch = match std::mem::replace(&mut self.in_flight, InFlight::Nothing) {
            InFlight::Nothing => {
                let Some(batch) = self.machine.close() else { return Ok(()) };
                self.changed = 0;
                batch
            }
            InFlight::Refused { batch, retry } if self.clock.now() >= retry => batch,
            waiting => {
                self.in_flight = waiting;
                return Ok(());
            }
        };
        self.in_flight = InFlight::Writing;
        // At most one is in flight and there is room for one, so this does not wait.
        let handed = self.hands.batches.send(batch);
        handed.map_err(|_| EngineError::Failed("the thread that writes has ended".to_owned()))
    }

    fn release(&mut self) -> Result<(), EngineError> {
        for effect in self.machine.released() {
            match effect {
                Effect::Send { to, envelope, message } => self.outlets.send(to, message.encode(envelope)),
                Effect::Reply { token, reply } => {
                    if let Some((client, _room)) = self.open.remove(&token) {
                        // A client that went away needs no answer.
                        let _ = client.send(reply);
                    }
                }
                Effect::Configured(config) => self.outlets.configured(config),
                // What else it wanted to say, it would say under a name that no longer counts.
                Effect::Forgot { why } => return self.start_over(&why),
                Effect::Equivocation(evidence) => {
                    let actor = evidence.first.stamp().actor;
                    tracing::error!(
                        %actor,
                        "a node contradicted itself: it was cloned, restored, or lies; it counts in no quorum any more"
                    );
                }
            }
        }
        Ok(())
    }

    /// Tells the machine whether the disk is full, if that changed.
    fn tell_whether_full(&mut self, now: Millis) -> Result<(), StoreError> {
        let full = self.short || matches!(self.in_flight, InFlight::Refused { .. });
        if full == self.full {
            return Ok(());
        }
        self.full = full;
        if full {
            tracing::error!("the disk is full: reads go on, writes are refused until there is room");
        } else {
            tracing::info!("there is room on the disk again: writes go on");
        }
        self.step(now, Input::DiskFull(full))
    }

    /// The data went backwards: from here on they are a new actor's (P11).
    fn start_over(&mut self, why: &str) -> Result<(), EngineError> {
        tracing::error!(why, "this node forgot something it had said");
        // What is being written belongs to the old actor. Whether it lands does not matter, but the
        // new machine must know.
        while let InFlight::Writing = self.in_flight {
            if let Next::Stop | Next::Abandon = self.round(false)? {
                // Somebody ends this node: that is not lost.
                self.mailbox.signal(Signal::Stop);
                return Ok(());
            }
        }
        self.in_flight = InFlight::Nothing;
        self.changed = 0;
        // Whether their writes are known anywhere is not known here: no answer is the answer.
        self.open.clear();
        let incarnation = Incarnation(entropy::bytes()?);
        self.data.renew(incarnation)?;
        self.origin.identity.incarnation = incarnation;
        self.origin.identity.first_operation = u64::from_be_bytes(entropy::bytes()?);
        let now = self.clock.now();
        self.machine = self.origin.machine(now, &*self.data)?;
        warn_of_new_actor(incarnation);
        self.full = false;
        self.tell_whether_full(now)?;
        for peer in self.up.clone() {
            self.step(now, Input::PeerUp(peer))?;
        }
        Ok(())
    }

    /// Syncs what was stepped.
    fn finish(mut self) -> Result<(), EngineError> {
        let deadline = self.clock.now().saturating_add(LAST_SYNC);
        loop {
            self.close()?;
            self.release()?;
            match self.in_flight {
                InFlight::Nothing => break,
                InFlight::Refused { .. } => {
                    tracing::warn!("stopped on a full disk: what was not acknowledged is dropped");
                    break;
                }
                InFlight::Writing if self.clock.now() > deadline => {
                    return Err(EngineError::Failed("the disk did not sync in time".to_owned()));
                }
                InFlight::Writing => {}
            }
            if let Next::Abandon = self.round(false)? {
                return Ok(());
            }
        }
        Ok(self.data.sync_mark()?)
    }
}

/// Says loudly that a node came back as somebody else.
pub(super) fn warn_of_new_actor(incarnation: Incarnation) {
    tracing::warn!(
        %incarnation,
        "this node is a new actor: it forwards, and counts for nothing until `tanist cluster readmit`"
    );
}

#[cfg(test)]
mod tests;
