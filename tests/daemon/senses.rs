//! A node on which nothing is there yet: each sense says why it cannot tell, and comes back by itself.

use std::fs;

use fip_watchdog::audit::facts::{EtcdFacts, Sense};
use fip_watchdog::decision::verdict::Verdict;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::bench::{Daemon, INTERFACE, Node, run, write};

fn reason<T>(sense: &Sense<T>) -> &str {
    match sense {
        Sense::Unknown { reason } => reason,
        Sense::Fresh { .. } | Sense::Stale { .. } => "",
    }
}

const fn is_fresh<T>(sense: &Sense<T>) -> bool {
    matches!(sense, Sense::Fresh { .. })
}

#[test]
fn every_sense_says_why_it_is_unknown_and_comes_back_when_the_thing_appears() {
    let node = Node::new();
    let daemon = Daemon::of(node.command_in_its_own_network(), &node.socket());
    let facts = daemon.status().facts;
    assert!(reason(&facts.alias).contains(&format!("interface {INTERFACE} does not exist")), "{facts:#?}");
    assert!(reason(&facts.etcd).contains("cannot read etcd CA certificate"), "{facts:#?}");
    assert!(reason(&facts.heartbeat).contains(&node.path("log").display().to_string()), "{facts:#?}");
    assert!(reason(&facts.process).contains("uid of the loop's pod is not known"), "{facts:#?}");
    assert!(reason(&facts.manifest).contains("kubernetes/manifests"), "{facts:#?}");
    assert!(matches!(node.ask(&["status", "--json"]).status.code(), Some(0 | 1)), "starting is 0, unknown is 1");

    let pid = daemon.pid().to_string();
    run("nsenter", &["--net", "--target", &pid, "ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", "fipwd-peer"]);
    daemon.until_status("the interface", |status| is_fresh(&status.facts.alias));

    fs::create_dir_all(node.path("kubernetes/manifests")).unwrap();
    daemon.until_status("the directory", |status| is_fresh(&status.facts.manifest));
    write(&node.manifest(), "apiVersion: v1\nkind: Pod\nmetadata: { name: wcp-fip, namespace: kube-system }\n");
    daemon.until_status(
        "the manifest",
        |status| matches!(&status.facts.manifest, Sense::Fresh { value, .. } if value.sha256.is_some()),
    );

    let log = node.path("log/kube-system_wcp-fip-node1_0123456789abcdef0123456789abcdef/wcp-fip");
    fs::create_dir_all(&log).unwrap();
    write(&log.join("0.log"), "");
    daemon.until_status("the log, and with it the uid", |status| {
        is_fresh(&status.facts.heartbeat) && is_fresh(&status.facts.process)
    });

    fs::create_dir(node.path("pki")).unwrap();
    for name in ["ca.crt", "server.crt", "server.key"] {
        write(&node.path("pki").join(name), "no certificate\n");
    }
    let status = daemon.until_status("certificates that are none", |status| is_fresh(&status.facts.etcd));
    let Sense::Fresh { value: EtcdFacts::None { fault, .. }, .. } = &status.facts.etcd else { panic!("{status:#?}") };
    assert_eq!(fault, "tls");
    assert!(status.recent_steps.is_empty() && status.starting.is_empty(), "{status:#?}");
}

#[test]
fn a_sense_that_was_lost_is_said_once_and_found_again() {
    let node = Node::new();
    fs::create_dir_all(node.path("kubernetes/manifests")).unwrap();
    let daemon = node.start();
    daemon.until_status("the directory", |status| is_fresh(&status.facts.manifest));
    fs::remove_dir(node.path("kubernetes/manifests")).unwrap();
    daemon.until_status("no directory", |status| !reason(&status.facts.manifest).is_empty());
    fs::create_dir(node.path("kubernetes/manifests")).unwrap();
    daemon.until_status("the directory again", |status| is_fresh(&status.facts.manifest));
    let said = daemon.said();
    assert!(said.matches("sense_lost: ").filter(|_| said.contains("manifest")).count() <= 8, "no line a round: {said}");
}

#[test]
fn certificates_that_are_pipes_or_directories_block_nothing_and_are_read_when_they_are_files() {
    let node = Node::new();
    fs::create_dir(node.path("pki")).unwrap();
    mknodat(CWD, node.path("pki/ca.crt"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(node.path("pki/server.crt")).unwrap();
    let daemon = node.start();
    let unknown = daemon.until_status("a reason", |status| !reason(&status.facts.etcd).is_empty());
    assert!(reason(&unknown.facts.etcd).contains("ca.crt"), "{unknown:#?}");
    fs::remove_file(node.path("pki/ca.crt")).unwrap();
    write(&node.path("pki/ca.crt"), "");
    daemon.until_status("an empty one", |status| reason(&status.facts.etcd).contains("is empty"));
    write(&node.path("pki/ca.crt"), "no certificate\n");
    daemon.until_status("a directory", |status| reason(&status.facts.etcd).contains("server.crt"));
}

#[test]
fn a_node_without_anything_is_unknown_after_the_start_and_status_exits_1() {
    let node = Node::new();
    let daemon = node.start();
    let status = daemon.until_status("the end of the start", |status| status.verdict != Verdict::Starting);
    assert_eq!(status.verdict, Verdict::Unknown);
    assert!(status.alarmed && !status.reasons.is_empty(), "{status:#?}");
    let answer = node.ask(&["status", "--json"]);
    assert_eq!(answer.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    for sense in ["etcd", "heartbeat", "process", "alias", "manifest"] {
        assert_eq!(json["facts"][sense]["state"], "unknown", "{json:#}");
        assert!(json["facts"][sense]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{json:#}");
    }
    let explained = node.ask(&["explain"]);
    assert_eq!(explained.status.code(), Some(1));
    let explained = String::from_utf8(explained.stdout).unwrap();
    for part in ["What it sees", "cannot tell: ", "nothing: what it cannot see it does not act on", "nothing but the next look"] {
        assert!(explained.contains(part), "{explained}");
    }
    let json: serde_json::Value = serde_json::from_slice(&node.ask(&["explain", "--json"]).stdout).unwrap();
    assert_eq!(json["verdict"], "unknown");
    let screen = node.ask(&["status"]);
    assert_eq!(screen.status.code(), Some(1));
    let screen = String::from_utf8(screen.stdout).unwrap();
    assert!(screen.contains("unknown") && screen.contains(INTERFACE) && screen.lines().count() < 40, "{screen}");
}
