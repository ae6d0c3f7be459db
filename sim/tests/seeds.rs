//! Schedules in the default suite: those that found something once, some hundreds by seed, and that a run is its seed's.

use fip_sim::fault::schedule;
use fip_sim::{kept, run, shrink, story};
use fip_watchdog::decision::step::StepKind;

/// Some seconds in a debug build on one core; `make simulate` runs a hundred thousand.
const SEEDS: u64 = 200;

#[test]
fn every_schedule_that_found_something_once_finds_nothing_now() {
    let cases = kept::parse(include_str!("../kept.txt")).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let outcome = case.run().unwrap();
        assert_eq!(outcome.violations, [], "seed {}: {}", case.seed, case.why);
    }
}

#[test]
fn some_hundreds_of_schedules_break_no_invariant() {
    for seed in 0..SEEDS {
        let outcome = run::seed(seed, false).unwrap();
        assert_eq!(outcome.violations, [], "fip-sim --seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_timeline_to_the_byte() {
    for seed in [1, 7, 42, 707, 1931] {
        let (one, other) = (run::seed(seed, true).unwrap(), run::seed(seed, true).unwrap());
        assert!(!one.timeline.is_empty());
        assert_eq!(one.timeline, other.timeline, "seed {seed}");
        assert_eq!((one.events, one.lasted), (other.events, other.lasted), "seed {seed}");
    }
}

#[test]
fn whether_a_timeline_is_kept_changes_nothing() {
    for seed in [3, 11, 500] {
        let (told, silent) = (run::seed(seed, true).unwrap(), run::seed(seed, false).unwrap());
        assert_eq!((told.events, told.steps, told.lasted), (silent.events, silent.steps, silent.lasted), "seed {seed}");
    }
}

#[test]
fn the_first_articles_story_ends_well_and_soon() {
    let outcome = story::first_article().unwrap();
    assert_eq!(outcome.violations, []);
    let told = outcome.timeline.join("\n");
    let mut from = 0;
    for step in [StepKind::ApplyAlias, StepKind::HandOverAlias, StepKind::CycleManifest] {
        let done = format!("{} succeeded", step.name());
        let place = told[from..].find(&done).unwrap_or_else(|| panic!("{done} is missing after byte {from} of\n{told}"));
        from += place;
    }
    assert!(outcome.outage < 2_000, "the client was without service for {} ms", outcome.outage);
}

#[test]
fn a_schedule_is_its_parts() {
    let all = schedule(1931);
    let every: Vec<usize> = (0..all.len()).collect();
    assert_eq!(shrink::part(&all, &every), all);
    assert_eq!(shrink::part(&all, &[1]), [all[1]]);
}

#[test]
fn a_kept_line_without_a_reason_is_refused() {
    assert!(kept::parse("7 keep=1,2 # why").is_ok());
    assert!(kept::parse("7 # all of its faults").is_ok());
    assert!(kept::parse("7 keep=1,2").is_err());
    assert!(kept::parse("7 keep=x # why").is_err());
}
