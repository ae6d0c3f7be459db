//! Upkeep of what is already there: it needs a proof and no verdict.
//!
//! So a lease goes on through `starting` and `resumed`, and across a restart of the daemon. Whose an alias is, and
//! whether it is leased, is read from the kernel; nothing about it is remembered.

use std::time::Duration;

use super::facts::{Holding, Role};
use super::judge::Facts;
use super::step::StepKind;
use crate::policy::{Mode, Policy};

/// What the alias needs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upkeep {
    /// The steps that are due, first come first served; each still has to be safe.
    pub wanted: Vec<StepKind>,
    /// The next question to etcd must be a proof.
    pub needs_proof: bool,
    /// The next look must be soon.
    pub is_urgent: bool,
}

impl Upkeep {
    /// What is due; `announce_due`: the alias appeared and has not been announced.
    pub(super) fn of(facts: &Facts, policy: &Policy, announce_due: bool) -> Self {
        let half_life = policy.limits.alias_lease / 2;
        let leads = facts.role.says_it_leads();
        let (applied, lent, held) = match facts.holding {
            Ok(Holding::Leased { .. }) => (true, false, false),
            Ok(Holding::Lent { .. }) => (false, true, false),
            Ok(Holding::Held) => (false, false, true),
            Ok(Holding::Absent) | Err(_) => (false, false, false),
        };
        let remaining = facts.holding.as_ref().ok().and_then(Holding::remaining);
        let ends_within = |time: Duration| remaining.is_some_and(|remaining| remaining <= time);
        let lends = lends(facts, policy);
        // Proof first, everything else after: a lease of ours may go on, a new one waits for a verdict.
        let may_begin = lends && !facts.starting && !facts.resumed;
        let due = [
            (applied && facts.role == Role::Follows, StepKind::ReleaseAlias),
            ((applied || lent) && !lends, StepKind::HandOverAlias),
            (ends_within(half_life), StepKind::RenewAlias),
            // Clients wait for this one, nobody waits for the next.
            (announce_due, StepKind::AnnounceAlias),
            ((applied || held) && may_begin, StepKind::LeaseAlias),
        ];
        // Asked a round early, so that the proof is there when the renewal is due.
        let lent_needs = lent && (!lends || ends_within(half_life + policy.etcd.poll));
        let needs_proof = applied || (leads && (lent_needs || announce_due || (held && may_begin)));
        Self {
            wanted: due.into_iter().filter(|(due, _)| *due).map(|(_, step)| step).collect(),
            needs_proof,
            is_urgent: applied || (leads && (lent_needs || announce_due)),
        }
    }
}

/// Whether the loop's alias gets a lease of ours. An operator's pause ends that, so that a forgotten one
/// cannot cost the FIP.
const fn lends(facts: &Facts, policy: &Policy) -> bool {
    policy.fip.lease_loop_alias && !facts.paused && matches!(policy.mode, Mode::Enforce)
}

/// Who goes leaves the alias as a healthy loop would have it: what was lent goes back, what was applied is handed over if
/// the loop knows of it. Everything else runs out with its lease.
pub(super) const fn is_leased(facts: &Facts) -> bool {
    matches!(facts.holding, Ok(Holding::Leased { .. } | Holding::Lent { .. }))
}
