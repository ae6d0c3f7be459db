//! One process, as the few files of `/proc/<pid>` show it.
//!
//! `stat`, `wchan` and the links in `fd` wait for no lock that a hung process may hold: they are read first. `syscall` waits for
//! an `execve` that is under way (`lock_trace` in the kernel's fs/proc/base.c; before 5.7 for all of it, with the reading of the
//! file from a disk that may be dead), and `cmdline` for a page fault: they are read later and apart, in this order. Every read is cut.
//! Blocking. Formats: proc(5).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::evidence::{Process, Role, Syscall};
use crate::audit::text::sentence;
use crate::runtime::clock;

/// Of any file in `/proc` more is not needed: `stat`, `cgroup` of a dozen hierarchies, `mountinfo` is not read.
const FILE_BYTES_MAX: u64 = 4096;

/// `USER_HZ`: the unit of start times in `/proc`, the same on every Linux of today.
const TICKS_PER_SECOND: u64 = 100;

/// What `stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) state: char,
    pub(super) parent: u32,
    pub(super) start_ticks: u64,
}

/// A file of a process, cut; none if it is gone or not ours to read.
pub(super) fn read(proc: &Path, pid: u32, file: &str) -> Option<String> {
    read_file(&proc.join(pid.to_string()).join(file))
}

/// A small file of the kernel, cut.
pub(super) fn read_file(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `stat` of a process; none if there is no such process.
pub(super) fn stat(proc: &Path, pid: u32) -> Option<Stat> {
    parse_stat(&read(proc, pid, "stat")?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name may hold spaces and parentheses; the last one ends it.
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22; field 5 comes next.
    let start_ticks = fields.nth(17)?.parse().ok()?;
    Some(Stat { name: sentence(name), state, parent, start_ticks })
}

/// All of a process but its system call and its command line.
pub(super) fn look(proc: &Path, pid: u32, role: Role, stat: Stat) -> Process {
    let age = clock::boottime().as_millis().saturating_sub(u128::from(stat.start_ticks) * 1000 / u128::from(TICKS_PER_SECOND));
    let wchan = read(proc, pid, "wchan").map(|name| sentence(&name)).filter(|name| !name.is_empty() && name != "0");
    Process {
        pid,
        parent: stat.parent,
        role,
        start_ticks: stat.start_ticks,
        age_ms: u64::try_from(age).unwrap_or(u64::MAX),
        state: stat.state,
        name: stat.name,
        command_line: None,
        wchan,
        syscall: None,
    }
}

/// The process once more, with its system call: state and call belong together. May wait for the process; none if it is gone.
pub(super) fn look_closer(proc: &Path, seen: &Process) -> Option<Process> {
    let stat = stat(proc, seen.pid).filter(|stat| stat.start_ticks == seen.start_ticks)?;
    let again = look(proc, seen.pid, seen.role, stat);
    Some(Process { syscall: read(proc, seen.pid, "syscall").and_then(|text| syscall(proc, seen.pid, &text)), ..again })
}

/// The command line with blanks between its words. May wait for the process.
pub(super) fn command_line(proc: &Path, pid: u32) -> Option<String> {
    read(proc, pid, "cmdline").map(|text| sentence(&text.replace('\0', " "))).filter(|text| !text.is_empty())
}

/// Where a descriptor of a process leads.
pub(super) fn target(proc: &Path, pid: u32, fd: u32) -> Option<String> {
    let link = std::fs::read_link(fd_path(proc, pid, fd)).ok()?;
    Some(sentence(&link.to_string_lossy()))
}

pub(super) fn fd_path(proc: &Path, pid: u32, fd: u32) -> PathBuf {
    proc.join(pid.to_string()).join("fd").join(fd.to_string())
}

/// The system call of a line `<number> <six arguments> <stack> <instruction>`; none while it runs, or is in none.
fn syscall(proc: &Path, pid: u32, line: &str) -> Option<Syscall> {
    let mut words = line.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number < 0 {
        return None;
    }
    let first = words.next()?.strip_prefix("0x")?;
    let first = u64::from_str_radix(first, 16).ok()?;
    let (name, has_fd) = NAMES
        .iter()
        .find(|(known, ..)| *known == number)
        .map_or_else(|| (format!("system call {number}"), false), |(_, name, has_fd)| ((*name).to_owned(), *has_fd));
    let fd = u32::try_from(first).ok().filter(|_| has_fd);
    Some(Syscall { name, fd, target: fd.and_then(|fd| target(proc, pid, fd)) })
}

/// The calls that a shell, curl or jq may be found in; whether the first argument is a descriptor.
static NAMES: &[(i64, &str, bool)] = &[
    (libc::SYS_read, "read", true),
    (libc::SYS_pread64, "pread64", true),
    (libc::SYS_readv, "readv", true),
    (libc::SYS_write, "write", true),
    (libc::SYS_pwrite64, "pwrite64", true),
    (libc::SYS_writev, "writev", true),
    (libc::SYS_close, "close", true),
    (libc::SYS_fsync, "fsync", true),
    (libc::SYS_fdatasync, "fdatasync", true),
    (libc::SYS_ftruncate, "ftruncate", true),
    (libc::SYS_fallocate, "fallocate", true),
    (libc::SYS_flock, "flock", true),
    (libc::SYS_ioctl, "ioctl", true),
    (libc::SYS_fcntl, "fcntl", true),
    (libc::SYS_fstat, "fstat", true),
    (libc::SYS_getdents64, "getdents64", true),
    (libc::SYS_connect, "connect", true),
    (libc::SYS_accept4, "accept4", true),
    (libc::SYS_sendto, "sendto", true),
    (libc::SYS_sendmsg, "sendmsg", true),
    (libc::SYS_recvfrom, "recvfrom", true),
    (libc::SYS_recvmsg, "recvmsg", true),
    (libc::SYS_epoll_pwait, "epoll_pwait", true),
    (libc::SYS_openat, "openat", false),
    (libc::SYS_newfstatat, "newfstatat", false),
    (libc::SYS_statx, "statx", false),
    (libc::SYS_execve, "execve", false),
    (libc::SYS_wait4, "wait4", false),
    (libc::SYS_waitid, "waitid", false),
    (libc::SYS_ppoll, "ppoll", false),
    (libc::SYS_pselect6, "pselect6", false),
    (libc::SYS_futex, "futex", false),
    (libc::SYS_nanosleep, "nanosleep", false),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", false),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend", false),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", false),
    (libc::SYS_clone, "clone", false),
    (libc::SYS_clone3, "clone3", false),
    (libc::SYS_exit_group, "exit_group", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_vfork, "vfork", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select", false),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait", true),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open", false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_processs_name() {
        let line = "4711 (a ) b) D 17 4711 4711 0 -1 4194304 999 1 2 3 4 5 6 7 20 0 1 0 1234 3133440 373";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.start_ticks), ("a ) b", 'D', 17, 1234));
        for broken in ["", "4711 (sh) S", "4711 sh S 1", "4711 (sh) S x 1"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_system_call_is_named_with_its_descriptor_and_an_idle_one_is_none() {
        let proc = Path::new("/proc");
        let own = std::process::id();
        let call = |text: &str| syscall(proc, own, text);
        let write = call(&format!("{} 0xffff 0x0 0x1 0x0 0x0 0x0 0x7ffe 0x7f10", libc::SYS_write)).unwrap();
        assert_eq!((write.name.as_str(), write.fd, write.target), ("write", Some(0xffff), None));
        assert_eq!(call("99999 0x1 0x0").unwrap().name, "system call 99999");
        for idle in ["running", "-1 0x7ffe 0x7f10", "", "1", "1 zz"] {
            assert_eq!(call(idle), None, "{idle}");
        }
    }

    #[test]
    fn a_child_that_waits_for_its_input_is_seen_to_read_it() {
        use std::process::{Command, Stdio};
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let proc = Path::new("/proc");
        let end = clock::now() + std::time::Duration::from_secs(60);
        let seen = loop {
            let mut process = stat(proc, cat.id()).map(|stat| look(proc, cat.id(), Role::Child, stat)).unwrap();
            process = look_closer(proc, &process).unwrap();
            if process.syscall.as_ref().is_some_and(|call| call.name == "read") || clock::now() > end {
                break process;
            }
            std::thread::yield_now();
        };
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let call = seen.syscall.unwrap();
        assert_eq!((call.name.as_str(), call.fd, seen.name.as_str(), seen.parent), ("read", Some(0), "cat", std::process::id()));
        assert!(call.target.unwrap().starts_with("pipe:["));
    }
}
