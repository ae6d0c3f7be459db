//! How bad a verdict is, for journal priorities and the exit code of `status`. Pure.

use crate::decision::verdict::Verdict;

/// A journal priority (syslog severity, RFC 5424 section 6.2.1), most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// 3: service is lost, or a remedy failed.
    Error,
    /// 4: something needs a person's eye.
    Warning,
    /// 5: something changed.
    Notice,
    /// 6: a step on the way.
    Info,
    /// 7: routine.
    Debug,
}

impl Priority {
    /// The number in `PRIORITY`.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warning => 4,
            Self::Notice => 5,
            Self::Info => 6,
            Self::Debug => 7,
        }
    }
}

/// The priority of a change to `verdict`.
#[must_use]
pub const fn severity(verdict: Verdict) -> Priority {
    match verdict {
        // The FIP is nowhere, or in the wrong place, or will stay lost after the next failover.
        Verdict::EtcdUnreachable
        | Verdict::NoQuorum
        | Verdict::ManifestMissing
        | Verdict::LoopStalledFipMissing
        | Verdict::FipOrphaned
        | Verdict::FipDuplicated
        | Verdict::FipMissing
        | Verdict::PodStuck
        | Verdict::KubeletDown => Priority::Error,
        // Service stands, but not for long or not for certain.
        Verdict::Unknown
        | Verdict::LeaderUnproven
        | Verdict::LeaderFlapping
        | Verdict::LoopStalledFipHeld
        | Verdict::LoopStalledFollower
        | Verdict::ManifestShadowed
        | Verdict::ManifestChanged
        | Verdict::LoopBlind
        | Verdict::LoopMistaken
        | Verdict::LoopAbsent
        | Verdict::LogStalled
        | Verdict::HostStarved => Priority::Warning,
        Verdict::Paused | Verdict::Starting | Verdict::Resumed | Verdict::Healthy => Priority::Notice,
    }
}

/// Whether `status` exits with 1: a person should look. An operator's own pause, and the rounds after a
/// start or a gap in which nothing can be known yet, are no alarm.
#[must_use]
pub const fn is_alarmed(verdict: Verdict) -> bool {
    matches!(severity(verdict), Priority::Error | Priority::Warning)
}
