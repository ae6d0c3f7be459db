//! What each guard of `decision::safety` is good for: without it, this breaks.
//!
//! A case names the fewest faults that show it. Where the harm needs a person's hand (`hand`), the ladder alone never asks
//! for the step in that situation, so the guard is the second line: it holds for whatever else may order a step.

use fip_watchdog::decision::guard::{Guard, Guards};
use fip_watchdog::decision::step::StepKind;

use crate::contract::Broken;
use crate::fault::{Fault, Menu};
use crate::node::Sense;
use crate::scale::{Ticks, ticks};
use crate::world::{Cluster, Start};

/// A guard, and where its absence shows.
#[derive(Debug, Clone, Copy)]
pub struct Removal {
    /// What is removed.
    pub what: What,
    /// Where it begins.
    pub start: Start,
    /// What can happen.
    pub faults: &'static [Fault],
    /// How much of it.
    pub count: u8,
    /// What breaks.
    pub breaks: Broken,
}

/// What is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A guard of `decision::safety`.
    Guard(Guard),
    /// The steps' own look and proof right before they act.
    StepsOwnProof,
    /// The finite lease.
    Lease,
    /// The second look for a pause, after the senses are read.
    GapInRound,
    /// Every remedy of the policy.
    Remedies,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Guard(guard) => write!(f, "{guard:?}"),
            Self::StepsOwnProof => f.write_str("the steps' own proof"),
            Self::Lease => f.write_str("the kernel's lease"),
            Self::GapInRound => f.write_str("the look for a pause"),
            Self::Remedies => f.write_str("every remedy"),
        }
    }
}

impl Removal {
    /// The cluster that lacks it.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        let mut cluster = self.intact();
        match self.what {
            What::Guard(guard) => cluster.guards = Guards::without(guard),
            What::StepsOwnProof => cluster.steps_check = false,
            What::Lease => (cluster.lease, cluster.policy.limits.alias_lease) = (NO_LEASE, ticks(NO_LEASE)),
            What::GapInRound => cluster.gap_in_round = false,
            What::Remedies => cluster.policy.remedies.clear(),
        }
        cluster
    }

    /// The same with nothing removed.
    #[must_use]
    pub fn intact(&self) -> Cluster {
        let menu = Menu { name: "removal", faults: self.faults };
        Cluster { hand: true, start: self.start, ..Cluster::new(menu, self.count).watching(self.breaks) }
    }

    /// Whether it takes a person's hand: the ladder alone never asks for the step there.
    #[must_use]
    pub fn needs_a_hand(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::Hand(_)))
    }
}

/// Longer than any story.
const NO_LEASE: Ticks = 100;

const fn guard(guard: Guard, start: Start, faults: &'static [Fault], breaks: Broken) -> Removal {
    // Every fault of the menu once is enough, and keeps the search short.
    Removal { what: What::Guard(guard), start, faults, count: faults.len() as u8, breaks }
}

use Fault::{
    AliasDeleted, Blind, Cut, DaemonDies, DaemonFreezes, DiskReadOnly, HalfRound, Hand, Immovable, LinkDown, LoopFreezes,
};
use Fault::{EtcdToCome, KubeletDies, KubeletStops, SecondCopy, Shadow, Taken, Transfer};
use Start::{Calm, LoopsFrozen};
use StepKind::{ApplyAlias, CycleManifest, ReleaseAlias, RenewAlias};

/// Every guard at least once, and the two that are not in `decision::safety`.
pub const REMOVALS: [Removal; 28] = [
    guard(Guard::Known, Calm, &[LoopFreezes, Blind(Sense::Manifest)], Broken::ActedOnUnknown),
    guard(Guard::Known, Calm, &[Blind(Sense::Etcd), Hand(ReleaseAlias)], Broken::ActedOnUnknown),
    guard(Guard::ProofFresh, LoopsFrozen, &[Transfer, HalfRound], Broken::OrderedUnproven),
    guard(Guard::ProofFresh, Calm, &[LoopFreezes, Shadow, HalfRound], Broken::CycledUnproven),
    Removal {
        what: What::Guard(Guard::ProvenLeader),
        start: Calm,
        faults: &[Transfer, LoopFreezes],
        count: 3,
        breaks: Broken::OrderedUnproven,
    },
    guard(Guard::ProvenLeader, Calm, &[Hand(ApplyAlias)], Broken::OrderedUnproven),
    guard(Guard::AliasAbsent, Calm, &[Hand(ApplyAlias)], Broken::AppliedTwice),
    guard(Guard::LinkUp, Calm, &[Transfer, LinkDown], Broken::ActedWithoutLink),
    guard(Guard::LinkSettled, LoopsFrozen, &[Transfer, LinkDown], Broken::ActedOnFlappingLink),
    guard(Guard::Ours, Calm, &[Hand(RenewAlias)], Broken::TouchedLoopsAlias),
    guard(Guard::LoopConfirmed, Calm, &[LoopFreezes, AliasDeleted], Broken::HandedToDeadLoop),
    guard(Guard::AliasPresent, Calm, &[Hand(ReleaseAlias)], Broken::ActedOnNothing),
    guard(Guard::NotLeading, Calm, &[Hand(ReleaseAlias)], Broken::ReleasedOnLeader),
    guard(Guard::OtherLeaderProven, Calm, &[Cut, Hand(ReleaseAlias)], Broken::ReleasedUnproven),
    guard(Guard::LoopDown, Calm, &[LoopFreezes, Cut], Broken::ReleasedUnproven),
    guard(Guard::WorstRound, LoopsFrozen, &[Cut], Broken::ReleasedUnproven),
    guard(Guard::CycleClosed, Calm, &[LoopFreezes, DiskReadOnly], Broken::TwoCycles),
    guard(Guard::KubeletRuns, Calm, &[LoopFreezes, KubeletDies], Broken::CycledWithoutKubelet),
    guard(Guard::LoopStalled, Calm, &[Hand(CycleManifest)], Broken::WorkingLoopCycled),
    guard(Guard::OneCopy, Calm, &[LoopFreezes, SecondCopy], Broken::CopiesCycled),
    guard(Guard::ManifestMovable, Calm, &[LoopFreezes, Immovable], Broken::ManifestMisused),
    guard(Guard::ManifestPresent, Calm, &[LoopFreezes, KubeletStops, Taken], Broken::ManifestMisused),
    guard(Guard::ManifestUnshadowed, Calm, &[LoopFreezes, Shadow], Broken::ManifestMisused),
    Removal {
        what: What::StepsOwnProof,
        start: LoopsFrozen,
        faults: &[Transfer, DaemonFreezes],
        count: 2,
        breaks: Broken::LeaseOutlivesProof,
    },
    Removal { what: What::Lease, start: LoopsFrozen, faults: &[DaemonDies], count: 1, breaks: Broken::LeaseOutlivesProof },
    Removal { what: What::Lease, start: LoopsFrozen, faults: &[DaemonDies, Transfer], count: 2, breaks: Broken::TwoHolders },
    Removal { what: What::GapInRound, start: Calm, faults: &[AliasDeleted, EtcdToCome], count: 2, breaks: Broken::ActedOnPause },
    Removal {
        what: What::Remedies,
        start: Calm,
        faults: &[LoopFreezes, AliasDeleted],
        count: 2,
        breaks: Broken::LeaderWithoutFip,
    },
];
