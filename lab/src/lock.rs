//! One operation at a time on an instance: `flock` on `/run/fip-lab/<lab>.lock`, with the holder's name in the file.
//!
//! The kernel lets go when the holder dies, however it dies. The lock is reentrant within a process, because a scenario
//! that brought an instance up also takes it down.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

static HELD: Mutex<BTreeMap<String, Weak<File>>> = Mutex::new(BTreeMap::new());

/// How often a lock file may be removed by its holder between our opening and locking it.
const ATTEMPTS: usize = 10;

/// The lock on an instance; free again when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct InstanceLock {
    _file: Arc<File>,
}

/// Takes the lock of the instance `name`, or says who holds it.
///
/// # Errors
/// Somebody else holds it, or the lock file cannot be made.
pub fn acquire(name: &str, path: &Path) -> anyhow::Result<InstanceLock> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = held.get(name).and_then(Weak::upgrade) {
        return Ok(InstanceLock { _file: file });
    }
    for _ in 0..ATTEMPTS {
        if let Some(file) = try_acquire(name, path)? {
            let file = Arc::new(file);
            held.insert(name.to_owned(), Arc::downgrade(&file));
            return Ok(InstanceLock { _file: file });
        }
    }
    anyhow::bail!("the lock file {} is removed again and again", path.display())
}

/// Removes the lock file of an instance that is gone; the caller holds the lock. Whoever waits for it sees that its file is no
/// longer the one at `path` and begins anew.
pub(crate) fn forget(name: &str, path: &Path) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.remove(name);
    std::fs::remove_file(path).ok();
    if let Some(parent) = path.parent() {
        // Stays as long as there are other instances.
        std::fs::remove_dir(parent).ok();
    }
}

/// None: the file was removed by its holder meanwhile.
fn try_acquire(name: &str, path: &Path) -> anyhow::Result<Option<File>> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot open the lock file {}", path.display()))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => anyhow::bail!("lab {name} is in use by {}", holder(&mut file)),
        Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
    let ours = file.metadata().with_context(|| format!("cannot inspect {}", path.display()))?;
    if !std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
        return Ok(None);
    }
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    file.set_len(0).and_then(|()| file.rewind()).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "process {} ({command})", std::process::id()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(file))
}

fn holder(file: &mut File) -> String {
    const LONGEST: u64 = 400;
    let mut text = String::new();
    match file.take(LONGEST).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) | Err(_) => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holder_is_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let first = acquire("lock-test-a", &path).unwrap();
        // Another name stands for another process: the registry does not know it.
        let error = acquire("lock-test-b", &path).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        acquire("lock-test-b", &path).unwrap();
    }

    #[test]
    fn a_forgotten_lock_leaves_nothing_and_can_be_taken_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks/x.lock");
        let _first = acquire("lock-test-d", &path).unwrap();
        forget("lock-test-d", &path);
        assert!(!directory.path().join("locks").exists());
        acquire("lock-test-d", &path).unwrap();
    }

    #[test]
    fn one_process_may_take_it_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let _first = acquire("lock-test-c", &path).unwrap();
        acquire("lock-test-c", &path).unwrap();
    }
}
