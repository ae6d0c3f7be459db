//! Schedules that were found to break something, kept for good.
//!
//! A line each: `seed keep=1,4 # what it found`. `keep` names the faults of the seed's schedule that are enough.

use crate::fault::schedule;
use crate::run::{self, Outcome};
use crate::shrink::part;

/// A kept schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its seed.
    pub seed: u64,
    /// The faults that are enough; all if empty.
    pub keep: Vec<usize>,
    /// What it found.
    pub why: String,
}

impl Kept {
    /// Runs it.
    ///
    /// # Errors
    /// No runtime can be made.
    pub fn run(&self) -> std::io::Result<Outcome> {
        let all = schedule(self.seed);
        let plan = if self.keep.is_empty() { all } else { part(&all, &self.keep) };
        run::plan(self.seed, plan, false)
    }
}

/// Reads the file; blank lines and lines that begin with `#` are comments.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> anyhow::Result<Vec<Kept>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| parse_line(line).ok_or_else(|| anyhow::anyhow!("line {}: {line:?}", number + 1))).collect()
}

fn parse_line(line: &str) -> Option<Kept> {
    let (what, why) = line.split_once('#')?;
    let mut words = what.split_whitespace();
    let seed = words.next()?.parse().ok()?;
    let keep = match words.next() {
        None => Vec::new(),
        Some(word) => word.strip_prefix("keep=")?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?,
    };
    Some(Kept { seed, keep, why: why.trim().to_owned() })
}
