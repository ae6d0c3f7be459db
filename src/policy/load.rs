//! Reads a policy file.
//!
//! The only I/O between a path and a [`Policy`]. Never blocks on a pipe that somebody put in the file's place, and never
//! reads more than a policy may be long.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Policy;
use super::check::{SIZE_MAX, check};
use super::fault::PolicyFaults;

/// Why a path gives no policy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error("there is no policy file {}", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is there and cannot be read.
    #[error("cannot read the policy file {}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A directory, a pipe, a device.
    #[error("the policy {} is {kind}, not a file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Longer than a policy may be.
    #[error("the policy file {} is too long (allowed: at most {SIZE_MAX} bytes)", .path.display())]
    TooBig {
        /// The file.
        path: PathBuf,
    },
    /// Not a text.
    #[error("{}:{line}:1: not UTF-8 text", .path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line of the first byte that is none.
        line: usize,
    },
    /// A text with faults.
    #[error(transparent)]
    Faults(#[from] PolicyFaults),
}

impl LoadError {
    /// Whether there was nothing to judge (`EX_NOINPUT`), rather than something bad (`EX_CONFIG`).
    #[must_use]
    pub const fn is_no_input(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Unreadable { .. } | Self::NotAFile { .. } => true,
            Self::TooBig { .. } | Self::NotUtf8 { .. } | Self::Faults(_) => false,
        }
    }
}

/// Reads and checks a policy file.
///
/// # Errors
/// Every way in which it is not one.
pub fn load(path: &Path) -> Result<Policy, LoadError> {
    judge(path, &read(path)?)
}

/// The bytes of a policy file, at most [`SIZE_MAX`] of them.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source: std::io::Error| {
        // NotADirectory: a part of the path is a file, so the policy is as absent as it can be.
        if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) {
            LoadError::Missing { path: path.to_owned(), source }
        } else {
            LoadError::Unreadable { path: path.to_owned(), source }
        }
    };
    // Without O_NONBLOCK, opening a pipe waits for its writer.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() {
        let kind = if kind.is_dir() { "a directory" } else { "a pipe, socket or device" };
        return Err(LoadError::NotAFile { path: path.to_owned(), kind });
    }
    let mut bytes = Vec::new();
    file.take(SIZE_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > SIZE_MAX {
        return Err(LoadError::TooBig { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Judges bytes that were read from `path`.
pub(super) fn judge(path: &Path, bytes: &[u8]) -> Result<Policy, LoadError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        LoadError::NotUtf8 { path: path.to_owned(), line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })?;
    Ok(check(text, path)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn message(path: &Path) -> String {
        load(path).expect_err("must not load").to_string()
    }

    fn file_with(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = dir.path().join("policy.yaml");
        File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    }

    #[test]
    fn a_missing_file_a_directory_and_a_pipe_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(message(&dir.path().join("none.yaml")).starts_with("there is no policy file "));
        assert!(message(&file_with(&dir, b"").join("below.yaml")).starts_with("there is no policy file "));
        assert!(message(dir.path()).ends_with("is a directory, not a file"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(message(&pipe).ends_with("is a pipe, socket or device, not a file"));
        assert!(load(&pipe).expect_err("a pipe").is_no_input());
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_with(&dir, &vec![b'#'; SIZE_MAX + 1]);
        assert!(message(&path).contains("is too long (allowed: at most 65536 bytes)"));
        assert!(!load(&path).expect_err("too long").is_no_input());
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_their_line() {
        let dir = tempfile::tempdir().unwrap();
        assert!(message(&file_with(&dir, b"version: 1\nfip: \xff\n")).ends_with("policy.yaml:2:1: not UTF-8 text"));
    }

    #[test]
    fn the_smallest_policy_is_the_default_one() {
        let dir = tempfile::tempdir().unwrap();
        let policy = load(&file_with(&dir, b"version: 1\nfip: { address: 192.0.2.10 }\n")).unwrap();
        assert_eq!(policy, Policy::with_defaults("192.0.2.10".parse().unwrap(), "eth0"));
    }
}
