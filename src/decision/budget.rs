//! How often a step may run (invariant I5): a cooldown, and a budget in a sliding hour.
//!
//! A spent budget is never final: the step is armed again when its oldest run is an hour old.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::plan::WaitingOn;
use super::step::StepKind;
use super::time::Moment;
use crate::policy::LimitPolicy;

/// RFC 5227 section 2.4: least time between two defences of an address (`DEFEND_INTERVAL`).
pub const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The window of a budget.
const HOUR: Duration = Duration::from_secs(3600);

/// More runs than any policy allows in an hour are not worth remembering.
const REMEMBERED_MAX: usize = 600;

/// When each limited step was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    runs: BTreeMap<StepKind, VecDeque<Moment>>,
    /// For the cooldown: also of runs that were given back.
    last: BTreeMap<StepKind, Moment>,
}

struct Limit {
    cooldown: Duration,
    per_hour: u32,
}

/// Renewals and hand-overs follow from an application and need no limit of their own; they are bounded by the
/// poll and by the proofs that they need. An announcement that answers a verdict is a defence; one that follows
/// the FIP's appearance is not held up by this limit.
fn limit_of(step: StepKind, limits: &LimitPolicy) -> Option<Limit> {
    match step {
        StepKind::CycleManifest => Some(Limit { cooldown: limits.cooldown, per_hour: limits.cycles_per_hour }),
        StepKind::ApplyAlias => Some(Limit { cooldown: limits.alias_cooldown, per_hour: limits.alias_per_hour }),
        StepKind::ReleaseAlias | StepKind::LeaseAlias => Some(Limit { cooldown: limits.alias_cooldown, per_hour: u32::MAX }),
        StepKind::AnnounceAlias => Some(Limit { cooldown: DEFEND_INTERVAL, per_hour: u32::MAX }),
        StepKind::RenewAlias | StepKind::HandOverAlias => None,
    }
}

impl Budget {
    /// Remembers a run that was started at `at`; runs of a former process are fed in the same way.
    pub fn spend(&mut self, step: StepKind, at: Moment) {
        self.last.entry(step).and_modify(|last| *last = at.max(*last)).or_insert(at);
        let runs = self.runs.entry(step).or_default();
        let place = runs.partition_point(|run| *run <= at);
        runs.insert(place, at);
        while runs.len() > REMEMBERED_MAX {
            runs.pop_front();
        }
    }

    /// Gives the last run back to the hour's budget, because it was refused before anything was changed: a disk that is full
    /// for some minutes must not cost an hour without a remedy. Its cooldown stays.
    pub fn give_back(&mut self, step: StepKind) {
        if let Some(runs) = self.runs.get_mut(&step) {
            runs.pop_back();
        }
    }

    /// Moves every run into the past and forgets those that no limit can ask for.
    #[cfg(feature = "model")]
    pub fn age(&mut self, limits: &LimitPolicy, older: impl Fn(Moment) -> Moment) {
        self.last.retain(|step, _| limit_of(*step, limits).is_some());
        self.last.values_mut().for_each(|last| *last = older(*last));
        for (step, runs) in &mut self.runs {
            let asked_for = limit_of(*step, limits).map_or(0, |limit| match usize::try_from(limit.per_hour) {
                Ok(allowed) if allowed <= REMEMBERED_MAX => allowed.max(1),
                Ok(_) | Err(_) => 1,
            });
            while runs.len() > asked_for {
                runs.pop_front();
            }
            runs.iter_mut().for_each(|run| *run = older(*run));
        }
        self.runs.retain(|_, runs| !runs.is_empty());
    }

    /// Why the step has to wait, if it has to.
    #[must_use]
    pub fn wait(&self, step: StepKind, limits: &LimitPolicy, now: Moment) -> Option<WaitingOn> {
        let limit = limit_of(step, limits)?;
        let cooling = limit.cooldown.saturating_sub(now.since(*self.last.get(&step)?));
        if !cooling.is_zero() {
            return Some(WaitingOn::Cooldown { step, remaining: cooling });
        }
        let runs = self.runs.get(&step)?;
        let mut recent = runs.iter().filter(|run| now.since(**run) < HOUR);
        let spent = recent.clone().count();
        let allowed = usize::try_from(limit.per_hour).unwrap_or(usize::MAX);
        if spent < allowed {
            return None;
        }
        let oldest = recent.nth(spent.saturating_sub(allowed.max(1)))?;
        Some(WaitingOn::Budget { step, remaining: HOUR.saturating_sub(now.since(*oldest)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    fn limits() -> LimitPolicy {
        Policy::with_defaults(std::net::Ipv4Addr::new(192, 0, 2, 10), "eth0").limits
    }

    #[test]
    fn a_cycle_within_the_cooldown_waits_for_the_rest_of_it() {
        let mut budget = Budget::default();
        budget.spend(StepKind::CycleManifest, at(100));
        let wait = budget.wait(StepKind::CycleManifest, &limits(), at(130));
        assert_eq!(wait, Some(WaitingOn::Cooldown { step: StepKind::CycleManifest, remaining: Duration::from_secs(90) }));
    }

    #[test]
    fn a_spent_budget_is_armed_again_when_the_oldest_run_is_an_hour_old() {
        let mut budget = Budget::default();
        for start in [0, 200, 400] {
            budget.spend(StepKind::CycleManifest, at(start));
        }
        let wait = budget.wait(StepKind::CycleManifest, &limits(), at(600));
        assert_eq!(wait, Some(WaitingOn::Budget { step: StepKind::CycleManifest, remaining: Duration::from_secs(3000) }));
        assert_eq!(budget.wait(StepKind::CycleManifest, &limits(), at(3600)), None);
    }

    #[test]
    fn a_refused_run_costs_its_cooldown_and_nothing_of_the_hour() {
        let mut budget = Budget::default();
        for start in [0, 200, 400, 600] {
            budget.spend(StepKind::CycleManifest, at(start));
            budget.give_back(StepKind::CycleManifest);
        }
        assert!(matches!(budget.wait(StepKind::CycleManifest, &limits(), at(610)), Some(WaitingOn::Cooldown { .. })));
        assert_eq!(budget.wait(StepKind::CycleManifest, &limits(), at(720)), None);
    }

    #[test]
    fn runs_of_a_former_process_count_whatever_the_order_in_which_they_are_fed() {
        let mut budget = Budget::default();
        for start in [400, 0, 200] {
            budget.spend(StepKind::CycleManifest, at(start));
        }
        assert!(matches!(budget.wait(StepKind::CycleManifest, &limits(), at(600)), Some(WaitingOn::Budget { .. })));
    }
}
