//! What is around the loop: its frozen cgroups, the end of its log, and the log's file system.
//!
//! A log on a dead disk hangs whoever opens it: each of these is called on a thread of its own. Every read is cut. Blocking.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use super::evidence::{Disk, FROZEN_MAX, LINES_MAX, Log};
use super::process::{read, read_file};
use crate::audit::text::sentence;

/// Cgroups above a container's: the deepest layouts have seven.
const DEPTH_MAX: usize = 12;

/// Of a log's end, this much is read: ten lines of the loop's trace are some 2 KiB.
const TAIL_BYTES: u64 = 8 * 1024;

/// The files that say that the process's cgroup, or one above it, is frozen; version 1 and version 2.
pub(crate) fn frozen(proc: &Path, cgroup: &Path, pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    for line in read(proc, pid, "cgroup").unwrap_or_default().lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, files): (PathBuf, &[(&str, &str)]) = if controllers.is_empty() {
            let unified = cgroup.join("unified");
            let root = if unified.is_dir() { unified } else { cgroup.to_owned() };
            (root, &[("cgroup.freeze", "1"), ("cgroup.events", "frozen 1")])
        } else if controllers.split(',').any(|name| name == "freezer") {
            (cgroup.join("freezer"), &[("freezer.state", "FR")])
        } else {
            continue;
        };
        let path = Path::new(path.strip_prefix('/').unwrap_or(path));
        // Outside of our own cgroup namespace; what the process sleeps in tells then.
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            continue;
        }
        for dir in path.ancestors().take(DEPTH_MAX).map(|dir| root.join(dir)) {
            // `FREEZING` is not whole yet, and will not be while one of its processes is in uninterruptible sleep.
            let says = |(file, word): &(&str, &str)| {
                let text = read_file(&dir.join(file))?;
                text.lines().any(|line| line.starts_with(word)).then(|| sentence(&dir.join(file).to_string_lossy()))
            };
            found.extend(files.iter().find_map(says));
        }
    }
    found.truncate(FROZEN_MAX);
    found
}

/// The end of the log.
pub(super) fn log(path: &Path) -> std::io::Result<Log> {
    // A FIFO in its place must not keep us.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let mut file: File = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut end = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LINES_MAX)).map(|line| sentence(line)).collect();
    Ok(Log { path: sentence(&path.to_string_lossy()), bytes, tail })
}

/// The file system that a log is on: of the file itself, because docker keeps its logs elsewhere and the kubelet links to them. One
/// that is gone was in its directory.
pub(super) fn disk(log: &Path) -> std::io::Result<Disk> {
    let file = log.canonicalize().unwrap_or_else(|_| log.to_owned());
    let dir = file.parent().unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(dir)?;
    Ok(Disk {
        path: sentence(&dir.to_string_lossy()),
        free_bytes: stat.f_bfree.saturating_mul(stat.f_frsize),
        available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_inodes: stat.f_ffree,
        total_inodes: stat.f_files,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_frozen_cgroup_is_found_in_either_version_also_above_the_processs_own() {
        let root = tempfile::tempdir().unwrap();
        let (proc, cgroup) = (root.path().join("proc"), root.path().join("cgroup"));
        put(&proc.join("7/cgroup"), "6:freezer:/kubepods/podx/c\n5:devices:/kubepods\n0::/kubepods.slice/podx.slice/c.scope\n");
        put(&cgroup.join("freezer/kubepods/podx/c/freezer.state"), "THAWED\n");
        assert_eq!(frozen(&proc, &cgroup, 7), Vec::<String>::new());
        put(&cgroup.join("freezer/kubepods/podx/freezer.state"), "FROZEN\n");
        put(&cgroup.join("kubepods.slice/podx.slice/c.scope/cgroup.events"), "populated 1\nfrozen 1\n");
        let found = frozen(&proc, &cgroup, 7);
        assert_eq!(found.len(), 2);
        assert!(found[0].ends_with("freezer/kubepods/podx/freezer.state") && found[1].ends_with("c.scope/cgroup.events"));
        assert_eq!(frozen(&proc, &cgroup, 8), Vec::<String>::new());
    }

    #[test]
    fn a_cgroup_outside_of_our_namespace_is_not_looked_for_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        put(&root.path().join("proc/7/cgroup"), "6:freezer:/../b\n");
        put(&root.path().join("cgroup/freezer/b/freezer.state"), "FROZEN\n");
        assert_eq!(frozen(&root.path().join("proc"), &root.path().join("cgroup"), 7), Vec::<String>::new());
    }

    #[test]
    fn of_a_log_only_the_end_is_kept_and_no_line_is_long() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("0.log");
        let mut text: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
        text.push_str(&"y".repeat(5000));
        put(&path, &text);
        let log = log(&path).unwrap();
        assert_eq!((log.bytes, log.tail.len()), (text.len() as u64, LINES_MAX));
        assert_eq!(log.tail[LINES_MAX - 2], "line 9999");
        assert!(log.tail.iter().all(|line| line.len() <= 300));
    }

    #[test]
    fn the_file_system_is_that_of_the_file_which_docker_links_to() {
        let (pods, docker) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (link, file) = (pods.path().join("0.log"), docker.path().join("c-json.log"));
        put(&file, "");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let path = |log: &Path| PathBuf::from(disk(log).unwrap().path);
        assert_eq!(path(&link), docker.path().canonicalize().unwrap());
        // A log that is gone was on the file system of its directory.
        assert_eq!(path(&pods.path().join("1.log")), pods.path());
    }

    #[test]
    fn a_file_system_with_room_is_not_full() {
        let root = tempfile::tempdir().unwrap();
        let disk = disk(&root.path().join("0.log")).unwrap();
        assert!(
            disk.total_bytes > 0
                && !Disk { free_bytes: 1 << 20, available_bytes: 1 << 20, free_inodes: 9, ..disk.clone() }.is_full()
        );
        assert!(Disk { free_bytes: 0, ..disk.clone() }.is_full());
        assert!(Disk { free_bytes: 1 << 20, available_bytes: 1 << 20, total_inodes: 9, free_inodes: 0, ..disk }.is_full());
    }

    #[test]
    fn what_ext4_keeps_for_itself_is_no_room_for_a_log_line_and_roots_reserve_is() {
        let disk = |free_bytes, available_bytes, total_bytes| Disk {
            path: "/".to_owned(),
            free_bytes,
            available_bytes,
            total_bytes,
            free_inodes: 9,
            total_inodes: 9,
        };
        // Measured: 16 MiB in blocks of 1 KiB, filled by root; 329 blocks count as free, 2 as available.
        assert!(disk(329 << 10, 2 << 10, 14_073 << 10).is_full());
        // A node's disk: 16 MiB are the file system's own, the rest is root's.
        let total = 30 << 30;
        assert!(
            disk(16 << 20, 0, total).is_full()
                && !disk(17 << 20, 0, total).is_full()
                && !disk(16 << 20, 1 << 20, total).is_full()
        );
    }
}
