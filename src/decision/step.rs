//! The steps that a plan can hold, and how they end.

use serde::{Deserialize, Serialize};

/// What the executor can be told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Proof, duplicate probe, add with a lease, announce, prove again, undo if lost.
    ApplyAlias,
    /// Give the kernel a new lease for the alias that we applied.
    RenewAlias,
    /// The loop is healthy again: lifetime forever, exactly as the loop leaves it.
    HandOverAlias,
    /// Give the loop's own alias a lease of ours while we watch (`fip.lease_loop_alias`).
    LeaseAlias,
    /// Remove the FIP from the interface.
    ReleaseAlias,
    /// Announce the FIP by gratuitous ARP (RFC 5227 section 3).
    AnnounceAlias,
    /// Take the manifest out, wait for the old pod's real death, put it back, verify.
    CycleManifest,
}

impl StepKind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 7] = [
        Self::ApplyAlias,
        Self::RenewAlias,
        Self::HandOverAlias,
        Self::LeaseAlias,
        Self::ReleaseAlias,
        Self::AnnounceAlias,
        Self::CycleManifest,
    ];

    /// The name in policies, journal entries and `status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApplyAlias => "apply_alias",
            Self::RenewAlias => "renew_alias",
            Self::HandOverAlias => "hand_over_alias",
            Self::LeaseAlias => "lease_alias",
            Self::ReleaseAlias => "release_alias",
            Self::AnnounceAlias => "announce_alias",
            Self::CycleManifest => "cycle_manifest",
        }
    }

    /// Steps of one lane never run at the same time; the two lanes are independent, so that the
    /// alias can follow a leader change while a cycle waits for the old pod to die.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::ApplyAlias
            | Self::RenewAlias
            | Self::HandOverAlias
            | Self::LeaseAlias
            | Self::ReleaseAlias
            | Self::AnnounceAlias => Lane::Alias,
            Self::CycleManifest => Lane::Loop,
        }
    }
}

/// What a step acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The FIP on the interface.
    Alias,
    /// The loop's pod.
    Loop,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "detail")]
pub enum StepOutcome {
    /// Done and verified by observing; what was seen.
    Succeeded(String),
    /// A precondition no longer held right before the act; nothing was changed.
    Refused(String),
    /// It was tried and did not end well; what was undone.
    Failed(String),
    /// A cycle whose old pod would not die, or after which no new one came; the manifest is back.
    PodStuck(String),
}
