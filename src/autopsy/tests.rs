//! Autopsies of real processes, and of disks that hang.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::actuator::durable_fs::{Fault, FaultHook};

fn case(process: Option<(u32, u64)>) -> Case {
    Case {
        verdict: Verdict::LoopStalledFollower,
        process,
        log: None,
        uids: Vec::new(),
        worst_round: Duration::from_secs(16),
        facts: Value::Null,
        may_write: true,
    }
}

/// A process that ends with the test.
struct Patient(Child);

impl Patient {
    fn start(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn id(&self) -> (u32, u64) {
        let pid = self.0.id();
        (pid, process::stat(Path::new("/proc"), pid).unwrap().start_ticks)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Examines again until the kernel has got as far as `wanted`; the last answer.
async fn until(examiner: &Examiner, case: &Case, wanted: Cause) -> Autopsy {
    let end = clock::now() + Duration::from_secs(60);
    loop {
        let autopsy = examiner.examine(case.clone(), || {}).await;
        if autopsy.finding.cause == wanted || clock::now() > end {
            return autopsy;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_shell_that_is_stopped_is_found_to_be_so_and_told_with_the_command() {
    let state = tempfile::tempdir().unwrap();
    let patient = Patient::start("read line");
    patient.signal(Signal::STOP);
    let autopsy = until(&Examiner::new(state.path()), &case(Some(patient.id())), Cause::Stopped).await;
    assert_eq!(autopsy.finding.cause, Cause::Stopped, "{autopsy:?}");
    assert_eq!(autopsy.finding.command, format!("grep -E 'State|TracerPid' /proc/{}/status", patient.0.id()));
}

#[tokio::test]
async fn a_shell_that_writes_to_a_pipe_that_nobody_reads_is_found_blocked_with_the_pipes_fill_and_its_holder() {
    let state = tempfile::tempdir().unwrap();
    let patient = Patient::start("while :; do echo 'a line of the loop'; done");
    let autopsy = until(&Examiner::new(state.path()), &case(Some(patient.id())), Cause::LogPipeBlocked).await;
    assert_eq!(autopsy.finding.cause, Cause::LogPipeBlocked, "{autopsy:?}");
    let pipe = autopsy.evidence.outputs[0].pipe.clone().unwrap();
    assert!(pipe.bytes > 0 && pipe.bytes <= pipe.capacity, "{pipe:?}");
    assert!(autopsy.evidence.shell().unwrap().command_line.as_ref().unwrap().contains("a line of the loop"));
    assert_eq!(autopsy.number, store::numbers(state.path()).unwrap().last().copied());
}

#[tokio::test]
async fn a_child_that_outlives_a_round_is_named() {
    let state = tempfile::tempdir().unwrap();
    let patient = Patient::start("cat; :");
    let case = Case { worst_round: Duration::ZERO, ..case(Some(patient.id())) };
    let autopsy = until(&Examiner::new(state.path()), &case, Cause::ChildHung).await;
    assert_eq!(autopsy.finding.cause, Cause::ChildHung, "{autopsy:?}");
    assert!(autopsy.finding.sentence.contains("(cat)"), "{}", autopsy.finding.sentence);
}

#[tokio::test]
async fn a_shell_that_is_gone_is_dead_only_when_all_processes_were_looked_at() {
    let state = tempfile::tempdir().unwrap();
    let examiner = Examiner::new(state.path());
    let gone = examiner.examine(case(Some((u32::MAX - 1, 1))), || {}).await;
    assert_eq!(gone.finding.cause, Cause::ShellDead, "{gone:?}");
    let blind = gather::Places { proc: state.path().join("none"), cgroup: state.path().join("none") };
    let unseen = Examiner::with(Fs::default(), state.path(), blind).examine(case(Some((u32::MAX - 1, 1))), || {}).await;
    assert_eq!(unseen.finding.cause, Cause::Unknown, "{unseen:?}");
}

/// A FIFO in the place of `cmdline`, as of a process whose memory is locked, or of `syscall`, as of one that is held up in
/// `execve`: whoever opens it waits.
#[tokio::test]
async fn a_file_that_hangs_costs_its_own_evidence_and_no_more_than_the_time_for_it() {
    for file in ["cmdline", "syscall"] {
        let root = tempfile::tempdir().unwrap();
        let places = gather::Places { proc: root.path().join("proc"), cgroup: root.path().join("cgroup") };
        let dir = places.proc.join("4711");
        std::fs::create_dir_all(&dir).unwrap();
        let stat = "4711 (bash) D 1 1 1 0 -1 4194304 1 1 1 1 1 1 1 1 20 0 1 0 600 1 1\n";
        std::io::Write::write_all(&mut std::fs::File::create(dir.join("stat")).unwrap(), stat.as_bytes()).unwrap();
        let fifo = dir.join(file);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let examiner = Examiner::with(Fs::default(), root.path(), places);
        let autopsy = examiner.examine(Case { may_write: false, ..case(Some((4711, 600))) }, || {}).await;
        // Let the thread go on, and end.
        drop(std::fs::OpenOptions::new().write(true).open(&fifo).unwrap());
        assert_eq!(autopsy.finding.cause, Cause::UninterruptibleIo, "{file}: {autopsy:?}");
        assert_eq!(autopsy.evidence.unread, ["the loop's processes: no answer within 800 ms"]);
        assert_eq!(autopsy.number, None);
    }
}

#[tokio::test]
async fn reads_that_hang_use_up_their_threads_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    let examiner = Examiner::new(root.path());
    let _hung = Arc::clone(&examiner.threads).acquire_many_owned(u32::try_from(gather::THREADS_MAX).unwrap()).await.unwrap();
    let autopsy = examiner.examine(case(Some((1, 1))), || {}).await;
    assert!(autopsy.evidence.unread.iter().all(|line| line.contains("earlier autopsies still hang")), "{autopsy:?}");
    assert_eq!((autopsy.evidence.unread.len(), autopsy.number), (3, None));
}

struct FailingWrites(AtomicBool);

impl FaultHook for FailingWrites {
    fn before(&self, call: &'static str, _: &Path) -> Result<(), Fault> {
        if call == "write" && self.0.load(Ordering::Relaxed) {
            return Err(Fault { errno: rustix::io::Errno::NOSPC, half_done: true });
        }
        Ok(())
    }
}

/// A disk that takes its time, as one under load does.
struct SlowWrites;

impl FaultHook for SlowWrites {
    fn before(&self, call: &'static str, _: &Path) -> Result<(), Fault> {
        if call == "sync" {
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    }
}

/// One for an episode without a cycle, and one for the cycle that follows at once.
#[tokio::test]
async fn autopsies_that_are_written_at_one_time_have_a_file_and_a_number_each() {
    let state = tempfile::tempdir().unwrap();
    let examiner = Examiner::with(Fs::with_hook(Arc::new(SlowWrites)), state.path(), gather::Places::default());
    let (one, two) = tokio::join!(examiner.keep(written(1)), examiner.keep(written(2)));
    assert_eq!((one, two), (Some(1), Some(2)));
    for number in [1, 2] {
        assert_eq!(store::read(state.path(), number).unwrap().wall_ms, u64::from(number));
    }
}

fn written(number: u64) -> Autopsy {
    Autopsy {
        number: None,
        wall_ms: number,
        verdict: "loop_stalled_follower".to_owned(),
        finding: cause(&Evidence::default()),
        took_ms: 1,
        evidence: Evidence::default(),
    }
}

#[test]
fn the_newest_are_kept_and_can_be_read_back() {
    let state = tempfile::tempdir().unwrap();
    for number in 1..=20 {
        assert_eq!(u64::from(store::write(&Fs::default(), state.path(), &mut written(number)).unwrap()), number);
    }
    assert_eq!(store::numbers(state.path()).unwrap(), (5..=20).collect::<Vec<_>>());
    let kept = store::read(state.path(), 20).unwrap();
    assert_eq!(kept, Autopsy { number: Some(20), ..written(20) });
    assert_eq!(std::fs::read_dir(store::directory(state.path())).unwrap().count(), store::KEPT);
}

#[test]
fn what_is_nothing_of_ours_in_the_directory_does_not_let_it_grow() {
    let state = tempfile::tempdir().unwrap();
    let dir = store::directory(state.path());
    std::fs::create_dir_all(dir.join("0001.json")).unwrap();
    for odd in ["+2.json", "3.json", "99999999999999999999.json", "-1.json", "x.json", ".json", "0004.json.new"] {
        std::fs::File::create(dir.join(odd)).unwrap();
    }
    mknodat(CWD, dir.join("0002.json"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(store::read(state.path(), 2).is_err(), "a pipe keeps nobody waiting");
    for number in 3..=40 {
        assert_eq!(store::write(&Fs::default(), state.path(), &mut written(number)).unwrap(), u32::try_from(number).unwrap());
        let numbers = store::numbers(state.path()).unwrap();
        assert!(numbers.len() <= store::KEPT + 1, "{numbers:?}");
    }
    assert_eq!(store::read(state.path(), 40).unwrap().wall_ms, written(40).wall_ms);
}

#[test]
fn the_last_number_is_used_again_when_there_is_no_further_one() {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir(store::directory(state.path())).unwrap();
    std::fs::File::create(store::path(state.path(), u32::MAX)).unwrap();
    for _ in 0..20 {
        assert_eq!(store::write(&Fs::default(), state.path(), &mut written(1)).unwrap(), u32::MAX);
    }
    assert_eq!(store::numbers(state.path()).unwrap(), [u32::MAX]);
}

#[test]
fn a_link_in_the_directorys_place_is_not_followed() {
    let (state, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(other.path(), store::directory(state.path())).unwrap();
    store::write(&Fs::default(), state.path(), &mut written(1)).unwrap_err();
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_leaves_no_half_a_file_and_the_next_one_is_written() {
    let state = tempfile::tempdir().unwrap();
    let hook = Arc::new(FailingWrites(AtomicBool::new(true)));
    let fs = Fs::with_hook(Arc::clone(&hook) as Arc<dyn FaultHook>);
    store::write(&fs, state.path(), &mut written(1)).unwrap_err();
    assert_eq!(std::fs::read_dir(store::directory(state.path())).unwrap().count(), 0);
    hook.0.store(false, Ordering::Relaxed);
    assert_eq!(store::write(&fs, state.path(), &mut written(1)).unwrap(), 1);
}

/// Every text as long as it may be, of nothing but what JSON writes as two characters: a script is full of quotes.
fn largest() -> Evidence {
    let text = || "\"".repeat(300);
    let one = evidence::Process {
        pid: u32::MAX,
        parent: u32::MAX,
        role: evidence::Role::Reader,
        start_ticks: u64::MAX,
        age_ms: u64::MAX,
        state: 'D',
        name: "\"".repeat(15),
        command_line: Some(text()),
        // The longest name of a kernel function.
        wchan: Some("x".repeat(512)),
        syscall: Some(evidence::Syscall { name: "clock_nanosleep".to_owned(), fd: Some(u32::MAX), target: Some(text()) }),
    };
    let pipe = evidence::Pipe { bytes: u64::MAX, capacity: u64::MAX, readers: vec![one.clone(); evidence::READERS_MAX] };
    let output = evidence::Output { fd: 2, target: text(), pipe: Some(pipe) };
    Evidence {
        shell: Some(u32::MAX),
        processes: vec![one; evidence::PROCESSES_MAX],
        outputs: vec![output.clone(), output],
        frozen: vec![text(); evidence::FROZEN_MAX],
        log: Some(evidence::Log { path: text(), bytes: u64::MAX, tail: vec![text(); evidence::LINES_MAX] }),
        disk: Some(evidence::Disk {
            path: text(),
            free_bytes: u64::MAX,
            available_bytes: u64::MAX,
            total_bytes: u64::MAX,
            free_inodes: u64::MAX,
            total_inodes: u64::MAX,
        }),
        unread: vec![text(); 8],
        // As much as the audit lets them have.
        facts: Value::from(vec!["\"".repeat(150); 100]),
        ..Evidence::default()
    }
}

#[test]
fn the_largest_evidence_fits_into_a_journal_entry_and_a_file() {
    let state = tempfile::tempdir().unwrap();
    let mut autopsy = Autopsy { evidence: largest(), ..written(1) };
    let verdict = Verdict::LoopStalledFollower;
    let event = crate::audit::AuditEvent::HangAutopsied { verdict, autopsy: Box::new(autopsy.clone()) };
    let entry = crate::audit::journald::encode(event.kind(), event.priority(), &event.entry());
    assert!(entry.len() < 150 * 1024, "{} bytes are near to what a datagram may have", entry.len());
    assert!(!String::from_utf8(entry).unwrap().contains("omitted_bytes"));
    store::write(&Fs::default(), state.path(), &mut autopsy).unwrap();
    assert_eq!(store::read(state.path(), 1).unwrap().evidence, autopsy.evidence);
}

/// The shell has ended, and its pid is another's by now: what that one writes to is no evidence, and none of our business.
#[tokio::test]
async fn what_a_later_process_of_the_same_pid_does_is_not_told_of_the_shell() {
    let state = tempfile::tempdir().unwrap();
    let patient = Patient::start("read line");
    let (pid, start) = patient.id();
    let examiner = Examiner::new(state.path());
    let own = examiner.examine(case(Some((pid, start))), || {}).await;
    assert_eq!(own.evidence.outputs.len(), 2, "{own:?}");
    let others = examiner.examine(case(Some((pid, start + 1))), || {}).await;
    assert_eq!(others.finding.cause, Cause::ShellDead, "{others:?}");
    assert_eq!((others.evidence.outputs, others.evidence.frozen), (Vec::new(), Vec::new()));
}
