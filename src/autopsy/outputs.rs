//! Where the shell's two outputs lead, how full the pipe is, and who could read it.
//!
//! A pipe's descriptor is opened anew for reading through `/proc/<pid>/fd`, which takes nothing out of it, and `FIONREAD` on
//! that tells how much waits. Nothing is read, so the loop's runtime misses nothing. Bounded in number and in time. Blocking.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use super::evidence::{Output, Pipe, Process, READERS_MAX, Role};
use super::process::{fd_path, look, read_file, stat, target};
use super::tree::pids;
use crate::decision::time::Moment;
use crate::runtime::clock;

/// Descriptors that are looked at in all; a busy node has some ten thousand.
const DESCRIPTORS_MAX: usize = 100_000;

/// Looks at how full a pipe is, [`PAUSE`] apart: what a living reader has not taken by then is little.
const LOOKS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// Standard output and standard error of the shell.
pub(super) fn outputs(proc: &Path, shell: u32) -> Vec<Output> {
    let output = |fd| {
        let target = target(proc, shell, fd)?;
        let pipe = target.starts_with("pipe:").then(|| fill(&fd_path(proc, shell, fd))).flatten();
        Some(Output { fd, target, pipe })
    };
    [1, 2].into_iter().filter_map(output).collect()
}

/// How full the pipe is.
fn fill(path: &Path) -> Option<Pipe> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let pipe = OpenOptions::new().read(true).custom_flags(nonblock).open(path).ok()?;
    let capacity = u64::try_from(rustix::pipe::fcntl_getpipe_size(&pipe).ok()?).ok()?;
    let mut bytes = u64::MAX;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        bytes = bytes.min(rustix::io::ioctl_fionread(&pipe).ok()?);
    }
    Some(Pipe { bytes, capacity, readers: Vec::new() })
}

/// Who has one of these pipes open for reading, this daemon aside; each with the pipe. Until `end`.
pub(super) fn readers(proc: &Path, pipes: &[String], end: Moment) -> Vec<(String, Process)> {
    let (mut found, mut budget) = (Vec::new(), DESCRIPTORS_MAX);
    let own = std::process::id();
    for pid in pids(proc).unwrap_or_default().into_iter().filter(|pid| *pid != own) {
        let dir = proc.join(pid.to_string());
        for entry in std::fs::read_dir(dir.join("fd")).into_iter().flatten().flatten() {
            if budget == 0 || clock::now() > end || found.len() >= READERS_MAX {
                return found;
            }
            budget -= 1;
            let Ok(link) = std::fs::read_link(entry.path()) else { continue };
            let Some(pipe) = pipes.iter().find(|pipe| link.as_os_str() == pipe.as_str()) else { continue };
            let flags = read_file(&dir.join("fdinfo").join(entry.file_name()));
            let is_known = found.iter().any(|(known, reader): &(String, Process)| known == pipe && reader.pid == pid);
            if !is_known
                && flags.is_some_and(|flags| is_read_only(&flags))
                && let Some(stat) = stat(proc, pid)
            {
                found.push((pipe.clone(), look(proc, pid, Role::Reader, stat)));
            }
        }
    }
    found
}

/// Whether `fdinfo` shows an end that can be read alone.
fn is_read_only(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 == 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_full_pipe_is_measured_without_taking_anything_out_of_it() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[b'x'; 1000]).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&writer).cast_unsigned();
        let pipe = fill(&fd_path(Path::new("/proc"), std::process::id(), fd)).unwrap();
        assert_eq!((pipe.bytes, pipe.readers.len()), (1000, 0));
        assert!(pipe.capacity >= 4096);
        let mut all = vec![0; 2000];
        assert_eq!(reader.read(&mut all).unwrap(), 1000);
    }

    #[test]
    fn the_holder_of_the_read_end_is_found_and_the_writer_is_not() {
        // `cat` holds the read end as its input and never sees an end of it while we hold the other one.
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(cat.stdin.as_ref().unwrap()).cast_unsigned();
        let pipe = target(Path::new("/proc"), std::process::id(), fd).unwrap();
        let found = readers(Path::new("/proc"), std::slice::from_ref(&pipe), clock::now() + Duration::from_secs(60));
        drop(cat.stdin.take());
        cat.wait().unwrap();
        // A child that another test is just starting may hold it too, for an instant.
        let pids: Vec<(&str, u32)> = found.iter().map(|(pipe, reader)| (pipe.as_str(), reader.pid)).collect();
        assert!(pids.contains(&(pipe.as_str(), cat.id())) && !pids.contains(&(pipe.as_str(), std::process::id())), "{pids:?}");
    }

    #[test]
    fn only_a_read_end_is_one() {
        assert!(is_read_only("pos:\t0\nflags:\t0100000\nmnt_id:\t14\n") && !is_read_only("flags:\t02\n"));
        assert!(!is_read_only("flags:\t0100001\n") && !is_read_only(""));
    }
}
