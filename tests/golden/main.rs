//! The golden cases: each directory of `tests/cases` holds a policy, a timeline of what a node shows, and what the watchdog
//! must make of it. Adding a case is adding a directory; `tests/cases/README.md` has every word of the format.
//!
//! `make cases` prints the table; `CASE=07` picks cases by the beginning of their names; `BLESS=1` writes `actual.yaml`
//! beside an expectation that was not met, and never over it.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says where; BLESS writes a draft for a person"
)]

mod behind;
mod compare;
mod expected;
mod find;
mod node;
mod run;
mod state;
mod steps;
mod strict;
mod table;
mod timeline;
mod vary;
mod words;

use std::collections::BTreeSet;

use find::{Case, cases};
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::Mode;

#[test]
fn every_case_goes_as_its_directory_says() {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let outcomes: Vec<_> = cases().into_iter().filter(|case| case.name.starts_with(&wanted)).map(table::Outcome::of).collect();
    assert!(!outcomes.is_empty(), "no case begins with {wanted}");
    println!("{}", table::table(&outcomes));
    let failed: Vec<String> = outcomes.iter().filter_map(table::Outcome::complaint).collect();
    for outcome in outcomes.iter().filter(|outcome| outcome.complaint().is_some() && std::env::var_os("BLESS").is_some()) {
        std::fs::write(outcome.case.dir.join("actual.yaml"), outcome.actual()).unwrap();
    }
    assert!(failed.is_empty(), "{} of {} cases failed\n\n{}", failed.len(), outcomes.len(), failed.join("\n"));
}

#[test]
fn every_verdict_is_reached_by_a_case() {
    let reached: BTreeSet<Verdict> = cases().iter().flat_map(|case| case.expected.verdicts_named()).collect();
    let missed: Vec<_> = Verdict::ALL.into_iter().filter(|verdict| !reached.contains(verdict)).collect();
    assert_eq!(missed, [], "these verdicts are in no case");
}

#[test]
fn in_observe_mode_no_case_starts_a_step() {
    for Case { name, policy, observations, .. } in cases().into_iter().filter(|case| case.observations.vary.is_empty()) {
        let Ok(mut policy) = policy else { continue };
        policy.mode = Mode::Observe;
        let seen = run::run(&policy, &observations);
        assert!(seen.steps.is_empty(), "{name} in observe mode started {:?}", seen.steps);
    }
}
