//! Containers as the runtime would keep them: start through a shim, signal, notice the death, remove what is left.
//!
//! Invariant: a container is known by pid and start time, and is in the published state from its start until its record goes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::manifest::Pod;
use super::options::Options;
use super::shim::{ShimSpec, Started};
use super::state_json::{ContainerState, Record};
use super::{cgroup, process, rotate, uid};

/// A start that takes longer than this on a busy machine has failed.
const START_LIMIT: Duration = Duration::from_secs(20);

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
        let prepared = prepare(pod, &log, &id, &cgroup_dirs, options);
        let started = prepared.and_then(|spec| spawn(&spec).inspect_err(|_| remove_file(&spec)));
        let (started, shim_pid) = match started {
            Ok(started) => started,
            Err(error) => {
                // Best effort: an empty cgroup that stays behind harms nothing.
                let _removed = cgroup::remove(&cgroup_dirs);
                return Err(error);
            }
        };
        let record = Record {
            pod: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            attempt,
            container: pod.container.clone(),
            id,
            pid: started.pid,
            start_ticks: started.start_ticks,
            log,
            reader_pid: started.reader_pid,
            shim_pid,
            cgroup,
            state: ContainerState::Running,
            cgroup_dirs,
            grace_seconds: pod.grace_seconds,
        };
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
        let Some(handle) = &self.handle else { return false };
        let mut fds = [PollFd::new(handle, PollFlags::IN)];
        let ended = matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..));
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
        remove_file(&spec_path(&self.record.id, options));
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

fn spec_path(id: &str, options: &Options) -> PathBuf {
    options.state_dir.join(format!("{id}.json"))
}

fn prepare(pod: &Pod, log: &Path, id: &str, cgroup_dirs: &[PathBuf], options: &Options) -> anyhow::Result<PathBuf> {
    let containers = options.pods_log.with_file_name("containers");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755);
    for dir in [log.parent().unwrap_or(Path::new("/")), &containers] {
        builder.create(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    // What an earlier container left under this name is not this container's log.
    remove_file(log);
    let link = containers.join(format!("{}_{}_{}-{id}.log", pod.name, pod.namespace, pod.container));
    symlink(log, &link).with_context(|| format!("cannot create {}", link.display()))?;
    let spec = ShimSpec {
        argv: pod.argv.clone(),
        env: pod.env.clone(),
        working_dir: pod.working_dir.clone(),
        log: log.to_owned(),
        rotate_bytes: options.rotate_bytes,
        cgroup_dirs: cgroup_dirs.to_vec(),
    };
    let path = spec_path(id, options);
    let mut file = fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(&serde_json::to_vec(&spec)?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn spawn(spec: &Path) -> anyhow::Result<(Started, i32)> {
    let program = std::env::current_exe().context("cannot find the own program")?;
    let mut shim = Command::new(program)
        .arg("kubelet-shim")
        .arg(spec)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the shim")?;
    let shim_pid = i32::try_from(shim.id()).context("pid out of range")?;
    match shim.stdout.take().context("the shim has no output").and_then(read_started) {
        Ok(started) => Ok((started, shim_pid)),
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
