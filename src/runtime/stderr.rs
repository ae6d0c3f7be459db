//! Standard error that nobody may be reading.
//!
//! A pipe that is full (`fip-watchdog run 2>&1 | less`, a supervisor whose log reader died) would block the writer:
//! the very fault that this daemon watches for. Invariant: a write never waits; what there is no room for is lost.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Room for this much is what a pipe means by "writable" (`PIPE_BUF`, pipe(7)); a longer write could wait half way.
const CHUNK: usize = 4096;

/// Writes to standard error what it takes at once.
#[derive(Debug, Default, Clone, Copy)]
pub struct ImpatientStderr;

impl Write for ImpatientStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if has_room() { io::stderr().write(bytes.get(..CHUNK).unwrap_or(bytes)) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Also when the reader went away: the write then says so.
fn has_room() -> bool {
    let stderr = io::stderr();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}
