//! A node's directories, a daemon in them, and the patience of a test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fip_watchdog::control::client::{self, ClientError};
use fip_watchdog::control::protocol::{Request, Response};
use fip_watchdog::control::report::StatusReport;
use fip_watchdog::runtime::clock;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_fip-watchdog");

/// An interface that no machine has.
pub const INTERFACE: &str = "fipwd-lan";

/// How long anything may take on a busy machine before the test gives up.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Asks until there is an answer; `what` is in the panic.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(clock::now() < end, "{what}: not within {} s", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn write(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) {
    File::create(path).unwrap().write_all(content.as_ref()).unwrap();
}

/// Directories of a node on which nothing is there yet but the policy.
pub struct Node {
    pub dir: TempDir,
}

impl Node {
    pub fn new() -> Self {
        let node = Self::without_policy();
        write(&node.policy(), &node.policy_text("enforce"));
        node
    }

    pub fn without_policy() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn policy(&self) -> PathBuf {
        self.path("etc/policy.yaml")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/control.sock")
    }

    pub fn manifest(&self) -> PathBuf {
        self.path("kubernetes/manifests/wcp-fip.yaml")
    }

    /// A quick policy; nothing listens on port 1.
    pub fn policy_text(&self, mode: &str) -> String {
        self.policy_for(mode, 1)
    }

    pub fn policy_for(&self, mode: &str, etcd_port: u16) -> String {
        let dir = self.dir.path().display();
        format!(
            "version: 1\nmode: {mode}\nfip: {{ address: 192.0.2.200, interface: {INTERFACE} }}\netcd:\n  \
             endpoint: https://127.0.0.1:{etcd_port}\n  ca: {dir}/pki/ca.crt\n  cert: {dir}/pki/server.crt\n  \
             key: {dir}/pki/server.key\n  poll: 250ms\n  poll_alert: 250ms\n  deadline: 1s\nloop:\n  \
             manifest: {dir}/kubernetes/manifests/wcp-fip.yaml\n  log_root: {dir}/log\n  interval: 1s\n  \
             query_timeout: 1s\n  stalled_after: 5s\n  stalled_after_log_only: 10s\n\
             host: {{ late_ticks: 60, cpu_pressure: 100 }}\nstate_dir: {dir}/state\n"
        )
    }

    /// `run` with this node's policy and directories.
    pub fn command(&self) -> Command {
        self.command_under(&[])
    }

    /// The same in a network namespace of its own, which ends with the process.
    pub fn command_in_its_own_network(&self) -> Command {
        self.command_under(&["unshare", "--net", "--"])
    }

    fn command_under(&self, wrapper: &[&str]) -> Command {
        // It ends with the thread of its test, also when that is killed or aborts.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(wrapper).arg(BINARY);
        command.arg("run").arg("--policy").arg(self.policy()).arg("--runtime-dir").arg(self.path("run"));
        command.env("STATE_DIRECTORY", self.path("state")).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command.env_remove("FIP_WATCHDOG_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub fn start(&self) -> Daemon {
        Daemon::of(self.command(), &self.socket())
    }

    /// Runs a daemon that is to refuse: its output, exit code included.
    pub fn refused(&self) -> Refused {
        let mut daemon = Daemon::spawn(self.command(), &self.socket());
        let status = daemon.exited();
        Refused { code: status.code(), stderr: daemon.said() }
    }

    /// A subcommand that talks to this node's daemon.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        Command::new(BINARY).args(arguments).arg("--socket").arg(self.socket()).output().unwrap()
    }
}

pub struct Refused {
    pub code: Option<i32>,
    pub stderr: String,
}

/// A daemon that was started; killed on drop.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Daemon {
    /// A daemon that has finished its first round.
    pub fn of(command: Command, socket: &Path) -> Self {
        let mut daemon = Self::spawn(command, socket);
        daemon.until_up();
        daemon
    }

    pub fn spawn(mut command: Command, socket: &Path) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, heard) = (child.stderr.take().unwrap(), Arc::clone(&said));
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = heard.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, socket: socket.to_owned(), said, listener: Some(listener) }
    }

    pub fn until_up(&mut self) {
        until("the first round", || {
            assert!(self.child.try_wait().unwrap().is_none(), "the daemon ended: {}", self.said());
            self.try_status().ok()
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn exited(&mut self) -> ExitStatus {
        let status = until("the daemon's end", || self.child.try_wait().unwrap());
        // Its last words have been read then.
        self.listener.take().into_iter().for_each(|listener| listener.join().unwrap());
        status
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Everything on its standard error so far; complete after [`Self::exited`].
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn until_says(&self, what: &str) {
        until(&format!("`{what}` on standard error"), || self.said().contains(what).then_some(()));
    }

    pub fn try_status(&self) -> Result<StatusReport, ClientError> {
        match client::ask(&self.socket, &Request::Status, client::DEADLINE)? {
            Response::Status(report) => Ok(*report),
            other @ (Response::Explain(_) | Response::Paused { .. } | Response::Resumed { .. } | Response::Refused { .. }) => {
                Err(ClientError::NotUnderstood { path: self.socket.clone(), reason: format!("{other:?}") })
            }
        }
    }

    pub fn status(&self) -> StatusReport {
        self.try_status().unwrap_or_else(|error| panic!("no status: {error}\n{}", self.said()))
    }

    /// Waits for a status; the last one is in the panic.
    pub fn until_status(&self, what: &str, wanted: impl Fn(&StatusReport) -> bool) -> StatusReport {
        let end = clock::now() + LIMIT;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(clock::now() < end, "{what}: not in {status:#?}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill, and `wait` knows its end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs a program of the system; its failure is the test's.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed (these tests need root and iproute2): {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that can be read.
pub fn rest_of(mut reader: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A peer that closed with our bytes unread resets; what it said before has arrived.
    reader.read_to_end(&mut bytes).ok();
    bytes
}
