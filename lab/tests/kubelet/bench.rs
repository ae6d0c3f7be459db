//! One stand-in in a temporary directory, and waiting for what it does.
//! Invariant: whatever a test leaves (it may have failed anywhere), dropping the bench ends the processes that belong to it and removes its cgroups.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fip_lab::kubelet::state_json::{ContainerState, Record, State};
use rustix::process::{Pid, Signal, kill_process};

/// Generous: the machine may be busy. Nothing waits this long unless it fails.
pub const LIMIT: Duration = Duration::from_secs(40);

/// A container that never ends by TERM, as PID 1 without a handler.
pub const STUBBORN: &str = "while :; do sleep 0.05; done";

pub struct Bench {
    dir: tempfile::TempDir,
    kubelet: Option<Child>,
    options: Vec<String>,
}

impl Bench {
    /// A running stand-in with further `options`.
    pub fn new(options: &[&str]) -> Self {
        let mut bench = Self::stopped(options);
        bench.start();
        bench
    }

    /// Only the directories.
    pub fn stopped(options: &[&str]) -> Self {
        assert!(rustix::process::geteuid().is_root(), "needs root");
        let dir = tempfile::Builder::new().prefix("fip-lab-kubelet-").tempdir().expect("temp dir");
        for name in ["manifests", "log", "run"] {
            fs::create_dir(dir.path().join(name)).expect("create");
        }
        Self { dir, kubelet: None, options: options.iter().map(|&option| option.to_owned()).collect() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("kubelet.log")).expect("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fip-lab"));
        command.arg("kubelet").args(["--node-name", "NODE1"]);
        for (option, name) in [
            ("--manifests", "manifests"),
            ("--pods-log", "log/pods"),
            ("--state-dir", "state"),
            ("--mode-file", "run/kubelet.mode"),
            ("--state-json", "run/kubelet.json"),
        ] {
            command.arg(option).arg(self.path(name));
        }
        let seen = self.said_times("\"Started kubelet\"");
        let child = command.args(&self.options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("spawn");
        self.kubelet = Some(child);
        self.wait("the stand-in has started", |bench| bench.said_times("\"Started kubelet\"") > seen);
    }

    /// The mode *down*: the process ends, its containers do not.
    pub fn stop(&mut self) {
        if let Some(mut kubelet) = self.kubelet.take() {
            kubelet.kill().expect("kill");
            kubelet.wait().expect("wait");
        }
    }

    /// Put a manifest in by rename from a dotfile.
    pub fn put(&self, name: &str, text: &str) {
        let dotfile = self.path("manifests").join(format!(".{name}.new"));
        fs::write(&dotfile, text).expect("write");
        fs::rename(dotfile, self.manifest(name)).expect("rename");
    }

    pub fn manifest(&self, name: &str) -> PathBuf {
        self.path("manifests").join(name)
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.manifest(name)).expect("remove");
    }

    pub fn modes(&self, words: &[&str]) {
        // In one go: a file that is seen empty between truncation and write would switch every mode off for a moment.
        fs::write(self.path("run/kubelet.mode.new"), words.join("\n")).expect("write");
        fs::rename(self.path("run/kubelet.mode.new"), self.path("run/kubelet.mode")).expect("rename");
        let changes = format!("{} modes set", words.len());
        // Printed by the test only: the stand-in says it when it has read them.
        let wanted = words.iter().map(|word| format!("{}: true", word.replace('-', "_"))).collect::<Vec<_>>();
        self.wait(&changes, |bench| {
            let log = bench.log();
            let last = log.lines().rfind(|line| line.contains("\"Modes changed\"")).unwrap_or_default();
            wanted.iter().all(|word| last.contains(word)) && last.matches(": true").count() == wanted.len()
        });
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("kubelet.log")).unwrap_or_default()
    }

    pub fn said(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    pub fn said_times(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    pub fn records(&self) -> Vec<Record> {
        State::load(&self.path("run/kubelet.json")).expect("state file").containers
    }

    /// The live container of the pod `name`.
    pub fn live(&self, name: &str) -> Option<Record> {
        let pod = format!("{name}-node1");
        self.records().into_iter().find(|record| record.pod == pod && record.state != ContainerState::Exited)
    }

    pub fn wait_live(&self, name: &str) -> Record {
        self.wait_for(&format!("pod {name} runs"), |bench| bench.live(name))
    }

    /// A container of pod `name` that is not `old`.
    pub fn wait_other(&self, name: &str, old: &Record) -> Record {
        self.wait_for(&format!("pod {name} runs anew"), |bench| bench.live(name).filter(|record| record.id != old.id))
    }

    pub fn wait_dead(&self, record: &Record) {
        self.wait("the container's process is gone", |_| !alive(record));
    }

    pub fn wait(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        self.wait_for(what, |bench| condition(bench).then_some(()));
    }

    pub fn wait_for<T>(&self, what: &str, mut condition: impl FnMut(&Self) -> Option<T>) -> T {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(value) = condition(self) {
                return value;
            }
            assert!(Instant::now() < until, "not within {LIMIT:?}: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The container's log lines without time, stream and tag.
    pub fn output(&self, record: &Record) -> String {
        let text = fs::read_to_string(&record.log).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).fold(String::new(), |all, line| all + line + "\n")
    }

    /// Events are handled in order: once the pod of a manifest that was put in later runs, earlier events are done with.
    pub fn settle(&self, name: &str) {
        self.put(&format!("{name}.yaml"), &pod(name, STUBBORN));
        self.wait_live(name);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(mut kubelet) = self.kubelet.take() {
            // Already ended is fine; anything else shows as processes left below.
            let _killed = kubelet.kill();
            let _waited = kubelet.wait();
        }
        let until = Instant::now() + Duration::from_secs(10);
        // The directory's name is ours alone, and each shim and reader has it on its command line.
        while let processes = mentioning(self.dir.path())
            && !processes.is_empty()
            && Instant::now() < until
        {
            for pid in processes {
                for process in children(pid).into_iter().chain([pid]) {
                    if let Some(pid) = Pid::from_raw(process) {
                        let _gone = kill_process(pid, Signal::KILL);
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        remove_cgroups(&self.path("state"));
    }
}

/// Whether the container's process is there and is not a zombie.
pub fn alive(record: &Record) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", record.pid)).unwrap_or_default();
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    !fields.starts_with(['Z', 'X']) && fields.split(' ').nth(19) == Some(record.start_ticks.to_string().as_str())
}

pub fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("pid"), signal).expect("signal");
}

/// A pod of one shell command, with no further settings.
pub fn pod(name: &str, script: &str) -> String {
    pod_with(name, script, "")
}

/// The same with further lines in `spec`.
pub fn pod_with(name: &str, script: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: kube-system\nspec:\n{spec}  containers:\n  - name: main\n    \
         command: [/bin/sh, -c]\n    args: [{script:?}]\n"
    )
}

pub fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("metadata").mode() & 0o7777
}

fn mentioning(dir: &Path) -> Vec<i32> {
    let dir = dir.to_string_lossy();
    let pids = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != i32::try_from(std::process::id()).unwrap_or(0) && String::from_utf8_lossy(&line).contains(dir.as_ref())
    })
    .collect()
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn remove_cgroups(state: &Path) {
    let until = Instant::now() + Duration::from_secs(5);
    let remembered = State::load(&state.join("containers.json")).unwrap_or_default().containers;
    for dir in remembered.into_iter().flat_map(|record| record.cgroup_dirs) {
        while dir.exists() && fs::remove_dir(&dir).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        for parent in dir.ancestors().skip(1).take(3) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
}
