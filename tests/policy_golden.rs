//! Bad policies, each a directory `tests/policy/NN-name/` with `policy.yaml` and the lines that `check` must print.
//!
//! To add a case, make a directory with a `policy.yaml`, run with `BLESS=1`, and read what was written.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use fip_watchdog::policy::check::check;

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policy");
    let mut cases: Vec<_> = fs::read_dir(root).expect("tests/policy").map(|entry| entry.expect("an entry").path()).collect();
    cases.sort();
    cases
}

/// What `check` says, one line a fault; `ok` for a good policy.
fn said(text: &str) -> String {
    match check(text, Path::new("policy.yaml")) {
        Ok(_) => "ok\n".to_owned(),
        Err(faults) => format!("{faults}\n"),
    }
}

#[test]
fn each_case_is_answered_with_exactly_the_expected_lines() {
    let mut failed = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 20, "only {} cases", cases.len());
    for case in cases {
        let text = fs::read_to_string(case.join("policy.yaml")).unwrap();
        let said = said(&text);
        let expected = case.join("expected.txt");
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
