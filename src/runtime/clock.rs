//! The one place that reads clocks.
//!
//! A simulation puts a [`Clocks`] in place of the kernel's for the thread that it runs on, before each poll of a
//! node's task; no other thread is affected, and the daemon never does.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::decision::time::Moment;

/// Readings this close together count as one instant.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A process that is stopped each time that it reads its clocks has other worries.
const TRIES: u32 = 4;

/// What the three clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// As [`now`].
    pub now: Moment,
    /// As [`boottime`].
    pub boottime: Duration,
    /// As [`wall`].
    pub wall: Duration,
}

thread_local! {
    static SIMULATED: Cell<Option<Clocks>> = const { Cell::new(None) };
}

/// From here on, on this thread, the clocks show this; `None` gives the kernel's back. Returns what they showed before,
/// for tasks of a node inside each other.
pub fn simulate(clocks: Option<Clocks>) -> Option<Clocks> {
    SIMULATED.replace(clocks)
}

/// Now, by `CLOCK_MONOTONIC`: it does not count the time that the machine was suspended, and no one
/// can set it.
#[must_use]
pub fn now() -> Moment {
    SIMULATED.get().map_or_else(|| Moment::from_origin(read(ClockId::Monotonic)), |clocks| clocks.now)
}

/// Time since boot by `CLOCK_BOOTTIME`, which goes on through a suspend.
#[must_use]
pub fn boottime() -> Duration {
    SIMULATED.get().map_or_else(|| read(ClockId::Boottime), |clocks| clocks.boottime)
}

/// Time since the Unix epoch, for stamps that people read. Never for ages.
#[must_use]
pub fn wall() -> Duration {
    SIMULATED.get().map_or_else(|| read(ClockId::Realtime), |clocks| clocks.wall)
}

/// All three at one instant: were this process stopped between two of them, they would tell of a step that was none.
#[must_use]
pub fn all() -> Clocks {
    let mut tries = 0;
    loop {
        let clocks = Clocks { now: now(), boottime: boottime(), wall: wall() };
        tries += 1;
        if now().since(clocks.now) <= AT_ONCE || tries == TRIES {
            return clocks;
        }
    }
}

fn read(clock: ClockId) -> Duration {
    let stamp = clock_gettime(clock);
    Duration::new(u64::try_from(stamp.tv_sec).unwrap_or(0), u32::try_from(stamp.tv_nsec).unwrap_or(0))
}
