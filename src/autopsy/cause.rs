//! From what was seen to why the loop hangs, in plain words, with the command that would have shown it by hand.
//!
//! One list, read from the top, first match wins: the order goes from what holds everything (a frozen cgroup) to what
//! merely waits, and then to a loop that does not hang at all. Every evidence has an answer; the last one says what was seen. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::{Disk, Evidence, Output, Process, Role};
use super::goes_on::goes_on;
use crate::audit::text::{sentence, span};

/// Why a loop hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The shell is no more; the pod may still count as running.
    ShellDead,
    /// Its cgroup is frozen.
    Frozen,
    /// The shell is stopped by a signal.
    Stopped,
    /// It, or what it waits for, is in uninterruptible sleep.
    UninterruptibleIo,
    /// The file system of the log is full.
    DiskFull,
    /// It writes to a pipe that nobody drains.
    LogPipeBlocked,
    /// It waits for a child that hangs.
    ChildHung,
    /// It works, and nobody drains its pipe: it will block when that is full.
    LogNotDrained,
    /// It works, and goes by an answer of etcd that is out of date.
    StaleAnswer,
    /// It works: its rounds end. What is wrong is what it says or does in them.
    Works,
    /// None of these.
    Unknown,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 11] = [
        Self::ShellDead,
        Self::Frozen,
        Self::Stopped,
        Self::UninterruptibleIo,
        Self::DiskFull,
        Self::LogPipeBlocked,
        Self::ChildHung,
        Self::LogNotDrained,
        Self::StaleAnswer,
        Self::Works,
        Self::Unknown,
    ];

    /// Whether the loop hangs, as far as was seen.
    #[must_use]
    pub const fn is_a_hang(self) -> bool {
        !matches!(self, Self::StaleAnswer | Self::Works)
    }

    /// The value of `FIP_CAUSE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShellDead => "shell_dead",
            Self::Frozen => "frozen",
            Self::Stopped => "stopped",
            Self::UninterruptibleIo => "uninterruptible_io",
            Self::DiskFull => "disk_full",
            Self::LogPipeBlocked => "log_pipe_blocked",
            Self::ChildHung => "child_hung",
            Self::LogNotDrained => "log_not_drained",
            Self::StaleAnswer => "stale_answer",
            Self::Works => "works",
            Self::Unknown => "unknown",
        }
    }
}

/// A cause with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub cause: Cause,
    /// One sentence for a person.
    pub sentence: String,
    /// What would have shown it by hand.
    pub command: String,
}

impl Finding {
    pub(super) fn new(cause: Cause, said: &str, command: &str) -> Self {
        Self { cause, sentence: sentence(said), command: sentence(command) }
    }
}

/// Names the cause.
#[must_use]
pub fn cause(evidence: &Evidence) -> Finding {
    let Some(shell) = evidence.shell().filter(|shell| !shell.is_dead()) else {
        return if evidence.processes_complete { shell_dead(evidence) } else { unknown(evidence) };
    };
    let working = goes_on(evidence);
    frozen(evidence, shell)
        .or_else(|| stopped(shell))
        // A look at a loop that works may meet it in a disk's read, which ends.
        .or_else(|| uninterruptible(evidence).filter(|_| working.is_none()))
        .or_else(|| log_pipe_blocked(evidence))
        .or_else(|| child_hung(evidence, shell))
        .or_else(|| working.clone())
        .or_else(|| disk_full(evidence.disk.as_ref(), "the loop itself goes on, and its log does not"))
        .or_else(|| log_not_drained(evidence))
        .unwrap_or_else(|| unknown(evidence))
}

fn shell_dead(evidence: &Evidence) -> Finding {
    let parent = evidence.with_role(Role::Parent).next().map(|parent| {
        let how = if parent.is_stopped() { ", which is stopped" } else { "" };
        format!(" by its parent {}{how}", parent.title())
    });
    let others: Vec<String> = evidence
        .processes
        .iter()
        .filter(|process| matches!(process.role, Role::Child | Role::Pod) && !process.is_dead())
        .map(Process::title)
        .collect();
    let pod = match others.as_slice() {
        [] => "no other process is left in its pod".to_owned(),
        some => format!("in its pod live on {}", some.join(", ")),
    };
    match (evidence.shell(), evidence.shell) {
        (Some(zombie), _) => Finding::new(
            Cause::ShellDead,
            &format!("the loop's shell {} is dead and was not reaped{}; {pod}", zombie.pid, parent.unwrap_or_default()),
            &format!("ps -o pid,ppid,stat,etime,args -p {},{}", zombie.pid, zombie.parent),
        ),
        (None, Some(pid)) => Finding::new(
            Cause::ShellDead,
            &format!("the loop's shell, process {pid}, is gone and none has taken its place; {pod}"),
            &format!("ls -d /proc/{pid}; crictl ps -a --name wcp-fip"),
        ),
        (None, None) => Finding::new(
            Cause::ShellDead,
            &format!("no shell of the loop runs; {pod}"),
            "crictl ps -a --name wcp-fip; journalctl -u kubelet -n 50",
        ),
    }
}

fn frozen(evidence: &Evidence, shell: &Process) -> Option<Finding> {
    if let Some(file) = evidence.frozen.first() {
        let said = format!("the cgroup of the loop's shell {} is frozen", shell.title());
        return Some(Finding::new(Cause::Frozen, &said, &format!("cat {file}")));
    }
    let said = format!("the loop's shell {} is held by the cgroup freezer", shell.title());
    shell.is_in_freezer().then(|| Finding::new(Cause::Frozen, &said, &format!("cat /proc/{0}/wchan /proc/{0}/cgroup", shell.pid)))
}

fn stopped(shell: &Process) -> Option<Finding> {
    let by = if shell.state == 't' { "a debugger" } else { "a signal (SIGSTOP or its like)" };
    let said = format!("the loop's shell {} is stopped by {by}", shell.title());
    let command = format!("grep -E 'State|TracerPid' /proc/{}/status", shell.pid);
    shell.is_stopped().then(|| Finding::new(Cause::Stopped, &said, &command))
}

/// The shell, what it started, or who reads its pipe.
fn uninterruptible(evidence: &Evidence) -> Option<Finding> {
    let of_loop = evidence.processes.iter().filter(|process| matches!(process.role, Role::Shell | Role::Child));
    let readers = evidence.outputs.iter().filter_map(|output| output.pipe.as_ref()).flat_map(|pipe| &pipe.readers);
    let mut held = of_loop.chain(readers).filter(|process| process.is_uninterruptible() && !process.is_in_freezer());
    // A shell that makes a child by vfork sleeps so too until the child has started.
    let process = held.find(|process| process.role != Role::Shell || !waits_for_vfork(process))?;
    let who = match process.role {
        Role::Shell => "the loop's shell",
        Role::Child => "the loop's child",
        Role::Reader => "the process that drains the loop's log pipe,",
        Role::Pod | Role::Parent => "process",
    };
    let (at, list) = match &process.syscall {
        Some(syscall) => {
            let file = syscall.target.as_ref().map(|target| format!(" on {target}")).unwrap_or_default();
            (format!(", in {}{file}", syscall.name), syscall.fd.map(|fd| format!("; ls -l /proc/{}/fd/{fd}", process.pid)))
        }
        None => (String::new(), None),
    };
    let said = format!(
        "{who} {} is in uninterruptible sleep in {}{at}: a disk hangs or a file system is frozen",
        process.title(),
        process.wchan.as_deref().unwrap_or("the kernel")
    );
    let command = format!("cat /proc/{0}/wchan /proc/{0}/stack{1}", process.pid, list.unwrap_or_default());
    Some(Finding::new(Cause::UninterruptibleIo, &said, &command))
}

fn waits_for_vfork(process: &Process) -> bool {
    process.syscall.as_ref().is_some_and(|syscall| matches!(syscall.name.as_str(), "vfork" | "clone" | "clone3"))
}

/// The shell or a child sleeps in a write to one of the shell's own outputs.
fn log_pipe_blocked(evidence: &Evidence) -> Option<Finding> {
    let of_loop = evidence.processes.iter().filter(|process| matches!(process.role, Role::Shell | Role::Child));
    let (process, output) = of_loop.filter_map(|process| Some((process, written_pipe(evidence, process)?))).next()?;
    let full = output.pipe.as_ref().map(|pipe| format!(" ({} of {} bytes)", pipe.bytes, pipe.capacity)).unwrap_or_default();
    let said = format!("process {} of the loop is blocked writing to its log pipe, which is full{full}", process.title());
    if let Some(finding) = disk_full(evidence.disk.as_ref(), &said) {
        return Some(finding);
    }
    let readers = output.pipe.as_ref().map(|pipe| pipe.readers.as_slice()).unwrap_or_default();
    let names: Vec<String> = readers
        .iter()
        .map(|reader| if reader.is_stopped() { format!("{}, stopped", reader.title()) } else { reader.title() })
        .collect();
    let who = match names.as_slice() {
        [] => "no reader was found".to_owned(),
        some => format!("those who hold its other end do not read: {}", some.join("; ")),
    };
    let command = format!("cat /proc/{0}/wchan; ls -l /proc/{0}/fd/{1}", process.pid, output.fd);
    Some(Finding::new(Cause::LogPipeBlocked, &format!("{said}; {who}"), &command))
}

/// The shell's output pipe that a process is blocked in writing to. One that was found empty a moment before was being drained.
fn written_pipe<'a>(evidence: &'a Evidence, process: &Process) -> Option<&'a Output> {
    let sleeps_in_pipe = process.wchan.as_deref().is_none_or(|wchan| wchan.contains("pipe"));
    let holds_some = |output: &Output| output.pipe.as_ref().is_none_or(|pipe| pipe.bytes > 0);
    let pipes = || evidence.outputs.iter().filter(|output| output.target.starts_with("pipe:") && holds_some(output));
    match &process.syscall {
        Some(syscall) => {
            let writes = sleeps_in_pipe && matches!(syscall.name.as_str(), "write" | "writev");
            pipes().find(|output| writes && syscall.target.as_deref() == Some(output.target.as_str()))
        }
        // Not to be seen without CAP_SYS_PTRACE; kernels from 5.5 name the direction in the function.
        None => {
            let writes =
                process.role == Role::Shell && process.wchan.as_deref().is_some_and(|wchan| wchan.ends_with("pipe_write"));
            pipes().rfind(|_| writes)
        }
    }
}

/// The youngest of the chain that the shell waits for, if it is older than a round may be, or stopped.
fn child_hung(evidence: &Evidence, shell: &Process) -> Option<Finding> {
    let children = || evidence.with_role(Role::Child).filter(|child| !child.is_dead());
    let is_leaf = |process: &&Process| !children().any(|child| child.parent == process.pid);
    let hangs = |process: &&Process| process.is_stopped() || process.is_in_freezer() || process.age_ms > evidence.round_ms;
    // Of a pipeline the first to be stopped, else the oldest: the others wait for it.
    let child = children().filter(is_leaf).filter(hangs).max_by_key(|child| (child.is_stopped(), child.age_ms))?;
    let place = match (&child.syscall, &child.wchan) {
        _ if child.is_stopped() => "stopped by a signal".to_owned(),
        (Some(syscall), wchan) => {
            let file = syscall.target.as_ref().map(|target| format!(" on {target}")).unwrap_or_default();
            let function = wchan.as_ref().map(|wchan| format!(" ({wchan})")).unwrap_or_default();
            format!("in {}{file}{function}", syscall.name)
        }
        (None, Some(wchan)) => format!("in {wchan}"),
        (None, None) => format!("in state {}", child.state),
    };
    let age = span(Duration::from_millis(child.age_ms));
    let said = format!("the loop's shell {} waits for its child {}, which has run for {age}, {place}", shell.pid, child.title());
    let command = format!("ps -o pid,ppid,etime,stat,wchan:24,args -p {},{}; cat /proc/{1}/syscall", shell.pid, child.pid);
    Some(Finding::new(Cause::ChildHung, &said, &command))
}

fn disk_full(disk: Option<&Disk>, then: &str) -> Option<Finding> {
    let disk = disk.filter(|disk| disk.is_full())?;
    let what = if disk.has_no_bytes() { format!("{} bytes available", disk.available_bytes) } else { "no inode free".to_owned() };
    let said = format!("the file system of the log, at {}, is full ({what}): {then}", disk.path);
    Some(Finding::new(Cause::DiskFull, &said, &format!("df {0}; df -i {0}", disk.path)))
}

fn log_not_drained(evidence: &Evidence) -> Option<Finding> {
    let with_pipe = evidence.outputs.iter().filter_map(|output| Some((output, output.pipe.as_ref()?)));
    let (output, pipe) = with_pipe.filter(|(_, pipe)| pipe.bytes > 0).max_by_key(|(_, pipe)| pipe.bytes)?;
    let pid = evidence.shell?;
    let readers: Vec<String> = pipe.readers.iter().map(Process::title).collect();
    let who = if readers.is_empty() { String::new() } else { format!("; its other end is held by {}", readers.join(", ")) };
    let said = format!(
        "the loop works, but nobody drains its log pipe: {} of {} bytes wait, and when it is full the loop blocks{who}",
        pipe.bytes, pipe.capacity
    );
    Some(Finding::new(Cause::LogNotDrained, &said, &format!("ls -l /proc/{pid}/fd/{}", output.fd)))
}

fn unknown(evidence: &Evidence) -> Finding {
    let seen: Vec<String> = evidence
        .processes
        .iter()
        .filter(|process| matches!(process.role, Role::Shell | Role::Child))
        .take(4)
        .map(|process| {
            let place = process.wchan.as_deref().map(|wchan| format!(" in {wchan}")).unwrap_or_default();
            format!("{} is in state {}{place}", process.title(), process.state)
        })
        .collect();
    let missing = evidence.unread.first().map(|unread| format!("; {unread}")).unwrap_or_default();
    let seen = if seen.is_empty() { "no process of the loop was seen".to_owned() } else { seen.join(", ") };
    let command = match evidence.shell {
        Some(pid) => format!("cat /proc/{pid}/stat /proc/{pid}/wchan /proc/{pid}/syscall"),
        None => "crictl ps -a --name wcp-fip".to_owned(),
    };
    Finding::new(Cause::Unknown, &format!("no cause was recognised: {seen}{missing}"), &command)
}

#[cfg(test)]
#[path = "cause_tests.rs"]
mod tests;
