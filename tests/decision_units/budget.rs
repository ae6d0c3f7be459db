//! The hour's budget at its largest.

use std::time::Duration;

use fip_watchdog::decision::budget::Budget;
use fip_watchdog::decision::plan::WaitingOn;
use fip_watchdog::decision::step::StepKind;

use crate::scene::{at, policy};

#[test]
fn a_budget_of_as_many_runs_as_are_remembered_is_kept_to() {
    let mut limits = policy().limits;
    (limits.alias_per_hour, limits.alias_cooldown) = (600, Duration::from_secs(1));
    let mut budget = Budget::default();
    for second in 0..600 {
        assert_eq!(budget.wait(StepKind::ApplyAlias, &limits, at(second * 1_000)), None, "run {second}");
        budget.spend(StepKind::ApplyAlias, at(second * 1_000));
    }
    let wait = budget.wait(StepKind::ApplyAlias, &limits, at(1_000_000));
    assert_eq!(wait, Some(WaitingOn::Budget { step: StepKind::ApplyAlias, remaining: Duration::from_secs(2_600) }));
}
