//! The one clock of a timeline: `CLOCK_MONOTONIC` of the host.
//!
//! All nodes share the host's kernel, and journald stamps each entry with this clock, so that events of every source
//! can be put in order without trusting a wall clock that a fault may move.

use std::time::Duration;

use serde::Serializer;

/// Now, as time since the kernel started.
#[must_use]
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Serializes as seconds with a fraction.
///
/// # Errors
/// What the serializer says.
pub fn seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value.as_secs_f64() * 1e6).round() / 1e6)
}
