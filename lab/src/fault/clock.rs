//! Clocks that are set: the wall clock of a running watchdog, or another clock of one that is started for it.
//!
//! A jump of the wall clock is done from the host and asks nothing of the node: it may be frozen, as one that is resumed late is.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;

use super::Target;
use crate::service::{self, Process};
use crate::units::{HELD, HELD_DROP_IN, WATCHDOG_NAME, WATCHDOG_PROCESS};
use crate::wall_clock::{self, SECONDS_MAX, vdso};

const CLOCK_DROP_IN: &str = "/run/systemd/system/fip-watchdog.service.d/fip-lab-clock.conf";
/// Where the process that holds a time namespace says which one it is.
const HOLDER: &str = "clock.pid";
const HOLDER_LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn jump(target: &Target<'_>) -> anyhow::Result<()> {
    let seconds = parse_jump(target.arg("by", ""))?;
    match target.choice("clock", &["realtime", "boottime", "monotonic"])? {
        "realtime" => {
            let ahead = wall_clock::ahead(&target.lab.shared(target.node))?;
            set_wall_clock(target, ahead.saturating_add(seconds))
        }
        clock => shift(target, clock, seconds).await,
    }
}

/// First the stamps in the logs, then the watchdog, and one that systemd starts meanwhile finds the new number.
fn set_wall_clock(target: &Target<'_>, ahead: i64) -> anyhow::Result<()> {
    wall_clock::set_ahead(&target.lab.shared(target.node), ahead)?;
    let processes = service::processes(&target.lab.service_groups(target.node, WATCHDOG_NAME));
    for process in processes.into_iter().filter(|process| process.is_alive() && process.name == WATCHDOG_PROCESS) {
        let set = vdso::set_ahead(process.pid, ahead);
        // One that ended meanwhile needs no clock.
        if Process::look(process.pid).is_some_and(|process| process.is_alive()) {
            set.context("cannot set the watchdog's wall clock")?;
        }
    }
    Ok(())
}

async fn shift(target: &Target<'_>, clock: &str, seconds: i64) -> anyhow::Result<()> {
    unshift(target).await?;
    let holder = hold_time_namespace(target, clock, seconds).await?;
    // `+`: outside of the unit's sandbox, which forbids to change namespaces.
    let held = target.lab.node(target.node).host_path(HELD_DROP_IN).exists();
    let start = if held { HELD } else { "/usr/bin/fip-watchdog run" };
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

/// `+1h`, `-1m 30s`; a number alone is seconds.
fn parse_jump(text: &str) -> anyhow::Result<i64> {
    let (sign, length) = text.strip_prefix('-').map_or((1, text.strip_prefix('+').unwrap_or(text)), |length| (-1, length));
    let seconds = match length.parse() {
        Ok(seconds) => seconds,
        Err(_) => humantime::parse_duration(length).with_context(|| format!("by={text}: is not a length of time"))?.as_secs(),
    };
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds <= SECONDS_MAX);
    Ok(sign * seconds.with_context(|| format!("by={text}: more than a year"))?)
}

pub(super) async fn restore(target: &Target<'_>) -> anyhow::Result<()> {
    if wall_clock::ahead(&target.lab.shared(target.node))? != 0 {
        set_wall_clock(target, 0)?;
    }
    unshift(target).await
}

async fn unshift(target: &Target<'_>) -> anyhow::Result<()> {
    // Nothing is asked of a node that has nothing of it.
    if !target.lab.node(target.node).host_path(CLOCK_DROP_IN).exists() && !target.lab.shared(target.node).join(HOLDER).exists() {
        return Ok(());
    }
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
        for (text, seconds) in [("+30", 30), ("-3600s", -3600), ("+1h", 3600), ("-1m 30s", -90), ("60s", 60), ("0s", 0)] {
            assert_eq!(parse_jump(text).unwrap(), seconds, "{text}");
        }
        for bad in ["soon", "99999999999", "", "+", "--1", "1.5"] {
            assert!(parse_jump(bad).is_err(), "{bad}");
        }
    }
}
