//! What is still done for the alias when this daemon ends: it needs a proof, as everything does, and no verdict.

use super::Machine;
use crate::decision::observation::Observation;
use crate::decision::safety::unsafe_to_run;
use crate::decision::step::StepKind;
use crate::decision::time::Moment;
use crate::decision::upkeep::{Upkeep, is_leased};
use crate::policy::{Mode, Policy};

impl Machine {
    /// The last step on the alias before this daemon ends, or before a policy that only observes, or that is about
    /// another FIP, takes over: the alias is left as a healthy loop would have it, if that is proven to be right.
    pub fn farewell(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> Option<StepKind> {
        let facts = self.facts(observation, policy, now);
        let safe = |step: &StepKind| unsafe_to_run(*step, observation, &facts, policy, self.guards, now).is_none();
        Some(StepKind::HandOverAlias).filter(|step| policy.mode == Mode::Enforce && is_leased(&facts) && safe(step))
    }

    /// Whether the lease must be renewed while the end of the daemon waits for a manifest to go back.
    pub fn renewal_while_stopping(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> Option<StepKind> {
        let facts = self.facts(observation, policy, now);
        let due = policy.mode == Mode::Enforce && Upkeep::of(&facts, policy, false).wanted.contains(&StepKind::RenewAlias);
        let safe = |step: &StepKind| unsafe_to_run(*step, observation, &facts, policy, self.guards, now).is_none();
        Some(StepKind::RenewAlias).filter(|step| due && safe(step))
    }
}
