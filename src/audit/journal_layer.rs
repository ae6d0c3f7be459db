//! Diagnostics (`tracing`) into the journal, over the same socket protocol as the audit.
//!
//! Invariant: as for the audit, writing never waits. A journal that hangs must not hang the daemon: `tracing-journald`
//! blocks in `sendto` as soon as journald's queue is full, on a node where the loop may have frozen for the same reason.
//! What cannot be sent now waits in the socket's bounded backlog.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::journald::{IDENTIFIER, JournalSocket, put_field};
use super::severity::Priority;
use super::text::clip;

/// So that a diagnostic's field is never mistaken for one of the audit.
const PREFIX: &str = "FIP_LOG_";

/// Longest value of a field, in bytes.
const VALUE_BYTES_MAX: usize = 2000;

/// Writes each event as a journal entry.
pub struct JournalLayer(Mutex<JournalSocket>);

impl JournalLayer {
    /// A layer towards the journal at `path`.
    ///
    /// # Errors
    /// As [`JournalSocket::open`].
    pub fn open(path: &Path) -> io::Result<Self> {
        JournalSocket::open(path).map(|socket| Self(Mutex::new(socket)))
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut entry = Entry { message: String::new(), fields: Vec::new() };
        event.record(&mut entry);
        let mut datagram = Vec::with_capacity(1024);
        put_field(&mut datagram, "MESSAGE", &clip(&entry.message, VALUE_BYTES_MAX));
        put_field(&mut datagram, "PRIORITY", &priority(*event.metadata().level()).number().to_string());
        put_field(&mut datagram, "SYSLOG_IDENTIFIER", IDENTIFIER);
        put_field(&mut datagram, &format!("{PREFIX}TARGET"), event.metadata().target());
        datagram.append(&mut entry.fields);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(datagram);
    }
}

const fn priority(level: Level) -> Priority {
    match level {
        Level::ERROR => Priority::Error,
        Level::WARN => Priority::Warning,
        Level::INFO => Priority::Info,
        Level::DEBUG | Level::TRACE => Priority::Debug,
    }
}

/// An event's message, and its fields in the journal's format.
struct Entry {
    message: String,
    fields: Vec<u8>,
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            let name: String = field
                .name()
                .chars()
                .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
                .collect();
            put_field(&mut self.fields, &format!("{PREFIX}{name}"), &clip(value, VALUE_BYTES_MAX));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn an_event_is_an_entry_with_prefixed_fields() {
        let dir = tempfile::tempdir().unwrap();
        let journald = UnixDatagram::bind(dir.path().join("socket")).unwrap();
        let layer = JournalLayer::open(&dir.path().join("socket")).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(error = "no such file", pause_ms = 7, "a sense is lost");
        });
        let mut buffer = [0; 4096];
        assert_eq!(journald.recv(&mut buffer).unwrap(), 0, "the empty one that asks whether somebody listens");
        let length = journald.recv(&mut buffer).unwrap();
        let entry = std::str::from_utf8(&buffer[..length]).unwrap();
        assert_eq!(
            entry,
            "MESSAGE=a sense is lost\nPRIORITY=4\nSYSLOG_IDENTIFIER=fip-watchdog\n\
             FIP_LOG_TARGET=fip_watchdog::audit::journal_layer::tests\nFIP_LOG_ERROR=no such file\nFIP_LOG_PAUSE_MS=7\n"
        );
    }

    /// A journald that is stopped: without the fix this test would never end.
    #[test]
    fn a_journal_that_reads_nothing_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let _journald = UnixDatagram::bind(dir.path().join("socket")).unwrap();
        let layer = JournalLayer::open(&dir.path().join("socket")).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for round in 0..5000 {
                tracing::warn!(round, "nobody reads");
            }
        });
    }
}
