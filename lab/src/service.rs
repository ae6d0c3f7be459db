//! The processes of a node's service, found from the host by their cgroup: a frozen or busy node need not be asked.

use std::fs;
use std::path::PathBuf;

use rustix::process::Pid;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As the host knows it.
    pub pid: Pid,
    /// The letter of `proc_pid_stat(5)`.
    pub state: char,
    /// The name of what it executes, 15 bytes at most.
    pub name: String,
}

impl Process {
    /// That process as it is now; none when it is gone.
    #[must_use]
    pub fn look(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // "4711 (name) T …"; the name may hold anything.
        let (before, after) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        Some(Self { pid, state: after.trim_start().chars().next()?, name })
    }

    /// It has not ended.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Stopped by a signal, and by no tracer.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// Those of a service; `groups` are its cgroups, one in each hierarchy.
#[must_use]
pub fn processes(groups: &[PathBuf]) -> Vec<Process> {
    let texts = groups.iter().filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok());
    let mut pids: Vec<i32> =
        texts.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(|pid| Process::look(Pid::from_raw(pid)?)).collect()
}

/// All processes below `root`, parents first.
#[must_use]
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = children(root);
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid));
        next += 1;
    }
    found
}

fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn grandchildren_are_descendants() {
        // They all end when their standard input does.
        let script = "(sh -c 'echo ready; read line'; :); :";
        let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let family = descendants(Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap());
        let names: Vec<String> = family.iter().filter_map(|&pid| Process::look(pid)).map(|process| process.name).collect();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(names, ["sh", "sh"]);
    }

    #[test]
    fn a_process_is_seen_as_it_is_and_one_that_is_gone_is_none() {
        let own = Process::look(rustix::process::getpid()).unwrap();
        assert!(own.is_alive() && !own.is_stopped(), "{own:?}");
        assert_eq!(Pid::from_raw(i32::MAX).and_then(Process::look), None);
        assert!(processes(&[PathBuf::from("/sys/fs/cgroup/there-is-none")]).is_empty());
    }
}
