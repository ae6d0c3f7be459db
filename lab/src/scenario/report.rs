//! What is printed about runs: the findings of one, a table over several of one scenario, a summary over several scenarios.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::file::Scenario;
use super::instance::{Outcome, length};
use super::paint::{Ink, Paper, fold};
use super::timeline;

/// One run that was asked for, and how it ended.
pub struct Ran<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// What it showed, or why it could not be run.
    pub outcome: anyhow::Result<Outcome>,
}

impl Ran<'_> {
    /// It was run, and everything was as expected.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| outcome.passed)
    }
}

/// One run: its story, its timeline, each expectation with what was measured.
#[must_use]
pub fn one(ran: &Ran<'_>, paper: &Paper) -> String {
    let mut out = String::new();
    let name = &ran.scenario.name.value;
    line(&mut out, &paper.ink(Ink::Strong, name));
    for text in fold(&ran.scenario.story, paper.width - 2) {
        line(&mut out, &format!("  {text}"));
    }
    out.push('\n');
    let outcome = match &ran.outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            line(&mut out, &paper.ink(Ink::Bad, &format!("{name}: cannot be run: {error:#}")));
            return out;
        }
    };
    if !outcome.watchdog {
        line(&mut out, &paper.ink(Ink::Deed, "The watchdog is off."));
    }
    out.push_str(&timeline::print(outcome, paper));
    out.push('\n');
    for finding in &outcome.findings {
        let (sign, ink) = if finding.passed { ("✓", Ink::Good) } else { ("✗", Ink::Bad) };
        for (number, text) in fold(&format!("{}: {}", finding.expected, finding.measured), paper.width - 4).iter().enumerate() {
            let sign = if number == 0 { paper.ink(ink, sign) } else { " ".to_owned() };
            line(&mut out, &format!("  {sign} {text}"));
        }
    }
    for (node, journal) in &outcome.journals {
        line(&mut out, &paper.ink(Ink::Faint, &format!("\nthe last lines of the journal of {node}:")));
        line(&mut out, &paper.ink(Ink::Faint, journal.trim_end()));
    }
    let (word, ink) = if outcome.passed { ("passed", Ink::Good) } else { ("failed", Ink::Bad) };
    line(&mut out, &format!("\n{name}: {} in {:.0} s\n", paper.ink(ink, word), length(outcome).as_secs_f64()));
    out
}

/// A table over all runs of one scenario: each outage, then median and range.
#[must_use]
pub fn repeats(runs: &[&Ran<'_>], paper: &Paper) -> String {
    let mut out = String::new();
    line(&mut out, &paper.ink(Ink::Strong, &format!("{:>5}  {:<8}  {:>10}  {:>16}", "run", "", "outage", "beyond election")));
    let mut totals = Vec::new();
    let mut beyonds = Vec::new();
    for (number, ran) in (1..).zip(runs) {
        let (total, beyond) = match &ran.outcome {
            Ok(outcome) => longest(outcome),
            Err(_) => {
                line(&mut out, &format!("{number:>5}  {}", paper.ink(Ink::Bad, "not run")));
                continue;
            }
        };
        totals.push(total);
        beyonds.push(beyond);
        let (word, ink) = if ran.passed() { ("passed", Ink::Good) } else { ("failed", Ink::Bad) };
        let word = paper.ink(ink, &format!("{word:<8}"));
        line(&mut out, &format!("{number:>5}  {word}  {:>8.2} s  {:>14.2} s", total.as_secs_f64(), beyond.as_secs_f64()));
    }
    line(&mut out, &format!("{:>15}  {:>10}  {:>16}", "median", median(&mut totals), median(&mut beyonds)));
    line(&mut out, &format!("{:>15}  {:>10}  {:>16}", "range", range(&totals), range(&beyonds)));
    out
}

/// The client's longest outage, in all and beyond the election.
fn longest(outcome: &Outcome) -> (Duration, Duration) {
    outcome.longest_outage.map(|outage| (outage.span.length(), outage.beyond_election())).unwrap_or_default()
}

fn median(lengths: &mut [Duration]) -> String {
    lengths.sort_unstable();
    let middle = lengths.len() / 2;
    let value = match (lengths.get(middle), lengths.len() % 2) {
        (None, _) => return "-".to_owned(),
        (Some(upper), 0) => (lengths.get(middle.saturating_sub(1)).copied().unwrap_or_default() + *upper) / 2,
        (Some(middle), _) => *middle,
    };
    format!("{:.2} s", value.as_secs_f64())
}

/// Of sorted lengths.
fn range(lengths: &[Duration]) -> String {
    match (lengths.first(), lengths.last()) {
        (Some(least), Some(most)) => format!("{:.2}–{:.2} s", least.as_secs_f64(), most.as_secs_f64()),
        (None, _) | (_, None) => "-".to_owned(),
    }
}

/// One line for each run, and the closing line.
#[must_use]
pub fn summary(runs: &[Ran<'_>], paper: &Paper) -> String {
    let mut out = String::new();
    if runs.len() > 1 {
        for ran in runs {
            let (word, ink) = if ran.passed() { ("passed", Ink::Good) } else { ("failed", Ink::Bad) };
            let measured = match &ran.outcome {
                Ok(outcome) => {
                    format!(
                        "longest outage {:>6.2} s, {:>4.0} s in all",
                        longest(outcome).0.as_secs_f64(),
                        length(outcome).as_secs_f64()
                    )
                }
                Err(error) => format!("{error:#}"),
            };
            line(&mut out, &format!("  {}  {:<34}  {measured}", paper.ink(ink, word), ran.scenario.name.value));
            let broken = ran.outcome.iter().flat_map(|outcome| &outcome.findings).filter(|finding| !finding.passed);
            for finding in broken {
                line(&mut out, &format!("          ✗ {}: {}", finding.expected, finding.measured));
            }
        }
        out.push('\n');
    }
    let passed = runs.iter().filter(|ran| ran.passed()).count();
    line(&mut out, &format!("{passed} passed, {} failed", runs.len() - passed));
    out
}

#[derive(Serialize)]
struct Document<'a> {
    passed: usize,
    failed: usize,
    runs: Vec<&'a Outcome>,
    not_run: Vec<NotRun<'a>>,
}

#[derive(Serialize)]
struct NotRun<'a> {
    scenario: &'a str,
    error: String,
}

/// All of it for a machine.
///
/// # Errors
/// What the serializer says.
pub fn json(runs: &[Ran<'_>]) -> serde_json::Result<String> {
    let passed = runs.iter().filter(|ran| ran.passed()).count();
    let mut document = Document { passed, failed: runs.len() - passed, runs: Vec::new(), not_run: Vec::new() };
    for ran in runs {
        match &ran.outcome {
            Ok(outcome) => document.runs.push(outcome),
            Err(error) => document.not_run.push(NotRun { scenario: &ran.scenario.name.value, error: format!("{error:#}") }),
        }
    }
    serde_json::to_string(&document)
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    writeln!(out, "{text}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let ms = |values: &[u64]| values.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(median(&mut ms(&[3000, 1000, 2000])), "2.00 s");
        assert_eq!(median(&mut ms(&[4000, 1000, 2000, 3000])), "2.50 s");
        assert_eq!(median(&mut []), "-");
        assert_eq!(range(&ms(&[1000, 2500])), "1.00–2.50 s");
    }
}
