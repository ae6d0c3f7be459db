//! The journal's native protocol: one datagram an entry, <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
//!
//! Invariants: an entry has exactly the fields of the audit and no others (`tracing-journald` adds
//! `TARGET`, `CODE_FILE` and `CODE_LINE`, knows five priorities, and drops a failed send in silence);
//! writing never blocks the decision loop; what cannot be sent now waits in a bounded backlog, and what
//! falls out of it is counted. Not async, so there is nothing to cancel.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::event::Entry;
use super::kind::EventKind;
use super::severity::Priority;
use super::text::clip;

/// Where journald listens.
pub const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// `SYSLOG_IDENTIFIER`, for `journalctl -t`.
pub const IDENTIFIER: &str = "fip-watchdog";

/// Longest `MESSAGE`, in bytes: one line in `journalctl` that a person still reads.
const MESSAGE_BYTES_MAX: usize = 2000;

/// Longest `FIP_EVIDENCE`, in bytes: the largest that an autopsy may have (`autopsy::evidence`), with all that the senses can say.
/// With the other bounds an entry stays below the 200 KiB that a datagram may have by default
/// (`net.core.wmem_default`), so that no entry needs a memory file.
const EVIDENCE_BYTES_MAX: usize = 112 * 1024;

/// Most entries that wait for a journal that does not take them; at one entry a second, a minute.
const BACKLOG_MAX: usize = 64;

/// The journal's socket, and what it has not taken yet.
#[derive(Debug)]
pub struct JournalSocket {
    socket: UnixDatagram,
    path: PathBuf,
    backlog: VecDeque<Vec<u8>>,
    lost: u64,
}

impl JournalSocket {
    /// Opens a socket towards the journal at `path`.
    ///
    /// # Errors
    /// When no socket can be made, or when nothing listens at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        // Journald ignores an empty datagram; without a listener the send fails.
        match socket.send_to(&[], path) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
        Ok(Self { socket, path: path.to_owned(), backlog: VecDeque::new(), lost: 0 })
    }

    /// Sends an entry after those that still wait, or lets it wait too.
    pub fn send(&mut self, entry: Vec<u8>) {
        if self.backlog.len() == BACKLOG_MAX {
            self.backlog.pop_front();
            self.lost = self.lost.saturating_add(1);
        }
        self.backlog.push_back(entry);
        self.flush();
    }

    /// Sends what waits, as far as the journal takes it. Called on every tick.
    pub fn flush(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // Not connected, since a restarted journald has a new socket at the same path.
            match self.socket.send_to(entry, &self.path) {
                Ok(_) => {}
                // It will never fit, so it must not hold up those behind it.
                Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                    self.lost = self.lost.saturating_add(1);
                }
                Err(_) => return,
            }
            self.backlog.pop_front();
        }
    }

    /// How many entries wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// How many entries were given up.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// An entry in the journal's format.
#[must_use]
pub fn encode(kind: EventKind, priority: Priority, entry: &Entry) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(2048);
    let mut put = |name: &str, value: &str| put_field(&mut datagram, name, value);
    put("MESSAGE", &clip(&entry.message, MESSAGE_BYTES_MAX));
    put("MESSAGE_ID", kind.message_id());
    put("PRIORITY", &priority.number().to_string());
    put("SYSLOG_IDENTIFIER", IDENTIFIER);
    put("FIP_EVENT", kind.name());
    if let Some(verdict) = entry.verdict {
        put("FIP_VERDICT", verdict.name());
    }
    if let Some(from) = entry.verdict_from {
        put("FIP_VERDICT_FROM", from.name());
    }
    if let Some(step) = &entry.step {
        put("FIP_STEP", step);
    }
    if let Some(reason) = &entry.reason {
        put("FIP_REASON", reason);
    }
    if let Some(evidence) = &entry.evidence {
        let json = evidence.to_string();
        if json.len() <= EVIDENCE_BYTES_MAX {
            put("FIP_EVIDENCE", &json);
        } else {
            // Half a JSON document is none.
            put("FIP_EVIDENCE", &format!(r#"{{"omitted_bytes":{}}}"#, json.len()));
        }
    }
    if let Some(duration) = entry.duration_ms {
        put("FIP_DURATION_MS", &duration.to_string());
    }
    if let Some(cause) = &entry.cause {
        put("FIP_CAUSE", cause);
    }
    if let Some(outcome) = &entry.outcome {
        put("FIP_OUTCOME", outcome);
    }
    if let Some(command) = &entry.command {
        put("FIP_COMMAND", command);
    }
    if let Some(number) = entry.autopsy {
        put("FIP_AUTOPSY", &format!("{number:04}"));
    }
    datagram
}

/// `NAME=value`, or the binary form (name, little-endian length, bytes) for a value with a line feed.
pub(super) fn put_field(datagram: &mut Vec<u8>, name: &str, value: &str) {
    datagram.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend_from_slice(value.as_bytes());
    datagram.push(b'\n');
}
