//! What can go wrong, and the schedule of it that a seed stands for.
//!
//! A schedule is a list of faults, each with its own end, so that dropping one leaves the others as they are: that is
//! all that shrinking needs.

use std::fmt;

use crate::rng::Rng;
use crate::{Ms, NODES};

/// One thing that goes wrong on, or around, a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is said in words by `Display`")]
pub enum Fault {
    LeaderMoves,
    EtcdStopped,
    EtcdHangs,
    EtcdTls,
    EtcdSlow,
    CutOneWay { from: usize },
    CutFrom { peer: usize },
    CutOff,
    AllCut,
    LoopPipeFull,
    LogReaderDead,
    LoopStopped,
    ChildHangs,
    LoopKilled,
    KubeletDown,
    KubeletNotReady,
    KubeletBlind,
    LoopUnkillable,
    WatchdogKilled,
    WatchdogRestarted,
    WatchdogStopped,
    Stunned,
    Suspended,
    MidStep { strikes: MidStep, after: u32 },
    LoopAndWatchdogFrozen,
    WallSteps { seconds: i64 },
    WallJumps { hours: i64 },
    FipDeleted,
    LinkDown,
    SenseLost { sense: usize },
    ManifestTakenOut,
    ManifestEdited,
    DiskReadOnly,
    OperatorPause,
    Policy(PolicyKind),
}

/// What strikes a node in the middle of a step, between two of its questions to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MidStep {
    /// The machine stands still, its clocks run on.
    Stun,
    /// The machine is suspended.
    Suspend,
    /// The watchdog is killed.
    Kill,
}

/// The policies that a schedule may put in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// As shipped.
    Default,
    /// Only says what it would do.
    Observe,
    /// Touches no pod.
    AliasOnly,
    /// Goes on probing while somebody answers.
    Wait,
    /// Gives up when somebody answers.
    Alarm,
    /// A lease of 5 s and a stall after 30 s.
    ShortLease,
    /// The loop's alias gets a lease too.
    LoopLeased,
    /// An edit that is no valid policy.
    Broken,
}

/// A fault, where, when, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When it begins.
    pub at: Ms,
    /// When it is healed, counted from its beginning; a fault that is no state ignores it.
    pub lasts: Ms,
    /// The node, from 0.
    pub node: usize,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaderMoves => f.write_str("the etcd leadership is moved here"),
            Self::EtcdStopped => f.write_str("etcd is stopped"),
            Self::EtcdHangs => f.write_str("etcd hangs"),
            Self::EtcdTls => f.write_str("etcd refuses every certificate"),
            Self::EtcdSlow => f.write_str("etcd answers slowly"),
            Self::CutOneWay { from } => write!(f, "hears nothing from cp{}", from + 1),
            Self::CutFrom { peer } => write!(f, "is cut from cp{}", peer + 1),
            Self::CutOff => f.write_str("is cut off from all"),
            Self::AllCut => f.write_str("all links are cut"),
            Self::LoopPipeFull => f.write_str("the loop freezes: nobody drains its log"),
            Self::LogReaderDead => f.write_str("the log reader dies"),
            Self::LoopStopped => f.write_str("the loop is stopped by a signal"),
            Self::ChildHangs => f.write_str("the loop's child hangs"),
            Self::LoopKilled => f.write_str("the loop is killed"),
            Self::KubeletDown => f.write_str("the kubelet is down"),
            Self::KubeletNotReady => f.write_str("the kubelet has not reached its API server"),
            Self::KubeletBlind => f.write_str("the kubelet's watch is dead"),
            Self::LoopUnkillable => f.write_str("the loop cannot be killed"),
            Self::WatchdogKilled => f.write_str("the watchdog is killed"),
            Self::WatchdogRestarted => f.write_str("the watchdog is restarted"),
            Self::WatchdogStopped => f.write_str("the watchdog is stopped by a signal"),
            Self::Stunned => f.write_str("the machine stands still, its clocks run on"),
            Self::Suspended => f.write_str("the machine is suspended"),
            Self::MidStep { strikes, after } => write!(f, "{strikes:?} in the middle of a step, {after} requests from now"),
            Self::LoopAndWatchdogFrozen => f.write_str("loop and watchdog stand still, and nobody replaces them"),
            Self::WallSteps { seconds } => write!(f, "the wall clock jumps by {seconds} s"),
            Self::WallJumps { hours } => write!(f, "the wall clock jumps by {hours} h"),
            Self::FipDeleted => f.write_str("somebody deletes the FIP"),
            Self::LinkDown => f.write_str("the link is down"),
            Self::SenseLost { sense } => {
                write!(f, "the {} sense is blind", ["etcd", "heartbeat", "process", "alias", "manifest"][sense % 5])
            }
            Self::ManifestTakenOut => f.write_str("an operator takes the manifest out"),
            Self::ManifestEdited => f.write_str("an operator puts a new manifest in"),
            Self::DiskReadOnly => f.write_str("the disk is read-only"),
            Self::OperatorPause => f.write_str("an operator pauses the watchdog"),
            Self::Policy(kind) => write!(f, "the policy is edited: {kind:?}"),
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cp{}: {}", crate::stamp(self.at), self.node + 1, self.fault)?;
        if self.fault.is_state() { write!(f, ", for {:.1} s", self.lasts as f64 / 1000.0) } else { Ok(()) }
    }
}

impl Fault {
    /// Whether it is something that goes on until it is healed.
    #[must_use]
    pub const fn is_state(self) -> bool {
        !matches!(
            self,
            Self::LeaderMoves
                | Self::LoopPipeFull
                | Self::LogReaderDead
                | Self::LoopKilled
                | Self::WatchdogKilled
                | Self::WatchdogRestarted
                | Self::MidStep { .. }
                | Self::WallSteps { .. }
                | Self::WallJumps { .. }
                | Self::FipDeleted
                | Self::ManifestEdited
                | Self::Policy(_)
        )
    }

    fn any(rng: &mut Rng, node: usize) -> Self {
        let other = (node + 1 + rng.below(NODES - 1)) % NODES;
        match rng.below(49) {
            0..=6 => Self::LeaderMoves,
            7 => Self::EtcdStopped,
            8 => Self::EtcdHangs,
            9 => Self::EtcdTls,
            10 => Self::EtcdSlow,
            11 => Self::CutOneWay { from: other },
            12 => Self::CutFrom { peer: other },
            13 | 14 => Self::CutOff,
            15 => Self::AllCut,
            16..=19 => Self::LoopPipeFull,
            20 => Self::LogReaderDead,
            21 | 22 => Self::LoopStopped,
            23 => Self::ChildHangs,
            24 => Self::LoopKilled,
            25 => Self::KubeletDown,
            26 => Self::KubeletNotReady,
            27 => Self::KubeletBlind,
            28 => Self::LoopUnkillable,
            29 | 30 => Self::WatchdogKilled,
            31 => Self::WatchdogRestarted,
            32 => Self::WatchdogStopped,
            33 | 34 => Self::Stunned,
            35 | 36 => Self::Suspended,
            37 => Self::WallJumps { hours: if rng.percent(50) { 1 } else { -1 } },
            38 => Self::FipDeleted,
            39 => Self::LinkDown,
            40 => Self::SenseLost { sense: rng.below(5) },
            41 => Self::ManifestTakenOut,
            42 => Self::ManifestEdited,
            43 => Self::DiskReadOnly,
            44 => Self::OperatorPause,
            45..=47 => Self::MidStep { strikes: MidStep::any(rng), after: u32::try_from(rng.below(24)).unwrap_or(0) },
            _ => Self::Policy(PolicyKind::any(rng)),
        }
    }
}

impl MidStep {
    const fn any(rng: &mut Rng) -> Self {
        match rng.bits() % 5 {
            0 | 1 => Self::Stun,
            2 | 3 => Self::Suspend,
            _ => Self::Kill,
        }
    }
}

impl PolicyKind {
    const fn any(rng: &mut Rng) -> Self {
        match rng.bits() % 8 {
            0 => Self::Default,
            1 => Self::Observe,
            2 => Self::AliasOnly,
            3 => Self::Wait,
            4 => Self::Alarm,
            5 => Self::ShortLease,
            6 => Self::LoopLeased,
            _ => Self::Broken,
        }
    }
}

/// When the first fault may strike: every watchdog has started and looked around by then.
const FIRST: Ms = 25_000;

/// The schedule of a seed, in order of time.
#[must_use]
pub fn schedule(seed: u64) -> Vec<Planned> {
    let mut rng = Rng::new(seed);
    let count = 1 + rng.below(7);
    // Faults that strike together are the ones that nobody thought of.
    let span = [8_000, 40_000, 100_000][rng.below(3)];
    let usual = rng.below(NODES);
    let mut faults: Vec<Planned> = (0..count)
        .map(|_| {
            let node = if rng.percent(55) { usual } else { rng.below(NODES) };
            let lasts = match rng.below(4) {
                0 => rng.between(50, 3_000),
                1 => rng.between(3_000, 15_000),
                2 => rng.between(15_000, 45_000),
                _ => rng.between(45_000, 120_000),
            };
            Planned { at: FIRST + rng.between(0, span), lasts, node, fault: Fault::any(&mut rng, node) }
        })
        .collect();
    // One in four hundred keeps freezing one loop for more than an hour: budgets are spent and armed again.
    if rng.below(400) == 0 {
        let step = rng.between(130_000, 400_000);
        faults.extend((0..12).map(|n| Planned { at: FIRST + n * step, lasts: 0, node: usual, fault: Fault::LoopPipeFull }));
    }
    faults.sort_by_key(|planned| (planned.at, planned.node));
    faults
}
