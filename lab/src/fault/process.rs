//! Faults of the loop's processes, sent from the host: they reach a node that is frozen or busy just as well.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::Target;
use super::network::{delete_table, netns_nft};
use crate::loops;
use crate::service::descendants;

/// A stopped shell makes no children, but a child that is not stopped yet may: look again until there are no new ones.
const SCANS_MAX: usize = 20;
/// Longest that a child of the loop is waited for: the loop's interval and its curl's `-m 10`, and some.
const CHILD_LIMIT: Duration = Duration::from_secs(30);
/// A curl to the local etcd lives for some 20 ms.
const CHILD_LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Largest pipe that a process may make (`/proc/sys/fs/pipe-max-size`, default), in blocks of a page.
const PIPE_PAGES_MAX: usize = 256;
const PAGE: usize = 4096;
/// The table that `child-hang how=drop` makes.
const CHILD_TABLE: &str = "fiplab_child";

/// The loop's first process, as the host sees it.
fn loop_pid(target: &Target<'_>) -> anyhow::Result<Pid> {
    let container = loops::expect(target.lab, target.node)?;
    target.lab.host_pid(target.node, container.pid).with_context(|| format!("process {} of the loop is gone", container.pid))
}

pub(super) fn stop_loop(target: &Target<'_>) -> anyhow::Result<()> {
    let shell = loop_pid(target)?;
    kill_process(shell, Signal::STOP).context("cannot stop the loop")?;
    let mut stopped = 0;
    for _ in 0..SCANS_MAX {
        let family = descendants(shell);
        for &child in &family {
            // One that has just ended is no matter.
            kill_process(child, Signal::STOP).ok();
        }
        if family.len() == stopped {
            return Ok(());
        }
        stopped = family.len();
    }
    anyhow::bail!("the loop's children do not come to rest")
}

pub(super) fn continue_loop(target: &Target<'_>) -> anyhow::Result<()> {
    // A loop that has been replaced since needs no healing.
    let Ok(shell) = loop_pid(target) else { return Ok(()) };
    for process in descendants(shell).into_iter().chain([shell]) {
        kill_process(process, Signal::CONT).ok();
    }
    Ok(())
}

pub(super) fn freeze_loop(target: &Target<'_>) -> anyhow::Result<()> {
    let shell = loop_pid(target)?;
    let family: Vec<Pid> = [shell].into_iter().chain(descendants(shell)).collect();
    target.lab.freeze_apart(target.node, &family)
}

pub(super) fn thaw_loop(target: &Target<'_>) -> anyhow::Result<()> {
    target.lab.thaw_apart(target.node)
}

pub(super) fn kill_loop(target: &Target<'_>) -> anyhow::Result<()> {
    kill_process(loop_pid(target)?, Signal::KILL).context("cannot kill the loop")
}

pub(super) fn kill_loop_unnoticed(target: &Target<'_>) -> anyhow::Result<()> {
    let shell = loop_pid(target)?;
    kill_process(shim_pid(target)?, Signal::STOP).context("cannot stop the container's shim")?;
    kill_process(shell, Signal::KILL).context("cannot kill the loop")
}

pub(super) fn let_the_shim_go_on(target: &Target<'_>) -> anyhow::Result<()> {
    // Where the container has gone since, so has its shim.
    let Ok(shim) = shim_pid(target) else { return Ok(()) };
    kill_process(shim, Signal::CONT).context("cannot continue the container's shim")
}

fn shim_pid(target: &Target<'_>) -> anyhow::Result<Pid> {
    let shim = loops::expect(target.lab, target.node)?.shim_pid;
    shim.and_then(|pid| target.lab.host_pid(target.node, pid)).context("the loop has no shim")
}

pub(super) fn reader_pid(target: &Target<'_>) -> anyhow::Result<Pid> {
    let reader = loops::expect(target.lab, target.node)?.reader_pid;
    reader.and_then(|pid| target.lab.host_pid(target.node, pid)).context("the loop has no log reader")
}

/// Writes into the pipe that the loop's trace goes to (`set -x` writes to standard error) until it is full.
pub(super) fn fill_loops_pipe(target: &Target<'_>) -> anyhow::Result<()> {
    fill_pipe(&Path::new("/proc").join(loop_pid(target)?.as_raw_nonzero().to_string()).join("fd/2"))
}

pub(super) fn kill_log_reader(target: &Target<'_>) -> anyhow::Result<()> {
    let fill = target.choice("fill", &["now", "slow"])?;
    kill_process(reader_pid(target)?, Signal::KILL).context("cannot kill the log reader")?;
    if fill == "now" { fill_loops_pipe(target) } else { Ok(()) }
}

/// Writes until nothing fits any more, not even a byte.
fn fill_pipe(path: &Path) -> anyhow::Result<()> {
    let mut options = fs::OpenOptions::new();
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits())?;
    let mut pipe = options
        .write(true)
        .custom_flags(nonblocking)
        .open(path)
        .with_context(|| format!("cannot open the loop's pipe {}", path.display()))?;
    let mut line = vec![b'.'; PAGE];
    line[PAGE - 1] = b'\n';
    for size in [PAGE, 1] {
        for _ in 0..PIPE_PAGES_MAX.max(PAGE) {
            match pipe.write(&line[PAGE - size..]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("cannot fill the loop's pipe"),
            }
        }
    }
    Ok(())
}

pub(super) fn replace_container_without_reader(target: &Target<'_>) -> anyhow::Result<()> {
    let Some(container) = loops::find(target.lab, target.node)? else { return Ok(()) };
    let reader = container.reader_pid.and_then(|pid| target.lab.host_pid(target.node, pid));
    if reader.is_none() { kill_loop(target) } else { Ok(()) }
}

pub(super) async fn hang_child(target: &Target<'_>) -> anyhow::Result<()> {
    if target.choice("how", &["stop", "drop"])? == "drop" {
        let rules = format!(
            "table ip {CHILD_TABLE} {{\n chain output {{ type filter hook output priority 0; policy accept; \
             oif lo tcp dport 2379 tcp flags & (syn | ack) == syn drop; }}\n}}\n"
        );
        return netns_nft(target, &rules).await;
    }
    let wanted = target.choice("child", &["curl", "jq", "ip", "grep", "sleep"])?;
    let shell = loop_pid(target)?;
    let found = async {
        loop {
            let child = descendants(shell).into_iter().find(|&child| comm(child) == wanted);
            if let Some(child) = child.filter(|&child| kill_process(child, Signal::STOP).is_ok() && state(child) != Some('Z')) {
                return child;
            }
            tokio::time::sleep(CHILD_LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(CHILD_LIMIT, found)
        .await
        .with_context(|| format!("the loop has started no {wanted} for {CHILD_LIMIT:?}"))?;
    Ok(())
}

pub(super) async fn release_child(target: &Target<'_>) -> anyhow::Result<()> {
    delete_table(target, CHILD_TABLE).await?;
    continue_loop(target)
}

fn comm(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default().trim_end().to_owned()
}

pub(super) fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The command's name may contain anything; the state stands behind the last parenthesis.
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_pipe_takes_not_one_byte_more() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        fill_pipe(Path::new(&path)).unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let error = (&writer).write(b"x").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
