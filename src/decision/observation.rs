//! What the senses report: plain values, stamped with [`Moment`]s, no I/O.
//!
//! A sensor never answers with a guess. What it cannot tell is [`Reading::Unknown`] with the reason,
//! and an unknown reading never authorises an action (invariant I3).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::api::ApiView;
use super::certificate::Expired;
use super::step::StepKind;
use super::time::Moment;

/// One sense's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// Read at `at`.
    Fresh {
        /// What was read.
        value: T,
        /// When the reading was complete.
        at: Moment,
    },
    /// Nothing newer than this has been read since.
    Stale {
        /// When the last good reading was taken.
        since: Moment,
    },
    /// The sensor cannot tell, and why. Lower case, names the object.
    Unknown(String),
}

impl<T> Reading<T> {
    /// The value, if it is fresh.
    #[must_use]
    pub const fn fresh(&self) -> Option<&T> {
        match self {
            Self::Fresh { value, .. } => Some(value),
            Self::Stale { .. } | Self::Unknown(_) => None,
        }
    }

    /// When a fresh value was read.
    #[must_use]
    pub const fn fresh_at(&self) -> Option<Moment> {
        match self {
            Self::Fresh { at, .. } => Some(*at),
            Self::Stale { .. } | Self::Unknown(_) => None,
        }
    }
}

/// Everything that one decision is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The local etcd member.
    pub etcd: Reading<EtcdView>,
    /// The loop's log.
    pub heartbeat: Reading<HeartbeatView>,
    /// The loop's process.
    pub process: Reading<ProcessView>,
    /// The interface, and the FIP on it.
    pub alias: Reading<AliasView>,
    /// The manifest directory.
    pub manifest: Reading<ManifestView>,
    /// The kubelet.
    pub kubelet: Reading<KubeletView>,
    /// Other stations that claim the FIP while it is here.
    pub conflict: Reading<ConflictView>,
    /// What answers behind the FIP, while it is here. Nothing is decided by it.
    pub api: ApiView,
    /// The certificate that is over, when a query failed over TLS and one is. Nothing is decided by it.
    pub expired: Option<Expired>,
    /// The open manifest cycle, if there is one, from the cycle journal.
    pub cycle: Option<CycleView>,
    /// The steps that the executor is carrying out now.
    pub in_flight: BTreeSet<StepKind>,
    /// An operator's pause, if one is in force.
    pub paused: Option<OperatorPause>,
    /// The last time at which this daemon itself was seen not to have run (suspended, stunned,
    /// starved): the end of that gap. Ages from before it are void (invariant I4).
    pub resumed_at: Option<Moment>,
    /// How hard-pressed the node is.
    pub strain: StrainView,
    /// What is waited for after a boot, while it is.
    pub hold_off: Option<HoldOff>,
}

/// How hard-pressed the node is: by this daemon's own punctuality, and by what the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StrainView {
    /// How many times in the last minute this daemon woke half a second late or more.
    pub late_ticks: u32,
    /// Percentage of the last 10 s in which some task waited for a CPU (PSI, `some avg10`); `None` where the kernel does not
    /// say (before 4.20, or `psi=0`), which is no fault.
    pub cpu_pressure: Option<u32>,
}

/// Units that the policy waits for after a boot and that are not active yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldOff {
    /// Which, with their states, as a sentence.
    pub reason: String,
    /// How long it lasts at most.
    pub remaining: Duration,
}

/// What the local etcd member says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdView {
    /// It gave no usable answer.
    Unreachable(EtcdFault),
    /// It answered `Maintenance.Status`.
    Answered(EtcdStatus),
}

/// Why the local member gave no answer. Kept apart because the remedies of a person differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum EtcdFault {
    /// Nothing listens: the process is down.
    Refused,
    /// No answer within our deadline: process or disk hangs, or packets are dropped.
    TimedOut,
    /// The TLS handshake failed, or our client certificate was rejected.
    Tls(String),
    /// Anything else, in etcd's words.
    Other(String),
}

/// The fields of etcd's `StatusResponse` that matter here.
///
/// One member's opinion: a leader that was cut off goes on claiming to lead for up to 2 s.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EtcdStatus {
    /// `header.member_id`.
    pub member_id: u64,
    /// `leader`; 0 if the member knows of none.
    pub leader: u64,
    /// `raftTerm`: the term of the last applied entry. Compare for equality only.
    pub raft_term: u64,
    /// `header.revision`.
    pub revision: u64,
    /// `raftIndex`.
    pub raft_index: u64,
    /// `isLearner`.
    pub learner: bool,
    /// `errors`, as etcd words them (`etcdserver: no leader`, alarms).
    pub errors: Vec<String>,
    /// `version`.
    pub version: String,
    /// Whether a quorum confirmed the claim in this very round.
    pub quorum: Quorum,
}

impl EtcdStatus {
    /// The alarms among [`Self::errors`] (`memberID:4711 alarm:NOSPACE`): the cluster's, whichever member is asked.
    pub fn alarms(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().map(|error| error.trim()).filter(|error| error.contains("alarm:"))
    }

    /// Whether the member says that it leads. A claim, not a proof.
    #[must_use]
    pub const fn claims_to_lead(&self) -> bool {
        self.leader != 0 && self.leader == self.member_id && !self.learner
    }

    /// Whether a quorum confirmed, in this round, that `leader` leads.
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        matches!(self.quorum, Quorum::Confirmed { .. })
    }
}

/// The outcome of the linearizable read between two Status calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Quorum {
    /// Only Status was asked.
    #[default]
    NotAsked,
    /// Status, a linearizable read and Status again agreed on member, leader and term.
    Confirmed {
        /// Taken before the read was sent: the proof holds for this instant, not after it.
        at: Moment,
    },
    /// The read failed, or leader or term changed around it; why.
    Denied(String),
}

/// The loop's own log, as far as it was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatView {
    /// The last finished round that was *read as new content* since following began.
    pub last_beat: Option<Beat>,
    /// When that round was read (own clock).
    pub last_beat_at: Option<Moment>,
    /// When following began; the age of the heartbeat counts from here until the first beat.
    pub following_since: Moment,
    /// When the log last grew at all (own clock). A log that grows without beats is no heartbeat.
    pub last_growth_at: Option<Moment>,
    /// The file that is followed.
    pub log: PathBuf,
}

/// One finished round of the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beat {
    /// What the loop concluded about the leadership.
    pub verdict: LoopVerdict,
    /// `header.revision` of the status that the loop saw, where it was readable.
    pub revision: Option<u64>,
    /// `raftIndex` of that status.
    pub raft_index: Option<u64>,
    /// `raftTerm` of that status.
    pub raft_term: Option<u64>,
    /// What the loop did to the FIP in this round.
    pub fip: LoopFip,
}

/// What the loop concluded in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum LoopVerdict {
    /// `Is the current leader!`
    Leader,
    /// `return 4` of its jq comparison.
    Follower,
    /// Its query failed; curl's exit status or text where the trace shows it.
    QueryFailed(String),
}

/// What the loop did to the FIP in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopFip {
    /// Found it in place and left it.
    Kept,
    /// Added it.
    Assigned,
    /// Deleted it.
    Removed,
    /// Did not touch it.
    Untouched,
}

/// The loop's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessView {
    /// No process of the loop exists.
    Absent {
        /// Since when (own clock; the first look counts as the beginning).
        since: Moment,
    },
    /// The loop's shell exists.
    Present(LoopProcess),
}

/// The shell that runs the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopProcess {
    /// Process id in our pid namespace.
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`, clock ticks since boot: with the pid it names one process.
    pub start_ticks: u64,
    /// Field 3 of `/proc/<pid>/stat`: `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// When it last made progress: context switches or reaped children grew (own clock; the first
    /// look counts).
    pub progress_at: Moment,
    /// When this process was first seen (own clock): a new one gets the time of a round before its
    /// silence counts.
    pub seen_since: Moment,
    /// `/proc/<pid>/wchan` where readable.
    pub wchan: Option<String>,
    /// How many shells of the loop exist; more than one is not ours to cycle.
    pub copies: usize,
}

/// The FIP's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasView {
    /// Every address entry with the FIP's IP, whatever its prefix.
    pub entries: Vec<AliasEntry>,
    /// Administratively up.
    pub up: bool,
    /// Has carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
}

/// One address entry of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AliasEntry {
    /// Prefix length, 0 to 32.
    pub prefix_len: u8,
    /// Remaining `valid_lft`; `None` is forever. A finite one is a lease, and only we give leases.
    pub valid_for: Option<Duration>,
    /// Leased by us, but put up by the loop or handed over to it: `preferred_lft` ends a second before
    /// `valid_lft`, which the kernel keeps across a restart of this daemon.
    pub lent: bool,
}

impl AliasView {
    /// Whether the FIP is on the interface.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The remaining lease, if every entry of the FIP is leased (so that we put it up).
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.entries
            .iter()
            .map(|entry| entry.valid_for)
            .min()
            .flatten()
            .filter(|_| self.entries.iter().all(|e| e.valid_for.is_some()))
    }

    /// Whether what is leased is the loop's, and only lent a lease.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.entries.iter().any(|entry| entry.lent)
    }
}

/// Who else claims the FIP (RFC 5227 section 2.4), listened for while the FIP and a link are here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConflictView {
    /// The last claim by a station other than this node.
    pub last: Option<Claim>,
}

/// An ARP packet with the FIP as its sender address, from a MAC that is not this node's. Probes have no
/// sender address and are no claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The station's MAC, `02:00:00:00:00:09`.
    pub mac: String,
    /// When it was heard (own clock).
    pub at: Moment,
}

/// The manifest directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestView {
    /// SHA-256 of the manifest, lower-case hex; `None` if there is no such file.
    pub sha256: Option<String>,
    /// Other files in the directory that the kubelet would read and that define the same pod.
    pub shadows: Vec<PathBuf>,
    /// Why the manifest must not be moved (not a regular file, unreadable); `None` if it may be.
    pub immovable: Option<String>,
}

/// The kubelet, as far as it can be seen without asking it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeletView {
    /// Its service has processes.
    Running,
    /// It has none: nobody acts on the manifest directory.
    Down,
}

/// An open entry of the cycle journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CycleView {
    /// How far it got.
    pub phase: CyclePhase,
}

/// The phases of a manifest cycle, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CyclePhase {
    /// The intent is on disk; the manifest is still in place.
    Intended,
    /// The manifest is staged; the old pod is dying.
    Out,
    /// The manifest is back; the new pod is coming up.
    Back,
}

/// An operator's pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperatorPause {
    /// The operator's words.
    pub reason: String,
    /// How long it still lasts.
    pub remaining: Duration,
}
