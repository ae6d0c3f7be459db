//! What must never happen, and the checks of each order against what was there to be known.
//!
//! Written from the invariants alone, without a look at `decision::safety`: an order is judged by what the daemon had
//! read, with ages in the model's ticks.

use fip_watchdog::decision::step::StepKind;

use crate::node::{Alias, Place, Round, Said, Sense};
use crate::scale::{GAP_NOTICED, PROOF_TOO_OLD, STALLED_AFTER, Ticks, WORST_ROUND};
use crate::sense::{Asked, EtcdSeen, ProcessSeen, Snapshot};

/// What must never happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Broken {
    /// Two leased aliases on nodes that reach each other, for longer than a lease and a proof's age.
    TwoHolders,
    /// A leased alias whose proof is older than a lease and a proof's age.
    LeaseOutlivesProof,
    /// A manifest is staged, and no journal entry is open.
    OutUnjournalled,
    /// A lease became forever while the loop had not seen the alias.
    HandedToDeadLoop,
    /// A step on the alias was ordered without a fresh proof that the node leads.
    OrderedUnproven,
    /// A release was ordered with neither a fresh proof of another leader nor a worst round without any.
    ReleasedUnproven,
    /// A release was ordered although the node's own member says that it leads.
    ReleasedOnLeader,
    /// A cycle was ordered without a fresh proof that a quorum exists.
    CycledUnproven,
    /// A step was ordered on a sense that cannot tell.
    ActedOnUnknown,
    /// An alias was ordered where the FIP is already.
    AppliedTwice,
    /// A step was ordered for an alias that is not there.
    ActedOnNothing,
    /// An alias or an announcement was ordered on an interface without a link.
    ActedWithoutLink,
    /// An alias was ordered in the tick in which the link came back.
    ActedOnFlappingLink,
    /// A step that belongs to leased aliases was ordered for the loop's.
    TouchedLoopsAlias,
    /// A cycle was ordered for a loop that is not frozen.
    WorkingLoopCycled,
    /// A cycle was ordered while no kubelet runs.
    CycledWithoutKubelet,
    /// A cycle was ordered while one is open.
    TwoCycles,
    /// A cycle was ordered while two copies of the loop run.
    CopiesCycled,
    /// A cycle was ordered for a manifest that must not be moved, is not there, or has a shadow.
    ManifestMisused,
    /// More cycles than allowed, or sooner.
    OverBudget,
    /// A step other than upkeep was ordered while paused.
    ActedWhilePaused,
    /// A step other than upkeep was ordered on readings from before a pause of the daemon.
    ActedOnPause,
    /// A step was ordered in a busy lane.
    BusyLane,
    /// A proven leader has no FIP although nothing changed for long.
    LeaderWithoutFip,
    /// A follower has the FIP although nothing changed for long.
    FollowerKeepsFip,
}

impl Broken {
    /// All, in the order of the enum.
    pub const ALL: [Self; 25] = [
        Self::TwoHolders,
        Self::LeaseOutlivesProof,
        Self::OutUnjournalled,
        Self::HandedToDeadLoop,
        Self::OrderedUnproven,
        Self::ReleasedUnproven,
        Self::ReleasedOnLeader,
        Self::CycledUnproven,
        Self::ActedOnUnknown,
        Self::AppliedTwice,
        Self::ActedOnNothing,
        Self::ActedWithoutLink,
        Self::ActedOnFlappingLink,
        Self::TouchedLoopsAlias,
        Self::WorkingLoopCycled,
        Self::CycledWithoutKubelet,
        Self::TwoCycles,
        Self::CopiesCycled,
        Self::ManifestMisused,
        Self::OverBudget,
        Self::ActedWhilePaused,
        Self::ActedOnPause,
        Self::BusyLane,
        Self::LeaderWithoutFip,
        Self::FollowerKeepsFip,
    ];

    /// The property that it breaks.
    #[must_use]
    pub const fn property(self) -> &'static str {
        match self {
            Self::TwoHolders => "I1: two leased aliases never meet for longer than a lease",
            Self::LeaseOutlivesProof => "I1: a leased alias never outlives its proof by more than a lease",
            Self::OutUnjournalled => "I2: a manifest is out only under an open journal entry",
            Self::HandedToDeadLoop => "I1: a lease becomes forever only when the loop has seen the alias",
            Self::OrderedUnproven => "I1: alias steps are ordered only under a fresh proof of leading",
            Self::ReleasedUnproven => "I1: a release needs another leader's proof, or a worst round without any",
            Self::ReleasedOnLeader => "I1: a leader keeps the FIP",
            Self::CycledUnproven => "a cycle needs a quorum's fresh proof",
            Self::ActedOnUnknown => "I3: unknown never acts",
            Self::AppliedTwice => "I1: nothing is put up where the FIP is",
            Self::ActedOnNothing => "nothing is done to an alias that is not there",
            Self::ActedWithoutLink => "nothing is put up or announced without a link",
            Self::ActedOnFlappingLink => "nothing is put up behind a link that has just come back",
            Self::TouchedLoopsAlias => "I6: the loop's alias is neither shortened nor handed over",
            Self::WorkingLoopCycled => "a loop that is not frozen is not cycled",
            Self::CycledWithoutKubelet => "no cycle without a kubelet that runs",
            Self::TwoCycles => "I2: one cycle at a time",
            Self::CopiesCycled => "two copies of the loop are not cycled",
            Self::ManifestMisused => "I2: only a sound manifest without a shadow is moved",
            Self::OverBudget => "I5: cooldown and budget are kept",
            Self::ActedWhilePaused => "a paused watchdog does upkeep alone",
            Self::ActedOnPause => "I4: readings from before a pause lead to upkeep alone",
            Self::BusyLane => "a lane runs one step at a time",
            Self::LeaderWithoutFip => "liveness: a stable proven leader ends up with the FIP",
            Self::FollowerKeepsFip => "liveness: a follower ends up without the FIP",
        }
    }
}

/// All that is wrong with ordering `step` on what `seen` says.
#[must_use]
pub fn judge_order(step: StepKind, seen: &Snapshot) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut check = |good: bool, otherwise: Broken| {
        if !good {
            broken.push(otherwise);
        }
    };
    let fresh = seen.proof().filter(|(_, age)| *age < PROOF_TOO_OLD);
    let blind = |sense| seen.blind == Some(sense);
    let present = seen.alias != Alias::Absent;
    let leased = matches!(seen.alias, Alias::Leased { .. });
    match step {
        StepKind::ApplyAlias => {
            check(fresh.is_some_and(|(leads, _)| leads), Broken::OrderedUnproven);
            check(!present, Broken::AppliedTwice);
            check(!seen.link_new, Broken::ActedOnFlappingLink);
            check(seen.link, Broken::ActedWithoutLink);
        }
        StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias => {
            check(fresh.is_some_and(|(leads, _)| leads), Broken::OrderedUnproven);
            check(present, Broken::ActedOnNothing);
            check(leased || !present, Broken::TouchedLoopsAlias);
            check(step != StepKind::HandOverAlias || confirmed(seen), Broken::HandedToDeadLoop);
        }
        StepKind::AnnounceAlias => {
            check(fresh.is_some_and(|(leads, _)| leads), Broken::OrderedUnproven);
            check(present, Broken::ActedOnNothing);
            check(seen.link, Broken::ActedWithoutLink);
        }
        StepKind::ReleaseAlias => {
            check(present, Broken::ActedOnNothing);
            check(
                !matches!(seen.etcd, EtcdSeen::Answered(Said::Itself, Asked::No | Asked::Confirmed(_))),
                Broken::ReleasedOnLeader,
            );
        }
        StepKind::CycleManifest => {
            check(fresh.is_some(), Broken::CycledUnproven);
            check(seen.kubelet || blind(Sense::Kubelet), Broken::CycledWithoutKubelet);
            check(seen.cycle.is_none(), Broken::TwoCycles);
            check(is_frozen(seen), Broken::WorkingLoopCycled);
            check(
                !matches!(seen.process, ProcessSeen::Present { twice: true, .. }) || blind(Sense::Process),
                Broken::CopiesCycled,
            );
            let sound = seen.manifest.place == Place::Home && !seen.manifest.shadowed && !seen.manifest.immovable;
            check(sound || blind(Sense::Manifest), Broken::ManifestMisused);
            check(!blind(Sense::Manifest) && !blind(Sense::Heartbeat) && !blind(Sense::Kubelet), Broken::ActedOnUnknown);
        }
    }
    check(!blind(Sense::Etcd), Broken::ActedOnUnknown);
    check(!blind(Sense::Alias) || step == StepKind::CycleManifest, Broken::ActedOnUnknown);
    let upkeep = match step {
        StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::AnnounceAlias | StepKind::LeaseAlias => true,
        StepKind::ReleaseAlias => leased,
        StepKind::ApplyAlias | StepKind::CycleManifest => false,
    };
    check(!seen.paused || upkeep, Broken::ActedWhilePaused);
    check(seen.age < GAP_NOTICED || upkeep, Broken::ActedOnPause);
    let busy = if step == StepKind::CycleManifest { seen.in_flight.1 } else { seen.in_flight.0.is_some() };
    check(!busy, Broken::BusyLane);
    broken
}

/// A release is in order under another leader's fresh proof, or after a worst round of "not I" with a loop that is down.
#[must_use]
pub fn release_is_founded(seen: &Snapshot, not_leading: Ticks) -> bool {
    match seen.etcd {
        EtcdSeen::Unreachable => false,
        EtcdSeen::Answered(Said::Other, Asked::Confirmed(age)) => age < PROOF_TOO_OLD,
        EtcdSeen::Answered(Said::Other | Said::Nobody, Asked::Denied) | EtcdSeen::Answered(Said::Nobody, _) => {
            let gone = matches!(seen.process, ProcessSeen::Absent(_));
            seen.answered < PROOF_TOO_OLD && not_leading >= WORST_ROUND && (gone || is_frozen(seen))
        }
        EtcdSeen::Answered(..) => false,
    }
}

/// The loop has said "leader, and it is there".
fn confirmed(seen: &Snapshot) -> bool {
    matches!(seen.beat, Some((Round::Kept | Round::Assigned, age)) if age.saturating_add(seen.age) <= 2)
}

/// Neither a round nor progress for the time of a stall; a cycle of ours that is open explains silence too.
fn is_frozen(seen: &Snapshot) -> bool {
    let silent_for = seen.beat.map_or(seen.following, |(_, age)| age.min(seen.following)).saturating_add(seen.age);
    let silent = silent_for >= STALLED_AFTER || seen.cycle.is_some();
    match seen.process {
        _ if seen.cycle.is_some() => true,
        ProcessSeen::Present { idle, seen: known, .. } => {
            let blind = seen.blind == Some(Sense::Process);
            silent && (blind || (idle.min(known).saturating_add(seen.age) >= STALLED_AFTER))
        }
        ProcessSeen::Absent(_) => silent && seen.blind == Some(Sense::Process),
    }
}
