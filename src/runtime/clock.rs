//! The one place that reads clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::decision::time::Moment;

/// Now, by `CLOCK_MONOTONIC`: it does not count the time that the machine was suspended, and no one
/// can set it.
#[must_use]
pub fn now() -> Moment {
    Moment::from_origin(read(ClockId::Monotonic))
}

/// Time since boot by `CLOCK_BOOTTIME`, which goes on through a suspend.
#[must_use]
pub fn boottime() -> Duration {
    read(ClockId::Boottime)
}

/// Time since the Unix epoch, for stamps that people read. Never for ages.
#[must_use]
pub fn wall() -> Duration {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> Duration {
    let stamp = clock_gettime(clock);
    Duration::new(u64::try_from(stamp.tv_sec).unwrap_or(0), u32::try_from(stamp.tv_nsec).unwrap_or(0))
}
