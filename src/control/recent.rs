//! The last steps, for `status`. Bounded; the journal has them all. Pure.

use std::collections::VecDeque;

use crate::decision::step::{StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;

/// How many steps are kept: an incident has about six, and a screen shows no more than this.
pub const RECENT_STEPS_MAX: usize = 16;

/// A step that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentStep {
    /// Which.
    pub step: StepKind,
    /// What it answered.
    pub verdict: Verdict,
    /// When it began.
    pub started_at: Moment,
    /// When it ended.
    pub ended_at: Moment,
    /// How.
    pub outcome: StepOutcome,
}

/// The last [`RECENT_STEPS_MAX`] steps, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentSteps(VecDeque<RecentStep>);

impl RecentSteps {
    /// Adds a step that ended. Renewals of the lease come every few seconds and would push out all
    /// else, so a successful one is left out.
    pub fn push(&mut self, step: RecentStep) {
        if step.step == StepKind::RenewAlias && matches!(step.outcome, StepOutcome::Succeeded(_)) {
            return;
        }
        if self.0.len() == RECENT_STEPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(step);
    }

    /// Newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &RecentStep> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step(step: StepKind, second: u64) -> RecentStep {
        let at = Moment::from_origin(Duration::from_secs(second));
        RecentStep {
            step,
            verdict: Verdict::FipMissing,
            started_at: at,
            ended_at: at,
            outcome: StepOutcome::Succeeded(String::new()),
        }
    }

    #[test]
    fn only_the_newest_are_kept_and_renewals_push_nothing_out() {
        let mut recent = RecentSteps::default();
        for second in 0..40 {
            recent.push(step(StepKind::ApplyAlias, second));
            recent.push(step(StepKind::RenewAlias, second));
        }
        let seconds: Vec<u64> = recent.newest_first().map(|step| step.started_at.since_origin().as_secs()).collect();
        assert_eq!(seconds, (24..40).rev().collect::<Vec<_>>());
    }
}
