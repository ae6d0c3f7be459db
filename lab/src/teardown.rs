//! Taking an instance apart, whatever state it is in: power off, kill what stays, remove namespaces, cgroups, mounts, files.
//!
//! Every part is removed also when another one fails; the error names all that failed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::mount::{UnmountFlags, unmount};

use crate::cgroup::Hierarchies;
use crate::command::run;
use crate::network;
use crate::node::{self, NodeId};
use crate::paths::Paths;

/// A node that is well powers off in about a second; one with a frozen part never does, and is killed then. Nothing in a
/// node is kept, so there is nothing to wait longer for.
const POWER_OFF_LIMIT: Duration = Duration::from_millis(1500);
/// systemd(1): SIGRTMIN+4 starts poweroff.target. SIGRTMIN is 34 with glibc and with musl; shells differ in the names they know.
const POWER_OFF: &str = "kill -38 \"$1\"";
/// Killing is a matter of milliseconds unless a process waits for a device.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Removes all of the instance; the caller holds its lock.
pub(crate) async fn remove(name: &str) -> anyhow::Result<()> {
    let hierarchies = Hierarchies::detect()?;
    power_off(name, &hierarchies).await;
    let mut failed: Vec<String> = Vec::new();
    let mut note = |what: anyhow::Result<()>| failed.extend(what.err().map(|error| format!("{error:#}")));
    note(hierarchies.remove(name, KILL_LIMIT).await);
    note(network::remove(name).await);
    let runtime = Paths::new(name).runtime().to_owned();
    note(unmount_below(&runtime).and_then(|()| remove_directory(&runtime)));
    anyhow::ensure!(failed.is_empty(), "lab {name} is not entirely gone: {}", failed.join("; "));
    Ok(())
}

fn remove_directory(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {}", directory.display())),
    }
}

/// Asks systemd in each node to power off, and waits for all of them at once.
async fn power_off(name: &str, hierarchies: &Hierarchies) {
    let mut asked = false;
    for id in NodeId::first(u8::MAX) {
        if let Some(leader) = node::leader(name, id, hierarchies) {
            hierarchies.freeze(&node::group(name, id), false).ok();
            crate::fault::disk::let_go(&Paths::new(name).shared(id), leader).await;
            let pid = leader.as_raw_nonzero().to_string();
            asked |= run(&["sh", "-c", POWER_OFF, "kill", &pid], Duration::from_secs(2)).await.is_ok();
        }
    }
    if asked {
        let gone = async {
            while !hierarchies.processes(name).is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        // What is still there is killed next.
        tokio::time::timeout(POWER_OFF_LIMIT, gone).await.ok();
    }
}

/// Unmounts what is mounted there: mount namespaces should have kept it to themselves, and removing files through a mount would
/// remove somebody else's.
pub(crate) fn unmount_below(directory: &Path) -> anyhow::Result<()> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    let mut points: Vec<PathBuf> = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|path| path.starts_with(directory))
        .collect();
    // Inner ones first.
    points.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for point in points {
        unmount(&point, UnmountFlags::DETACH).with_context(|| format!("cannot unmount {}", point.display()))?;
    }
    Ok(())
}
