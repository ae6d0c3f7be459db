//! Something that is not etcd on etcd's port: the loop keeps its pace and its memory.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fip_watchdog::audit::facts::{EtcdFacts, Sense};
use fip_watchdog::control::report::StatusReport;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::runtime::clock;
use rustix::process::Signal;

use crate::bench::{Daemon, Node, until, write};

fn certificates(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    write(&dir.join("ca.crt"), &params.self_signed(&ca_key).unwrap().pem());
    let issuer = rcgen::Issuer::new(params, ca_key);
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    write(&dir.join("server.crt"), &params.signed_by(&key, &issuer).unwrap().pem());
    write(&dir.join("server.key"), &key.serialize_pem());
}

pub fn node_beside(port: u16) -> Node {
    let node = Node::without_policy();
    certificates(&node.path("pki"));
    write(&node.policy(), &node.policy_for("enforce", port));
    node
}

fn fault(status: &StatusReport) -> Option<&str> {
    match &status.facts.etcd {
        Sense::Fresh { value: EtcdFacts::None { fault, .. }, .. } => Some(fault),
        Sense::Fresh { .. } | Sense::Stale { .. } | Sense::Unknown { .. } => None,
    }
}

/// Every answer within the server's own deadline, for as long as asked.
fn assert_keeps_its_pace(daemon: &Daemon, length: Duration) {
    let end = clock::now() + length;
    let mut slowest = Duration::ZERO;
    while clock::now() < end {
        let asked = clock::now();
        let status = daemon.status();
        slowest = slowest.max(clock::now().since(asked));
        assert!(status.starting.is_empty() && status.recent_steps.is_empty(), "{status:#?}");
    }
    assert!(slowest < Duration::from_millis(2500), "status took {slowest:?}");
}

#[test]
fn an_etcd_that_accepts_and_never_answers_times_out_and_the_loop_keeps_its_pace() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = node_beside(listener.local_addr().unwrap().port());
    let kept = std::thread::spawn(move || {
        let streams: Vec<TcpStream> = listener.incoming().take(1).map_while(Result::ok).collect();
        (listener, streams)
    });
    let daemon = node.start();
    daemon.until_status("a timeout", |status| fault(status) == Some("timed_out"));
    assert_keeps_its_pace(&daemon, Duration::from_millis(1000));
    drop(kept.join().unwrap());
}

/// While etcd hangs, the loop spends most of its time in a round: a stop falls into it, and is one all the same.
#[test]
fn a_daemon_that_was_stopped_trusts_no_age_whether_it_slept_or_was_in_a_round() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (beside, alone) = (node_beside(listener.local_addr().unwrap().port()), Node::new());
    let daemons = [beside.start(), alone.start()];
    daemons[0].until_status("a timeout", |status| fault(status) == Some("timed_out"));
    // Answers come between two rounds, 250 ms apart: this is in the next round, which takes a second.
    let inside = clock::now() + Duration::from_millis(600);
    until("the next round", || (clock::now() >= inside).then_some(()));
    daemons.iter().for_each(|daemon| daemon.signal(Signal::STOP));
    let end = clock::now() + Duration::from_millis(4000);
    until("the end of the stop", || (clock::now() >= end).then_some(()));
    daemons.iter().for_each(|daemon| daemon.signal(Signal::CONT));
    for daemon in &daemons {
        let status = daemon.until_status("a pause that was noticed", |status| status.facts.resumed_age_ms.is_some());
        assert_eq!(status.verdict, Verdict::Resumed);
        assert!(status.starting.is_empty() && status.recent_steps.is_empty(), "{status:#?}");
        daemon.until_says("verdict resumed");
        // Nearly all of the stop; a busy machine adds to it.
        let pause = status.pauses.first().unwrap();
        assert!(pause.kind == "late" && pause.length_ms > 3_000 && pause.length_ms < 60_000, "{pause:?}");
    }
}

/// `openssl s_server`, ended by its pid.
struct TlsServer(Child);

impl TlsServer {
    fn start(node: &Node, port: u16, input: Stdio) -> Self {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "openssl"])
            .args(["s_server", "-quiet", "-alpn", "h2", "-naccept", "1000000", "-accept", &format!("127.0.0.1:{port}")])
            .arg("-cert")
            .arg(node.path("pki/server.crt"))
            .arg("-key")
            .arg(node.path("pki/server.key"))
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("this test needs openssl: {error}"));
        let server = Self(child);
        until("openssl listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        server
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn an_etcd_that_talks_rubbish_over_tls_is_a_fault_and_costs_no_memory() {
    let port = free_port();
    let node = node_beside(port);
    let rubbish = std::fs::File::open("/dev/urandom").unwrap();
    let _server = TlsServer::start(&node, port, Stdio::from(rubbish));
    let daemon = node.start();
    let status = daemon.until_status("a fault", |status| fault(status).is_some());
    assert_ne!(fault(&status), Some("refused"), "{status:#?}");
    let before = (daemon.rss_kib(), daemon.descriptors());
    assert_keeps_its_pace(&daemon, Duration::from_millis(1000));
    let after = (daemon.rss_kib(), daemon.descriptors());
    assert!(after.0 < before.0 + 8192 && after.1 < before.1 + 16, "{before:?} {after:?}");
}
