//! One instance a node.
//!
//! An exclusive `flock` on the lock file, held for the life of the process. It belongs to the open file
//! description, so the kernel drops it with the last descriptor, however the process ends; the file is
//! opened close-on-exec, so no child keeps it. What is written inside only names the holder for a
//! person: the lock is the truth, the text may be out of date.
//!
//! Invariant: the lock is on the file that `path` names. A file that was unlinked and made anew between
//! open and lock is noticed and the newer one is taken. The file is never unlinked by us.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How the second instance exits: `EX_TEMPFAIL`, since the same command works once the first has gone.
/// The unit goes on trying, so that the service takes over when an instance started by hand ends.
pub const EXIT_HELD: u8 = 75;

/// Most that is read of a lock file: ours has under 100 bytes.
const LOCK_BYTES_MAX: u64 = 4096;

/// How often the file may be replaced under us before that counts as a fault.
const REPLACED_MAX: u32 = 8;

/// The lock, for as long as it lives.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
    path: PathBuf,
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id, in the holder's pid namespace.
    pub pid: u32,
    /// When it took the lock: RFC 3339, UTC.
    pub since: String,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another instance runs.
    #[error("another instance holds {}: {}", path.display(), describe(holder.as_ref()))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who, if the file says so.
        holder: Option<Holder>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

fn describe(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "the file does not name it".to_owned(), |holder| format!("pid {} since {}", holder.pid, holder.since))
}

impl InstanceLock {
    /// Takes the lock at once or not at all. `wall` is the time since the Unix epoch.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder, or [`LockError::Io`].
    pub fn acquire(path: &Path, wall: Duration) -> Result<Self, LockError> {
        let failed = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        for _ in 0..REPLACED_MAX {
            let mut file = open(path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(LockError::Held { path: path.to_owned(), holder: read_holder(&mut file) }),
                Err(errno) => return Err(failed(errno.into())),
            }
            if is_at(&file, path).map_err(failed)? {
                write_holder(&mut file, wall).map_err(failed)?;
                return Ok(Self { _file: file, path: path.to_owned() });
            }
        }
        Err(failed(io::Error::other("the file is replaced again and again")))
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits()).unwrap_or(0))
        .open(path)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_holder(file: &mut File, wall: Duration) -> io::Result<()> {
    let since = jiff::Timestamp::from_second(i64::try_from(wall.as_secs()).unwrap_or(0)).map_err(io::Error::other)?;
    let holder = Holder { pid: std::process::id(), since: since.to_string() };
    file.set_len(0)?;
    writeln!(file, "{}", serde_json::to_string(&holder)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    const WALL: Duration = Duration::from_secs(1_796_005_000);

    /// The lock, as soon as it is free. Another test's child holds a copy of every descriptor between
    /// its fork and its exec, so a lock that was dropped may be held for a moment longer.
    pub(crate) fn acquire_soon(path: &Path) -> InstanceLock {
        let limit = crate::runtime::clock::now() + Duration::from_secs(10);
        loop {
            match InstanceLock::acquire(path, WALL) {
                Ok(lock) => return lock,
                Err(error) => assert!(crate::runtime::clock::now() < limit, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_second_instance_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = InstanceLock::acquire(&path, WALL).unwrap();
        let error = InstanceLock::acquire(&path, WALL).unwrap_err();
        let pid = std::process::id();
        assert_eq!(error.to_string(), format!("another instance holds {}: pid {pid} since 2026-11-30T02:16:40Z", path.display()));
        drop(first);
        assert_eq!(acquire_soon(&path).path(), path);
    }

    #[test]
    fn the_lock_dies_with_its_holder_even_when_that_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "control::lock::tests::child_that_holds_the_lock"])
            .env("FIP_TEST_LOCK", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let held = BufReader::new(holder.stdout.take().unwrap()).lines().any(|line| line.unwrap().ends_with("held"));
        assert!(held, "the child never held the lock");
        let error = InstanceLock::acquire(&path, WALL).unwrap_err();
        assert!(error.to_string().contains(&format!("pid {} ", holder.id())), "{error}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        acquire_soon(&path);
    }

    #[test]
    #[ignore = "the_lock_dies_with_its_holder_even_when_that_is_killed runs it as a process of its own"]
    fn child_that_holds_the_lock() {
        let path = std::env::var_os("FIP_TEST_LOCK").unwrap();
        let _lock = InstanceLock::acquire(Path::new(&path), WALL).unwrap();
        println!("held");
        // Ends with the parent at the latest: standard input is closed then.
        io::stdin().lines().for_each(drop);
    }

    #[test]
    fn a_torn_lock_file_still_locks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"{\"pid\": 4").unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = InstanceLock::acquire(&path, WALL).unwrap_err();
        assert!(matches!(error, LockError::Held { holder: None, .. }), "{error}");
        drop(file);
        acquire_soon(&path);
    }

    #[test]
    fn a_symbolic_link_in_place_of_the_lock_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(matches!(InstanceLock::acquire(&path, WALL), Err(LockError::Io { .. })));
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn a_file_that_was_replaced_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let old = open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path).unwrap());
        let lock = InstanceLock::acquire(&path, WALL).unwrap();
        assert!(!is_at(&old, &path).unwrap());
        drop(lock);
    }
}
