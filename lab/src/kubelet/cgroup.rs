//! Cgroups of containers: `kubepods/besteffort/pod<uid>/<container id>` in the hierarchies that can be written.
//!
//! Invariant: never anything outside `kubepods` below a hierarchy's root (or, where that is read-only, below the caller's own cgroup).
//! Hosts have version 1, version 2 or both, and inside a booted container most hierarchies are read-only; one that works is enough
//! for `/proc/<pid>/cgroup` to name the pod.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Removed parents can vanish between two of our own steps when several kubelets share a host.
const CREATE_ATTEMPTS: usize = 5;

/// Version 1 hierarchies that take a process without further settings. `freezer` is among them so that a container can be frozen alone.
const V1: [&str; 3] = ["name=systemd", "pids", "freezer"];

/// Create the container's cgroup wherever that works; the directories, and the path as `/proc/<pid>/cgroup` will show it.
///
/// # Errors
/// No hierarchy could be written; the error is the last one met.
pub fn create(uid: &str, id: &str) -> io::Result<(Vec<PathBuf>, String)> {
    let leaf = PathBuf::from("kubepods/besteffort").join(format!("pod{uid}")).join(id);
    let mut created = Vec::new();
    let mut shown = None;
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no cgroup hierarchy is mounted");
    for hierarchy in hierarchies()? {
        for base in &hierarchy.bases {
            match create_dir(&hierarchy.mount.join(base).join(&leaf)) {
                Ok(dir) => {
                    shown.get_or_insert_with(|| Path::new("/").join(base).join(&leaf).display().to_string());
                    created.push(dir);
                    break;
                }
                Err(error) => last_error = error,
            }
        }
    }
    shown.map(|path| (created, path)).ok_or(last_error)
}

/// Remove the container's cgroups and those parents that are empty; false when one is still busy.
#[must_use]
pub fn remove(dirs: &[PathBuf]) -> bool {
    let mut gone = true;
    for dir in dirs {
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                gone = false;
                continue;
            }
        }
        // pod<uid>, besteffort, kubepods: each only if nothing else is in it.
        for parent in dir.ancestors().skip(1).take(3) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    gone
}

/// Move the calling process into `dirs`; how many of them worked.
#[must_use]
pub fn join(dirs: &[PathBuf]) -> usize {
    dirs.iter().filter(|dir| fs::write(dir.join("cgroup.procs"), "0").is_ok()).count()
}

/// Moves the calling process from the kubelet's service to one beside it, as the processes between runtime and container belong
/// to the runtime's service: a kubelet that is stopped leaves nothing behind in its own. Elsewhere nothing is moved.
pub fn leave_the_kubelets_service() {
    for hierarchy in hierarchies().unwrap_or_default() {
        let Some(own) = hierarchy.bases.last().filter(|own| own.ends_with("kubelet.service")) else { continue };
        if let Ok(dir) = create_dir(&hierarchy.mount.join(own).with_file_name("containerd.service")) {
            // Best effort: where it fails the process stays where it is.
            let _moved = join(&[dir]);
        }
    }
}

struct Hierarchy {
    mount: PathBuf,
    /// Where to try, relative to the mount: its root, then the caller's own cgroup and its parents.
    bases: Vec<PathBuf>,
}

fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?, &own))
}

fn parse(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let (Some(root), Some(mount), Some(kind), Some(options)) = (left.get(3), left.get(4), right.first(), right.get(2)) else {
            continue;
        };
        let controllers = match *kind {
            "cgroup2" => "",
            "cgroup" => match V1.into_iter().find(|name| options.split(',').any(|option| option == *name)) {
                Some(name) => name,
                None => continue,
            },
            _ => continue,
        };
        let own = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            (fields.next()? == controllers).then(|| fields.next()).flatten()
        });
        // Shown relative to the mount's own root, which differs from "/" in a container without a cgroup namespace.
        let own = own.and_then(|own| Path::new(own).strip_prefix(root).ok());
        let mut bases = vec![PathBuf::new()];
        let mut ancestors: Vec<PathBuf> = own.map(|own| own.ancestors().map(Path::to_owned).collect()).unwrap_or_default();
        ancestors.retain(|base| !base.as_os_str().is_empty());
        bases.extend(ancestors.into_iter().rev());
        found.push(Hierarchy { mount: PathBuf::from(mount), bases });
    }
    found
}

fn create_dir(dir: &Path) -> io::Result<PathBuf> {
    let mut result = Ok(());
    for _ in 0..CREATE_ATTEMPTS {
        result = fs::create_dir_all(dir);
        if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    result?;
    if dir.join("cgroup.procs").exists() {
        Ok(dir.to_owned())
    } else {
        Err(io::Error::other(format!("{} is no cgroup", dir.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_hierarchies_are_found_and_controllers_that_need_settings_are_left_out() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,name=systemd\n\
            31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            32 25 0:28 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            33 25 0:29 / /proc rw - proc proc rw\n";
        let found = parse(mountinfo, "5:name=systemd:/a/b\n3:cpuset:/\n0::/box/in\n");
        let mounts: Vec<(&Path, &[PathBuf])> = found.iter().map(|h| (h.mount.as_path(), h.bases.as_slice())).collect();
        assert_eq!(mounts[0], (Path::new("/sys/fs/cgroup/systemd"), &["".into(), "a".into(), "a/b".into()][..]));
        assert_eq!(mounts[1], (Path::new("/sys/fs/cgroup/unified"), &["".into(), "in".into()][..]));
        assert_eq!(mounts.len(), 2);
    }
}
