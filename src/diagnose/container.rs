//! What the runs of etcd's container come to: running, ended, or again and again. Pure.
//!
//! Invariant: a restart is no crash loop: that takes two ends after short runs. Ages are by the runtime's stamps against the wall clock, and
//! none where a stamp is from the future.

use super::evidence::{Container, ContainerState, EtcdLog, LogClass};
use crate::sensor::cri::{Run, RunState};

/// A run that was longer was no crash: the kubelet forgets its back-off after as long.
const SHORT_RUN_MS: u64 = 600_000;

/// After a crash the kubelet waits for 5 min at most: whatever ended longer ago is not being restarted.
const RESTARTED_WITHIN_MS: u64 = 600_000;

/// Starts in the log's last quarter of an hour that are a loop, while etcd runs.
const STARTS_OF_A_LOOP: u32 = 3;

/// What the runs of a container, newest first, come to at `now_ns` (nanoseconds since the Unix epoch); `None` if the runtime cannot tell.
#[must_use]
pub fn by_runs(runs: &[Run], now_ns: i64, source: &str) -> Option<Container> {
    let absent = Container { source: source.to_owned(), state: ContainerState::Absent, ..Container::default() };
    let Some(newest) = runs.first() else { return Some(absent) };
    let last_end = runs.iter().find(|run| run.state == RunState::Exited);
    let ended_short = last_end.is_some_and(|run| {
        let ran = between(run.started_at, run.finished_at).is_some_and(|ran| ran < SHORT_RUN_MS);
        // A container whose process could not even be started has no start.
        let recently = between(run.finished_at, now_ns).is_some_and(|ago| ago < RESTARTED_WITHIN_MS);
        recently && (ran || run.started_at == 0)
    });
    let restarts = Some(newest.attempt);
    let container = |state, age_ms| Container { state, restarts, age_ms, ..absent.clone() };
    let loops_or = |ends, state| if ended_short && newest.attempt >= ends { ContainerState::CrashLooping } else { state };
    match newest.state {
        RunState::Unknown => None,
        RunState::Running => {
            // Attempt 1 has ended once.
            let running = container(loops_or(2, ContainerState::Running), between(newest.started_at, now_ns));
            Some(Container { pid: newest.pid, ..running })
        }
        RunState::Created | RunState::Exited => {
            let Some(end) = last_end else { return Some(Container { restarts, ..absent }) };
            let exited = container(loops_or(1, ContainerState::Exited), between(end.finished_at, now_ns));
            Some(Container { exit_code: Some(end.exit_code), ..exited })
        }
    }
}

/// Milliseconds between two stamps; `None` if one is missing, or they are in the wrong order by more than what clocks wobble.
fn between(from_ns: i64, to_ns: i64) -> Option<u64> {
    const WOBBLE_MS: i64 = 5000;
    let ms = to_ns.checked_sub(from_ns)? / 1_000_000;
    if from_ns <= 0 || ms < -WOBBLE_MS { None } else { Some(u64::try_from(ms).unwrap_or(0)) }
}

/// Adds what etcd's log tells of its starts, the first of which is no restart, where there was no runtime to count them.
#[must_use]
pub fn with_log(container: Container, log: &EtcdLog) -> Container {
    let starts: u32 = log.lines.iter().filter(|line| line.class == LogClass::Start).map(|line| line.count).sum();
    let of_now = log.last_line_age_ms.is_some_and(|age| age < RESTARTED_WITHIN_MS);
    if !container.source.starts_with("process") || !of_now || starts == 0 {
        return container;
    }
    let loops = match container.state {
        ContainerState::Running => starts >= STARTS_OF_A_LOOP && container.age_ms.is_some_and(|age| age < SHORT_RUN_MS),
        ContainerState::Exited | ContainerState::Absent => starts >= 2,
        ContainerState::CrashLooping => true,
    };
    let state = if loops { ContainerState::CrashLooping } else { container.state };
    Container { state, restarts: container.restarts.max(Some(starts - 1)), ..container }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::evidence::LogLine;

    const SECOND: i64 = 1_000_000_000;
    const NOW: i64 = 1_800_000_000 * SECOND;

    fn running(attempt: u32, age_s: i64) -> Run {
        Run { state: RunState::Running, attempt, started_at: NOW - age_s * SECOND, pid: Some(7), ..Run::default() }
    }

    fn exited(attempt: u32, ran_s: i64, ago_s: i64) -> Run {
        let finished_at = NOW - ago_s * SECOND;
        Run {
            state: RunState::Exited,
            attempt,
            started_at: finished_at - ran_s * SECOND,
            finished_at,
            exit_code: 2,
            ..Run::default()
        }
    }

    fn state(runs: &[Run]) -> ContainerState {
        by_runs(runs, NOW, "cri").unwrap().state
    }

    #[test]
    fn a_restart_is_no_loop_and_two_short_runs_are() {
        use ContainerState::{Absent, CrashLooping, Exited, Running};
        for (runs, expected) in [
            (vec![], Absent),
            (vec![running(0, 5)], Running),
            (vec![running(7, 5)], Running),
            (vec![running(1, 5), exited(0, 3, 10)], Running),
            (vec![running(7, 5), exited(6, 86_400, 10)], Running),
            (vec![running(7, 5000), exited(6, 3, 5010)], Running),
            (vec![running(2, 5), exited(1, 3, 10)], CrashLooping),
            (vec![exited(0, 3, 10)], Exited),
            (vec![exited(3, 86_400, 10)], Exited),
            (vec![exited(3, 3, 4000)], Exited),
            (vec![exited(1, 3, 10)], CrashLooping),
            (vec![Run { state: RunState::Created, attempt: 2, ..Run::default() }, exited(1, 3, 10)], CrashLooping),
            (vec![Run { state: RunState::Created, ..Run::default() }], Absent),
            (vec![Run { started_at: 0, exit_code: 128, ..exited(4, 0, 10) }], CrashLooping),
        ] {
            assert_eq!(state(&runs), expected, "{runs:?}");
        }
        assert_eq!(by_runs(&[Run::default()], NOW, "cri"), None, "the runtime itself does not know");
    }

    #[test]
    fn the_details_are_those_of_the_run_that_counts() {
        let now = by_runs(&[running(2, 5), exited(1, 3, 10)], NOW, "cri /x.sock").unwrap();
        let expected = Container {
            source: "cri /x.sock".to_owned(),
            state: ContainerState::CrashLooping,
            restarts: Some(2),
            age_ms: Some(5000),
            pid: Some(7),
            ..Container::default()
        };
        assert_eq!(now, expected);
        let ended = by_runs(&[exited(0, 3, 10)], NOW, "cri").unwrap();
        assert_eq!((ended.restarts, ended.age_ms, ended.exit_code, ended.pid), (Some(0), Some(10_000), Some(2), None));
        assert_eq!(by_runs(&[running(0, -3600)], NOW, "cri").unwrap().age_ms, None, "a clock that was set back makes no age");
        for odd in [i64::MIN, -1, 0, i64::MAX] {
            let run = Run { started_at: odd, finished_at: odd, ..exited(1, 1, 1) };
            assert!(by_runs(&[run], NOW, "cri").is_some() && by_runs(&[run], odd, "cri").is_some());
        }
    }

    fn log(starts: u32, age: u64) -> EtcdLog {
        let line = LogLine { class: LogClass::Start, count: starts, ..LogLine::default() };
        EtcdLog { last_line_age_ms: Some(age), lines: vec![line], ..EtcdLog::default() }
    }

    #[test]
    fn without_a_runtime_the_logs_starts_make_a_loop() {
        use ContainerState::{Absent, CrashLooping, Running};
        let process = |state| Container { source: "process".to_owned(), state, age_ms: Some(1000), ..Container::default() };
        for (container, log, expected) in [
            (process(Running), log(1, 500), (Running, Some(0))),
            (process(Running), log(2, 500), (Running, Some(1))),
            (process(Running), log(3, 500), (CrashLooping, Some(2))),
            (Container { age_ms: Some(3_600_000), ..process(Running) }, log(3, 500), (Running, Some(2))),
            (process(Absent), log(1, 500), (Absent, Some(0))),
            (process(Absent), log(2, 500), (CrashLooping, Some(1))),
            (process(Absent), log(9, 5_000_000), (Absent, None)),
            (Container { source: "cri".to_owned(), ..process(Running) }, log(9, 500), (Running, None)),
            (process(Running), EtcdLog::default(), (Running, None)),
        ] {
            let told = with_log(container.clone(), &log);
            assert_eq!((told.state, told.restarts), expected, "{container:?} {log:?}");
        }
    }
}
