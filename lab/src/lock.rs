//! One operation at a time on an instance: `flock` on `/run/fip-lab/<lab>.lock`, with the holder's name in the file.
//!
//! The kernel lets go when the holder dies, however it dies. The lock is reentrant within a process, because a scenario
//! that brought an instance up also takes it down.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

static HELD: Mutex<BTreeMap<String, Weak<File>>> = Mutex::new(BTreeMap::new());

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
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).with_context(|| format!("cannot open the lock file {}", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => anyhow::bail!("lab {name} is in use by {}", holder(&mut file)),
        Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    file.set_len(0).and_then(|()| file.rewind()).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "process {} ({command})", std::process::id()).with_context(|| format!("cannot write {}", path.display()))?;
    let file = Arc::new(file);
    held.insert(name.to_owned(), Arc::downgrade(&file));
    Ok(InstanceLock { _file: file })
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
    fn one_process_may_take_it_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let _first = acquire("lock-test-c", &path).unwrap();
        acquire("lock-test-c", &path).unwrap();
    }
}
