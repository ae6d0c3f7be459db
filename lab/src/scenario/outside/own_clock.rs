//! A wall clock of its own for a daemon that is about to begin.
//!
//! The clock goes with what a process executes (`wall_clock::vdso`), so that it can be given only after the shell that is held has
//! become the daemon, and must be given before that executes anything. strace makes that moment: it sends SIGSTOP into the shell's
//! `execve`, which takes effect at the daemon's first instruction, and leaves the process there. May be dropped at any time.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::calls;
use crate::service::Process;
use crate::units::HELD_NAME;
use crate::wall_clock::{self, vdso};

/// It takes milliseconds; a busy machine may take longer.
const LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Lets the held shell `pid` become the daemon, which is left at its first instruction, stopped, with the clock of the node
/// with that shared directory.
///
/// # Errors
/// The process is gone, or it cannot be done.
pub async fn give(shared: &Path, pid: Pid) -> anyhow::Result<()> {
    let mut command = Command::new("strace");
    command.args(["-b", "execve", "-e", "trace=execve", "-e", "inject=execve:signal=SIGSTOP:when=1", "-e", "signal=none", "-p"]);
    command.arg(pid.as_raw_nonzero().to_string());
    // Ends by itself when the process executes something, or ends.
    let strace = calls::attached(command).await?;
    kill_process(pid, Signal::CONT).context("cannot let the held process go on")?;
    let became = async {
        loop {
            let process = Process::look(pid).filter(Process::is_alive).context("the process is gone")?;
            // 'T' and not 't': strace is gone as well.
            if process.is_stopped() && process.name != HELD_NAME {
                return anyhow::Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(LIMIT, became).await.context("the held process does not become the daemon")??;
    drop(strace);
    // From reading to setting without a pause, so that no jump comes between.
    vdso::set_ahead(pid, wall_clock::ahead(shared)?)
}
