//! A disk of its own below etcd's data, that can hang; and one that is slow.

use std::process::Stdio;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::Target;
use super::disk::{self, ETCD};
use super::etcd::etcd;

/// The transient unit that writes, so that there is something to be slow about.
const WRITER: &str = "fip-lab-writes.service";
const WRITES: &str = "while :; do etcdctl --command-timeout=3s put fip-lab/slow x >/dev/null 2>&1 || :; sleep 0.2; done";
/// Where the pid of the one that slows it down is, in the node's shared directory.
const BRAKE: &str = "slow-disk.pid";
/// Longer, and the leader is taken for dead.
const DELAY_MS_MAX: u32 = 900;

/// Moves the data to it, with a restart.
pub(super) async fn attach(target: &Target<'_>) -> anyhow::Result<()> {
    if disk::is_attached(target, ETCD).await? {
        return Ok(());
    }
    target.shell("systemctl stop etcd.service", &[]).await?;
    disk::attach(target, ETCD, true).await?;
    target.shell("systemctl start --no-block etcd.service", &[]).await?;
    Ok(())
}

/// What etcd has written there is copied back.
pub(super) async fn detach(target: &Target<'_>) -> anyhow::Result<()> {
    // etcd would not stop, nor the copy be made, while it is frozen.
    disk::thaw(target, ETCD).await?;
    let script = "mountpoint -q \"$1\" || exit 0; systemctl stop etcd.service; rm -rf \"$1.kept\"; \
                  cp -a --sparse=always \"$1\" \"$1.kept\"; umount \"$1\"; rm -rf \"$1/member\"; mv \"$1.kept/member\" \"$1/\"; \
                  rm -rf \"$1.kept\"; systemctl start --no-block etcd.service";
    target.shell(script, &[ETCD.mount]).await?;
    Ok(())
}

/// Hangs with the next write, and that is made: a cluster with nothing to write would not notice.
pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    disk::freeze(target, ETCD, "etcd-disk").await?;
    let script = "etcdctl --command-timeout=1s put fip-lab/hangs x >/dev/null 2>&1 || :";
    target.shell(script, &[ETCD.mount]).await?;
    Ok(())
}

pub(super) async fn thaw(target: &Target<'_>) -> anyhow::Result<()> {
    disk::thaw(target, ETCD).await
}

/// Each fdatasync of etcd begins late: what a slow disk is to it. From outside, since a frozen file system holds up the writes
/// before it, which etcd does not time.
pub(super) async fn slow_down(target: &Target<'_>) -> anyhow::Result<()> {
    let delay: u32 = target.arg("ms", "300").parse().context("ms= must be a number")?;
    anyhow::ensure!(delay <= DELAY_MS_MAX, "ms={delay}: at most {DELAY_MS_MAX}");
    speed_up(target).await?;
    let pid = etcd(target).await?.as_raw_nonzero().to_string();
    let inject = format!("inject=fdatasync:delay_enter={delay}ms");
    let mut strace = Command::new("setsid");
    strace.args(["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject, "-p", &pid]);
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Not waited for: it goes with etcd, or when it is healed.
    let brake = strace.spawn().context("cannot run strace (apt-get install strace)")?.id().context("strace has ended")?;
    std::fs::write(target.lab.shared(target.node).join(BRAKE), brake.to_string()).context("cannot write down strace's pid")?;
    let script = "for name in ETCDCTL_API ETCDCTL_ENDPOINTS ETCDCTL_CACERT ETCDCTL_CERT ETCDCTL_KEY; do \
                  set -- \"$@\" \"--setenv=$name\"; done; unit=$1 writes=$2; shift 2; \
                  systemd-run --quiet --collect --unit=\"$unit\" \"$@\" -- sh -c \"$writes\"";
    target.shell(script, &[WRITER, WRITES]).await?;
    Ok(())
}

pub(super) async fn speed_up(target: &Target<'_>) -> anyhow::Result<()> {
    let brake = target.lab.shared(target.node).join(BRAKE);
    if let Some(pid) = std::fs::read_to_string(&brake).ok().and_then(|text| text.parse().ok()).and_then(Pid::from_raw) {
        std::fs::remove_file(&brake).context("cannot forget strace's pid")?;
        // The number may be another's by now.
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
        if name.trim() == "strace" {
            kill_process(pid, Signal::TERM).ok();
        }
    }
    target.shell("systemctl stop \"$1\" 2>/dev/null || :", &[WRITER]).await?;
    Ok(())
}
