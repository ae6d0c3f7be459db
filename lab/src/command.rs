//! Running other programs, always with a time limit, and with errors that name the program and quote what it said.
//!
//! Cancel-safe: a child whose future is dropped is killed together with its process group.

use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// Enough for `journalctl -o json` of a long scenario; a reader that runs away must not take the host's memory.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Why a program did not do what it was asked to.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Reading its output failed.
    #[error("cannot read the output of {program}")]
    Read {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It did not end in time and was killed.
    #[error("{program} did not end within {limit:?}")]
    TimedOut {
        /// The program.
        program: String,
        /// The limit.
        limit: Duration,
    },
    /// It ended with a failure.
    #[error("{program} failed with {status}: {stderr}")]
    Failed {
        /// The program with its arguments.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
}

/// Kills the process group of a child that was not waited for.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            // Gone already is what is wanted.
            kill_process_group(pid, Signal::KILL).ok();
        }
    }
}

/// Runs `command` to its end, whatever its exit status.
///
/// # Errors
/// It cannot be started, read, or does not end within `limit`.
pub async fn output(command: &mut Command, limit: Duration) -> Result<Output, CommandError> {
    let program = describe(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|source| CommandError::Start { program: program.clone(), source })?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let whole = async { tokio::try_join!(read_all(stdout), read_all(stderr), child.wait()) };
    match tokio::time::timeout(limit, whole).await {
        Err(_elapsed) => Err(CommandError::TimedOut { program, limit }),
        Ok(Err(source)) => Err(CommandError::Read { program, source }),
        Ok(Ok((stdout, stderr, status))) => {
            group.0 = None;
            Ok(Output { status, stdout, stderr })
        }
    }
}

/// Runs `argv` and gives its standard output; a failing exit status is an error.
///
/// # Errors
/// As [`output`], and a failing exit status.
pub async fn run(argv: &[&str], limit: Duration) -> Result<String, CommandError> {
    let (program, args) = argv.split_first().unwrap_or((&"", &[]));
    success(Command::new(program).args(args), limit).await
}

/// Runs `command` and gives its standard output; a failing exit status is an error.
///
/// # Errors
/// As [`output`], and a failing exit status.
pub async fn success(command: &mut Command, limit: Duration) -> Result<String, CommandError> {
    let output = output(command, limit).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = tail(&String::from_utf8_lossy(&output.stderr), 8);
    Err(CommandError::Failed { program: describe(command), status: output.status, stderr })
}

/// The last `lines` lines of `text`.
#[must_use]
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn describe(command: &Command) -> String {
    // A shell script as an argument would fill the screen.
    const LONGEST_ARGUMENT: usize = 60;
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| {
        let word = word.to_string_lossy();
        if word.chars().count() <= LONGEST_ARGUMENT {
            return word.into_owned();
        }
        word.chars().take(LONGEST_ARGUMENT).chain("…".chars()).collect()
    });
    words.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn failure_quotes_what_the_program_said() {
        let error = block_on(run(&["sh", "-c", "echo no such thing >&2; exit 3"], Duration::from_secs(10))).unwrap_err();
        assert!(error.to_string().contains("no such thing"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let error = block_on(run(&["sh", "-c", "sleep 600 & sleep 600"], Duration::from_millis(200))).unwrap_err();
        assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 5), "a");
    }
}
