//! Finding the loop's shell among all processes, by the pod's cgroup.
//!
//! In the pod's cgroups stand the sandbox's `/pause`, the loop's shell with its children, whatever was `exec`ed, and with
//! some runtimes the process that made the pid namespace. The shell is pid 1 of a nested pid namespace, or (host pid
//! namespace) the top of its tree. Zombies do not count: nothing can be expected of them. In the host's pid namespace a child
//! that outlives its killed shell (`sleep`, `curl`) is taken for it until it ends; in one of its own the kernel ends both.

use std::collections::BTreeMap;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use thiserror::Error;

use super::proc_files;

/// Why a look at all processes gave no answer.
#[derive(Debug, Error)]
pub(super) enum SearchError {
    #[error("cannot list processes: {0}")]
    List(String),
    #[error("cannot see all processes: pid 1 is hidden in /proc")]
    Hidden,
}

/// The loop's shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    /// How many shells of the loop there are.
    pub(super) copies: usize,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    parent: Option<u32>,
    start_ticks: u64,
    is_init: bool,
}

/// Looks at all processes for the shell in the cgroup of the pod with this uid.
///
/// # Errors
/// [`SearchError`] if processes cannot be listed, or some are hidden from us: then absence proves nothing.
pub(super) fn find(uid: &str) -> Result<Option<Found>, SearchError> {
    let mut system = System::new().map_err(|error| SearchError::List(format!("{error:?}")))?;
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing().without_tasks());
    if system.process(Pid::from_u32(1)).is_none() {
        return Err(SearchError::Hidden);
    }
    let names = PodNames::new(uid);
    let mut members = BTreeMap::new();
    for (pid, process) in system.processes() {
        let pid = pid.as_u32();
        if !proc_files::cgroups(pid).is_some_and(|cgroups| names.are_in(&cgroups)) || proc_files::is_pause(pid) {
            continue;
        }
        let Some(counters) = proc_files::counters(pid).filter(proc_files::Counters::is_alive) else { continue };
        let parent = process.parent().map(Pid::as_u32);
        let is_init = proc_files::is_namespace_init(pid);
        members.insert(pid, Member { parent, start_ticks: counters.start_ticks, is_init });
    }
    Ok(choose(&members))
}

/// Picks the shell among the pod's processes.
fn choose(members: &BTreeMap<u32, Member>) -> Option<Found> {
    let found = |copies, (pid, member): (&u32, &Member)| Found { pid: *pid, start_ticks: member.start_ticks, copies };
    let inits = || members.iter().filter(|(_, member)| member.is_init && !has_init_above(members, member));
    let tops = || members.iter().filter(|(_, member)| member.parent.is_none_or(|parent| !members.contains_key(&parent)));
    // Of several containers the newest is the current one; of several trees in one container the oldest is the loop, and
    // the others were `exec`ed into it.
    match inits().max_by_key(|(_, member)| member.start_ticks) {
        Some(init) => Some(found(inits().count(), init)),
        None => tops().min_by_key(|(_, member)| member.start_ticks).map(|top| found(tops().count(), top)),
    }
}

/// Whether an ancestor in the pod is a namespace's pid 1 too: then this one is the loop's own doing.
fn has_init_above(members: &BTreeMap<u32, Member>, member: &Member) -> bool {
    let mut above = member.parent;
    // No chain is longer than the number of members, even if pids were reused while we looked.
    for _ in 0..members.len() {
        match above.and_then(|pid| members.get(&pid)) {
            Some(parent) if parent.is_init => return true,
            Some(parent) => above = parent.parent,
            None => return false,
        }
    }
    false
}

/// How a pod's cgroup is called by the two cgroup drivers.
pub(crate) struct PodNames([String; 2]);

impl PodNames {
    pub(crate) fn new(uid: &str) -> Self {
        // systemd separates slices by `-`, so the kubelet writes `_` in the uid.
        Self([format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))])
    }

    /// Whether one of the lines `<id>:<controllers>:<path>` lies in the pod's cgroup.
    pub(crate) fn are_in(&self, cgroups: &str) -> bool {
        self.0.iter().any(|name| {
            cgroups.match_indices(name.as_str()).any(|(at, _)| {
                let before = cgroups.get(..at).and_then(|text| text.chars().next_back());
                let after = cgroups.get(at + name.len()..).and_then(|text| text.chars().next());
                // `…/pod<uid>/…`, or `…-pod<uid>.slice/…`.
                matches!(before, Some('/' | '-')) && matches!(after, None | Some('/' | '.' | '\n'))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "4bf9a41669edd85822ec662e2be5008b";

    #[test]
    fn the_pods_cgroup_is_known_with_either_driver_and_version() {
        let names = PodNames::new(UID);
        let with_dashes = PodNames::new("4bf9a416-69ed-d858");
        for cgroups in [
            format!("11:memory:/kubepods/burstable/pod{UID}/0123abc\n"),
            format!("0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID}.slice/cri-containerd-01.scope\n"),
            format!("0::/kubepods/pod{UID}"),
        ] {
            assert!(names.are_in(&cgroups), "{cgroups}");
            assert!(!with_dashes.are_in(&cgroups), "{cgroups}");
        }
        assert!(with_dashes.are_in("0::/kubepods-burstable-pod4bf9a416_69ed_d858.slice/x\n"));
        assert!(with_dashes.are_in("0::/kubepods/pod4bf9a416-69ed-d858/x\n"));
        for other in [format!("0::/kubepods/pod{UID}0/x"), format!("0::/kubepods/nopod{UID}/x"), "0::/\n".to_owned()] {
            assert!(!names.are_in(&other), "{other}");
        }
    }

    fn member(parent: u32, start_ticks: u64, is_init: bool) -> Member {
        Member { parent: Some(parent), start_ticks, is_init }
    }

    #[test]
    fn the_shell_is_the_namespaces_init_below_the_process_that_made_it() {
        let unshare = (10, member(2, 100, false));
        let members =
            BTreeMap::from([unshare, (11, member(10, 101, true)), (12, member(11, 102, false)), (13, member(2, 103, false))]);
        assert_eq!(choose(&members), Some(Found { pid: 11, start_ticks: 101, copies: 1 }));
    }

    #[test]
    fn without_a_namespace_it_is_the_top_of_the_tree() {
        let members = BTreeMap::from([(11, member(2, 101, false)), (12, member(11, 102, false)), (13, member(12, 103, false))]);
        assert_eq!(choose(&members), Some(Found { pid: 11, start_ticks: 101, copies: 1 }));
        assert_eq!(choose(&BTreeMap::new()), None);
    }

    #[test]
    fn copies_are_counted_and_nested_namespaces_of_the_loop_are_not() {
        let members = BTreeMap::from([(11, member(2, 101, true)), (12, member(11, 102, true)), (21, member(2, 300, true))]);
        assert_eq!(choose(&members), Some(Found { pid: 21, start_ticks: 300, copies: 2 }));
    }
}
