//! What `status` and `explain` say, as plain values.
//!
//! Invariant: [`StatusReport::new`] is pure and bounded, and every age in it counts from one `now`.
//! Spans are whole milliseconds and end in `_ms`.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::diagnosis::{DiagnosisReport, LastDiagnosis};
use super::recent::{RecentStep, RecentSteps};
use crate::audit::facts::Facts;
use crate::audit::is_alarmed;
use crate::audit::text::{millis, sentence, sentences};
use crate::decision::observation::Observation;
use crate::decision::plan::{Decision, WaitingOn};
use crate::decision::step::{StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::{Mode, Policy};
use crate::runtime::ledger::{PauseKind, PauseLedger, PauseRecord};

/// Version of the report. A field that is added does not raise it.
pub const REPORT_VERSION: u32 = 1;

/// What is known of the policy, beside the policy itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySummary {
    /// Its file.
    pub path: PathBuf,
    /// Act, or only say so.
    pub mode: Mode,
    /// The floating IP.
    pub fip: Ipv4Addr,
    /// Its interface.
    pub interface: String,
    /// When it came into force.
    pub loaded_at: Moment,
    /// The last edit, if it was refused.
    pub rejection: Option<PolicyRejection>,
}

impl PolicySummary {
    /// The summary of a policy that has just come into force; it has no refused edit.
    #[must_use]
    pub fn of(policy: &Policy, path: PathBuf, loaded_at: Moment) -> Self {
        let Policy { mode, fip, .. } = policy;
        Self { path, mode: *mode, fip: fip.address, interface: fip.interface.clone(), loaded_at, rejection: None }
    }
}

/// An edit that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRejection {
    /// When.
    pub at: Moment,
    /// Every fault at its line.
    pub faults: Vec<String>,
}

/// What a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    /// The newest observation.
    pub observation: &'a Observation,
    /// The decision on it.
    pub decision: &'a Decision,
    /// The policy in force.
    pub policy: &'a PolicySummary,
    /// Steps that ended.
    pub recent: &'a RecentSteps,
    /// Pauses of the daemon itself.
    pub pauses: &'a PauseLedger,
    /// The last diagnosis of etcd.
    pub diagnosis: Option<&'a LastDiagnosis>,
    /// When the daemon started.
    pub started_at: Moment,
    /// The moment that ages count from.
    pub now: Moment,
}

/// The state of the daemon on one screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// [`REPORT_VERSION`].
    pub report_version: u32,
    /// Version of the daemon.
    pub daemon_version: String,
    /// How long it has run.
    pub uptime_ms: u64,
    /// What the readings add up to.
    pub verdict: Verdict,
    /// How long the verdict has held.
    pub verdict_for_ms: u64,
    /// Whether a person should look.
    pub alarmed: bool,
    /// What led to the verdict, most telling first.
    pub reasons: Vec<String>,
    /// Every sense, and what else the decision was made from.
    pub facts: Facts,
    /// Steps that the decision starts now.
    pub starting: Vec<StepKind>,
    /// Why nothing more is started.
    pub waiting_on: Vec<WaitReport>,
    /// The policy in force.
    pub policy: PolicyReport,
    /// The last steps, newest first.
    pub recent_steps: Vec<StepReport>,
    /// The last pauses of the daemon itself, and steps of the wall clock, newest first.
    #[serde(default)]
    pub pauses: Vec<PauseReport>,
    /// The last diagnosis of etcd in the last trouble, if there was one since the start.
    #[serde(default)]
    pub diagnosis: Option<DiagnosisReport>,
}

/// Something that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitReport {
    /// For a script: `lane`, `refused`, `confirm`, `cooldown`, `budget`, `observe_mode`, `loops_own_round`, `stable_leader`.
    pub kind: String,
    /// The step that waits.
    pub step: Option<StepKind>,
    /// For a person.
    pub reason: String,
    /// How long still, where that is known.
    pub remaining_ms: Option<u64>,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// Its file.
    pub path: String,
    /// Act, or only say so.
    pub mode: Mode,
    /// The floating IP.
    pub fip: Ipv4Addr,
    /// Its interface.
    pub interface: String,
    /// How long it has been in force.
    pub in_force_ms: u64,
    /// The last edit, if it was refused.
    pub rejection: Option<RejectionReport>,
}

/// An edit that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectionReport {
    /// How long ago.
    pub age_ms: u64,
    /// Every fault at its line.
    pub faults: Vec<String>,
}

/// A step that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// Which.
    pub step: StepKind,
    /// What it answered.
    pub verdict: Verdict,
    /// How long ago it ended.
    pub age_ms: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// `succeeded`, `refused` or `failed`.
    pub outcome: String,
    /// What was seen, or why.
    pub detail: String,
}

/// A pause of the daemon itself, or a step of the wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseReport {
    /// `suspended`, `late`, `clock_stepped_forward` or `clock_stepped_back`.
    pub kind: String,
    /// How long, or by how much.
    pub length_ms: u64,
    /// How long ago it was over.
    pub age_ms: u64,
    /// When it was over, by the wall clock as it was then (RFC 3339, UTC).
    pub ended_at: String,
}

impl PauseReport {
    /// Whether the daemon, or the machine, did not run; a step of the wall clock is no pause.
    #[must_use]
    pub fn voids_ages(&self) -> bool {
        [PauseKind::Suspended, PauseKind::Late].iter().any(|kind| kind.name() == self.kind)
    }

    fn of(record: &PauseRecord, now: Moment) -> Self {
        Self {
            kind: record.kind.name().to_owned(),
            length_ms: millis(record.length),
            age_ms: millis(now.since(record.at)),
            ended_at: record.ended_at(),
        }
    }
}

impl StatusReport {
    /// The report as of `inputs.now`.
    #[must_use]
    pub fn new(inputs: StatusInputs<'_>) -> Self {
        let StatusInputs { observation, decision, policy, recent, pauses, diagnosis, started_at, now } = inputs;
        Self {
            report_version: REPORT_VERSION,
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(now.since(started_at)),
            verdict: decision.verdict,
            verdict_for_ms: millis(now.since(decision.since)),
            alarmed: is_alarmed(decision.verdict),
            reasons: sentences(&decision.reasons),
            facts: Facts::of(observation, now),
            starting: decision.start.clone(),
            waiting_on: decision.waiting_on.iter().map(WaitReport::of).collect(),
            policy: PolicyReport {
                path: sentence(&policy.path.to_string_lossy()),
                mode: policy.mode,
                fip: policy.fip,
                interface: policy.interface.clone(),
                in_force_ms: millis(now.since(policy.loaded_at)),
                rejection: policy.rejection.as_ref().map(|rejection| RejectionReport {
                    age_ms: millis(now.since(rejection.at)),
                    faults: sentences(&rejection.faults),
                }),
            },
            recent_steps: recent.newest_first().map(|step| StepReport::of(step, now)).collect(),
            pauses: pauses.newest_first().map(|record| PauseReport::of(record, now)).collect(),
            diagnosis: diagnosis.map(|last| DiagnosisReport::of(last, now)),
        }
    }
}

impl WaitReport {
    fn of(waiting: &WaitingOn) -> Self {
        let wait = |kind: &str, step: Option<StepKind>, reason: String, remaining: Option<Duration>| Self {
            kind: kind.to_owned(),
            step,
            reason,
            remaining_ms: remaining.map(millis),
        };
        match waiting {
            WaitingOn::Lane { step, running } => wait("lane", Some(*step), format!("{} is still running", running.name()), None),
            WaitingOn::Refused { step, reason } => wait("refused", Some(*step), sentence(&reason.to_string()), None),
            WaitingOn::Confirm { step, remaining } => {
                wait("confirm", Some(*step), "the verdict must hold a little longer".to_owned(), Some(*remaining))
            }
            WaitingOn::Cooldown { step, remaining } => {
                wait("cooldown", Some(*step), "it ran a short while ago".to_owned(), Some(*remaining))
            }
            WaitingOn::Budget { step, remaining } => {
                wait("budget", Some(*step), "its budget for an hour is spent".to_owned(), Some(*remaining))
            }
            WaitingOn::ObserveMode { step } => {
                wait("observe_mode", Some(*step), "observe mode: it would be started".to_owned(), None)
            }
            WaitingOn::StableLeader { remaining } => wait(
                "stable_leader",
                None,
                "the leadership has changed too often, and must be stable for a while".to_owned(),
                Some(*remaining),
            ),
            WaitingOn::LoopsOwnRound { remaining } => wait(
                "loops_own_round",
                None,
                "the loop gets the time of one round to put it right itself".to_owned(),
                Some(*remaining),
            ),
        }
    }
}

impl StepReport {
    fn of(step: &RecentStep, now: Moment) -> Self {
        let (outcome, detail) = match &step.outcome {
            StepOutcome::Succeeded(seen) => ("succeeded", seen),
            StepOutcome::Refused(reason) => ("refused", reason),
            StepOutcome::Failed(reason) | StepOutcome::PodStuck(reason) => ("failed", reason),
        };
        Self {
            step: step.step,
            verdict: step.verdict,
            age_ms: millis(now.since(step.ended_at)),
            duration_ms: millis(step.ended_at.since(step.started_at)),
            outcome: outcome.to_owned(),
            detail: sentence(detail),
        }
    }
}
