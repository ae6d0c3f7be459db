//! Rules 10 to 13: as which attempt a pod comes back, and after which delay.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bench::{Bench, STUBBORN, pod, pod_with, signal};

/// A word of its own for each start, then for ever nothing.
const MARKED: &str = "cat /proc/sys/kernel/random/uuid; while :; do sleep 0.05; done";

#[test]
fn no_10_out_for_less_than_a_tick_counts_as_a_crash() {
    // Scaled: a tick each 6 s, so that none falls between out and in but by great misfortune; least grace 0.2 s.
    let bench = Bench::new(&["--tick", "60s", "--time-scale", "0.1"]);
    let text = pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 1\n");
    bench.put("p.yaml", &text);
    let first = bench.wait_live("p");
    bench.remove("p.yaml");
    bench.put("p.yaml", &text);
    let second = bench.wait_other("p", &first);
    assert_eq!((second.attempt, &second.uid), (1, &first.uid), "{}", bench.log());
    assert!(second.log.ends_with("1.log"));
    // Once more: now the back-off of 10 s (scaled 1 s) runs from the death.
    bench.remove("p.yaml");
    bench.put("p.yaml", &text);
    bench.wait_dead(&second);
    let death = Instant::now();
    let third = bench.wait_other("p", &second);
    assert_eq!(third.attempt, 2, "{}", bench.log());
    assert!(death.elapsed() >= Duration::from_millis(500), "restarted after {:?}", death.elapsed());
}

#[test]
fn no_11_back_after_the_end_is_attempt_0_with_a_log_anew() {
    let bench = Bench::new(&["--time-scale", "0.1"]);
    let text = pod_with("p", MARKED, "  terminationGracePeriodSeconds: 1\n");
    bench.put("p.yaml", &text);
    let first = bench.wait_live("p");
    let marker = bench.wait_for("the first marker", |bench| bench.output(&first).lines().next().map(str::to_owned));
    bench.remove("p.yaml");
    bench.wait("a tick saw it missing", |bench| bench.said("pod is no longer wanted"));
    bench.wait("the record is gone", |bench| bench.records().is_empty());
    bench.put("p.yaml", &text);
    let second = bench.wait_live("p");
    assert_eq!((second.attempt, &second.uid, &second.log), (0, &first.uid, &first.log));
    bench.wait("the second marker", |bench| !bench.output(&second).is_empty());
    assert!(!bench.output(&second).contains(&marker));
}

#[test]
fn no_12_changed_content_starts_long_after_the_old_pods_whole_grace() {
    // Scaled: 10 s of grace are 1 s, and the 7 to 12 s after it 0.7 to 1.2 s.
    let bench = Bench::new(&["--time-scale", "0.1"]);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 10\n"));
    let old = bench.wait_live("p");
    let changed = Instant::now();
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 11\n"));
    bench.wait_dead(&old);
    assert!(changed.elapsed() >= Duration::from_secs(1));
    let new = bench.wait_other("p", &old);
    assert!(changed.elapsed() >= Duration::from_millis(1_700), "started after {:?}", changed.elapsed());
    assert_ne!(new.uid, old.uid);
    assert_eq!(new.attempt, 0);
}

#[test]
fn no_13_a_container_that_dies_alone_is_restarted_then_with_back_off() {
    // Scaled: back-off 0, 1, 2 s.
    let bench = Bench::new(&["--time-scale", "0.1"]);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let mut record = bench.wait_live("p");
    for (attempt, least) in [(1, 0), (2, 1_000), (3, 2_000)] {
        let killed = Instant::now();
        signal(record.pid, Signal::KILL);
        record = bench.wait_other("p", &record);
        assert_eq!(record.attempt, attempt);
        assert!(record.log.ends_with(format!("{attempt}.log")));
        assert!(killed.elapsed() >= Duration::from_millis(least), "attempt {attempt} after {:?}", killed.elapsed());
    }
    // One dead container is remembered beside the live one.
    assert_eq!(bench.records().iter().map(|record| record.attempt).collect::<Vec<_>>(), [2, 3]);
}
