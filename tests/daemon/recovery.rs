//! An open cycle is finished by the next start, also by one that refuses its policy.

use std::fs;

use fip_watchdog::actuator::durable_fs::Fs;
use fip_watchdog::actuator::journal::{Intent, Journal, PhaseMark, PodRecord, Record, Stamp, sha256_hex};

use crate::bench::{Node, write};

const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata: { name: wcp-fip, namespace: kube-system }\n";

/// What a daemon leaves that was killed while the manifest was out.
fn leave_a_cycle_open(node: &Node) {
    let (staging, backups) = (node.path("kubernetes/fip-watchdog.staging"), node.path("state/backups"));
    for dir in [&node.path("kubernetes/manifests"), &staging, &backups] {
        fs::create_dir_all(dir).unwrap();
    }
    let intent = Intent {
        id: 1,
        manifest: node.manifest(),
        staging: staging.join("wcp-fip.yaml"),
        backup: backups.join("1.yaml"),
        sha256: sha256_hex(MANIFEST.as_bytes()),
        size: MANIFEST.len() as u64,
        mode: 0o600,
        uid: 0,
        gid: 0,
        xattrs: std::collections::BTreeMap::default(),
        pod: PodRecord { namespace: "kube-system".to_owned(), name: "wcp-fip".to_owned(), uids: Vec::new(), process: None },
        settle_ms: 0,
        at: stamp(),
    };
    write(&intent.staging, MANIFEST);
    write(&intent.backup, MANIFEST);
    let journal = Journal::new(Fs::default(), &node.path("state"));
    journal.append(&Record::Intent(Box::new(intent))).unwrap();
    journal.append(&Record::Phase { id: 1, phase: PhaseMark::Out, at: stamp() }).unwrap();
}

/// Of another boot, so that nothing is waited for.
fn stamp() -> Stamp {
    Stamp { boot_id: "another".to_owned(), boottime_ms: 1, wall_ms: 1 }
}

fn assert_recovered(node: &Node, said: &str) {
    assert_eq!(fs::read_to_string(node.manifest()).unwrap(), MANIFEST, "{said}");
    assert!(!node.path("kubernetes/fip-watchdog.staging/wcp-fip.yaml").exists());
    assert!(Journal::new(Fs::default(), &node.path("state")).load().unwrap().open.is_none());
    assert!(said.contains("cycle_recovered: "), "{said}");
}

#[test]
fn a_manifest_that_is_out_comes_back_although_the_policy_is_bad_or_missing() {
    for policy in [Some("version: 1\nfip: {}\n"), None] {
        let node = Node::without_policy();
        if let Some(text) = policy {
            write(&node.policy(), text);
        }
        leave_a_cycle_open(&node);
        let refused = node.refused();
        assert_eq!(refused.code, Some(78), "{}", refused.stderr);
        assert_recovered(&node, &refused.stderr);
    }
}

#[test]
fn a_manifest_that_is_out_comes_back_under_a_good_policy() {
    let node = Node::new();
    leave_a_cycle_open(&node);
    let daemon = node.start();
    assert_recovered(&node, &daemon.said());
}

/// The policy's state directory was changed, or went bad and back, between two starts.
#[test]
fn a_manifest_that_is_out_comes_back_although_the_policy_names_another_state_directory() {
    let node = Node::new();
    write(&node.policy(), &node.policy_text("enforce").replace("/state\n", "/elsewhere\n"));
    leave_a_cycle_open(&node);
    let daemon = node.start();
    assert_recovered(&node, &daemon.said());
    assert!(node.path("elsewhere").exists());
}

#[test]
fn a_damaged_journal_is_said_and_the_daemon_watches_on() {
    let node = Node::new();
    fs::create_dir(node.path("state")).unwrap();
    write(&node.path("state/cycle.journal"), "0000000000000000 {}\n");
    let mut daemon = node.start();
    daemon.until_says("is damaged at line 1");
    assert!(daemon.is_running());
    let said = daemon.said().matches("is damaged at line 1").count();
    assert!(said < 8, "{said} times");
}
