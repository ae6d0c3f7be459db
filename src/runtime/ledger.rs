//! The pause ledger (invariant I4): each time that this daemon did not run, and each step of the wall clock. Pure.
//!
//! Bounded: the newest are kept for `status`; the journal has them all.

use std::collections::VecDeque;
use std::time::Duration;

use crate::decision::time::Moment;

/// How many records are kept: a night of hourly snapshots of the machine.
pub const LEDGER_MAX: usize = 32;

/// What kind of pause it was, as far as one's own clocks can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseKind {
    /// `CLOCK_BOOTTIME` ran ahead of `CLOCK_MONOTONIC`: the machine was suspended.
    Suspended,
    /// All clocks went on, and this daemon did not: it, or the whole machine, was stopped, stunned or starved.
    Late,
    /// Somebody set the wall clock forward. No pause: whatever counts by a monotonic clock goes on.
    SteppedForward,
    /// Somebody set the wall clock back.
    SteppedBack,
}

impl PauseKind {
    /// The name in the journal and in `status --json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Late => "late",
            Self::SteppedForward => "clock_stepped_forward",
            Self::SteppedBack => "clock_stepped_back",
        }
    }

    /// Whether ages from before it are void. A machine whose monotonic clock stood still together with all others (a snapshot)
    /// shows nothing but the step that puts its wall clock right afterwards; its ages stood still as well.
    #[must_use]
    pub const fn voids_ages(self) -> bool {
        match self {
            Self::Suspended | Self::Late => true,
            Self::SteppedForward | Self::SteppedBack => false,
        }
    }

    /// In words; `length` follows.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Suspended => "the machine was suspended; this daemon did not run for",
            Self::Late => "this daemon, or the machine, stood still for",
            Self::SteppedForward => "the wall clock was set forward by",
            Self::SteppedBack => "the wall clock was set back by",
        }
    }
}

/// A pause that was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseRecord {
    /// What kind.
    pub kind: PauseKind,
    /// For how long, or by how much.
    pub length: Duration,
    /// When it was over (own clock).
    pub at: Moment,
    /// What the wall clock showed then, since the Unix epoch.
    pub wall: Duration,
}

impl PauseRecord {
    /// When it was over, by the wall clock as it was then: RFC 3339, UTC, whole seconds.
    #[must_use]
    pub fn ended_at(&self) -> String {
        let at = std::time::SystemTime::UNIX_EPOCH.checked_add(self.wall).unwrap_or(std::time::SystemTime::UNIX_EPOCH);
        humantime::format_rfc3339_seconds(at).to_string()
    }
}

/// The last [`LEDGER_MAX`] pauses, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PauseLedger(VecDeque<PauseRecord>);

impl PauseLedger {
    /// Adds one.
    pub fn push(&mut self, record: PauseRecord) {
        if self.0.len() == LEDGER_MAX {
            self.0.pop_front();
        }
        self.0.push_back(record);
    }

    /// The last one in which this daemon, or the machine, did not run.
    #[must_use]
    pub fn last_pause(&self) -> Option<PauseRecord> {
        self.newest_first().find(|record| record.kind.voids_ages()).copied()
    }

    /// Newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &PauseRecord> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_pauses_are_kept() {
        let mut ledger = PauseLedger::default();
        for second in 0..100 {
            let at = Moment::from_origin(Duration::from_secs(second));
            ledger.push(PauseRecord { kind: PauseKind::Late, length: Duration::from_secs(4), at, wall: Duration::ZERO });
        }
        let seconds: Vec<u64> = ledger.newest_first().map(|record| record.at.since_origin().as_secs()).collect();
        assert_eq!(seconds, (68..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_step_of_the_wall_clock_is_not_the_last_pause() {
        let mut ledger = PauseLedger::default();
        assert_eq!(ledger.last_pause(), None);
        let record = |kind, second| PauseRecord {
            kind,
            length: Duration::from_secs(4),
            at: Moment::from_origin(Duration::from_secs(second)),
            wall: Duration::ZERO,
        };
        for (kind, second) in
            [(PauseKind::Suspended, 1), (PauseKind::Late, 2), (PauseKind::SteppedBack, 3), (PauseKind::SteppedForward, 4)]
        {
            ledger.push(record(kind, second));
        }
        assert_eq!(ledger.last_pause(), Some(record(PauseKind::Late, 2)));
    }
}
