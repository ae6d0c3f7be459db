//! `fip-watchdog check`: what it prints where, and how it exits.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fip_watchdog::cli::check::{EX_CONFIG, EX_IOERR, EX_NOINPUT, EX_OK, run};

const BAD: &str = "version: 1\nfip: { address: 192.0.2.10 }\nlimits: { cooldown: 2, cooldwon: 3m }\n";

fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    File::create(&path).expect("a file").write_all(text.as_bytes()).expect("its text");
    path
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/default.yaml")
}

fn check(paths: &[PathBuf], json: bool) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(paths, json, &mut out, &mut err);
    (code, String::from_utf8(out).expect("UTF-8"), String::from_utf8(err).expect("UTF-8"))
}

/// A pipe whose reader went away, or a disk that is full.
struct Failing(io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_good_policy_is_answered_with_its_arithmetic_on_standard_output() {
    let (code, out, err) = check(&[shipped()], false);
    assert_eq!((code, err.as_str()), (EX_OK, ""));
    assert!(out.lines().next().expect("a line").ends_with("policies/default.yaml: ok"));
    assert!(out.contains("longest double holding, watchdog dead: 11s = "), "{out}");
    assert!(out.contains("on fip_orphaned: release_alias, cycle_manifest\n"), "{out}");
}

#[test]
fn every_fault_is_a_line_on_standard_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (code, out, err) = check(&[file(&dir, "policy.yaml", BAD)], false);
    assert_eq!((code, out.as_str()), (EX_CONFIG, ""));
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].contains("/policy.yaml:3:21: limits.cooldown: `2` has no unit"), "{err}");
    assert!(lines[1].ends_with("did you mean `cooldown`?"), "{err}");
}

#[test]
fn a_missing_file_exits_66_and_a_bad_one_beside_it_78() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("none.yaml");
    let (code, _, err) = check(std::slice::from_ref(&missing), false);
    assert_eq!(code, EX_NOINPUT);
    assert_eq!(err, format!("there is no policy file {}: No such file or directory (os error 2)\n", missing.display()));
    assert_eq!(check(&[missing, file(&dir, "bad.yaml", BAD), shipped()], false).0, EX_CONFIG);
}

#[test]
fn json_says_the_same_in_one_document() {
    let dir = tempfile::tempdir().expect("a directory");
    let bad = file(&dir, "policy.yaml", BAD);
    let (code, out, err) = check(&[shipped(), bad.clone(), dir.path().join("none.yaml")], true);
    assert_eq!((code, err.as_str()), (EX_CONFIG, ""));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["files"][0]["ok"], true);
    assert_eq!(json["files"][0]["arithmetic"]["double_holding_watchdog_dead"]["within"]["ms"], 11_000);
    let fault = &json["files"][1]["faults"][1];
    assert_eq!(fault["file"], bad.display().to_string());
    assert_eq!((fault["line"].as_u64(), fault["column"].as_u64()), (Some(3), Some(24)));
    assert_eq!((&fault["path"], &fault["hint"]), (&"limits.cooldwon".into(), &"did you mean `cooldown`?".into()));
    assert!(json["files"][2]["faults"][0]["line"].is_null());
}

#[test]
fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
    let code = |kind| run(&[shipped()], false, &mut Failing(kind), &mut Vec::new());
    assert_eq!(code(io::ErrorKind::BrokenPipe), EX_OK);
    assert_eq!(code(io::ErrorKind::StorageFull), EX_IOERR);
}
