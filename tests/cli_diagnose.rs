//! `fip-watchdog diagnose` as a process, on a machine without etcd: it answers in time, says what it goes by, and its exit code is its outcome.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fip_watchdog::diagnose::Diagnosis;

/// The diagnosis takes 4.9 s at most; a busy machine starts a process late.
const PATIENCE: Duration = Duration::from_secs(15);

fn diagnose(arguments: &[&str]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "what is measured is another process")]
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_fip-watchdog")).arg("diagnose").args(arguments).output().unwrap();
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    output
}

#[test]
fn without_a_policy_or_with_a_bad_one_it_goes_on_with_the_defaults_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("policy.yaml");
    std::io::Write::write_all(&mut std::fs::File::create(&bad).unwrap(), b"version: 1\nfip: nonsense\n").unwrap();
    for policy in [directory.path().join("none.yaml"), bad] {
        let output = diagnose(&["--json", "--policy", policy.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("going on with the defaults"), "{error}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1);
        let diagnosis: Diagnosis = serde_json::from_str(&text).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(diagnosis.outcome.exit_code())), "{}", diagnosis.sentence);
    }
}

#[test]
fn the_screen_begins_with_the_outcome_and_has_no_colour_in_a_pipe() {
    let output = diagnose(&["--policy", "/nonexistent/policy.yaml"]);
    let screen = String::from_utf8(output.stdout).unwrap();
    let outcome = ["healthy", "node", "network", "unknown"].iter().find(|outcome| screen.starts_with(**outcome));
    assert!(outcome.is_some() && !screen.contains('\x1b'), "{screen}");
    for check in ["members", "etcd_container", "etcd_log", "kubelet", "own_client_port", "etcd_status", "host"] {
        assert!(screen.lines().any(|line| line.split_whitespace().nth(1) == Some(check)), "no line for {check}: {screen}");
    }
}
