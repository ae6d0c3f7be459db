//! Disks of their own in a node, that can hang: ext4 on a loop device, frozen as `fsfreeze` does.
//!
//! The device goes with its last mount, which goes with the node. Invariant: what is frozen is thawed before the node is taken
//! apart, also when nobody healed it: a process that waits for a frozen file system cannot be killed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;

use super::Target;
use super::machine::TINY;
use crate::command;

/// Where a disk is mounted, and the file behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    pub mount: &'static str,
    image: &'static str,
    size: &'static str,
}

/// Below it are the logs of all pods. Room for a lab's logs, and little enough to fill.
pub(super) const LOGS: Disk = Disk { mount: "/var/log/pods", image: "log-disk.img", size: "16M" };
/// etcd's data. Its log is made of files of 64 MB, reserved before they are written.
pub(super) const ETCD: Disk = Disk { mount: "/var/lib/etcd", image: "etcd-disk.img", size: "400M" };
const ALL: [Disk; 2] = [LOGS, ETCD];

const COMMAND_LIMIT: Duration = Duration::from_secs(15);

/// Whether it is mounted. Never made a second time: that would write a new file system under the one in use.
pub(super) async fn is_attached(target: &Target<'_>, disk: Disk) -> anyhow::Result<bool> {
    let kind = target.shell("findmnt -n -o FSTYPE --mountpoint \"$1\" || :", &[disk.mount]).await?;
    Ok(kind.lines().last() == Some("ext4"))
}

/// Freezes it. Fails where there is none, rather than freeze what is below.
pub(super) async fn freeze(target: &Target<'_>, disk: Disk, fault: &str) -> anyhow::Result<()> {
    let node = target.node;
    anyhow::ensure!(
        is_attached(target, disk).await?,
        "{} is no disk of its own: first do `fip-lab fault {fault} {node}`",
        disk.mount
    );
    target.run(&["fsfreeze", "--freeze", disk.mount]).await?;
    Ok(())
}

/// Makes the disk and mounts it in the node; what is in the directory is copied to it first, if `copy`.
pub(super) async fn attach(target: &Target<'_>, disk: Disk, copy: bool) -> anyhow::Result<()> {
    let image = target.lab.shared(target.node).join(disk.image);
    let image = image.to_str().context("the path of the image is no text")?;
    command::run(&["mkfs.ext4", "-q", "-m", "0", "-F", image, disk.size], COMMAND_LIMIT).await?;
    let device = command::run(&["losetup", "--find", "--show", image], COMMAND_LIMIT).await?;
    let device = device.trim();
    let number = device.strip_prefix("/dev/loop").context("losetup named no device")?;
    let script = "node=/dev/fip-lab-disk; mknod \"$node\" b 7 \"$2\"; mkdir -p \"$1\" /run/fip-lab-disk; \
                  at=$1; [ -z \"$3\" ] || at=/run/fip-lab-disk; mount -t ext4 \"$node\" \"$at\" || bad=1; rm \"$node\"; \
                  [ -z \"${bad-}\" ]; [ -z \"$3\" ] || { cp -a --sparse=always \"$1\"/. \"$at\"/; \
                  mount --bind \"$at\" \"$1\"; umount \"$at\"; }";
    let mounted = target.shell(script, &[disk.mount, number, if copy { "copy" } else { "" }]).await;
    // From now on it goes with the mount; where there is none, at once.
    command::run(&["losetup", "--detach", device], COMMAND_LIMIT).await?;
    mounted.map(drop)
}

/// Thawed first: once it is unmounted nobody can reach it to do that, and what waits for it cannot be killed.
pub(super) async fn detach(target: &Target<'_>, disk: Disk) -> anyhow::Result<()> {
    thaw(target, disk).await?;
    target.shell("! mountpoint -q \"$1\" || umount --lazy \"$1\"", &[disk.mount]).await?;
    Ok(())
}

pub(super) async fn thaw(target: &Target<'_>, disk: Disk) -> anyhow::Result<()> {
    // One that is not frozen, or not there, is what was wanted.
    target.shell("fsfreeze --unfreeze \"$1\" 2>/dev/null || :", &[disk.mount]).await?;
    Ok(())
}

/// Thaws what there is from outside, before its node is taken apart; what `disk-full` has mounted over it goes first.
pub(crate) async fn let_go(shared: &Path, leader: Pid) {
    let script = "while [ \"$(findmnt -n -o SOURCE --mountpoint \"$1\" | tail -n 1)\" = \"$2\" ]; do umount --lazy \"$1\" || break; done; \
                  fsfreeze --unfreeze \"$1\"";
    let leader = leader.as_raw_nonzero().to_string();
    for disk in ALL.iter().filter(|disk| shared.join(disk.image).exists()) {
        // In its pid namespace too: the node's /proc has no /proc/self for anybody else, and findmnt reads that.
        let argv = ["nsenter", "--target", &leader, "--mount", "--pid", "--", "sh", "-c", script, "sh", disk.mount, TINY];
        command::run(&argv, COMMAND_LIMIT).await.ok();
    }
}
