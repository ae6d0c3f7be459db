//! One command of this node, asked for what it prints: bounded in time and size.
//!
//! Invariants: its input is empty, its environment is a path and the C locale; when its time is up or it prints too much it is killed, and
//! it is waited for in any case. Blocking, for less than the deadline and a little more: call it where a hung disk does no harm.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;

use crate::decision::time::Moment;
use crate::runtime::clock;

/// Where the tools are that are asked.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of what it says on standard error that are kept.
const ERROR_BYTES_MAX: usize = 4096;
/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// How the reason ends when the deadline was missed.
pub(super) const LATE: &str = "did not end in time";

/// How a command ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// Its exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    /// What it printed.
    pub(super) out: Vec<u8>,
    /// The beginning of what it said on standard error.
    pub(super) error: String,
}

/// Runs it to its end. Blocking.
///
/// # Errors
/// It is not there or may not be run, took longer than `deadline`, or printed more than `bytes_max`; a part of a sentence.
pub(super) fn run(program: &str, arguments: &[&str], deadline: Duration, bytes_max: usize) -> Result<Output, String> {
    let until = clock::now() + deadline;
    let spawned = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            format!("{program} is not installed")
        } else {
            format!("{program} cannot be run: {error}")
        }
    })?;
    let talked = listen(&mut child, until, bytes_max);
    if talked.is_err() {
        // It may have ended meanwhile, and that is as good.
        child.kill().ok();
    }
    let status = child.wait().map_err(|error| format!("{program} cannot be waited for: {error}"))?;
    let (out, error) = talked.map_err(|why| format!("{program} {why}"))?;
    Ok(Output { code: status.code(), out, error: String::from_utf8_lossy(&error).trim().to_owned() })
}

/// What it prints until it closes both of its outputs.
fn listen(child: &mut Child, until: Moment, bytes_max: usize) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("has no outputs".to_owned());
    };
    let broken = |error: io::Error| format!("cannot be read: {error}");
    ioctl_fionbio(&stdout, true).and_then(|()| ioctl_fionbio(&stderr, true)).map_err(|error| broken(error.into()))?;
    let (mut out, mut error) = (Vec::new(), Vec::new());
    let (mut out_open, mut error_open) = (true, true);
    while out_open || error_open {
        let left = until.since(clock::now());
        if left.is_zero() {
            return Err(LATE.to_owned());
        }
        wait(out_open.then_some(stdout.as_fd()), error_open.then_some(stderr.as_fd()), left).map_err(broken)?;
        if out_open {
            out_open = take(&mut stdout, &mut out, bytes_max.saturating_add(1)).map_err(broken)?;
        }
        if error_open {
            error_open = take(&mut stderr, &mut error, ERROR_BYTES_MAX).map_err(broken)?;
        }
        if out.len() > bytes_max {
            return Err(format!("printed more than {bytes_max} bytes"));
        }
    }
    Ok((out, error))
}

fn wait(out: Option<std::os::fd::BorrowedFd<'_>>, error: Option<std::os::fd::BorrowedFd<'_>>, left: Duration) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = out.into_iter().chain(error).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes what is there, and keeps the first `keep` bytes of all; whether more may come.
fn take(from: &mut impl Read, kept: &mut Vec<u8>, keep: usize) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK];
    match from.read(&mut chunk) {
        Ok(0) => Ok(false),
        Ok(length) => {
            let room = keep.saturating_sub(kept.len()).min(length);
            kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
            Ok(true)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str, deadline: Duration, bytes_max: usize) -> Result<Output, String> {
        run("sh", &["-c", script], deadline, bytes_max)
    }

    #[test]
    fn what_it_prints_and_how_it_ended_are_told() {
        let output = sh("echo one; echo two >&2; echo $LC_ALL $HOME; exit 3", LONG, 100).unwrap();
        assert_eq!(output, Output { code: Some(3), out: b"one\nC\n".to_vec(), error: "two".to_owned() });
        let output = sh("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2", LONG, 300_000).unwrap();
        assert_eq!((output.out.len(), output.error.len()), (300_000, ERROR_BYTES_MAX));
        assert_eq!(sh("kill -9 $$", LONG, 100).unwrap().code, None);
    }

    #[test]
    fn one_that_hangs_or_prints_without_end_is_killed() {
        let pid = |why: &str| format!("echo $$ > {why}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let hung = sh(&format!("{}; exec sleep 1000", pid(file.to_str().unwrap())), Duration::from_secs(1), 100);
        assert_eq!(hung, Err("sh did not end in time".to_owned()));
        if let Ok(pid) = std::fs::read_to_string(&file) {
            assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "{pid} goes on");
        }
        assert_eq!(sh("exec cat /dev/zero", LONG, 100), Err("sh printed more than 100 bytes".to_owned()));
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let error = run("fip-watchdog-no-such-tool", &[], LONG, 100);
        assert_eq!(error, Err("fip-watchdog-no-such-tool is not installed".to_owned()));
    }
}
