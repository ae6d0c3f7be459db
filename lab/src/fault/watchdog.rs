//! Faults of the watchdog's service.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};

use super::Target;
use super::etcd::main_process;

const UNIT: &str = "fip-watchdog.service";
/// systemd restarts after a second; a start that slipped in before the mask is killed too.
const KILLS_MAX: usize = 5;

pub(super) async fn kill(target: &Target<'_>) -> anyhow::Result<()> {
    let masked = target.choice("mask", &["no", "yes"])? == "yes";
    let pid = main_process(target, UNIT).await?.context("the watchdog does not run")?;
    // First the kill: whoever asks for it wants it at this instant, and the mask takes a reload.
    kill_process(pid, Signal::KILL).context("cannot kill the watchdog")?;
    if !masked {
        return Ok(());
    }
    mask(target).await?;
    for _ in 0..KILLS_MAX {
        match main_process(target, UNIT).await?.filter(|&again| again != pid) {
            None => return Ok(()),
            Some(again) => kill_process(again, Signal::KILL).context("cannot kill the watchdog")?,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the watchdog comes back although it is masked")
}

pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    let pid = main_process(target, UNIT).await?.context("the watchdog does not run")?;
    kill_process(pid, Signal::STOP).context("cannot freeze the watchdog")
}

/// One that took its place meanwhile is none the worse for it.
pub(super) async fn thaw(target: &Target<'_>) -> anyhow::Result<()> {
    match main_process(target, UNIT).await? {
        Some(pid) => kill_process(pid, Signal::CONT).context("cannot thaw the watchdog"),
        None => Ok(()),
    }
}

pub(super) async fn stop(target: &Target<'_>) -> anyhow::Result<()> {
    // The unit may take 45 s to put a manifest back.
    let limit = Duration::from_secs(60);
    target.lab.exec_ok(target.node, &["systemctl", "stop", UNIT], limit).await?;
    Ok(())
}

pub(super) async fn restart(target: &Target<'_>) -> anyhow::Result<()> {
    let limit = Duration::from_secs(60);
    target.lab.exec_ok(target.node, &["systemctl", "restart", UNIT], limit).await?;
    Ok(())
}

pub(super) async fn start(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["systemctl", "start", UNIT]).await?;
    Ok(())
}

pub(super) async fn mask(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["systemctl", "mask", "--runtime", "--quiet", UNIT]).await?;
    Ok(())
}

pub(super) async fn unmask(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["systemctl", "unmask", "--runtime", "--quiet", UNIT]).await?;
    Ok(())
}

/// One that was told to start may have run all along, and one that was told to stop may never have.
pub(super) async fn as_brought_up(target: &Target<'_>) -> anyhow::Result<()> {
    if target.lab.options().watchdog { start(target).await } else { stop(target).await }
}

/// Back to what it was: started, if the instance has a watchdog.
pub(super) async fn revive(target: &Target<'_>) -> anyhow::Result<()> {
    unmask(target).await?;
    if target.lab.options().watchdog {
        target.run(&["systemctl", "reset-failed", UNIT]).await.ok();
        start(target).await?;
    }
    Ok(())
}
