//! The runner can fail: a wrong expectation of any kind is found, and a file that says too little or too much is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::load::load;

use crate::compare::complaints;
use crate::expected::{Expected, Kind, Saying};
use crate::find::{Case, cases, parse_expected, parse_timeline, read};
use crate::run::{Seen, run};
use crate::vary;
use crate::words::{Length, Window};

const LATER: Window = Window { from: Length(Duration::from_secs(100_000)), to: Length(Duration::from_secs(100_001)) };

fn played() -> Vec<(Case, Seen)> {
    let timelines = cases().into_iter().filter(|case| case.kind == Kind::Timeline);
    timelines
        .map(|case| {
            let seen = run(case.policy.as_ref().unwrap(), &case.observations);
            (case, seen)
        })
        .collect()
}

/// Every way to make an expectation a little wrong, with its name.
fn spoiled(expected: &Expected, seen: &Seen) -> Vec<(String, Expected)> {
    let mut ways = Vec::new();
    let mut way = |what: String, spoil: &dyn Fn(&mut Expected)| {
        let mut wrong = expected.clone();
        spoil(&mut wrong);
        ways.push((what, wrong));
    };
    for place in 0..expected.verdicts.len() {
        way(format!("verdict {place} left out"), &|wrong| drop(wrong.verdicts.remove(place)));
        way(format!("verdict {place} later"), &|wrong| wrong.verdicts[place].values_mut().for_each(|window| *window = LATER));
        way(format!("verdict {place} another"), &|wrong| {
            let is = *wrong.verdicts[place].keys().next().unwrap();
            let other = if is == Verdict::Paused { Verdict::Resumed } else { Verdict::Paused };
            let window = wrong.verdicts[place].remove(&is).unwrap();
            wrong.verdicts[place].insert(other, window);
        });
    }
    for place in 0..expected.steps.as_ref().map_or(0, Vec::len) {
        way(format!("step {place} left out"), &|wrong| drop(wrong.steps.as_mut().unwrap().remove(place)));
        way(format!("step {place} later"), &|wrong| {
            wrong.steps.as_mut().unwrap()[place].values_mut().for_each(|window| *window = LATER);
        });
    }
    for (_, step) in &seen.steps {
        way(format!("{} forbidden", step.name()), &|wrong| {
            wrong.never.insert(*step);
        });
    }
    for place in 0..expected.reasons.len() {
        way(format!("reason {place}"), &|wrong| wrong.reasons[place].says.push_str(" and more"));
    }
    for place in 0..expected.waits.len() {
        way(format!("wait {place}"), &|wrong| wrong.waits[place].says.push_str(" and more"));
    }
    for place in 0..expected.ledger.len() {
        way(format!("entry {place} left out"), &|wrong| drop(wrong.ledger.remove(place)));
        way(format!("entry {place} later"), &|wrong| wrong.ledger[place].values_mut().for_each(|window| *window = LATER));
    }
    way("held at the end".to_owned(), &|wrong| wrong.held_at_end = Some(!seen.held_at_end));
    way("looks".to_owned(), &|wrong| wrong.looks_every = Some(Length(Duration::from_millis(1))));
    way("one verdict more".to_owned(), &|wrong| wrong.verdicts.push(BTreeMap::from([(Verdict::Paused, LATER)])));
    way("a reason under another verdict".to_owned(), &|wrong| {
        wrong.reasons.push(Saying { verdict: Verdict::Starting, says: "nobody says this".to_owned(), at: None });
    });
    ways
}

#[test]
fn an_expectation_that_is_a_little_wrong_fails_in_every_case_and_in_every_way() {
    let mut ways = 0;
    for (case, seen) in played() {
        assert_eq!(complaints(&case.expected, &seen), Vec::<String>::new(), "{}", case.name);
        for (what, wrong) in spoiled(&case.expected, &seen) {
            assert_ne!(complaints(&wrong, &seen), Vec::<String>::new(), "{}: {what}", case.name);
            ways += 1;
        }
    }
    assert!(ways > 500, "{ways} ways");
}

#[test]
fn combinations_that_end_or_act_otherwise_fail() {
    let all: Vec<Case> = cases().into_iter().filter(|case| case.kind == Kind::Combinations).collect();
    assert!(!all.is_empty());
    for case in all {
        let tally = vary::played(&case);
        for (step, verdict) in tally.acts.iter().flat_map(|(step, under)| under.keys().map(move |verdict| (step, verdict))) {
            let mut wrong = case.expected.clone();
            wrong.acts_only_in.entry(*step).or_default().remove(verdict);
            assert_ne!(vary::complaints(&wrong, &tally), Vec::<String>::new(), "{}: {} {verdict}", case.name, step.name());
        }
        for verdict in case.expected.combinations_end_in.keys() {
            let mut wrong = case.expected.clone();
            *wrong.combinations_end_in.entry(*verdict).or_default() += 1;
            assert_ne!(vary::complaints(&wrong, &tally), Vec::<String>::new(), "{}: {verdict}", case.name);
        }
    }
}

#[test]
fn what_a_case_may_not_say_is_refused() {
    let timeline = |rest: &str| parse_timeline(&format!("title: t\nsource: s\nuntil: 10s\n{rest}")).map(|_| ()).unwrap_err();
    assert!(parse_timeline("title: t\nsource: s\nuntil: 10s\n").is_ok());
    assert!(timeline("nodes: {}\n").contains("unknown field `nodes`"));
    assert!(timeline("node: { etcd: leads, colour: red }\n").contains("unknown field `colour`"));
    assert!(timeline("node: { etcd: leading }\n").contains("unknown variant `leading`"));
    assert!(timeline("events: [{ at: 1s, what: w, sett: {} }]\n").contains("unknown field `sett`"));
    assert!(timeline("events: [{ at: 2s, what: w }, { at: 1s, what: w }]\n").contains("not in the order"));
    assert!(timeline("events: [{ at: 10s, what: late }]\n").contains("`late` comes after the end"));
    assert!(timeline("events: [{ at: 1s, what: w, pause: { of: node } }]\n").contains("does not say how long it lasts"));
    assert!(timeline("events: [{ at: 5, what: w }]\n").contains("span of time"));
    assert!(timeline("steps: { reboot: {} }\n").contains("unknown variant `reboot`"));

    let expected =
        |text: &str| parse_expected(text).map_err(|error| error.clone()).and_then(|expected| expected.kind()).unwrap_err();
    assert!(expected("{}\n").contains("it expects nothing"));
    assert!(expected("steps: []\n").contains("it expects nothing"));
    assert!(expected("verdicts: [{ healthy: 0s }]\n").contains("which steps are started"));
    assert!(expected("verdicts: [{ healthy: 0s, paused: 1s }]\nsteps: []\n").contains("an item of its own"));
    assert!(expected("verdicts: [{ healthy: 0s }]\nsteps: []\npolicy_refused: [x]\n").contains("exclude each other"));
    assert!(expected("verdict: [{ healthy: 0s }]\nsteps: []\n").contains("unknown field `verdict`"));
    assert!(expected("verdicts: [{ wealthy: 0s }]\nsteps: []\n").contains("unknown variant `wealthy`"));
    assert!(expected("verdicts: [{ healthy: 2s..1s }]\nsteps: []\n").contains("ends before it begins"));
}

#[test]
fn a_directory_without_one_of_its_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let case = dir.path().join("99-half");
    std::fs::create_dir(&case).unwrap();
    std::fs::write(case.join("observations.yaml"), "title: t\nsource: s\nuntil: 1s\n").unwrap();
    assert!(read(&case).err().unwrap().starts_with("expected.yaml: "));
    std::fs::write(case.join("expected.yaml"), "verdicts: [{ healthy: 0s }]\nsteps: []\n").unwrap();
    assert!(read(&case).unwrap().policy.is_err(), "there is no policy");
    std::fs::write(case.join("policy.yaml"), "version: 1\nfip: { address: 192.0.2.1 }\n").unwrap();
    assert!(load(&case.join("policy.yaml")).is_ok() && read(&case).is_ok());
}
