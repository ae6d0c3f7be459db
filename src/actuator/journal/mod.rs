//! The cycle journal, `<state_dir>/cycle.journal`: a write-ahead log of manifest cycles.
//!
//! Invariant: before the manifest is touched, all that is needed to put it back is on disk; what was
//! acknowledged is never lost, and what is damaged is never guessed at. A torn tail (a last line without
//! its newline) was never acknowledged and is absent; any other damage is [`JournalError::Corrupt`], and
//! then nothing may act until a person has looked. Every call blocks, and none is cancelled.
//!
//! The journal is bounded: once [`COMPACT_AT`] cycles have ended it is rewritten with the last
//! [`KEEP_CLOSED`] of them, through a temporary file, `fsync` and rename.

mod log;
mod record;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::durable_fs::{Dir, File, Fs, FsError};
pub use log::{ClosedCycle, Log, OpenCycle, PastCycle};
pub use record::{Intent, Outcome, PhaseMark, PodRecord, Record, Stamp, hex, sha256_hex, unhex};

/// Ended cycles that survive a compaction: more than any hour's budget, and enough history for a person.
pub const KEEP_CLOSED: usize = 32;
/// Ended cycles at which the journal is compacted; not at every end, because each compaction is a rewrite.
pub const COMPACT_AT: usize = 2 * KEEP_CLOSED;
/// A journal larger than this was not written by us: 64 cycles take some 100 KiB.
const JOURNAL_MAX: usize = 4 << 20;
const NAME: &str = "cycle.journal";
const TEMPORARY: &str = "cycle.journal.new";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A call failed.
    #[error("cycle journal is not usable")]
    Io(#[from] FsError),
    /// A record before the tail is damaged: stop acting, alarm.
    #[error("cycle journal {} is damaged at line {line}: {reason}", path.display())]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// The damaged line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A record cannot be written as text, most likely a path that is not UTF-8.
    #[error("cycle journal cannot hold the record")]
    Unwritable(#[source] serde_json::Error),
}

/// The journal of one state directory.
#[derive(Clone)]
pub struct Journal {
    fs: Fs,
    dir: PathBuf,
}

impl Journal {
    /// The journal in `state_dir`; nothing is read or written yet.
    #[must_use]
    pub fn new(fs: Fs, state_dir: &Path) -> Self {
        Self { fs, dir: state_dir.to_owned() }
    }

    /// Where the journal is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Reads the journal and writes nothing. One that does not exist is empty.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] for damage before the tail, [`JournalError::Io`] if it cannot be read.
    pub fn load(&self) -> Result<Log, JournalError> {
        let absent = |error: &FsError| error.is(Errno::NOENT);
        let dir = match self.fs.open_dir(&self.dir) {
            Ok(dir) => dir,
            Err(error) if absent(&error) => return Ok(Log::default()),
            Err(error) => return Err(error.into()),
        };
        match self.fs.open_file(&dir, OsStr::new(NAME)) {
            Ok(file) => self.parse(&self.fs.read(&file, JOURNAL_MAX)?),
            Err(error) if absent(&error) => Ok(Log::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn parse(&self, content: &[u8]) -> Result<Log, JournalError> {
        let mut log = Log::default();
        let whole = &content[..acknowledged(content)];
        for (index, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
            record::decode(&line[..line.len() - 1])
                .and_then(|record| log.push(record))
                .map_err(|reason| JournalError::Corrupt { path: self.path(), line: index + 1, reason })?;
        }
        Ok(log)
    }

    /// Adds a record; when this returns it is on disk. A torn tail is cut off first.
    ///
    /// # Errors
    /// The record is not acknowledged then, but it may be on disk all the same.
    pub fn append(&self, record: &Record) -> Result<(), JournalError> {
        let line = record::encode(record).map_err(JournalError::Unwritable)?;
        let dir = self.made_dir()?;
        let file = self.fs.open_append(&dir, OsStr::new(NAME))?;
        let content = self.fs.read(&file, JOURNAL_MAX)?;
        let end = acknowledged(&content);
        let len = u64::try_from(end).unwrap_or(u64::MAX);
        if end < content.len() {
            self.fs.truncate(&file, len)?;
        }
        // The directory each time: whoever created the journal may have died before its name was on disk.
        let written = self.write_through(&file, line.as_bytes()).and_then(|()| self.fs.sync_dir(&dir));
        match written {
            Ok(()) => Ok(()),
            // Half a line must not stay; if this fails too, the next append cuts it off.
            Err(error) => match self.fs.truncate(&file, len) {
                Ok(()) | Err(_) => Err(error.into()),
            },
        }
    }

    fn made_dir(&self) -> Result<Dir, FsError> {
        match self.fs.open_dir(&self.dir) {
            Err(error) if error.is(Errno::NOENT) => {
                self.fs.make_dir(&self.dir)?;
                self.fs.open_dir(&self.dir)
            }
            dir => dir,
        }
    }

    fn write_through(&self, file: &File, content: &[u8]) -> Result<(), FsError> {
        self.fs.write(file, content)?;
        self.fs.sync(file)
    }

    /// Compacts if it is time, then ends the open cycle. In this order a compaction that is broken off is taken
    /// up again by whoever finishes the cycle, and leaves nothing behind. One that fails is tried again at the
    /// next end; it is not an error of this one.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn close(&self, id: u64, outcome: Outcome, detail: &str, at: Stamp) -> Result<(), JournalError> {
        let log = self.load()?;
        if log.closed.len() + 1 >= COMPACT_AT {
            match self.compact(&log) {
                Ok(()) | Err(_) => {}
            }
        }
        match self.tidy() {
            Ok(()) | Err(_) => {}
        }
        self.append(&Record::Closed { id, outcome, detail: detail.to_owned(), at })
    }

    /// Rewrites the journal with the last cycles, of which one is about to end.
    fn compact(&self, log: &Log) -> Result<(), JournalError> {
        let (dropped, kept) = log.closed.split_at(log.closed.len().saturating_sub(KEEP_CLOSED - 1));
        let mut text = String::new();
        for record in kept.iter().flat_map(ClosedCycle::records).chain(log.open.iter().flat_map(OpenCycle::records)) {
            text += &record::encode(&record).map_err(JournalError::Unwritable)?;
        }
        let (dir, temporary, name) = (self.fs.open_dir(&self.dir)?, OsStr::new(TEMPORARY), OsStr::new(NAME));
        // Whoever wrote the open entry may have died before it was on disk; a power cut must not leave the
        // temporary file and no open entry.
        self.fs.sync(&self.fs.open_file(&dir, name)?)?;
        // Backups first: as long as the journal names them, the next compaction finds what this one left.
        let kept = kept.iter().map(|cycle| &cycle.intent).chain(log.open.iter().map(|open| &open.intent));
        self.drop_backups(dropped, &kept.map(|intent| intent.backup.as_path()).collect::<Vec<_>>())?;
        self.fs.unlink(&dir, temporary)?;
        let file = self.fs.create_new(&dir, temporary)?;
        self.write_through(&file, text.as_bytes())?;
        self.fs.rename_over(&dir, temporary, name)?;
        Ok(self.fs.sync_dir(&dir)?)
    }

    /// Removes what a compaction that was broken off has left, for good: after the end nobody looks for it. The
    /// sync is for one that was broken off between its rename and its own sync.
    fn tidy(&self) -> Result<(), FsError> {
        let dir = self.fs.open_dir(&self.dir)?;
        self.fs.unlink(&dir, OsStr::new(TEMPORARY))?;
        self.fs.sync_dir(&dir)
    }

    /// Removes backups that no journalled cycle names any more: they would pile up without bound.
    fn drop_backups(&self, dropped: &[ClosedCycle], kept: &[&Path]) -> Result<(), JournalError> {
        for backup in dropped.iter().map(|cycle| cycle.intent.backup.as_path()).filter(|backup| !kept.contains(backup)) {
            let (Some(parent), Some(name)) = (backup.parent(), backup.file_name()) else { continue };
            match self.fs.open_dir(parent) {
                Ok(dir) => {
                    self.fs.unlink(&dir, name)?;
                    self.fs.sync_dir(&dir)?;
                }
                Err(error) if error.is(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The length of the content without its torn tail.
fn acknowledged(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}
