//! A running engine: its threads, started and ended together.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::clock::Clock;
use super::disk::{self, Data};
use super::driver::{Driver, EngineError, Origin, Outlets};
use super::error::NodeError;
use super::mailbox::{Mailbox, Signal};
use crate::engine::machine::Machine;

/// The threads of an engine. Dropped, they end at once, as if the process had been killed: what is
/// acknowledged is durable, the rest may be lost.
pub(super) struct Engine {
    mailbox: Arc<Mailbox>,
    ended: oneshot::Receiver<Result<(), EngineError>>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts to drive `machine`.
    pub(super) fn start(
        machine: Machine,
        origin: Origin,
        data: Arc<dyn Data>,
        mailbox: Arc<Mailbox>,
        outlets: Box<dyn Outlets>,
        clock: Clock,
    ) -> Result<Self, NodeError> {
        let (hands, threads) = disk::start(&data, &mailbox).map_err(NodeError::Thread)?;
        let mut threads = Vec::from(threads);
        let (tell, ended) = oneshot::channel();
        let driver = Driver::new(machine, origin, data, hands, Arc::clone(&mailbox), outlets, clock);
        let engine = thread::Builder::new().name("tanist-engine".to_owned()).spawn(move || {
            // Nobody listens any more if the engine was dropped.
            let _ = tell.send(driver.run());
        });
        threads.push(engine.map_err(NodeError::Thread)?);
        Ok(Engine { mailbox, ended, threads })
    }

    /// Waits until the engine has ended by itself.
    pub(super) async fn ended(&mut self) -> EngineError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => EngineError::Failed("the engine stopped unasked".to_owned()),
            Err(_) => EngineError::Panicked,
        }
    }

    /// Syncs what was stepped, and ends.
    pub(super) async fn stop(mut self) -> Result<(), EngineError> {
        self.mailbox.signal(Signal::Stop);
        (&mut self.ended).await.unwrap_or(Err(EngineError::Panicked))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.mailbox.signal(Signal::Abandon);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
