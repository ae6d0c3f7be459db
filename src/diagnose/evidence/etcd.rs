//! What etcd itself shows: its answer, its process, its log, its metrics.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::MemberId;

/// What `Maintenance.Status` of the local member says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocalStatus {
    /// The answer, or how it failed.
    pub answer: StatusAnswer,
    /// Its version.
    pub version: String,
    /// Its id.
    pub member_id: MemberId,
    /// The leader that it knows; zero for none.
    pub leader: MemberId,
    /// It is a learner.
    pub learner: bool,
    /// Whether a quorum confirmed a linearizable read: `None` when it was not asked.
    pub quorum_read: Option<bool>,
    /// Alarms: `NOSPACE`, `CORRUPT`.
    pub alarms: Vec<String>,
    /// Size of the database in bytes.
    pub db_size: u64,
    /// Round trip.
    pub took_ms: u64,
}

/// How the local member answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusAnswer {
    /// It answered.
    Answered,
    /// Connection refused: nothing listens.
    Refused,
    /// Connected or not, nothing came within the deadline.
    #[default]
    TimedOut,
    /// TLS failed, with the text.
    Tls(String),
    /// Anything else.
    Other(String),
}

/// etcd's container, or its process where there is no container runtime to ask.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// Who said so: `cri` (with the socket), or `process`.
    pub source: String,
    /// How it is.
    pub state: ContainerState,
    /// The number of its restarts (the CRI's attempt), or of starts seen in the log or while we looked.
    pub restarts: Option<u32>,
    /// How long it has been running, or ago it ended.
    pub age_ms: Option<u64>,
    /// The exit code, when it ended.
    pub exit_code: Option<i32>,
    /// The process on this node.
    pub pid: Option<u32>,
    /// State letter of the process (proc_pid_stat(5)): `T` is stopped, `D` waits for a disk.
    pub process_state: Option<char>,
    /// It sits in a frozen cgroup.
    pub frozen: bool,
    /// It was seen under two pids, or both present and absent, while we looked.
    pub restarted_while_looking: bool,
}

/// How a container is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// Running for a while.
    Running,
    /// It ended, and nothing runs now.
    Exited,
    /// It starts and ends, again and again.
    CrashLooping,
    /// There is none.
    #[default]
    Absent,
}

/// What etcd's log said, counted over the last minutes that were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdLog {
    /// The file.
    pub path: PathBuf,
    /// The newest line's age by the log's own stamps against the wall clock; `None` when no stamp was readable.
    pub last_line_age_ms: Option<u64>,
    /// Classes of lines, with counts, newest first.
    pub lines: Vec<LogLine>,
}

/// Lines of one class about one peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogLine {
    /// What they say.
    pub class: LogClass,
    /// The peer that they are about, by member id.
    pub peer: Option<MemberId>,
    /// How many.
    pub count: u32,
    /// The age of the newest one; `None` without a readable stamp.
    pub newest_age_ms: Option<u64>,
    /// The age of the oldest one since the peer was last active; `None` without a readable stamp. It says since when.
    pub oldest_age_ms: Option<u64>,
    /// The newest one's message and error, clipped.
    pub example: String,
}

/// What a line of etcd's log says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogClass {
    /// A peer does not answer: dial or read timed out.
    PeerTimedOut,
    /// A peer refuses the connection.
    PeerRefused,
    /// No route or no host.
    PeerNoRoute,
    /// TLS with a peer failed: "rejected connection" from another host, "remote error", x509.
    PeerTls,
    /// TLS with a client on this node failed: "rejected connection" from a loopback address.
    ClientTls,
    /// A peer's name did not resolve.
    PeerUnresolved,
    /// A peer ended the connection (EOF, reset): its etcd ended or starts anew.
    PeerClosed,
    /// A peer became active again.
    PeerActive,
    /// The prober sees the peer's clock apart.
    ClockDrift,
    /// A slow fdatasync, a slow apply, an overloaded disk.
    SlowDisk,
    /// Heartbeats were sent late.
    LateHeartbeats,
    /// An election began, or the leader was lost.
    Election,
    /// The server starts: counts restarts.
    Start,
    /// It panicked; the example says how.
    Panic,
    /// `tocommit is out of range`: the data directory is older than the cluster believes.
    SnapshotReverted,
    /// This member was removed from the cluster.
    MemberRemoved,
    /// A cluster or member id that does not match.
    IdMismatch,
    /// It cannot bind an address.
    CannotBind,
    /// The database is full, or its alarm was raised.
    NoSpace,
    /// The file system is full (ENOSPC).
    DiskFull,
    /// The data is corrupt.
    Corrupt,
    /// A certificate or a key cannot be loaded.
    CertificateLoad,
    /// Anything else at level error, fatal or panic.
    #[default]
    OtherError,
}

/// etcd's metrics, as rates between two samples where they are counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// `etcd_server_has_leader`.
    pub has_leader: Option<bool>,
    /// `etcd_server_leader_changes_seen_total`.
    pub leader_changes: Option<u64>,
    /// Mean fsync of the write-ahead log between the samples; since etcd started when there was none between them.
    pub fsync_ms: Option<f64>,
    /// Mean commit of the backend, likewise.
    pub commit_ms: Option<f64>,
    /// Round trips to peers by member id, mean, in milliseconds.
    pub peer_rtt_ms: Vec<(MemberId, f64)>,
    /// `etcd_server_quota_backend_bytes`.
    pub quota_bytes: Option<u64>,
    /// `etcd_mvcc_db_total_size_in_bytes`.
    pub db_bytes: Option<u64>,
    /// `etcd_server_heartbeat_send_failures_total` between the samples.
    pub late_heartbeats: Option<u64>,
}
