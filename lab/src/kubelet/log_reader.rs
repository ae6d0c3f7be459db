//! The part of a container runtime that copies a container's output into its log, as a process of its own so that it can be killed alone.
//!
//! Descriptors 0 and 1 are both inputs: the read ends of the container's stdout and stderr pipes. Stamps are by the node's own wall clock.
//! Invariant: it ends when both streams have ended, and never blocks the container for longer than the disk does.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};

use super::cri::Framer;
use super::rotate::RotatingLog;
use super::say;
use crate::wall_clock;

/// As much as a pipe holds.
const READ_BYTES: usize = 65_536;

#[derive(Debug, Parser)]
#[command(name = "log-reader", about = "Copy a container's output into its log in CRI format")]
struct Arguments {
    /// The log file.
    #[arg(long)]
    log: PathBuf,
    /// Rotate the log when it is larger than this.
    #[arg(long, default_value_t = super::options::ROTATE_BYTES_DEFAULT)]
    rotate_bytes: u64,
}

/// Copy until both streams have ended.
///
/// # Errors
/// The log cannot be opened.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = Arguments::try_parse_from(args)?;
    let mut log = RotatingLog::open(&arguments.log, arguments.rotate_bytes)
        .with_context(|| format!("cannot open log {}", arguments.log.display()))?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut streams = vec![(stdin.as_fd(), Framer::new("stdout")), (stdout.as_fd(), Framer::new("stderr"))];
    let mut buffer = vec![0_u8; READ_BYTES];
    while !streams.is_empty() {
        let ready = wait(&streams)?;
        let mut lines = Vec::new();
        let mut ended = None;
        for (index, (fd, framer)) in streams.iter_mut().enumerate().filter(|(index, _)| ready.contains(index)) {
            match rustix::io::read(*fd, &mut buffer) {
                Ok(0) => {
                    framer.finish(wall_clock::now_in_node(), &mut lines);
                    ended = Some(index);
                }
                Ok(count) => framer.push(&buffer[..count], wall_clock::now_in_node(), &mut lines),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot read the container's output"),
            }
        }
        // A full disk costs lines, as it does with a real runtime, and never stops the container.
        if let Err(error) = log.append(&lines, wall_clock::now_in_node()) {
            say(&format!("\"Fail to write log\" path={:?} err=\"{error}\"", arguments.log));
        }
        if let Some(index) = ended {
            streams.remove(index);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(streams: &[(BorrowedFd<'_>, Framer)]) -> anyhow::Result<Vec<usize>> {
    let mut fds: Vec<PollFd<'_>> = streams.iter().map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for the container's output"),
    }
    Ok(fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect())
}
