//! Whether the kubelet runs: without it nobody acts on the manifest directory, and a pod that ends stays ended.
//!
//! Asked of the kernel and not of systemd, which may be busy and would be one more thing to wait for: a service that
//! runs has processes in its cgroup, and systemd removes the cgroup when the last one is gone. A kubelet that runs and
//! does not act is not seen here; a cycle finds that out, by what does not happen.
//!
//! Invariant: what cannot be read is unknown, never `Down`. Blocking, a few small reads; no state.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::decision::observation::{KubeletView, Reading};
use crate::decision::time::Moment;
use crate::policy::LoopPolicy;

/// A v1 host has systemd's tree in `systemd`; a hybrid one there and in `unified`; a v2 one has nothing else.
const TREES: [&str; 3] = ["systemd", "unified", ""];

/// Where units run that ask for nothing else.
const DEFAULT_SLICE: &str = "system.slice";

/// The sense that watches the kubelet.
#[derive(Debug, Clone)]
pub struct KubeletSensor {
    unit: String,
    cgroup: PathBuf,
}

impl KubeletSensor {
    /// A sense for the policy's kubelet unit.
    #[must_use]
    pub fn new(policy: &LoopPolicy) -> Self {
        Self { unit: policy.kubelet_unit.clone(), cgroup: PathBuf::from("/sys/fs/cgroup") }
    }

    /// Looks at the unit's cgroup. Blocking.
    #[must_use]
    pub fn read(&self, now: Moment) -> Reading<KubeletView> {
        match self.runs() {
            Ok(true) => Reading::Fresh { value: KubeletView::Running, at: now },
            Ok(false) => Reading::Fresh { value: KubeletView::Down, at: now },
            Err(reason) => Reading::Unknown(reason),
        }
    }

    fn runs(&self) -> Result<bool, String> {
        let trees = TREES.map(|name| self.cgroup.join(name));
        let Some(tree) = trees.iter().find(|tree| tree.join(DEFAULT_SLICE).is_dir()) else {
            return Err(format!("systemd's units are not to be seen below {}", self.cgroup.display()));
        };
        if let Some(runs) = has_processes(&tree.join(DEFAULT_SLICE).join(&self.unit))? {
            return Ok(runs);
        }
        for slice in other_slices(tree)? {
            if let Some(runs) = has_processes(&slice.join(&self.unit))? {
                return Ok(runs);
            }
        }
        // systemd's tree is here, and the unit has no place in it.
        Ok(false)
    }
}

/// A node's administrator may give the kubelet a slice of its own.
fn other_slices(tree: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(tree).map_err(|error| format!("{} cannot be listed: {error}", tree.display()))?;
    let is_slice = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "slice") && !path.ends_with(DEFAULT_SLICE);
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_slice).collect())
}

/// `None` if there is no such cgroup.
fn has_processes(cgroup: &Path) -> Result<Option<bool>, String> {
    let path = cgroup.join("cgroup.procs");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(!text.trim().is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // ENODEV: removed while it is read.
        Err(error) if error.raw_os_error() == Some(19) => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sense(cgroup: &Path) -> KubeletSensor {
        KubeletSensor { unit: "kubelet.service".to_owned(), cgroup: cgroup.to_owned() }
    }

    fn put(cgroup: &Path, unit: &str, processes: &str) {
        let dir = cgroup.join(unit);
        std::fs::create_dir_all(&dir).unwrap();
        std::io::Write::write_all(&mut std::fs::File::create(dir.join("cgroup.procs")).unwrap(), processes.as_bytes()).unwrap();
    }

    #[test]
    fn a_unit_with_processes_runs_in_whatever_hierarchy_and_slice_it_is() {
        for (slice, at) in [
            ("systemd/system.slice", "systemd/system.slice"),
            ("unified/system.slice", "unified/system.slice"),
            ("system.slice", "system.slice"),
            ("systemd/system.slice", "systemd/runtime.slice"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            put(dir.path(), slice, "");
            put(dir.path(), &format!("{at}/kubelet.service"), "711\n");
            assert_eq!(sense(dir.path()).runs(), Ok(true), "{at}");
        }
    }

    #[test]
    fn a_unit_without_processes_or_without_a_cgroup_is_down() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "systemd/system.slice/sshd.service", "7\n");
        assert_eq!(sense(dir.path()).runs(), Ok(false));
        put(dir.path(), "systemd/system.slice/kubelet.service", "");
        assert_eq!(sense(dir.path()).runs(), Ok(false));
    }

    #[test]
    fn where_no_units_are_to_be_seen_it_cannot_be_told() {
        let dir = tempfile::tempdir().unwrap();
        let reading = sense(dir.path()).read(Moment::default());
        assert!(matches!(reading, Reading::Unknown(reason) if reason.contains("not to be seen")));
    }

    #[test]
    fn a_cgroup_that_cannot_be_read_is_not_down() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("system.slice/kubelet.service/cgroup.procs")).unwrap();
        assert!(sense(dir.path()).runs().is_err());
    }
}
