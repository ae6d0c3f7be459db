//! The diagnosis against golden cases (`tests/diagnose`), and against any evidence.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod any;
mod case;
mod properties;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use fip_watchdog::diagnose::{Cause, judge};

#[test]
fn each_case_comes_to_exactly_what_is_expected() {
    let mut failed = Vec::new();
    for case in case::all() {
        let said = case::rendered(&judge(case::evidence(&case)));
        let expected = case.join("expected.yaml");
        if std::env::var_os("BLESS").is_some() {
            fs::File::create(&expected).unwrap().write_all(said.as_bytes()).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if said != expected {
            failed.push(format!("{}\n--- expected\n{expected}--- said\n{said}", case.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_cause_has_a_case() {
    let reached: BTreeSet<Cause> = case::all().iter().map(|case| judge(case::evidence(case)).cause).collect();
    let missing: Vec<_> = Cause::ALL.iter().filter(|cause| !reached.contains(cause)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn all_names_every_cause_as_json_does() {
    let names: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
    }
}

#[test]
fn a_diagnosis_survives_json() {
    for case in case::all() {
        let diagnosis = judge(case::evidence(&case));
        let text = serde_json::to_string(&diagnosis).unwrap();
        assert_eq!(serde_json::from_str::<fip_watchdog::diagnose::Diagnosis>(&text).unwrap(), diagnosis, "{}", case.display());
    }
}
