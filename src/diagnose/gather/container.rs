//! etcd's container, by the container runtime; without one that knows of it, its process and its unit.
//!
//! ```text
//!   CRI sockets, one after the other ──► runs ──► container.rs judges ──► two looks at its process
//!                 └─ none, silent, or no such container ──► two looks for a process named etcd, systemctl show
//! ```
//!
//! Invariant: a runtime that does not answer is said in `source`, and never makes the container absent. May be dropped at any await.

mod process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::aside::Aside;
use super::unit::{self, Properties};
use crate::diagnose::container::by_runs;
use crate::diagnose::evidence::{Container, ContainerState, EtcdLog, Seen};
use crate::policy::Policy;
use crate::runtime::clock;
use crate::sensor::cri;
use process::Process;

/// etcd's unit, where it is no pod.
pub(super) const UNIT: &str = "etcd.service";

/// Where runtimes listen: containerd, CRI-O, docker by its shims.
const SOCKETS: [&str; 4] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock", "/var/run/dockershim.sock"];

/// For one runtime; it answers in milliseconds.
const RUNTIME_TIME: Duration = Duration::from_millis(1200);

/// For a scan of `/proc`, which is in memory; a loaded node has a thousand processes.
const SCAN_TIME: Duration = Duration::from_millis(1000);

/// Between two looks at the process: systemd starts a unit anew after 100 ms by default, and a sync takes less.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1000);

/// What is asked about the unit.
const PROPERTIES: [&str; 7] =
    ["LoadState", "ActiveState", "SubState", "NRestarts", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestampMonotonic"];

static PROCESSES: Aside = Aside::new("the processes");

/// See the module's head.
pub(super) async fn look(policy: &Policy) -> Seen<Container> {
    let sockets = SOCKETS.map(PathBuf::from);
    let told = by_runtime(&sockets).await;
    let source = match &told {
        Ok(Some(container)) if container.state != ContainerState::Absent => {
            return Seen::Yes(with_process(container.clone()).await);
        }
        Ok(_) => "process".to_owned(),
        Err(reason) => format!("process; {reason}"),
    };
    match (by_process(policy, &source).await, told) {
        // Neither container nor process: the runtime's word has more weight. Likewise if processes are not to be seen.
        (Ok(Container { state: ContainerState::Absent, .. }) | Err(_), Ok(Some(absent))) => Seen::Yes(absent),
        (Ok(container), _) => Seen::Yes(container),
        (Err(why), Ok(None)) => Seen::No(why),
        (Err(why), Err(reason)) => Seen::No(format!("{reason}; {why}")),
    }
}

/// The same with what the log tells of starts.
pub(super) fn with_log(container: Seen<Container>, log: &Seen<EtcdLog>) -> Seen<Container> {
    match (container, log) {
        (Seen::Yes(container), Seen::Yes(log)) => Seen::Yes(crate::diagnose::container::with_log(container, log)),
        (container, Seen::Yes(_) | Seen::No(_)) => container,
    }
}

/// What a runtime says; `None` if there is no runtime.
///
/// # Errors
/// There is one, and it does not tell: as a sentence.
async fn by_runtime(sockets: &[PathBuf]) -> Result<Option<Container>, String> {
    let mut absent = None;
    let mut silent = None;
    // `/run` is in memory: whether a socket is there is no question to a disk.
    for socket in sockets.iter().filter(|socket| socket.exists()) {
        let told = timeout(RUNTIME_TIME, cri::runs(socket, "kube-system", "etcd")).await;
        let source = format!("cri {}", socket.display());
        match told.unwrap_or_else(|_| Err(format!("{} does not answer", socket.display()))) {
            Ok(runs) => match by_runs(&runs, wall_ns(), &source) {
                Some(container) if container.state == ContainerState::Absent => absent = Some(container),
                Some(container) => return Ok(Some(container)),
                None => silent = Some(format!("{} does not know how etcd's container is", socket.display())),
            },
            Err(reason) => silent = Some(reason),
        }
    }
    silent.map_or(Ok(absent), Err)
}

fn wall_ns() -> i64 {
    i64::try_from(clock::wall().as_nanos()).unwrap_or(i64::MAX)
}

/// Adds how the container's process is.
async fn with_process(container: Container) -> Container {
    let Some(pid) = container.pid else { return container };
    let Ok(Some(first)) = scan(move |proc, cgroup| process::look(proc, cgroup, pid)).await else { return container };
    sleep(BETWEEN_LOOKS).await;
    let second = scan(move |proc, cgroup| process::look(proc, cgroup, pid)).await.unwrap_or(None);
    match second.filter(|second| second.is(&first)) {
        Some(second) => Container { process_state: Some(second.state_since(&first)), frozen: second.frozen, ..container },
        None => Container { restarted_while_looking: true, pid: None, ..container },
    }
}

async fn scan<T: Send + 'static>(work: impl FnOnce(&Path, &Path) -> T + Send + 'static) -> Result<T, String> {
    PROCESSES.read(SCAN_TIME, || work(Path::new("/proc"), Path::new("/sys/fs/cgroup"))).await
}

/// What two looks at the processes and systemd say.
///
/// # Errors
/// Processes are not to be seen, as a sentence.
async fn by_process(policy: &Policy, source: &str) -> Result<Container, String> {
    let port = policy.etcd.endpoint.rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok());
    let find = || async move { scan(move |proc, cgroup| process::find(proc, cgroup, port)).await.and_then(|found| found) };
    let first = find().await?;
    let (unit, ()) = tokio::join!(unit::show(UNIT, &PROPERTIES), sleep(BETWEEN_LOOKS));
    let second = find().await?;
    let unit = unit.unwrap_or_default();
    Ok(Container { source: source.to_owned(), ..by_looks(first.as_ref(), second.as_ref(), &unit, clock::now().since_origin()) })
}

/// What two looks come to; `now` is what `CLOCK_MONOTONIC` shows.
fn by_looks(first: Option<&Process>, second: Option<&Process>, unit: &Properties, now: Duration) -> Container {
    let is_unit = unit.get("LoadState") == "loaded";
    let restarts = if is_unit { unit.get("NRestarts").parse::<u32>().ok() } else { None };
    let restarted = match (first, second) {
        (Some(first), Some(second)) => !second.is(first),
        (None, None) => false,
        (Some(_), None) | (None, Some(_)) => true,
    };
    let base = Container { restarts, restarted_while_looking: restarted, ..Container::default() };
    if let Some(process) = second {
        // What was seen to start anew, and had done so before.
        let loops = restarted && restarts.is_none_or(|restarts| restarts >= 2);
        return Container {
            state: if loops { ContainerState::CrashLooping } else { ContainerState::Running },
            age_ms: u64::try_from(process.age().as_millis()).ok(),
            pid: Some(process.pid),
            process_state: Some(first.map_or(process.state, |first| process.state_since(first))),
            frozen: process.frozen,
            ..base
        };
    }
    let ended = if is_unit { end_of(unit) } else { None };
    let waits = unit.get("SubState") == "auto-restart" && restarts.is_some_and(|restarts| restarts >= 1);
    let state = if waits {
        ContainerState::CrashLooping
    } else if ended.is_some() || restarted {
        ContainerState::Exited
    } else {
        ContainerState::Absent
    };
    let age_ms = ended.and_then(|(at, _)| u64::try_from(now.saturating_sub(at).as_millis()).ok());
    Container { state, age_ms, exit_code: ended.map(|(_, code)| code), ..base }
}

/// When the unit's process ended, by `CLOCK_MONOTONIC`, and with what; a signal as container runtimes give it.
fn end_of(unit: &Properties) -> Option<(Duration, i32)> {
    let at: u64 = unit.get("ExecMainExitTimestampMonotonic").parse().ok().filter(|at| *at != 0)?;
    let status: i32 = unit.get("ExecMainStatus").parse().ok()?;
    // waitid(2): CLD_EXITED is 1, the others are signals.
    let code = if unit.get("ExecMainCode") == "1" { status } else { 128_i32.saturating_add(status) };
    Some((Duration::from_micros(at), code))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn process(pid: u32) -> Process {
        Process { pid, start_ticks: 1, state: 'S', in_disk_sleep: BTreeSet::new(), frozen: false }
    }

    fn unit(restarts: u32, sub: &str, exit: &str) -> Properties {
        Properties::of(&format!("LoadState=loaded\nSubState={sub}\nNRestarts={restarts}\n{exit}"))
    }

    const KILLED: &str = "ExecMainCode=2\nExecMainStatus=9\nExecMainExitTimestampMonotonic=7000000\n";
    const FAILED: &str = "ExecMainCode=1\nExecMainStatus=1\nExecMainExitTimestampMonotonic=7000000\n";
    const NOW: Duration = Duration::from_secs(10);

    #[test]
    fn a_process_that_is_there_runs_and_one_that_starts_anew_loops() {
        let look = |first: Option<u32>, second: Option<u32>, unit: &Properties| {
            let (first, second) = (first.map(process), second.map(process));
            let container = by_looks(first.as_ref(), second.as_ref(), unit, NOW);
            (container.state, container.restarts, container.exit_code, container.restarted_while_looking)
        };
        use ContainerState::{Absent, CrashLooping, Exited, Running};
        let none = Properties::default();
        assert_eq!(look(Some(7), Some(7), &none), (Running, None, None, false));
        assert_eq!(look(Some(7), Some(8), &none), (CrashLooping, None, None, true));
        assert_eq!(look(None, Some(8), &unit(0, "running", "")), (Running, Some(0), None, true), "its first start");
        assert_eq!(look(Some(7), Some(8), &unit(5, "running", FAILED)), (CrashLooping, Some(5), None, true));
        assert_eq!(look(None, None, &unit(5, "auto-restart", FAILED)), (CrashLooping, Some(5), Some(1), false));
        assert_eq!(look(Some(7), None, &unit(0, "auto-restart", KILLED)), (Exited, Some(0), Some(137), true));
        assert_eq!(look(None, None, &unit(5, "failed", FAILED)), (Exited, Some(5), Some(1), false), "systemd has given up");
        assert_eq!(look(None, None, &unit(0, "dead", "ExecMainExitTimestampMonotonic=0\n")), (Absent, Some(0), None, false));
        assert_eq!(look(None, None, &Properties::of("LoadState=not-found\nNRestarts=0\n")), (Absent, None, None, false));
        assert_eq!(look(Some(7), None, &none), (Exited, None, None, true));
        let ended = by_looks(None, None, &unit(0, "failed", KILLED), NOW);
        assert_eq!(ended.age_ms, Some(3000));
    }

    #[tokio::test]
    async fn without_a_runtime_there_is_nothing_to_say_and_a_dead_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        assert_eq!(by_runtime(std::slice::from_ref(&socket)).await, Ok(None));
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let dead = by_runtime(std::slice::from_ref(&socket)).await.unwrap_err();
        assert!(dead.contains("cri.sock cannot be reached: Connection refused"), "{dead}");
    }

    #[tokio::test]
    async fn a_container_whose_process_is_not_there_was_ended_while_we_looked() {
        let own = Container { pid: Some(std::process::id()), ..Container::default() };
        let seen = with_process(own).await;
        assert!(seen.process_state.is_some() && !seen.restarted_while_looking);
    }
}
