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
mod farewell;

use std::time::Duration;

use super::budget::Budget;
use super::facts::{Holding, LoopState, ROUND_SLACK, Role, last_beat};
use super::goal::is_goal_reached;
use super::guard::Guards;
use super::judge::{Facts, Judgement, judge};
use super::observation::{KubeletView, Observation, Reading};
use super::plan::{Decision, EtcdDepth, WaitingOn};
use super::reasons::reasons;
use super::safety::unsafe_to_run;
use super::step::{StepKind, StepOutcome};
use super::time::Moment;
use super::upkeep::Upkeep;
use super::verdict::Verdict;
use crate::policy::{Mode, Policy};

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

/// The kind of a role, as far as its age matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RoleKind {
    Leading,
    NotLeading,
    Unclear,
}

/// A station that still holds the FIP answers a probe within milliseconds, and the conflict sense asks once a
/// second while there is a conflict: silent for this long, it has let go.
const CONFLICT_FRESH: Duration = Duration::from_secs(5);

/// A link that came back has to stay for this long before an alias is applied behind it (keepalived#2564): an
/// alias on a flapping link moves the clients to and fro.
const LINK_SETTLE: Duration = Duration::from_secs(2);

/// The decision core's whole memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    started_at: Moment,
    started: bool,
    verdict: Since<Verdict>,
    role: Since<RoleKind>,
    holding: Since<Option<bool>>,
    /// The last definite answer to "is the FIP here?", across readings that could not tell.
    last_known_held: Option<bool>,
    /// The last definite answer to "is there a link?", and since when there is one again.
    last_known_link: Option<bool>,
    link_back_at: Option<Moment>,
    manifest_missing_since: Option<Moment>,
    cycle_seen_at: Option<Moment>,
    kubelet_down_since: Option<Moment>,
    /// The last cycle failed because of the pod: how, and when it ended.
    stuck: Option<Since<String>>,
    /// The alias appeared here, or came under our feet as leader, and has not been announced since.
    announce_due: bool,
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
            holding: Since { value: None, since: now },
            last_known_held: None,
            last_known_link: None,
            link_back_at: None,
            manifest_missing_since: None,
            cycle_seen_at: None,
            kubelet_down_since: None,
            stuck: None,
            announce_due: false,
            budget,
            guards: Guards::default(),
        }
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
            if matches!(outcome, StepOutcome::Refused(_)) {
                self.budget.give_back(step);
            }
        }
        let announces = matches!(step, StepKind::ApplyAlias | StepKind::AnnounceAlias);
        if announces && matches!(outcome, StepOutcome::Succeeded(_)) {
            self.announce_due = false;
        }
    }

    /// Facts for the check that the executor makes right before it acts: as [`step`](Self::step) would
    /// see them, without deciding anew.
    pub fn facts(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> Facts {
        let role = Role::of(&observation.etcd);
        let kind = match &role {
            Role::Leads | Role::ClaimsToLead => RoleKind::Leading,
            Role::Follows | Role::ClaimsToFollow | Role::NoLeader | Role::CutOff(_) => RoleKind::NotLeading,
            Role::Unknown(_) | Role::Unreachable(_) | Role::Learner | Role::Unproven(_) => RoleKind::Unclear,
        };
        let was = self.role.value;
        if self.role.update(kind, now) && was == RoleKind::NotLeading && kind == RoleKind::Leading {
            // The FIP may have been elsewhere meanwhile, and neighbours remember that.
            self.announce_due |= self.last_known_held == Some(true);
        }
        let holding = match &observation.alias {
            Reading::Fresh { value, .. } => Ok(Holding::of(value)),
            Reading::Stale { .. } => Err("the last reading is too old".to_owned()),
            Reading::Unknown(reason) => Err(reason.clone()),
        };
        self.note_holding(&holding, now);
        self.note_link(observation, now);
        self.note_manifest(observation, now);
        self.note_kubelet(observation, policy, now);
        let void_before = observation.resumed_at.unwrap_or(self.started_at).max(self.started_at);
        let age = |stamp: Moment| now.since(stamp.max(void_before));
        let role_age = age(self.role.since);
        let last_claim = observation.conflict.fresh().and_then(|view| view.last.as_ref());
        // Until the roles have settled the old leader's healthy loop lets go by itself, and the new one's FIP is
        // announced anyway: what was heard before that is no conflict.
        let settled_at = self.role.since.max(void_before) + policy.watched_loop.interval.saturating_add(ROUND_SLACK);
        let claimed = last_claim.is_some_and(|claim| claim.at >= settled_at && now.since(claim.at) < CONFLICT_FRESH);
        Facts {
            paused: observation.paused.is_some(),
            resumed: observation.resumed_at.is_some_and(|at| now.since(at) < policy.limits.grace),
            starting: self.is_starting(observation, policy, now),
            role_age,
            role,
            contested: claimed && holding.as_ref().is_ok_and(|holding| *holding != Holding::Absent),
            link_settled: self.link_back_at.is_none_or(|at| now.since(at) >= LINK_SETTLE),
            holding,
            holding_age: age(self.holding.since),
            watched_loop: self.loop_state(observation, policy, now, void_before),
            manifest_missing: self.manifest_missing_since.map(age),
            kubelet_down: self.kubelet_down_since.map(age),
            pod_stuck: self.stuck.as_ref().map(|stuck| stuck.value.clone()),
            worst_round: policy.watched_loop.worst_round(),
        }
    }

    fn note_holding(&mut self, holding: &Result<Holding, String>, now: Moment) {
        let held = holding.as_ref().ok().map(|holding| *holding != Holding::Absent);
        self.holding.update(held, now);
        if let Some(held) = held
            && let Some(before) = self.last_known_held.replace(held)
            && before != held
        {
            // An alias that was here when we first looked needs no announcement; one that came does.
            self.announce_due = held;
        }
    }

    fn note_link(&mut self, observation: &Observation, now: Moment) {
        let Some(link) = observation.alias.fresh().map(|view| view.up && view.carrier) else { return };
        if self.last_known_link.replace(link) == Some(false) && link {
            self.link_back_at = Some(now);
        }
    }

    fn note_manifest(&mut self, observation: &Observation, now: Moment) {
        let missing = observation.manifest.fresh().is_some_and(|view| view.sha256.is_none() && view.immovable.is_none());
        if observation.cycle.is_some() {
            self.cycle_seen_at.get_or_insert(now);
            self.manifest_missing_since = None;
        } else {
            self.cycle_seen_at = None;
            self.manifest_missing_since = if missing { self.manifest_missing_since.or(Some(now)) } else { None };
        }
    }

    /// A kubelet of which nothing is known is not down; a stuck pod is forgotten when a round is finished or the
    /// cooldown is over, so that another cycle is tried.
    fn note_kubelet(&mut self, observation: &Observation, policy: &Policy, now: Moment) {
        self.kubelet_down_since = match observation.kubelet.fresh() {
            Some(KubeletView::Down) => self.kubelet_down_since.or(Some(now)),
            Some(KubeletView::Running) | None => None,
        };
        let beats_again = |since: Moment| last_beat(observation).is_some_and(|(_, at)| at > since);
        self.stuck.take_if(|stuck| beats_again(stuck.since) || now.since(stuck.since) >= policy.limits.cooldown);
    }

    /// While its pod is being cycled the loop is down, until it beats again.
    fn loop_state(&self, observation: &Observation, policy: &Policy, now: Moment, void_before: Moment) -> LoopState {
        let state = LoopState::of(observation, &policy.watched_loop, now, void_before);
        let Some(cycle_seen_at) = self.cycle_seen_at else {
            return state;
        };
        let beats_again = last_beat(observation).is_some_and(|(_, at)| at > cycle_seen_at);
        if beats_again { state } else { LoopState::Stalled("its pod is being cycled".to_owned()) }
    }

    /// Over once every sense has been fresh at the same time, or after the time in which a working loop
    /// would have beaten: from then on a sense that cannot tell has a verdict of its own.
    fn is_starting(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> bool {
        if self.started {
            return false;
        }
        let all_fresh = observation.etcd.fresh().is_some()
            && observation.alias.fresh().is_some()
            && observation.process.fresh().is_some()
            && observation.manifest.fresh().is_some()
            && last_beat(observation).is_some();
        self.started = all_fresh || now.since(self.started_at) >= policy.watched_loop.stalled_after;
        !self.started
    }

    /// Upkeep of what is already there, whatever the verdict.
    fn keep_up_the_lease(&self, observation: &Observation, facts: &Facts, policy: &Policy, now: Moment, decision: &mut Decision) {
        let upkeep = Upkeep::of(facts, policy, self.announce_due);
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

    /// The policy's ladder for the verdict: the first step whose goal is not reached and that may run.
    fn climb_the_ladder(&self, observation: &Observation, facts: &Facts, policy: &Policy, now: Moment, decision: &mut Decision) {
        if decision.verdict == Verdict::Healthy && facts.role.says_it_leads() && facts.holding == Ok(Holding::Absent) {
            let waited = facts.role_age.min(facts.holding_age);
            decision.waiting_on.push(WaitingOn::LoopsOwnRound { remaining: facts.worst_round.saturating_sub(waited) });
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
            if step == StepKind::CycleManifest {
                let held = now.since(decision.since);
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
        let calm = matches!(decision.verdict, Verdict::Healthy | Verdict::LogStalled | Verdict::Paused | Verdict::Unknown);
        let overdue = !matches!(facts.watched_loop, LoopState::Alive { overdue: false });
        let gap = decision.verdict == Verdict::Healthy && !decision.waiting_on.is_empty();
        if !calm {
            decision.etcd_depth = EtcdDepth::Proof;
        }
        if !calm || overdue || gap || self.announce_due {
            decision.next_deadline = now + policy.etcd.poll_alert;
        }
        if self.announce_due && facts.role == Role::ClaimsToLead {
            // Clients wait for this one: ask the quorum now.
            decision.next_deadline = now;
        }
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
