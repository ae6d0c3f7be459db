//! The smallest part of a schedule that still breaks an invariant.
//!
//! Faults are dropped one at a time, again and again, for as long as the rest still breaks the same invariant.

use crate::fault::{Planned, schedule};
use crate::run;

/// The faults of the seed's schedule, by index, that are enough.
///
/// # Errors
/// No runtime can be made.
pub fn shrink(seed: u64) -> std::io::Result<Vec<usize>> {
    let all = schedule(seed);
    let invariant = run::seed(seed, false)?.violations.first().map(|violation| violation.invariant);
    let mut kept: Vec<usize> = (0..all.len()).collect();
    loop {
        let before = kept.len();
        for drop in (0..kept.len()).rev() {
            let mut fewer = kept.clone();
            fewer.remove(drop);
            let outcome = run::plan(seed, part(&all, &fewer), false)?;
            if invariant.is_some() && outcome.violations.first().map(|violation| violation.invariant) == invariant {
                kept = fewer;
            }
        }
        if kept.len() == before {
            return Ok(kept);
        }
    }
}

/// Some of the faults of a schedule.
#[must_use]
pub fn part(all: &[Planned], kept: &[usize]) -> Vec<Planned> {
    kept.iter().filter_map(|index| all.get(*index).copied()).collect()
}
