//! Asking a program: `systemctl show`, `journalctl`.
//!
//! Invariant: bounded. The program is killed when its time is over or when nobody waits any more, and no more than the last bytes of its
//! answer are kept. It reads nothing and its errors go nowhere. Cancel-safe.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStdout, Command};

/// What is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// The last `bytes_max` of what a program says within its `deadline`.
///
/// # Errors
/// It cannot be started, is late, or ends with another status than success: as a sentence that begins with its name.
pub(crate) async fn answer<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    deadline: Duration,
    bytes_max: usize,
) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let said = tokio::time::timeout(deadline, hear(command, bytes_max)).await;
    said.map_err(|_elapsed| format!("{program} does not answer"))?.map_err(|error| format!("{program}: {error}"))
}

async fn hear(mut command: Command, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut child = command.spawn()?;
    let said = match child.stdout.take() {
        Some(stdout) => last_bytes(stdout, bytes_max).await?,
        None => Vec::new(),
    };
    let status = child.wait().await?;
    if status.success() { Ok(said) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}

async fn last_bytes(mut stdout: ChildStdout, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = stdout.read(&mut piece).await?;
        said.extend_from_slice(piece.get(..count).unwrap_or_default());
        if count == 0 || said.len() > bytes_max.saturating_mul(2) {
            said.drain(..said.len().saturating_sub(bytes_max));
        }
        if count == 0 {
            return Ok(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn sh(script: &str, deadline: Duration) -> Result<Vec<u8>, String> {
        answer("sh", ["-c", script], deadline, 1000).await
    }

    #[tokio::test]
    async fn the_end_of_a_long_answer_is_kept() {
        let said = sh("head -c 200000 /dev/zero; echo end", LONG).await.unwrap();
        assert_eq!((said.len(), said.ends_with(b"\0end\n")), (1000, true));
        assert_eq!(sh("echo short", LONG).await.unwrap(), b"short\n");
        assert_eq!(sh(":", LONG).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn what_fails_or_hangs_is_named() {
        assert_eq!(sh("echo half; exit 3", LONG).await, Err("sh: it ended with exit status: 3".to_owned()));
        assert_eq!(sh("exec sleep 600", Duration::from_millis(20)).await, Err("sh does not answer".to_owned()));
        assert_eq!(sh("exec cat /dev/zero", Duration::from_millis(20)).await, Err("sh does not answer".to_owned()));
        let absent = answer("/nonexistent/program", [""; 0], LONG, 1).await;
        assert!(absent.is_err_and(|text| text.starts_with("/nonexistent/program: ")));
    }
}
