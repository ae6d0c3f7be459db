//! The operator's pause, over the command line and across the daemon's death; and a pause of the daemon itself, as the others hear of it.

use std::time::Duration;

use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::diagnose::Diagnosis;
use rustix::process::Signal;

use crate::bench::Node;

/// Long enough for the ledger, which leaves alone what is shorter than a busy machine's hiccup.
const STOPPED: Duration = Duration::from_secs(4);

fn out(node: &Node, arguments: &[&str]) -> String {
    let output = node.ask(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_pause_shows_at_once_survives_a_kill_and_is_resumed() {
    let node = Node::new();
    let mut daemon = node.start();
    assert_eq!(out(&node, &["resume"]), "was not paused\n");
    assert_eq!(out(&node, &["pause", "--reason", "etcd upgrade", "--for", "30m"]), "paused for 30m 00s\n");
    let status = daemon.until_status("paused", |status| status.verdict == Verdict::Paused);
    let pause = status.facts.paused.unwrap();
    assert!(pause.reason == "etcd upgrade" && pause.remaining_ms <= 1_800_000 && pause.remaining_ms > 1_700_000, "{pause:?}");
    assert!(out(&node, &["status"]).contains("etcd upgrade"), "paused is no alarm");

    daemon.kill();
    let daemon = node.start();
    let status = daemon.status();
    assert_eq!(status.verdict, Verdict::Paused, "the first round after the restart knows it");
    assert_eq!(out(&node, &["resume"]), "resumed\n");
    daemon.until_status("resumed", |status| status.verdict != Verdict::Paused && status.facts.paused.is_none());
    assert_eq!(out(&node, &["resume"]), "was not paused\n");
}

#[test]
fn a_pause_lasts_as_long_as_it_was_asked_for_and_ends_by_itself() {
    let node = Node::new();
    let daemon = node.start();
    let began = fip_watchdog::runtime::clock::now();
    out(&node, &["pause", "--reason", "short", "--for", "1s"]);
    daemon.until_says("verdict paused");
    daemon.until_status("over", |status| status.verdict != Verdict::Paused);
    let lasted = fip_watchdog::runtime::clock::now().since(began);
    assert!(lasted >= Duration::from_secs(1), "{lasted:?}");
    assert_eq!(out(&node, &["resume"]), "was not paused\n", "a pause that is over is none");
}

#[test]
fn a_pause_out_of_bounds_is_exit_64_and_none() {
    let node = Node::new();
    let daemon = node.start();
    for arguments in [
        &["pause", "--reason", "", "--for", "1m"][..],
        &["pause", "--reason", "x", "--for", "25h"],
        &["pause", "--reason", "x", "--for", "soon"],
        &["pause", "--for", "1m"],
    ] {
        assert_eq!(node.ask(arguments).status.code(), Some(64), "{arguments:?}");
    }
    assert_eq!(daemon.status().facts.paused, None);
}

#[test]
fn a_pause_that_cannot_be_kept_is_refused_and_none() {
    let node = Node::new();
    let daemon = node.start();
    std::fs::create_dir(node.path("state/pause.json.new")).unwrap();
    let output = node.ask(&["pause", "--reason", "x", "--for", "1m"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot keep the pause"), "{output:?}");
    assert_eq!(daemon.status().facts.paused, None);
}

#[test]
fn a_diagnosis_by_hand_hears_from_the_daemon_that_the_node_stood_still() {
    let node = Node::new();
    let daemon = node.start();
    let last_pause = || {
        let output = node.ask(&["diagnose", "--json"]);
        let diagnosis: Diagnosis = serde_json::from_slice(&output.stdout).unwrap();
        diagnosis.evidence.host.yes().unwrap().last_pause
    };
    assert_eq!(last_pause(), None);
    daemon.signal(Signal::STOP);
    std::thread::sleep(STOPPED);
    daemon.signal(Signal::CONT);
    daemon.until_status("the pause", |status| !status.pauses.is_empty());
    let pause = last_pause().unwrap();
    assert!(pause.length_ms >= 3000 && pause.age_ms < 60_000, "{pause:?}");
    drop(daemon);
    assert_eq!(last_pause(), None, "without a daemon nobody knows");
}
