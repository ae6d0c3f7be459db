//! A node's own wall clock: how many seconds it is off the host's, in a file that host and node share.
//!
//! The kernel has one CLOCK_REALTIME for all (`time_namespaces(7)`). What has another here is what the watchdog's judgement could
//! fall for: the watchdog itself (`vdso`), and the stamps in the pods' logs. Everything else has the host's: etcd, journald, stamps
//! of files.

pub mod vdso;

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};

/// The name of the file in the directory that host and node share.
const FILE: &str = "wall-clock";
/// That directory, in a node.
const IN_NODE: &str = "/run/fip-lab";
/// A year: more is a typing error.
pub const SECONDS_MAX: i64 = 366 * 86_400;

/// By how many seconds the node with that shared directory is ahead of its host; no file is none.
///
/// # Errors
/// The file cannot be read or understood.
pub fn ahead(shared: &Path) -> anyhow::Result<i64> {
    let path = shared.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    text.trim().parse().with_context(|| format!("cannot understand {}", path.display()))
}

/// Sets it, as a whole: the node reads it at any time.
///
/// # Errors
/// More than a year, or the file cannot be written.
pub fn set_ahead(shared: &Path, seconds: i64) -> anyhow::Result<()> {
    anyhow::ensure!(seconds.abs() <= SECONDS_MAX, "a wall clock that is off by {seconds} s: more than a year");
    let write = || -> anyhow::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(shared)?;
        io::Write::write_all(&mut file, format!("{seconds}\n").as_bytes())?;
        file.persist(shared.join(FILE))?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", shared.join(FILE).display()))
}

/// The time in a node, for its log reader. One that cannot tell how far it is off has the host's.
#[must_use]
pub fn now_in_node() -> Timestamp {
    let ahead = ahead(Path::new(IN_NODE)).unwrap_or(0);
    let now = Timestamp::now();
    now.checked_add(SignedDuration::from_secs(ahead)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_hosts_clock_until_it_is_set_and_what_is_set_is_bounded() {
        let shared = tempfile::tempdir().unwrap();
        assert_eq!(ahead(shared.path()).unwrap(), 0);
        for seconds in [3600, -3600, 0] {
            set_ahead(shared.path(), seconds).unwrap();
            assert_eq!(ahead(shared.path()).unwrap(), seconds);
        }
        assert!(set_ahead(shared.path(), SECONDS_MAX + 1).is_err());
        fs::write(shared.path().join(FILE), "soon").unwrap();
        assert!(ahead(shared.path()).is_err());
    }
}
