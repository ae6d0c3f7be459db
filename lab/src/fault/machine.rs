//! Faults of the machine as a whole: paused, out of disk, with another idea of the time.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;

use super::Target;
use crate::units::{HELD, HELD_DROP_IN};

/// Longest pause in one call; a longer one is a freeze and a heal.
const PAUSE_SECONDS_MAX: f64 = 600.0;
/// Filling a file system in memory takes that memory from the host.
const FILL_MIB_MAX: u64 = 512;
/// A file that the kubelet does not look at.
const FILLER: &str = ".fip-lab-filler";
/// The source by which a mount of ours is known.
const TINY: &str = "fip-lab-tiny";
const CLOCK_DROP_IN: &str = "/run/systemd/system/fip-watchdog.service.d/fip-lab-clock.conf";
/// Where the process that holds a time namespace says which one it is.
const HOLDER: &str = "clock.pid";
const HOLDER_LIMIT: Duration = Duration::from_secs(5);
/// A year: more is a typing error.
const JUMP_SECONDS_MAX: i64 = 366 * 86_400;

pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    let seconds = target.args.get("seconds").map(|text| parse_pause(text)).transpose()?;
    target.lab.freeze(target.node, true)?;
    if let Some(pause) = seconds {
        tokio::time::sleep(pause).await;
        target.lab.freeze(target.node, false)?;
    }
    Ok(())
}

fn parse_pause(text: &str) -> anyhow::Result<Duration> {
    let seconds: f64 = text.parse().with_context(|| format!("seconds={text}: is not a number"))?;
    anyhow::ensure!((0.0..=PAUSE_SECONDS_MAX).contains(&seconds), "seconds={text}: must be between 0 and {PAUSE_SECONDS_MAX}");
    Ok(Duration::from_secs_f64(seconds))
}

pub(super) fn thaw(target: &Target<'_>) -> anyhow::Result<()> {
    target.lab.freeze(target.node, false)
}

pub(super) async fn fill_disk(target: &Target<'_>) -> anyhow::Result<()> {
    let path = disk_path(target)?;
    let how = target.choice("how", &["fill", "mount", "copy"])?;
    if how == "copy" {
        // Made aside and moved, so that nothing is missing for a moment.
        let script = "mkdir -p /run/fip-lab-tiny; mount -t tmpfs -o size=1m,mode=0755 \"$2\" /run/fip-lab-tiny; \
                      cp -a \"$1\"/. /run/fip-lab-tiny/; head -c 2M /dev/zero >/run/fip-lab-tiny/\"$3\" 2>/dev/null || :; \
                      mount --bind /run/fip-lab-tiny \"$1\"; umount /run/fip-lab-tiny";
        target.shell(script, &[path, TINY, FILLER]).await?;
        return Ok(());
    }
    if how == "mount" {
        let script = "mkdir -p \"$1\"; mount -t tmpfs -o size=16k,mode=0755 \"$2\" \"$1\"; head -c 1M /dev/zero >\"$1/$3\" 2>/dev/null || :";
        target.shell(script, &[path, TINY, FILLER]).await?;
        return Ok(());
    }
    let free: u64 =
        target.shell("df --output=avail -B1M \"$1\" | tail -n 1", &[path]).await?.trim().parse().context("df gave no number")?;
    anyhow::ensure!(
        free <= FILL_MIB_MAX,
        "the file system of {path} has {free} MiB free, more than {FILL_MIB_MAX}: use how=mount"
    );
    // `head` ends with "no space left", which is the purpose. Left-over bytes go one by one.
    let script = "top=$(findmnt -n -o TARGET -T \"$1\"); exec 2>/dev/null; head -c 1G /dev/zero >>\"$top/$2\" || :; \
                  for i in 1 2 3 4 5 6 7 8; do head -c 512 /dev/zero >>\"$top/$2\" || :; done";
    target.shell(script, &[path, FILLER]).await?;
    Ok(())
}

pub(super) async fn free_disk(target: &Target<'_>) -> anyhow::Result<()> {
    let path = disk_path(target)?;
    let script = "if [ \"$(findmnt -n -o SOURCE --mountpoint \"$1\" | tail -n 1)\" = \"$2\" ]; then umount \"$1\"; \
                  else rm -f \"$(findmnt -n -o TARGET -T \"$1\")/$3\"; fi";
    target.shell(script, &[path, TINY, FILLER]).await?;
    Ok(())
}

fn disk_path<'a>(target: &'a Target<'_>) -> anyhow::Result<&'a str> {
    let path = target.arg("path", "/etc/kubernetes");
    anyhow::ensure!(path.starts_with('/'), "path={path}: must be absolute");
    Ok(path)
}

pub(super) async fn jump_clock(target: &Target<'_>) -> anyhow::Result<()> {
    let seconds = parse_jump(target.arg("by", ""))?;
    let clock = target.choice("clock", &["realtime", "boottime", "monotonic"])?;
    anyhow::ensure!(
        clock != "realtime",
        "the wall clock cannot be namespaced: a jump would be the host's and every container's; clock=boottime or clock=monotonic \
         restarts the watchdog with that clock shifted"
    );
    restore_clock(target).await?;
    let holder = hold_time_namespace(target, clock, seconds).await?;
    // `+`: outside of the unit's sandbox, which forbids to change namespaces.
    let traced = target.lab.node(target.node).host_path(HELD_DROP_IN).exists();
    let start = if traced { HELD } else { "/usr/bin/fip-watchdog run" };
    let text = format!("[Service]\nExecStart=\nExecStart=+/usr/bin/nsenter --time=/proc/{holder}/ns/time -- {start}\n");
    let script =
        "mkdir -p \"${1%/*}\"; printf %s \"$2\" >\"$1\"; systemctl daemon-reload; systemctl restart fip-watchdog.service";
    target.shell(script, &[CLOCK_DROP_IN, &text]).await?;
    Ok(())
}

/// Starts a process in the node that does nothing but live in a time namespace with that offset, and gives its pid there. It
/// comes from the host because a node has no CAP_SYS_TIME, with which its processes could set the host's clock.
async fn hold_time_namespace(target: &Target<'_>, clock: &str, seconds: i64) -> anyhow::Result<i32> {
    let pid_file = target.lab.shared(target.node).join(HOLDER);
    let leader = target.lab.node(target.node).leader_pid.to_string();
    let hold =
        format!("echo $$ >/run/fip-lab/.{HOLDER} && mv /run/fip-lab/.{HOLDER} /run/fip-lab/{HOLDER} && exec sleep infinity");
    let mut command = Command::new("setsid");
    command.args([
        "--fork",
        "unshare",
        "--time",
        &format!("--{clock}={seconds}"),
        "--",
        "nsenter",
        "--no-fork",
        "--target",
        &leader,
    ]);
    command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--", "sh", "-c", "sh -c \"$1\" &", "sh", &hold]);
    // No fork by nsenter: one that waits is stopped, for ever, when the node powers off and stops its child.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().await.context("cannot start the holder of a time namespace")?;
    anyhow::ensure!(status.success(), "cannot start the holder of a time namespace: {status}");
    let written = async {
        loop {
            if let Some(pid) = fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse().ok()) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(HOLDER_LIMIT, written).await;
    waited.context("no time namespace: the kernel has none, or a clock would become negative")
}

fn parse_jump(text: &str) -> anyhow::Result<i64> {
    let seconds: i64 =
        text.trim_end_matches('s').parse().with_context(|| format!("by={text}: is not a whole number of seconds"))?;
    anyhow::ensure!(seconds.abs() <= JUMP_SECONDS_MAX, "by={text}: more than a year");
    Ok(seconds)
}

pub(super) async fn restore_clock(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "if [ -e \"$1\" ]; then rm -f \"$1\"; systemctl daemon-reload; systemctl try-restart fip-watchdog.service; fi; \
                  if [ -e \"$2\" ]; then kill -KILL \"$(cat \"$2\")\" || :; rm -f \"$2\"; fi";
    target.shell(script, &[CLOCK_DROP_IN, &format!("/run/fip-lab/{HOLDER}")]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_has_a_sign_and_a_bound() {
        assert_eq!(parse_jump("+30").unwrap(), 30);
        assert_eq!(parse_jump("-3600s").unwrap(), -3600);
        assert!(parse_jump("soon").is_err());
        assert!(parse_jump("99999999999").is_err());
    }

    #[test]
    fn a_pause_is_bounded() {
        assert_eq!(parse_pause("1.5").unwrap(), Duration::from_millis(1500));
        for bad in ["-1", "nan", "inf", "601", "x"] {
            assert!(parse_pause(bad).is_err(), "{bad}");
        }
    }
}
