//! One question, asked before every step: why would this be unsafe now?
//!
//! Owns I1 (no alias without a fresh proof), I3 (unknown never acts) and the refusals of I2. Missing
//! data is itself a reason. The decision asks before it orders a step; the executor asks again with a
//! new observation right before it acts.

use super::facts::{Holding, LoopState, Role, last_beat, unknown_reason};
use super::judge::Facts;
use super::observation::{KubeletView, LoopFip, LoopVerdict, Observation, ProcessView, Quorum, Reading};
use super::plan::UnsafeReason;
use super::step::StepKind;
use super::time::Moment;
use crate::decision::observation::EtcdView;
use crate::policy::Policy;

/// Why `step` would be unsafe now; `None` if it may be taken.
#[must_use]
pub fn unsafe_to_run(
    step: StepKind,
    observation: &Observation,
    facts: &Facts,
    policy: &Policy,
    now: Moment,
) -> Option<UnsafeReason> {
    let check = match step {
        StepKind::ApplyAlias => apply_alias(observation, facts, policy, now),
        StepKind::RenewAlias => renew_alias(observation, facts, policy, now),
        StepKind::HandOverAlias => hand_over_alias(observation, facts, policy, now),
        StepKind::LeaseAlias => lease_alias(observation, facts, policy, now),
        StepKind::ReleaseAlias => release_alias(observation, facts, policy, now),
        StepKind::AnnounceAlias => announce_alias(observation, facts, policy, now),
        StepKind::CycleManifest => cycle_manifest(observation, facts, policy, now),
    };
    check.err()
}

type Check = Result<(), UnsafeReason>;

fn apply_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    proven_leader(observation, facts, policy, now)?;
    match holding(facts)? {
        Holding::Absent => {}
        Holding::Held | Holding::Lent { .. } | Holding::Leased { .. } => return Err(UnsafeReason::AliasPresent),
    }
    link_is_up(observation)?;
    if facts.link_settled { Ok(()) } else { Err(UnsafeReason::LinkUnsettled) }
}

fn renew_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    proven_leader(observation, facts, policy, now)?;
    ours(facts)
}

/// What was lent is the loop's, and goes back as it was. What we applied becomes the loop's once it knows of it.
fn hand_over_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    proven_leader(observation, facts, policy, now)?;
    match holding(facts)? {
        Holding::Absent => Err(UnsafeReason::NoAlias),
        Holding::Held => Err(UnsafeReason::NotOurs),
        Holding::Lent { .. } => Ok(()),
        Holding::Leased { .. } => loop_confirms(observation, facts, policy, now),
    }
}

/// The loop's alias, or one that we could hand over.
fn lease_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    proven_leader(observation, facts, policy, now)?;
    match holding(facts)? {
        Holding::Absent => Err(UnsafeReason::NoAlias),
        Holding::Lent { .. } => Err(UnsafeReason::AliasPresent),
        Holding::Leased { .. } => loop_confirms(observation, facts, policy, now),
        // Another prefix is a second entry: a lease on the /32 would not end it.
        Holding::Held => match observation.alias.fresh().map(|alias| alias.entries.as_slice()) {
            Some([entry]) if entry.prefix_len == 32 => Ok(()),
            Some(_) | None => Err(UnsafeReason::NotAHostRoute),
        },
    }
}

/// The loop must have seen the alias, as leader, in a round that began after the alias was there.
fn loop_confirms(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    if !matches!(facts.watched_loop, LoopState::Alive { overdue: false }) {
        return Err(UnsafeReason::LoopNotConfirmed);
    }
    let Some((beat, at)) = last_beat(observation) else {
        return Err(UnsafeReason::LoopNotConfirmed);
    };
    let sees_it = beat.verdict == LoopVerdict::Leader && matches!(beat.fip, LoopFip::Kept | LoopFip::Assigned);
    let since_alias = facts.holding_age;
    if sees_it && now.since(at) < since_alias && now.since(at) <= policy.watched_loop.interval.saturating_mul(2) {
        Ok(())
    } else {
        Err(UnsafeReason::LoopNotConfirmed)
    }
}

/// Either another leader is proven, or etcd has said for longer than one worst round that it does not
/// lead while the loop, which would let go by itself, is down.
fn release_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    if holding(facts)? == Holding::Absent {
        return Err(UnsafeReason::NoAlias);
    }
    match &facts.role {
        Role::Follows => proven_recently(observation, policy, now),
        Role::Leads | Role::ClaimsToLead => Err(UnsafeReason::LeadsHere),
        Role::NoLeader | Role::CutOff(_) => {
            if !facts.watched_loop.is_down() {
                return Err(UnsafeReason::LoopNotStalled("it takes the alias off itself".to_owned()));
            }
            if facts.role_age < facts.worst_round {
                return Err(UnsafeReason::NoQuorum("not yet for longer than one worst round".to_owned()));
            }
            Ok(())
        }
        Role::Unproven(why) => Err(UnsafeReason::NoQuorum(why.clone())),
        Role::ClaimsToFollow => Err(UnsafeReason::NoQuorum("it has not been asked".to_owned())),
        Role::Learner => Err(UnsafeReason::NoQuorum("the local member is a learner".to_owned())),
        Role::Unreachable(fault) => Err(UnsafeReason::NoQuorum(format!("etcd is unreachable: {fault:?}"))),
        Role::Unknown(reason) => Err(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
    }
}

fn announce_alias(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    proven_leader(observation, facts, policy, now)?;
    if holding(facts)? == Holding::Absent {
        return Err(UnsafeReason::NoAlias);
    }
    link_is_up(observation)
}

fn cycle_manifest(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    match &facts.role {
        Role::Leads | Role::Follows => proven_recently(observation, policy, now)?,
        Role::Unknown(reason) => return Err(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
        role @ (Role::Unreachable(_)
        | Role::NoLeader
        | Role::Learner
        | Role::ClaimsToLead
        | Role::ClaimsToFollow
        | Role::Unproven(_)
        | Role::CutOff(_)) => return Err(UnsafeReason::NoQuorum(describe(role))),
    }
    if observation.cycle.is_some() {
        return Err(UnsafeReason::CycleOpen);
    }
    match observation.kubelet.fresh() {
        Some(KubeletView::Running) => {}
        Some(KubeletView::Down) => return Err(UnsafeReason::KubeletDown),
        None => {
            return Err(UnsafeReason::SenseUnknown { sense: "kubelet", reason: unknown_reason(&observation.kubelet) });
        }
    }
    match &facts.watched_loop {
        LoopState::Stalled(_) => {}
        LoopState::Unknown(reason) => return Err(UnsafeReason::SenseUnknown { sense: "loop", reason: reason.clone() }),
        LoopState::Absent => return Err(UnsafeReason::LoopNotStalled("no process; the kubelet restarts it".to_owned())),
        LoopState::LogStalled => return Err(UnsafeReason::LoopNotStalled("only its log is frozen".to_owned())),
        LoopState::Alive { .. } => return Err(UnsafeReason::LoopNotStalled("it finishes rounds".to_owned())),
    }
    if let Some(ProcessView::Present(process)) = observation.process.fresh()
        && process.copies > 1
    {
        return Err(UnsafeReason::SeveralCopies(process.copies));
    }
    let Some(manifest) = observation.manifest.fresh() else {
        return Err(UnsafeReason::SenseUnknown { sense: "manifest", reason: unknown_reason(&observation.manifest) });
    };
    if let Some(why) = &manifest.immovable {
        return Err(UnsafeReason::ManifestImmovable(why.clone()));
    }
    if manifest.sha256.is_none() {
        return Err(UnsafeReason::ManifestAbsent);
    }
    match manifest.shadows.first() {
        Some(shadow) => Err(UnsafeReason::ManifestShadowed(shadow.display().to_string())),
        None => Ok(()),
    }
}

fn proven_leader(observation: &Observation, facts: &Facts, policy: &Policy, now: Moment) -> Check {
    match &facts.role {
        Role::Leads => proven_recently(observation, policy, now),
        Role::Unknown(reason) => Err(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
        role @ (Role::Unreachable(_)
        | Role::NoLeader
        | Role::Learner
        | Role::ClaimsToLead
        | Role::ClaimsToFollow
        | Role::Follows
        | Role::Unproven(_)
        | Role::CutOff(_)) => Err(UnsafeReason::NotProvenLeader(describe(role))),
    }
}

fn proven_recently(observation: &Observation, policy: &Policy, now: Moment) -> Check {
    let at = match &observation.etcd {
        Reading::Fresh { value: EtcdView::Answered(status), .. } => match &status.quorum {
            Quorum::Confirmed { at } => Some(*at),
            Quorum::NotAsked | Quorum::Denied(_) => None,
        },
        Reading::Fresh { value: EtcdView::Unreachable(_), .. } | Reading::Stale { .. } | Reading::Unknown(_) => None,
    };
    match at {
        None => Err(UnsafeReason::NoQuorum("it has not been asked".to_owned())),
        // The clock may have stood still in a pause, so its length does not show in the proof's age.
        Some(at) if observation.resumed_at.is_some_and(|resumed| at <= resumed) => {
            Err(UnsafeReason::NoQuorum("the proof is from before this daemon's own pause".to_owned()))
        }
        Some(at) if now.since(at) > policy.limits.proof_max_age => {
            Err(UnsafeReason::NoQuorum(format!("the proof is {} ms old", now.since(at).as_millis())))
        }
        Some(_) => Ok(()),
    }
}

fn holding(facts: &Facts) -> Result<Holding, UnsafeReason> {
    facts.holding.clone().map_err(|reason| UnsafeReason::SenseUnknown { sense: "alias", reason })
}

fn ours(facts: &Facts) -> Check {
    match holding(facts)? {
        Holding::Leased { .. } | Holding::Lent { .. } => Ok(()),
        Holding::Absent => Err(UnsafeReason::NoAlias),
        Holding::Held => Err(UnsafeReason::NotOurs),
    }
}

fn link_is_up(observation: &Observation) -> Check {
    match observation.alias.fresh() {
        Some(alias) if alias.up && alias.carrier => Ok(()),
        Some(_) => Err(UnsafeReason::LinkDown),
        None => Err(UnsafeReason::SenseUnknown { sense: "alias", reason: unknown_reason(&observation.alias) }),
    }
}

fn describe(role: &Role) -> String {
    match role {
        Role::Unknown(reason) => reason.clone(),
        Role::Unreachable(fault) => format!("etcd is unreachable: {fault:?}"),
        Role::NoLeader => "etcd knows of no leader".to_owned(),
        Role::Learner => "the local member is a learner".to_owned(),
        Role::ClaimsToLead | Role::ClaimsToFollow => "the quorum has not been asked".to_owned(),
        Role::Leads => "it leads".to_owned(),
        Role::Unproven(why) | Role::CutOff(why) => why.clone(),
        Role::Follows => "another member leads".to_owned(),
    }
}
