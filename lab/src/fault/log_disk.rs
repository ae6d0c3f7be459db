//! A disk of its own below the pods' logs, that can hang.

use std::time::Duration;

use anyhow::Context as _;

use super::disk::{self, LOGS};
use super::{Target, process};

/// A reader writes within microseconds once there is something to read.
const HANGS_LIMIT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Mounts it, and lets the loop begin a new log there.
pub(super) async fn attach(target: &Target<'_>) -> anyhow::Result<()> {
    if disk::is_attached(target, LOGS).await? {
        return Ok(());
    }
    disk::attach(target, LOGS, false).await?;
    process::kill_loop(target)
}

pub(super) async fn detach(target: &Target<'_>) -> anyhow::Result<()> {
    disk::detach(target, LOGS).await?;
    // A loop that does not run needs no other log.
    process::kill_loop(target).or(Ok(()))
}

/// Freezes it. The loop's pipe is filled, because its reader hangs in its next write from now on.
pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    let reader = process::reader_pid(target)?;
    disk::freeze(target, LOGS, "log-disk").await?;
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
    disk::thaw(target, LOGS).await
}
