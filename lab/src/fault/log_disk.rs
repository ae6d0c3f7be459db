//! A disk of its own below the pods' logs, that can hang: ext4 on a loop device, frozen as `fsfreeze` does.
//!
//! The device goes with its last mount, which goes with the node. Invariant: what is frozen is thawed before the node is taken
//! apart, also when nobody healed it: a process that waits for a frozen file system cannot be killed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;

use super::{Target, process};
use crate::command;

/// Below it are the logs of all pods.
pub(super) const LOGS: &str = "/var/log/pods";
/// The file behind the device.
const IMAGE: &str = "log-disk.img";
/// Room for a lab's logs, and little enough to fill.
const SIZE: &str = "16M";
const COMMAND_LIMIT: Duration = Duration::from_secs(15);
/// A reader writes within microseconds once there is something to read.
const HANGS_LIMIT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Mounts it, and lets the loop begin a new log there.
pub(super) async fn attach(target: &Target<'_>) -> anyhow::Result<()> {
    let image = target.lab.shared(target.node).join(IMAGE);
    let image = image.to_str().context("the path of the image is no text")?;
    command::run(&["mkfs.ext4", "-q", "-m", "0", "-F", image, SIZE], COMMAND_LIMIT).await?;
    let device = command::run(&["losetup", "--find", "--show", image], COMMAND_LIMIT).await?;
    let device = device.trim();
    let number = device.strip_prefix("/dev/loop").context("losetup named no device")?;
    let script = "node=/dev/fip-lab-log; mknod \"$node\" b 7 \"$2\"; mkdir -p \"$1\"; mount -t ext4 \"$node\" \"$1\" || bad=1; rm \"$node\"; \
                  [ -z \"${bad-}\" ]";
    let mounted = target.shell(script, &[LOGS, number]).await;
    // From now on it goes with the mount; where there is none, at once.
    command::run(&["losetup", "--detach", device], COMMAND_LIMIT).await?;
    mounted?;
    process::kill_loop(target)
}

pub(super) async fn detach(target: &Target<'_>) -> anyhow::Result<()> {
    target.shell("! mountpoint -q \"$1\" || umount --lazy \"$1\"", &[LOGS]).await?;
    // A loop that does not run needs no other log.
    process::kill_loop(target).or(Ok(()))
}

/// Freezes it. The loop's pipe is filled, because its reader hangs in its next write from now on.
pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    let reader = process::reader_pid(target)?;
    target.run(&["fsfreeze", "--freeze", LOGS]).await?;
    let hangs = async {
        loop {
            process::fill_loops_pipe(target)?;
            if process::state(reader) == Some('D') {
                // What it had taken out before it hung.
                return process::fill_loops_pipe(target);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(HANGS_LIMIT, hangs).await.context("the log reader does not hang on the frozen disk")?
}

pub(super) async fn thaw(target: &Target<'_>) -> anyhow::Result<()> {
    // One that is not frozen, or not there, is what was wanted.
    target.shell("fsfreeze --unfreeze \"$1\" 2>/dev/null || :", &[LOGS]).await?;
    Ok(())
}

/// Thaws it from outside, if there is one, before its node is taken apart.
pub(crate) async fn let_go(shared: &Path, leader: Pid) {
    if shared.join(IMAGE).exists() {
        let logs = format!("/proc/{}/root{LOGS}", leader.as_raw_nonzero());
        command::run(&["fsfreeze", "--unfreeze", &logs], COMMAND_LIMIT).await.ok();
    }
}
