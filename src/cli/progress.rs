//! Progress for a person who waits: on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::Output;

/// A line on stderr that counts up, until it is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Begins to show `what`.
    pub(super) fn start(output: Output, what: String) -> Self {
        if !output.has_audience() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {pos} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress(bar)
    }

    /// So many more are done.
    pub(super) fn add(&self, more: usize) {
        self.0.inc(more as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
