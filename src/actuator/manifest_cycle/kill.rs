//! Ends the loop's shell where the kubelet takes its time, or does not act at all.
//!
//! Invariant: SIGKILL reaches the one process that was recorded, by pid and start time, or nobody. The process is
//! first held by a pidfd and then looked at, so its number cannot pass to another one in between. A kernel before 5.3 has no
//! pidfd, and systemd before 247 does not let one through; there the look comes right before the signal, and a number
//! would have to come round within microseconds. Nothing here needs to be undone: what is killed is frozen, its manifest is
//! out, and the kubelet starts a new one when it is back.
//!
//! No capability is needed for a pod of root's own user namespace. A container of another user refuses the signal
//! (EPERM, CAP_KILL would be needed); the cycle then waits for the kubelet as it does under `kill_after: never`.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::pod_watch::start_ticks;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kill {
    /// The signal was sent to this process; a process in uninterruptible sleep dies when it wakes.
    Sent(u32),
    /// There was nothing left to kill.
    Gone,
    /// It could not be sent.
    Failed(String),
}

/// Kills the process that has this pid and started then.
pub(super) fn kill(proc: &Path, pid: u32, start: u64) -> Kill {
    // 0 would be our own process group, 1 the machine.
    let Some(target) = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw) else {
        return Kill::Failed(format!("{pid} is no process of a pod"));
    };
    let is_it = || match start_ticks(proc, pid) {
        Ok(ticks) => Ok(ticks == Some(start)),
        Err(reason) => Err(Kill::Failed(reason)),
    };
    let sent = match pidfd_open(target, PidfdFlags::empty()) {
        Ok(handle) => match is_it() {
            Ok(true) => pidfd_send_signal(&handle, Signal::KILL),
            Ok(false) => return Kill::Gone,
            Err(failed) => return failed,
        },
        Err(Errno::NOSYS | Errno::PERM) => match is_it() {
            Ok(true) => kill_process(target, Signal::KILL),
            Ok(false) => return Kill::Gone,
            Err(failed) => return failed,
        },
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) => Kill::Sent(pid),
        Err(Errno::SRCH) => Kill::Gone,
        Err(error) => Kill::Failed(format!("process {pid} cannot be killed: {error}")),
    }
}
