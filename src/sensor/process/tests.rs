//! The sense on real processes in cgroups of the tests' own.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::runtime::clock;

/// How long a condition may take to come true on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// How long nothing must happen for it to count as nothing.
const QUIET: Duration = Duration::from_millis(1500);

/// A round of the real loop, hurried: it forks, reaps, and traces.
const LOOP: &str = "set -x; while [ 1 ]; do sleep 0.05; out=$(echo x | cat); done";

/// The cgroup hierarchies of this host in which a cgroup can be made: v2 and v1.
fn hierarchies() -> Vec<PathBuf> {
    let known = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"];
    let usable: Vec<PathBuf> = known.iter().map(PathBuf::from).filter(|path| path.join("cgroup.procs").exists()).collect();
    assert!(!usable.is_empty(), "no cgroup hierarchy is mounted");
    usable
}

/// A pod's cgroup with the processes in it; both go with it.
struct Pod {
    uid: String,
    cgroup: PathBuf,
    children: Vec<Child>,
}

impl Pod {
    fn in_hierarchy(root: &Path, name: &str) -> Self {
        let uid = format!("{name}-{:x}", std::process::id());
        let cgroup = root.join(format!("fip-watchdog-test-{uid}")).join(format!("pod{uid}"));
        fs::create_dir_all(&cgroup).unwrap();
        Self { uid, cgroup, children: Vec::new() }
    }

    fn new(name: &str) -> Self {
        Self::in_hierarchy(&hierarchies()[0], name)
    }

    /// Starts a program inside the pod; its shell joins the cgroup before it becomes the program.
    fn start(&mut self, program: &[&str], output: Stdio) -> u32 {
        let join = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.cgroup.display());
        let mut command = Command::new("sh");
        command.args(["-c", &join, "sh"]).args(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command.spawn().unwrap();
        let pid = child.id();
        self.children.push(child);
        let inside = || fs::read_to_string(self.cgroup.join("cgroup.procs")).unwrap().lines().any(|line| line == pid.to_string());
        let has_become = || fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(program[0].as_bytes());
        wait_until("the program runs in the pod", || inside() && has_become());
        pid
    }

    fn read(&self, sensor: &mut ProcessSensor) -> ProcessView {
        match sensor.read(clock::now(), Some(&self.uid)) {
            Reading::Fresh { value, .. } => value,
            reading @ (Reading::Stale { .. } | Reading::Unknown(_)) => panic!("{reading:?}"),
        }
    }

    fn process(&self, sensor: &mut ProcessSensor) -> LoopProcess {
        match self.read(sensor) {
            ProcessView::Present(process) => process,
            ProcessView::Absent { since } => panic!("absent since {since:?}"),
        }
    }

    fn wait_for_progress(&self, sensor: &mut ProcessSensor) {
        let before = self.process(sensor).progress_at;
        wait_until("the loop makes progress", || self.process(sensor).progress_at > before);
    }

    /// Reads until nothing has moved for a while; fails if something never stops moving.
    fn assert_comes_to_rest(&self, sensor: &mut ProcessSensor) -> LoopProcess {
        wait_until("the loop comes to rest", || clock::now().since(self.process(sensor).progress_at) > QUIET);
        self.process(sensor)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for child in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
        // What the children left behind (`sleep`) stands in our own cgroup and nowhere else.
        let emptied = || {
            let procs = fs::read_to_string(self.cgroup.join("cgroup.procs")).unwrap_or_default();
            for pid in procs.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
                kill_process(pid, Signal::KILL).ok();
            }
            fs::remove_dir(&self.cgroup).is_ok()
        };
        if poll(emptied) {
            self.cgroup.parent().map(fs::remove_dir);
        }
    }
}

fn poll(mut condition: impl FnMut() -> bool) -> bool {
    let start = clock::now();
    while clock::now().since(start) < LIMIT {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(poll(condition), "not in {LIMIT:?}: {what}");
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn voluntary_switches(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap().trim().parse().unwrap()
}

#[test]
fn without_a_uid_the_reason_is_given() {
    let reading = ProcessSensor::new().read(clock::now(), None);
    assert_eq!(reading, Reading::Unknown("the uid of the loop's pod is not known: no log directory of it was found".to_owned()));
}

#[test]
fn a_working_loop_makes_progress_in_every_hierarchy() {
    for (index, root) in hierarchies().iter().enumerate() {
        let mut pod = Pod::in_hierarchy(root, &format!("working{index}"));
        let mut sensor = ProcessSensor::new();
        let pid = pod.start(&["bash", "-c", LOOP], Stdio::null());
        let process = pod.process(&mut sensor);
        assert_eq!((process.pid, process.copies), (pid, 1), "{}", root.display());
        for _ in 0..3 {
            pod.wait_for_progress(&mut sensor);
        }
    }
}

#[test]
fn a_stopped_loop_makes_none_however_often_it_is_continued_and_stopped() {
    let mut pod = Pod::new("stopped");
    let mut sensor = ProcessSensor::new();
    // Its child outlasts the test, so that nothing but the signals wakes the shell.
    let pid = pod.start(&["bash", "-c", "while [ 1 ]; do sleep 1000; done"], Stdio::null());
    pod.assert_comes_to_rest(&mut sensor);
    let (rest, switches) = (pod.process(&mut sensor), voluntary_switches(pid));
    for _ in 0..5 {
        for (sent, state) in [(Signal::STOP, 'T'), (Signal::CONT, 'S')] {
            signal(pid, sent);
            wait_until("the signal takes effect", || pod.process(&mut sensor).state == state);
        }
    }
    assert!(voluntary_switches(pid) > switches, "the signals made no switches, so this proves nothing");
    assert_eq!(pod.process(&mut sensor).progress_at, rest.progress_at);
}

#[test]
fn a_loop_that_was_stopped_and_continued_goes_on() {
    let mut pod = Pod::new("continued");
    let mut sensor = ProcessSensor::new();
    let pid = pod.start(&["bash", "-c", LOOP], Stdio::null());
    pod.wait_for_progress(&mut sensor);
    signal(pid, Signal::STOP);
    assert_eq!(pod.assert_comes_to_rest(&mut sensor).state, 'T');
    signal(pid, Signal::CONT);
    pod.wait_for_progress(&mut sensor);
}

#[test]
fn a_loop_blocked_in_its_full_log_pipe_makes_no_progress() {
    let mut pod = Pod::new("full-pipe");
    let mut sensor = ProcessSensor::new();
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    pod.start(&["bash", "-c", LOOP], Stdio::from(writer));
    let process = pod.assert_comes_to_rest(&mut sensor);
    assert_eq!(process.state, 'S');
    assert!(process.wchan.as_deref().is_none_or(|name| name.ends_with("pipe_write")), "{:?}", process.wchan);
    // Once somebody reads, it goes on.
    let drain = std::thread::spawn(move || std::io::copy(&mut { reader }, &mut std::io::sink()).unwrap());
    pod.wait_for_progress(&mut sensor);
    drop(pod);
    assert!(drain.join().unwrap() > 0);
}

#[test]
fn a_hung_child_is_no_progress() {
    let mut pod = Pod::new("hung-child");
    let mut sensor = ProcessSensor::new();
    pod.start(&["bash", "-c", "for i in 1 2 3; do sleep 0.1; done; while [ 1 ]; do sleep 1000; done"], Stdio::null());
    assert_eq!(pod.assert_comes_to_rest(&mut sensor).state, 'S');
}

#[test]
fn the_shell_is_found_below_the_process_that_made_its_namespace() {
    let mut pod = Pod::new("namespace");
    let mut sensor = ProcessSensor::new();
    let unshares = format!("sleep 0.3; exec unshare --pid --fork --kill-child bash -c '{LOOP}'");
    let unshare = pod.start(&["bash", "-c", &unshares], Stdio::null());
    // At first there is nothing else.
    assert_eq!(pod.process(&mut sensor).pid, unshare);
    let mut shell = 0;
    wait_until("the namespace's pid 1 is found", || {
        shell = match pod.read(&mut sensor) {
            ProcessView::Present(process) => process.pid,
            ProcessView::Absent { .. } => 0,
        };
        shell != 0 && shell != unshare && fs::read(format!("/proc/{shell}/cmdline")).unwrap().starts_with(b"bash")
    });
    let process = pod.process(&mut sensor);
    assert_eq!((process.pid, process.copies), (shell, 1));
    pod.wait_for_progress(&mut sensor);
}

#[test]
fn the_sandboxs_pause_is_not_the_loop() {
    let mut pod = Pod::new("pause");
    let directory = tempfile::TempDir::new().unwrap();
    let pause = directory.path().join("pause");
    std::os::unix::fs::symlink("/bin/sleep", &pause).unwrap();
    pod.start(&[pause.to_str().unwrap(), "1000"], Stdio::null());
    assert!(matches!(pod.read(&mut ProcessSensor::new()), ProcessView::Absent { .. }));
    let pid = pod.start(&["bash", "-c", LOOP], Stdio::null());
    let process = pod.process(&mut ProcessSensor::new());
    assert_eq!((process.pid, process.copies), (pid, 1));
}

#[test]
fn a_second_copy_is_counted() {
    let mut pod = Pod::new("copies");
    pod.start(&["bash", "-c", LOOP], Stdio::null());
    pod.start(&["bash", "-c", LOOP], Stdio::null());
    assert_eq!(pod.process(&mut ProcessSensor::new()).copies, 2);
}

#[test]
fn a_killed_loop_is_absent_since_it_was_missed_and_its_successor_is_another() {
    let mut pod = Pod::new("killed");
    let mut sensor = ProcessSensor::new();
    let first = pod.start(&["bash", "-c", "while [ 1 ]; do read -t 1000 line <> <(:); done"], Stdio::null());
    assert_eq!(pod.process(&mut sensor).pid, first);
    // Killed and not reaped: a zombie, until the pod's drop.
    signal(first, Signal::KILL);
    let mut since = None;
    wait_until("the loop is absent", || match pod.read(&mut sensor) {
        ProcessView::Absent { since: at } => *since.insert(at) <= clock::now(),
        ProcessView::Present(_) => false,
    });
    assert_eq!(pod.read(&mut sensor), ProcessView::Absent { since: since.unwrap() });
    let second = pod.start(&["bash", "-c", LOOP], Stdio::null());
    // A full look is made once a second at most.
    wait_until("the successor is found", || match pod.read(&mut sensor) {
        ProcessView::Present(process) => process.pid == second,
        ProcessView::Absent { since: at } => at != since.unwrap() && panic!("absence began anew"),
    });
}

#[test]
fn the_end_of_a_settled_loop_shows_at_once_and_each_absence_counts_anew() {
    let mut pod = Pod::new("settled");
    let mut sensor = ProcessSensor::new();
    let at = |seconds| Moment::from_origin(Duration::from_secs(seconds));
    let mut read = |pod: &Pod, seconds| match sensor.read(at(seconds), Some(&pod.uid)) {
        Reading::Fresh { value: ProcessView::Present(process), .. } => Ok(process.pid),
        Reading::Fresh { value: ProcessView::Absent { since }, .. } => Err(since),
        reading @ (Reading::Stale { .. } | Reading::Unknown(_)) => panic!("{reading:?}"),
    };
    assert_eq!(read(&pod, 10), Err(at(10)));
    for start in [20, 120] {
        let pid = pod.start(&["bash", "-c", LOOP], Stdio::null());
        for seconds in [start, start + 1, start + 10, start + 41] {
            assert_eq!(read(&pod, seconds), Ok(pid));
        }
        signal(pid, Signal::KILL);
        wait_until("it is a zombie", || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z "));
        // Its last `sleep` may still be there, on top of its own tree.
        let others = || fs::read_to_string(pod.cgroup.join("cgroup.procs")).unwrap().lines().any(|line| line != pid.to_string());
        wait_until("its children are gone", || !others());
        assert_eq!(read(&pod, start + 42), Err(at(start + 42)));
        assert_eq!(read(&pod, start + 44), Err(at(start + 42)));
    }
}

#[test]
fn a_full_look_is_made_once_a_second_at_most() {
    let mut pod = Pod::new("rate");
    let mut sensor = ProcessSensor::new();
    let at = |millis| Moment::from_origin(Duration::from_millis(millis));
    let is_present = |sensor: &mut ProcessSensor, millis, uid: &str| match sensor.read(at(millis), Some(uid)) {
        Reading::Fresh { value, .. } => matches!(value, ProcessView::Present(_)),
        reading @ (Reading::Stale { .. } | Reading::Unknown(_)) => panic!("{reading:?}"),
    };
    assert!(!is_present(&mut sensor, 10_000, &pod.uid));
    pod.start(&["bash", "-c", LOOP], Stdio::null());
    assert!(!is_present(&mut sensor, 10_999, &pod.uid));
    assert!(is_present(&mut sensor, 11_000, &pod.uid));
    // A new uid is another pod: looked for at once.
    assert!(!is_present(&mut sensor, 11_001, "another"));
}

#[test]
fn the_freezer_wakes_nobody_into_progress() {
    let freezer = Path::new("/sys/fs/cgroup/freezer");
    let (root, knob, on, off) = if freezer.join("cgroup.procs").exists() {
        (freezer.to_owned(), "freezer.state", "FROZEN", "THAWED")
    } else {
        (hierarchies()[0].clone(), "cgroup.freeze", "1", "0")
    };
    let mut pod = Pod::in_hierarchy(&root, "freezer");
    let mut sensor = ProcessSensor::new();
    let pid = pod.start(&["bash", "-c", "while [ 1 ]; do sleep 1000; done"], Stdio::null());
    let rest = pod.assert_comes_to_rest(&mut sensor);
    let knob = pod.cgroup.join(knob);
    for value in [on, off].repeat(3) {
        File::options().write(true).open(&knob).unwrap().write_all(value.as_bytes()).unwrap();
        wait_until("the shell is seen", || pod.process(&mut sensor).pid == pid);
    }
    assert_eq!(pod.process(&mut sensor).progress_at, rest.progress_at);
}
