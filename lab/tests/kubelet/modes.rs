//! Rules 14 to 18: the faults that can be switched on.

use std::fs;

use fip_lab::kubelet::state_json::ContainerState;
use rustix::process::Signal;

use super::bench::{Bench, STUBBORN, alive, pod, pod_with, signal};

const QUICK: [&str; 2] = ["--time-scale", "0.1"];

#[test]
fn no_14_with_sources_not_ready_a_removal_is_logged_and_nothing_is_killed() {
    let bench = Bench::new(&QUICK);
    let text = pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 1\n");
    bench.put("p.yaml", &text);
    let first = bench.wait_live("p");
    bench.modes(&["sources-not-ready"]);
    bench.remove("p.yaml");
    bench.wait("the removal is skipped", |bench| bench.said("skipping delete because sources aren't ready yet"));
    bench.settle("later");
    assert_eq!(bench.live("p"), Some(first.clone()));
    // Killed by somebody else it stays down while its manifest is out, and its record stays.
    signal(first.pid, Signal::KILL);
    bench.wait("the kubelet knows", |bench| bench.records().iter().any(|record| record.state == ContainerState::Exited));
    bench.put("p.yaml", &text);
    let second = bench.wait_other("p", &first);
    assert_eq!(second.attempt, 1);
    // Once ready, a removal is a removal.
    bench.remove("p.yaml");
    bench.modes(&[]);
    bench.wait_dead(&second);
}

#[test]
fn no_15_a_kubelet_that_was_down_adopts_what_runs_and_misses_out_and_in() {
    let mut bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let before = bench.wait_live("p");
    bench.stop();
    assert!(alive(&before));
    bench.remove("p.yaml");
    bench.put("p.yaml", &pod("p", STUBBORN));
    bench.start();
    bench.settle("later");
    assert_eq!(bench.live("p"), Some(before));
}

#[test]
fn no_15_a_removal_that_was_begun_is_forgotten_when_the_file_is_back_before_the_restart() {
    let mut bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 100\n"));
    let before = bench.wait_live("p");
    bench.remove("p.yaml");
    bench.wait("it terminates", |bench| bench.live("p").is_some_and(|record| record.state == ContainerState::Terminating));
    bench.stop();
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 100\n"));
    bench.start();
    bench.settle("later");
    assert_eq!(bench.live("p"), Some(before));
}

#[test]
fn no_15_a_kubelet_that_finds_the_file_gone_kills_the_orphan_without_grace() {
    let mut bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 3600\n"));
    let before = bench.wait_live("p");
    bench.stop();
    bench.remove("p.yaml");
    bench.start();
    assert!(alive(&before), "killed at once instead of 2.4 s (scaled 0.24 s) after the start");
    bench.wait_dead(&before);
    bench.wait("the record is gone", |bench| bench.records().is_empty());
    assert!(bench.said("Clean up containers for orphaned pod") && !bench.said("Killing container with a grace period"));
}

#[test]
fn no_15_a_container_that_died_meanwhile_is_restarted_as_the_next_attempt() {
    let mut bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let before = bench.wait_live("p");
    bench.stop();
    signal(before.pid, Signal::KILL);
    bench.wait_dead(&before);
    bench.start();
    let after = bench.wait_other("p", &before);
    assert_eq!(after.attempt, 1);
    // It is the whole pod again: it stays.
    bench.settle("later");
    assert_eq!(bench.live("p"), Some(after));
}

#[test]
fn no_15_a_container_that_the_kubelet_was_killed_before_remembering_is_found_again() {
    let mut bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let before = bench.wait_live("p");
    bench.stop();
    fs::remove_file(bench.path("state/containers.json")).expect("remove");
    bench.start();
    bench.settle("later");
    assert_eq!(bench.live("p").map(|record| record.pid), Some(before.pid));
}

#[test]
fn no_16_with_a_dead_watch_only_the_list_works() {
    // Without a list an event that was lost is lost for good.
    let bench = Bench::new(&["--list-period", "1h", "--time-scale", "0.1"]);
    bench.modes(&["watch-dead"]);
    bench.put("lost.yaml", &pod("lost", STUBBORN));
    // One tick at least, in which the event is thrown away.
    bench.modes(&["watch-dead", "unkillable"]);
    bench.modes(&[]);
    bench.settle("later");
    assert_eq!(bench.live("lost"), None);
    // With one it is found.
    let listing = Bench::new(&["--list-period", "5s", "--time-scale", "0.1"]);
    listing.modes(&["watch-dead"]);
    listing.put("p.yaml", &pod("p", STUBBORN));
    listing.wait_live("p");
}

#[test]
fn no_17_an_unkillable_container_terminates_for_ever_and_dies_when_it_can() {
    let bench = Bench::new(&QUICK);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 1\n"));
    let record = bench.wait_live("p");
    bench.modes(&["unkillable"]);
    bench.remove("p.yaml");
    bench.wait("the kill fails", |bench| bench.said("Kill container failed"));
    bench.settle("later");
    assert!(alive(&record));
    assert_eq!(bench.live("p").map(|record| record.state), Some(ContainerState::Terminating));
    bench.modes(&[]);
    bench.wait_dead(&record);
}

#[test]
fn no_18_without_a_log_reader_the_pipe_fills_and_the_container_blocks_until_a_new_one_runs() {
    let bench = Bench::new(&QUICK);
    bench.put(
        "p.yaml",
        &pod("p", "while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done"),
    );
    let record = bench.wait_live("p");
    bench.wait("it writes", |bench| !bench.output(&record).is_empty());
    bench.modes(&["log-reader-dead"]);
    let wchan = format!("/proc/{}/wchan", record.pid);
    bench.wait("it blocks in its pipe", |_| fs::read_to_string(&wchan).is_ok_and(|place| place.contains("pipe_write")));
    let written = fs::metadata(&record.log).expect("log").len();
    bench.settle("later");
    assert_eq!(fs::metadata(&record.log).expect("log").len(), written);
    assert!(alive(&record), "it must block, not die of SIGPIPE");
    assert_eq!(bench.live("p").map(|record| record.state), Some(ContainerState::Running));
    // Only a new container has a new reader, and has it although the mode is still on.
    signal(record.pid, Signal::KILL);
    let next = bench.wait_other("p", &record);
    bench.wait("the next container's log grows", |bench| !bench.output(&next).is_empty());
}
