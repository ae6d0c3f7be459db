//! The machine: one observation in, one decision out.
//!
//! ```text
//! Observation ─► facts (with the little that must be remembered) ─► judge ─► verdict
//!                                                                     │
//!              upkeep of our own lease ◄── safety ──► the policy's ladder for the verdict
//! ```
//!
//! It remembers only what no reading shows: since when something has been so, how often it acted, and
//! whether an alias that appeared has been announced. It has no clock; `now` is an argument.

#[cfg(feature = "model")]
mod aged;
mod patience;
mod sight;
mod strain;

use std::time::Duration;

use super::budget::Budget;
use super::content::Content;
use super::facts::{Holding, LoopState, Role};
use super::guard::Guards;
use super::judge::{Facts, Judgement, judge};
use super::observation::Observation;
use super::plan::{Decision, EtcdDepth, WaitingOn};
use super::reasons::reasons;
use super::rounds::Rounds;
use super::safety::unsafe_to_run;
use super::step::{StepKind, StepOutcome};
use super::terms::Terms;
use super::time::Moment;
use super::upkeep::{Upkeep, is_leased};
use super::verdict::Verdict;
use crate::policy::{Mode, Policy};
use patience::{is_standing, lasts, wait_for_a_loop_that_took_it_off, wait_for_a_stable_leader, wait_for_the_loops_own_round};
use strain::Strain;

/// Something, and since when it has been so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Since<T> {
    value: T,
    since: Moment,
}

impl<T: PartialEq> Since<T> {
    fn update(&mut self, value: T, now: Moment) -> bool {
        let changed = self.value != value;
        if changed {
            *self = Self { value, since: now };
        }
        changed
    }
}

/// Since when a sense has not told something, while it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Silence(Option<Moment>);

impl Silence {
    /// Whether it is silent, and has been for less than `bound`: what it told before goes on for so long.
    fn is_brief(&mut self, is_silent: bool, bound: Duration, now: Moment) -> bool {
        self.0 = is_silent.then(|| self.0.unwrap_or(now));
        self.0.is_some_and(|since| now.since(since) < bound)
    }
}

/// The kind of a role, as far as its age matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RoleKind {
    Leading,
    NotLeading,
    Unclear,
}

/// The decision core's whole memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    started_at: Moment,
    started: bool,
    verdict: Since<Verdict>,
    role: Since<RoleKind>,
    role_silence: Silence,
    /// Since when etcd has told a role, whichever, without a gap.
    told_since: Option<Moment>,
    holding: Since<Option<bool>>,
    holding_silence: Silence,
    /// The last definite answer to "is the FIP here?", across readings that could not tell.
    last_known_held: Option<bool>,
    /// The last definite answer to "is there a link?", and since when there is one again.
    last_known_link: Option<bool>,
    link_back_at: Option<Moment>,
    manifest_missing_since: Option<Moment>,
    manifest_shadowed_since: Option<Moment>,
    cycle_seen_at: Option<Moment>,
    kubelet_down_since: Option<Moment>,
    /// When the loop was last seen frozen or gone, if it has not finished a round since.
    loop_down_at: Option<Moment>,
    /// The last cycle failed because of the pod: how, and when it ended.
    stuck: Option<Since<String>>,
    /// The alias appeared here, or came under our feet as leader, and has not been announced since.
    announce_due: bool,
    /// The loop's last rounds, as far as they are odd.
    rounds: Rounds,
    terms: Terms,
    /// The node starved: since when, and when it last showed.
    strain: Option<Strain>,
    content: Content,
    budget: Budget,
    guards: Guards,
}

impl Machine {
    /// A machine that begins at `now`. `past_cycles` are the starts of cycles that a former process ran
    /// (from the cycle journal): a restart must not refill the budget.
    #[must_use]
    pub fn new(now: Moment, past_cycles: &[Moment]) -> Self {
        let mut budget = Budget::default();
        for start in past_cycles {
            budget.spend(StepKind::CycleManifest, *start);
        }
        Self {
            started_at: now,
            started: false,
            verdict: Since { value: Verdict::Starting, since: now },
            role: Since { value: RoleKind::Unclear, since: now },
            role_silence: Silence::default(),
            told_since: None,
            holding: Since { value: None, since: now },
            holding_silence: Silence::default(),
            last_known_held: None,
            last_known_link: None,
            link_back_at: None,
            manifest_missing_since: None,
            manifest_shadowed_since: None,
            cycle_seen_at: None,
            kubelet_down_since: None,
            loop_down_at: None,
            stuck: None,
            announce_due: false,
            rounds: Rounds::default(),
            terms: Terms::default(),
            strain: None,
            content: Content::default(),
            budget,
            guards: Guards::default(),
        }
    }

    /// The same machine, which knows under which content of the manifest (SHA-256, lower-case hex) the loop has beaten in a
    /// former process.
    #[must_use]
    pub fn knowing(mut self, known_good: Option<String>) -> Self {
        self.content = Content::known_good_before(known_good);
        self
    }

    /// The last content of the manifest under which the loop has beaten: to be kept across restarts.
    #[must_use]
    pub fn known_good(&self) -> Option<&str> {
        self.content.known_good()
    }

    /// Decides. Total: any observation yields a decision, and none makes it panic.
    pub fn step(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> Decision {
        let facts = self.facts(observation, policy, now);
        let judgement = judge(&facts);
        let unproven = matches!(judgement, Judgement::IfProven(_));
        if !unproven {
            self.verdict.update(judgement.verdict(), now);
        }
        let mut decision = Decision {
            verdict: self.verdict.value,
            since: self.verdict.since,
            reasons: reasons(observation, &facts, self.verdict.value, now),
            start: Vec::new(),
            waiting_on: Vec::new(),
            etcd_depth: EtcdDepth::Status,
            next_deadline: now + policy.etcd.poll,
        };
        if unproven {
            decision.etcd_depth = EtcdDepth::Proof;
            decision.next_deadline = now;
            return decision;
        }
        self.keep_up_the_lease(observation, &facts, policy, now, &mut decision);
        self.climb_the_ladder(observation, &facts, policy, now, &mut decision);
        self.pace(&facts, policy, now, &mut decision);
        decision
    }

    /// The executor started `step`: its cooldown and budget count from here.
    pub fn on_step_started(&mut self, step: StepKind, now: Moment) {
        self.budget.spend(step, now);
    }

    /// The executor finished `step`.
    pub fn on_step_finished(&mut self, step: StepKind, outcome: &StepOutcome, now: Moment) {
        if step == StepKind::CycleManifest {
            self.stuck = match outcome {
                StepOutcome::PodStuck(how) => Some(Since { value: how.clone(), since: now }),
                StepOutcome::Succeeded(_) => None,
                StepOutcome::Refused(_) | StepOutcome::Failed(_) => self.stuck.take(),
            };
        }
        if matches!(outcome, StepOutcome::Refused(_)) {
            self.budget.give_back(step);
        }
        let announces = matches!(step, StepKind::ApplyAlias | StepKind::AnnounceAlias);
        if announces && matches!(outcome, StepOutcome::Succeeded(_)) {
            self.announce_due = false;
        }
    }

    /// Upkeep of what is already there, whatever the verdict.
    fn keep_up_the_lease(&self, observation: &Observation, facts: &Facts, policy: &Policy, now: Moment, decision: &mut Decision) {
        let upkeep = Upkeep::of(facts, policy, self.may_announce(facts, policy));
        if upkeep.needs_proof {
            decision.etcd_depth = EtcdDepth::Proof;
        }
        if upkeep.is_urgent {
            decision.next_deadline = now + policy.etcd.poll_alert;
        }
        for step in upkeep.wanted {
            if unsafe_to_run(step, observation, facts, policy, self.guards, now).is_none() {
                self.order(step, observation, policy, now, decision);
            }
        }
    }

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

    /// The policy's ladder for the verdict: the first step whose goal is not reached and that may run.
    fn climb_the_ladder(&self, observation: &Observation, facts: &Facts, policy: &Policy, now: Moment, decision: &mut Decision) {
        decision.waiting_on.extend(wait_for_the_loops_own_round(decision.verdict, facts));
        if decision.verdict == Verdict::LeaderFlapping {
            decision.waiting_on.extend(wait_for_a_stable_leader(facts));
        }
        let ladder = policy.remedies.get(&decision.verdict).map_or(&[][..], Vec::as_slice);
        for &step in ladder {
            if is_goal_reached(step, facts) {
                continue;
            }
            if let Some(running) = observation.in_flight.iter().find(|other| other.lane() == step.lane()) {
                decision.waiting_on.push(WaitingOn::Lane { step, running: *running });
                return;
            }
            if step == StepKind::ApplyAlias
                && let Some(wait) = wait_for_a_loop_that_took_it_off(facts)
            {
                decision.waiting_on.push(wait);
                continue;
            }
            if step == StepKind::CycleManifest
                && let Some(wait) = wait_for_a_stable_leader(facts)
            {
                decision.waiting_on.push(wait);
                continue;
            }
            if step == StepKind::CycleManifest {
                let held = now.since(decision.since).max(lasts(&facts.watched_loop));
                let remaining = policy.limits.confirm.saturating_sub(held);
                if !remaining.is_zero() {
                    decision.waiting_on.push(WaitingOn::Confirm { step, remaining });
                    continue;
                }
            }
            if let Some(reason) = unsafe_to_run(step, observation, facts, policy, self.guards, now) {
                decision.waiting_on.push(WaitingOn::Refused { step, reason });
                continue;
            }
            if step == StepKind::AnnounceAlias
                && let Some(wait) = self.budget.wait(step, &policy.limits, now)
            {
                // A defence, unlike the announcement of an alias that has just appeared, is not repeated at will.
                decision.waiting_on.push(wait);
                continue;
            }
            if self.order(step, observation, policy, now, decision) {
                return;
            }
        }
    }

    /// Orders a step unless its lane is busy, its budget is spent, or the policy only observes. Returns
    /// whether the ladder stops here.
    fn order(&self, step: StepKind, observation: &Observation, policy: &Policy, now: Moment, decision: &mut Decision) -> bool {
        if let Some(running) = observation.in_flight.iter().find(|other| other.lane() == step.lane()) {
            decision.waiting_on.push(WaitingOn::Lane { step, running: *running });
            return true;
        }
        if decision.start.iter().any(|other| other.lane() == step.lane()) {
            return true;
        }
        if policy.mode == Mode::Observe {
            decision.waiting_on.push(WaitingOn::ObserveMode { step });
            return false;
        }
        if step != StepKind::AnnounceAlias
            && let Some(wait) = self.budget.wait(step, &policy.limits, now)
        {
            decision.waiting_on.push(wait);
            return false;
        }
        decision.start.push(step);
        true
    }

    /// How soon to look again, and how deep: fast and with proof while something is not as it should be.
    fn pace(&self, facts: &Facts, policy: &Policy, now: Moment, decision: &mut Decision) {
        let calm = matches!(
            decision.verdict,
            Verdict::Healthy | Verdict::LogStalled | Verdict::HostStarved | Verdict::Paused | Verdict::Unknown
        );
        // Looking more often would make a node that starves no better.
        let overdue = !matches!(facts.watched_loop, LoopState::Alive { overdue: false } | LoopState::Starved(_));
        let gap = decision.verdict == Verdict::Healthy && facts.role.says_it_leads() && !decision.waiting_on.is_empty();
        if !calm {
            decision.etcd_depth = EtcdDepth::Proof;
        }
        let announces = self.may_announce(facts, policy);
        if !calm || overdue || gap || announces {
            decision.next_deadline = now + policy.etcd.poll_alert;
        }
        if is_standing(decision, facts) && !announces {
            decision.next_deadline = now + policy.etcd.poll;
        }
        if announces && facts.role == Role::ClaimsToLead {
            // Clients wait for this one: ask the quorum now.
            decision.next_deadline = now;
        }
    }

    /// Whether an announcement is due that may be made. One that only waits, for the end of a pause or for another
    /// policy, is no reason to ask the quorum again and again.
    fn may_announce(&self, facts: &Facts, policy: &Policy) -> bool {
        self.announce_due && policy.mode == Mode::Enforce && !facts.paused
    }

    /// Whether an announcement that succeeds now tells of an alias that has just appeared; otherwise it defends one.
    #[must_use]
    pub const fn announces_arrival(&self) -> bool {
        self.announce_due
    }

    /// Since when the current verdict has held.
    #[must_use]
    pub const fn verdict_since(&self) -> (Verdict, Moment) {
        (self.verdict.value, self.verdict.since)
    }
}

/// Whether there is nothing for the step to do here: done already, or not this node's to do.
fn is_goal_reached(step: StepKind, facts: &Facts) -> bool {
    match step {
        StepKind::ApplyAlias => {
            !facts.role.says_it_leads() || facts.holding.as_ref().is_ok_and(|holding| *holding != Holding::Absent)
        }
        StepKind::ReleaseAlias => facts.role.says_it_leads() || facts.holding == Ok(Holding::Absent),
        StepKind::AnnounceAlias => !facts.role.says_it_leads() || !facts.contested,
        StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias | StepKind::CycleManifest => false,
    }
}
