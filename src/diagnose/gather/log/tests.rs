//! Real lines of etcd 3.4 in health and partition, lines of other versions, and any bytes.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::class::classify;
use super::line::parse;
use super::*;
use crate::diagnose::evidence::{LogClass, LogLine, MemberId};

const LINES: &str = include_str!("../../../../tests/etcd_log/lines-3.4.jsonl");
const ISOLATED: &str = include_str!("../../../../tests/etcd_log/partition-isolated-node.jsonl");
const MAJORITY: &str = include_str!("../../../../tests/etcd_log/partition-majority-node.jsonl");

const CP1: Option<MemberId> = Some(MemberId(0xa8c8_702f_425a_7fcb));
const CP2: Option<MemberId> = Some(MemberId(0xd0c0_382b_84ee_5f01));
const CP3: Option<MemberId> = Some(MemberId(0x5db0_0d58_c1f0_d3c5));

fn told(log: &str, now: &str) -> (Option<u64>, Vec<LogLine>) {
    let mut tally = Tally::default();
    log.lines().for_each(|line| tally.take(line.as_bytes(), None));
    tally.told(now.parse().unwrap())
}

fn find(lines: &[LogLine], class: LogClass, peer: Option<MemberId>) -> &LogLine {
    lines
        .iter()
        .find(|line| (line.class, line.peer) == (class, peer))
        .unwrap_or_else(|| panic!("no {class:?} of {peer:?}: {lines:?}"))
}

#[test]
fn the_isolated_node_s_log_names_both_peers_and_says_since_when_until_they_were_active_again() {
    let until_cut = ISOLATED.lines().take_while(|line| !line.contains("peer became active"));
    let (age, lines) = told(&until_cut.collect::<Vec<_>>().join("\n"), "2026-11-30T01:48:40Z");
    assert_eq!(age, Some(6490), "the last line before the repair is of 01:48:33.510");
    let of_cp3 = find(&lines, LogClass::PeerTimedOut, CP3);
    assert_eq!((of_cp3.count, of_cp3.newest_age_ms, of_cp3.oldest_age_ms), (5, Some(6588), Some(15_343)));
    assert_eq!(of_cp3.example, "prober detected unhealthy status: dial tcp 192.168.111.13:2380: i/o timeout");
    assert_eq!(find(&lines, LogClass::PeerTimedOut, CP1).count, 3);
    assert_eq!(find(&lines, LogClass::Election, None).count, 8, "stepped down, lost its leader, and six elections");
    assert_eq!(lines.len(), 3, "nothing else is made of it: {lines:?}");

    let (_, lines) = told(ISOLATED, "2026-11-30T01:48:40Z");
    let of_cp3 = find(&lines, LogClass::PeerTimedOut, CP3);
    assert_eq!((of_cp3.count, of_cp3.oldest_age_ms), (6, None), "active since");
    assert_eq!(find(&lines, LogClass::PeerActive, CP3).newest_age_ms, Some(6112));
}

#[test]
fn a_node_of_the_majority_names_the_peer_that_is_cut_off_and_no_other() {
    let (_, lines) = told(MAJORITY, "2026-11-30T01:48:40Z");
    assert_eq!(find(&lines, LogClass::PeerTimedOut, CP2).count, 4);
    assert!(lines.iter().all(|line| line.peer.is_none() || line.peer == CP2), "{lines:?}");
}

#[test]
fn real_lines_are_told_apart() {
    let classes: Vec<_> = LINES.lines().map(|line| classify(&parse(line.as_bytes()))).collect();
    let count = |wanted| classes.iter().filter(|class| **class == wanted).count();
    assert_eq!(count(Some(LogClass::LateHeartbeats)), 1);
    assert_eq!(count(Some(LogClass::ClientTls)), 1, "a client on this node came without a certificate");
    assert_eq!(count(Some(LogClass::PeerClosed)), 2);
    assert_eq!(count(Some(LogClass::PeerActive)), 2);
    assert_eq!(count(Some(LogClass::SlowDisk)), 0, "reads that took long waited for a quorum, not for a disk");
    assert_eq!(count(Some(LogClass::OtherError)), 0);
}

fn class_of(line: &str) -> (Option<LogClass>, Option<MemberId>) {
    let said = parse(line.as_bytes());
    (classify(&said), said.peer)
}

fn zap(level: &str, msg: &str, rest: &str) -> String {
    format!(r#"{{"level":"{level}","ts":"2026-11-30T08:48:36.542Z","caller":"x/y.go:1","msg":"{msg}"{rest}}}"#)
}

#[test]
fn what_a_process_ends_from_is_told_apart() {
    let fatal = |msg: &str, error: &str| zap("fatal", msg, &format!(r#","error":"{error}""#));
    for (line, class) in [
        (
            fatal("listener failed", "open /etc/kubernetes/pki/etcd/server.crt: no such file or directory"),
            LogClass::CertificateLoad,
        ),
        (fatal("listener failed", "tls: private key does not match public key"), LogClass::CertificateLoad),
        (fatal("listener failed", "tls: failed to find any PEM data in certificate input"), LogClass::CertificateLoad),
        (fatal("discovery failed", "listen tcp 10.9.9.9:2380: bind: cannot assign requested address"), LogClass::CannotBind),
        (
            fatal("discovery failed", "couldn't find local name \\\"x\\\" in the initial cluster configuration"),
            LogClass::OtherError,
        ),
        (
            zap("panic", "tocommit(107) is out of range [lastIndex(80)]. Was the raft log corrupted, truncated, or lost?", ""),
            LogClass::SnapshotReverted,
        ),
        (zap("panic", "failed to recover v3 backend from snapshot", ""), LogClass::Panic),
        (
            zap("warn", "server error", r#","error":"the member has been permanently removed from the cluster""#),
            LogClass::MemberRemoved,
        ),
        (zap("warn", "request cluster ID mismatch", ""), LogClass::IdMismatch),
        (zap("warn", "alarm raised", r#","alarm":"NOSPACE","from":"a8c8702f425a7fcb""#), LogClass::NoSpace),
        (zap("warn", "alarm raised", r#","alarm":"CORRUPT","from":"a8c8702f425a7fcb""#), LogClass::Corrupt),
        (
            zap(
                "fatal",
                "failed to save Raft hard state",
                r#","error":"write /var/lib/etcd/member/wal/0.wal: no space left on device""#,
            ),
            LogClass::DiskFull,
        ),
        (zap("warn", "slow fdatasync", r#","took":"1.9s","expected-duration":"1s""#), LogClass::SlowDisk),
        (
            zap("warn", "apply request took too long", r#","took":"1.9s","prefix":"","request":"header:<> txn:<>""#),
            LogClass::SlowDisk,
        ),
        (zap("info", "configuring peer listeners", ""), LogClass::Start),
        (zap("error", "something new", ""), LogClass::OtherError),
        ("panic: runtime error: index out of range".to_owned(), LogClass::Panic),
        (
            "2026-11-30 08:48:45.449979 C | etcdmain: listen tcp 10.9.9.9:2380: bind: cannot assign requested address".to_owned(),
            LogClass::CannotBind,
        ),
        ("2026-11-30 08:48:12.896999 I | etcdmain: etcd Version: 3.4.23".to_owned(), LogClass::Start),
        ("2021-03-09 08:21:01.123456 W | wal: sync duration of 1.7s, expected less than 1s".to_owned(), LogClass::SlowDisk),
        ("raft2026/11/30 08:48:13 INFO: 5c76a90ae78bcee7 is starting a new election at term 1".to_owned(), LogClass::Election),
    ] {
        assert_eq!(class_of(&line), (Some(class), None), "{line}");
    }
    for quiet in [
        zap("info", "peer became inactive (message send to peer failed)", ""),
        zap("warn", "rejected connection", r#","remote-addr":"192.168.111.12:4242","error":"EOF""#),
        zap("warn", "waiting for ReadIndex response took too long, retrying", ""),
        "raft2026/11/30 08:48:12 INFO: 5c76a90ae78bcee7 became follower at term 0".to_owned(),
        "goroutine 1 [running]:".to_owned(),
        "2026-11-30 08:48:13.501183 I | etcdserver: setting up the initial cluster version to 3.4".to_owned(),
    ] {
        assert_eq!(class_of(&quiet).0, None, "{quiet}");
    }
}

#[test]
fn faults_of_a_peer_are_told_apart_and_by_whom_they_are() {
    let lost = |error: &str| {
        zap(
            "warn",
            "lost TCP streaming connection with remote peer",
            &format!(r#","local-member-id":"a8c8702f425a7fcb","remote-peer-id":"d0c0382b84ee5f01","error":"{error}""#),
        )
    };
    for (line, class) in [
        (lost("dial tcp 192.168.111.12:2380: connect: connection refused"), LogClass::PeerRefused),
        (lost("dial tcp 192.168.111.12:2380: connect: no route to host"), LogClass::PeerNoRoute),
        (lost("dial tcp 192.168.111.12:2380: connect: network is unreachable"), LogClass::PeerNoRoute),
        (lost("x509: certificate signed by unknown authority"), LogClass::PeerTls),
        (lost("remote error: tls: bad certificate"), LogClass::PeerTls),
        (lost("dial tcp: lookup cp2 on 10.0.0.2:53: read udp 10.0.0.1:4711->10.0.0.2:53: i/o timeout"), LogClass::PeerUnresolved),
        (lost("unexpected EOF"), LogClass::PeerClosed),
        (zap("warn", "prober found high clock drift", r#","remote-peer-id":"d0c0382b84ee5f01","clock-drift":"8.2s","rtt":"2ms""#), LogClass::ClockDrift),
        ("2021-03-09 08:21:01.123456 W | rafthttp: health check for peer d0c0382b84ee5f01 could not connect: dial tcp 192.168.111.12:2380: i/o timeout (prober \"ROUND_TRIPPER_RAFT_MESSAGE\")".to_owned(), LogClass::PeerTimedOut),
        ("2021-03-09 08:21:01.123456 I | rafthttp: peer d0c0382b84ee5f01 became active".to_owned(), LogClass::PeerActive),
        ("2021-03-09 08:21:01.123456 E | rafthttp: failed to dial d0c0382b84ee5f01 on stream MsgApp v2 (dial tcp 192.168.111.12:2380: connect: connection refused)".to_owned(), LogClass::PeerRefused),
        ("2021-03-09 08:21:01.123456 W | etcdserver: failed to reach the peerURL(https://192.168.111.12:2380) of member d0c0382b84ee5f01 (Get https://192.168.111.12:2380/version: dial tcp 192.168.111.12:2380: i/o timeout)".to_owned(), LogClass::PeerTimedOut),
        ("2021-03-09 08:21:01.123456 W | etcdserver: failed to send out heartbeat on time (exceeded the 100ms timeout for 1.2s, to d0c0382b84ee5f01)".to_owned(), LogClass::LateHeartbeats),
    ] {
        assert_eq!(class_of(&line), (Some(class), CP2), "{line}");
    }
    let rejected = |remote: &str, error: &str| {
        class_of(&zap("warn", "rejected connection", &format!(r#","remote-addr":"{remote}:4242","error":"{error}""#))).0
    };
    assert_eq!(rejected("192.168.111.12", "remote error: tls: bad certificate"), Some(LogClass::PeerTls));
    assert_eq!(
        rejected("127.0.0.1", "tls: failed to verify client certificate: x509: certificate signed by unknown authority"),
        Some(LogClass::ClientTls)
    );
    let old = r#"2021-03-09 08:21:01.123456 I | embed: rejected connection from "192.0.2.7:4242" (error "remote error: tls: bad certificate", ServerName "")"#;
    assert_eq!(class_of(old), (Some(LogClass::PeerTls), None));
}

#[test]
fn each_spelling_of_a_stamp_is_read_and_one_from_the_future_has_no_age() {
    for stamp in [r#""2026-11-30T01:48:30.000Z""#, r#""2026-11-30T09:48:30.000+0800""#, "1796003310.0"] {
        let line = format!(r#"{{"level":"info","ts":{stamp},"msg":"x"}}"#);
        assert_eq!(told(&line, "2026-11-30T01:48:40Z").0, Some(10_000), "{stamp}");
    }
    let line = zap("error", "x", "");
    let (age, lines) = told(&line, "2026-11-30T08:48:20Z");
    assert_eq!((age, lines[0].newest_age_ms), (None, None), "a clock that was set back makes no age");
    assert_eq!(told(&line, "2026-11-30T08:48:36Z").0, Some(0), "written while we looked");
    let mut tally = Tally::default();
    tally.take(b"panic: no stamp of its own", "2026-11-30T08:48:30Z".parse().ok());
    assert_eq!(tally.told("2026-11-30T08:48:31Z".parse().unwrap()).1[0].newest_age_ms, Some(1000));
}

#[test]
fn what_was_long_before_the_log_s_end_does_not_count() {
    let old = zap("error", "long ago", "").replace("08:48", "08:20");
    let (_, lines) = told(&format!("{old}\n{}", zap("error", "now", "")), "2026-11-30T08:48:40Z");
    assert_eq!((lines.len(), lines[0].count, lines[0].example.as_str()), (1, 1, "now"));
}

#[test]
fn a_crash_loop_is_counted_over_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let pod = dir.path().join("kube-system_etcd-cp1_0123/etcd");
    std::fs::create_dir_all(&pod).unwrap();
    for attempt in 0..4 {
        let frame = |line: &str| format!("2026-11-30T08:4{attempt}:36.5Z stderr F {line}\n");
        let run = [zap("info", "configuring peer listeners", ""), "panic: tocommit(7) is out of range [lastIndex(3)]".to_owned()];
        let text: String = run.iter().map(|line| frame(line)).collect();
        std::io::Write::write_all(&mut std::fs::File::create(pod.join(format!("{attempt}.log"))).unwrap(), text.as_bytes())
            .unwrap();
    }
    let (_, pieces) = files::end(dir.path()).unwrap().unwrap();
    let mut tally = Tally::default();
    pieces.iter().for_each(|piece| framed(&mut tally, piece));
    let (_, lines) = tally.told("2026-11-30T08:49:00Z".parse().unwrap());
    assert_eq!(find(&lines, LogClass::Start, None).count, 4);
    assert_eq!(find(&lines, LogClass::SnapshotReverted, None).count, 4);
}

#[test]
fn peers_beyond_a_cluster_s_size_are_counted_together() {
    let line = |id: u64| zap("info", "peer became active", &format!(r#","peer-id":"{id:016x}""#));
    let many: Vec<String> = (1..=1000).map(|id| line(id << 40)).collect();
    let (_, lines) = told(&many.join("\n"), "2026-11-30T08:48:40Z");
    assert_eq!(lines.len(), 17);
    assert_eq!(lines.iter().map(|line| line.count).sum::<u32>(), 1000);
}

/// Bytes that are nearly a log: real lines in frames, damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let real = prop::sample::select(LINES.lines().chain(ISOLATED.lines()).map(str::to_owned).collect::<Vec<_>>());
    let line = (real, any::<bool>(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, framed, at, byte)| {
        let mut bytes = if framed { format!("2026-11-30T01:48:30Z stderr F {text}\n") } else { format!("{text}\n") }.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    prop::collection::vec(line, 0..20).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_counted_without_harm_and_what_is_told_is_bounded(
        bytes in prop_oneof![damaged(), prop::collection::vec(any::<u8>(), 0..4096)],
        inside_line: bool,
        now in 0_i64..4_000_000_000,
    ) {
        let mut tally = Tally::default();
        framed(&mut tally, &Piece { bytes: bytes.clone(), inside_line });
        bytes.split(|byte| *byte == b'\n').for_each(|line| tally.take(line, None));
        let (_, lines) = tally.told(Timestamp::from_second(now).unwrap());
        prop_assert!(lines.len() <= 23 * 17);
        for line in lines {
            prop_assert!(line.count > 0 && line.example.len() <= 300 && !line.example.contains(char::is_control));
        }
    }
}

#[test]
fn the_clock_is_the_wall_s() {
    assert!(now().duration_since("2024-01-01T00:00:00Z".parse().unwrap()) > SignedDuration::ZERO);
}
