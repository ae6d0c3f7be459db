//! From an observation to facts, with what must be remembered for them: since when something has been so.

use std::time::Duration;

use super::{Machine, RoleKind, Strain};
use crate::decision::facts::{Holding, LoopState, ROUND_SLACK, Role, grows_without_rounds, last_beat};
use crate::decision::judge::Facts;
use crate::decision::observation::{CyclePhase, KubeletView, LoopVerdict, Observation, Reading};
use crate::decision::rounds::{Odd, Streak};
use crate::decision::time::Moment;
use crate::policy::Policy;

/// A station that still holds the FIP answers a probe within milliseconds, and the conflict sense asks once a
/// second while there is a conflict: silent for this long, it has let go.
const CONFLICT_FRESH: Duration = Duration::from_secs(5);

/// A link that came back has to stay for this long before an alias is applied behind it (keepalived#2564): an
/// alias on a flapping link moves the clients to and fro.
const LINK_SETTLE: Duration = Duration::from_secs(2);

impl Machine {
    /// Facts for the check that the executor makes right before it acts: as [`step`](Self::step) would
    /// see them, without deciding anew.
    pub fn facts(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> Facts {
        let role = Role::of(&observation.etcd);
        let kind = match &role {
            Role::Leads | Role::ClaimsToLead => RoleKind::Leading,
            Role::Follows | Role::ClaimsToFollow | Role::NoLeader | Role::CutOff(_) => RoleKind::NotLeading,
            Role::Unknown(_) | Role::Unreachable(_) | Role::Learner | Role::Unproven(_) => RoleKind::Unclear,
        };
        // What is silent now and then would otherwise give a loop that does nothing its time again and again, and two nodes would
        // hold the FIP for as long as that goes on.
        let worst_round = policy.watched_loop.worst_round();
        let was = self.role.value;
        let is_told = kind != RoleKind::Unclear;
        self.told_since = is_told.then(|| self.told_since.unwrap_or(now));
        let role_goes_on = self.role_silence.is_brief(!is_told, worst_round, now);
        if !role_goes_on && self.role.update(kind, now) && was == RoleKind::NotLeading && kind == RoleKind::Leading {
            // The FIP may have been elsewhere meanwhile, and neighbours remember that.
            self.announce_due |= self.last_known_held == Some(true);
        }
        let holding = match &observation.alias {
            Reading::Fresh { value, .. } => Ok(Holding::of(value)),
            Reading::Stale { .. } => Err("the last reading is too old".to_owned()),
            Reading::Unknown(reason) => Err(reason.clone()),
        };
        self.note_holding(&holding, worst_round, now);
        self.note_link(observation, now);
        self.note_manifest(observation, now);
        self.note_kubelet(observation, policy, now);
        self.strain = Strain::after(self.strain.take(), observation, &policy.host, now);
        self.hold_off(observation, now);
        let void_before = observation.resumed_at.unwrap_or(self.started_at).max(self.started_at);
        let age = |stamp: Moment| now.since(stamp.max(void_before));
        let role_age = age(self.role.since);
        self.terms.note(observation, &policy.etcd, now);
        self.content.note(observation, now);
        self.rounds.note(observation, &role, void_before);
        let watched_loop = self.loop_state(observation, policy, now, void_before, role_age);
        let last_claim = observation.conflict.fresh().and_then(|view| view.last.as_ref());
        // Until then the old leader's healthy loop lets go by itself, and the new one's FIP is announced anyway: what was
        // claimed meanwhile is no conflict, also when it is looked at later.
        let settled_at = self.role.since.max(void_before) + policy.watched_loop.interval.saturating_add(ROUND_SLACK);
        let claimed = last_claim.is_some_and(|claim| claim.at >= settled_at && now.since(claim.at) < CONFLICT_FRESH);
        Facts {
            paused: observation.paused.is_some(),
            resumed: observation.resumed_at.is_some_and(|at| now.since(at) < policy.limits.grace),
            starting: self.is_starting(observation, policy, now),
            role_age,
            told_for: role_age.min(self.told_since.map_or(Duration::ZERO, age)),
            flapping: self.terms.flapping(&policy.etcd, now),
            role,
            contested: claimed && holding.as_ref().is_ok_and(|holding| *holding != Holding::Absent),
            link_settled: self.link_back_at.is_none_or(|at| now.since(at) >= LINK_SETTLE),
            holding,
            holding_age: age(self.holding.since),
            watched_loop,
            manifest_shadowed: self.manifest_shadowed_since.map(age),
            manifest_missing: self.manifest_missing_since.map(age),
            kubelet_down: self.kubelet_down_since.map(age),
            pod_stuck: self.stuck.as_ref().map(|stuck| stuck.value.clone()),
            worst_round,
        }
    }

    /// After a boot nothing is judged before the units that the policy names are active, or the time for them is over. Ages
    /// count from then on.
    fn hold_off(&mut self, observation: &Observation, now: Moment) {
        if observation.hold_off.is_some() {
            (self.started, self.started_at) = (false, now);
        }
    }

    fn note_holding(&mut self, holding: &Result<Holding, String>, worst_round: Duration, now: Moment) {
        let held = holding.as_ref().ok().map(|holding| *holding != Holding::Absent);
        if !self.holding_silence.is_brief(held.is_none(), worst_round, now) {
            self.holding.update(held, now);
        }
        if let Some(held) = held
            && self.last_known_held.replace(held) != Some(held)
        {
            // Also for one that is here at the first look: the loop may have put it up a moment ago, and told nobody.
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
        let shadowed = observation.manifest.fresh().is_some_and(|view| !view.shadows.is_empty());
        self.manifest_shadowed_since = if shadowed { self.manifest_shadowed_since.or(Some(now)) } else { None };
        if let Some(cycle) = &observation.cycle {
            // Until the manifest is back it is the old pod that finishes rounds, if any.
            let back = cycle.phase == CyclePhase::Back;
            self.cycle_seen_at = self.cycle_seen_at.filter(|_| back).or(Some(now));
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

    /// While its pod is being cycled the loop is down, until it beats after the manifest's return.
    fn loop_state(
        &mut self,
        observation: &Observation,
        policy: &Policy,
        now: Moment,
        void_before: Moment,
        role_age: Duration,
    ) -> LoopState {
        let strain = self.strain.as_ref();
        let calm_since = strain.and_then(|strain| strain.void_before(&policy.host, now)).unwrap_or(void_before);
        let state = LoopState::of(observation, &policy.watched_loop, now, void_before.max(calm_since));
        let state = match strain {
            Some(strain) => strain.cast_doubt(state, observation, policy, now),
            None => state,
        };
        let state = self.until_it_beats(state, observation, void_before, now);
        let Some(cycle_seen_at) = self.cycle_seen_at else {
            return self
                .renewed(observation, policy, now.since(void_before), now)
                .or_else(|| {
                    let settled = role_age >= policy.watched_loop.worst_round();
                    self.led_astray(observation, settled, now).filter(|_| matches!(state, LoopState::Alive { .. }))
                })
                .unwrap_or(state);
        };
        let beats_again = last_beat(observation).is_some_and(|(_, at)| at > cycle_seen_at);
        if beats_again { state } else { LoopState::Stalled("its pod is being cycled".to_owned()) }
    }

    /// A loop that was down is not well until it has finished a round: the youth of its process, or of its pod, is no evidence that it
    /// works (kubernetes#79147), and one in its crash back-off would look well at each restart.
    fn until_it_beats(&mut self, state: LoopState, observation: &Observation, void_before: Moment, now: Moment) -> LoopState {
        if state.is_down() {
            self.loop_down_at = Some(now);
            return state;
        }
        let beats_again = |since: Moment| last_beat(observation).is_some_and(|(_, at)| at > since);
        self.loop_down_at.take_if(|since| *since < void_before || beats_again(*since));
        let only_young = self.loop_down_at.is_some() && matches!(state, LoopState::Alive { .. });
        if only_young { LoopState::Returning } else { state }
    }

    /// A loop whose manifest has changed, until it beats, or has had its time for it; a pause of this daemon (`ran_for` ago) starts that anew.
    fn renewed(&self, observation: &Observation, policy: &Policy, ran_for: Duration, now: Moment) -> Option<LoopState> {
        let lasts = now.since(self.content.changed_since()?);
        let worst_round = policy.watched_loop.worst_round();
        let unrecognised = observation.heartbeat.fresh().is_some_and(|heartbeat| grows_without_rounds(heartbeat, worst_round));
        (lasts.min(ran_for) < policy.watched_loop.settle_after_change).then_some(LoopState::Renewed { lasts, unrecognised })
    }

    /// A loop that finishes its rounds and is no use: blind, or mistaken about a role that is `settled`.
    fn led_astray(&self, observation: &Observation, settled: bool, now: Moment) -> Option<LoopState> {
        let Streak { odd, first_at, took_fip_off, .. } = self.rounds.streak()?;
        let (lasts, took_fip_off) = (now.since(*first_at), *took_fip_off);
        let mistaken = |says_it_leads| settled.then_some(LoopState::Mistaken { says_it_leads, lasts, took_fip_off });
        match odd {
            Odd::Blind => {
                let how = match &last_beat(observation)?.0.verdict {
                    LoopVerdict::QueryFailed(how) => how.clone(),
                    LoopVerdict::Leader | LoopVerdict::Follower => return None,
                };
                Some(LoopState::Blind { how, lasts, took_fip_off })
            }
            Odd::TakesItselfForLeader => mistaken(true),
            Odd::TakesItselfForFollower => mistaken(false),
        }
    }

    /// Over once every sense has been fresh at the same time, or after the time in which a working loop
    /// would have beaten: from then on a sense that cannot tell has a verdict of its own.
    fn is_starting(&mut self, observation: &Observation, policy: &Policy, now: Moment) -> bool {
        if self.started {
            return false;
        }
        if observation.hold_off.is_some() {
            return true;
        }
        let all_fresh = observation.etcd.fresh().is_some()
            && observation.alias.fresh().is_some()
            && observation.process.fresh().is_some()
            && observation.manifest.fresh().is_some()
            && last_beat(observation).is_some();
        self.started = all_fresh || now.since(self.started_at) >= policy.watched_loop.stalled_after;
        !self.started
    }
}
