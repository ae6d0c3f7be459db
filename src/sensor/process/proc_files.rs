//! The few files of `/proc/<pid>` that the sense reads, and what their counters mean.
//!
//! Invariants: a process that ends between two reads is `None`, never half a reading; no read is longer than [`FILE_BYTES_MAX`],
//! and none of these files waits for the process's memory. `cmdline` does, and is as long as the process likes it to be (prctl(2),
//! `PR_SET_MM_MAP`): it is not read here. Formats: proc(5).

use std::fs::File;
use std::io::Read as _;

/// `cgroup` has a line for each of a dozen hierarchies, with a path in it; the others are shorter.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What `/proc/<pid>/stat` says of one process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters {
    /// Field 3 of `stat`.
    pub(super) state: char,
    /// Field 22 of `stat`.
    pub(super) start_ticks: u64,
    /// Fields 11, 13, 16 and 17 of `stat`: minor and major faults and CPU time of reaped children, added up. Each of
    /// them only grows.
    reaped: u64,
}

impl Counters {
    /// Whether this is the living process that started then. A zombie does nothing any more.
    pub(super) const fn is(&self, start_ticks: u64) -> bool {
        self.start_ticks == start_ticks && self.is_alive()
    }

    /// Neither zombie nor dead.
    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether the shell got on with its loop in between.
    pub(super) const fn show_progress_since(&self, earlier: &Self) -> bool {
        self.reaped > earlier.reaped
    }
}

/// Reads the counters of a process; `None` if there is no such process.
pub(super) fn counters(pid: u32) -> Option<Counters> {
    parse(&read(pid, "stat")?)
}

/// Where the process sleeps in the kernel; `None` if it does not or if that is not to be seen.
pub(super) fn wchan(pid: u32) -> Option<String> {
    read(pid, "wchan").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && name != "0")
}

/// The lines of `/proc/<pid>/cgroup`.
pub(super) fn cgroups(pid: u32) -> Option<String> {
    read(pid, "cgroup")
}

/// Whether this is the sandbox's placeholder: the file that it executes is called `pause`.
pub(super) fn is_pause(pid: u32) -> bool {
    read(pid, "comm").is_some_and(|name| name.trim_end() == "pause")
}

/// Whether the process is pid 1 of a pid namespace below ours.
pub(super) fn is_namespace_init(pid: u32) -> bool {
    read(pid, "status").is_some_and(|status| is_init_in(&status))
}

/// `NSpid` lists the pid in each namespace from that of our `/proc` down to the process's own.
pub(crate) fn is_init_in(status: &str) -> bool {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    pids.split_whitespace().skip(1).last() == Some("1")
}

fn parse(stat: &str) -> Option<Counters> {
    // The command (field 2) may hold spaces and parentheses; the last parenthesis ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Field 3 comes first here.
    let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
    let mut reaped = 0_u64;
    for index in [11, 13, 16, 17] {
        reaped = reaped.saturating_add(number(index)?);
    }
    Some(Counters { state: fields.first()?.chars().next()?, start_ticks: number(22)?, reaped })
}

fn read(pid: u32, file: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/{file}")).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::runtime::clock;

    fn stat(faults: u64) -> String {
        format!("4711 (a ) b) S 1 4711 4711 0 -1 4194304 999 {faults} 888 10 777 666 3 4 20 0 1 0 1234 3133440 373")
    }

    #[test]
    fn counters_are_read_whatever_the_commands_name() {
        let counters = parse(&stat(50)).unwrap();
        assert_eq!(counters, Counters { state: 'S', start_ticks: 1234, reaped: 50 + 10 + 3 + 4 });
        for broken in ["4711 (sh) S 1", "4711 sh S", ""] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn reaped_children_are_progress() {
        let [before, after] = [50, 51].map(|faults| parse(&stat(faults)).unwrap());
        assert!(after.show_progress_since(&before) && !before.show_progress_since(&before));
    }

    #[test]
    fn a_zombie_and_a_reused_pid_are_not_the_process() {
        let living = parse(&stat(1)).unwrap();
        assert!(living.is(1234) && !living.is(1235));
        assert!(!Counters { state: 'Z', ..living }.is(1234));
    }

    #[test]
    fn only_pid_1_of_a_nested_namespace_is_its_init() {
        assert!(is_init_in("Name:\tsh\nNSpid:\t4711\t1\nNSpgid:\t4711\t1\n"));
        for status in ["NSpid:\t1\n", "NSpid:\t4711\n", "NSpid:\t1\t7\n", "NSpid:\n", ""] {
            assert!(!is_init_in(status), "{status}");
        }
    }

    #[test]
    fn no_file_is_read_beyond_the_bound_however_long_it_is() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line", "sh"]).arg("x".repeat(100 * 1024)).stdin(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let end = clock::now() + Duration::from_secs(60);
        // Empty, until the kernel has put the words in their place.
        let read = loop {
            let read = read(child.id(), "cmdline").unwrap();
            if !read.is_empty() || clock::now() > end {
                break read;
            }
            std::thread::yield_now();
        };
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(read.len(), 64 * 1024);
    }
}
