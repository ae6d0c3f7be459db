//! The conditions of [`safety`](super::safety), by name, so that a model can ask what each is good for.
//!
//! Invariant: a [`Guards`] holds all of them. Only a build with the feature `model`, which nothing that ships
//! has, can make one that lacks a guard; then the model check must find the harm.

/// One condition that stands between a decision and a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// A sense that cannot tell forbids what rests on it.
    Known,
    /// The quorum's confirmation is younger than `limits.proof_max_age`.
    ProofFresh,
    /// The local member is the leader that the quorum confirmed.
    ProvenLeader,
    /// Nothing is put up where the FIP is already.
    AliasAbsent,
    /// The interface is up and has carrier.
    LinkUp,
    /// Nothing is put up behind a link that has just come back.
    LinkSettled,
    /// Only an alias with a lease, so one of ours, is prolonged or handed over.
    Ours,
    /// Handed over only to a loop that has seen the alias, as leader, in a finished round.
    LoopConfirmed,
    /// The FIP is on the interface.
    AliasPresent,
    /// A leader keeps the FIP.
    NotLeading,
    /// Released on another leader's proof, not on one member's claim.
    OtherLeaderProven,
    /// Without a quorum only the FIP of a loop that is down is released.
    LoopDown,
    /// Without a quorum the FIP stays for the time of one worst round.
    WorstRound,
    /// One cycle at a time.
    CycleClosed,
    /// No cycle without a kubelet that runs.
    KubeletRuns,
    /// Only a loop that is frozen, or mistaken for long, is cycled.
    LoopStalled,
    /// Only one copy of the loop runs.
    OneCopy,
    /// The manifest is a file that may be moved.
    ManifestMovable,
    /// The manifest is in its place.
    ManifestPresent,
    /// No other file defines the same pod.
    ManifestUnshadowed,
}

impl Guard {
    /// Every guard, in the order of the enum.
    pub const ALL: [Self; 20] = [
        Self::Known,
        Self::ProofFresh,
        Self::ProvenLeader,
        Self::AliasAbsent,
        Self::LinkUp,
        Self::LinkSettled,
        Self::Ours,
        Self::LoopConfirmed,
        Self::AliasPresent,
        Self::NotLeading,
        Self::OtherLeaderProven,
        Self::LoopDown,
        Self::WorstRound,
        Self::CycleClosed,
        Self::KubeletRuns,
        Self::LoopStalled,
        Self::OneCopy,
        Self::ManifestMovable,
        Self::ManifestPresent,
        Self::ManifestUnshadowed,
    ];
}

/// The guards in force: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guards {
    removed: Option<Guard>,
}

impl Guards {
    /// All but one, to show what that one prevents.
    #[cfg(feature = "model")]
    #[must_use]
    pub const fn without(guard: Guard) -> Self {
        Self { removed: Some(guard) }
    }

    /// Whether the guard is in force.
    #[must_use]
    pub fn hold(self, guard: Guard) -> bool {
        self.removed != Some(guard)
    }
}
