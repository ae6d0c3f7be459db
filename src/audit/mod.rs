//! The audit: everything that the watchdog found, did, or refused to do, with the evidence (invariant I7).
//!
//! [`Audit::emit`] is the one way in: it writes the journal entry and moves the counter, so that the two
//! can never tell different stories. It never blocks and never fails; entries that a stuck journal does
//! not take wait in a bounded backlog. Not async, so there is nothing to cancel.

mod diagnosed;
pub mod event;
pub mod evidence;
pub mod facts;
pub mod journal_layer;
pub mod journald;
pub mod kind;
pub mod recovery;
pub mod severity;
pub mod text;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use diagnosed::word;
pub use event::AuditEvent;
pub use evidence::evidence;
pub use kind::EventKind;
pub use severity::{Priority, is_alarmed, severity};

use crate::runtime::stderr::ImpatientStderr;
use journald::JournalSocket;

/// Where entries go, and how many of each kind there were.
pub struct Audit {
    sinks: Mutex<Sinks>,
    counters: [AtomicU64; EventKind::ALL.len()],
    debug: bool,
}

struct Sinks {
    journal: Option<JournalSocket>,
    lines: Option<Box<dyn Write + Send>>,
    listener: Option<Listener>,
}

/// Is handed every event as it is, routine ones too.
pub type Listener = Box<dyn FnMut(&AuditEvent) + Send>;

impl Audit {
    /// An audit into the journal, into human lines, into both, or (in tests of others) into neither.
    /// `debug` says whether routine entries are written, not only counted.
    #[must_use]
    pub fn new(journal: Option<JournalSocket>, lines: Option<Box<dyn Write + Send>>, debug: bool) -> Self {
        let sinks = Mutex::new(Sinks { journal, lines, listener: None });
        Self { sinks, counters: std::array::from_fn(|_| AtomicU64::new(0)), debug }
    }

    /// An audit that hands its events to a simulation instead of writing them.
    #[must_use]
    pub fn to_listener(listener: Listener) -> Self {
        let audit = Self::new(None, None, true);
        audit.sinks().listener = Some(listener);
        audit
    }

    /// The audit of a daemon: into the journal where there is one, also when it was started by hand,
    /// and as a line to standard error where that is not the journal itself.
    #[must_use]
    pub fn connect(debug: bool) -> Self {
        let journal = JournalSocket::open(Path::new(journald::JOURNAL_SOCKET)).ok();
        let by_hand = journal.is_none() || !crate::runtime::telemetry::stderr_is_the_journal();
        Self::new(journal, by_hand.then(|| Box::new(ImpatientStderr) as Box<dyn Write + Send>), debug)
    }

    /// Writes the entry and moves the counter.
    pub fn emit(&self, event: &AuditEvent) {
        let kind = event.kind();
        if let Some(counter) = self.counters.get(kind.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let priority = event.priority();
        if priority == Priority::Debug && !self.debug {
            return;
        }
        let mut sinks = self.sinks();
        if let Some(listener) = &mut sinks.listener {
            listener(event);
        }
        if sinks.journal.is_none() && sinks.lines.is_none() {
            return;
        }
        let entry = event.entry();
        if let Some(journal) = &mut sinks.journal {
            journal.send(journald::encode(kind, priority, &entry));
        }
        if let Some(lines) = &mut sinks.lines
            && writeln!(lines, "{}: {}", kind.name(), text::clip(&entry.message, 2000)).is_err()
        {
            // Nobody reads any more; the journal, if there is one, has the entry.
            sinks.lines = None;
        }
    }

    /// Sends entries that an unwilling journal left waiting. Called on every tick.
    pub fn flush(&self) {
        if let Some(journal) = &mut self.sinks().journal {
            journal.flush();
        }
    }

    /// How many events of each kind there were since the start.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        EventKind::ALL.iter().zip(&self.counters).map(|(kind, counter)| (kind.name(), counter.load(Ordering::Relaxed))).collect()
    }

    /// How many events of one kind there were since the start.
    #[must_use]
    pub fn count(&self, kind: EventKind) -> u64 {
        self.counters.get(kind.index()).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// How many entries the journal never took.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sinks().journal.as_ref().map_or(0, JournalSocket::lost)
    }

    fn sinks(&self) -> MutexGuard<'_, Sinks> {
        // A panic while the lock was held leaves at worst a missing line.
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests;
