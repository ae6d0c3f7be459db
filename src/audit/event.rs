//! What may be said in the audit journal: one variant for each thing that happens.
//!
//! Invariant: an event carries all that its entry says; turning it into an [`Entry`] reads nothing else.
//! Pure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::diagnosed;
use super::kind::EventKind;
use super::recovery::Recovery;
use super::severity::{Priority, severity};
use super::text::{clip, millis, sentence, sentences, span};
use crate::autopsy::Autopsy;
use crate::decision::observation::CyclePhase;
use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;
use crate::diagnose::Diagnosed;
use crate::policy::Mode;
use crate::runtime::ledger::PauseRecord;

/// Longest `FIP_REASON`, in bytes: [`ITEMS_MAX`](super::text::ITEMS_MAX) sentences and what joins them.
const REASON_BYTES_MAX: usize = 3000;

/// Something that happened. `evidence` is what [`evidence`](super::evidence::evidence) makes of the
/// observation that led to it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are named as the journal's fields are, and docs/journal.md explains those")]
pub enum AuditEvent {
    /// The daemon began to watch.
    Started { mode: Mode, policy: PathBuf },
    /// The daemon ends: which signal, or which fault.
    Stopping { reason: String },
    /// A policy came into force; `diff` has a sentence for each key that differs from the one before.
    PolicyLoaded { path: PathBuf, diff: Vec<String> },
    /// An edited policy was refused, with every fault at its line.
    PolicyRejected { path: PathBuf, faults: Vec<String> },
    /// The readings add up to something else than before.
    VerdictChanged { from: Verdict, to: Verdict, reasons: Vec<String>, held_for: Duration, evidence: Value },
    /// Steps were chosen for a verdict.
    PlanStarted { verdict: Verdict, steps: Vec<StepKind>, reasons: Vec<String>, evidence: Value },
    /// A step began.
    StepStarted { step: StepKind, verdict: Verdict, evidence: Value },
    /// A step is done; `seen` is what verified it.
    StepSucceeded { step: StepKind, verdict: Verdict, seen: String, duration: Duration, evidence: Value },
    /// A step was tried and did not end well; `reason` includes what was undone.
    StepFailed { step: StepKind, verdict: Verdict, reason: String, duration: Duration, evidence: Value },
    /// A step was not begun. Emitted once for each new reason, not once a round.
    StepRefused { step: StepKind, verdict: Verdict, reason: String, evidence: Value },
    /// The kernel was given a new lease. Routine, so written at debug level alone.
    LeaseRenewed { valid_for: Duration },
    /// A manifest cycle that was open at the start was finished or undone.
    CycleRecovered { phase: CyclePhase, outcome: String },
    /// A sense can no longer tell.
    SenseLost { sense: &'static str, reason: String },
    /// A sense can tell again.
    SenseFound { sense: &'static str, lost_for: Duration },
    /// This daemon did not run for a while, or the wall clock was set.
    PauseRecorded(PauseRecord),
    /// A hung loop was examined, before anything was killed.
    HangAutopsied { verdict: Verdict, autopsy: Box<Autopsy> },
    /// etcd raised alarms, in its own words; all that are up. They change nothing about the FIP.
    EtcdAlarmRaised { alarms: Vec<String> },
    /// None is up any more.
    EtcdAlarmCleared { held_for: Duration },
    /// etcd was looked at while it is unwell, and something new was found.
    Diagnosed { verdict: Verdict, diagnosed: Box<Diagnosed> },
    /// etcd is well again, for long enough.
    Recovered(Box<Recovery>),
    /// Nothing answers behind the FIP any more, where something did; how that shows. It changes nothing about the FIP.
    ApiSilenceBegan { port: u16, how: String },
    /// Something does again, or there is nothing to ask any more.
    ApiSilenceEnded { reason: &'static str, lasted: Duration },
}

/// One journal entry: the fields of the audit, before they are put in the journal's own format.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// `MESSAGE`: a sentence for a person.
    pub message: String,
    /// `FIP_VERDICT`.
    pub verdict: Option<Verdict>,
    /// `FIP_VERDICT_FROM`.
    pub verdict_from: Option<Verdict>,
    /// `FIP_STEP`: one name, or those of a plan with a blank between them.
    pub step: Option<String>,
    /// `FIP_REASON`.
    pub reason: Option<String>,
    /// `FIP_EVIDENCE`.
    pub evidence: Option<Value>,
    /// `FIP_DURATION_MS`.
    pub duration_ms: Option<u64>,
    /// `FIP_CAUSE`: why the loop hangs, or that it does not, or what is wrong with etcd.
    pub cause: Option<String>,
    /// `FIP_OUTCOME`: what kind of fault etcd's is.
    pub outcome: Option<String>,
    /// `FIP_COMMAND`: what would have shown it by hand, or what a person does next.
    pub command: Option<String>,
    /// `FIP_AUTOPSY`: the number of its file.
    pub autopsy: Option<u32>,
}

impl AuditEvent {
    /// What kind of event it is.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Started { .. } => EventKind::Started,
            Self::Stopping { .. } => EventKind::Stopping,
            Self::PolicyLoaded { .. } => EventKind::PolicyLoaded,
            Self::PolicyRejected { .. } => EventKind::PolicyRejected,
            Self::VerdictChanged { .. } => EventKind::VerdictChanged,
            Self::PlanStarted { .. } => EventKind::PlanStarted,
            Self::StepStarted { .. } => EventKind::StepStarted,
            Self::StepSucceeded { .. } => EventKind::StepSucceeded,
            Self::StepFailed { .. } => EventKind::StepFailed,
            Self::StepRefused { .. } => EventKind::StepRefused,
            Self::LeaseRenewed { .. } => EventKind::LeaseRenewed,
            Self::CycleRecovered { .. } => EventKind::CycleRecovered,
            Self::SenseLost { .. } => EventKind::SenseLost,
            Self::SenseFound { .. } => EventKind::SenseFound,
            Self::PauseRecorded(_) => EventKind::PauseRecorded,
            Self::HangAutopsied { .. } => EventKind::HangAutopsied,
            Self::EtcdAlarmRaised { .. } => EventKind::EtcdAlarmRaised,
            Self::EtcdAlarmCleared { .. } => EventKind::EtcdAlarmCleared,
            Self::Diagnosed { .. } => EventKind::Diagnosed,
            Self::Recovered(_) => EventKind::Recovered,
            Self::ApiSilenceBegan { .. } => EventKind::ApiSilenceBegan,
            Self::ApiSilenceEnded { .. } => EventKind::ApiSilenceEnded,
        }
    }

    /// `PRIORITY` of its entry.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        match self {
            Self::VerdictChanged { to, .. } => severity(*to),
            Self::PolicyRejected { .. } | Self::StepFailed { .. } => Priority::Error,
            Self::StepRefused { .. }
            | Self::CycleRecovered { .. }
            | Self::SenseLost { .. }
            | Self::HangAutopsied { .. }
            | Self::EtcdAlarmRaised { .. }
            | Self::Diagnosed { .. }
            | Self::ApiSilenceBegan { .. } => Priority::Warning,
            Self::Started { .. }
            | Self::Stopping { .. }
            | Self::PolicyLoaded { .. }
            | Self::PlanStarted { .. }
            | Self::StepSucceeded { .. }
            | Self::SenseFound { .. }
            | Self::PauseRecorded(_)
            | Self::EtcdAlarmCleared { .. }
            | Self::Recovered(_)
            | Self::ApiSilenceEnded { .. } => Priority::Notice,
            Self::StepStarted { .. } => Priority::Info,
            Self::LeaseRenewed { .. } => Priority::Debug,
        }
    }

    /// Its entry.
    #[must_use]
    pub fn entry(&self) -> Entry {
        match self {
            Self::Started { mode, policy } => started(*mode, policy),
            Self::Stopping { reason } => said(format!("stopping: {}", sentence(reason)), reason),
            Self::PolicyLoaded { path, diff } => policy_loaded(path, diff),
            Self::PolicyRejected { path, faults } => policy_rejected(path, faults),
            Self::VerdictChanged { from, to, reasons, held_for, evidence } => {
                let reasons = sentences(reasons);
                let first = reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
                Entry {
                    verdict_from: Some(*from),
                    ..said(format!("verdict {to}, after {} of {from}{first}", span(*held_for)), &reasons.join("; "))
                }
                .lasting(*held_for)
                .judged(*to, evidence)
            }
            Self::PlanStarted { verdict, steps, reasons, evidence } => {
                let names: Vec<&str> = steps.iter().map(|step| step.name()).collect();
                said(format!("{verdict} is answered by {}", names.join(", ")), &sentences(reasons).join("; "))
                    .about(&names.join(" "))
                    .judged(*verdict, evidence)
            }
            Self::StepStarted { step, verdict, evidence } => {
                plain(format!("{} started for {verdict}", step.name())).about(step.name()).judged(*verdict, evidence)
            }
            Self::StepSucceeded { step, verdict, seen, duration, evidence } => {
                ended(*step, "succeeded", *duration, seen).judged(*verdict, evidence)
            }
            Self::StepFailed { step, verdict, reason, duration, evidence } => {
                ended(*step, "failed", *duration, reason).judged(*verdict, evidence)
            }
            Self::StepRefused { step, verdict, reason, evidence } => {
                said(format!("{} refused: {}", step.name(), sentence(reason)), reason)
                    .about(step.name())
                    .judged(*verdict, evidence)
            }
            Self::LeaseRenewed { valid_for } => plain(format!("the alias is leased for another {}", span(*valid_for)))
                .about(StepKind::RenewAlias.name())
                .lasting(*valid_for),
            Self::CycleRecovered { phase, outcome } => {
                said(format!("a manifest cycle left open by an earlier run is closed: {}", sentence(outcome)), outcome)
                    .about(StepKind::CycleManifest.name())
                    .proven(json!({ "phase": phase }))
            }
            Self::SenseLost { sense, reason } => {
                said(format!("the {sense} sense cannot tell: {}", sentence(reason)), reason).proven(json!({ "sense": sense }))
            }
            Self::SenseFound { sense, lost_for } => plain(format!("the {sense} sense can tell again after {}", span(*lost_for)))
                .lasting(*lost_for)
                .proven(json!({ "sense": sense })),
            Self::PauseRecorded(record) => pause_recorded(*record),
            Self::HangAutopsied { verdict, autopsy } => autopsied(*verdict, autopsy),
            Self::EtcdAlarmRaised { alarms } => {
                let alarms = sentences(alarms);
                let list = alarms.join("; ");
                said(format!("etcd raises an alarm: {list}"), &list).proven(json!({ "alarms": alarms }))
            }
            Self::EtcdAlarmCleared { held_for } => {
                plain(format!("etcd's alarm is over after {}", span(*held_for))).lasting(*held_for)
            }
            Self::Diagnosed { verdict, diagnosed } => diagnosed::entry(*verdict, diagnosed),
            Self::Recovered(recovery) => recovery.entry(),
            Self::ApiSilenceBegan { port, how } => {
                said(format!("the API behind the FIP does not answer: port {port}: {}", sentence(how)), how)
                    .proven(json!({ "port": port }))
            }
            Self::ApiSilenceEnded { reason, lasted } => {
                said(format!("the silence behind the FIP is over after {}: {reason}", span(*lasted)), reason).lasting(*lasted)
            }
        }
    }
}

impl Entry {
    fn lasting(self, duration: Duration) -> Self {
        Self { duration_ms: Some(millis(duration)), ..self }
    }

    fn about(self, step: &str) -> Self {
        Self { step: Some(step.to_owned()), ..self }
    }

    fn proven(self, evidence: Value) -> Self {
        Self { evidence: Some(evidence), ..self }
    }

    fn judged(self, verdict: Verdict, evidence: &Value) -> Self {
        Self { verdict: Some(verdict), ..self.proven(evidence.clone()) }
    }
}

fn autopsied(verdict: Verdict, autopsy: &Autopsy) -> Entry {
    let Autopsy { finding, evidence, .. } = autopsy;
    let evidence = serde_json::to_value(evidence).unwrap_or(Value::Null);
    let what = if finding.cause.is_a_hang() { "why the loop hangs" } else { "what was seen of the loop" };
    Entry {
        cause: Some(finding.cause.name().to_owned()),
        command: Some(finding.command.clone()),
        autopsy: autopsy.number,
        ..said(format!("{what}: {}; by hand: {}", finding.sentence, finding.command), &finding.sentence)
    }
    .lasting(Duration::from_millis(autopsy.took_ms))
    .judged(verdict, &evidence)
}

fn plain(message: String) -> Entry {
    Entry { message, ..Entry::default() }
}

fn said(message: String, reason: &str) -> Entry {
    Entry { reason: Some(clip(reason, REASON_BYTES_MAX)), ..plain(message) }
}

fn ended(step: StepKind, how: &str, after: Duration, what: &str) -> Entry {
    let message = format!("{} {how} after {}: {}", step.name(), span(after), sentence(what));
    said(message, what).about(step.name()).lasting(after)
}

fn started(mode: Mode, policy: &Path) -> Entry {
    let mode = match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    };
    let (version, policy) = (env!("CARGO_PKG_VERSION"), sentence(&policy.to_string_lossy()));
    plain(format!("fip-watchdog {version} started in {mode} mode under {policy}"))
        .proven(json!({ "version": version, "mode": mode, "policy": policy }))
}

fn pause_recorded(record: PauseRecord) -> Entry {
    let PauseRecord { kind, length, .. } = record;
    let void = if kind.voids_ages() { "; all ages are void" } else { "; no age counts by it" };
    let ended_at = record.ended_at();
    plain(format!("{} {}{void}", kind.words(), span(length)))
        .lasting(length)
        .proven(json!({ "kind": kind.name(), "ended_at": ended_at }))
}

fn policy_loaded(path: &Path, diff: &[String]) -> Entry {
    let (path, diff) = (sentence(&path.to_string_lossy()), sentences(diff));
    let changes = if diff.is_empty() { "nothing changed".to_owned() } else { diff.join("; ") };
    said(format!("policy {path} is in force: {changes}"), &changes).proven(json!({ "policy": path, "diff": diff }))
}

fn policy_rejected(path: &Path, faults: &[String]) -> Entry {
    let (path, faults) = (sentence(&path.to_string_lossy()), sentences(faults));
    let list = faults.join("; ");
    said(format!("policy {path} is refused, the one before stays in force: {list}"), &list)
        .proven(json!({ "policy": path, "faults": faults }))
}
