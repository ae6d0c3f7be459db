//! One question, asked before every step: why would this be unsafe now?
//!
//! Owns I1 (no alias without a fresh proof), I3 (unknown never acts) and the refusals of I2. Missing
//! data is itself a reason. The decision asks before it orders a step; the executor asks again with a
//! new observation right before it acts. Each condition stands under the name of its [`Guard`]; the model check
//! takes them out one by one and shows the harm that each prevents.

use super::facts::{Holding, LoopState, Role, last_beat, unknown_reason};
use super::guard::{Guard, Guards};
use super::judge::Facts;
use super::observation::{KubeletView, LoopFip, LoopVerdict, Observation, ProcessView, Quorum, Reading};
use super::plan::UnsafeReason;
use super::step::StepKind;
use super::time::Moment;
use crate::decision::observation::EtcdView;
use crate::policy::Policy;

/// What a check looks at.
struct Case<'a> {
    observation: &'a Observation,
    facts: &'a Facts,
    policy: &'a Policy,
    guards: Guards,
    now: Moment,
}

/// Why `step` would be unsafe now; `None` if it may be taken.
#[must_use]
pub fn unsafe_to_run(
    step: StepKind,
    observation: &Observation,
    facts: &Facts,
    policy: &Policy,
    guards: Guards,
    now: Moment,
) -> Option<UnsafeReason> {
    let case = Case { observation, facts, policy, guards, now };
    let check = match step {
        StepKind::ApplyAlias => case.apply_alias(),
        StepKind::RenewAlias => case.renew_alias(),
        StepKind::HandOverAlias => case.hand_over_alias(),
        StepKind::LeaseAlias => case.lease_alias(),
        StepKind::ReleaseAlias => case.release_alias(),
        StepKind::AnnounceAlias => case.announce_alias(),
        StepKind::CycleManifest => case.cycle_manifest(),
    };
    check.err()
}

type Check = Result<(), UnsafeReason>;

impl Case<'_> {
    fn apply_alias(&self) -> Check {
        self.proven_leader()?;
        let absent = holding(self.facts)? == Holding::Absent;
        self.require(Guard::AliasAbsent, absent, || UnsafeReason::AliasPresent)?;
        self.link_is_up()?;
        self.require(Guard::LinkSettled, self.facts.link_settled, || UnsafeReason::LinkUnsettled)
    }

    fn renew_alias(&self) -> Check {
        self.proven_leader()?;
        self.ours()
    }

    /// What was lent is the loop's, and goes back as it was. What we applied becomes the loop's once it knows of it.
    fn hand_over_alias(&self) -> Check {
        self.proven_leader()?;
        self.ours()?;
        match holding(self.facts)? {
            Holding::Lent { .. } => Ok(()),
            Holding::Absent | Holding::Held | Holding::Leased { .. } => self.loop_confirms(),
        }
    }

    /// The loop's alias, or one that we could hand over.
    fn lease_alias(&self) -> Check {
        self.proven_leader()?;
        match holding(self.facts)? {
            Holding::Absent => self.forbid(Guard::AliasPresent, UnsafeReason::NoAlias),
            Holding::Lent { .. } => self.forbid(Guard::AliasAbsent, UnsafeReason::AliasPresent),
            Holding::Leased { .. } => self.loop_confirms(),
            // Another prefix is a second entry: a lease on the /32 would not end it.
            Holding::Held => match self.observation.alias.fresh().map(|alias| alias.entries.as_slice()) {
                Some([entry]) if entry.prefix_len == 32 => Ok(()),
                Some(_) | None => Err(UnsafeReason::NotAHostRoute),
            },
        }
    }

    /// The loop must have seen the alias, as leader, in a round that began after the alias was there.
    fn loop_confirms(&self) -> Check {
        self.require(Guard::LoopConfirmed, self.loop_has_seen_the_alias(), || UnsafeReason::LoopNotConfirmed)
    }

    fn loop_has_seen_the_alias(&self) -> bool {
        let Some((beat, at)) = last_beat(self.observation) else {
            return false;
        };
        let works = matches!(self.facts.watched_loop, LoopState::Alive { overdue: false });
        let sees_it = beat.verdict == LoopVerdict::Leader && matches!(beat.fip, LoopFip::Kept | LoopFip::Assigned);
        let age = self.now.since(at);
        works && sees_it && age < self.facts.holding_age && age <= self.policy.watched_loop.interval.saturating_mul(2)
    }

    /// Either another leader is proven, or etcd has said for longer than one worst round that it does not
    /// lead while the loop, which would let go by itself, is down.
    fn release_alias(&self) -> Check {
        let present = holding(self.facts)? != Holding::Absent;
        self.require(Guard::AliasPresent, present, || UnsafeReason::NoAlias)?;
        match &self.facts.role {
            Role::Follows => self.proven_recently(),
            Role::Leads | Role::ClaimsToLead => self.forbid(Guard::NotLeading, UnsafeReason::LeadsHere),
            Role::NoLeader | Role::CutOff(_) => {
                self.answered_recently()?;
                // While its pod is being cycled it counts as down, and may have begun to work again.
                let down = self.facts.watched_loop.is_down() && self.observation.cycle.is_none();
                self.require(Guard::LoopDown, down, || UnsafeReason::LoopNotStalled("it takes the alias off itself".to_owned()))?;
                self.require(Guard::WorstRound, self.facts.told_for >= self.facts.worst_round, || {
                    UnsafeReason::NoQuorum("not yet for longer than one worst round".to_owned())
                })
            }
            Role::Unknown(reason) => self.forbid(Guard::Known, unknown("etcd", reason)),
            role @ (Role::Unproven(_) | Role::ClaimsToFollow | Role::Learner | Role::Unreachable(_)) => {
                self.forbid(Guard::OtherLeaderProven, UnsafeReason::NoQuorum(describe(role)))
            }
        }
    }

    fn announce_alias(&self) -> Check {
        self.proven_leader()?;
        let present = holding(self.facts)? != Holding::Absent;
        self.require(Guard::AliasPresent, present, || UnsafeReason::NoAlias)?;
        self.link_is_up()
    }

    fn cycle_manifest(&self) -> Check {
        match &self.facts.role {
            Role::Leads | Role::Follows => self.proven_recently()?,
            Role::Unknown(reason) => self.forbid(Guard::Known, unknown("etcd", reason))?,
            role @ (Role::Unreachable(_)
            | Role::NoLeader
            | Role::Learner
            | Role::ClaimsToLead
            | Role::ClaimsToFollow
            | Role::Unproven(_)
            | Role::CutOff(_)) => self.forbid(Guard::OtherLeaderProven, UnsafeReason::NoQuorum(describe(role)))?,
        }
        self.require(Guard::CycleClosed, self.observation.cycle.is_none(), || UnsafeReason::CycleOpen)?;
        self.kubelet_runs()?;
        self.loop_is_stalled()?;
        self.one_copy()?;
        self.manifest_may_be_moved()
    }

    fn kubelet_runs(&self) -> Check {
        match self.observation.kubelet.fresh() {
            Some(KubeletView::Running) => Ok(()),
            Some(KubeletView::Down) => self.forbid(Guard::KubeletRuns, UnsafeReason::KubeletDown),
            None => self.forbid(Guard::Known, unknown("kubelet", &unknown_reason(&self.observation.kubelet))),
        }
    }

    fn loop_is_stalled(&self) -> Check {
        let works = |how: &str| self.forbid(Guard::LoopStalled, UnsafeReason::LoopNotStalled(how.to_owned()));
        match &self.facts.watched_loop {
            LoopState::Stalled(_) | LoopState::Mistaken { .. } => Ok(()),
            LoopState::Unknown(reason) => self.forbid(Guard::Known, unknown("loop", reason)),
            LoopState::Renewed { .. } => works("its manifest has changed, and it has not finished a round since"),
            LoopState::Absent => works("no process; the kubelet restarts it"),
            LoopState::Returning => works("it comes up"),
            LoopState::Blind { .. } => works("it finishes rounds, and a new one would ask the same etcd in the same way"),
            LoopState::LogStalled => works("only its log is frozen"),
            LoopState::Starved(_) => works("the node starves, so that a silence of its loop means nothing"),
            LoopState::Alive { .. } => works("it finishes rounds"),
        }
    }

    fn one_copy(&self) -> Check {
        match self.observation.process.fresh() {
            Some(ProcessView::Present(process)) if process.copies > 1 => {
                self.forbid(Guard::OneCopy, UnsafeReason::SeveralCopies(process.copies))
            }
            Some(ProcessView::Present(_) | ProcessView::Absent { .. }) | None => Ok(()),
        }
    }

    fn manifest_may_be_moved(&self) -> Check {
        let Some(manifest) = self.observation.manifest.fresh() else {
            return self.forbid(Guard::Known, unknown("manifest", &unknown_reason(&self.observation.manifest)));
        };
        if let Some(why) = &manifest.immovable {
            self.forbid(Guard::ManifestMovable, UnsafeReason::ManifestImmovable(why.clone()))?;
        }
        self.require(Guard::ManifestPresent, manifest.sha256.is_some(), || UnsafeReason::ManifestAbsent)?;
        match manifest.shadows.first() {
            Some(shadow) => self.forbid(Guard::ManifestUnshadowed, UnsafeReason::ManifestShadowed(shadow.display().to_string())),
            None => Ok(()),
        }
    }

    fn proven_leader(&self) -> Check {
        match &self.facts.role {
            Role::Leads => {}
            Role::Unknown(reason) => self.forbid(Guard::Known, unknown("etcd", reason))?,
            role @ (Role::Unreachable(_)
            | Role::NoLeader
            | Role::Learner
            | Role::ClaimsToLead
            | Role::ClaimsToFollow
            | Role::Follows
            | Role::Unproven(_)
            | Role::CutOff(_)) => self.forbid(Guard::ProvenLeader, UnsafeReason::NotProvenLeader(describe(role)))?,
        }
        self.proven_recently()
    }

    fn proven_recently(&self) -> Check {
        let at = match &self.observation.etcd {
            Reading::Fresh { value: EtcdView::Answered(status), .. } => match &status.quorum {
                Quorum::Confirmed { at } => Some(*at),
                Quorum::NotAsked | Quorum::Denied(_) => None,
            },
            Reading::Fresh { value: EtcdView::Unreachable(_), .. } | Reading::Stale { .. } | Reading::Unknown(_) => None,
        };
        let too_old = match at {
            None => "it has not been asked".to_owned(),
            // The clock may have stood still in a pause, so its length does not show in the proof's age.
            Some(at) if self.observation.resumed_at.is_some_and(|resumed| at <= resumed) => {
                "the proof is from before this daemon's own pause".to_owned()
            }
            Some(at) if self.now.since(at) > self.policy.limits.proof_max_age => {
                format!("the proof is {} ms old", self.now.since(at).as_millis())
            }
            Some(_) => return Ok(()),
        };
        self.forbid(Guard::ProofFresh, UnsafeReason::NoQuorum(too_old))
    }

    /// That nobody leads must be as new as a proof would have to be: a leader may have been elected since.
    fn answered_recently(&self) -> Check {
        let age = self.observation.etcd.fresh_at().map(|at| self.now.since(at));
        let recent = age.is_some_and(|age| age <= self.policy.limits.proof_max_age);
        self.require(Guard::ProofFresh, recent, || UnsafeReason::NoQuorum("etcd's answer is too old".to_owned()))
    }

    fn ours(&self) -> Check {
        match holding(self.facts)? {
            Holding::Leased { .. } | Holding::Lent { .. } => Ok(()),
            Holding::Absent => self.forbid(Guard::AliasPresent, UnsafeReason::NoAlias),
            Holding::Held => self.forbid(Guard::Ours, UnsafeReason::NotOurs),
        }
    }

    fn link_is_up(&self) -> Check {
        match self.observation.alias.fresh() {
            Some(alias) => self.require(Guard::LinkUp, alias.up && alias.carrier, || UnsafeReason::LinkDown),
            None => self.forbid(Guard::Known, unknown("alias", &unknown_reason(&self.observation.alias))),
        }
    }

    fn require(&self, guard: Guard, holds: bool, otherwise: impl FnOnce() -> UnsafeReason) -> Check {
        if holds { Ok(()) } else { self.forbid(guard, otherwise()) }
    }

    /// The one place where a guard can be out of force.
    fn forbid(&self, guard: Guard, reason: UnsafeReason) -> Check {
        if self.guards.hold(guard) { Err(reason) } else { Ok(()) }
    }
}

fn unknown(sense: &'static str, reason: &str) -> UnsafeReason {
    UnsafeReason::SenseUnknown { sense, reason: reason.to_owned() }
}

fn holding(facts: &Facts) -> Result<Holding, UnsafeReason> {
    facts.holding.clone().map_err(|reason| UnsafeReason::SenseUnknown { sense: "alias", reason })
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
