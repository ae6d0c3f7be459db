//! The crash matrix of the manifest cycle.
//!
//! A real process runs a cycle, or the recovery of one, and strace kills it at each system call, or fails
//! each call that touches a file; a model of the file system cuts the power after each recorded call. After
//! each point a start's recovery runs, and the manifest must be where it was, as it was, and nothing else be
//! left over (invariant I2).
//!
//! `cargo test` attacks every k-th point; `--full` (`make crash-matrix`) all of them.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed set-up is a failed test")]

mod child;
mod disk;
mod matrix;
mod ops;
mod power;
mod scene;
mod site;
mod strace;
mod tally;
mod tree;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use fip_watchdog::runtime::clock;

use matrix::{Point, attack, beyond, points};
use scene::{SCENES, Scene, Stage};
use site::{Before, Site};
use tally::{Tally, say};

/// Every so many points, and every so many places of a kill before the power cut, in the short form.
const SHORT_STEP: usize = 61;
const SHORT_POWER_STEP: usize = 13;
/// Each scene is shared out in so many parts, in the long form.
const PARTS: usize = 6;
/// A call that comes ever more often than it was recorded (a futex, say) is followed no further.
const BEYOND_MAX: usize = 20;
/// A cycle has fewer operations than this.
const OPERATIONS_MAX: usize = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "child" => return child::main(rest),
        // What the default harness understands: a list, a filter.
        Some((first, _)) if first == "--list" => {
            say("crash_matrix: test");
            return ExitCode::SUCCESS;
        }
        Some((first, _)) if first == "--ignored" => return ExitCode::SUCCESS,
        Some(_) | None => {}
    }
    let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    if filters.peek().is_some() && !filters.any(|filter| "crash_matrix".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    if !strace::is_there() {
        say("the crash matrix needs strace, which is missing; install the package strace (`make setup` does)");
        return ExitCode::FAILURE;
    }
    run(arguments.iter().any(|argument| argument == "--full"))
}

/// One thread's share at a time.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// Which part of so many.
    Scene(Scene, usize, usize),
    Power(Before, Option<usize>),
    /// Shows that the power cut finds what is not synced.
    Bites,
}

fn jobs(full: bool) -> Vec<Job> {
    let (parts, power_step) = if full { (PARTS, 1) } else { (1, SHORT_POWER_STEP) };
    let scenes = SCENES.iter().flat_map(|scene| (0..parts).map(|part| Job::Scene(*scene, part, parts)));
    let killed = || std::iter::once(None).chain((0..OPERATIONS_MAX).step_by(power_step).map(Some));
    let power =
        [Before::Nothing, Before::FullJournal].into_iter().flat_map(|before| killed().map(move |at| Job::Power(before, at)));
    std::iter::once(Job::Bites).chain(scenes).chain(power).collect()
}

fn run(full: bool) -> ExitCode {
    rustix::process::nice(10).unwrap();
    let begun = clock::boottime();
    let (jobs, next, tally) = (jobs(full), AtomicUsize::new(0), Tally::default());
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match job {
                        Job::Scene(scene, part, parts) => shots(*scene, (*part, *parts), full, &tally),
                        Job::Power(before, killed_after) => cuts(*before, *killed_after, &tally),
                        Job::Bites => bites(&tally),
                    }
                }
            });
        }
    });
    tally.summary(clock::boottime().saturating_sub(begun), full)
}

fn shots(scene: Scene, (part, parts): (usize, usize), full: bool, tally: &Tally) {
    let stage = Stage::new(scene);
    let step = if full { 1 } else { SHORT_STEP };
    for point in points(&stage).iter().step_by(step).skip(part).step_by(parts) {
        tally.shot(attack(&stage, point));
    }
    if !full || part > 0 {
        return;
    }
    for mut shot in beyond(&stage) {
        for _ in 0..BEYOND_MAX {
            let outcome = attack(&stage, &Point::Shot(shot.clone()));
            let through = matches!(outcome, Ok(None));
            tally.shot(outcome);
            if through {
                break;
            }
            shot.nth += 1;
        }
    }
}

fn cuts(before: Before, killed_after: Option<usize>, tally: &Tally) {
    let site = Site::new();
    let Some(cuts) = power::cuts(&site, before, killed_after) else { return };
    for (disk, order) in &cuts.disks {
        tally.disk(*order, power::start_on(&site, disk, *order));
    }
    tally.cuts(cuts.cuts);
}

/// Whose syncs are left out.
type Forgotten = fn(&Path) -> bool;

/// A matrix that finds nothing is worth nothing: without one kind of sync there have to be faults.
fn bites(tally: &Tally) {
    let site = Site::new();
    let kinds: [(&str, Forgotten); 3] = [
        ("the directory above", |path| path == Path::new("")),
        ("the journal", |path| path == Path::new("state/cycle.journal")),
        ("the manifest and the staging directory", |path| [Path::new("manifests"), Path::new("staging")].contains(&path)),
    ];
    for (what, forgotten) in kinds {
        let disks = power::cuts_without_sync(&site, forgotten).disks;
        let found = disks.iter().any(|(disk, order)| power::start_on(&site, disk, *order).is_err());
        tally.bite(if found { Ok(()) } else { Err(format!("the power cut does not notice that {what} is never synced")) });
    }
}
