//! SIGSTOP takes effect thread by thread: one that still runs on another core may answer meanwhile.

use std::time::Duration;

use fip_watchdog::runtime::clock;

/// Waits until every thread of a process that was sent SIGSTOP has stopped.
pub fn until_stopped(pid: u32) {
    let end = clock::now() + Duration::from_secs(20);
    while !is_stopped(pid) {
        assert!(clock::now() < end, "process {pid} does not stop");
        std::thread::yield_now();
    }
}

fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}
