//! When an announcement is repeated.
//!
//! One packet can be lost, and a switch may still be learning. The supervisor owns this, asks for the
//! next moment, and runs the announce step (which proves leadership again) when it is due.

use std::time::Duration;

use crate::decision::time::Moment;

/// Repeats after the announcement that goes out with the alias (RFC 5227 section 2.3 asks for two in
/// all; the third catches a port that spanning tree held for a moment).
const REPEATS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// The repeats that are still to come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnnounceSchedule {
    first: Moment,
    done: usize,
    running: bool,
}

impl AnnounceSchedule {
    /// Begin anew: the FIP appeared, and was announced, at `at`.
    #[must_use]
    pub const fn starting(at: Moment) -> Self {
        Self { first: at, done: 0, running: true }
    }

    /// When the next repeat is due; `None` if there is none.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        let after = REPEATS.get(self.done).filter(|_| self.running)?;
        Some(self.first + *after)
    }

    /// Whether to announce now. Repeats that were missed together count as one.
    pub fn take_due(&mut self, now: Moment) -> bool {
        let mut due = false;
        while self.next_due().is_some_and(|at| at <= now) {
            self.done += 1;
            due = true;
        }
        due
    }

    /// The FIP is no longer here.
    pub const fn stop(&mut self) {
        self.running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn repeats_come_after_one_and_three_seconds_and_then_no_more() {
        let mut schedule = AnnounceSchedule::starting(at(500));
        assert!(!schedule.take_due(at(1499)));
        assert!(schedule.take_due(at(1500)));
        assert!(!schedule.take_due(at(1501)), "one announcement a repeat");
        assert_eq!(schedule.next_due(), Some(at(3500)));
        assert!(schedule.take_due(at(3600)));
        assert_eq!(schedule.next_due(), None);
    }

    #[test]
    fn missed_repeats_are_one_and_a_stopped_or_fresh_schedule_has_none() {
        let mut schedule = AnnounceSchedule::starting(at(0));
        assert!(schedule.take_due(at(60_000)));
        assert!(!schedule.take_due(at(60_000)));
        let mut stopped = AnnounceSchedule::starting(at(0));
        stopped.stop();
        assert!(!stopped.take_due(at(60_000)));
        assert_eq!(AnnounceSchedule::default().next_due(), None);
    }
}
