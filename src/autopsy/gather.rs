//! Takes the evidence: all reads side by side, each on a blocking thread, what is not there in time is said to be missing.
//!
//! Invariant: bounded. The whole takes [`EVIDENCE_TIME`]; at most [`THREADS_MAX`] threads hang on files of a dead disk or of
//! a hung process, whatever the number of autopsies. May be dropped at any await: threads end by themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};

use super::evidence::{Disk, Evidence, Log, Output, Process};
use super::tree::Family;
use super::{Case, outputs, places, process, tree};
use crate::decision::time::Moment;
use crate::runtime::clock;

/// How long all reads together may take. A cycle waits for them.
pub const EVIDENCE_TIME: Duration = Duration::from_millis(800);

/// Of this, what a look at all processes may take, so that what it found can still be handed over.
const SEARCH_TIME: Duration = Duration::from_millis(700);

/// Most threads that read for autopsies at one time, hung ones included; the unit allows 64 tasks.
pub const THREADS_MAX: usize = 12;

/// Messages that wait to be put together; more than all reads send.
const QUEUE: usize = 64;

/// Where the kernel shows processes and cgroups.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) proc: PathBuf,
    pub(super) cgroup: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), cgroup: PathBuf::from("/sys/fs/cgroup") }
    }
}

/// A piece of evidence.
enum Piece {
    Family(Family),
    Process(Process),
    CommandLine(u32, String),
    Outputs(Vec<Output>),
    Readers(Vec<(String, Process)>),
    Frozen(Vec<String>),
    Log(Log),
    Disk(Disk),
    Failed(String),
    /// This read is over.
    Over(&'static str),
}

type Out = mpsc::Sender<Piece>;

/// Reads all that is to be seen of the loop.
pub(super) async fn gather(case: &Case, places: &Places, threads: &Arc<Semaphore>) -> Evidence {
    let mut evidence = Evidence {
        shell: case.process.map(|(pid, _)| pid),
        round_ms: u64::try_from(case.worst_round.as_millis()).unwrap_or(u64::MAX),
        facts: case.facts.clone(),
        ..Evidence::default()
    };
    let (out, mut pieces) = mpsc::channel(QUEUE);
    let search_end = clock::now() + SEARCH_TIME;
    let mut open: Vec<&'static str> = Vec::new();
    for (name, read) in reads(case, places, search_end) {
        let Ok(permit) = Arc::clone(threads).try_acquire_owned() else {
            evidence.unread.push(format!("{name}: not asked, because reads of earlier autopsies still hang"));
            continue;
        };
        open.push(name);
        let out = out.clone();
        tokio::task::spawn_blocking(move || {
            read(&out);
            send(&out, Piece::Over(name));
            drop(permit);
        });
    }
    drop(out);
    let all = async {
        while let Some(piece) = pieces.recv().await {
            take(&mut evidence, &mut open, piece);
        }
    };
    if tokio::time::timeout(EVIDENCE_TIME, all).await.is_err() {
        let late = |name: &&str| format!("{name}: no answer within {} ms", EVIDENCE_TIME.as_millis());
        evidence.unread.extend(open.iter().map(late));
    }
    evidence
}

type Read = Box<dyn FnOnce(&Out) + Send>;

fn reads(case: &Case, places: &Places, search_end: Moment) -> Vec<(&'static str, Read)> {
    let proc = || places.proc.clone();
    let mut reads: Vec<(&'static str, Read)> = Vec::new();
    let (at, shell, uids) = (proc(), case.process, case.uids.clone());
    reads.push(("the loop's processes", Box::new(move |out| read_family(&at, shell, &uids, search_end, out))));
    if let Some(shell) = case.process {
        let at = proc();
        reads.push(("the loop's outputs", Box::new(move |out| read_outputs(&at, shell, search_end, out))));
        let (at, cgroup) = (proc(), places.cgroup.clone());
        reads.push(("the loop's cgroups", Box::new(move |out| read_frozen(&at, &cgroup, shell, out))));
    }
    if let Some(path) = case.log.clone() {
        let failed = |what: String| move |error: std::io::Error| Piece::Failed(format!("{what}: {error}"));
        let (name, log) = (format!("the log {}", path.display()), path.clone());
        reads.push(("the log", Box::new(move |out| send(out, places::log(&log).map_or_else(failed(name), Piece::Log)))));
        let name = format!("the file system of {}", path.display());
        let read = move |out: &Out| send(out, places::disk(&path).map_or_else(failed(name), Piece::Disk));
        reads.push(("the log's file system", Box::new(read)));
    }
    reads
}

fn read_family(proc: &Path, shell: Option<(u32, u64)>, uids: &[String], end: Moment, out: &Out) {
    let family = tree::family(proc, shell, uids, end);
    let processes = family.processes.clone();
    send(out, Piece::Family(family));
    // Last, since these reads may wait for the process that hangs.
    for closer in processes.iter().filter_map(|process| process::look_closer(proc, process)) {
        send(out, Piece::Process(closer));
    }
    for pid in processes.iter().map(|process| process.pid) {
        if let Some(line) = process::command_line(proc, pid) {
            send(out, Piece::CommandLine(pid, line));
        }
    }
}

/// Whether the pid is the shell's still, and not that of a process which came later.
fn is_still(proc: &Path, (pid, start_ticks): (u32, u64)) -> bool {
    process::stat(proc, pid).is_some_and(|stat| stat.start_ticks == start_ticks)
}

fn read_frozen(proc: &Path, cgroup: &Path, shell: (u32, u64), out: &Out) {
    let found = places::frozen(proc, cgroup, shell.0);
    if is_still(proc, shell) {
        send(out, Piece::Frozen(found));
    }
}

fn read_outputs(proc: &Path, shell: (u32, u64), end: Moment, out: &Out) {
    let found = outputs::outputs(proc, shell.0);
    // Asked afterwards: what was read before is then the shell's.
    if !is_still(proc, shell) {
        return;
    }
    let pipes: Vec<String> = found.iter().filter(|output| output.pipe.is_some()).map(|output| output.target.clone()).collect();
    send(out, Piece::Outputs(found));
    if !pipes.is_empty() {
        let mut readers = outputs::readers(proc, &pipes, end);
        send(out, Piece::Readers(readers.clone()));
        for (_, reader) in &mut readers {
            if let Some(closer) = process::look_closer(proc, reader) {
                *reader = closer;
            }
        }
        send(out, Piece::Readers(readers));
    }
}

/// Nobody listens any more after the deadline; then there is nothing to do.
fn send(out: &Out, piece: Piece) {
    out.blocking_send(piece).ok();
}

fn take(evidence: &mut Evidence, open: &mut Vec<&'static str>, piece: Piece) {
    match piece {
        Piece::Family(family) => {
            evidence.processes = family.processes;
            evidence.processes_complete = family.complete;
        }
        Piece::Process(closer) => evidence.set_process(closer),
        Piece::CommandLine(pid, line) => evidence.set_command_line(pid, line),
        Piece::Outputs(outputs) => evidence.outputs = outputs,
        Piece::Readers(readers) => {
            for output in 0..evidence.outputs.len() {
                let Some(target) = evidence.outputs.get(output).map(|output| output.target.clone()) else { continue };
                let of_pipe = readers.iter().filter(|(pipe, _)| *pipe == target).map(|(_, reader)| reader.clone());
                evidence.set_readers(&target, &of_pipe.collect::<Vec<_>>());
            }
        }
        Piece::Frozen(frozen) => evidence.frozen = frozen,
        Piece::Log(log) => evidence.log = Some(log),
        Piece::Disk(disk) => evidence.disk = Some(disk),
        Piece::Failed(reason) => evidence.unread.push(crate::audit::text::sentence(&reason)),
        Piece::Over(name) => open.retain(|known| *known != name),
    }
}
