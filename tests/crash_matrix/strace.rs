//! Runs a child under strace: to record its calls, or to kill it or fail it at one of them.
//!
//! strace counts calls for each thread, so it is attached to the one thread that is meant, once both threads
//! stand still and before the work begins: call N is the same call in each run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::child::Task;
use crate::site::Site;

/// A child that does not end by itself is killed then.
const CHILD_MAX: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// Which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thread {
    /// Waits, announces, reads the boot id.
    Main,
    /// All other file work.
    Worker,
}

/// What happens at the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed in the call's place.
    Kill,
    /// The call fails once.
    Once(&'static str),
    /// It fails, and each later call of the same name.
    From(&'static str),
}

/// One point of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shot {
    pub thread: Thread,
    pub call: String,
    /// From 1.
    pub nth: usize,
    pub fault: Fault,
}

impl Shot {
    fn inject(&self) -> String {
        let Self { call, nth, .. } = self;
        match self.fault {
            Fault::Kill => format!("inject={call}:signal=KILL:when={nth}"),
            Fault::Once(errno) => format!("inject={call}:error={errno}:when={nth}"),
            Fault::From(errno) => format!("inject={call}:error={errno}:when={nth}+"),
        }
    }
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// What it said last; empty if it was killed.
    pub said: String,
    /// Whether the point was reached.
    pub hit: bool,
}

impl Ended {
    pub fn killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

/// A call that strace saw.
#[derive(Debug, Clone)]
pub struct Call {
    pub thread: Thread,
    pub name: String,
    /// Its how-manieth of this name in this thread, from 1.
    pub nth: usize,
    /// Arguments and answer, strings and paths as they are.
    pub text: String,
}

/// A child that waits for its go.
struct Waiting {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    main: String,
    worker: String,
}

/// The command that runs this very program as a child.
fn command(task: Task, root: &Path, limit: Option<(u64, bool)>) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match limit {
        // The signal that comes with a file that grows too large is ignored for it: the write fails.
        Some((_, true)) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(this);
            shell
        }
        Some((_, false)) | None => Command::new(this),
    };
    command.args(["child", task.word()]).arg(root).args(limit.map(|(limit, _)| limit.to_string()));
    command
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let (main, worker) = line.trim().split_once(' ').expect("the child names its threads");
        Self { child, out, main: main.to_owned(), worker: worker.to_owned() }
    }

    /// Lets it go, and waits for its end.
    fn finish(mut self) -> (ExitStatus, String) {
        // A kill at its first read may have come before: attaching makes the kernel start that call again.
        match self.child.stdin.take().unwrap().write_all(b"\n") {
            Ok(()) | Err(_) => {}
        }
        let ready = {
            let mut fds = [PollFd::new(self.out.get_ref(), PollFlags::IN)];
            poll(&mut fds, Some(&CHILD_MAX)).unwrap()
        };
        if ready == 0 {
            self.child.kill().unwrap();
        }
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        assert!(ready != 0, "the child did not end by itself: {said}");
        (self.child.wait().unwrap(), said.trim().to_owned())
    }
}

/// strace, attached.
struct Tracer {
    strace: Child,
    log: PathBuf,
}

impl Tracer {
    fn attach(log: PathBuf, pid: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("strace");
        command.args(arguments).args(["-p", pid, "-o"]).arg(&log).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut strace = command.spawn().expect("strace is missing; install the package strace (`make setup` does)");
        let mut line = String::new();
        let mut errors = BufReader::new(strace.stderr.take().unwrap());
        while errors.read_line(&mut line).unwrap() > 0 && !line.contains(" attached") {}
        assert!(line.contains(" attached"), "strace cannot attach (it needs root or CAP_SYS_PTRACE): {line}");
        strace.stderr = Some(errors.into_inner());
        Self { strace, log }
    }

    fn finish(mut self) -> String {
        assert!(self.strace.wait().unwrap().code().is_some());
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Whether strace can be run at all.
pub fn is_there() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn log_of(site: &Site) -> PathBuf {
    site.beside("strace.log")
}

/// Does a task, with a fault. With `paths`, calls that touch none of them do not count and do not fail (the
/// runtime's own writes to its event descriptor).
pub fn shoot(site: &Site, task: Task, shot: &Shot, paths: &[String]) -> Ended {
    let waiting = Waiting::start(command(task, site.root(), None));
    let thread = match shot.thread {
        Thread::Main => &waiting.main,
        Thread::Worker => &waiting.worker,
    };
    let (trace, inject) = (format!("trace={}", shot.call), shot.inject());
    let mut arguments = vec!["-e", &trace, "-e", &inject];
    arguments.extend(paths.iter().flat_map(|path| ["-P", path]));
    let tracer = Tracer::attach(log_of(site), thread, &arguments);
    let (status, said) = waiting.finish();
    let log = tracer.finish();
    let hit = status.signal() == Some(9) || log.contains("INJECTED");
    Ended { status, said, hit }
}

/// Does a task with files of at most `limit` bytes: a write beyond it is short, and the next one kills the
/// process or, if `survives`, fails.
pub fn with_small_files(site: &Site, task: Task, limit: u64, survives: bool) -> Ended {
    let (status, said) = Waiting::start(command(task, site.root(), Some((limit, survives)))).finish();
    let hit = status.signal().is_some() || said.contains("File too large");
    Ended { status, said, hit }
}

/// Does a task, and returns its calls in their order. With `other_boot` the child is told a boot id that is
/// not this machine's, as if the power had been cut since.
pub fn record(site: &Site, task: Task, other_boot: bool) -> Vec<Call> {
    let plain = command(task, site.root(), None);
    let waiting = Waiting::start(if other_boot { in_another_boot(site, &plain) } else { plain });
    let (main, worker) = (waiting.main.clone(), waiting.worker.clone());
    let tracer = Tracer::attach(log_of(site), &main, &["-f", "-xx", "-y", "-s", "1000000"]);
    let (status, said) = waiting.finish();
    let fine = ["succeeded", "recovered", "refused: finished"].iter().any(|word| said.starts_with(word));
    assert!(status.success() && (fine || said.contains("stays")), "{said}");
    calls(&tracer.finish(), &worker)
}

fn in_another_boot(site: &Site, plain: &Command) -> Command {
    let id = site.beside("boot_id");
    std::fs::File::create(&id).and_then(|mut file| file.write_all(b"another boot\n")).unwrap();
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(id).arg(plain.get_program()).args(plain.get_args());
    command
}

/// Every path that calls name, by itself or by a descriptor: those below `root`, and in /proc.
pub fn paths(calls: &[Call], root: &str) -> Vec<String> {
    let mut paths = std::collections::BTreeSet::new();
    for part in calls.iter().flat_map(|call| call.text.split(['"', '<', '>'])) {
        if (part.starts_with(root) || part.starts_with("/proc/s")) && !part.contains('\\') {
            paths.insert(part.to_owned());
        }
    }
    paths.into_iter().collect()
}

impl Call {
    /// Whether it touches one of `paths`.
    pub fn touches(&self, paths: &[String]) -> bool {
        let arguments = self.text.rsplit_once(" = ").map_or(self.text.as_str(), |(arguments, _)| arguments);
        arguments.split(['"', '<', '>']).any(|part| paths.iter().any(|path| path == part))
    }
}

/// The lines of a log, with those that another thread broke in two joined.
fn calls(log: &str, worker: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for line in log.lines() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let thread = if thread == worker { Thread::Worker } else { Thread::Main };
        let text = text.trim_start();
        if let Some(rest) = text.strip_prefix("<... ") {
            let open = calls.iter_mut().rev().find(|call| call.thread == thread);
            if let (Some(call), Some((_, end))) = (open, rest.split_once(" resumed>")) {
                call.text = format!("{}{}", call.text.trim_end_matches("<unfinished ...>").trim_end(), plain(end));
            }
        } else if let Some((name, rest)) = text.split_once('(').filter(|_| !text.starts_with(['+', '-'])) {
            let nth = 1 + calls.iter().filter(|call| call.thread == thread && call.name == name).count();
            calls.push(Call { thread, name: name.to_owned(), nth, text: plain(rest) });
        }
    }
    calls
}

/// `\x2f` in paths and names made readable; whatever is no plain character stays as it is.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escaped)) = rest.split_once("\\x") {
        plain.push_str(before);
        let byte = escaped.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || b"/._-:".contains(byte)) {
            Some(byte) => plain.push(char::from(byte)),
            None => plain.push_str(&format!("\\x{}", escaped.get(..2).unwrap_or_default())),
        }
        rest = escaped.get(2..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}
