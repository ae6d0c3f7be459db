//! Pressure on the node, and whether etcd's disk answers.
//!
//! Invariants: nothing is written where etcd keeps its data, not even an access time; a read that hangs costs one thread, and says so.
//! A frozen file system that lets reads pass is not found out here: that shows in etcd's own fsync. May be dropped at any await.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{OFlags, statvfs};

use super::aside::Aside;
use super::flags;
use crate::diagnose::evidence::{Host, Pause, Seen};
use crate::policy::Policy;
use crate::sensor::pressure;

/// Where etcd keeps its data when no flag is to be seen: kubeadm's place.
const DATA_DIR: &str = "/var/lib/etcd";
/// For etcd's manifest; without it kubeadm's place is taken.
const FLAGS_TIME: Duration = Duration::from_millis(500);
/// A disk that takes longer for 4 KiB is of no use to etcd, whose election timeout is 1 s.
const DISK_TIME: Duration = Duration::from_millis(2500);
/// What is read: one block, past the page cache where the file system can.
const BLOCK: usize = 4096;

static MANIFEST: Aside = Aside::new("etcd's manifest");
static DISK: Aside = Aside::new("etcd's data directory");

/// See the module's head.
pub(super) async fn look(policy: &Policy, last_pause: impl Future<Output = Option<Pause>>) -> Seen<Host> {
    let manifest = flags::manifest_path(policy);
    let flags = MANIFEST.read(FLAGS_TIME, move || flags::read(&manifest)).await;
    let told = flags.ok().and_then(Result::ok).and_then(|flags| flags.path("data-dir"));
    let (disk, last_pause) = tokio::join!(disk(told.unwrap_or_else(|| PathBuf::from(DATA_DIR)), DISK_TIME), last_pause);
    Seen::Yes(Host {
        last_pause,
        cpu_pressure: pressure::cpu(),
        io_pressure: pressure::io(),
        memory_pressure: pressure::memory(),
        etcd_disk_hangs: disk.is_err(),
        etcd_disk_free: disk.unwrap_or_default(),
    })
}

/// The free bytes at etcd's data, where that is to be seen. `Err` is a disk that did not answer in time.
async fn disk(data_dir: PathBuf, deadline: Duration) -> Result<Option<u64>, String> {
    let read = move || {
        let free = statvfs(&data_dir).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        // Whatever the outcome, it came back.
        block(&data_dir.join("member/snap/db")).ok();
        free
    };
    DISK.read(deadline, read).await
}

/// Reads the first block of a file, and leaves no access time behind.
fn block(path: &Path) -> io::Result<()> {
    let quiet = OFlags::NONBLOCK | OFlags::NOATIME;
    let open = |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    // tmpfs, for one, knows no direct reads.
    let mut file = open(quiet | OFlags::DIRECT).or_else(|_| open(quiet))?;
    let mut room = vec![0_u8; 2 * BLOCK];
    let aligned = room.as_ptr().align_offset(BLOCK).min(BLOCK);
    let block = room.get_mut(aligned..aligned + BLOCK).unwrap_or_default();
    file.read(block).map(|_length| ())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[tokio::test]
    async fn the_disk_that_the_manifest_names_is_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let mut policy = Policy::with_defaults([192, 0, 2, 1].into(), "eth0");
        policy.watched_loop.manifest = directory.path().join("wcp-fip.yaml");
        let etcd = |data_dir: &Path| {
            let text = format!("spec: {{containers: [{{name: etcd, command: [etcd, '--data-dir={}']}}]}}", data_dir.display());
            crate::runtime::small_file::replace(&directory.path().join("etcd.yaml"), text.as_bytes()).unwrap();
        };
        etcd(directory.path());
        let Seen::Yes(host) = look(&policy, std::future::ready(None)).await else { panic!("not seen") };
        assert!(host.etcd_disk_free.is_some() && !host.etcd_disk_hangs, "{host:?}");
        etcd(Path::new("/proc/none"));
        let Seen::Yes(host) = look(&policy, std::future::ready(None)).await else { panic!("not seen") };
        assert_eq!((host.etcd_disk_free, host.etcd_disk_hangs), (None, false));
    }

    #[test]
    fn a_read_of_etcds_database_leaves_no_access_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        crate::runtime::small_file::replace(&path, &[7; 3 * BLOCK]).unwrap();
        let old = filetime(&path, 1_000_000_000);
        block(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().atime(), old);
        assert_eq!(block(&directory.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Sets an old access time, which any read with `relatime` would renew.
    fn filetime(path: &Path, seconds: u64) -> i64 {
        let at = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_times(std::fs::FileTimes::new().set_accessed(at)).unwrap();
        std::fs::metadata(path).unwrap().atime()
    }
}
