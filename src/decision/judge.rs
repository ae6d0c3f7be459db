//! The verdict table: every combination of facts maps to exactly one verdict.
//!
//! Read it top to bottom; the first match wins. It is a pure function of [`Facts`].

use std::time::Duration;

use super::facts::{Holding, LoopState, Role};
use super::verdict::Verdict;

/// All that the table looks at. Ages are counted from the last time that made them void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// An operator's pause is in force.
    pub paused: bool,
    /// The grace period after a pause of the daemon itself is running.
    pub resumed: bool,
    /// Some sense has not been fresh once since the start, and the start was not long ago.
    pub starting: bool,
    /// What the local member is.
    pub role: Role,
    /// How long the role has been of this kind (leading, following, neither).
    pub role_age: Duration,
    /// How long etcd has told such a role without a gap: `role_age` at most, which goes on across brief silences.
    pub told_for: Duration,
    /// The leadership has changed too often: how long it must be stable still.
    pub flapping: Option<Duration>,
    /// Whether the FIP is here, or why that is not known.
    pub holding: Result<Holding, String>,
    /// How long the FIP has been here or not been here.
    pub holding_age: Duration,
    /// Another station has claimed the FIP a moment ago, although it is here and the roles had the time of
    /// one round of the loop to settle.
    pub contested: bool,
    /// The interface has not just got its link back.
    pub link_settled: bool,
    /// How the loop does.
    pub watched_loop: LoopState,
    /// How long the manifest has been missing, when it is and no cycle of ours is open.
    pub manifest_missing: Option<Duration>,
    /// How long another file in the manifest directory has defined the same pod, when one does.
    pub manifest_shadowed: Option<Duration>,
    /// How long the kubelet has not been running, when it does not.
    pub kubelet_down: Option<Duration>,
    /// How the last cycle failed, when it did because of the pod, not long ago, and no round was finished since.
    pub pod_stuck: Option<String>,
    /// The time that a healthy loop needs at most to correct the alias.
    pub worst_round: Duration,
}

/// What the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// This verdict.
    Is(Verdict),
    /// This verdict if a quorum confirms what the local member claims: ask it.
    IfProven(Verdict),
}

impl Judgement {
    /// The verdict, proven or not.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Is(verdict) | Self::IfProven(verdict) => verdict,
        }
    }
}

/// An editor or a vendor's upgrade that replaces the manifest leaves a gap of milliseconds.
const MANIFEST_MISSING_AFTER: Duration = Duration::from_secs(5);

/// An editor's own backup (`wcp-fip.yaml~`) may be there for as long as it writes.
const MANIFEST_SHADOWED_AFTER: Duration = Duration::from_secs(5);

/// A restart of the kubelet leaves its service without processes for about a second.
const KUBELET_DOWN_AFTER: Duration = Duration::from_secs(5);

/// The verdict on a set of facts.
#[must_use]
pub fn judge(facts: &Facts) -> Judgement {
    use Judgement::Is;
    if facts.paused {
        return Is(Verdict::Paused);
    }
    if facts.resumed {
        return Is(Verdict::Resumed);
    }
    if facts.starting {
        return Is(Verdict::Starting);
    }
    let leads = match &facts.role {
        Role::Unknown(_) | Role::Learner => return Is(Verdict::Unknown),
        Role::Unreachable(_) => return Is(Verdict::EtcdUnreachable),
        Role::NoLeader | Role::CutOff(_) => return Is(Verdict::NoQuorum),
        Role::Unproven(_) => return Is(Verdict::LeaderUnproven),
        Role::ClaimsToLead | Role::Leads => true,
        Role::ClaimsToFollow | Role::Follows => false,
    };
    let Ok(holding) = facts.holding else {
        return Is(Verdict::Unknown);
    };
    let verdict = match (leads, holding) {
        (true, Holding::Absent) => leader_without_fip(facts),
        (true, Holding::Held | Holding::Lent { .. } | Holding::Leased { .. }) => leader_with_fip(facts),
        (false, Holding::Absent) => follower_without_fip(facts),
        (false, Holding::Leased { .. }) => Verdict::FipOrphaned,
        (false, Holding::Held | Holding::Lent { .. }) => follower_with_fip(facts),
    };
    // Two holders come first: a follower lets go of the FIP all the same, and a leader defends what it has.
    if let Some(instead) = held_up(facts)
        && !matches!(verdict, Verdict::FipOrphaned | Verdict::FipDuplicated)
    {
        return Is(instead);
    }
    let proven = matches!(facts.role, Role::Leads | Role::Follows);
    let needs_no_proof = matches!(
        verdict,
        Verdict::Healthy | Verdict::LogStalled | Verdict::HostStarved | Verdict::Unknown | Verdict::ManifestChanged
    );
    if proven || needs_no_proof { Is(verdict) } else { Judgement::IfProven(verdict) }
}

/// What is said instead of most verdicts, because nothing is put up or cycled meanwhile.
fn held_up(facts: &Facts) -> Option<Verdict> {
    if facts.manifest_missing.is_some_and(|age| age >= MANIFEST_MISSING_AFTER) {
        Some(Verdict::ManifestMissing)
    } else {
        facts.flapping.map(|_| Verdict::LeaderFlapping)
    }
}

/// A loop that works, or may, gets the time of one worst round to correct the alias itself.
fn is_overdue(facts: &Facts) -> bool {
    facts.role_age.min(facts.holding_age) >= facts.worst_round
}

/// A loop that needs another pod, unless more is known about why it does not get one.
fn loop_down(facts: &Facts, otherwise: Verdict) -> Verdict {
    if kubelet_is_down(facts) {
        Verdict::KubeletDown
    } else if facts.pod_stuck.is_some() {
        Verdict::PodStuck
    } else if is_shadowed(facts) {
        Verdict::ManifestShadowed
    } else {
        otherwise
    }
}

/// Loop and FIP are as they should be; what is left to say is what would keep the loop from coming back.
fn all_well(facts: &Facts) -> Verdict {
    if kubelet_is_down(facts) {
        Verdict::KubeletDown
    } else if is_shadowed(facts) {
        Verdict::ManifestShadowed
    } else {
        Verdict::Healthy
    }
}

fn is_shadowed(facts: &Facts) -> bool {
    facts.manifest_shadowed.is_some_and(|age| age >= MANIFEST_SHADOWED_AFTER)
}

fn kubelet_is_down(facts: &Facts) -> bool {
    facts.kubelet_down.is_some_and(|age| age >= KUBELET_DOWN_AFTER)
}

fn leader_without_fip(facts: &Facts) -> Verdict {
    match &facts.watched_loop {
        LoopState::Stalled(_) => loop_down(facts, Verdict::LoopStalledFipMissing),
        LoopState::Absent | LoopState::Returning => loop_down(facts, Verdict::LoopAbsent),
        LoopState::Unknown(_) => Verdict::Unknown,
        LoopState::Renewed { .. } => Verdict::ManifestChanged,
        LoopState::Blind { .. } => Verdict::LoopBlind,
        LoopState::Mistaken { .. } => loop_down(facts, Verdict::LoopMistaken),
        // On a starved node, too: the alias needs a proof and no age of the loop.
        LoopState::Alive { .. } | LoopState::LogStalled | LoopState::Starved(_) if is_overdue(facts) => Verdict::FipMissing,
        LoopState::LogStalled => Verdict::LogStalled,
        LoopState::Starved(_) => Verdict::HostStarved,
        LoopState::Alive { .. } => Verdict::Healthy,
    }
}

fn leader_with_fip(facts: &Facts) -> Verdict {
    let verdict = match &facts.watched_loop {
        LoopState::Stalled(_) => loop_down(facts, Verdict::LoopStalledFipHeld),
        LoopState::Absent | LoopState::Returning => loop_down(facts, Verdict::LoopAbsent),
        LoopState::Unknown(_) => Verdict::Unknown,
        LoopState::Renewed { .. } => Verdict::ManifestChanged,
        LoopState::Blind { .. } => Verdict::LoopBlind,
        LoopState::Mistaken { .. } => loop_down(facts, Verdict::LoopMistaken),
        LoopState::LogStalled => Verdict::LogStalled,
        LoopState::Starved(_) => Verdict::HostStarved,
        LoopState::Alive { .. } => all_well(facts),
    };
    // A frozen loop is cycled all the same where it can be: its ladder defends the FIP, too.
    let defends_itself = verdict == Verdict::LoopStalledFipHeld && held_up(facts).is_none();
    if facts.contested && !defends_itself { Verdict::FipDuplicated } else { verdict }
}

fn follower_without_fip(facts: &Facts) -> Verdict {
    match &facts.watched_loop {
        LoopState::Stalled(_) => loop_down(facts, Verdict::LoopStalledFollower),
        LoopState::Absent | LoopState::Returning => loop_down(facts, Verdict::LoopAbsent),
        LoopState::Unknown(_) => Verdict::Unknown,
        LoopState::Renewed { .. } => Verdict::ManifestChanged,
        LoopState::Blind { .. } => Verdict::LoopBlind,
        LoopState::Mistaken { .. } => loop_down(facts, Verdict::LoopMistaken),
        LoopState::LogStalled => Verdict::LogStalled,
        LoopState::Starved(_) => Verdict::HostStarved,
        LoopState::Alive { .. } => all_well(facts),
    }
}

/// Two holders: a loop that is down or led astray will not let go, and whatever it is, it had its time.
fn follower_with_fip(facts: &Facts) -> Verdict {
    if facts.watched_loop.keeps_fip() || is_overdue(facts) {
        return Verdict::FipOrphaned;
    }
    if facts.contested {
        return Verdict::FipDuplicated;
    }
    match &facts.watched_loop {
        LoopState::Unknown(_) => Verdict::Unknown,
        LoopState::Renewed { .. } => Verdict::ManifestChanged,
        LoopState::LogStalled => Verdict::LogStalled,
        LoopState::Starved(_) => Verdict::HostStarved,
        LoopState::Returning => loop_down(facts, Verdict::LoopAbsent),
        LoopState::Alive { .. }
        | LoopState::Blind { .. }
        | LoopState::Mistaken { .. }
        | LoopState::Stalled(_)
        | LoopState::Absent => Verdict::Healthy,
    }
}
