//! Own pauses (invariant I4): the machine was suspended, stunned, starved, or this daemon was stopped.
//!
//! Three clocks are compared at each look. The loop wakes later than it had set itself, or `CLOCK_BOOTTIME` ran ahead of
//! `CLOCK_MONOTONIC`: either voids all ages. The wall clock ran away from `CLOCK_BOOTTIME`: somebody set it, which is put on
//! record and voids nothing. A slewed wall clock is no step: the kernel slews the monotonic clocks with it.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::Clocks;
use super::ledger::{PauseKind, PauseRecord};
use crate::decision::time::Moment;

/// Lateness from which ages are no longer trusted: well above what a busy node does to a daemon at its
/// usual priority, and below one interval of the loop.
const LATE: Duration = Duration::from_secs(3);

/// The kernel keeps the two clocks together to the nanosecond while it runs.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// A wall clock that is set by less is one that is kept right.
const STEP: Duration = Duration::from_secs(1);

/// Lateness that says that the node is hard-pressed: a hundred times what a busy one does to this daemon.
const LATE_TICK: Duration = Duration::from_millis(500);

/// In which they are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// More of them than any policy asks for need not be counted.
const TICKS_MAX: usize = 64;

/// Watches the loop's own punctuality, and the clocks.
#[derive(Debug, Clone)]
pub struct GapWatch {
    due: Moment,
    last: Clocks,
    resumed_at: Option<Moment>,
    /// When the loop was late, the oldest first.
    late: VecDeque<Moment>,
}

impl GapWatch {
    /// Begins when the clocks show `clocks`.
    #[must_use]
    pub const fn new(clocks: Clocks) -> Self {
        Self { due: clocks.now, last: clocks, resumed_at: None, late: VecDeque::new() }
    }

    /// The loop has set itself to be back by `due`.
    pub const fn expect_back_by(&mut self, due: Moment) {
        self.due = due;
    }

    /// The loop was away on purpose until `now`, but for `late` of it, in which it did not run.
    pub const fn was_absent_for(&mut self, late: Duration, now: Moment) {
        self.due = Moment::from_origin(now.since_origin().saturating_sub(late));
    }

    /// The loop is back: the pause, and the step of the wall clock, that it was away for.
    pub fn back(&mut self, clocks: Clocks) -> impl Iterator<Item = PauseRecord> + use<> {
        let late = clocks.now.since(self.due);
        let passed = clocks.boottime.saturating_sub(self.last.boottime);
        let suspended = passed.saturating_sub(clocks.now.since(self.last.now));
        let record = |kind, length| PauseRecord { kind, length, at: clocks.now, wall: clocks.wall };
        let pause = if suspended > CLOCKS_APART {
            Some(record(PauseKind::Suspended, suspended.saturating_add(late)))
        } else {
            (late > LATE).then(|| record(PauseKind::Late, late))
        };
        let expected = self.last.wall.saturating_add(passed);
        let (kind, by) = if clocks.wall >= expected {
            (PauseKind::SteppedForward, clocks.wall.saturating_sub(expected))
        } else {
            (PauseKind::SteppedBack, expected.saturating_sub(clocks.wall))
        };
        let step = (by > STEP).then(|| record(kind, whole_milliseconds(by)));
        if pause.is_some() {
            self.resumed_at = Some(clocks.now);
        }
        if late >= LATE_TICK {
            self.late.push_back(clocks.now);
        }
        while self.late.len() > TICKS_MAX || self.late.front().is_some_and(|at| clocks.now.since(*at) > WINDOW) {
            self.late.pop_front();
        }
        self.last = clocks;
        self.due = clocks.now;
        [pause, step].into_iter().flatten()
    }

    /// How many times the loop was late, up to its last return, within a minute.
    #[must_use]
    pub fn late_ticks(&self) -> u32 {
        u32::try_from(self.late.len()).unwrap_or(u32::MAX)
    }

    /// When the last pause ended.
    #[must_use]
    pub const fn resumed_at(&self) -> Option<Moment> {
        self.resumed_at
    }
}

/// The nearest one: the clocks are read one after the other, so that two hours would be 1 h 59 min 59.999 9 s every other time.
fn whole_milliseconds(length: Duration) -> Duration {
    let rounded = length.saturating_add(Duration::from_micros(500));
    rounded.saturating_sub(Duration::from_nanos(u64::from(rounded.subsec_nanos() % 1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_800_000_000_000;

    /// Milliseconds of each clock since the watch began.
    fn clocks(now: u64, boottime: u64, wall: i64) -> Clocks {
        let ms = Duration::from_millis;
        Clocks { now: Moment::from_origin(ms(now)), boottime: ms(100_000 + boottime), wall: ms(WALL.saturating_add_signed(wall)) }
    }

    fn watch() -> GapWatch {
        let mut watch = GapWatch::new(clocks(0, 0, 0));
        watch.expect_back_by(Moment::from_origin(Duration::from_secs(1)));
        watch
    }

    fn seen(watch: &mut GapWatch, clocks: Clocks) -> Vec<(PauseKind, u64)> {
        watch.back(clocks).map(|record| (record.kind, record.length.as_secs())).collect()
    }

    #[test]
    fn a_loop_that_wakes_in_time_was_not_paused() {
        let mut watch = watch();
        assert_eq!(seen(&mut watch, clocks(3_900, 3_900, 3_900)), []);
        assert_eq!(watch.resumed_at(), None);
    }

    #[test]
    fn a_loop_that_wakes_late_was_paused() {
        let mut watch = watch();
        assert_eq!(seen(&mut watch, clocks(21_000, 21_000, 21_000)), [(PauseKind::Late, 20)]);
        assert_eq!(watch.resumed_at(), Some(clocks(21_000, 0, 0).now));
    }

    #[test]
    fn a_suspended_machine_was_paused_although_the_monotonic_clock_stood_still() {
        let mut watch = watch();
        assert_eq!(seen(&mut watch, clocks(1_000, 601_000, 601_000)), [(PauseKind::Suspended, 600)]);
        assert_eq!(watch.resumed_at(), Some(clocks(1_000, 0, 0).now));
    }

    #[test]
    fn a_wall_clock_that_is_set_is_on_record_and_voids_nothing() {
        for (wall, kind) in [(3_601_000, PauseKind::SteppedForward), (-3_599_000, PauseKind::SteppedBack)] {
            let mut watch = watch();
            assert_eq!(seen(&mut watch, clocks(1_000, 1_000, wall)), [(kind, 3_600)]);
            assert_eq!(watch.resumed_at(), None);
            assert!(!kind.voids_ages());
            watch.expect_back_by(clocks(2_000, 0, 0).now);
            assert_eq!(seen(&mut watch, clocks(2_000, 2_000, wall + 1_000)), [], "a step is said once");
        }
    }

    #[test]
    fn a_step_is_as_long_as_it_was_set_although_the_clocks_are_read_one_after_the_other() {
        for late in [0, 40, 400] {
            let mut watch = watch();
            let mut after = clocks(1_000, 1_000, -7_199_000);
            after.wall += Duration::from_micros(late);
            let step = watch.back(after).next().unwrap();
            assert_eq!((step.kind, step.length), (PauseKind::SteppedBack, Duration::from_secs(7_200)), "{late} us");
        }
    }

    #[test]
    fn a_wall_clock_that_is_kept_right_was_not_set() {
        let mut watch = watch();
        for second in 1..100_i64 {
            let now = second.unsigned_abs() * 1_000;
            watch.expect_back_by(clocks(now, 0, 0).now);
            assert_eq!(seen(&mut watch, clocks(now, now, second * 1_900)), []);
        }
    }

    #[test]
    fn a_pause_after_which_the_wall_clock_is_set_is_two_records() {
        let mut watch = watch();
        let both = seen(&mut watch, clocks(21_000, 21_000, 41_000));
        assert_eq!(both, [(PauseKind::Late, 20), (PauseKind::SteppedForward, 20)]);
    }

    #[test]
    fn late_returns_are_counted_for_a_minute() {
        let mut watch = GapWatch::new(clocks(0, 0, 0));
        for (now, late_ticks) in [(1_000, 1), (1_400, 1), (2_000, 2), (60_900, 3), (61_100, 2), (62_100, 2)] {
            assert_eq!(seen(&mut watch, clocks(now, now, i64::try_from(now).unwrap())).len(), usize::from(now == 60_900));
            assert_eq!(watch.late_ticks(), late_ticks, "at {now}");
        }
    }

    #[test]
    fn a_pause_that_falls_between_two_waits_is_noticed_too() {
        let mut watch = watch();
        assert_eq!(seen(&mut watch, clocks(1_000, 1_000, 1_000)), []);
        assert_eq!(seen(&mut watch, clocks(9_000, 9_000, 9_000)), [(PauseKind::Late, 8)]);
    }
}
