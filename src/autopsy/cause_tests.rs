//! One row a cause, and that every evidence has one.

use proptest::prelude::*;

use super::super::evidence::{Log, Pipe, Syscall};
use super::*;
use crate::decision::observation::{Beat, EtcdStatus, EtcdView, HeartbeatView, LoopFip, LoopVerdict, Observation, Reading};
use crate::decision::time::Moment;

const LOG_PIPE: &str = "pipe:[4242]";

fn process(pid: u32, role: Role, name: &str, state: char) -> Process {
    Process {
        pid,
        parent: pid - 1,
        role,
        start_ticks: 1000,
        age_ms: 3_000,
        state,
        name: name.to_owned(),
        command_line: None,
        wchan: Some("do_wait".to_owned()),
        syscall: None,
    }
}

fn call(name: &str, fd: Option<u32>, target: Option<&str>) -> Option<Syscall> {
    Some(Syscall { name: name.to_owned(), fd, target: target.map(str::to_owned) })
}

/// A loop that sleeps between two rounds, with a log that is drained.
fn healthy() -> Evidence {
    let pipe = Pipe { bytes: 0, capacity: 65_536, readers: vec![process(812, Role::Reader, "containerd-shim", 'S')] };
    let output = |fd| Output { fd, target: LOG_PIPE.to_owned(), pipe: Some(pipe.clone()) };
    Evidence {
        shell: Some(4711),
        processes: vec![process(4711, Role::Shell, "bash", 'S'), process(4712, Role::Child, "sleep", 'S')],
        processes_complete: true,
        outputs: vec![output(1), output(2)],
        log: Some(Log { path: "/var/log/pods/x/0.log".to_owned(), ..Log::default() }),
        disk: Some(disk(1 << 30)),
        round_ms: 16_000,
        ..Evidence::default()
    }
}

fn disk(free_bytes: u64) -> Disk {
    Disk {
        path: "/var/log/pods/x".to_owned(),
        free_bytes,
        available_bytes: free_bytes,
        total_bytes: 1 << 31,
        free_inodes: 99,
        total_inodes: 100,
    }
}

/// What a change makes of a healthy loop: its cause, sentence and command.
fn found(change: impl FnOnce(&mut Evidence)) -> (Cause, String, String) {
    let mut evidence = healthy();
    change(&mut evidence);
    let Finding { cause, sentence, command } = cause(&evidence);
    (cause, sentence, command)
}

fn row(cause: Cause, sentence: &str, command: &str) -> (Cause, String, String) {
    (cause, sentence.to_owned(), command.to_owned())
}

fn blocked(evidence: &mut Evidence, process: usize) {
    evidence.processes[process].wchan = Some("anon_pipe_write".to_owned());
    evidence.processes[process].syscall = call("write", Some(2), Some(LOG_PIPE));
    for output in &mut evidence.outputs {
        output.pipe.as_mut().unwrap().bytes = 65_408;
    }
}

#[test]
fn a_full_log_pipe_names_who_does_not_drain_it() {
    assert_eq!(
        found(|seen| blocked(seen, 0)),
        row(
            Cause::LogPipeBlocked,
            "process 4711 (bash) of the loop is blocked writing to its log pipe, which is full (65408 of 65536 bytes); those who \
             hold its other end do not read: 812 (containerd-shim)",
            "cat /proc/4711/wchan; ls -l /proc/4711/fd/1",
        )
    );
}

#[test]
fn a_subshell_in_the_same_pipe_counts_and_another_pipe_does_not() {
    assert_eq!(found(|seen| blocked(seen, 1)).0, Cause::LogPipeBlocked);
    let other = found(|seen| {
        seen.processes[1].wchan = Some("anon_pipe_write".to_owned());
        seen.processes[1].syscall = call("write", Some(1), Some("pipe:[1]"));
    });
    assert_eq!(other.0, Cause::Unknown);
}

#[test]
fn a_write_to_a_pipe_that_was_found_empty_is_no_blocked_loop() {
    let drained = found(|seen| {
        blocked(seen, 0);
        for output in &mut seen.outputs {
            output.pipe.as_mut().unwrap().bytes = 0;
        }
    });
    assert_eq!(drained.0, Cause::Unknown, "{}", drained.1);
}

#[test]
fn without_the_right_to_see_system_calls_the_kernels_function_is_enough() {
    // Nor to open the pipe, which is the same right: how full it is remains unknown.
    let old = |wchan: &str| {
        let unseen = |seen: &mut Evidence| {
            seen.processes[0].wchan = Some(wchan.to_owned());
            seen.outputs.iter_mut().for_each(|output| output.pipe = None);
        };
        found(unseen).0
    };
    assert_eq!((old("pipe_write"), old("pipe_read")), (Cause::LogPipeBlocked, Cause::Unknown));
}

#[test]
fn a_hung_child_is_named_with_its_age_and_the_place_where_it_waits() {
    let curl = |evidence: &mut Evidence| {
        let socket = call("recvfrom", Some(5), Some("socket:[77]"));
        evidence.processes[1] = Process { syscall: socket, age_ms: 95_000, ..process(4712, Role::Child, "curl", 'S') };
    };
    assert_eq!(
        found(curl),
        row(
            Cause::ChildHung,
            "the loop's shell 4711 waits for its child 4712 (curl), which has run for 1m 35s, in recvfrom on socket:[77] (do_wait)",
            "ps -o pid,ppid,etime,stat,wchan:24,args -p 4711,4712; cat /proc/4712/syscall",
        )
    );
    let (cause, sentence, _) = found(|seen| seen.processes[1] = process(4712, Role::Child, "curl", 'T'));
    assert_eq!(cause, Cause::ChildHung);
    assert!(sentence.ends_with("which has run for 3.0s, stopped by a signal"), "{sentence}");
}

#[test]
fn of_a_chain_of_children_the_last_one_is_named() {
    let (cause, sentence, _) = found(|seen| {
        seen.processes[1] = Process { age_ms: 95_000, ..process(4712, Role::Child, "bash", 'S') };
        seen.processes.push(Process { age_ms: 94_000, ..process(4713, Role::Child, "jq", 'S') });
    });
    assert_eq!(cause, Cause::ChildHung);
    assert!(sentence.contains("child 4713 (jq)"), "{sentence}");
}

#[test]
fn a_stopped_shell_is_told_from_one_under_a_debugger() {
    let stopped = found(|seen| seen.processes[0].state = 'T');
    let command = "grep -E 'State|TracerPid' /proc/4711/status";
    let said = "the loop's shell 4711 (bash) is stopped by a signal (SIGSTOP or its like)";
    assert_eq!(stopped, row(Cause::Stopped, said, command));
    assert_eq!(
        found(|seen| seen.processes[0].state = 't'),
        row(Cause::Stopped, "the loop's shell 4711 (bash) is stopped by a debugger", command)
    );
}

#[test]
fn a_frozen_cgroup_is_told_from_a_disk_that_hangs() {
    let file = "/sys/fs/cgroup/freezer/kubepods/podx/freezer.state";
    let seen = found(|seen| {
        seen.processes[0].state = 'D';
        seen.frozen = vec![file.to_owned()];
    });
    assert_eq!(seen, row(Cause::Frozen, "the cgroup of the loop's shell 4711 (bash) is frozen", &format!("cat {file}")));
    let by_wchan = found(|seen| {
        seen.processes[0].state = 'D';
        seen.processes[0].wchan = Some("__refrigerator".to_owned());
    });
    assert_eq!(by_wchan.0, Cause::Frozen);
}

#[test]
fn uninterruptible_sleep_names_the_function_the_call_and_the_file() {
    let seen = found(|seen| {
        seen.processes[1] = Process {
            wchan: Some("rpc_wait_bit_killable".to_owned()),
            syscall: call("read", Some(3), Some("/etc/pki/ca.crt")),
            ..process(4712, Role::Child, "curl", 'D')
        };
    });
    assert_eq!(
        seen,
        row(
            Cause::UninterruptibleIo,
            "the loop's child 4712 (curl) is in uninterruptible sleep in rpc_wait_bit_killable, in read on /etc/pki/ca.crt: a disk \
             hangs or a file system is frozen",
            "cat /proc/4712/wchan /proc/4712/stack; ls -l /proc/4712/fd/3",
        )
    );
}

#[test]
fn a_full_pipe_whose_reader_hangs_on_its_disk_is_the_disks_fault() {
    let (cause, sentence, command) = found(|seen| {
        blocked(seen, 0);
        let reader = Process {
            wchan: Some("percpu_rwsem_wait".to_owned()),
            syscall: call("write", Some(7), Some("/var/log/pods/x/0.log")),
            ..process(812, Role::Reader, "containerd", 'D')
        };
        seen.outputs[1].pipe.as_mut().unwrap().readers = vec![reader];
    });
    assert_eq!(cause, Cause::UninterruptibleIo);
    assert!(sentence.starts_with("the process that drains the loop's log pipe, 812 (containerd) is"), "{sentence}");
    assert_eq!(command, "cat /proc/812/wchan /proc/812/stack; ls -l /proc/812/fd/7");
}

#[test]
fn a_shell_that_makes_a_child_is_not_taken_for_one_that_waits_for_a_disk() {
    let seen = found(|seen| {
        seen.processes[0].state = 'D';
        seen.processes[0].syscall = call("vfork", None, None);
    });
    assert_eq!(seen.0, Cause::Unknown);
}

#[test]
fn a_shell_that_died_unnoticed_is_named_with_who_has_not_reaped_it() {
    let zombie = found(|seen| {
        seen.processes = vec![process(4711, Role::Shell, "bash", 'Z'), process(4710, Role::Parent, "shim", 'T')];
        seen.processes.push(process(705, Role::Pod, "pause", 'S'));
    });
    assert_eq!(
        zombie,
        row(
            Cause::ShellDead,
            "the loop's shell 4711 is dead and was not reaped by its parent 4710 (shim), which is stopped; in its pod live on 705 \
             (pause)",
            "ps -o pid,ppid,stat,etime,args -p 4711,4710",
        )
    );
    let gone = found(|seen| seen.processes = vec![process(4790, Role::Pod, "sleep", 'S')]);
    let said = "the loop's shell, process 4711, is gone and none has taken its place; in its pod live on 4790 (sleep)";
    assert_eq!(gone, row(Cause::ShellDead, said, "ls -d /proc/4711; crictl ps -a --name wcp-fip"));
}

#[test]
fn a_full_disk_under_the_log_is_named_whether_the_loop_goes_on_or_blocks() {
    let (cause, sentence, command) = found(|seen| seen.disk = Some(disk(0)));
    assert_eq!((cause, command.as_str()), (Cause::DiskFull, "df /var/log/pods/x; df -i /var/log/pods/x"));
    assert!(sentence.ends_with("is full (0 bytes available): the loop itself goes on, and its log does not"), "{sentence}");
    let (cause, sentence, _) = found(|seen| {
        blocked(seen, 0);
        seen.disk = Some(Disk { free_inodes: 0, ..disk(1 << 30) });
    });
    assert_eq!(cause, Cause::DiskFull);
    assert!(sentence.contains("(no inode free): process 4711 (bash) of the loop is blocked"), "{sentence}");
}

#[test]
fn a_pipe_that_fills_is_told_before_the_loop_blocks() {
    let seen = found(|seen| seen.outputs[1].pipe.as_mut().unwrap().bytes = 3_000);
    assert_eq!((seen.0, seen.2.as_str()), (Cause::LogNotDrained, "ls -l /proc/4711/fd/2"));
    assert!(seen.1.contains("3000 of 65536 bytes wait"), "{}", seen.1);
}

#[test]
fn what_is_not_recognised_says_what_was_seen_and_what_was_not() {
    let seen = found(|seen| seen.unread = vec!["the log: no answer within 800 ms".to_owned()]);
    assert_eq!(
        seen,
        row(
            Cause::Unknown,
            "no cause was recognised: 4711 (bash) is in state S in do_wait, 4712 (sleep) is in state S in do_wait; the log: no answer \
             within 800 ms",
            "cat /proc/4711/stat /proc/4711/wchan /proc/4711/syscall",
        )
    );
    let blind = found(|seen| *seen = Evidence::default());
    assert_eq!(blind.0, Cause::Unknown);
}

fn any_process() -> impl Strategy<Value = Process> {
    let role = prop::sample::select(vec![Role::Shell, Role::Child, Role::Pod, Role::Parent, Role::Reader]);
    let wchan = prop::option::of(prop::sample::select(vec!["pipe_write", "anon_pipe_write", "__refrigerator", "do_wait", ""]));
    let name = prop::sample::select(vec!["write", "read", "vfork", "wait4"]);
    let target = prop::option::of(prop::sample::select(vec![LOG_PIPE, "/a", "socket:[1]"]));
    let syscall = prop::option::of((name, prop::option::of(0_u32..9), target));
    let state = prop::sample::select(vec!['R', 'S', 'D', 'T', 't', 'Z', 'X', 'I', '?']);
    (1_u32..50, 0_u32..50, role, 0_u64..60_000, state, "\\PC{0,15}", wchan, syscall).prop_map(
        |(pid, parent, role, age_ms, state, name, wchan, syscall)| Process {
            pid,
            parent,
            role,
            start_ticks: 1,
            age_ms,
            state,
            name,
            command_line: None,
            wchan: wchan.map(str::to_owned),
            syscall: syscall.and_then(|(name, fd, target)| call(name, fd, target)),
        },
    )
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let pipe = (0_u64..70_000, prop::collection::vec(any_process(), 0..4)).prop_map(|(bytes, readers)| Pipe {
        bytes,
        capacity: 65_536,
        readers,
    });
    let output = (1_u32..3, prop::sample::select(vec![LOG_PIPE, "/dev/null"]), prop::option::of(pipe))
        .prop_map(|(fd, target, pipe)| Output { fd, target: target.to_owned(), pipe });
    let disk = prop::option::of((0_u64..9_000, 0_u64..3, 0_u64..3).prop_map(|(free_bytes, free_inodes, total_inodes)| Disk {
        free_bytes,
        available_bytes: free_bytes,
        free_inodes,
        total_inodes,
        ..disk(0)
    }));
    let lists = (prop::collection::vec(any_process(), 0..6), prop::collection::vec(output, 0..3));
    let rest = (any::<bool>(), prop::option::of(1_u32..50), prop::collection::vec("[a-z/]{1,20}", 0..2), 0_u64..20_000);
    (lists, disk, rest).prop_map(|((processes, outputs), disk, (processes_complete, shell, frozen, round_ms))| Evidence {
        shell,
        processes,
        processes_complete,
        outputs,
        frozen,
        disk,
        round_ms,
        ..Evidence::default()
    })
}

#[test]
fn a_loop_whose_rounds_end_does_not_hang_unless_something_holds_it_at_this_moment() {
    let goes_on = |seen: &mut Evidence| {
        let (now, later) = (Moment::default(), Moment::from_origin(Duration::from_secs(2)));
        let beat = Beat {
            verdict: LoopVerdict::Follower,
            revision: None,
            raft_index: None,
            raft_term: Some(7),
            fip: LoopFip::Untouched,
        };
        let heartbeat = HeartbeatView {
            last_beat: Some(beat),
            last_beat_at: Some(now),
            following_since: now,
            last_growth_at: Some(now),
            log: "/var/log/pods/x/0.log".into(),
        };
        let status = EtcdStatus { member_id: 1, leader: 1, raft_term: 8, ..EtcdStatus::default() };
        let observation = Observation {
            heartbeat: Reading::Fresh { value: heartbeat, at: now },
            etcd: Reading::Fresh { value: EtcdView::Answered(status), at: now },
            ..crate::audit::tests::talkative("noise")
        };
        seen.facts = crate::audit::evidence(&observation, later);
    };
    let (cause, sentence, _) = found(goes_on);
    assert_eq!(cause, Cause::StaleAnswer, "{sentence}");
    let with = |change: fn(&mut Evidence)| {
        found(|seen| {
            goes_on(seen);
            change(seen);
        })
        .0
    };
    assert_eq!(with(|seen| seen.processes[1].state = 'D'), Cause::StaleAnswer, "a read of a disk ends");
    assert_eq!(with(|seen| seen.disk = Some(disk(0))), Cause::StaleAnswer, "its log grows all the same");
    assert_eq!(with(|seen| seen.processes[0].state = 'T'), Cause::Stopped);
    assert_eq!(with(|seen| blocked(seen, 0)), Cause::LogPipeBlocked);
}

proptest! {
    /// Whatever was seen, there is one sentence and one command, bounded; and nobody is declared dead unless all were seen.
    #[test]
    fn every_evidence_has_a_cause_in_words(evidence in any_evidence()) {
        let finding = cause(&evidence);
        for text in [&finding.sentence, &finding.command] {
            prop_assert!(!text.is_empty() && text.len() <= 300 && !text.chars().any(char::is_control), "{:?}", text);
        }
        let living = evidence.shell().is_some_and(|shell| !shell.is_dead());
        prop_assert_eq!(finding.cause == Cause::ShellDead, !living && evidence.processes_complete);
        if let Some(shell) = evidence.shell().filter(|shell| !shell.is_dead()) {
            prop_assert!(!shell.is_stopped() || matches!(finding.cause, Cause::Stopped | Cause::Frozen));
        }
    }
}

#[test]
fn every_cause_has_a_name_of_its_own_that_its_json_shows_too() {
    let names: std::collections::BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
    }
}
