//! Entropy and clocks: the only file of the SDK that reads either.

use std::time::{SystemTime, UNIX_EPOCH};

/// Random bytes from the system.
///
/// # Panics
/// If the system has no entropy to give: a nonce that is not random would make two writes one.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[allow(clippy::disallowed_methods, clippy::expect_used, reason = "this file owns entropy")]
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Milliseconds since 1970, for people to read; nothing is decided by it (P10).
pub(super) fn wall_ms() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "this file owns the wall clock")]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds on a clock that only rises, and that runs while the machine is suspended: an owner that
/// slept must know that its lease ran out. Only differences mean anything.
pub(super) fn boot_ms() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "this file owns the clock")]
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000)
}
