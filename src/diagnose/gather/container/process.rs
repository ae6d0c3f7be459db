//! etcd's process, where no container runtime tells: two looks at it, and what systemd says of its unit.
//!
//! Invariant: of another process only `comm`, `stat` and `cgroup` are read, which do not wait for its memory; its command line only where
//! several have the name. A thread in `D` counts only if it was there both times: every sync passes through it. Blocking.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::runtime::clock;

/// The kernel's own limit, `TASK_COMM_LEN`, is longer.
const NAME: &str = "etcd";

/// Processes that are looked at, and threads of one.
const ENTRIES_MAX: usize = 65_536;
const THREADS_MAX: usize = 1024;

/// `USER_HZ`, the unit of start times in `/proc`: fixed in the kernel's interface.
const TICKS_PER_SECOND: u64 = 100;

/// A file of `/proc`, cut.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// A process, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    /// Of its first thread; `T` and `Z` are those of all.
    pub(super) state: char,
    /// Threads in uninterruptible sleep.
    pub(super) in_disk_sleep: BTreeSet<u32>,
    pub(super) frozen: bool,
}

impl Process {
    /// How long it has been running.
    pub(super) fn age(&self) -> Duration {
        let started = Duration::from_millis(self.start_ticks.saturating_mul(1000 / TICKS_PER_SECOND));
        clock::boottime().saturating_sub(started)
    }

    /// Whether this is the same process as that.
    pub(super) const fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.start_ticks == other.start_ticks
    }

    /// The state letter over two looks.
    pub(super) fn state_since(&self, earlier: &Self) -> char {
        let stuck = self.is(earlier) && self.in_disk_sleep.intersection(&earlier.in_disk_sleep).next().is_some();
        if stuck {
            'D'
        } else if self.state == 'D' {
            'S'
        } else {
            self.state
        }
    }
}

/// etcd's process: of several the one that serves `port`, and of those the oldest. `None` if there is none.
///
/// # Errors
/// Processes cannot be listed, or some are hidden from us: then absence proves nothing.
pub(super) fn find(proc: &Path, cgroup: &Path, port: Option<u16>) -> Result<Option<Process>, String> {
    let entries = fs::read_dir(proc).map_err(|error| format!("cannot list processes: {error}"))?;
    let pids: BTreeSet<u32> =
        entries.take(ENTRIES_MAX).flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // `hidepid=1` lists it and shows nothing of it, `hidepid=2` does not list it.
    if read(proc, 1, "stat").is_empty() {
        return Err("cannot see all processes: pid 1 is hidden in /proc".to_owned());
    }
    let named = pids.into_iter().filter(|pid| read(proc, *pid, "comm").trim_end() == NAME);
    let mut found: Vec<Process> = named.filter_map(|pid| look(proc, cgroup, pid)).collect();
    if let (Some(port), true) = (port, found.len() > 1) {
        let serves = |process: &Process| serves(&read(proc, process.pid, "cmdline"), port);
        if found.iter().any(serves) {
            found.retain(serves);
        }
    }
    Ok(found.into_iter().min_by_key(|process| process.start_ticks))
}

/// A process by its number; `None` if it is gone, or a zombie.
pub(super) fn look(proc: &Path, cgroup: &Path, pid: u32) -> Option<Process> {
    let (state, start_ticks) = parse(&read(proc, pid, "stat"))?;
    if matches!(state, 'Z' | 'X' | 'x') {
        return None;
    }
    let frozen = !crate::autopsy::frozen(proc, cgroup, pid).is_empty();
    Some(Process { pid, start_ticks, state, in_disk_sleep: in_disk_sleep(proc, pid), frozen })
}

fn in_disk_sleep(proc: &Path, pid: u32) -> BTreeSet<u32> {
    let tasks = proc.join(pid.to_string()).join("task");
    let threads = fs::read_dir(&tasks).into_iter().flatten().take(THREADS_MAX).flatten();
    let threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.filter(|thread| parse(&read(&tasks, *thread, "stat")).is_some_and(|(state, _)| state == 'D')).collect()
}

/// State and start time of `stat` (proc_pid_stat(5), fields 3 and 22).
fn parse(stat: &str) -> Option<(char, u64)> {
    // The command may hold spaces and parentheses; the last parenthesis ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Whether a command line says that clients are served on that port, or says nothing of it.
fn serves(command: &str, port: u16) -> bool {
    let urls = command.split_once("--listen-client-urls").map(|(_, rest)| rest.trim_start_matches(['=', '\0']));
    urls.is_none_or(|urls| {
        urls.split('\0').next().is_some_and(|urls| urls.split(',').any(|url| url.ends_with(&format!(":{port}"))))
    })
}

fn read(dir: &Path, id: u32, file: &str) -> String {
    let mut bytes = Vec::new();
    let opened = fs::File::open(dir.join(id.to_string()).join(file));
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    // What is gone reads as nothing.
    let read = opened.and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes));
    if read.is_err() { String::new() } else { String::from_utf8_lossy(&bytes).into_owned() }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn process(proc: &Path, pid: u32, comm: &str, state: char, start: u64, command: &str) {
        let dir = proc.join(pid.to_string());
        let stat = format!("{pid} ({comm}) {state} 1 1 1 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 1 0 {start} 9 9\n");
        put(&dir.join("comm"), &format!("{comm}\n"));
        put(&dir.join("stat"), &stat);
        put(&dir.join("cmdline"), &command.replace(' ', "\0"));
        put(&dir.join("cgroup"), "0::/system.slice/etcd.service\n");
        put(&dir.join(format!("task/{pid}/stat")), &stat);
    }

    #[test]
    fn etcd_is_found_by_its_name_alone_and_by_its_port_where_several_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, cgroup) = (dir.path().join("proc"), dir.path().join("cgroup"));
        let find = |port| find(&proc, &cgroup, port).map(|found| found.map(|process| process.pid));
        fs::create_dir_all(&proc).unwrap();
        assert!(find(None).unwrap_err().contains("hidden"));
        fs::create_dir(proc.join("1")).unwrap();
        assert!(find(None).unwrap_err().contains("hidden"));
        process(&proc, 1, "systemd", 'S', 1, "/sbin/init");
        process(&proc, 5, "etcdctl", 'S', 1, "etcdctl get etcd");
        process(&proc, 6, "etcd", 'Z', 1, "");
        assert_eq!(find(None), Ok(None));
        process(&proc, 70, "etcd", 'S', 300, "etcd --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379 --name=a");
        process(&proc, 71, "etcd", 'S', 200, "etcd --listen-client-urls http://127.0.0.1:12379");
        process(&proc, 72, "etcd", 'S', 400, "etcd --listen-client-urls=https://10.0.0.2:2379");
        assert_eq!(find(Some(2379)), Ok(Some(70)));
        assert_eq!(find(Some(12379)), Ok(Some(71)));
        assert_eq!(find(Some(4001)), Ok(Some(71)), "nobody serves that: the oldest");
        put(&cgroup.join("system.slice/cgroup.events"), "populated 1\nfrozen 1\n");
        assert!(look(&proc, &cgroup, 70).unwrap().frozen);
        assert_eq!(look(&proc, &cgroup, 6), None, "a zombie");
    }

    #[test]
    fn a_thread_that_waits_for_the_disk_counts_when_it_still_does() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 70, "etcd", 'S', 300, "");
        let look = || super::look(dir.path(), dir.path(), 70).unwrap();
        let calm = look();
        put(&dir.path().join("70/task/81/stat"), "81 (etcd) D 1 1 1 0 -1 4194304 9 9 9 9 9 9 9 9 20 0 1 0 300 9 9\n");
        let once = look();
        assert_eq!((calm.state_since(&calm), once.state_since(&calm), once.state_since(&once)), ('S', 'S', 'D'));
    }

    #[test]
    fn this_very_process_is_seen() {
        let own = look(Path::new("/proc"), Path::new("/sys/fs/cgroup"), std::process::id()).unwrap();
        assert!(!own.frozen && own.age() < Duration::from_secs(86_400) && own.start_ticks > 0);
    }
}
