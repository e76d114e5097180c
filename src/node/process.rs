//! What concerns the process that a node runs in: signals, and panics.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at the first SIGTERM or SIGINT from now on. Must be called within a tokio runtime.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            biased;
            () = received(&mut terminate) => "SIGTERM",
            () = received(&mut interrupt) => "SIGINT",
        };
        tracing::info!(signal = name, "asked to stop");
    })
}

/// From now on a panic in any thread ends the whole process, after it was logged.
///
/// A node without its engine, or without the thread that syncs, must not go on answering. Processes
/// that hold something besides a node (tests, say) do not call this: there a thread that panicked
/// ends its node with an error.
pub fn abort_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or("without a name").to_owned();
        tracing::error!(place, thread, "a panic ends this process: {panic}");
        before(panic);
        std::process::abort();
    }));
}

async fn received(signal: &mut Signal) {
    // `None` means that no further signal can come: then this one never does.
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}
