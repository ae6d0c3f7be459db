//! What was attacked, and what was found.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use crate::disk::Order;
use crate::matrix::Kind;

/// More faults are counted, but not told.
const TOLD_MAX: usize = 20;
/// The long form has at least this many points, or it does not test what it is meant to.
const FULL_MIN: usize = 1000;

#[derive(Debug, Default)]
struct Counts {
    shots: BTreeMap<Kind, usize>,
    disks: BTreeMap<Order, usize>,
    cuts: usize,
    faults: Vec<String>,
}

/// Shared by the threads.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[expect(clippy::print_stdout, reason = "the summary is for whoever ran it")]
pub fn say(text: &str) {
    println!("{text}");
}

impl Tally {
    /// Notes a point, if it was reached.
    pub fn shot(&self, outcome: Result<Option<Kind>, String>) {
        let mut counts = self.0.lock().unwrap();
        match outcome {
            Ok(Some(kind)) => *counts.shots.entry(kind).or_default() += 1,
            Ok(None) => {}
            Err(fault) => counts.fault(fault),
        }
    }

    /// Notes a start after a power cut.
    pub fn disk(&self, order: Order, outcome: Result<(), String>) {
        let mut counts = self.0.lock().unwrap();
        match outcome {
            Ok(()) => *counts.disks.entry(order).or_default() += 1,
            Err(fault) => counts.fault(fault),
        }
    }

    /// Notes after how many operations the power was cut.
    pub fn cuts(&self, cuts: usize) {
        self.0.lock().unwrap().cuts += cuts;
    }

    /// Notes whether a mistake was found that was made on purpose; no point of the matrix.
    pub fn bite(&self, outcome: Result<(), String>) {
        if let Err(fault) = outcome {
            self.0.lock().unwrap().fault(fault);
        }
    }

    /// Tells, and says whether all is well.
    pub fn summary(&self, took: Duration, full: bool) -> ExitCode {
        let counts = self.0.lock().unwrap();
        let line = |number: usize, what: &str| say(&format!("{number:>8}  {what}"));
        say("crash matrix of the manifest cycle");
        for (kind, number) in &counts.shots {
            line(*number, kind.name());
        }
        for (order, number) in &counts.disks {
            let whose = match order {
                Order::Ext4 => "the power was cut: different disks that ext4 may leave",
                Order::Any => "the power was cut: different disks that only POSIX allows",
            };
            line(*number, whose);
        }
        let points = counts.shots.values().sum::<usize>() + counts.disks.values().sum::<usize>() + counts.faults.len();
        line(points, &format!("points in {} s ({} cuts); {} faults", took.as_secs(), counts.cuts, counts.faults.len()));
        if !counts.faults.is_empty() {
            return ExitCode::FAILURE;
        }
        if full && points < FULL_MIN {
            say(&format!("fewer than {FULL_MIN} points were reached: the matrix does not test what it is meant to"));
            return ExitCode::FAILURE;
        }
        say("No manifest was lost, damaged or overwritten, and nothing was left over but documented backups.");
        ExitCode::SUCCESS
    }
}

impl Counts {
    fn fault(&mut self, fault: String) {
        if self.faults.len() < TOLD_MAX {
            say(&format!("FAULT: {fault}"));
        }
        self.faults.push(fault);
    }
}
