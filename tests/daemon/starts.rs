//! Starts that are refused: exit code, one line a fault, nothing left behind.

use std::fs;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use fip_watchdog::control::client;
use fip_watchdog::control::protocol::{Request, Response};

use crate::bench::{Daemon, LIMIT, Node, Refused, write};

/// Nothing but the lock file may be left, unlocked.
fn assert_refused(node: &Node, refused: &Refused, code: i32, faults: &[&str]) {
    assert_eq!(refused.code, Some(code), "{}", refused.stderr);
    for fault in faults {
        assert!(refused.stderr.contains(fault), "{fault}: not in {}", refused.stderr);
    }
    assert!(!node.socket().exists());
    assert!(!node.path("state").exists(), "nothing is written for a policy that is no policy");
    let left: Vec<_> = fs::read_dir(node.path("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
    write(&node.policy_to_be(), &node.policy_text("enforce"));
    node.start_with(&node.policy_to_be());
}

impl Node {
    fn policy_to_be(&self) -> std::path::PathBuf {
        self.path("etc/good.yaml")
    }

    /// The lock is free for the next one.
    fn start_with(&self, policy: &Path) {
        let mut command = std::process::Command::new(crate::bench::BINARY);
        command.arg("run").arg("--policy").arg(policy).arg("--runtime-dir").arg(self.path("run"));
        Daemon::of(command, &self.socket());
    }
}

#[test]
fn no_policy_is_exit_78_with_its_path() {
    let node = Node::without_policy();
    assert_refused(&node, &node.refused(), 78, &["there is no policy file ", "etc/policy.yaml"]);
}

#[test]
fn each_fault_of_a_bad_policy_is_a_line_with_its_place() {
    let node = Node::without_policy();
    write(&node.policy(), "version: 1\nfip: { address: 127.0.0.1 }\nlimits: { cooldown: 2, cooldwon: 3m }\n");
    let refused = node.refused();
    assert_refused(&node, &refused, 78, &["policy.yaml:2:17: ", "policy.yaml:3:21: limits.cooldown", "policy.yaml:3:24: "]);
    let complaint: Vec<_> = refused.stderr.lines().filter(|line| !line.starts_with("policy_rejected: ")).collect();
    assert_eq!(complaint.len(), 3, "one line a fault: {}", refused.stderr);
}

#[test]
fn a_policy_that_is_no_file_is_refused_and_not_waited_for() {
    let node = Node::without_policy();
    fs::create_dir(node.policy()).unwrap();
    assert_refused(&node, &node.refused(), 78, &["is a directory, not a file"]);
    fs::remove_dir(node.policy()).unwrap();

    mknodat(CWD, node.policy(), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let refused = node.refused();
    assert_eq!(refused.code, Some(78));
    assert!(refused.stderr.contains("is a pipe, socket or device, not a file"), "{}", refused.stderr);
    fs::remove_file(node.policy()).unwrap();

    std::os::unix::fs::symlink("policy.yaml", node.policy()).unwrap();
    let refused = node.refused();
    assert_eq!(refused.code, Some(78));
    assert!(refused.stderr.contains("cannot read the policy file "), "{}", refused.stderr);
}

#[test]
fn a_policy_that_is_no_text_or_too_long_is_refused() {
    let node = Node::without_policy();
    write(&node.policy(), &"#".repeat(70_000));
    assert_refused(&node, &node.refused(), 78, &["is too long (allowed: at most 65536 bytes)"]);
    write(&node.policy(), b"version: 1\nfip: \xff\n");
    let refused = node.refused();
    assert_eq!(refused.code, Some(78));
    assert!(refused.stderr.contains("policy.yaml:2:1: not UTF-8 text"), "{}", refused.stderr);
}

#[test]
fn a_second_instance_names_the_first_and_leaves_it_alone() {
    let node = Node::new();
    let mut first = node.start();
    let before = first.status();
    let second = node.refused();
    assert_eq!(second.code, Some(75), "{}", second.stderr);
    let named = format!("another instance holds {}: pid {} since 2", node.path("run/lock").display(), first.pid());
    assert!(second.stderr.contains(&named), "{}", second.stderr);
    assert!(first.is_running());
    let after = first.status();
    assert!(after.uptime_ms >= before.uptime_ms, "the same daemon answers");
    // The lock file still names the first for a third.
    let third = node.refused();
    assert!(third.stderr.contains(&named), "{}", third.stderr);
}

#[test]
fn a_killed_daemon_leaves_nothing_that_stops_the_next() {
    let node = Node::new();
    let mut first = node.start();
    first.kill();
    assert!(node.socket().exists(), "SIGKILL leaves the socket file");
    let second = node.start();
    assert_ne!(second.pid(), first.pid());
}

#[test]
fn a_runtime_directory_that_cannot_be_made_is_exit_73() {
    let node = Node::new();
    write(&node.path("run"), "");
    let refused = node.refused();
    assert_eq!(refused.code, Some(73), "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot make directory "), "{}", refused.stderr);
}

#[test]
fn something_else_in_the_place_of_the_socket_is_left_alone() {
    let node = Node::new();
    fs::create_dir(node.path("run")).unwrap();
    write(&node.socket(), "a file");
    let refused = node.refused();
    assert_eq!(refused.code, Some(73), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(node.socket()).unwrap(), "a file");
}

#[test]
fn state_that_is_no_file_keeps_nobody_waiting() {
    let node = Node::new();
    fs::create_dir(node.path("state")).unwrap();
    for name in ["pause.json", "pause.json.new", "cycle.journal", "known-good.json", "known-good.json.new", "autopsies"] {
        mknodat(CWD, node.path("state").join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    let daemon = node.start();
    daemon.until_says("pause.json cannot be read and counts as no pause: it is no regular file");
    daemon.until_says("known-good.json is not understood and counts as none: it is no regular file");
    let pause = Request::Pause { length: LIMIT, reason: "a pipe lies where this is staged".to_owned() };
    let answer = client::ask(&node.socket(), &pause, LIMIT).unwrap();
    assert!(matches!(answer, Response::Paused { .. }), "{answer:?}");
    assert!(fs::symlink_metadata(node.path("state/pause.json")).unwrap().is_file());
}

#[test]
fn a_link_where_state_is_staged_is_not_followed() {
    let node = Node::new();
    fs::create_dir(node.path("state")).unwrap();
    write(&node.path("other"), "of somebody else");
    for name in ["pause.json.new", "known-good.json", "known-good.json.new"] {
        std::os::unix::fs::symlink(node.path("other"), node.path("state").join(name)).unwrap();
    }
    let daemon = node.start();
    let pause = Request::Pause { length: LIMIT, reason: "a link lies where this is staged".to_owned() };
    let answer = client::ask(&node.socket(), &pause, LIMIT).unwrap();
    assert!(matches!(answer, Response::Paused { .. }), "{answer:?}");
    drop(daemon);
    assert_eq!(fs::read_to_string(node.path("other")).unwrap(), "of somebody else");
}
