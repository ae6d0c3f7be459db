//! The loop's processes: the shell, what it started, what else is in its pod, and its parent.
//!
//! One look at each process of the node, two small files each. Bounded in number and in time; a look that did not come to
//! its end says so, because only a whole one proves that somebody is not there. Blocking.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::evidence::{PROCESSES_MAX, Process, Role};
use super::process::{Stat, look, read, stat};
use crate::decision::time::Moment;
use crate::runtime::clock;
use crate::sensor::process::PodNames;

/// `kernel.pid_max` of a small machine; a node has some hundreds.
const PIDS_MAX: usize = 32_768;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Family {
    pub(super) processes: Vec<Process>,
    /// All processes were looked at, and none is hidden from us.
    pub(super) complete: bool,
}

/// Finds the family of the shell with this pid and start time, and of the pods with these uids, until `end`.
pub(super) fn family(proc: &Path, shell: Option<(u32, u64)>, uids: &[String], end: Moment) -> Family {
    let Some(pids) = pids(proc) else { return Family::default() };
    let names: Vec<PodNames> = uids.iter().map(|uid| PodNames::new(uid)).collect();
    let (mut stats, mut in_pod, mut complete) = (BTreeMap::new(), BTreeSet::new(), pids.len() < PIDS_MAX);
    for pid in pids {
        if clock::now() > end {
            complete = false;
            break;
        }
        let Some(stat) = stat(proc, pid) else { continue };
        stats.insert(pid, stat);
        if read(proc, pid, "cgroup").is_some_and(|cgroups| names.iter().any(|names| names.are_in(&cgroups))) {
            in_pod.insert(pid);
        }
    }
    // Mounted with `hidepid`, and without CAP_SYS_PTRACE, /proc leaves out whom we may not trace; pid 1 is among them.
    complete &= stats.contains_key(&1);
    let shell = shell.filter(|(pid, start)| stats.get(pid).is_some_and(|stat| stat.start_ticks == *start)).map(|(pid, _)| pid);
    let mut chosen: Vec<(u8, u64, u32, Role)> = roles(&stats, &in_pod, shell)
        .into_iter()
        .filter_map(|(pid, role)| Some((rank(role), stats.get(&pid)?.start_ticks, pid, role)))
        .collect();
    // The shell first, then what it started: if there are too many, the others are what can be spared.
    chosen.sort_unstable_by_key(|(rank, start, pid, _)| (*rank, *start, *pid));
    chosen.truncate(PROCESSES_MAX);
    let processes = chosen.into_iter().filter_map(|(_, _, pid, role)| Some(look(proc, pid, role, stats.remove(&pid)?)));
    Family { processes: processes.collect(), complete }
}

const fn rank(role: Role) -> u8 {
    match role {
        Role::Shell => 0,
        Role::Parent => 1,
        Role::Child => 2,
        Role::Pod => 3,
        Role::Reader => 4,
    }
}

fn roles(stats: &BTreeMap<u32, Stat>, in_pod: &BTreeSet<u32>, shell: Option<u32>) -> BTreeMap<u32, Role> {
    let mut roles: BTreeMap<u32, Role> = in_pod.iter().map(|pid| (*pid, Role::Pod)).collect();
    for pid in stats.keys() {
        if shell.is_some_and(|shell| is_below(stats, *pid, shell)) {
            roles.insert(*pid, Role::Child);
        }
    }
    if let Some(shell) = shell {
        roles.insert(shell, Role::Shell);
        if let Some(parent) = stats.get(&shell).map(|stat| stat.parent).filter(|parent| *parent > 1) {
            roles.insert(parent, Role::Parent);
        }
    }
    roles
}

/// Whether `shell` is among the ancestors of `pid`.
fn is_below(stats: &BTreeMap<u32, Stat>, pid: u32, shell: u32) -> bool {
    let mut above = stats.get(&pid).map(|stat| stat.parent);
    // No chain is longer than the number of processes, even if pids were reused while we looked.
    for _ in 0..stats.len() {
        match above {
            Some(parent) if parent == shell => return true,
            Some(parent) => above = stats.get(&parent).map(|stat| stat.parent),
            None => return false,
        }
    }
    false
}

/// All pids, at most [`PIDS_MAX`]; none if they cannot be listed.
pub(super) fn pids(proc: &Path) -> Option<Vec<u32>> {
    let entries = std::fs::read_dir(proc).ok()?;
    Some(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(PIDS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    fn put(proc: &Path, pid: u32, name: &str, state: char, parent: u32, start: u64, cgroup: &str) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} ({name}) {state} {parent} 1 1 0 -1 4194304 1 1 1 1 1 1 1 1 20 0 1 0 {start} 1 1\n");
        for (file, text) in [("stat", stat.as_str()), ("cgroup", cgroup), ("wchan", "do_wait")] {
            std::fs::File::create(dir.join(file)).unwrap().write_all(text.as_bytes()).unwrap();
        }
    }

    const UID: &str = "4bf9a41669edd85822ec662e2be5008b";

    fn node() -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let pod = format!("0::/kubepods/besteffort/pod{UID}/abc\n");
        put(proc.path(), 1, "systemd", 'S', 0, 1, "0::/init.scope\n");
        put(proc.path(), 700, "containerd-shim", 'S', 1, 500, "0::/system.slice/containerd.service\n");
        put(proc.path(), 705, "pause", 'S', 700, 510, &pod);
        put(proc.path(), 710, "bash", 'S', 700, 600, &pod);
        put(proc.path(), 711, "bash", 'S', 710, 700, &pod);
        put(proc.path(), 712, "curl", 'S', 711, 701, &pod);
        put(proc.path(), 720, "bash", 'S', 1, 50, "0::/user.slice\n");
        proc
    }

    fn later() -> Moment {
        clock::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_shell_its_parent_its_children_and_its_pod_are_told_apart() {
        let proc = node();
        let family = family(proc.path(), Some((710, 600)), &[UID.to_owned()], later());
        let roles: Vec<(u32, Role)> = family.processes.iter().map(|process| (process.pid, process.role)).collect();
        let wanted = [(710, Role::Shell), (700, Role::Parent), (711, Role::Child), (712, Role::Child), (705, Role::Pod)];
        assert_eq!(roles, wanted);
        assert!(family.complete);
    }

    #[test]
    fn a_pid_that_another_process_has_now_is_not_the_shell() {
        let proc = node();
        let family = family(proc.path(), Some((720, 600)), &[UID.to_owned()], later());
        assert!(family.processes.iter().all(|process| process.role == Role::Pod) && family.processes.len() == 4);
    }

    #[test]
    fn where_processes_are_hidden_one_that_is_not_seen_may_be_there() {
        let proc = node();
        let look = |shell| family(proc.path(), shell, &[], later());
        assert!(look(None).complete);
        // `hidepid=1` shows the directory and nothing in it, `hidepid=2` not even that.
        std::fs::remove_file(proc.path().join("1/stat")).unwrap();
        assert!(!look(None).complete && !look(Some((4711, 1))).complete);
        std::fs::remove_dir_all(proc.path().join("1")).unwrap();
        assert!(!look(None).complete);
        // Whom we see is there all the same.
        assert_eq!(look(Some((710, 600))).processes.len(), 4);
    }

    #[test]
    fn a_look_that_ran_out_of_time_proves_nothing() {
        let proc = node();
        let family = family(proc.path(), None, &[UID.to_owned()], Moment::from_origin(Duration::ZERO));
        assert_eq!(family, Family::default());
    }
}
