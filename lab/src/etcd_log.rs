//! `fip-lab etcd`: becomes etcd, with its standard error also in a pod's log as a container runtime writes it.
//!
//! ```text
//!   fip-lab etcd DIR etcd …  ──exec──► etcd, the same process     stderr ─► pipe ─► fip-lab etcd-log DIR ─► the journal, as before
//!                                                                                                      └─► DIR/<attempt>.log, CRI lines
//! ```
//!
//! Invariant: etcd never waits for its log: what cannot be written to the file is left out there. The reader ends when etcd does, and not
//! before, whatever signal the unit gets: without a reader etcd's next line would end it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use jiff::Timestamp;

use crate::kubelet::cri::Framer;

/// The kubelet's default for `containerLogMaxSize`; the one before is kept.
const LOG_BYTES_MAX: u64 = 10 << 20;
/// One pipe's worth.
const CHUNK: usize = 64 << 10;

/// Where the kubelet has the logs of etcd's static pod on the node of that name. The UID of a static pod is 32 hex digits.
#[must_use]
pub fn directory(node_name: &str) -> String {
    let uid: String = node_name.chars().rev().collect();
    format!("/var/log/pods/kube-system_etcd-{node_name}_{uid}/etcd")
}

/// Becomes etcd. Arguments: the log's directory, then etcd's command line.
///
/// # Errors
/// Wrong arguments, or something cannot be started.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let [directory, program, rest @ ..] = args else { anyhow::bail!("usage: fip-lab etcd DIRECTORY COMMAND…") };
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    // As it was called: the file that it runs from may have been replaced on the host.
    let own = std::env::args_os().next().context("this program has no name")?;
    // Stopping the unit signals all its processes.
    let ignoring = "trap '' TERM INT HUP; exec \"$0\" etcd-log \"$1\"";
    let mut log = Command::new("sh");
    log.args(["-c", ignoring]).arg(own).arg(directory).stdin(reader).stdout(Stdio::null());
    log.spawn().context("cannot start the log's reader")?;
    drop(log);
    let error = Command::new(program).args(rest).stderr(writer).exec();
    Err(error).with_context(|| format!("cannot become {}", program.display()))
}

/// Copies standard input to standard error and to the next log of the directory, until it ends.
///
/// # Errors
/// Wrong arguments, or standard input cannot be read.
pub fn reader(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let [directory] = args else { anyhow::bail!("usage: fip-lab etcd-log DIRECTORY") };
    let mut log = Log::open(Path::new(directory)).ok();
    let mut framer = Framer::new("stderr");
    let (mut chunk, mut lines) = (vec![0; CHUNK], Vec::new());
    loop {
        let length = match std::io::stdin().lock().read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot read etcd's log"),
        };
        let bytes = chunk.get(..length).unwrap_or_default();
        // A journal that went away is no reason to let etcd wait.
        std::io::stderr().lock().write_all(bytes).ok();
        lines.clear();
        if length == 0 {
            framer.finish(Timestamp::now(), &mut lines);
        } else {
            framer.push(bytes, Timestamp::now(), &mut lines);
        }
        if let Some(log) = &mut log {
            log.append(&lines);
        }
        if length == 0 {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The log of one start of etcd.
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Log {
    /// The next attempt's; of those before only the last one stays, as with the kubelet.
    fn open(directory: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(directory)?;
        let attempt = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u32>().ok());
        let mut old: Vec<(u32, PathBuf)> =
            fs::read_dir(directory)?.flatten().filter_map(|entry| Some((attempt(&entry.path())?, entry.path()))).collect();
        old.sort();
        let next = old.last().map_or(0, |(last, _)| last.saturating_add(1));
        old.pop();
        for (_, path) in old {
            fs::remove_file(path)?;
        }
        let path = directory.join(format!("{next}.log"));
        Ok(Self { file: File::create(&path)?, path, bytes: 0 })
    }

    /// A full disk loses lines.
    fn append(&mut self, lines: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        self.file.write_all(lines).ok();
        if self.bytes > LOG_BYTES_MAX && fs::rename(&self.path, self.path.with_extension("log.rotated")).is_ok() {
            let Ok(file) = File::create(&self.path) else { return };
            (self.file, self.bytes) = (file, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_log_of_its_own_and_only_the_one_before_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        for attempt in 0..3 {
            let mut log = Log::open(directory.path()).unwrap();
            log.append(format!("{attempt}\n").as_bytes());
        }
        let mut names: Vec<String> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["1.log", "2.log"]);
        assert_eq!(fs::read_to_string(directory.path().join("2.log")).unwrap(), "2\n");
    }

    #[test]
    fn a_log_that_has_grown_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::open(directory.path()).unwrap();
        log.append(&vec![b'x'; usize::try_from(LOG_BYTES_MAX).unwrap() + 1]);
        log.append(b"new\n");
        assert_eq!(fs::read_to_string(directory.path().join("0.log")).unwrap(), "new\n");
        assert!(directory.path().join("0.log.rotated").exists());
    }

    #[test]
    fn the_directory_is_that_of_a_static_pod() {
        let name = "4203f2b1c0de4a5b8c7d6e5f00000001";
        let directory = directory(name);
        let (pod, container) = directory.strip_prefix("/var/log/pods/").unwrap().split_once('/').unwrap();
        let uid = pod.strip_prefix(&format!("kube-system_etcd-{name}_")).unwrap();
        assert!(uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(container, "etcd");
    }
}
