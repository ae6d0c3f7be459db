//! The asking end of the control socket. Blocking, with one deadline over the whole exchange.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::protocol::{self, Request, Response};
use crate::runtime::clock;

/// How long the daemon may take: its own deadlines add up to less.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Longest answer that is read. A report stays far below it; more is not our daemon.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error("the daemon is not running: nothing listens on {}", .0.display())]
    NotRunning(PathBuf),
    /// The socket is not ours to use.
    #[error("not permitted to use {}: run as root", .0.display())]
    NotPermitted(PathBuf),
    /// The daemon did not answer in time.
    #[error("no answer on {} within {}s: the daemon hangs or is overloaded", path.display(), after.as_secs())]
    TimedOut {
        /// The socket.
        path: PathBuf,
        /// The deadline.
        after: Duration,
    },
    /// The exchange broke off.
    #[error("cannot talk to the daemon on {}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The answer is not one.
    #[error("the answer on {} is not understood: {reason}", path.display())]
    NotUnderstood {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Asks the daemon at `path`, within `deadline`.
///
/// # Errors
/// When there is no answer that can be understood. A refusal is an answer.
pub fn ask(path: &Path, request: &Request, deadline: Duration) -> Result<Response, ClientError> {
    let broken = |source: io::Error| named(path, deadline, source);
    let line = protocol::encode_request(request).map_err(|error| broken(error.into()))?;
    let answer = exchange(path, line.as_bytes(), deadline).map_err(broken)?;
    if answer.is_empty() {
        return Err(broken(io::ErrorKind::UnexpectedEof.into()));
    }
    protocol::parse_response(&answer).map_err(|reason| ClientError::NotUnderstood { path: path.to_owned(), reason })
}

fn exchange(path: &Path, line: &[u8], deadline: Duration) -> io::Result<Vec<u8>> {
    let begun = clock::now();
    let remaining = || match deadline.saturating_sub(clock::now().since(begun)) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // On a Unix socket this also bounds how long connect() waits for room in the listener's queue.
    socket.set_write_timeout(remaining()?)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_write_timeout(remaining()?)?;
    socket.write_all(line)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        socket.set_read_timeout(remaining()?)?;
        let length = match socket.read(&mut chunk) {
            Ok(0) => return Ok(answer),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        answer.extend_from_slice(chunk.get(..length).unwrap_or_default());
        if answer.len() > RESPONSE_BYTES_MAX {
            return Err(io::Error::other(format!("answer is longer than {RESPONSE_BYTES_MAX} bytes")));
        }
    }
}

fn named(path: &Path, deadline: Duration, source: io::Error) -> ClientError {
    let path = path.to_owned();
    // Everything that is not one of these keeps its own words as the source.
    if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        ClientError::NotRunning(path)
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        ClientError::NotPermitted(path)
    } else if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        ClientError::TimedOut { path, after: deadline }
    } else {
        ClientError::Io { path, source }
    }
}
