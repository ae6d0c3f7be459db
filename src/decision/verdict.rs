//! The verdicts: what the readings of one moment add up to.

use serde::{Deserialize, Serialize};

/// Every combination of readings maps to exactly one of these; `judge` holds the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// An operator paused the watchdog.
    Paused,
    /// Not every sense has been fresh once since the start.
    Starting,
    /// The daemon itself did not run for a while, or a clock jumped: all ages are void.
    Resumed,
    /// A sense that the decision needs cannot tell.
    Unknown,
    /// The local etcd refuses, hangs or rejects TLS.
    EtcdUnreachable,
    /// etcd answers that there is no leader, or a quorum does not answer a follower.
    NoQuorum,
    /// The local member claims to lead and a quorum does not confirm it.
    LeaderUnproven,
    /// The leadership has changed too often within a while: held until it is stable.
    LeaderFlapping,
    /// The manifest is not in its directory, and it was not us.
    ManifestMissing,
    /// Another file in the manifest directory defines the same pod: no cycle would do what it is meant to do.
    ManifestShadowed,
    /// The manifest's content is not the last known good one, and the loop has not beaten under it yet.
    ManifestChanged,
    /// Proven leader, no alias, loop frozen: the first article.
    LoopStalledFipMissing,
    /// Proven leader, alias there, loop frozen.
    LoopStalledFipHeld,
    /// Not the leader, no alias, loop frozen: the next failover will fail.
    LoopStalledFollower,
    /// Another leader is proven and the alias is still here.
    FipOrphaned,
    /// Proven leader, loop alive, no alias for longer than one worst round.
    FipMissing,
    /// Another station answers for the FIP while we hold it.
    FipDuplicated,
    /// The loop finishes its rounds, and its queries fail in all of them.
    LoopBlind,
    /// The loop finishes its rounds, and says the opposite of what is proven in all of them.
    LoopMistaken,
    /// The manifest is there and no process has run for long.
    LoopAbsent,
    /// The last cycle failed because the old pod would not die or no new one came, not long ago.
    PodStuck,
    /// The kubelet does not run: nobody would restart the loop.
    KubeletDown,
    /// The log is frozen, the process works on.
    LogStalled,
    /// The loop looks frozen, and the node is so hard-pressed that its ages mean nothing.
    HostStarved,
    /// Leader or follower as it should be.
    Healthy,
}

impl Verdict {
    /// Every verdict, in the order of the table.
    pub const ALL: [Self; 25] = [
        Self::Paused,
        Self::Starting,
        Self::Resumed,
        Self::Unknown,
        Self::EtcdUnreachable,
        Self::NoQuorum,
        Self::LeaderUnproven,
        Self::LeaderFlapping,
        Self::ManifestMissing,
        Self::ManifestShadowed,
        Self::ManifestChanged,
        Self::LoopStalledFipMissing,
        Self::LoopStalledFipHeld,
        Self::LoopStalledFollower,
        Self::FipOrphaned,
        Self::FipMissing,
        Self::FipDuplicated,
        Self::LoopBlind,
        Self::LoopMistaken,
        Self::LoopAbsent,
        Self::PodStuck,
        Self::KubeletDown,
        Self::LogStalled,
        Self::HostStarved,
        Self::Healthy,
    ];

    /// The name in policies, journal entries and `status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Starting => "starting",
            Self::Resumed => "resumed",
            Self::Unknown => "unknown",
            Self::EtcdUnreachable => "etcd_unreachable",
            Self::NoQuorum => "no_quorum",
            Self::LeaderUnproven => "leader_unproven",
            Self::LeaderFlapping => "leader_flapping",
            Self::ManifestMissing => "manifest_missing",
            Self::ManifestShadowed => "manifest_shadowed",
            Self::ManifestChanged => "manifest_changed",
            Self::LoopStalledFipMissing => "loop_stalled_fip_missing",
            Self::LoopStalledFipHeld => "loop_stalled_fip_held",
            Self::LoopStalledFollower => "loop_stalled_follower",
            Self::FipOrphaned => "fip_orphaned",
            Self::FipMissing => "fip_missing",
            Self::FipDuplicated => "fip_duplicated",
            Self::LoopBlind => "loop_blind",
            Self::LoopMistaken => "loop_mistaken",
            Self::LoopAbsent => "loop_absent",
            Self::PodStuck => "pod_stuck",
            Self::KubeletDown => "kubelet_down",
            Self::LogStalled => "log_stalled",
            Self::HostStarved => "host_starved",
            Self::Healthy => "healthy",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
