//! The pause campaign: a pause is not a stall (I4), and a stall beside a pause is found all the same.
//!
//! Each cell of a table is a kind of pause, a length, with or without a step of the wall clock by as much when it ends, and with no
//! real stall, one that begins 3 s before it or one that begins 3 s after it. Each is run at many phases: when in the rounds of loop and
//! watchdog it strikes, and whether it strikes the leader or a follower. Every run has to come to rest with all invariants kept.

use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fip_watchdog::decision::step::StepKind;

use crate::fault::{Fault, Planned};
use crate::rng::Rng;
use crate::run;
use crate::sim::Sim;
use crate::{Ms, NODES};

/// When the earliest pause begins: all is calm by then.
const BEGINS: Ms = 60_000;

/// In which the phases are drawn: longer than a round of the loop and any of the watchdog's.
const PHASES_WITHIN: Ms = 12_000;

/// Between a pause and a real stall.
const BESIDE: Ms = 3_000;

/// Within this time after stall and pause the loop is being cycled: the grace after a pause (20 s) in which ages begin anew, or the
/// time of silence (20 s) since a last round that is up to 5 s younger than the stall; 5 s to confirm; a round.
pub const FOUND_WITHIN: Ms = 32_000;

/// Lengths of the pauses.
pub const LENGTHS: [Ms; 3] = [20_000, 60_000, 600_000];

/// What stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The machine, while its clocks run on.
    Stunned,
    /// The machine, and its monotonic clock with it.
    Suspended,
    /// The loop and the watchdog, while etcd and all else go on.
    LoopAndWatchdog,
    /// etcd, while loop and watchdog go on.
    Etcd,
}

impl Who {
    /// All.
    pub const ALL: [Self; 4] = [Self::Stunned, Self::Suspended, Self::LoopAndWatchdog, Self::Etcd];

    const fn fault(self) -> Fault {
        match self {
            Self::Stunned => Fault::Stunned,
            Self::Suspended => Fault::Suspended,
            Self::LoopAndWatchdog => Fault::LoopAndWatchdogFrozen,
            Self::Etcd => Fault::EtcdHangs,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stunned => "node stunned",
            Self::Suspended => "node suspended",
            Self::LoopAndWatchdog => "loop and watchdog",
            Self::Etcd => "etcd alone",
        })
    }
}

/// A real stall of the loop beside the pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// None.
    None,
    /// It begins before the pause.
    Before,
    /// It begins after the pause.
    After,
}

impl Stall {
    /// All.
    pub const ALL: [Self; 3] = [Self::None, Self::Before, Self::After];
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Before => "before it",
            Self::After => "after it",
        })
    }
}

/// A cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// What stands still.
    pub who: Who,
    /// For how long.
    pub length: Ms,
    /// Whether the wall clock is set by as much when it ends.
    pub step: bool,
    /// The real stall.
    pub stall: Stall,
}

/// What a cell came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u32,
    /// Runs with a remedy although no loop had stalled.
    pub remedies: u32,
    /// Runs that broke an invariant or did not come to rest.
    pub broken: u32,
    /// Runs whose stall was not found within [`FOUND_WITHIN`].
    pub missed: u32,
    /// The latest cycle of a stalled loop, after stall and pause.
    pub worst: Ms,
}

impl Tally {
    /// Whether it went as promised.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.remedies == 0 && self.broken == 0 && self.missed == 0
    }
}

/// Every cell with these lengths.
#[must_use]
pub fn cells(lengths: &[Ms]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for who in Who::ALL {
        for length in lengths.iter().copied() {
            for step in [false, true] {
                cells.extend(Stall::ALL.map(|stall| Cell { who, length, step, stall }));
            }
        }
    }
    cells
}

impl Cell {
    /// Runs the cell at so many phases.
    ///
    /// # Errors
    /// No runtime can be made.
    pub fn run(&self, phases: u64) -> std::io::Result<Tally> {
        let mut tally = Tally::default();
        for phase in 0..phases {
            self.run_once(phase, &mut tally)?;
        }
        Ok(tally)
    }

    fn run_once(&self, phase: u64, tally: &mut Tally) -> std::io::Result<()> {
        let mut calm = Sim::new(phase, Vec::new(), false);
        calm.begin();
        let leader = calm.etcd.leader.unwrap_or(0);
        let node = if phase.is_multiple_of(2) { leader } else { (leader + 1) % NODES };
        let begins = BEGINS + Rng::new(phase).between(0, PHASES_WITHIN);
        let ends = begins + self.length;
        let mut plan = vec![Planned { at: begins, lasts: self.length, node, fault: self.who.fault() }];
        if self.step {
            let seconds = i64::try_from(self.length / 1000).unwrap_or(0);
            plan.push(Planned { at: ends, lasts: 0, node, fault: Fault::WallSteps { seconds } });
        }
        let stalls_at = match self.stall {
            Stall::None => None,
            Stall::Before => Some(begins - BESIDE),
            Stall::After => Some(ends + BESIDE),
        };
        plan.extend(stalls_at.map(|at| Planned { at, lasts: 0, node, fault: Fault::LoopPipeFull }));
        plan.sort_by_key(|planned| planned.at);
        let outcome = run::plan(phase, plan, false)?;
        tally.runs += 1;
        tally.broken += u32::from(!outcome.violations.is_empty());
        match stalls_at {
            None => tally.remedies += u32::from(outcome.begun.iter().any(|(_, _, step)| is_remedy(*step))),
            Some(at) => {
                let cycled = outcome.begun.iter().find(|(_, on, step)| *on == node && *step == StepKind::CycleManifest);
                let took = cycled.map(|(cycled, ..)| cycled.saturating_sub(at.max(ends)));
                tally.worst = tally.worst.max(took.unwrap_or(0));
                tally.missed += u32::from(took.is_none_or(|took| took > FOUND_WITHIN));
            }
        }
        Ok(())
    }
}

/// What answers a verdict; an announcement on whichever node the loop itself put the FIP is upkeep, and so are renewals.
const fn is_remedy(step: StepKind) -> bool {
    match step {
        StepKind::ApplyAlias | StepKind::ReleaseAlias | StepKind::CycleManifest => true,
        StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias | StepKind::AnnounceAlias => false,
    }
}

/// Runs the whole campaign and prints its table; whether something went wrong.
///
/// # Errors
/// No runtime can be made, or nobody listens.
pub fn campaign(phases: u64, jobs: usize, out: &mut impl Write) -> anyhow::Result<bool> {
    let cells = cells(&LENGTHS);
    let tallies: Vec<Mutex<Tally>> = cells.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || -> std::io::Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let (Some(cell), Some(place)) = (cells.get(index), tallies.get(index)) else { return Ok(()) };
                let tally = cell.run(phases)?;
                *place.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = tally;
            }
        };
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done.map_err(anyhow::Error::from),
            Err(_panicked) => Err(anyhow::anyhow!("a run panicked")),
        })
    })?;
    writeln!(out, "| Paused | For | Wall clock set | Real stall | Runs | Remedies without one | Broken | Not found | Worst |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
    let mut all = Tally::default();
    for (cell, tally) in cells.iter().zip(tallies) {
        let Cell { who, length, step, stall } = cell;
        let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Tally { runs, remedies, broken, missed, worst } = tally;
        let worst_s = if *stall == Stall::None { String::new() } else { format!("{:.1} s", worst as f64 / 1000.0) };
        let (length, step) = (length / 1000, if *step { "yes" } else { "no" });
        writeln!(out, "| {who} | {length} s | {step} | {stall} | {runs} | {remedies} | {broken} | {missed} | {worst_s} |")?;
        all.runs += runs;
        all.remedies += remedies;
        all.broken += broken;
        all.missed += missed;
        all.worst = all.worst.max(worst);
    }
    let Tally { runs, remedies, broken, missed, worst } = all;
    writeln!(
        out,
        "\n{runs} runs: {remedies} with a remedy because of a pause, {broken} broke an invariant, {missed} stalls not found within \
         {} s, the worst after {:.1} s",
        FOUND_WITHIN / 1000,
        worst as f64 / 1000.0
    )?;
    Ok(!all.is_good())
}
