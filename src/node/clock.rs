//! The clocks: with `entropy.rs` beside it the only file that asks the machine for what it cannot know.

use rustix::time::ClockId;

use crate::engine::Millis;

/// The driver's clock: it never goes back, and goes on while the machine sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Millis,
}

impl Clock {
    /// A clock that reads 0 now.
    pub fn start() -> Self {
        Clock { origin: since_boot() }
    }

    /// Milliseconds since the start.
    pub fn now(&self) -> Millis {
        since_boot().saturating_sub(self.origin)
    }
}

/// Milliseconds since 1970 on the wall clock, for people: nothing is decided by it (P10).
#[allow(clippy::disallowed_methods, reason = "this file owns the clocks")]
pub fn wall_ms() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_1970.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[allow(clippy::disallowed_methods, reason = "this file owns the clocks")]
fn since_boot() -> Millis {
    // Not `Instant`, which stands still in suspend: a lease does not.
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000)
}
