//! What the audit has said already, so that it speaks when something changes and is silent otherwise.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::audit::text::sentence;
use crate::audit::{Audit, AuditEvent, evidence};
use crate::decision::api::ApiView;
use crate::decision::observation::{EtcdView, Observation, Reading};
use crate::decision::plan::{Decision, WaitingOn};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::Policy;

/// Two kinds of alarm on each of at most seven members.
const ALARMS_MAX: usize = 14;

/// So many changes of the verdict are told within [`TOLD_WITHIN`]: a story of failures has ten. A quorum that answers every other time makes two a second.
const TOLD_MAX: usize = 20;
/// See [`TOLD_MAX`].
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// The last change of the verdict, and which changes were told.
#[derive(Debug)]
struct Changes {
    verdict: Verdict,
    since: Moment,
    from: Verdict,
    held_for: Duration,
    untold: usize,
    told: VecDeque<Moment>,
}

impl Changes {
    fn note(&mut self, decision: &Decision) {
        if decision.verdict != self.verdict {
            self.held_for = decision.since.since(self.since);
            self.since = decision.since;
            self.from = std::mem::replace(&mut self.verdict, decision.verdict);
            self.untold = self.untold.saturating_add(1);
        }
    }

    /// How many changes there are to tell, the last one included, if one may be told now. The last is never left untold for ever.
    fn due(&mut self, now: Moment) -> Option<usize> {
        while self.told.front().is_some_and(|at| now.since(*at) >= TOLD_WITHIN) {
            self.told.pop_front();
        }
        if self.untold == 0 || self.told.len() >= TOLD_MAX {
            return None;
        }
        self.told.push_back(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// The last things said.
#[derive(Debug)]
pub struct Spoken {
    changes: Changes,
    planned_for: Option<Moment>,
    refused: BTreeSet<String>,
    lost: BTreeMap<&'static str, Moment>,
    alarms: BTreeSet<String>,
    alarms_since: Moment,
    silent_since: Option<Moment>,
}

impl Spoken {
    /// Nothing has been said but that the daemon starts.
    #[must_use]
    pub const fn new(now: Moment) -> Self {
        Self {
            changes: Changes {
                verdict: Verdict::Starting,
                since: now,
                from: Verdict::Starting,
                held_for: Duration::ZERO,
                untold: 0,
                told: VecDeque::new(),
            },
            planned_for: None,
            refused: BTreeSet::new(),
            lost: BTreeMap::new(),
            alarms: BTreeSet::new(),
            alarms_since: now,
            silent_since: None,
        }
    }

    /// Says what is new in this round.
    pub fn say(&mut self, audit: &Audit, observation: &Observation, decision: &Decision, policy: &Policy, now: Moment) {
        self.say_senses(audit, observation, now);
        self.say_alarms(audit, &observation.etcd, now);
        self.say_silence(audit, &observation.api, now);
        self.changes.note(decision);
        if let Some(changes) = self.changes.due(now) {
            let mut reasons = decision.reasons.clone();
            if changes > 1 {
                reasons.insert(0, format!("it goes to and fro: {} changes before this one were not told", changes - 1));
            }
            audit.emit(&AuditEvent::VerdictChanged {
                from: self.changes.from,
                to: decision.verdict,
                reasons,
                held_for: self.changes.held_for,
                evidence: evidence(observation, now),
            });
            self.refused.clear();
        }
        self.say_plan(audit, observation, decision, policy, now);
        self.say_refusals(audit, observation, decision, now);
    }

    fn say_senses(&mut self, audit: &Audit, observation: &Observation, now: Moment) {
        let senses = [
            ("etcd", unknown(&observation.etcd)),
            ("heartbeat", unknown(&observation.heartbeat)),
            ("process", unknown(&observation.process)),
            ("alias", unknown(&observation.alias)),
            ("manifest", unknown(&observation.manifest)),
            ("kubelet", unknown(&observation.kubelet)),
            ("conflict", unknown(&observation.conflict)),
        ];
        for (sense, reason) in senses {
            if observation.cycle.is_some() && matches!(sense, "heartbeat" | "process") {
                // The pod is being cycled by ourselves: that its log and process go is what is wanted.
                continue;
            }
            match (reason, self.lost.get(sense).copied()) {
                (Some(reason), None) => {
                    self.lost.insert(sense, now);
                    audit.emit(&AuditEvent::SenseLost { sense, reason });
                }
                (None, Some(since)) => {
                    self.lost.remove(sense);
                    audit.emit(&AuditEvent::SenseFound { sense, lost_for: now.since(since) });
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }

    /// etcd's alarms are the whole cluster's. A member that does not answer leaves what it said last.
    fn say_alarms(&mut self, audit: &Audit, etcd: &Reading<EtcdView>, now: Moment) {
        let Reading::Fresh { value: EtcdView::Answered(status), .. } = etcd else { return };
        let alarms: BTreeSet<String> = status.alarms().take(ALARMS_MAX).map(sentence).collect();
        if !alarms.is_subset(&self.alarms) {
            if self.alarms.is_empty() {
                self.alarms_since = now;
            }
            audit.emit(&AuditEvent::EtcdAlarmRaised { alarms: alarms.iter().cloned().collect() });
        } else if alarms.is_empty() && !self.alarms.is_empty() {
            audit.emit(&AuditEvent::EtcdAlarmCleared { held_for: now.since(self.alarms_since) });
        }
        self.alarms = alarms;
    }

    fn say_silence(&mut self, audit: &Audit, api: &ApiView, now: Moment) {
        match (api.alarm(), self.silent_since) {
            (Some(silence), None) => {
                self.silent_since = Some(silence.since);
                audit.emit(&AuditEvent::ApiSilenceBegan { port: api.port().unwrap_or_default(), how: silence.how.clone() });
            }
            (None, Some(since)) => {
                self.silent_since = None;
                let reason = if api.answered_at().is_some() {
                    "it answers again"
                } else {
                    "the FIP has left, or the policy asks otherwise"
                };
                audit.emit(&AuditEvent::ApiSilenceEnded { reason, lasted: now.since(since) });
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// A plan is said once for each time that its verdict begins to hold.
    fn say_plan(&mut self, audit: &Audit, observation: &Observation, decision: &Decision, policy: &Policy, now: Moment) {
        let ladder = policy.remedies.get(&decision.verdict).map_or(&[][..], Vec::as_slice);
        let climbs = decision.start.iter().any(|step| ladder.contains(step));
        if climbs && self.planned_for != Some(decision.since) {
            self.planned_for = Some(decision.since);
            audit.emit(&AuditEvent::PlanStarted {
                verdict: decision.verdict,
                steps: ladder.to_vec(),
                reasons: decision.reasons.clone(),
                evidence: evidence(observation, now),
            });
        }
    }

    /// A refusal is said once for each step and kind of reason while a verdict holds; the numbers in it change.
    fn say_refusals(&mut self, audit: &Audit, observation: &Observation, decision: &Decision, now: Moment) {
        for waiting in &decision.waiting_on {
            let (step, kind, reason) = match waiting {
                WaitingOn::Refused { step, reason } => {
                    (*step, format!("{:?}", std::mem::discriminant(reason)), reason.to_string())
                }
                WaitingOn::Budget { step, remaining } => {
                    let reason = format!("its budget for an hour is spent; armed again in {} s", remaining.as_secs());
                    (*step, "budget".to_owned(), reason)
                }
                WaitingOn::ObserveMode { step } => {
                    (*step, "observe".to_owned(), "the policy only observes; this is what would be done".to_owned())
                }
                WaitingOn::Lane { .. }
                | WaitingOn::Confirm { .. }
                | WaitingOn::Cooldown { .. }
                | WaitingOn::StableLeader { .. }
                | WaitingOn::LoopsOwnRound { .. } => continue,
            };
            if self.refused.insert(format!("{} {kind}", step.name())) {
                audit.emit(&AuditEvent::StepRefused {
                    step,
                    verdict: decision.verdict,
                    reason,
                    evidence: evidence(observation, now),
                });
            }
        }
    }
}

fn unknown<T>(reading: &Reading<T>) -> Option<String> {
    match reading {
        Reading::Unknown(reason) => Some(reason.clone()),
        Reading::Fresh { .. } | Reading::Stale { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::observation::{EtcdFault, EtcdStatus};

    /// What is behind the FIP: `+` answers, `-` does not, a question every ten seconds from the first.
    fn api(answers: &str) -> ApiView {
        let mut view = ApiView::new(6443);
        for (second, answer) in (0..).step_by(10).zip(answers.chars()) {
            let answer = if answer == '+' { Ok(()) } else { Err("connection refused".to_owned()) };
            view.note(answer, Moment::from_origin(Duration::from_secs(second)));
        }
        view
    }

    #[test]
    fn a_silence_behind_the_fip_is_said_once_and_its_end_once_and_one_that_was_always_there_never() {
        let audit = Audit::new(None, None, false);
        let mut spoken = Spoken::new(Moment::default());
        let left = ApiView::default();
        for (view, expected) in [
            (left.clone(), (0, 0)),
            (api("-------"), (0, 0)),
            (api("+--"), (0, 0)),
            (api("+---"), (1, 0)),
            (api("+-----"), (1, 0)),
            (api("+---+"), (1, 0)),
            (api("+---++"), (1, 1)),
            (api("+---++---"), (2, 1)),
            (left.clone(), (2, 2)),
            (left, (2, 2)),
        ] {
            spoken.say_silence(&audit, &view, Moment::from_origin(Duration::from_secs(100)));
            let counters = audit.counters();
            assert_eq!((counters["api_silence_began"], counters["api_silence_ended"]), expected, "{view:?}");
        }
    }

    #[test]
    fn an_alarm_is_said_once_another_one_beside_it_again_and_the_end_when_none_is_left() {
        let (audit, at) = (Audit::new(None, None, false), Moment::default());
        let mut spoken = Spoken::new(at);
        let counted = || {
            let counters = audit.counters();
            (counters["etcd_alarm_raised"], counters["etcd_alarm_cleared"])
        };
        let answered = |errors: &[&str]| {
            let errors = errors.iter().map(|error| (*error).to_owned()).collect();
            Reading::Fresh { value: EtcdView::Answered(EtcdStatus { errors, ..EtcdStatus::default() }), at }
        };
        let silent = Reading::Fresh { value: EtcdView::Unreachable(EtcdFault::TimedOut), at };
        let (space, corrupt) = ("memberID:4711 alarm:NOSPACE ", "memberID:4711 alarm:CORRUPT ");
        for (reading, expected) in [
            (answered(&["etcdserver: no leader"]), (0, 0)),
            (answered(&[space]), (1, 0)),
            (answered(&[space, "etcdserver: no leader"]), (1, 0)),
            (silent, (1, 0)),
            (answered(&[space, corrupt]), (2, 0)),
            (answered(&[corrupt]), (2, 0)),
            (answered(&[]), (2, 1)),
            (answered(&[]), (2, 1)),
        ] {
            spoken.say_alarms(&audit, &reading, at);
            assert_eq!(counted(), expected, "{reading:?}");
        }
    }

    #[test]
    fn a_verdict_that_goes_to_and_fro_is_told_so_often_and_its_last_change_always() {
        let audit = Audit::new(None, None, false);
        let mut spoken = Spoken::new(Moment::default());
        let mut policy = Policy::with_defaults([192, 0, 2, 1].into(), "eth0");
        policy.remedies.clear();
        let observation = crate::audit::tests::talkative("x");
        let round = |spoken: &mut Spoken, verdict, ms| {
            let now = Moment::from_origin(Duration::from_millis(ms));
            let decision = Decision {
                verdict,
                since: now,
                reasons: Vec::new(),
                start: Vec::new(),
                waiting_on: vec![WaitingOn::ObserveMode { step: crate::decision::step::StepKind::ReleaseAlias }],
                etcd_depth: crate::decision::plan::EtcdDepth::Status,
                next_deadline: now,
            };
            spoken.say(&audit, &observation, &decision, &policy, now);
            let counters = audit.counters();
            (counters["verdict_changed"], counters["step_refused"], spoken.changes.untold)
        };
        // Every half second for ten minutes.
        let verdicts = [Verdict::NoQuorum, Verdict::LoopStalledFollower].into_iter().cycle();
        for (half_second, verdict) in (1_u64..=1200).zip(verdicts) {
            let (told, refused, untold) = round(&mut spoken, verdict, half_second * 500);
            assert!(told <= 20 * half_second.div_ceil(120) && refused <= told, "{told} and {refused} after {half_second}");
            if half_second <= 20 {
                assert_eq!((told, untold), (half_second, 0), "a story of failures is told whole");
            }
        }
        // It ends with a change that has no room, back at what was told last: that it is over is told once there is room.
        assert_ne!(spoken.changes.untold, 0);
        let (before, ..) = round(&mut spoken, Verdict::LoopStalledFollower, 600_100);
        assert_eq!(round(&mut spoken, Verdict::LoopStalledFollower, 660_100).0, before + 1);
        assert_eq!(round(&mut spoken, Verdict::LoopStalledFollower, 720_100), (before + 1, before + 1, 0));
    }
}
