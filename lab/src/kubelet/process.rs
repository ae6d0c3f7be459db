//! Processes by pid *and* start time, so that a reused pid is never signalled.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Field 22 of `/proc/<pid>/stat`, counted after the command name, which may hold blanks and parentheses.
const START_TICKS_AFTER_NAME: usize = 19;

/// When process `pid` started, in clock ticks since boot; `None` when there is no such process.
#[must_use]
pub fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(START_TICKS_AFTER_NAME)?.parse().ok()
}

/// Whether process `pid` is stopped by a signal.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
}

/// A handle on exactly the process that had `pid` and started at `ticks`.
#[must_use]
pub fn open(pid: i32, ticks: u64) -> Option<OwnedFd> {
    let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // Checked after the handle is there: from here on it cannot be another process.
    (start_ticks(pid) == Some(ticks)).then_some(fd)
}

/// Send `signal`; false when the process is gone.
#[must_use]
pub fn signal(handle: &OwnedFd, signal: Signal) -> bool {
    pidfd_send_signal(handle, signal).is_ok()
}
