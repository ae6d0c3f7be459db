//! Following one log through growth, rotation, truncation, restarts and new pods.
//!
//! The followed file is held open. While it is, no other file can get its inode, so (dev, inode) names it although
//! inodes are reused; what was renamed is read to its end before its successor; and a file without a link tells a
//! removed container (the next file is a new loop) from a rotated log (the same loop goes on).
//!
//! Invariants: bytes that were there when following began are history and never reach [`Sink::appended`]; every byte
//! after them does, once and in order, unless [`Sink::cut`] said that some were lost; those which stood in a file when it
//! was first seen or seen truncated go to [`Sink::found`] instead, since an old copy may have been put there. A call reads at most
//! [`READ_MAX`] bytes; a calm one costs one `stat`. Blocking; a call that is abandoned leaves the state whole,
//! because nothing here suspends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::candidates::{Candidate, FileId, FollowError, Target};
use crate::decision::time::Moment;

/// Most bytes that one call reads. The loop writes 1 to 2 KB a round; this bounds what a flood costs a tick.
const READ_MAX: u64 = 1024 * 1024;

/// With more than this unread (a flood, or a daemon that was stopped) only the last [`READ_MAX`] bytes are read: late
/// beats are worth nothing. The kubelet rotates at 10 MiB, so it takes an unbounded log to get here.
const BACKLOG_MAX: u64 = 32 * 1024 * 1024;

/// How much history is read so that a half-written round is understood: some thirty rounds.
const HISTORY_MAX: u64 = 64 * 1024;

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// How many bytes before the offset are compared at each growth, to notice a file that was truncated and has grown
/// beyond the old offset since (copytruncate). A log line's time stamp alone makes them differ.
const FINGERPRINT: usize = 64;

/// What a file grows by for so long after it was first seen, or was seen truncated, is still [`Sink::found`]: a copy
/// that is put back is written in pieces.
const FOUND_SETTLES: Duration = Duration::from_secs(2);

/// Time between two looks for other logs while the followed one is in place.
const RESCAN: Duration = Duration::from_secs(2);

/// Who gets the bytes.
pub(super) trait Sink {
    /// Another container's log begins: nothing of the last one counts any more.
    fn began(&mut self);
    /// Bytes that were there before following began. `inside_line`: they start in the middle of a line.
    fn history(&mut self, bytes: &[u8], inside_line: bool);
    /// Bytes of a new or truncated file which stood there when that was noticed: the loop's news, or an old copy.
    fn found(&mut self, bytes: &[u8]);
    /// Bytes that were appended.
    fn appended(&mut self, bytes: &[u8]);
    /// Bytes were lost. `inside_line`: what comes next starts in the middle of a line.
    fn cut(&mut self, inside_line: bool);
}

/// Finds and follows the loop's log.
#[derive(Debug)]
pub(super) struct Follower {
    target: Target,
    followed: Option<Followed>,
    /// What the last look found; `None` before the first one that could list the root.
    seen: Option<BTreeMap<PathBuf, Candidate>>,
    looked_at: Option<Moment>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Followed {
    path: PathBuf,
    uid: String,
    file: File,
    id: FileId,
    offset: u64,
    /// The last bytes before `offset`.
    fingerprint: Vec<u8>,
    /// When the file was first seen, or last seen truncated; `None` if it was there when following began.
    noticed_at: Option<Moment>,
    /// Bytes before this offset are [`Sink::found`].
    found_until: u64,
}

impl Follower {
    pub(super) fn new(target: Target) -> Self {
        Self { target, followed: None, seen: None, looked_at: None, buffer: vec![0; CHUNK] }
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// Hands what is new to `sink`. Returns the followed log and its pod's uid.
    ///
    /// # Errors
    /// [`FollowError`] if there is nothing to follow.
    pub(super) fn poll(&mut self, now: Moment, sink: &mut impl Sink) -> Result<(&Path, &str), FollowError> {
        if self.looked_at.is_none_or(|at| now.since(at) >= RESCAN) || self.followed.is_none() {
            self.looked_at = Some(now);
            self.look(now, sink)?;
        }
        if let Some(mut followed) = self.followed.take() {
            if followed.advance(now, &mut self.buffer, sink)? {
                self.followed = Some(followed);
            } else if let Some(seen) = &mut self.seen {
                // Its inode is free now, and the next file of this name may well get it.
                seen.remove(&followed.path);
            }
        }
        match &self.followed {
            Some(followed) => Ok((&followed.path, &followed.uid)),
            None => Err(self.target.missing()),
        }
    }

    /// Looks for logs and changes to another one if that one is the loop's now.
    fn look(&mut self, now: Moment, sink: &mut impl Sink) -> Result<(), FollowError> {
        let found = match self.target.candidates() {
            Ok(found) => found,
            // The followed file is still open; its own path will tell when it is gone.
            Err(_) if self.followed.is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_first = self.seen.is_none();
        let next = self.choose(&found).map(|log| (log.clone(), self.counts_from(log), is_first || self.earlier(log).is_some()));
        self.seen = Some(found.into_iter().map(|log| (log.path.clone(), log)).collect());
        if let Some((log, counts_from, is_known)) = next {
            sink.began();
            let mut followed = Followed::open(&log, counts_from, &mut self.buffer, sink)?;
            followed.noticed_at = (!is_known || followed.id != log.id).then_some(now);
            self.followed = Some(followed);
        }
        Ok(())
    }

    /// The log to change to, if any. `found` has the newest last.
    fn choose<'found>(&self, found: &'found [Candidate]) -> Option<&'found Candidate> {
        let Some(followed) = &self.followed else {
            let moved = found.iter().rev().find(|log| self.has_moved(log));
            return moved.or_else(|| found.last());
        };
        let others = || found.iter().rev().filter(|log| log.path != followed.path);
        // A log that was not there before is a new container's: a restart, or a new pod.
        let appeared = others().find(|log| self.earlier(log).is_none());
        let is_calm = !found.iter().any(|log| log.path == followed.path && self.has_moved(log));
        appeared.or_else(|| others().find(|log| is_calm && self.has_moved(log)))
    }

    /// The same file at the last look.
    fn earlier(&self, log: &Candidate) -> Option<&Candidate> {
        self.seen.as_ref()?.get(&log.path).filter(|earlier| earlier.id == log.id)
    }

    /// Whether the log was written to between the last look and this one.
    fn has_moved(&self, log: &Candidate) -> bool {
        self.seen.is_some() && self.earlier(log).is_none_or(|earlier| (earlier.size, earlier.changed) != (log.size, log.changed))
    }

    /// Where history ends: all of a log at the first look, nothing of one that came later.
    fn counts_from(&self, log: &Candidate) -> u64 {
        match (&self.seen, self.earlier(log)) {
            (None, _) => log.size,
            (Some(_), Some(earlier)) if earlier.size <= log.size => earlier.size,
            (Some(_), _) => 0,
        }
    }
}

impl Followed {
    /// Opens a log and hands over the end of its history.
    fn open(log: &Candidate, counts_from: u64, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Self, FollowError> {
        let file = open(&log.path)?;
        let id = FileId::of(&file.metadata().map_err(cannot_read(&log.path))?);
        // The path may have got another file since the look: then all of it is new.
        let end = if id == log.id { counts_from } else { 0 };
        let start = end.saturating_sub(HISTORY_MAX);
        let uid = log.uid.clone();
        let path = log.path.clone();
        let mut followed = Self { path, uid, file, id, offset: start, fingerprint: Vec::new(), noticed_at: None, found_until: 0 };
        while followed.offset < end {
            let room = usize::try_from(end - followed.offset).unwrap_or(CHUNK).min(CHUNK);
            let part = buffer.get_mut(..room).unwrap_or_default();
            let count = followed.file.read_at(part, followed.offset).map_err(cannot_read(&log.path))?;
            if count == 0 {
                break;
            }
            let bytes = part.get(..count).unwrap_or_default();
            sink.history(bytes, followed.offset == start && start > 0);
            followed.take_in(bytes);
        }
        Ok(followed)
    }

    /// Reads what is new, and changes to the file's successor of the same name. False if the log is gone for good.
    fn advance(&mut self, now: Moment, buffer: &mut [u8], sink: &mut impl Sink) -> Result<bool, FollowError> {
        // The path first: once its new file has content, the writer has left the old one, which is then read to its end.
        let successor = match fs::metadata(&self.path) {
            Ok(metadata) if FileId::of(&metadata) == self.id => {
                self.read(now, metadata.len(), READ_MAX, buffer, sink)?;
                return Ok(true);
            }
            Ok(metadata) => Some(metadata.len()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(cannot_read(&self.path)(error)),
        };
        let old = self.file.metadata().map_err(cannot_read(&self.path))?;
        let left = self.read(now, old.len(), READ_MAX, buffer, sink)?;
        let is_removed = old.nlink() == 0;
        let is_drained = self.offset >= old.len();
        match successor {
            Some(size) if is_drained && (size > 0 || is_removed) => {
                if is_removed {
                    sink.began();
                }
                self.change_to_successor()?;
                // A rotated log's successor holds what the same loop went on to write.
                self.noticed_at = is_removed.then_some(now);
                let size = self.file.metadata().map_err(cannot_read(&self.path))?.len();
                self.read(now, size, left, buffer, sink)?;
                Ok(true)
            }
            Some(_) => Ok(true),
            // For 1 to 3 ms a rotation leaves no file of this name.
            None => Ok(!(is_drained && is_removed)),
        }
    }

    fn change_to_successor(&mut self) -> Result<(), FollowError> {
        let file = open(&self.path)?;
        self.id = FileId::of(&file.metadata().map_err(cannot_read(&self.path))?);
        self.file = file;
        self.restart_at(0);
        Ok(())
    }

    /// Goes on at `offset`, where other bytes stand than those that were read.
    fn restart_at(&mut self, offset: u64) {
        self.offset = offset;
        self.fingerprint.clear();
        self.found_until = 0;
    }

    /// Reads up to `size`, at most `budget` bytes; returns what is left of the budget.
    fn read(
        &mut self,
        now: Moment,
        size: u64,
        mut budget: u64,
        buffer: &mut [u8],
        sink: &mut impl Sink,
    ) -> Result<u64, FollowError> {
        if size < self.offset || (size > self.offset && !self.is_as_left()?) {
            sink.cut(false);
            self.restart_at(0);
            self.noticed_at = Some(now);
        }
        if size - self.offset > BACKLOG_MAX {
            sink.cut(true);
            self.restart_at(size - READ_MAX);
        }
        if self.noticed_at.is_some_and(|at| now.since(at) < FOUND_SETTLES) {
            self.found_until = size;
        }
        while self.offset < size && budget > 0 {
            let is_found = self.offset < self.found_until;
            let end = if is_found { self.found_until.min(size) } else { size };
            let room = usize::try_from(budget.min(end - self.offset)).unwrap_or(CHUNK).min(CHUNK);
            let part = buffer.get_mut(..room).unwrap_or_default();
            let count = self.file.read_at(part, self.offset).map_err(cannot_read(&self.path))?;
            if count == 0 {
                // Truncated under our hands: the next call sees it by the size.
                break;
            }
            let bytes = part.get(..count).unwrap_or_default();
            budget = budget.saturating_sub(bytes.len() as u64);
            if is_found {
                sink.found(bytes);
            } else {
                sink.appended(bytes);
            }
            self.take_in(bytes);
        }
        Ok(budget)
    }

    /// Whether the bytes before the offset are still those that were read.
    fn is_as_left(&self) -> Result<bool, FollowError> {
        let mut now = [0; FINGERPRINT];
        let now = now.get_mut(..self.fingerprint.len()).unwrap_or_default();
        let at = self.offset.saturating_sub(now.len() as u64);
        match self.file.read_exact_at(now, at) {
            Ok(()) => Ok(*now == *self.fingerprint),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(cannot_read(&self.path)(error)),
        }
    }

    /// Moves the offset behind `bytes`.
    fn take_in(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.fingerprint.extend_from_slice(bytes.get(bytes.len().saturating_sub(FINGERPRINT)..).unwrap_or_default());
        let surplus = self.fingerprint.len().saturating_sub(FINGERPRINT);
        self.fingerprint.drain(..surplus);
    }
}

/// Opens without waiting, should somebody have put a pipe in the log's place.
fn open(path: &Path) -> Result<File, FollowError> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot_read(path))
}

fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> FollowError {
    move |source| FollowError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
