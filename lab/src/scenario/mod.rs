//! `fip-lab run` and `fip-lab list`: scripted runs of the lab, each with a story, a timeline and expectations.
//!
//! ```text
//!  file, expect, names ─ check ─► Scenario          what the YAML says, refused at its line
//!                                    │
//!  source::{journal, address, files} │ probe::client
//!          └────────► Event ◄────────┴───┘
//!                       │
//!          record, view, condition ◄── runner        steps and waits, while everything is being read
//!                       │
//!          measure ─► judge ─► report, timeline      pure: what was seen, what it amounts to, how it is printed
//! ```

pub mod check;
pub mod clock;
pub mod condition;
pub mod counted;
pub mod diagnosis;
pub mod event;
pub mod expect;
pub mod file;
pub mod find;
pub mod instance;
pub mod judge;
pub mod lab_api;
pub mod manifest;
pub mod measure;
pub mod names;
pub mod node;
pub mod observe;
pub mod outside;
pub mod paint;
pub mod record;
pub mod report;
pub mod runner;
pub mod source;
pub mod timeline;
pub mod view;
pub mod words;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use futures_util::StreamExt as _;
use tokio::sync::watch;

use file::Scenario;
use instance::Options;
use paint::Paper;
use report::Ran;

/// `EX_USAGE` of sysexits: the command line makes no sense.
const USAGE: u8 = 64;
/// `EX_DATAERR`: a scenario is refused.
const REFUSED: u8 = 65;
/// Labs side by side; three nodes each, and more only make each other late.
const JOBS_MAX: u16 = 32;

/// Run scenarios, each on a lab of its own, and say whether everything was as expected.
///
/// A lab is brought up for each run and taken down after it, also when the run fails or is interrupted. The exit code is 0 when
/// every run passed, 1 when one did not, 65 when a file is refused.
#[derive(Debug, Parser)]
#[command(name = "fip-lab run", bin_name = "fip-lab run")]
struct RunArguments {
    /// Files, or names of scenarios in `lab/scenarios` (or the directory in `FIP_LAB_SCENARIOS`).
    #[arg(required = true, value_name = "FILE|NAME")]
    scenarios: Vec<String>,
    /// Name of the lab; with several jobs `<NAME>-1`, `<NAME>-2` …. A lab of that name is taken down first: it is what an
    /// earlier run left. The default is another than that of `fip-lab up`, so that a lab in use is safe.
    #[arg(long, value_name = "NAME", default_value = "fip-run")]
    lab: String,
    /// Run each scenario this often, and show median and range of the client's outage.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Run this many labs side by side.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    jobs: u16,
    /// Print one JSON document and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Leave the lab up afterwards, to look around in it.
    #[arg(long)]
    keep: bool,
    /// Run with the watchdog or without it, whatever the file says.
    #[arg(long, value_name = "on|off")]
    watchdog: Option<Switch>,
    /// Put every watchdog into observe mode, whatever the file says, and expect nothing else than that it changes nothing, counted from
    /// outside. Faults are the file's; what only a remedy would bring about is waited for 10 s (45 s for a verdict) at most.
    #[arg(long, conflicts_with = "watchdog")]
    observe: bool,
    /// The watchdog to run instead of the one beside this binary.
    #[arg(long, value_name = "FILE")]
    watchdog_binary: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// List the scenarios with their stories.
#[derive(Debug, Parser)]
#[command(name = "fip-lab list", bin_name = "fip-lab list")]
struct ListArguments {
    /// Ignored: scenarios are the same for every lab.
    #[arg(long, hide = true)]
    lab: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints what clap has to say and gives the exit code for it.
#[must_use]
pub fn usage(error: &clap::Error) -> ExitCode {
    // Nowhere left to complain when standard error is gone.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Runs the subcommand that the first argument names.
///
/// # Errors
/// A scenario cannot be found or read, or the runtime cannot be started.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    if args.first().is_some_and(|name| name == "list") {
        return match ListArguments::try_parse_from(args) {
            Ok(arguments) => find::list(arguments.json),
            Err(error) => Ok(usage(&error)),
        };
    }
    let arguments = match RunArguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(usage(&error)),
    };
    for name in lab_names(&arguments.lab, usize::from(arguments.jobs)) {
        crate::paths::check_name(&name)?;
    }
    let Some(mut scenarios) = find::load(&arguments.scenarios)? else { return Ok(ExitCode::from(REFUSED)) };
    if arguments.observe {
        scenarios = observed(scenarios);
        anyhow::ensure!(!scenarios.is_empty(), "there is nothing to count where no watchdog runs");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(run_all(&arguments, &scenarios))
}

/// Those in which a watchdog runs, in observe mode; of the others it is said that they are left out.
fn observed(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let one = |scenario: Scenario| {
        let name = scenario.name.value.clone();
        let observed = observe::observed(scenario);
        if observed.is_none() {
            progress(&name, "left out: no watchdog runs in it", true);
        }
        observed
    };
    scenarios.into_iter().filter_map(one).collect()
}

async fn run_all(arguments: &RunArguments, scenarios: &[Scenario]) -> anyhow::Result<ExitCode> {
    let options = Options {
        keep: arguments.keep,
        watchdog: arguments.watchdog.map(|switch| switch == Switch::On),
        watchdog_binary: arguments.watchdog_binary.clone(),
        observe: arguments.observe,
    };
    let (stop, interrupted) = watch::channel(false);
    tokio::spawn(async move {
        // Without signals the run cannot be interrupted, and that is all.
        if crate::cli::interrupted().await.is_ok() {
            stop.send_replace(true);
        }
        std::future::pending::<()>().await;
    });
    let paper = Paper::of_stdout();
    let jobs = usize::from(arguments.jobs);
    let free: RefCell<Vec<String>> = RefCell::new(lab_names(&arguments.lab, jobs));
    let wanted = scenarios.iter().flat_map(|scenario| (0..arguments.repeat).map(move |_| scenario));
    let several = jobs > 1;
    let runs = futures_util::stream::iter(wanted).map(async |scenario| {
        let name = free.borrow_mut().pop().unwrap_or_else(|| arguments.lab.clone());
        let outcome = if *interrupted.borrow() {
            Err(anyhow::anyhow!("interrupted"))
        } else {
            let mut say = |text: &str| progress(&name, text, several);
            instance::run(scenario, &name, &options, interrupted.clone(), &mut say).await
        };
        free.borrow_mut().push(name);
        let ran = Ran { scenario, outcome };
        if !arguments.json {
            clear_progress();
            print(&report::one(&ran, &paper));
        }
        ran
    });
    let runs: Vec<Ran<'_>> = runs.buffered(jobs).collect().await;
    if arguments.json {
        print(&format!("{}\n", report::json(&runs)?));
    } else {
        if arguments.repeat > 1 {
            for scenario in scenarios {
                let own: Vec<&Ran<'_>> = runs.iter().filter(|ran| std::ptr::eq(ran.scenario, scenario)).collect();
                print(&format!("{}\n{}\n", scenario.name.value, report::repeats(&own, &paper)));
            }
        }
        if arguments.observe {
            print(&format!("{}\n", counted::table(&runs)));
        }
        print(&report::summary(&runs, &paper));
    }
    Ok(if runs.iter().all(Ran::passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lab_names(lab: &str, jobs: usize) -> Vec<String> {
    if jobs == 1 { vec![lab.to_owned()] } else { (1..=jobs).rev().map(|job| format!("{lab}-{job}")).collect() }
}

/// A line that comes and goes on a terminal; a log gets one line for each step.
fn progress(lab: &str, text: &str, several: bool) {
    let mut err = io::stderr().lock();
    // Progress is a courtesy: without anybody to read it there is nothing to do.
    drop(if err.is_terminal() && !several {
        let shown: String = text.chars().take(90).collect();
        write!(err, "\r\x1b[K{shown}").and_then(|()| err.flush())
    } else {
        writeln!(err, "{lab}: {text}")
    });
}

fn clear_progress() {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[K"));
    }
}

/// Prints a report. A reader that went away (`| head`) is no error.
fn print(text: &str) {
    drop(io::stdout().lock().write_all(text.as_bytes()));
}
