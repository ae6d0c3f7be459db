//! What an autopsy saw: plain values, bounded, as they go into the journal and into the file.
//!
//! Invariant: whatever was read is cut to the bounds here, so that the whole fits into one journal entry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::text::sentence;

/// Most processes that are kept: the loop has a handful at a time. With the other bounds the evidence stays below what a journal
/// entry takes, also where every character is one that JSON writes as two.
pub const PROCESSES_MAX: usize = 16;

/// Most holders of the log pipe's read end that are kept.
pub const READERS_MAX: usize = 4;

/// Most lines that are kept of the log's end.
pub const LINES_MAX: usize = 10;

/// Most frozen cgroups that are kept: one is enough to hold the loop.
pub const FROZEN_MAX: usize = 8;

/// What was seen of the loop before anything was killed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The loop's shell, as it was last known; none if it was never seen.
    pub shell: Option<u32>,
    /// The shell, what it started, what else is in its pod, and its parent; in the order of their start.
    pub processes: Vec<Process>,
    /// Whether the processes were looked for to the end: only then is one that is missing here gone.
    pub processes_complete: bool,
    /// Where the shell's standard output and standard error lead.
    pub outputs: Vec<Output>,
    /// The shell's cgroups that are frozen, and those above it.
    pub frozen: Vec<String>,
    /// The loop's log.
    pub log: Option<Log>,
    /// The file system of the log.
    pub disk: Option<Disk>,
    /// The longest that a healthy round may take.
    pub round_ms: u64,
    /// What could not be read in time, or at all; a read that hangs is evidence itself.
    pub unread: Vec<String>,
    /// What the senses had read last, etcd and the kubelet among them.
    pub facts: Value,
}

/// What a process is to the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The loop's shell.
    Shell,
    /// Started by the shell, or by what it started.
    Child,
    /// In the same pod, and not below the shell: the sandbox, an `exec`, an orphan.
    Pod,
    /// The shell's parent: the container runtime's shim.
    Parent,
    /// It can read the pipe that the shell writes to.
    Reader,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in the daemon's namespace.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// What it is to the loop.
    pub role: Role,
    /// Its start in clock ticks since boot.
    pub start_ticks: u64,
    /// Time since then; a suspended machine's sleep counts.
    pub age_ms: u64,
    /// The kernel's letter for its state.
    pub state: char,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its command line, cut.
    pub command_line: Option<String>,
    /// The kernel function that it sleeps in.
    pub wchan: Option<String>,
    /// The system call that it is in.
    pub syscall: Option<Syscall>,
}

/// A system call in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Its name, or its number.
    pub name: String,
    /// The descriptor that it is about.
    pub fd: Option<u32>,
    /// Where that leads.
    pub target: Option<String>,
}

/// One of the shell's two outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// 1 or 2.
    pub fd: u32,
    /// Where it leads: a path, `pipe:[<inode>]` or `socket:[<inode>]`.
    pub target: String,
    /// What was seen of the pipe, if it is one.
    pub pipe: Option<Pipe>,
}

/// The pipe that the container runtime drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Bytes in it that nobody has read: the least of several looks.
    pub bytes: u64,
    /// How many it can hold.
    pub capacity: u64,
    /// Who could read them; none if the search found nobody or has not come to its end.
    pub readers: Vec<Process>,
}

/// The loop's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Log {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its last lines, each cut.
    pub tail: Vec<String>,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// A directory on it.
    pub path: String,
    /// Free, in bytes, with what only root or only the file system itself may take.
    pub free_bytes: u64,
    /// Free for everybody, in bytes.
    pub available_bytes: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// All inodes; 0 where the file system has no fixed number.
    pub total_inodes: u64,
}

/// The least that is given out.
const PAGE_BYTES: u64 = 4096;

/// ext4 keeps 2 % of all blocks, 4096 blocks at most, for its own use (`s_resv_clusters` in its super.c), and counts them as free:
/// 16 MiB at the block size of any disk of that size, and a page of slack.
const OWN_BYTES_MAX: u64 = 4097 * PAGE_BYTES;

impl Disk {
    /// Whether a log line no longer fits.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.has_no_bytes() || (self.total_inodes > 0 && self.free_inodes == 0)
    }

    /// Whether the room is what is missing.
    #[must_use]
    pub const fn has_no_bytes(&self) -> bool {
        let own = self.total_bytes / 40;
        let own = if own > OWN_BYTES_MAX { OWN_BYTES_MAX } else { own };
        // For root, who writes the log, only the file system's own share may be left.
        self.free_bytes < PAGE_BYTES || (self.available_bytes < PAGE_BYTES && self.free_bytes <= own)
    }
}

impl Process {
    /// Stopped by a signal, or by a debugger.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Dead, and not reaped yet.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// In a sleep that no signal ends. A process that the freezer holds shows the same letter.
    #[must_use]
    pub const fn is_uninterruptible(&self) -> bool {
        matches!(self.state, 'D')
    }

    /// Held by the cgroup freezer, by the function that it sleeps in: version 1, version 2.
    #[must_use]
    pub fn is_in_freezer(&self) -> bool {
        matches!(self.wchan.as_deref(), Some("__refrigerator" | "do_freezer_trap" | "cgroup_enter_frozen"))
    }

    /// Its number and name, for a sentence.
    #[must_use]
    pub fn title(&self) -> String {
        sentence(&format!("{} ({})", self.pid, self.name))
    }
}

impl Evidence {
    /// The loop's shell, if it was seen.
    #[must_use]
    pub fn shell(&self) -> Option<&Process> {
        self.processes.iter().find(|process| process.role == Role::Shell)
    }

    /// The processes with this role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.role == role)
    }

    /// Puts in what a closer look showed of a process.
    pub(super) fn set_process(&mut self, closer: Process) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.pid == closer.pid) {
            *process = closer;
        }
    }

    /// Puts in what was read later than its process.
    pub(super) fn set_command_line(&mut self, pid: u32, command_line: String) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.pid == pid) {
            process.command_line = Some(command_line);
        }
    }

    /// Puts in who may read a pipe.
    pub(super) fn set_readers(&mut self, target: &str, readers: &[Process]) {
        for output in self.outputs.iter_mut().filter(|output| output.target == target) {
            if let Some(pipe) = &mut output.pipe {
                pipe.readers = readers.to_vec();
            }
        }
    }
}
