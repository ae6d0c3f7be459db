//! The process between kubelet and container: it survives the kubelet, holds the container's pipes, and is the container's parent.
//!
//! It holds the read ends of both pipes without ever reading them. So when the log reader dies nobody gets SIGPIPE: the pipes fill and
//! the container blocks in its next write, as it does under a container runtime whose log copier died.
//! Invariant: it never starts a second reader, and it ends with its container.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setsid, wait};
use serde::{Deserialize, Serialize};

use super::state_json::{self, Record};
use super::{cgroup, namespace, process, say};

/// How long the shim waits for the reader to write the last lines after the container's end.
const READER_DRAIN: Duration = Duration::from_secs(2);

/// What to run, and where its output goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShimSpec {
    /// Command and arguments.
    pub argv: Vec<String>,
    /// The container's whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub working_dir: String,
    /// When to rotate the log.
    pub rotate_bytes: u64,
    /// The container's record, but for the process ids.
    pub record: Record,
}

impl ShimSpec {
    /// Where the shim reports that the container runs, for a kubelet that was killed before it could remember it.
    #[must_use]
    pub fn started_path(spec: &Path) -> PathBuf {
        spec.with_extension("started")
    }
}

/// What the shim reports, in a file and as one line on its stdout, once the container's process exists.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Started {
    /// The container's PID 1, as seen by the shim and the kubelet.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The log reader.
    pub reader_pid: i32,
    /// The shim itself.
    pub shim_pid: i32,
}

#[derive(Debug, Parser)]
#[command(name = "kubelet-shim", about = "Hold one container")]
struct Arguments {
    /// File with what to run.
    spec: PathBuf,
    /// Be the container: join its cgroups and namespaces, then run its command.
    #[arg(long)]
    init: bool,
}

/// Run a container to its end, or (`--init`) become it.
///
/// # Errors
/// The container cannot be started.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = Arguments::try_parse_from(args)?;
    let text = fs::read_to_string(&arguments.spec).with_context(|| format!("cannot read {}", arguments.spec.display()))?;
    let spec: ShimSpec = serde_json::from_str(&text).context("cannot parse the container's specification")?;
    if arguments.init { become_container(&spec) } else { hold(&spec, &arguments.spec) }
}

fn hold(spec: &ShimSpec, path: &Path) -> anyhow::Result<ExitCode> {
    // Out of the kubelet's session: what ends the kubelet does not end the container.
    setsid().context("cannot start a session")?;
    cgroup::leave_the_kubelets_service();
    let (out_read, out_write) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let (err_read, err_write) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let program = std::env::current_exe().context("cannot find the own program")?;
    // The reader stays in the node's pid namespace: it belongs to the runtime, not to the container.
    let reader = Command::new(&program)
        .arg("log-reader")
        .arg("--log")
        .arg(&spec.record.log)
        .arg("--rotate-bytes")
        .arg(spec.rotate_bytes.to_string())
        .stdin(Stdio::from(out_read.try_clone()?))
        .stdout(Stdio::from(err_read.try_clone()?))
        .spawn()
        .context("cannot start the log reader")?;
    namespace::new_pids_for_children().context("cannot make a pid namespace")?;
    let mut command = Command::new(&program);
    // Closed when the container's own command takes over: until then it is not yet in its cgroup.
    let (begun_read, begun_write) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    command.args(["kubelet-shim", "--init"]).arg(path).stdin(Stdio::from(begun_write));
    let container =
        command.stdout(Stdio::from(out_write)).stderr(Stdio::from(err_write)).spawn().context("cannot start the container")?;
    // The command holds the write ends; as long as it does the reader never sees the end of the streams.
    drop(command);
    let pid = i32::try_from(container.id()).context("pid out of range")?;
    let reader_pid = i32::try_from(reader.id()).context("pid out of range")?;
    let start_ticks = process::start_ticks(pid).context("the container ended at once")?;
    // Bounded by the kubelet, which gives up on the shim after a while.
    rustix::io::read(&begun_read, &mut [0_u8; 1]).context("cannot wait for the container's command")?;
    report(Started { pid, start_ticks, reader_pid, shim_pid: i32::try_from(std::process::id())? }, path)?;

    let reader_done = wait_for(pid, reader_pid)?;
    drop((out_read, err_read));
    drain(reader_pid, reader_done);
    Ok(ExitCode::SUCCESS)
}

/// Tell the kubelet that waits, and leave a file for the one that comes after it.
fn report(started: Started, spec: &Path) -> anyhow::Result<()> {
    state_json::replace(&ShimSpec::started_path(spec), &started).context("cannot remember the container's start")?;
    let line = serde_json::to_string(&started)?;
    let mut stdout = std::io::stdout();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        // The kubelet is gone: the container stays, as all of its containers do.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot report the container's start"),
    }
}

/// Wait for the container; true when the reader has ended before it.
fn wait_for(container: i32, reader: i32) -> anyhow::Result<bool> {
    let mut reader_done = false;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _status))) if pid.as_raw_nonzero().get() == container => return Ok(reader_done),
            Ok(Some((pid, _status))) => reader_done |= pid.as_raw_nonzero().get() == reader,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the container"),
        }
    }
}

/// Give the reader time for the last lines; one that is stopped is left to the node's init.
fn drain(reader: i32, mut done: bool) {
    let until = Instant::now() + READER_DRAIN;
    while !done && Instant::now() < until {
        done = !matches!(rustix::process::waitpid(Pid::from_raw(reader), WaitOptions::NOHANG), Ok(None));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn become_container(spec: &ShimSpec) -> anyhow::Result<ExitCode> {
    if cgroup::join(&spec.record.cgroup_dirs) == 0 {
        say("\"Failed to join the container's cgroup\"");
    }
    if let Err(error) = namespace::own_proc() {
        say(&format!("\"Failed to mount /proc\" err=\"{error}\""));
    }
    // As runtimes do: a signal to the shim's process group is not one to the container.
    setsid().context("cannot start a session")?;
    let (program, arguments) = spec.argv.split_first().context("the container has no command")?;
    let error = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .current_dir(&spec.working_dir)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .exec();
    Err(error).with_context(|| format!("cannot run {program:?}"))
}
