//! Own pauses (invariant I4): the machine was suspended, stunned, starved, or this daemon was stopped.
//!
//! Seen in two ways: the loop wakes later than it had set itself, or `CLOCK_BOOTTIME` ran ahead of
//! `CLOCK_MONOTONIC`. Either voids all ages, whatever the wall clock says.

use std::time::Duration;

use crate::decision::time::Moment;

/// Lateness from which ages are no longer trusted: well above what a busy node does to a daemon at its
/// usual priority, and below one interval of the loop.
const LATE: Duration = Duration::from_secs(3);

/// The kernel keeps the two clocks together to the nanosecond while it runs.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// Watches the loop's own punctuality.
#[derive(Debug, Clone)]
pub struct GapWatch {
    due: Moment,
    boot_ahead: Duration,
    resumed_at: Option<Moment>,
}

impl GapWatch {
    /// Begins at `now`; `boottime` is `CLOCK_BOOTTIME` at the same time.
    #[must_use]
    pub const fn new(now: Moment, boottime: Duration) -> Self {
        Self { due: now, boot_ahead: boottime.saturating_sub(now.since_origin()), resumed_at: None }
    }

    /// The loop has set itself to be back by `due`.
    pub const fn expect_back_by(&mut self, due: Moment) {
        self.due = due;
    }

    /// The loop is back. Returns how long it did not run if that was a pause.
    pub fn back(&mut self, now: Moment, boottime: Duration) -> Option<Duration> {
        let ahead = boottime.saturating_sub(now.since_origin());
        let suspended = ahead.saturating_sub(self.boot_ahead);
        self.boot_ahead = ahead;
        let late = now.since(self.due);
        let paused = late > LATE || suspended > CLOCKS_APART;
        if paused {
            self.resumed_at = Some(now);
        }
        paused.then(|| late.max(suspended))
    }

    /// When the last pause ended.
    #[must_use]
    pub const fn resumed_at(&self) -> Option<Moment> {
        self.resumed_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_loop_that_wakes_in_time_was_not_paused() {
        let mut watch = GapWatch::new(at(0), Duration::from_secs(100));
        watch.expect_back_by(at(1_000));
        assert_eq!(watch.back(at(3_900), Duration::from_millis(103_900)), None);
        assert_eq!(watch.resumed_at(), None);
    }

    #[test]
    fn a_loop_that_wakes_late_was_paused() {
        let mut watch = GapWatch::new(at(0), Duration::from_secs(100));
        watch.expect_back_by(at(1_000));
        assert_eq!(watch.back(at(21_000), Duration::from_secs(121)), Some(Duration::from_secs(20)));
        assert_eq!(watch.resumed_at(), Some(at(21_000)));
    }

    #[test]
    fn a_suspended_machine_was_paused_although_the_monotonic_clock_stood_still() {
        let mut watch = GapWatch::new(at(0), Duration::from_secs(100));
        watch.expect_back_by(at(1_000));
        assert_eq!(watch.back(at(1_000), Duration::from_secs(701)), Some(Duration::from_secs(600)));
    }
}
