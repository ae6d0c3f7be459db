//! Edits of the policy file while the daemon runs, in the ways in which editors write.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use fip_watchdog::policy::Mode;

use crate::bench::{Daemon, Node, write};

fn until_mode(daemon: &Daemon, mode: Mode) {
    daemon.until_status(&format!("{mode:?}"), |status| status.policy.mode == mode && status.policy.rejection.is_none());
}

fn rename_over(aside: &Path, path: &Path) {
    rustix::fs::rename(aside, path).unwrap();
}

#[test]
fn a_good_edit_takes_effect_without_a_restart_whatever_the_editor_does() {
    let node = Node::new();
    let (policy, aside) = (node.policy(), node.path("etc/.policy.yaml.swp"));
    let daemon = node.start();
    assert_eq!(daemon.status().policy.mode, Mode::Enforce);

    // vim, sed -i: a new file renamed over the old one.
    write(&aside, &node.policy_text("observe"));
    rename_over(&aside, &policy);
    until_mode(&daemon, Mode::Observe);
    daemon.until_says("policy_loaded: ");

    // nano, shell redirection: truncated, then written in pieces. The half is never judged.
    let text = node.policy_text("enforce");
    let (head, tail) = text.split_at(text.find("key:").unwrap());
    let mut file = File::create(&policy).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    file.sync_all().unwrap();
    file.write_all(tail.as_bytes()).unwrap();
    drop(file);
    until_mode(&daemon, Mode::Enforce);

    // Deleted and made again.
    fs::remove_file(&policy).unwrap();
    write(&policy, &node.policy_text("observe"));
    until_mode(&daemon, Mode::Observe);

    // Configuration management: a symbolic link that is pointed elsewhere.
    write(&node.path("one.yaml"), &node.policy_text("observe"));
    write(&node.path("two.yaml"), &node.policy_text("enforce"));
    std::os::unix::fs::symlink(node.path("one.yaml"), &aside).unwrap();
    rename_over(&aside, &policy);
    std::os::unix::fs::symlink(node.path("two.yaml"), &aside).unwrap();
    rename_over(&aside, &policy);
    until_mode(&daemon, Mode::Enforce);

    // The link's target is edited, in another directory than the one that is watched.
    write(&node.path("two.yaml"), &node.policy_text("observe"));
    until_mode(&daemon, Mode::Observe);
    assert!(!daemon.said().contains("policy_rejected: "), "{}", daemon.said());
}

#[test]
fn a_bad_edit_keeps_the_old_policy_and_status_says_why_with_the_line() {
    let node = Node::new();
    let daemon = node.start();
    write(&node.policy(), &node.policy_text("observe").replace("poll: 250ms", "poll: 250"));
    let status = daemon.until_status("the rejection", |status| status.policy.rejection.is_some());
    let rejection = status.policy.rejection.unwrap();
    assert_eq!(status.policy.mode, Mode::Enforce);
    assert!(rejection.faults.iter().any(|fault| fault.contains("policy.yaml:9:9: etcd.poll")), "{rejection:?}");
    daemon.until_says("policy_rejected: ");
    let screen = String::from_utf8(node.ask(&["status"]).stdout).unwrap();
    assert!(screen.contains("policy.yaml:9:9"), "{screen}");

    // Gone altogether: the same.
    fs::remove_file(node.policy()).unwrap();
    let missing = |fault: &String| fault.contains("there is no policy file");
    daemon.until_status("the missing file", |status| {
        status.policy.rejection.as_ref().is_some_and(|rejection| rejection.faults.iter().any(missing))
    });
    assert_eq!(daemon.status().policy.mode, Mode::Enforce);

    // The policy in force written again ends the rejection.
    write(&node.policy(), &node.policy_text("enforce"));
    until_mode(&daemon, Mode::Enforce);
    assert_eq!(daemon.said().matches("policy_rejected: ").count(), 2, "each once: {}", daemon.said());
}

#[test]
fn a_directory_of_policies_that_is_swapped_is_noticed() {
    let node = Node::new();
    let daemon = node.start();
    rename_over(&node.path("etc"), &node.path("etc.old"));
    fs::create_dir(node.path("etc")).unwrap();
    write(&node.policy(), &node.policy_text("observe"));
    until_mode(&daemon, Mode::Observe);
}

#[test]
fn another_state_directory_counts_from_the_next_start_and_is_said() {
    let node = Node::new();
    let daemon = node.start();
    let elsewhere = node.path("elsewhere");
    write(&node.policy(), &node.policy_text("observe").replace("/state\n", "/elsewhere\n"));
    until_mode(&daemon, Mode::Observe);
    daemon.until_says("state_dir");
    daemon.until_says("next start");
    assert!(!elsewhere.exists());
}
