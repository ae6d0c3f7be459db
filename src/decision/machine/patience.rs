//! How long an order waits, and how calmly the machine looks, beyond what cooldowns and budgets say. Pure.

use std::time::Duration;

use crate::decision::facts::{Holding, LoopState, Role};
use crate::decision::judge::Facts;
use crate::decision::plan::{Decision, WaitingOn};
use crate::decision::verdict::Verdict;

/// An alarm under which nothing is left to do, and which may last for days; and an etcd whose leader changes all the time is
/// not helped by more questions.
pub(super) fn is_standing(decision: &Decision, facts: &Facts) -> bool {
    let idle = decision.start.is_empty() && decision.waiting_on.is_empty();
    let standing = decision.verdict == Verdict::LeaderFlapping
        || (idle && matches!(decision.verdict, Verdict::LoopBlind | Verdict::ManifestShadowed | Verdict::ManifestChanged));
    standing && facts.holding.as_ref().is_ok_and(|holding| holding.remaining().is_none())
}

/// What was begun for one leader would be wrong under the next.
pub(super) fn wait_for_a_stable_leader(facts: &Facts) -> Option<WaitingOn> {
    facts.flapping.map(|remaining| WaitingOn::StableLeader { remaining })
}

/// A FIP that is missing on the leader, or left on a follower, is the loop's to put right for one worst round. Then a follower lets go
/// whatever the loop does; a leader puts it up for a loop that works, or may.
pub(super) fn wait_for_the_loops_own_round(verdict: Verdict, facts: &Facts) -> Option<WaitingOn> {
    let absent = facts.holding.as_ref().ok().map(|holding| *holding == Holding::Absent)?;
    let waits = match &facts.role {
        Role::ClaimsToLead | Role::Leads | Role::Unproven(_) => {
            absent && matches!(verdict, Verdict::Healthy | Verdict::LogStalled | Verdict::HostStarved)
        }
        Role::ClaimsToFollow | Role::Follows => {
            let judges = !matches!(verdict, Verdict::Paused | Verdict::Resumed | Verdict::Starting);
            !absent && judges && !matches!(verdict, Verdict::FipOrphaned | Verdict::FipDuplicated)
        }
        Role::Unknown(_) | Role::Unreachable(_) | Role::NoLeader | Role::Learner | Role::CutOff(_) => false,
    };
    let waited = facts.role_age.min(facts.holding_age);
    waits.then(|| WaitingOn::LoopsOwnRound { remaining: facts.worst_round.saturating_sub(waited) })
}

/// A loop that takes off what we put up would be fed an alias a second; at one a worst round the hour's budget lasts.
pub(super) fn wait_for_a_loop_that_took_it_off(facts: &Facts) -> Option<WaitingOn> {
    let remaining = facts.worst_round.saturating_sub(facts.role_age.min(facts.holding_age));
    (facts.watched_loop.took_fip_off() && !remaining.is_zero()).then_some(WaitingOn::LoopsOwnRound { remaining })
}

/// For how long a loop has been mistaken, whatever the verdict: one that puts the FIP up again and again on a follower
/// is `fip_orphaned` in between.
pub(super) const fn lasts(watched_loop: &LoopState) -> Duration {
    match watched_loop {
        LoopState::Mistaken { lasts, .. } => *lasts,
        LoopState::Unknown(_)
        | LoopState::Alive { .. }
        | LoopState::Renewed { .. }
        | LoopState::Blind { .. }
        | LoopState::LogStalled
        | LoopState::Starved(_)
        | LoopState::Stalled(_)
        | LoopState::Absent
        | LoopState::Returning => Duration::ZERO,
    }
}
