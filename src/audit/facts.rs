//! What the senses saw, in the form that leaves the daemon: journal evidence and `status`.
//!
//! Invariant: every sense is present, with an age or with the reason why it cannot tell. Plain values;
//! [`evidence()`](super::evidence()) makes them.
//!
//! 64-bit identifiers are written in hexadecimal, as etcdctl prints them: as JSON numbers they are
//! rounded by jq 1.6, which is what a person on the node has.

use serde::{Deserialize, Serialize};

use crate::decision::observation::CyclePhase;
use crate::decision::step::StepKind;

/// One sense's answer with its age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Sense<T> {
    /// Read a moment ago.
    Fresh {
        /// Age of the reading.
        age_ms: u64,
        /// What was read.
        value: T,
    },
    /// Nothing newer has been read.
    Stale {
        /// Age of the last good reading.
        age_ms: u64,
    },
    /// The sense cannot tell.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Every sense, and what else a decision is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The local etcd member.
    pub etcd: Sense<EtcdFacts>,
    /// The loop's log.
    pub heartbeat: Sense<HeartbeatFacts>,
    /// The loop's process.
    pub process: Sense<ProcessFacts>,
    /// The FIP on its interface.
    pub alias: Sense<AliasFacts>,
    /// The manifest directory.
    pub manifest: Sense<ManifestFacts>,
    /// The kubelet.
    pub kubelet: Sense<KubeletFacts>,
    /// Who else claims the FIP.
    pub conflict: Sense<ConflictFacts>,
    /// What answers behind the FIP; absent where it is not asked.
    #[serde(default)]
    pub api: Option<ApiFacts>,
    /// The certificate that is over, when a query failed over TLS and one is.
    #[serde(default)]
    pub expired: Option<ExpiredFacts>,
    /// How far an open manifest cycle got.
    pub cycle: Option<CyclePhase>,
    /// Steps that are being carried out.
    pub in_flight: Vec<StepKind>,
    /// An operator's pause.
    pub paused: Option<PauseFacts>,
    /// Time since the daemon itself was last seen not to have run.
    pub resumed_age_ms: Option<u64>,
    /// How hard-pressed the node is.
    #[serde(default)]
    pub strain: StrainFacts,
    /// What is waited for after a boot, while it is.
    #[serde(default)]
    pub hold_off: Option<HoldOffFacts>,
}

/// How hard-pressed the node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StrainFacts {
    /// How many times in the last minute the daemon woke half a second late or more.
    pub late_ticks: u32,
    /// Percentage of the last 10 s in which some task waited for a CPU; absent where the kernel does not say.
    pub cpu_pressure: Option<u32>,
}

/// Units that are waited for after a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOffFacts {
    /// Which, and how they are.
    pub reason: String,
    /// How long at most.
    pub remaining_ms: u64,
}

/// The local etcd member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum EtcdFacts {
    /// No usable answer.
    None {
        /// `refused`, `timed_out`, `tls` or `other`.
        fault: String,
        /// The error in the words of its source; empty where the fault says it all.
        detail: String,
    },
    /// `Maintenance.Status` was answered.
    Status {
        /// What the member says it is: a claim, not a proof.
        role: EtcdRole,
        /// Its id, hexadecimal.
        member_id: String,
        /// The leader's id, hexadecimal; `0` if it knows of none.
        leader: String,
        /// Term of the last applied entry.
        raft_term: u64,
        /// Key-value revision.
        revision: u64,
        /// `errors` of the answer.
        errors: Vec<String>,
        /// etcd's version.
        version: String,
        /// Whether a quorum confirmed the claim in that round.
        quorum: QuorumFacts,
    },
}

/// A certificate that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredFacts {
    /// Its file.
    pub path: String,
    /// When it was over, RFC 3339 in UTC.
    pub on: String,
}

/// What answers behind the FIP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiFacts {
    /// The TCP port that is asked.
    pub port: u16,
    /// Age of the last answer; never, if absent.
    pub answered_age_ms: Option<u64>,
    /// How long it has been silent; it is not, if absent.
    pub silent_ms: Option<u64>,
    /// How the last question of that failed.
    pub how: Option<String>,
}

/// Who else claims the FIP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictFacts {
    /// The MAC of the last claim by another station.
    pub mac: Option<String>,
    /// Its age.
    pub age_ms: Option<u64>,
}

/// What a member says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EtcdRole {
    /// It claims to lead.
    Leader,
    /// It names another member.
    Follower,
    /// It is a learner.
    Learner,
    /// It knows of no leader.
    NoLeader,
}

/// The outcome of the linearizable read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum QuorumFacts {
    /// Only Status was asked in that round.
    NotAsked,
    /// Confirmed.
    Confirmed {
        /// Age of the proof.
        age_ms: u64,
    },
    /// Not confirmed.
    Denied {
        /// Why.
        reason: String,
    },
}

/// The loop's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatFacts {
    /// Age of the last finished round; none has been read since following began if absent.
    pub last_beat_age_ms: Option<u64>,
    /// How long the log has been followed.
    pub following_ms: u64,
    /// Age of the last growth of any kind.
    pub last_growth_age_ms: Option<u64>,
    /// What the loop concluded: `leader`, `follower`, or how its query failed.
    pub verdict: Option<String>,
    /// What it did to the FIP.
    pub fip: Option<String>,
    /// The term that it saw.
    pub raft_term: Option<u64>,
    /// The file that is followed.
    pub log: String,
}

/// The loop's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "presence")]
pub enum ProcessFacts {
    /// No process of the loop exists.
    Absent {
        /// For how long.
        for_ms: u64,
    },
    /// The loop's shell exists.
    Present {
        /// Process id.
        pid: u32,
        /// Start time in clock ticks since boot: with the pid it names one process.
        start_ticks: u64,
        /// State letter of the kernel.
        process_state: char,
        /// Time since it last made progress.
        progress_age_ms: u64,
        /// Kernel function that it sleeps in.
        wchan: Option<String>,
        /// Shells of the loop.
        copies: usize,
    },
}

/// The FIP on its interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasFacts {
    /// Whether the FIP is there.
    pub held: bool,
    /// Every entry with the FIP's address.
    pub entries: Vec<AliasEntryFacts>,
    /// Administratively up.
    pub up: bool,
    /// Has carrier.
    pub carrier: bool,
}

/// One address entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasEntryFacts {
    /// Prefix length.
    pub prefix_len: u8,
    /// What is left of the lease; forever if absent.
    pub valid_for_ms: Option<u64>,
}

/// The manifest directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFacts {
    /// Content hash; no manifest if absent.
    pub sha256: Option<String>,
    /// Other files that define the same pod.
    pub shadows: Vec<String>,
    /// Why it must not be moved.
    pub immovable: Option<String>,
}

/// The kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletFacts {
    /// Whether its service has processes.
    pub running: bool,
}

/// An operator's pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseFacts {
    /// The operator's words.
    pub reason: String,
    /// How long it still lasts.
    pub remaining_ms: u64,
}
