//! The operator's pause: a reason and an expiry, kept across a restart of the daemon.
//!
//! The file is written to a temporary name, synced and renamed, so that a crash leaves the old or the
//! new one. A file that cannot be read is no pause: it is reported, and the watchdog stays armed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::small_file;
use crate::audit::text::millis;
use crate::decision::observation::OperatorPause;

/// The longest pause: a pause that is forgotten must end by itself.
pub const PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A reason is a sentence, not a file.
const REASON_MAX: usize = 500;

/// A kept pause has some 600 bytes at most.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// Why a pause could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// Longer than [`PAUSE_MAX`], or nothing.
    #[error("a pause lasts between 1 s and 24 h, not {} s", .0.as_secs())]
    Length(Duration),
    /// No reason, or a book.
    #[error("a pause needs a reason of 1 to {REASON_MAX} characters")]
    Reason,
    /// The file.
    #[error("cannot keep the pause in {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    reason: String,
    until_unix_ms: u64,
}

/// The pause in force, and the file that keeps it.
#[derive(Debug)]
pub struct PauseFile {
    path: PathBuf,
    kept: Option<Kept>,
}

impl PauseFile {
    /// Reads what a former process kept. The second value says why a file was not understood.
    #[must_use]
    pub fn open(state_dir: &Path) -> (Self, Option<String>) {
        let path = state_dir.join("pause.json");
        let (kept, fault) = match small_file::read(&path, FILE_BYTES_MAX) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(kept) => (Some(kept), None),
                Err(error) => (None, Some(format!("{} is not understood and counts as no pause: {error}", path.display()))),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Err(error) => (None, Some(format!("{} cannot be read and counts as no pause: {error}", path.display()))),
        };
        (Self { path, kept }, fault)
    }

    /// The pause in force at `wall` (since the Unix epoch).
    #[must_use]
    pub fn in_force(&self, wall: Duration) -> Option<OperatorPause> {
        let kept = self.kept.as_ref()?;
        // A wall clock that was set back must not make a pause longer than the longest.
        let remaining = Duration::from_millis(kept.until_unix_ms).checked_sub(wall)?.min(PAUSE_MAX);
        (!remaining.is_zero()).then(|| OperatorPause { reason: kept.reason.clone(), remaining })
    }

    /// Pauses for `length` from `wall` on.
    ///
    /// # Errors
    ///
    /// A length or a reason out of range, or a file that cannot be written; the old state then stays.
    pub fn pause(&mut self, reason: &str, length: Duration, wall: Duration) -> Result<(), PauseError> {
        if length < Duration::from_secs(1) || length > PAUSE_MAX {
            return Err(PauseError::Length(length));
        }
        if reason.trim().is_empty() || reason.chars().count() > REASON_MAX {
            return Err(PauseError::Reason);
        }
        let kept = Kept { reason: reason.to_owned(), until_unix_ms: millis(wall.saturating_add(length)) };
        self.write(&kept).map_err(|source| PauseError::File { path: self.path.clone(), source })?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Ends the pause. Returns whether one was in force at `wall`: one that is over by itself was not.
    ///
    /// # Errors
    ///
    /// The file cannot be removed; the pause then stays.
    pub fn resume(&mut self, wall: Duration) -> Result<bool, PauseError> {
        let was_paused = self.in_force(wall).is_some();
        match fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(PauseError::File { path: self.path.clone(), source }),
        }
        self.kept = None;
        Ok(was_paused)
    }

    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        small_file::replace(&self.path, &serde_json::to_vec(kept)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOON: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn a_pause_survives_a_restart_and_ends_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, fault) = PauseFile::open(dir.path());
        assert_eq!(fault, None);
        file.pause("maintenance", HOUR, NOON).unwrap();
        let (file, _) = PauseFile::open(dir.path());
        let pause = file.in_force(NOON + HOUR / 2).unwrap();
        assert_eq!((pause.reason.as_str(), pause.remaining), ("maintenance", HOUR / 2));
        assert_eq!(file.in_force(NOON + HOUR), None);
    }

    #[test]
    fn a_wall_clock_that_was_set_back_does_not_make_a_pause_longer_than_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = PauseFile::open(dir.path());
        file.pause("maintenance", HOUR, NOON).unwrap();
        assert_eq!(file.in_force(Duration::ZERO).unwrap().remaining, PAUSE_MAX);
    }

    #[test]
    fn a_file_that_is_not_understood_is_no_pause_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        small_file::replace(&dir.path().join("pause.json"), b"{").unwrap();
        let (file, fault) = PauseFile::open(dir.path());
        assert!(fault.unwrap().contains("pause.json is not understood"));
        assert_eq!(file.in_force(NOON), None);
    }

    #[test]
    fn a_pause_without_end_or_reason_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = PauseFile::open(dir.path());
        assert!(matches!(file.pause("x", PAUSE_MAX + HOUR, NOON), Err(PauseError::Length(_))));
        assert!(matches!(file.pause(" ", HOUR, NOON), Err(PauseError::Reason)));
        assert!(!file.resume(NOON).unwrap());
    }
}
