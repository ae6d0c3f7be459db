//! Signals, and standard error that nobody reads.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use fip_watchdog::runtime::clock;
use rustix::process::Signal;

use crate::bench::{Daemon, Node, until};

#[test]
fn a_termination_ends_an_idle_daemon_at_once_and_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let node = Node::new();
        let mut daemon = node.start();
        let asked = clock::now();
        daemon.signal(signal);
        let status = daemon.exited();
        // Far below the unit's 45 s; a busy machine is no fault.
        assert!(clock::now().since(asked) < Duration::from_secs(8));
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", daemon.said());
        assert!(!node.socket().exists(), "the socket is unlinked");
        daemon.until_says("stopping: SIG");
    }
}

#[test]
fn a_signal_right_after_the_start_is_not_deadly() {
    let node = Node::new();
    for _ in 0..2 {
        let mut daemon = Daemon::spawn(node.command(), &node.socket());
        daemon.until_says("started: ");
        daemon.signal(Signal::HUP);
        daemon.until_up();
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.exited().code(), Some(0), "{}", daemon.said());
    }
}

#[test]
fn a_hangup_and_a_broken_pipe_end_nothing() {
    let node = Node::new();
    let mut daemon = node.start();
    for signal in [Signal::HUP, Signal::PIPE, Signal::HUP] {
        daemon.signal(signal);
    }
    let before = daemon.status().uptime_ms;
    daemon.until_status("a later answer", |status| status.uptime_ms > before + 500);
    assert!(daemon.is_running());
}

/// By hand: `fip-watchdog run 2>&1 | less`, and nobody scrolls.
#[test]
fn a_full_pipe_at_standard_error_stops_no_round() {
    let node = Node::new();
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    std::io::Write::write_all(&mut &writer, &[b'.'; 4096]).unwrap();
    let mut child = node.command().env("FIP_WATCHDOG_LOG", "trace").stderr(Stdio::from(writer)).spawn().unwrap();
    let mut uptimes = Vec::new();
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("five answers over a second", || {
            let answer = node.ask(&["status", "--json"]);
            let json: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            uptimes.extend(json["uptime_ms"].as_u64());
            (uptimes.len() >= 5 && uptimes.last()? - uptimes.first()? > 1000).then_some(())
        });
    }));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(reader);
    assert!(answered.is_ok(), "the daemon hangs in a write to standard error");
}

#[test]
fn a_closed_standard_error_ends_nothing() {
    let node = Node::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = node.command().stderr(Stdio::from(writer)).spawn().unwrap();
    until("an answer", || matches!(node.ask(&["status"]).status.code(), Some(0 | 1)).then_some(()));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}
