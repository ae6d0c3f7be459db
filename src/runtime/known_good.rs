//! The content of the manifest under which the loop has last beaten, kept across restarts of the daemon.
//!
//! Invariant: what is kept is only ever a memory: lost, late or unreadable it costs a minute in which a changed manifest
//! is taken for unchanged, or an unchanged one is observed; nothing is done because of it. Writing happens on a blocking
//! thread, at most once a change, and is never waited for.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::small_file;
use super::write_behind::WriteBehind;

/// The file has some 100 bytes.
const FILE_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    sha256: String,
}

/// The file that keeps the hash.
#[derive(Debug)]
pub struct KnownGood {
    path: PathBuf,
    kept: Option<String>,
    behind: WriteBehind<Kept>,
}

impl KnownGood {
    /// Reads what a former process kept. The second value says why a file was not understood.
    #[must_use]
    pub fn open(state_dir: &Path) -> (Self, Option<String>) {
        let path = state_dir.join("known-good.json");
        let (kept, fault) = match read(&path) {
            Ok(kept) => (Some(kept.sha256), None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Err(error) => (None, Some(format!("{} is not understood and counts as none: {error}", path.display()))),
        };
        (Self { path, kept, behind: WriteBehind::default() }, fault)
    }

    /// The hash, lower-case hex of a SHA-256.
    #[must_use]
    pub fn sha256(&self) -> Option<String> {
        self.kept.clone()
    }

    /// Keeps another hash. Returns at once; a failure is logged, and the next start does without.
    pub fn keep(&mut self, sha256: &str) {
        if self.kept.as_deref() == Some(sha256) {
            return;
        }
        self.kept = Some(sha256.to_owned());
        let path = self.path.clone();
        self.behind.keep(Kept { sha256: sha256.to_owned() }, move |kept| {
            if let Err(error) = write(&path, kept) {
                tracing::warn!(path = %path.display(), %error, "the manifest's known good content cannot be kept");
            }
        });
    }
}

fn write(path: &Path, kept: &Kept) -> std::io::Result<()> {
    small_file::replace(path, &serde_json::to_vec(kept)?)
}

fn read(path: &Path) -> std::io::Result<Kept> {
    let kept: Kept = serde_json::from_slice(&small_file::read(path, FILE_BYTES_MAX)?)?;
    // Any other text would make the manifest a changed one, and a hung loop be observed for that.
    let is_sha256 = kept.sha256.len() == 64 && kept.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_sha256 { Ok(kept) } else { Err(std::io::Error::other("what it holds is no SHA-256")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_a_restart_and_another_one_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        for hash in ["a".repeat(64), "0b".repeat(32)] {
            let path = KnownGood::open(dir.path()).0.path;
            write(&path, &Kept { sha256: hash.clone() }).unwrap();
            let (known, fault) = KnownGood::open(dir.path());
            assert_eq!((known.sha256(), fault), (Some(hash), None));
        }
    }

    #[test]
    fn no_file_is_no_fault_and_a_file_that_is_not_understood_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(KnownGood::open(dir.path()).1, None);
        let upper = format!(r#"{{"sha256":"{}"}}"#, "A".repeat(64));
        for content in ["{", "", "null", r#"{"sha256":""}"#, r#"{"sha256":"\u001b[31m"}"#, upper.as_str()] {
            small_file::replace(&dir.path().join("known-good.json"), content.as_bytes()).unwrap();
            let (known, fault) = KnownGood::open(dir.path());
            assert_eq!(known.sha256(), None, "{content}");
            assert!(fault.is_some_and(|fault| fault.contains("known-good.json")), "{content}");
        }
    }
}
