//! Whether the old pod is really gone: by process and cgroup, never by the kubelet's `/pods`, which lists
//! wanted pods and so is up to 30 s early.
//!
//! Invariant: what cannot be read is [`PodState::Unknown`], never `Gone`. Bounded: a cgroup tree of more than
//! [`DIRECTORIES_MAX`] directories is not walked to its end. Cancel-safe: a look has no state.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::kill::{Kill, kill};
use crate::actuator::journal::PodRecord;
use crate::policy::LoopPolicy;
use crate::sensor::process::is_init_in;

/// Enough for a node of some hundred pods in a dozen v1 hierarchies.
const DIRECTORIES_MAX: usize = 50_000;
/// A pod's directory lies at most `kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod<uid>.slice`
/// below its hierarchy; some room for a hierarchy's own name and for nesting.
const DEPTH_MAX: usize = 8;

/// The loop's pod has a handful; whatever is beyond this is not needed to tell that some are left.
const PROCESSES_MAX: usize = 256;

/// What is left of the old pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodState {
    /// A process is left; which.
    Present(String),
    /// No process of the loop is left, but its cgroup directories are, and its sandbox may be: the kubelet has not finished
    /// with it.
    Empty,
    /// Neither process nor cgroup directory is left.
    Gone,
    /// The process that was recorded is gone, and a container of the same pod has been started since: the kubelet does not
    /// act on the removal, and restarted what had ended. Which process it is.
    Reborn(String),
    /// It cannot be told; why.
    Unknown(String),
}

/// Watches one pod die.
pub trait PodWatch: Sync {
    /// What is journalled of the pod.
    fn record(&self) -> PodRecord;
    /// One look, bounded in time.
    fn state(&self) -> impl Future<Output = PodState> + Send;
    /// Kills the process that was recorded, if it is still that one.
    fn kill(&self) -> impl Future<Output = Kill> + Send;
}

/// Looks at `/proc` and at the cgroup file system, v1 or v2.
#[derive(Debug, Clone)]
pub struct ProcCgroupWatch {
    record: PodRecord,
    proc: PathBuf,
    cgroup: PathBuf,
}

impl ProcCgroupWatch {
    /// The loop's pod, known by its process (pid and start time in ticks) and the UID in that process's
    /// cgroup; without those, by the UIDs in the names of its log directories. Blocks.
    #[must_use]
    pub fn find(policy: &LoopPolicy, process: Option<(u32, u64)>) -> Self {
        Self::find_in(policy, process, Path::new("/proc"), Path::new("/sys/fs/cgroup"))
    }

    fn find_in(policy: &LoopPolicy, process: Option<(u32, u64)>, proc: &Path, cgroup: &Path) -> Self {
        let mut uids = BTreeSet::new();
        if let Some((pid, _)) = process
            && let Ok(text) = std::fs::read_to_string(proc.join(pid.to_string()).join("cgroup"))
        {
            uids.extend(text.lines().filter_map(uid_in_cgroup_path));
        }
        if uids.is_empty() {
            uids = uids_in_logs(policy);
        }
        let record = PodRecord {
            namespace: policy.namespace.clone(),
            name: policy.pod.clone(),
            uids: uids.into_iter().collect(),
            process,
        };
        Self { record, proc: proc.to_owned(), cgroup: cgroup.to_owned() }
    }

    /// The blocking part of a look.
    fn look(&self) -> PodState {
        if let Some((pid, start)) = self.record.process {
            match start_ticks(&self.proc, pid) {
                Ok(Some(ticks)) if ticks == start => return PodState::Present(format!("process {pid}")),
                Ok(_) => {}
                Err(reason) => return PodState::Unknown(reason),
            }
        }
        if self.record.uids.is_empty() && self.record.process.is_none() {
            return PodState::Unknown("neither a process nor a uid of the pod is known".to_owned());
        }
        if self.record.uids.is_empty() {
            // The process is all there is to go by; the kubelet's record may still be there.
            return PodState::Empty;
        }
        let mut walk = Walk { uids: &self.record.uids, budget: DIRECTORIES_MAX, found: false, processes: BTreeMap::new() };
        if let Err(reason) = walk.directory(&self.cgroup, 0, false) {
            return PodState::Unknown(reason);
        }
        if let Some(pid) = walk.processes.keys().find(|pid| self.is_successor(**pid)) {
            return PodState::Reborn(format!("process {pid}"));
        }
        // In a pod that the kubelet has not finished with, the sandbox goes after the container, or not at all.
        let ours = walk.processes.into_iter().find(|(pid, _)| !self.is_sandbox(*pid));
        match ours {
            Some((pid, cgroup)) => PodState::Present(format!("process {pid} in {}", cgroup.display())),
            None if walk.found => PodState::Empty,
            None => PodState::Gone,
        }
    }

    /// The first process of a container that is younger than the one that was recorded; a child that outlives that one is no
    /// container's first process.
    fn is_successor(&self, pid: u32) -> bool {
        self.is_init_started(pid, |ticks, recorded| ticks > recorded)
    }

    /// The sandbox's own process is there before any container of its pod.
    fn is_sandbox(&self, pid: u32) -> bool {
        self.is_init_started(pid, |ticks, recorded| ticks < recorded)
    }

    fn is_init_started(&self, pid: u32, when: impl Fn(u64, u64) -> bool) -> bool {
        let Some((_, recorded)) = self.record.process else { return false };
        let started = start_ticks(&self.proc, pid).is_ok_and(|ticks| ticks.is_some_and(|ticks| when(ticks, recorded)));
        let status = || std::fs::read_to_string(self.proc.join(pid.to_string()).join("status")).unwrap_or_default();
        started && is_init_in(&status())
    }
}

impl PodWatch for ProcCgroupWatch {
    fn record(&self) -> PodRecord {
        self.record.clone()
    }

    async fn state(&self) -> PodState {
        let watch = self.clone();
        match tokio::task::spawn_blocking(move || watch.look()).await {
            Ok(state) => state,
            Err(error) => PodState::Unknown(format!("the look at the pod broke off: {error}")),
        }
    }

    async fn kill(&self) -> Kill {
        match self.record.process {
            Some((pid, start)) => kill(&self.proc, pid, start),
            None => Kill::Failed("the loop's process is not known".to_owned()),
        }
    }
}

/// UIDs in the names of log directories, `<namespace>_<pod>-<node>_<uid>`. A static pod's UID has no dashes, so
/// that the pods of a workload whose name begins in the same way are left out.
fn uids_in_logs(policy: &LoopPolicy) -> BTreeSet<String> {
    let prefix = format!("{}_{}-", policy.namespace, policy.pod);
    let names = std::fs::read_dir(&policy.log_root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let uid = |name: &OsStr| Some(name.to_str()?.strip_prefix(&prefix)?.rsplit_once('_')?.1.to_owned());
    let is_static = |uid: &String| uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    names.filter_map(|name| uid(&name)).filter(is_static).collect()
}

/// A pod's UID in a line of `/proc/<pid>/cgroup`, in the form of log directories: the systemd driver
/// writes `_` for the `-` of a UID.
fn uid_in_cgroup_path(line: &str) -> Option<String> {
    line.split('/').rev().find_map(|part| {
        let uid = part.strip_suffix(".slice").unwrap_or(part).rsplit_once("pod")?.1;
        let hex = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_');
        hex.then(|| uid.replace('_', "-"))
    })
}

/// Start time of a process; `None` if there is none, or only its zombie.
pub(super) fn start_ticks(proc: &Path, pid: u32) -> Result<Option<u64>, String> {
    let path = proc.join(pid.to_string()).join("stat");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(3) => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    // The command, field 2, is in parentheses and may hold any character.
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    match (fields.first(), fields.get(19).and_then(|ticks| ticks.parse().ok())) {
        (Some(&("Z" | "X")), _) => Ok(None),
        (Some(_), Some(ticks)) => Ok(Some(ticks)),
        (_, _) => Err(format!("{} is not as expected", path.display())),
    }
}

/// A walk over all hierarchies.
struct Walk<'a> {
    uids: &'a [String],
    budget: usize,
    /// A directory of the pod exists.
    found: bool,
    /// The pod's processes, each with a cgroup that lists it.
    processes: BTreeMap<u32, PathBuf>,
}

impl Walk<'_> {
    /// Collects what of the pod is below `path`.
    fn directory(&mut self, path: &Path, depth: usize, in_pod: bool) -> Result<(), String> {
        self.budget = self.budget.checked_sub(1).ok_or("the cgroup tree is too large to look through")?;
        if in_pod {
            self.found = true;
            self.note_processes(path)?;
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            // Removed while we walk.
            Err(error) if depth > 0 && error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{} cannot be listed: {error}", path.display())),
        };
        for entry in entries {
            // A directory that is removed while it is listed ends the list with an error.
            let Ok(entry) = entry else { break };
            if depth >= DEPTH_MAX && !in_pod || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let inside = in_pod || self.is_pod(&entry.file_name());
            self.directory(&entry.path(), depth + 1, inside)?;
        }
        Ok(())
    }

    fn note_processes(&mut self, cgroup: &Path) -> Result<(), String> {
        match std::fs::read_to_string(cgroup.join("cgroup.procs")) {
            Ok(text) => {
                let pids =
                    text.lines().filter_map(|line| line.parse().ok()).take(PROCESSES_MAX.saturating_sub(self.processes.len()));
                self.processes.extend(pids.map(|pid| (pid, cgroup.to_owned())));
                Ok(())
            }
            Err(error) => match error.raw_os_error() {
                // ENOENT, ENODEV: removed while we look. EOPNOTSUPP: a threaded v2 cgroup, its domain lists them.
                Some(2 | 19 | 95) => Ok(()),
                Some(_) | None => Err(format!("{} cannot be read: {error}", cgroup.join("cgroup.procs").display())),
            },
        }
    }

    fn is_pod(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        let Some((_, uid)) = name.strip_suffix(".slice").unwrap_or(name).rsplit_once("pod") else { return false };
        self.uids.iter().any(|known| *known == uid || known.replace('-', "_") == uid)
    }
}

#[cfg(test)]
#[path = "tests/pod_watch.rs"]
mod tests;
