//! The cgroups of a node: one directory in every hierarchy that matters, so that systemd in the node has a tree of its own,
//! and so that every process of the node can be found, frozen and killed without knowing who started it.
//!
//! Works on cgroup v2 alone, on v1, and on the hybrid of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

/// The v1 hierarchies that a node gets a directory in; `cpuset` is left out because a new one has no CPUs and takes no process.
const V1_WANTED: [&str; 5] = ["name=systemd", "memory", "pids", "cpu", "freezer"];
/// The directory below each hierarchy that holds all instances.
const TOP: &str = "fip-lab";
/// The processes of a node that are frozen alone.
const APART: &str = "fip-lab-frozen";
/// The weight of all instances together against one other process of the host: version 1's largest, and version 2's. A compiler beside a lab
/// must not make its etcds lose leaders.
const SHARES: (&str, &str) = ("cpu.shares", "262144");
const WEIGHT: (&str, &str) = ("cpu.weight", "10000");
/// Deep enough for systemd's slices and pods; bounds the walk on a tree that changes while it is read.
const DEPTH_MAX: usize = 16;

/// Each fails only if another instance goes down in the microseconds between two directories.
const MAKE_ATTEMPTS: usize = 50;

/// Where cgroups are mounted on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    mounts: Vec<PathBuf>,
    freezer_v1: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl Hierarchies {
    /// Reads them from `/proc/self/mountinfo`.
    ///
    /// # Errors
    /// It cannot be read, or names no hierarchy at all.
    pub fn detect() -> anyhow::Result<Self> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
        let found = Self::parse(&mountinfo);
        anyhow::ensure!(
            !found.mounts.is_empty(),
            "no cgroup hierarchy is mounted: the nodes need one (mount cgroup2 on /sys/fs/cgroup)"
        );
        Ok(found)
    }

    fn parse(mountinfo: &str) -> Self {
        let mut found = Self { mounts: Vec::new(), freezer_v1: None, unified: None };
        for line in mountinfo.lines() {
            // "id parent major:minor root mountpoint options [tags] - fstype source superoptions"
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let Some(mount_point) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut right = right.split(' ');
            let (kind, options) = (right.next().unwrap_or(""), right.nth(1).unwrap_or(""));
            if kind == "cgroup2" && found.unified.is_none() {
                found.unified = Some(mount_point.clone());
                found.mounts.push(mount_point);
            } else if kind == "cgroup" && options.split(',').any(|option| V1_WANTED.contains(&option)) {
                if options.split(',').any(|option| option == "freezer") {
                    found.freezer_v1 = Some(mount_point.clone());
                }
                found.mounts.push(mount_point);
            }
        }
        found
    }

    /// The directories of `<lab>` or `<lab>/<node>` in each hierarchy.
    #[must_use]
    pub fn directories(&self, name: &str) -> Vec<PathBuf> {
        self.mounts.iter().map(|mount| mount.join(TOP).join(name)).collect()
    }

    /// Makes the directories of `name`.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn create(&self, name: &str) -> anyhow::Result<()> {
        for directory in self.directories(name) {
            make(&directory).with_context(|| format!("cannot create the cgroup {}", directory.display()))?;
        }
        for mount in &self.mounts {
            for (file, value) in [SHARES, WEIGHT] {
                // Only where that controller is; without it the lab runs as well as it did.
                let file = mount.join(TOP).join(file);
                if file.exists() {
                    fs::write(&file, value).with_context(|| format!("cannot write {value} to {}", file.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Every process below `name`, in the reader's pid namespace.
    #[must_use]
    pub fn processes(&self, name: &str) -> Vec<Pid> {
        let mut pids = Vec::new();
        for directory in self.directories(name) {
            collect_processes(&directory, DEPTH_MAX, &mut pids);
        }
        pids.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        pids.dedup();
        pids
    }

    /// Stops (or lets go on) every process below `name`, at one instant, as a hypervisor pauses a machine.
    ///
    /// # Errors
    /// There is no freezer, or it cannot be written.
    pub fn freeze(&self, name: &str, frozen: bool) -> anyhow::Result<()> {
        let (file, value) = match (&self.freezer_v1, &self.unified) {
            (Some(mount), _) => (mount.join(TOP).join(name).join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" }),
            (None, Some(mount)) => (mount.join(TOP).join(name).join("cgroup.freeze"), if frozen { "1" } else { "0" }),
            (None, None) => anyhow::bail!("this host has no cgroup freezer"),
        };
        fs::write(&file, value).with_context(|| format!("cannot write {value} to {}", file.display()))
    }

    /// Whether they are stopped; where that cannot be read they are not.
    #[must_use]
    pub fn is_frozen(&self, name: &str) -> bool {
        let (file, said) = match (&self.freezer_v1, &self.unified) {
            (Some(mount), _) => (mount.join(TOP).join(name).join("freezer.state"), "FROZEN"),
            (None, Some(mount)) => (mount.join(TOP).join(name).join("cgroup.freeze"), "1"),
            (None, None) => return false,
        };
        fs::read_to_string(file).is_ok_and(|state| state.trim() == said)
    }

    /// Freezes these processes of `name` alone. Only version 1 keeps SIGKILL from a frozen process; version 2 lets it die.
    ///
    /// # Errors
    /// There is no such freezer, or it cannot be written.
    pub fn freeze_apart(&self, name: &str, processes: &[Pid]) -> anyhow::Result<()> {
        let mount =
            self.freezer_v1.as_ref().context("this host has no version 1 freezer, and no other one keeps SIGKILL away")?;
        let apart = mount.join(TOP).join(name).join(APART);
        fs::create_dir_all(&apart).with_context(|| format!("cannot create the cgroup {}", apart.display()))?;
        for pid in processes {
            // A child may have ended meanwhile.
            fs::write(apart.join("cgroup.procs"), pid.as_raw_nonzero().to_string()).ok();
        }
        let moved = fs::read_to_string(apart.join("cgroup.procs")).unwrap_or_default();
        anyhow::ensure!(!moved.is_empty(), "no process could be moved to {}", apart.display());
        fs::write(apart.join("freezer.state"), "FROZEN").with_context(|| format!("cannot freeze {}", apart.display()))
    }

    /// Thaws them. Their cgroup goes with the node.
    ///
    /// # Errors
    /// The freezer cannot be written.
    pub fn thaw_apart(&self, name: &str) -> anyhow::Result<()> {
        let Some(mount) = &self.freezer_v1 else { return Ok(()) };
        let state = mount.join(TOP).join(name).join(APART).join("freezer.state");
        match fs::write(&state, "THAWED") {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            written => written.with_context(|| format!("cannot thaw {}", state.display())),
        }
    }

    /// Kills all that is left below `name` and removes the directories; nothing there is success.
    ///
    /// # Errors
    /// A process does not die, or a directory cannot be removed, within `limit`.
    pub async fn remove(&self, name: &str, limit: Duration) -> anyhow::Result<()> {
        let waited = tokio::time::timeout(limit, async {
            // A frozen v1 cgroup keeps its processes from dying.
            self.freeze(name, false).ok();
            self.thaw_apart(name).ok();
            loop {
                for pid in self.processes(name) {
                    // It may have died meanwhile.
                    kill_process(pid, Signal::KILL).ok();
                }
                if self.directories(name).iter().all(|directory| remove_tree(directory, DEPTH_MAX)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            let pids: Vec<String> = self.processes(name).iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
            anyhow::bail!("cgroup {TOP}/{name} is not empty after {limit:?}: processes {}", pids.join(", "));
        }
        // The common parent goes with the last instance; as long as there is another one this fails, as it should.
        for mount in &self.mounts {
            fs::remove_dir(mount.join(TOP)).ok();
        }
        Ok(())
    }
}

/// Another instance that goes down removes the common parent as long as there is nothing in it.
fn make(directory: &Path) -> std::io::Result<()> {
    use std::io::ErrorKind::{AlreadyExists, NotFound};
    let mut made = fs::create_dir_all(directory);
    for _ in 0..MAKE_ATTEMPTS {
        match made {
            // Gone before there was something in it, or between "it exists" and a look at what it is.
            Err(error) if matches!(error.kind(), NotFound | AlreadyExists) => made = fs::create_dir_all(directory),
            done => return done,
        }
    }
    made
}

fn collect_processes(directory: &Path, depth: usize, pids: &mut Vec<Pid>) {
    let Ok(text) = fs::read_to_string(directory.join("cgroup.procs")) else { return };
    pids.extend(text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw));
    for child in children(directory, depth) {
        collect_processes(&child, depth - 1, pids);
    }
}

/// Removes an empty cgroup with its children; true when it is gone.
fn remove_tree(directory: &Path, depth: usize) -> bool {
    for child in children(directory, depth) {
        remove_tree(&child, depth - 1);
    }
    fs::remove_dir(directory).is_ok() || !directory.exists()
}

fn children(directory: &Path, depth: usize) -> Vec<PathBuf> {
    if depth == 0 {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 22 0:25 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory
32 22 0:26 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
33 22 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
34 22 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
35 22 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup rw
36 22 0:30 / /tmp rw - tmpfs tmpfs rw";

    #[test]
    fn hybrid_layout_uses_the_v1_freezer_and_leaves_cpuset_alone() {
        let found = Hierarchies::parse(HYBRID);
        assert_eq!(found.mounts.len(), 4);
        assert_eq!(found.freezer_v1.as_deref(), Some(Path::new("/sys/fs/cgroup/freezer")));
        assert_eq!(found.directories("fip/cp1")[0], Path::new("/sys/fs/cgroup/memory/fip-lab/fip/cp1"));
    }

    #[test]
    fn unified_layout_has_one_directory() {
        let found = Hierarchies::parse("30 22 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate");
        assert_eq!(found.directories("fip"), [PathBuf::from("/sys/fs/cgroup/fip-lab/fip")]);
        assert_eq!(found.freezer_v1, None);
    }

    #[test]
    fn an_instance_can_be_made_while_others_go_down() {
        let top = tempfile::tempdir().unwrap();
        let (common, stop) = (top.path().join(TOP), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::remove_dir(&common).ok();
                    // Some attempts are between two of these, whatever else the machine does.
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            });
            let made: Vec<_> = (0..300)
                .map(|_| {
                    let made = make(&common.join("fip/cp1"));
                    remove_tree(&common.join("fip"), DEPTH_MAX);
                    made
                })
                .collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(made.iter().all(Result::is_ok), "{:?}", made.iter().find(|made| made.is_err()));
        });
    }
}
