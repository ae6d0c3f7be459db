//! Which steps make sense for which verdict.
//!
//! A ladder in `remedies` replaces the default ladder of its verdict; `[]` answers it by observing. A step
//! that could only do harm for a verdict, or that the safety check would refuse every time, is refused here,
//! with the reason.

use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;

use super::Policy;

/// The verdicts that steps can answer, with those steps; each other verdict is answered by observing.
#[must_use]
pub const fn steps_for(verdict: Verdict) -> &'static [StepKind] {
    use StepKind::{AnnounceAlias, ApplyAlias, CycleManifest, ReleaseAlias};
    match verdict {
        Verdict::LoopStalledFipMissing | Verdict::LoopMistaken => &[ApplyAlias, CycleManifest],
        Verdict::LoopStalledFipHeld => &[AnnounceAlias, CycleManifest],
        Verdict::LoopStalledFollower => &[CycleManifest],
        Verdict::FipOrphaned => &[ReleaseAlias, CycleManifest],
        Verdict::ManifestShadowed
        | Verdict::FipMissing
        | Verdict::LoopBlind
        | Verdict::LoopAbsent
        | Verdict::PodStuck
        | Verdict::KubeletDown => &[ApplyAlias],
        Verdict::FipDuplicated => &[AnnounceAlias, ReleaseAlias],
        Verdict::NoQuorum => &[ReleaseAlias],
        Verdict::Paused
        | Verdict::Starting
        | Verdict::Resumed
        | Verdict::Unknown
        | Verdict::EtcdUnreachable
        | Verdict::LeaderUnproven
        | Verdict::LeaderFlapping
        | Verdict::ManifestMissing
        | Verdict::ManifestChanged
        | Verdict::LogStalled
        | Verdict::HostStarved
        | Verdict::Healthy => &[],
    }
}

/// Why a step must not answer a verdict; `None` if it may.
#[must_use]
pub fn refusal(verdict: Verdict, step: StepKind) -> Option<String> {
    if matches!(step, StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias) {
        return Some("is upkeep that the watchdog does by itself, not a remedy".to_owned());
    }
    let allowed = steps_for(verdict);
    if allowed.contains(&step) {
        return None;
    }
    let reason = specific(verdict, step).unwrap_or("it would change nothing for the better");
    Some(format!("is not allowed for `{}`: {reason} ({})", verdict.name(), allowed_text(verdict)))
}

fn specific(verdict: Verdict, step: StepKind) -> Option<&'static str> {
    match verdict {
        Verdict::Paused => Some("an operator asked for no action"),
        Verdict::Starting | Verdict::Resumed | Verdict::Unknown => Some("what is not known never leads to an action"),
        Verdict::EtcdUnreachable => {
            Some("without an answer from etcd nobody knows who leads, and a new loop would ask the same etcd")
        }
        Verdict::LeaderUnproven => Some("another node may be the leader"),
        Verdict::LeaderFlapping => Some("the next leader may be another in a moment"),
        Verdict::ManifestMissing => Some("somebody took the manifest out on purpose, or another program is at work on it"),
        Verdict::HostStarved => Some("under such pressure a silence means nothing, and a FIP that is missing is `fip_missing`"),
        Verdict::ManifestChanged => Some("the kubelet is replacing the pod, and what the new loop does is not known yet"),
        Verdict::LogStalled => Some("the loop works on, only its log does not"),
        Verdict::Healthy => Some("nothing is wrong"),
        Verdict::NoQuorum => match step {
            StepKind::CycleManifest => Some("the cause is the network or the other members, and a new loop changes neither"),
            StepKind::ApplyAlias | StepKind::AnnounceAlias => Some("without a quorum no node leads, so the FIP belongs nowhere"),
            StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias | StepKind::ReleaseAlias => None,
        },
        Verdict::FipOrphaned => Some("another node leads, so the FIP must leave this one"),
        Verdict::FipDuplicated => Some("the FIP is here, and the loop is not what makes another station claim it"),
        Verdict::LoopStalledFollower => Some("another node leads, so the FIP has no business here"),
        Verdict::ManifestShadowed | Verdict::LoopBlind | Verdict::LoopMistaken => match step {
            StepKind::CycleManifest if verdict == Verdict::ManifestShadowed => {
                Some("the kubelet would go on with the other file's pod")
            }
            StepKind::CycleManifest => Some("a new loop would ask the same etcd in the same way, and fail as this one does"),
            StepKind::ReleaseAlias => Some("an alias that belongs elsewhere is `fip_orphaned`"),
            StepKind::AnnounceAlias => Some("`apply_alias` announces by itself"),
            StepKind::ApplyAlias | StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias => None,
        },
        Verdict::PodStuck | Verdict::KubeletDown => match step {
            StepKind::CycleManifest if verdict == Verdict::PodStuck => {
                Some("a cycle has just failed, and the next one waits for the cooldown")
            }
            StepKind::CycleManifest => Some("nobody would act on the manifest"),
            StepKind::ReleaseAlias => Some("an alias that belongs elsewhere is `fip_orphaned`"),
            StepKind::AnnounceAlias => Some("`apply_alias` announces by itself"),
            StepKind::ApplyAlias | StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias => None,
        },
        Verdict::FipMissing | Verdict::LoopAbsent | Verdict::LoopStalledFipMissing | Verdict::LoopStalledFipHeld => match step {
            StepKind::ReleaseAlias => Some("this node leads, so the FIP belongs here"),
            StepKind::CycleManifest if verdict == Verdict::FipMissing => Some("the loop is alive"),
            StepKind::CycleManifest => Some("there is no pod to restart, and the kubelet is already at it"),
            StepKind::ApplyAlias => Some("the alias is there"),
            StepKind::AnnounceAlias => Some("`apply_alias` announces by itself"),
            StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias => None,
        },
    }
}

/// What is allowed for a verdict, as a message says it.
#[must_use]
pub fn allowed_text(verdict: Verdict) -> String {
    let names: Vec<_> = steps_for(verdict).iter().map(|step| step.name()).collect();
    if names.is_empty() {
        "allowed: [], it is answered by observing".to_owned()
    } else {
        format!("allowed: {}", names.join(", "))
    }
}

/// The verdict of that name.
#[must_use]
pub fn verdict(name: &str) -> Option<Verdict> {
    Verdict::ALL.into_iter().find(|verdict| verdict.name() == name)
}

/// The step of that name.
#[must_use]
pub fn step(name: &str) -> Option<StepKind> {
    StepKind::ALL.into_iter().find(|step| step.name() == name)
}

/// A policy's ladder for a verdict, as the file would spell it: `[apply_alias, cycle_manifest]`.
#[must_use]
pub fn spell(policy: &Policy, verdict: Verdict) -> String {
    let steps = policy.remedies.get(&verdict).map_or(&[] as &[StepKind], Vec::as_slice);
    format!("[{}]", steps.iter().map(|step| step.name()).collect::<Vec<_>>().join(", "))
}
