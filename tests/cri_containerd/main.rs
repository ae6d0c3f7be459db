//! etcd's container as a real containerd and runc tell of it, by the very calls of a diagnosis.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod containerd;
mod messages;

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use containerd::{Containerd, eventually};
use fip_watchdog::diagnose::container::by_runs;
use fip_watchdog::diagnose::evidence::{Container, ContainerState};
use fip_watchdog::sensor::cri::{Run, RunState, runs};
use rustix::process::Signal;

async fn etcd(containerd: &Containerd) -> Vec<Run> {
    runs(&containerd.socket(), "kube-system", "etcd").await.unwrap()
}

fn judged(runs: &[Run]) -> Container {
    #[expect(clippy::disallowed_methods, reason = "the runtime's stamps are of the wall clock")]
    let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    by_runs(runs, i64::try_from(now.as_nanos()).unwrap(), "cri").unwrap()
}

async fn until(containerd: &Containerd, what: &str, wanted: impl Fn(&Run) -> bool) -> Vec<Run> {
    eventually(what, async || Some(etcd(containerd).await).filter(|runs| runs.first().is_some_and(&wanted))).await
}

#[tokio::test]
async fn a_container_is_absent_running_ended_and_in_a_crash_loop() {
    let mut containerd = Containerd::start().await;
    assert_eq!(judged(&etcd(&containerd).await).state, ContainerState::Absent);
    containerd.run_sandbox().await;
    containerd.run_container("other", 0, "exec /bin/busybox sleep 100000").await;
    assert_eq!(etcd(&containerd).await, [], "another container of the pod is not etcd's");

    let id = containerd.run_container("etcd", 0, "exec /bin/busybox sleep 100000").await;
    let seen = until(&containerd, "it runs", |run| run.state == RunState::Running).await;
    let container = judged(&seen);
    assert_eq!((container.state, container.restarts, container.exit_code), (ContainerState::Running, Some(0), None));
    assert!(container.age_ms.is_some_and(|age| age < 60_000), "{container:?}");
    let pid = container.pid.expect("containerd tells the process");
    let command = Path::new("/proc").join(pid.to_string()).join("cmdline");
    // The runtime counts it as running while it still becomes the program.
    let sleeps = async || std::fs::read(&command).ok().filter(|text| String::from_utf8_lossy(text).contains("sleep"));
    eventually("that is the process", sleeps).await;

    containerd.stop_container(&id).await;
    let container = judged(&until(&containerd, "it ended", |run| run.state == RunState::Exited).await);
    assert_eq!((container.state, container.exit_code, container.pid), (ContainerState::Exited, Some(137), None));

    // As a kubelet does: the same container created anew, its attempt one more.
    for attempt in 1..=3 {
        containerd.run_container("etcd", attempt, "exit 3").await;
        let ended = |run: &Run| run.attempt == attempt && run.state == RunState::Exited;
        let container = judged(&until(&containerd, "it ended again", ended).await);
        let expected = (ContainerState::CrashLooping, Some(attempt), Some(3));
        assert_eq!((container.state, container.restarts, container.exit_code), expected);
    }
    containerd.run_container("etcd", 4, "exec /bin/busybox sleep 100000").await;
    let container = judged(&until(&containerd, "it runs again", |run| run.state == RunState::Running).await);
    assert_eq!((container.state, container.restarts), (ContainerState::CrashLooping, Some(4)), "for how long, nobody knows");

    containerd.signal(Signal::STOP);
    let socket = containerd.socket();
    let hung = tokio::time::timeout(Duration::from_millis(500), runs(&socket, "kube-system", "etcd")).await;
    assert!(hung.is_err(), "a stopped runtime answers: {hung:?}");
    containerd.signal(Signal::CONT);
    containerd.remove_sandbox().await;
    assert_eq!(etcd(&containerd).await, []);
}
