//! What a step is for: a ladder passes over a step whose goal is reached.

use super::facts::Holding;
use super::judge::Facts;
use super::step::StepKind;

/// Whether there is nothing for the step to do here: done already, or not this node's to do.
pub(super) fn is_goal_reached(step: StepKind, facts: &Facts) -> bool {
    match step {
        StepKind::ApplyAlias => {
            !facts.role.says_it_leads() || facts.holding.as_ref().is_ok_and(|holding| *holding != Holding::Absent)
        }
        StepKind::ReleaseAlias => facts.role.says_it_leads() || facts.holding == Ok(Holding::Absent),
        StepKind::AnnounceAlias => !facts.role.says_it_leads() || !facts.contested,
        StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias | StepKind::CycleManifest => false,
    }
}
