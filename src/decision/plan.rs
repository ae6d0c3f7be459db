//! What a decision says: verdict, steps to start now, and what it waits for.

use std::time::Duration;

use serde::Serialize;

use super::step::StepKind;
use super::time::Moment;
use super::verdict::Verdict;

/// The answer to one observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What the readings add up to.
    pub verdict: Verdict,
    /// Since when the verdict has held.
    pub since: Moment,
    /// The readings that led to it, as sentences, most telling first.
    pub reasons: Vec<String>,
    /// Steps to start now: at most one a lane.
    pub start: Vec<StepKind>,
    /// Why nothing (more) is started. Doing nothing is a result with a reason.
    pub waiting_on: Vec<WaitingOn>,
    /// How deep the next question to etcd must go.
    pub etcd_depth: EtcdDepth,
    /// When the driver must observe again at the latest.
    pub next_deadline: Moment,
}

/// How deep a question to etcd goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EtcdDepth {
    /// `Status` alone: one member's opinion.
    Status,
    /// `Status`, a linearizable read, `Status`: a proof for that instant.
    Proof,
}

/// Why a step is not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WaitingOn {
    /// Its lane is busy with `running`.
    Lane {
        /// The step that waits.
        step: StepKind,
        /// The step that runs.
        running: StepKind,
    },
    /// A precondition does not hold.
    Refused {
        /// The step that waits.
        step: StepKind,
        /// Why it would be unsafe.
        reason: UnsafeReason,
    },
    /// The verdict must hold a little longer before the pod is touched.
    Confirm {
        /// The step that waits.
        step: StepKind,
        /// How long still.
        remaining: Duration,
    },
    /// The step ran a short while ago.
    Cooldown {
        /// The step that waits.
        step: StepKind,
        /// How long still.
        remaining: Duration,
    },
    /// The step's budget for an hour is spent; it is armed again when the oldest run is an hour old.
    Budget {
        /// The step that waits.
        step: StepKind,
        /// How long still.
        remaining: Duration,
    },
    /// Observe mode: the step would be started.
    ObserveMode {
        /// The step that is not carried out.
        step: StepKind,
    },
    /// The leadership has changed too often, and must be stable for a while.
    StableLeader {
        /// How long still.
        remaining: Duration,
    },
    /// The loop gets the time of one worst round to put it right itself.
    LoopsOwnRound {
        /// How long still.
        remaining: Duration,
    },
}

/// Why a step would be unsafe now. Missing data is itself a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum UnsafeReason {
    /// A sense that the step depends on cannot tell.
    #[error("the {sense} sense cannot tell: {reason}")]
    SenseUnknown {
        /// Which sense.
        sense: &'static str,
        /// Its own reason.
        reason: String,
    },
    /// No quorum has confirmed, in this term and recently enough, that this member leads.
    #[error("leadership of the local member is not proven: {0}")]
    NotProvenLeader(String),
    /// No quorum has confirmed any leader.
    #[error("no quorum has confirmed a leader: {0}")]
    NoQuorum(String),
    /// The local member is the proven leader, so the FIP belongs here.
    #[error("the local member leads, so the alias belongs here")]
    LeadsHere,
    /// The interface is down or has no carrier.
    #[error("the interface has no link")]
    LinkDown,
    /// The link came back a moment ago and may go again.
    #[error("the interface got its link back a moment ago")]
    LinkUnsettled,
    /// The alias is not the loop's /32.
    #[error("the alias is not a /32 as the loop adds it")]
    NotAHostRoute,
    /// The alias is not on the interface.
    #[error("the alias is not on the interface")]
    NoAlias,
    /// The alias is on the interface already.
    #[error("the alias is on the interface already")]
    AliasPresent,
    /// The alias is not leased, so it is the loop's.
    #[error("the alias is the loop's, not leased by us")]
    NotOurs,
    /// The loop works.
    #[error("the loop is not stalled: {0}")]
    LoopNotStalled(String),
    /// The loop has not said, since our alias is up, that it leads and sees the alias.
    #[error("the loop has not yet confirmed the alias in a finished round")]
    LoopNotConfirmed,
    /// The manifest is not in its place.
    #[error("the manifest is not in its directory")]
    ManifestAbsent,
    /// The manifest must not be moved.
    #[error("the manifest cannot be moved: {0}")]
    ManifestImmovable(String),
    /// Another file defines the same pod.
    #[error("another file defines the same pod: {0}")]
    ManifestShadowed(String),
    /// The kubelet does not run.
    #[error("the kubelet does not run, so nobody would end the old pod or start a new one")]
    KubeletDown,
    /// A cycle is open already.
    #[error("a manifest cycle is open already")]
    CycleOpen,
    /// More than one copy of the loop runs.
    #[error("{0} copies of the loop run at once")]
    SeveralCopies(usize),
}
