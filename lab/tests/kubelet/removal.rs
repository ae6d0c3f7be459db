//! Rules 7 to 9: how a pod ends, what is left of it, and when it comes back while it ends.

use std::time::{Duration, Instant};

use fip_lab::kubelet::state_json::ContainerState;

use super::bench::{Bench, STUBBORN, pod, pod_with};

/// Says TERM and goes on.
const TELLS_TERM: &str = "trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.02; done";

#[test]
fn no_07_term_comes_first_and_kill_after_the_grace_period() {
    // Scaled: 20 s of grace are 2 s.
    let bench = Bench::new(&["--time-scale", "0.1"]);
    bench.put("p.yaml", &pod_with("p", TELLS_TERM, "  terminationGracePeriodSeconds: 20\n"));
    let record = bench.wait_live("p");
    bench.wait("the trap is set", |bench| bench.output(&record).contains("ready"));
    let out = Instant::now();
    bench.remove("p.yaml");
    bench.wait("TERM was sent", |bench| bench.output(&record).contains("got TERM"));
    assert_eq!(bench.live("p").map(|record| record.state), Some(ContainerState::Terminating));
    bench.wait_dead(&record);
    assert!(out.elapsed() >= Duration::from_secs(2), "killed after {:?}", out.elapsed());
}

#[test]
fn no_07_a_grace_period_under_two_seconds_is_two_seconds_and_pid_1_ignores_term() {
    let bench = Bench::new(&[]);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 0\n"));
    let record = bench.wait_live("p");
    let out = Instant::now();
    bench.remove("p.yaml");
    bench.wait_dead(&record);
    assert!(out.elapsed() >= Duration::from_secs(2), "killed after {:?}", out.elapsed());
}

#[test]
fn no_08_record_and_cgroup_go_a_while_after_the_death_and_the_logs_with_them() {
    // Scaled up, so that the moment between can be seen on a busy machine: 0.6 to 1.8 s.
    let bench = Bench::new(&["--time-scale", "2"]);
    bench.put("p.yaml", &pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 3\n"));
    let record = bench.wait_live("p");
    assert!(record.cgroup.ends_with(&format!("pod{}/{}", record.uid, record.id)));
    let own = std::fs::read_to_string(format!("/proc/{}/cgroup", record.pid)).expect("cgroup");
    assert!(own.contains(&format!("pod{}", record.uid)), "{own}");
    bench.remove("p.yaml");
    let exited = bench
        .wait_for("the exited record", |bench| bench.records().into_iter().find(|record| record.state == ContainerState::Exited));
    assert!(exited.cgroup_dirs.iter().all(|dir| dir.exists()));
    bench.wait("the record is gone", |bench| bench.records().is_empty());
    bench.wait("the cgroup is gone", |_| exited.cgroup_dirs.iter().all(|dir| !dir.exists()));
    assert!(!record.log.exists());
}

#[test]
fn no_09_back_while_terminating_restarts_after_the_end_as_attempt_0() {
    // Scaled: 3 s of grace, a tick each 0.2 s.
    let bench = Bench::new(&["--time-scale", "0.1"]);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let old = bench.wait_live("p");
    bench.remove("p.yaml");
    bench.wait("a tick saw it missing", |bench| bench.said("pod is no longer wanted"));
    bench.put("p.yaml", &pod("p", STUBBORN));
    bench.wait("the kubelet knows that it is back", |bench| bench.said_times("SyncLoop ADD") == 2);
    assert_eq!(bench.live("p").map(|record| record.id), Some(old.id.clone()));
    let new = bench.wait_other("p", &old);
    assert!(bench.said("Pod will be restarted because it is in the desired set"), "{}", bench.log());
    assert_eq!((new.attempt, &new.uid, &new.log), (0, &old.uid, &old.log));
    assert!(new.start_ticks > old.start_ticks);
}
