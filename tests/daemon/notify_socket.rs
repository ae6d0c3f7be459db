//! What systemd is told, and what happens when systemd does not listen.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::{Daemon, LIMIT, Node, write};

struct Systemd {
    socket: UnixDatagram,
    heard: String,
}

impl Systemd {
    fn at(node: &Node) -> Self {
        let socket = UnixDatagram::bind(node.path("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { socket, heard: String::new() }
    }

    fn until_hears(&mut self, what: &str) {
        while !self.heard.contains(what) {
            let mut buffer = [0; 4096];
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {what}: {error} in {}", self.heard));
            self.heard.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        }
    }
}

fn command(node: &Node, watchdog_usec: &str) -> std::process::Command {
    let mut command = node.command();
    command.env("NOTIFY_SOCKET", node.path("notify")).env("WATCHDOG_USEC", watchdog_usec).env_remove("WATCHDOG_PID");
    command
}

#[test]
fn ready_status_watchdog_and_stopping_are_said_in_their_order() {
    let node = Node::new();
    let mut systemd = Systemd::at(&node);
    let mut daemon = Daemon::spawn(command(&node, "900000"), &node.socket());
    systemd.until_hears("READY=1");
    assert!(node.socket().exists(), "ready means that the socket is there");
    assert!(!systemd.heard.contains("WATCHDOG=1"));
    systemd.until_hears("STATUS=");
    systemd.until_hears("WATCHDOG=1");
    systemd.heard.clear();
    systemd.until_hears("WATCHDOG=1");
    daemon.signal(Signal::TERM);
    systemd.until_hears("STOPPING=1");
    assert_eq!(daemon.exited().code(), Some(0));
}

#[test]
fn a_bad_policy_is_never_ready() {
    let node = Node::new();
    write(&node.policy(), "version: 1\n");
    let systemd = Systemd::at(&node);
    let mut daemon = Daemon::spawn(command(&node, "900000"), &node.socket());
    assert_eq!(daemon.exited().code(), Some(78));
    systemd.socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    if let Ok(length) = systemd.socket.recv(&mut buffer) {
        panic!("systemd was told {:?}", String::from_utf8_lossy(&buffer[..length]));
    }
}

/// PID 1 can hang (on a dead automount, say). Its queue fills, and a blocking send would freeze the watchdog
/// in the way in which the loop froze.
#[test]
fn a_systemd_that_reads_nothing_stops_no_round() {
    let node = Node::new();
    // Deaf from the start: the queue is full before the daemon says a word.
    let mut systemd = Systemd::at(&node);
    // One sender's buffer is smaller than the queue.
    let fillers: Vec<UnixDatagram> = (0..8).map(|_| UnixDatagram::unbound().unwrap()).collect();
    for filler in &fillers {
        filler.set_nonblocking(true).unwrap();
        while filler.send_to(b"x", node.path("notify")).is_ok() {}
    }
    let daemon = Daemon::of(command(&node, "900000"), &node.socket());
    let before = daemon.status().uptime_ms;
    daemon.until_status("rounds go on", |status| status.uptime_ms > before + 800);
    // It listens again, and is still told that the daemon is ready.
    systemd.until_hears("READY=1");
    systemd.until_hears("STATUS=");
    systemd.until_hears("WATCHDOG=1");
}

#[test]
fn a_notify_socket_that_is_gone_ends_nothing() {
    let node = Node::new();
    let daemon = Daemon::of(command(&node, "900000"), &node.socket());
    let before = daemon.status().uptime_ms;
    daemon.until_status("rounds go on", |status| status.uptime_ms > before + 500);
    assert!(Duration::from_millis(before) < LIMIT);
}
