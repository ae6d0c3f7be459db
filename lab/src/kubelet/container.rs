//! Containers as the runtime would keep them: start through a shim, signal, notice the death, remove what is left.
//!
//! Invariant: a container is known by pid and start time, and is in the published state from its start until its record goes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::manifest::Pod;
use super::options::Options;
use super::shim::{ShimSpec, Started};
use super::state_json::{self, ContainerState, Record};
use super::{cgroup, process, rotate, uid};

/// A start that takes longer than this on a busy machine has failed.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A shim that has not reported by now never will: it was killed too.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// Length of a container's id.
const ID_HEX_DIGITS: usize = 64;

/// A container, with a handle on its process while that lives.
#[derive(Debug)]
pub struct Container {
    /// What is published about it.
    pub record: Record,
    /// Its PID 1.
    pub handle: Option<OwnedFd>,
}

impl Container {
    /// Run the container of `pod` as attempt number `attempt`.
    ///
    /// # Errors
    /// A cgroup, a directory or a process cannot be made; nothing is left running then.
    pub fn start(pod: &Pod, attempt: u32, options: &Options) -> anyhow::Result<Self> {
        let nonce = format!("{} {}", jiff::Timestamp::now(), std::process::id());
        let id = uid::of_container(&pod.uid, attempt, &nonce);
        let (cgroup_dirs, cgroup) = cgroup::create(&pod.uid, &id).context("cannot create the container's cgroup")?;
        let log = log_dir(pod, options).join(&pod.container).join(format!("{attempt}.log"));
        let mut record = Record {
            pod: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            attempt,
            container: pod.container.clone(),
            id,
            pid: 0,
            start_ticks: 0,
            log,
            reader_pid: 0,
            shim_pid: 0,
            cgroup,
            state: ContainerState::Running,
            cgroup_dirs,
            grace_seconds: pod.grace_seconds,
        };
        let prepared = prepare(pod, &record, options);
        match prepared.and_then(|spec| spawn(&spec)) {
            Ok(started) => fill(&mut record, started),
            Err(error) => {
                // Nothing runs: what was made for it goes again, and only a cgroup could stay behind.
                let _busy = Self { record, handle: None }.remove(options);
                return Err(error);
            }
        }
        let handle = process::open(record.pid, record.start_ticks);
        Ok(Self { record, handle })
    }

    /// A container that an earlier kubelet started.
    #[must_use]
    pub fn adopt(mut record: Record) -> Self {
        let handle = process::open(record.pid, record.start_ticks);
        record.state = if handle.is_some() { ContainerState::Running } else { ContainerState::Exited };
        Self { record, handle }
    }

    /// Send `signal` to its PID 1; nothing happens when that is gone.
    pub fn signal(&self, signal: Signal) {
        if let Some(handle) = &self.handle {
            // Already dead is what was wanted.
            let _alive = process::signal(handle, signal);
        }
    }

    /// Whether its process has ended since it was last asked.
    pub fn has_died(&mut self) -> bool {
        if self.record.state == ContainerState::Exited {
            return false;
        }
        let ended = self.handle.as_ref().is_none_or(|handle| {
            let mut fds = [PollFd::new(handle, PollFlags::IN)];
            matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
        });
        // An end is told by the shim: as long as that is stopped, nobody knows of it.
        let ended = ended && !process::is_stopped(self.record.shim_pid);
        if ended {
            self.handle = None;
            self.record.state = ContainerState::Exited;
        }
        ended
    }

    /// Kill the process that copies its output.
    pub fn kill_reader(&self) {
        let reader = self.record.reader_pid;
        // Between start and now nobody but the shim reaps the reader, and a reused pid would not be a child of the shim.
        if parent_of(reader) == Some(self.record.shim_pid)
            && let Some(handle) = process::start_ticks(reader).and_then(|ticks| process::open(reader, ticks))
        {
            let _alive = process::signal(&handle, Signal::KILL);
        }
    }

    /// Remove its logs and its specification; the cgroup's directories are returned when they are still busy.
    #[must_use]
    pub fn remove(self, options: &Options) -> Option<Vec<PathBuf>> {
        self.kill_reader();
        for old in rotate::rotated_logs(&self.record.log).unwrap_or_default() {
            remove_file(&old);
        }
        remove_file(&self.record.log);
        remove_file(&link(&self.record, options));
        let spec = spec_path(&self.record.id, options);
        remove_file(&ShimSpec::started_path(&spec));
        remove_file(&spec);
        (!cgroup::remove(&self.record.cgroup_dirs)).then_some(self.record.cgroup_dirs)
    }
}

/// The directory of the pod's logs.
#[must_use]
pub fn log_dir(pod: &Pod, options: &Options) -> PathBuf {
    options.pods_log.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
}

fn link(record: &Record, options: &Options) -> PathBuf {
    let name = format!("{}_{}_{}-{}.log", record.pod, record.namespace, record.container, record.id);
    options.pods_log.with_file_name("containers").join(name)
}

fn fill(record: &mut Record, started: Started) {
    record.pid = started.pid;
    record.start_ticks = started.start_ticks;
    record.reader_pid = started.reader_pid;
    record.shim_pid = started.shim_pid;
}

/// Containers that run although `known` has no record of them: an earlier kubelet was killed between their start and its memory of it.
///
/// # Errors
/// The state directory cannot be read.
pub fn unremembered(known: &[Record], options: &Options) -> anyhow::Result<Vec<Record>> {
    let mut found = Vec::new();
    let dir = &options.state_dir;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", dir.display()))?.path();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if id.len() != ID_HEX_DIGITS
            || path.extension().is_none_or(|kind| kind != "json")
            || known.iter().any(|record| record.id == id)
        {
            continue;
        }
        let spec: ShimSpec =
            match fs::read(&path).map_err(anyhow::Error::from).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)) {
                Ok(spec) => spec,
                Err(error) => {
                    super::say(&format!("\"Ignoring a container's specification\" path={path:?} err=\"{error:#}\""));
                    continue;
                }
            };
        let mut record = spec.record;
        match await_started(&ShimSpec::started_path(&path)) {
            Some(started) => {
                fill(&mut record, started);
                found.push(record);
            }
            None => {
                let _busy = Container { record, handle: None }.remove(options);
            }
        }
    }
    Ok(found)
}

/// The shim's report, which may be a moment away.
fn await_started(path: &Path) -> Option<Started> {
    let until = Instant::now() + REPORT_LIMIT;
    loop {
        let report = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if report.is_some() || Instant::now() >= until {
            return report;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn spec_path(id: &str, options: &Options) -> PathBuf {
    options.state_dir.join(format!("{id}.json"))
}

fn prepare(pod: &Pod, record: &Record, options: &Options) -> anyhow::Result<PathBuf> {
    let log = &record.log;
    let containers = options.pods_log.with_file_name("containers");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755);
    for dir in [log.parent().unwrap_or(Path::new("/")), &containers] {
        builder.create(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    // What an earlier container left under this name is not this container's log.
    remove_file(log);
    let link = link(record, options);
    symlink(log, &link).with_context(|| format!("cannot create {}", link.display()))?;
    let spec = ShimSpec {
        argv: pod.argv.clone(),
        env: pod.env.clone(),
        working_dir: pod.working_dir.clone(),
        rotate_bytes: options.rotate_bytes,
        record: record.clone(),
    };
    let path = spec_path(&record.id, options);
    state_json::replace(&path, &spec).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn spawn(spec: &Path) -> anyhow::Result<Started> {
    let program = std::env::current_exe().context("cannot find the own program")?;
    let mut shim = Command::new(program)
        .arg("kubelet-shim")
        .arg(spec)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the shim")?;
    match shim.stdout.take().context("the shim has no output").and_then(read_started) {
        Ok(started) => Ok(started),
        Err(error) => {
            // It has not started a container that it could tell about; ending it ends what it tried.
            shim.kill().and_then(|()| shim.wait().map(|_status| ())).context("cannot end the shim")?;
            Err(error)
        }
    }
}

fn read_started(output: ChildStdout) -> anyhow::Result<Started> {
    let limit = Timespec { tv_sec: i64::try_from(START_LIMIT.as_secs())?, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&limit)).context("cannot wait for the shim")?;
    anyhow::ensure!(ready > 0, "the shim did not start a container within {START_LIMIT:?}");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("cannot read from the shim")?;
    serde_json::from_str(&line).context("the shim did not start a container")
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Remove what may be gone already.
fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => super::say(&format!("\"Failed to remove file\" path={path:?} err=\"{error}\"")),
    }
}
