//! The shipped unit and catalogue, judged by systemd itself.
//!
//! A host without systemd's tools fails these tests and is told what to install.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../systemd/fip-watchdog.service");
const CATALOGUE: &str = include_str!("../systemd/fip-watchdog.catalog");

/// Exposure level in tenths, by systemd 252. What remains is the job itself: root, sockets, CAP_NET_ADMIN.
const EXPOSURE_MAX: u32 = 32;

fn run(tool: &str, arguments: &[&str]) -> Output {
    Command::new(tool)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{tool} cannot be run ({error}): install the package systemd"))
}

/// The unit with a program that exists, since verify looks for it.
fn unit_on_this_host(dir: &Path) -> String {
    let path = dir.join("fip-watchdog.service");
    let unit = UNIT.replace("/usr/bin/fip-watchdog", env!("CARGO_BIN_EXE_fip-watchdog"));
    std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), unit.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The values of a directive, in order.
fn values(directive: &str) -> Vec<&str> {
    UNIT.lines().filter_map(|line| line.strip_prefix(directive)?.strip_prefix('=')).collect()
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    let verified = run("systemd-analyze", &["verify", "--man=no", &unit_on_this_host(dir.path())]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_us: Vec<&str> = said.lines().filter(|line| line.contains("fip-watchdog")).collect();
    assert!(verified.status.success() && about_us.is_empty(), "{said}");
}

#[test]
fn the_unit_exposes_no_more_than_its_job_needs() {
    let dir = tempfile::tempdir().unwrap();
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let judged =
        run("systemd-analyze", &["security", "--no-pager", "--offline=true", &threshold, &unit_on_this_host(dir.path())]);
    assert!(judged.status.success(), "{}{}", String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr));
}

#[test]
fn manifests_and_staging_are_one_writable_tree() {
    // Two would be two mounts, and the rename between them fails with EXDEV.
    assert_eq!(values("ReadWritePaths"), ["-/etc/kubernetes"]);
}

#[test]
fn a_bad_policy_is_not_tried_again_and_everything_else_is() {
    assert_eq!(values("RestartPreventExitStatus"), ["78"]);
    assert_eq!(values("Restart"), ["on-failure"]);
    assert_eq!(values("RestartSec"), ["1"]);
    let number = |directive| values(directive)[0].parse::<u32>().unwrap();
    // What is killed once a second for two minutes is still started again.
    assert!(number("StartLimitBurst") > 120 && number("StartLimitIntervalSec") >= 120);
}

#[test]
fn memory_and_tasks_are_bounded_and_the_decision_loop_is_watched() {
    assert_eq!(values("MemoryMax"), ["64M"]);
    assert_eq!(values("TasksMax"), ["64"]);
    assert_eq!(values("Type"), ["notify"]);
    assert_eq!(values("WatchdogSec"), ["10"]);
    assert_eq!(values("RuntimeDirectoryPreserve"), ["yes"]);
}

#[test]
fn the_capabilities_are_those_that_are_explained() {
    let granted = values("CapabilityBoundingSet")[0];
    assert_eq!(granted, "CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_PTRACE CAP_CHOWN");
    for capability in granted.split(' ') {
        assert!(UNIT.lines().any(|line| line.starts_with(&format!("# {capability} "))), "{capability} has no reason");
    }
}

#[test]
fn the_calls_that_kill_the_loop_are_let_through() {
    let mut allowed = String::new();
    for group in ["@system-service", "@process", "@signal"] {
        allowed.push_str(&String::from_utf8_lossy(&run("systemd-analyze", &["syscall-filter", group]).stdout));
    }
    let removed = values("SystemCallFilter").into_iter().find_map(|filter| filter.strip_prefix('~')).unwrap();
    assert!(!removed.contains("@process") && !removed.contains("@signal"));
    for call in ["pidfd_open", "pidfd_send_signal", "kill"] {
        assert!(allowed.lines().any(|line| line.trim() == call), "{call}");
        assert!(!removed.split(' ').any(|name| name == call), "{call}");
    }
}

#[test]
fn the_journal_shows_the_explanation_of_every_message_id() {
    let root = tempfile::tempdir().unwrap();
    let sources = root.path().join("usr/lib/systemd/catalog");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).unwrap();
    let mut file = std::fs::File::create(sources.join("fip-watchdog.catalog")).unwrap();
    std::io::Write::write_all(&mut file, CATALOGUE.as_bytes()).unwrap();
    let root = format!("--root={}", root.path().display());
    let compiled = run("journalctl", &[&root, "--update-catalog"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for kind in fip_watchdog::audit::EventKind::ALL {
        let dumped = run("journalctl", &[&root, "--no-pager", "--dump-catalog", kind.message_id()]);
        let text = String::from_utf8_lossy(&dumped.stdout).into_owned();
        assert!(dumped.status.success() && text.contains("Subject: "), "{}: {text}", kind.name());
    }
}
