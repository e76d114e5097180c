//! A node: the engine on a disk, behind a socket.
//!
//! ```text
//! runtime    opens a node from its folder, and runs it
//! running    the engine's threads, started and ended together
//! driver     the engine's thread
//! mailbox    what waits for it
//! disk       the threads that wait for the disk
//! arrivals   the threads that check what came in
//! desk       clients' connections and requests
//! admission  who may connect
//! tally      what was refused, counted
//! twins      what to do about another holder of this node's key
//! found      founds a cluster
//! config     node.toml, and what else is in a node's folder
//! files      keys and the founding entry as files
//! process    signals and panics
//! clock, entropy   the only readers of either
//! ```
//!
//! ```text
//! link ---+                                              +--> links
//!         +--> arrivals ==> mailbox ==> driver ----------+
//! client -+    (check)                  |   ^            +--> clients
//!                                       v   | committed
//!                                       disk
//! ```
//!
//! Every queue is bounded. A client's request that finds no room is answered as overloaded, and
//! nothing changed; a peer's message waits, and through QUIC's flow control its sender does. So no
//! answer and no acknowledgement between nodes is ever refused.
//!
//! A process runs a node like this:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use tanist::node::{Node, process};
//!
//! process::abort_on_panic();
//! let stop = process::stop_signal()?;
//! let node = Node::open("cluster/node-1").await?;
//! node.run(stop).await?;
//! # Ok(())
//! # }
//! ```

mod admission;
mod arrivals;
pub mod clock;
pub mod config;
mod desk;
mod disk;
mod driver;
pub mod entropy;
mod error;
pub mod files;
pub mod found;
mod mailbox;
pub mod process;
mod running;
mod runtime;
mod tally;
mod twins;

pub use driver::EngineError;
pub use error::NodeError;
pub use found::{ClusterPlan, FoundError, Founded, NodePlan};
pub use runtime::{Builder, Handle, Node};
