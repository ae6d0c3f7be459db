//! The command line: many seeds and their figures, one seed and its timeline, the first article's story.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::fault::schedule;
use crate::run::{self, Outcome};
use crate::{kept, pauses, shrink, story};

/// Whole nodes in virtual time: random faults by seed, invariants checked after each event.
#[derive(Debug, Parser)]
#[command(name = "fip-sim", version)]
struct Args {
    /// Runs this one seed and prints its timeline
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// With --seed: only these faults of its schedule, by index
    #[arg(long, value_delimiter = ',', requires = "seed")]
    keep: Option<Vec<usize>>,
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Schedules that were found before, run first
    #[arg(long)]
    kept: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tells a story as a timeline: first-article
    Story {
        /// Which
        name: String,
    },
    /// Pauses of 20, 60 and 600 s: none is taken for a stall, and every stall beside one is found
    Pauses {
        /// At how many phases each
        #[arg(long, default_value_t = 50)]
        phases: u64,
    },
}

/// What many schedules add up to.
#[derive(Debug, Default)]
struct Sum {
    schedules: AtomicU64,
    events: AtomicU64,
    steps: AtomicU64,
    virtual_ms: AtomicU64,
    failed: Mutex<Vec<u64>>,
}

impl Sum {
    fn add(&self, seed: u64, outcome: &Outcome) {
        self.schedules.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(outcome.events, Ordering::Relaxed);
        self.steps.fetch_add(outcome.steps, Ordering::Relaxed);
        self.virtual_ms.fetch_add(outcome.lasted, Ordering::Relaxed);
        if let Some(violation) = outcome.violations.first() {
            // Said at once: a long run may be interrupted, and the seed is all that counts.
            drop(writeln!(std::io::stdout(), "seed {seed}: {}: {}", violation.invariant, violation.how));
            self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(seed);
        }
    }
}

/// Runs what the command line says: 0 if nothing was broken, 1 if something was, 70 if it cannot run.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    let broken = match (&args.command, args.seed) {
        (Some(Command::Story { name }), _) => story::tell(name, &mut std::io::stdout()),
        (Some(Command::Pauses { phases }), _) => {
            let jobs = usize::try_from(args.jobs).unwrap_or(1);
            pauses::campaign(*phases, jobs, &mut std::io::stdout())
        }
        (None, Some(seed)) => show(seed, args.keep.as_deref()),
        (None, None) => many(&args),
    };
    match broken {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody to tell if standard error is gone as well.
            drop(writeln!(std::io::stderr(), "fip-sim: {error:#}"));
            ExitCode::from(70)
        }
    }
}

/// One seed, told.
fn show(seed: u64, keep: Option<&[usize]>) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    let all = schedule(seed);
    let indices: Vec<usize> = keep.map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
    writeln!(out, "seed {seed}, {} faults:", indices.len())?;
    for index in &indices {
        let planned = all.get(*index).with_context(|| format!("seed {seed} has no fault {index}"))?;
        writeln!(out, "{index:>3}  {planned}")?;
    }
    let outcome = run::plan(seed, shrink::part(&all, &indices), true)?;
    for line in &outcome.timeline {
        writeln!(out, "{line}")?;
    }
    for violation in &outcome.violations {
        writeln!(out, "BROKEN at {}: {}: {}", crate::stamp(violation.at), violation.invariant, violation.how)?;
    }
    let client = outcome.outage as f64 / 1000.0;
    writeln!(
        out,
        "{} ms of virtual time, {} events, {} steps, longest outage {client:.2} s",
        outcome.lasted, outcome.events, outcome.steps
    )?;
    Ok(!outcome.violations.is_empty())
}

/// Many seeds, counted; what broke is shrunk.
fn many(args: &Args) -> anyhow::Result<bool> {
    let (sum, began) = (Sum::default(), fip_watchdog::runtime::clock::now());
    let mut out = std::io::stdout();
    let mut broken = false;
    if let Some(path) = &args.kept {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        for case in kept::parse(&text)? {
            let outcome = case.run()?;
            if let Some(violation) = outcome.violations.first() {
                broken = true;
                writeln!(out, "kept seed {}: {}: {}", case.seed, violation.invariant, violation.how)?;
            }
        }
    }
    let next = AtomicU64::new(args.from);
    let failures = std::thread::scope(|scope| {
        let work = || -> std::io::Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= args.from.saturating_add(args.seeds) {
                    return Ok(());
                }
                sum.add(seed, &run::seed(seed, false)?);
            }
        };
        let threads: Vec<_> = (0..args.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .filter_map(|thread| {
                thread
                    .join()
                    .map_or_else(|_| Some("a schedule panicked".to_owned()), |done| done.err().map(|error| error.to_string()))
            })
            .collect::<Vec<_>>()
    });
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
    let took = fip_watchdog::runtime::clock::now().since(began).as_secs_f64();
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let schedules = load(&sum.schedules);
    writeln!(
        out,
        "{schedules} schedules, {} events, {} steps, {:.0} virtual hours in {took:.1} s ({:.2} ms a schedule)",
        load(&sum.events),
        load(&sum.steps),
        load(&sum.virtual_ms) as f64 / 3_600_000.0,
        took * 1000.0 / schedules.max(1) as f64
    )?;
    let mut failed = sum.failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_unstable();
    writeln!(out, "{} broke an invariant", failed.len())?;
    for seed in failed.iter().take(20) {
        let keep = shrink::shrink(*seed)?;
        let outcome = run::plan(*seed, shrink::part(&schedule(*seed), &keep), false)?;
        let violation = outcome.violations.first().map(|violation| format!("{}: {}", violation.invariant, violation.how));
        let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
        writeln!(out, "  --seed {seed} --keep {}  {}", keep.join(","), violation.unwrap_or_default())?;
    }
    Ok(broken || !failed.is_empty())
}
