//! The table of what was counted from outside, a row for each run: what `docs/safety.md` quotes. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::outside::Deeds;
use super::report::Ran;

/// Width of a scenario's name.
const NAME: usize = 38;

/// Sums over the nodes of a run, or over runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    daemons: usize,
    looked_at: usize,
    changes: usize,
    announcements: usize,
    questions: usize,
}

impl Sums {
    fn add(self, deeds: &Deeds) -> Self {
        let (changes, announcements) = deeds.since(Duration::ZERO);
        Self {
            daemons: self.daemons + deeds.daemons,
            looked_at: self.looked_at + deeds.looked_at,
            changes: self.changes + changes,
            announcements: self.announcements + announcements,
            questions: self.questions + deeds.questions,
        }
    }

    fn row(self, name: &str) -> String {
        let Self { daemons, looked_at, changes, announcements, questions } = self;
        format!("{name:<NAME$} {daemons:>7} {looked_at:>8} {changes:>7} {announcements:>13} {questions:>6}\n")
    }
}

/// All runs that were counted, and their sum.
#[must_use]
pub fn table(runs: &[Ran<'_>]) -> String {
    let mut out = String::new();
    let heads = ("scenario", "daemons", "calls", "changes", "announcements", "probes");
    // Writing to a String cannot fail.
    writeln!(out, "{:<NAME$} {:>7} {:>8} {:>7} {:>13} {:>6}", heads.0, heads.1, heads.2, heads.3, heads.4, heads.5).ok();
    let outcomes = runs.iter().filter_map(|ran| Some((ran, ran.outcome.as_ref().ok()?)));
    let all: Vec<&Deeds> = outcomes
        .flat_map(|(ran, outcome)| {
            let sums = outcome.deeds.values().fold(Sums::default(), Sums::add);
            out.push_str(&sums.row(&ran.scenario.name.value));
            outcome.deeds.values()
        })
        .collect();
    out.push_str(&all.into_iter().fold(Sums::default(), Sums::add).row("all"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_add_up() {
        let second = Duration::from_secs(1);
        let quiet = Deeds { daemons: 2, looked_at: 7, questions: 3, ..Deeds::default() };
        let loud = Deeds { changes: vec![(second, "rename".to_owned())], announcements: vec![second; 2], ..quiet.clone() };
        let sums = Sums::default().add(&quiet).add(&loud);
        assert_eq!(sums, Sums { daemons: 4, looked_at: 14, changes: 1, announcements: 2, questions: 6 });
        assert!(sums.row("x").ends_with("      4       14       1             2      6\n"));
    }
}
