//! What the audit has said already, so that it speaks when something changes and is silent otherwise.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::{Audit, AuditEvent, evidence};
use crate::decision::observation::{Observation, Reading};
use crate::decision::plan::{Decision, WaitingOn};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::Policy;

/// The last things said.
#[derive(Debug)]
pub struct Spoken {
    verdict: Verdict,
    verdict_since: Moment,
    planned_for: Option<Moment>,
    refused: BTreeSet<String>,
    lost: BTreeMap<&'static str, Moment>,
}

impl Spoken {
    /// Nothing has been said but that the daemon starts.
    #[must_use]
    pub const fn new(now: Moment) -> Self {
        Self {
            verdict: Verdict::Starting,
            verdict_since: now,
            planned_for: None,
            refused: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Says what is new in this round.
    pub fn say(&mut self, audit: &Audit, observation: &Observation, decision: &Decision, policy: &Policy, now: Moment) {
        self.say_senses(audit, observation, now);
        if decision.verdict != self.verdict {
            audit.emit(&AuditEvent::VerdictChanged {
                from: self.verdict,
                to: decision.verdict,
                reasons: decision.reasons.clone(),
                held_for: decision.since.since(self.verdict_since),
                evidence: evidence(observation, now),
            });
            self.verdict = decision.verdict;
            self.verdict_since = decision.since;
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
