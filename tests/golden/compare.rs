//! What was seen against what was expected, and what was seen as a draft of an expectation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;

use crate::expected::{Expected, Saying};
use crate::run::Seen;
use crate::words::{Window, spell};

/// Every expectation of a timeline that was not met, as sentences.
pub fn complaints(expected: &Expected, seen: &Seen) -> Vec<String> {
    let verdicts: Vec<_> = seen.verdicts.iter().map(|(at, verdict)| (*at, *verdict)).collect();
    let mut found: Vec<String> =
        sequence("verdict", &expected.verdicts, &verdicts, |verdict| verdict.name()).into_iter().collect();
    found.extend(sequence("step", expected.steps.as_deref().unwrap_or_default(), &seen.steps, |step| step.name()));
    found.extend(sequence("entry of the ledger", &expected.ledger, &seen.ledger, |entry| entry.name()));
    for step in &expected.never {
        let started = seen.steps.iter().filter(|(_, other)| other == step);
        found.extend(started.map(|(at, _)| format!("{} was started at {}, and never may be", step.name(), spell(*at))));
    }
    found.extend(expected.reasons.iter().filter_map(|saying| unsaid("reason", saying, &seen.reasons)));
    found.extend(expected.waits.iter().filter_map(|saying| unsaid("wait", saying, &seen.waits)));
    if let Some(often) = expected.looks_every.filter(|often| seen.longest_silence > often.0) {
        found.push(format!("it did not look for {}, allowed: {}", spell(seen.longest_silence), spell(often.0)));
    }
    if let Some(held) = expected.held_at_end.filter(|held| *held != seen.held_at_end) {
        found.push(format!("the FIP is {} the node at the end", if held { "not on" } else { "on" }));
    }
    found
}

/// The first place at which two sequences part: what follows is most often a consequence.
fn sequence<K: Ord + Copy>(
    what: &str,
    expected: &[BTreeMap<K, Window>],
    seen: &[(Duration, K)],
    name: impl Fn(K) -> &'static str,
) -> Option<String> {
    let mut wanted = expected.iter().flatten();
    for (place, (at, kind)) in seen.iter().enumerate() {
        let number = place + 1;
        match wanted.next() {
            None => return Some(format!("{what} {number} is {} at {}, expected: no more", name(*kind), spell(*at))),
            Some((other, window)) if other != kind || !window.holds(*at) => {
                let (kind, at, other) = (name(*kind), spell(*at), name(*other));
                return Some(format!("{what} {number} is {kind} at {at}, expected: {other} at {window}"));
            }
            Some(_) => {}
        }
    }
    wanted.next().map(|(kind, window)| format!("{what} {} is missing: {} at {window}", seen.len() + 1, name(*kind)))
}

fn unsaid(what: &str, saying: &Saying, said: &[(Duration, Verdict, String)]) -> Option<String> {
    let fits = |at: Duration| saying.at.is_none_or(|window| window.holds(at));
    let heard = said.iter().any(|(at, verdict, text)| *verdict == saying.verdict && fits(*at) && text.contains(&saying.says));
    (!heard).then(|| format!("no {what} under {} says `{}`", saying.verdict, saying.says))
}

/// What was seen, spelled as an `expected.yaml`, for a person to judge; then what was said, once for each verdict.
pub fn draft(seen: &Seen) -> String {
    let mut text = "verdicts:\n".to_owned();
    list(&mut text, seen.verdicts.iter().map(|(at, verdict)| (verdict.name(), *at)));
    text.push_str(if seen.steps.is_empty() { "steps: []\n" } else { "steps:\n" });
    list(&mut text, seen.steps.iter().map(|(at, step): &(Duration, StepKind)| (step.name(), *at)));
    if !seen.ledger.is_empty() {
        text.push_str("ledger:\n");
        list(&mut text, seen.ledger.iter().map(|(at, entry)| (entry.name(), *at)));
    }
    for (title, said) in [("reasons", &seen.reasons), ("waits", &seen.waits)] {
        let mut told: Vec<(Verdict, String)> = Vec::new();
        for (at, verdict, sentence) in said {
            let without_ages: String = sentence.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            if told.iter().any(|known| *known == (*verdict, without_ages.clone())) {
                continue;
            }
            told.push((*verdict, without_ages));
            if told.len() == 1 {
                writeln!(text, "# {title}").unwrap();
            }
            writeln!(text, "#   {:>10}  {verdict}: {sentence}", spell(*at)).unwrap();
        }
    }
    text
}

fn list(text: &mut String, items: impl Iterator<Item = (&'static str, Duration)>) {
    for (name, at) in items {
        writeln!(text, "  - {name}: {}", spell(at)).unwrap();
    }
}
