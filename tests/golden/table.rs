//! The table of all cases that `make cases` prints, and what is said about one that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::compare::{self, draft};
use crate::expected::Kind;
use crate::find::Case;
use crate::run::{Seen, run};
use crate::vary;

/// How a case went.
pub struct Outcome {
    /// The case.
    pub case: Case,
    complaints: Vec<String>,
    seen: Option<Seen>,
}

impl Outcome {
    /// Plays a case and judges what was seen.
    pub fn of(case: Case) -> Self {
        let (complaints, seen) = match (case.kind, &case.policy) {
            (Kind::Policy, Ok(_)) => (vec!["the policy was accepted".to_owned()], None),
            (Kind::Policy, Err(refusal)) => {
                let text = refusal.to_string();
                let unsaid = case.expected.policy_refused.iter().filter(|words| !text.contains(*words));
                (unsaid.map(|words| format!("the refusal does not say `{words}`: {text}")).collect(), None)
            }
            (Kind::Timeline | Kind::Combinations, Err(refusal)) => (vec![format!("the policy was refused: {refusal}")], None),
            (Kind::Combinations, Ok(_)) => (vary::complaints(&case.expected, &vary::played(&case)), None),
            (Kind::Timeline, Ok(policy)) => {
                let seen = run(policy, &case.observations);
                (compare::complaints(&case.expected, &seen), Some(seen))
            }
        };
        Self { case, complaints, seen }
    }

    /// What is wrong, with the whole timeline as it was seen; `None` if nothing is.
    pub fn complaint(&self) -> Option<String> {
        if self.complaints.is_empty() {
            return None;
        }
        let complaints: String = self.complaints.iter().map(|complaint| format!("  {complaint}\n")).collect();
        let Self { case, .. } = self;
        let note =
            if case.observations.note.is_empty() { String::new() } else { format!("  {}\n", case.observations.note.trim()) };
        Some(format!("{}: {}\n{note}{complaints}  what was seen:\n{}", case.name, case.observations.title, self.actual()))
    }

    /// What was seen, as a draft of an expectation.
    pub fn actual(&self) -> String {
        self.seen.as_ref().map(draft).unwrap_or_default()
    }

    fn row(&self, scenarios: &BTreeMap<String, Vec<String>>) -> [String; 6] {
        let (number, name) = self.case.name.split_once('-').unwrap_or((&self.case.name, ""));
        let joined = |names: Vec<&str>| names.join(" > ");
        let verdicts = match (&self.seen, self.case.kind) {
            (Some(seen), _) => joined(seen.verdicts.iter().map(|(_, verdict)| verdict.name()).collect()),
            (None, Kind::Combinations) => {
                format!("{} combinations", self.case.expected.combinations_end_in.values().sum::<usize>())
            }
            (None, Kind::Policy | Kind::Timeline) => "the policy is refused".to_owned(),
        };
        let steps = self.seen.as_ref().map(|seen| joined(seen.steps.iter().map(|(_, step)| step.name()).collect()));
        let result = if self.complaints.is_empty() { "pass" } else { "FAIL" };
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        let lab = scenarios.get(digits.trim_start_matches('0')).map(|names| names.join(", ")).unwrap_or_default();
        [
            result.to_owned(),
            format!("{number} {name}"),
            self.case.observations.source.clone(),
            verdicts,
            steps.unwrap_or_default(),
            lab,
        ]
    }
}

/// The table. Verdicts and steps are those that were seen; where they are not those expected, the case failed.
pub fn table(outcomes: &[Outcome]) -> String {
    let scenarios = scenarios();
    let mut text = String::new();
    for outcome in outcomes {
        let [result, name, source, verdicts, steps, lab] = outcome.row(&scenarios);
        writeln!(text, "{result}  {name}  ({source})").unwrap();
        writeln!(text, "        {verdicts}").unwrap();
        if !steps.is_empty() {
            writeln!(text, "        steps: {steps}").unwrap();
        }
        if !lab.is_empty() {
            writeln!(text, "        lab:   {lab}").unwrap();
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.complaints.is_empty()).count();
    writeln!(text, "{passed} of {} cases as expected", outcomes.len()).unwrap();
    text
}

/// What the table needs of a lab scenario.
#[derive(Deserialize)]
struct Scenario {
    name: String,
    #[serde(default)]
    cases: BTreeSet<u32>,
}

/// The lab's scenarios by the number of the case that they replay.
fn scenarios() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario: Scenario = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for case in scenario.cases {
            found.entry(case.to_string()).or_default().push(scenario.name.clone());
        }
    }
    found
}
