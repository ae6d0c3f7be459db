//! What reaches the journal, seen by a journal that the test plays itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::autopsy::{Autopsy, Evidence, cause};
use crate::decision::api::ApiView;
use crate::decision::observation::{
    AliasEntry, AliasView, ConflictView, CyclePhase, EtcdFault, EtcdStatus, EtcdView, ManifestView, Observation, Reading,
    StrainView,
};
use crate::decision::step::StepKind;
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::diagnose::{Diagnosed, Diagnosis};
use crate::policy::Mode;
use crate::runtime::ledger::{PauseKind, PauseRecord};

struct Journal {
    dir: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Journal {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("socket")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { dir, socket }
    }

    fn audit(&self, debug: bool) -> Audit {
        Audit::new(Some(JournalSocket::open(&self.dir.path().join("socket")).unwrap()), None, debug)
    }

    /// The next entry that is not empty, by the rules of the native protocol.
    fn next(&self) -> BTreeMap<String, String> {
        let mut buffer = vec![0; 256 * 1024];
        let mut length = 0;
        while length == 0 {
            length = self.socket.recv(&mut buffer).unwrap();
        }
        parse(&buffer[..length])
    }
}

fn parse(mut datagram: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while !datagram.is_empty() {
        let line_end = datagram.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&datagram[..line_end]).unwrap();
        let (name, value) = if let Some((name, value)) = line.split_once('=') {
            datagram = &datagram[line_end + 1..];
            (name.to_owned(), value.to_owned())
        } else {
            let start = line_end + 9;
            let length = usize::try_from(u64::from_le_bytes(datagram[line_end + 1..start].try_into().unwrap())).unwrap();
            let value = String::from_utf8(datagram[start..start + length].to_vec()).unwrap();
            assert_eq!(datagram[start + length], b'\n');
            datagram = &datagram[start + length + 1..];
            (line.to_owned(), value)
        };
        assert!(fields.insert(name, value).is_none(), "a field is there twice");
    }
    fields
}

fn pause() -> PauseRecord {
    let (length, wall) = (Duration::from_secs(20), Duration::from_secs(1_796_000_000));
    PauseRecord { kind: PauseKind::Suspended, length, at: Moment::default(), wall }
}

fn autopsy() -> Autopsy {
    let evidence = Evidence { shell: Some(4711), processes_complete: true, ..Evidence::default() };
    let finding = cause(&evidence);
    Autopsy { number: Some(7), wall_ms: 1, verdict: "loop_stalled_fip_missing".to_owned(), finding, took_ms: 80, evidence }
}

fn diagnosed() -> Diagnosed {
    let next = vec!["nc -vz 192.0.2.2 2380".to_owned()];
    let diagnosis = Diagnosis { next, ..Diagnosis::given_up(Duration::from_secs(5)) };
    Diagnosed { diagnosis, took: Duration::from_millis(900), ended_at: Moment::default() }
}

fn every_event() -> Vec<AuditEvent> {
    let seen = || json!({ "etcd": { "state": "stale", "age_ms": 5 } });
    let (step, verdict) = (StepKind::ApplyAlias, Verdict::LoopStalledFipMissing);
    let duration = Duration::from_millis(1200);
    let reasons = || vec!["no finished round for 31s".to_owned()];
    let policy = || PathBuf::from("/etc/fip-watchdog/policy.yaml");
    vec![
        AuditEvent::Started { mode: Mode::Enforce, policy: policy() },
        AuditEvent::Stopping { reason: "SIGTERM".to_owned() },
        AuditEvent::PolicyLoaded { path: policy(), diff: vec!["limits.cooldown: 2m -> 5m".to_owned()] },
        AuditEvent::PolicyRejected { path: policy(), faults: vec!["14:15: limits.cooldown: 0s is too short".to_owned()] },
        AuditEvent::VerdictChanged {
            from: Verdict::Healthy,
            to: verdict,
            reasons: reasons(),
            held_for: duration,
            evidence: seen(),
        },
        AuditEvent::PlanStarted { verdict, steps: vec![step, StepKind::CycleManifest], reasons: reasons(), evidence: seen() },
        AuditEvent::StepStarted { step, verdict, evidence: seen() },
        AuditEvent::StepSucceeded { step, verdict, seen: "192.168.111.200/32 is on eth0".to_owned(), duration, evidence: seen() },
        AuditEvent::StepFailed { step, verdict, reason: "leadership was lost".to_owned(), duration, evidence: seen() },
        AuditEvent::StepRefused { step, verdict, reason: "the interface has no link".to_owned(), evidence: seen() },
        AuditEvent::LeaseRenewed { valid_for: duration },
        AuditEvent::CycleRecovered { phase: CyclePhase::Out, outcome: "the manifest is back".to_owned() },
        AuditEvent::SenseLost { sense: "etcd", reason: "cannot read server.key: permission denied".to_owned() },
        AuditEvent::SenseFound { sense: "etcd", lost_for: duration },
        AuditEvent::PauseRecorded(pause()),
        AuditEvent::HangAutopsied { verdict, autopsy: Box::new(autopsy()) },
        AuditEvent::EtcdAlarmRaised { alarms: vec!["memberID:4711 alarm:NOSPACE".to_owned()] },
        AuditEvent::EtcdAlarmCleared { held_for: duration },
        AuditEvent::Diagnosed { verdict: Verdict::NoQuorum, diagnosed: Box::new(diagnosed()) },
        AuditEvent::Recovered(Box::new(recovery::tests::sample())),
        AuditEvent::ApiSilenceBegan { port: 6443, how: "connection refused".to_owned() },
        AuditEvent::ApiSilenceEnded { reason: "it answers again", lasted: duration },
    ]
}

#[test]
fn the_fields_of_every_entry_are_exactly_those_of_the_contract() {
    let journal = Journal::new();
    let audit = journal.audit(true);
    let always = ["FIP_EVENT", "MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER"];
    let own: [&[&str]; EventKind::ALL.len()] = [
        &["FIP_EVIDENCE"],
        &["FIP_REASON"],
        &["FIP_EVIDENCE", "FIP_REASON"],
        &["FIP_EVIDENCE", "FIP_REASON"],
        &["FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_REASON", "FIP_VERDICT", "FIP_VERDICT_FROM"],
        &["FIP_EVIDENCE", "FIP_REASON", "FIP_STEP", "FIP_VERDICT"],
        &["FIP_EVIDENCE", "FIP_STEP", "FIP_VERDICT"],
        &["FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_REASON", "FIP_STEP", "FIP_VERDICT"],
        &["FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_REASON", "FIP_STEP", "FIP_VERDICT"],
        &["FIP_EVIDENCE", "FIP_REASON", "FIP_STEP", "FIP_VERDICT"],
        &["FIP_DURATION_MS", "FIP_STEP"],
        &["FIP_EVIDENCE", "FIP_REASON", "FIP_STEP"],
        &["FIP_EVIDENCE", "FIP_REASON"],
        &["FIP_DURATION_MS", "FIP_EVIDENCE"],
        &["FIP_DURATION_MS", "FIP_EVIDENCE"],
        &["FIP_AUTOPSY", "FIP_CAUSE", "FIP_COMMAND", "FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_REASON", "FIP_VERDICT"],
        &["FIP_EVIDENCE", "FIP_REASON"],
        &["FIP_DURATION_MS"],
        &["FIP_CAUSE", "FIP_COMMAND", "FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_OUTCOME", "FIP_VERDICT"],
        &["FIP_CAUSE", "FIP_DURATION_MS", "FIP_EVIDENCE", "FIP_REASON", "FIP_VERDICT"],
        &["FIP_EVIDENCE", "FIP_REASON"],
        &["FIP_DURATION_MS", "FIP_REASON"],
    ];
    for ((event, kind), own) in every_event().iter().zip(EventKind::ALL).zip(own) {
        assert_eq!(event.kind(), kind);
        audit.emit(event);
        let fields = journal.next();
        let names: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
        assert_eq!(names, always.iter().chain(own).copied().collect(), "{}", kind.name());
        assert_eq!(fields["FIP_EVENT"], kind.name());
        assert_eq!(fields["MESSAGE_ID"], kind.message_id());
        assert_eq!(fields["SYSLOG_IDENTIFIER"], "fip-watchdog");
        if let Some(evidence) = fields.get("FIP_EVIDENCE") {
            assert!(serde_json::from_str::<Value>(evidence).unwrap().is_object());
        }
    }
    assert!(audit.counters().values().all(|count| *count == 1));
}

#[test]
fn a_verdict_change_reads_as_a_sentence() {
    let journal = Journal::new();
    journal.audit(false).emit(&every_event()[4]);
    let fields = journal.next();
    assert_eq!(fields["MESSAGE"], "verdict loop_stalled_fip_missing, after 1.2s of healthy: no finished round for 31s");
    assert_eq!(fields["PRIORITY"], "3");
    assert_eq!(fields["FIP_VERDICT"], "loop_stalled_fip_missing");
    assert_eq!(fields["FIP_VERDICT_FROM"], "healthy");
    assert_eq!(fields["FIP_DURATION_MS"], "1200");
}

#[test]
fn routine_renewals_are_counted_and_written_at_debug_level_alone() {
    let journal = Journal::new();
    let audit = journal.audit(false);
    audit.emit(&AuditEvent::LeaseRenewed { valid_for: Duration::from_secs(10) });
    audit.emit(&AuditEvent::Stopping { reason: "SIGTERM".to_owned() });
    assert_eq!(journal.next()["FIP_EVENT"], "stopping");
    assert_eq!(audit.counters()["lease_renewed"], 1);
}

#[test]
fn a_journal_that_takes_nothing_never_blocks_and_loses_only_beyond_the_backlog() {
    let journal = Journal::new();
    let audit = journal.audit(false);
    // Far more than the queue of a socket (net.unix.max_dgram_qlen) and the backlog hold together.
    let sent: u64 = 5000;
    for number in 0..sent {
        audit.emit(&AuditEvent::Stopping { reason: number.to_string() });
    }
    let lost = audit.lost();
    assert!(lost > 0 && lost < sent);
    let mut received = 0;
    journal.socket.set_nonblocking(true).unwrap();
    let mut last = String::new();
    let mut buffer = [0; 4096];
    loop {
        match journal.socket.recv(&mut buffer) {
            Ok(0) => {}
            Ok(length) => {
                received += 1;
                last = parse(&buffer[..length])["FIP_REASON"].clone();
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                if audit.sinks().journal.as_ref().unwrap().waiting() == 0 {
                    break;
                }
                audit.flush();
            }
        }
    }
    assert_eq!(received + lost, sent);
    assert_eq!(last, (sent - 1).to_string());
}

#[test]
fn an_entry_that_never_fits_is_counted_as_lost_and_holds_nothing_up() {
    let journal = Journal::new();
    let mut socket = JournalSocket::open(&journal.dir.path().join("socket")).unwrap();
    socket.send(vec![b'x'; 64 << 20]);
    socket.send(b"MESSAGE=next\n".to_vec());
    assert_eq!((socket.lost(), socket.waiting()), (1, 0));
    assert_eq!(journal.next()["MESSAGE"], "next");
}

#[test]
fn without_a_journal_a_line_a_person_can_read_is_written() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let audit = Audit::new(None, Some(Box::new(lines.clone())), false);
    audit.emit(&AuditEvent::SenseLost { sense: "etcd", reason: "x\nforged: line".to_owned() });
    assert_eq!(lines.0.lock().unwrap().as_slice(), b"sense_lost: the etcd sense cannot tell: x forged: line\n");
}

#[test]
fn opening_a_journal_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(JournalSocket::open(&dir.path().join("nobody")).is_err());
}

/// An observation as talkative as the types allow.
pub(crate) fn talkative(noise: &str) -> Observation {
    let errors = vec![noise.to_owned(); 1000];
    let status = EtcdStatus { member_id: u64::MAX, leader: u64::MAX, errors, version: noise.to_owned(), ..EtcdStatus::default() };
    Observation {
        etcd: Reading::Fresh { value: EtcdView::Answered(status), at: Moment::default() },
        heartbeat: Reading::Unknown(noise.to_owned()),
        process: Reading::Stale { since: Moment::default() },
        alias: Reading::Fresh {
            value: AliasView {
                entries: vec![AliasEntry { prefix_len: 32, valid_for: None, lent: false }; 1000],
                up: true,
                carrier: true,
            },
            at: Moment::default(),
        },
        manifest: Reading::Fresh {
            value: ManifestView {
                sha256: Some(noise.to_owned()),
                shadows: vec![PathBuf::from(noise); 1000],
                immovable: Some(noise.to_owned()),
            },
            at: Moment::default(),
        },
        kubelet: Reading::Unknown(noise.to_owned()),
        conflict: Reading::Fresh { value: ConflictView::default(), at: Moment::default() },
        api: ApiView::default(),
        expired: None,
        cycle: None,
        in_flight: StepKind::ALL.into_iter().collect(),
        paused: None,
        resumed_at: None,
        strain: StrainView::default(),
        hold_off: None,
    }
}

#[test]
fn evidence_is_bounded_whatever_the_senses_read() {
    let later = Moment::from_origin(Duration::from_secs(7));
    let json = evidence(&talkative(&"\"\u{1}é".repeat(5000)), later).to_string();
    assert!(json.len() < 32 * 1024, "{} bytes", json.len());
    let back: facts::Facts = serde_json::from_str(&json).unwrap();
    assert_eq!(back.process, facts::Sense::Stale { age_ms: 7000 });
    assert!(json.contains(r#""leader":"ffffffffffffffff""#));
}

#[test]
fn every_kind_of_fault_keeps_its_own_name() {
    let mut observation = talkative("x");
    for (fault, name) in [
        (EtcdFault::Refused, "refused"),
        (EtcdFault::TimedOut, "timed_out"),
        (EtcdFault::Tls("bad".to_owned()), "tls"),
        (EtcdFault::Other("odd".to_owned()), "other"),
    ] {
        observation.etcd = Reading::Fresh { value: EtcdView::Unreachable(fault), at: Moment::default() };
        assert_eq!(evidence(&observation, Moment::default())["etcd"]["value"]["fault"], name);
    }
}

#[test]
fn every_message_id_has_a_catalogue_entry_and_no_entry_is_left_over() {
    let catalogue = include_str!("../../systemd/fip-watchdog.catalog");
    let explained: Vec<&str> = catalogue.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
    let ids: BTreeSet<&str> = EventKind::ALL.iter().map(|kind| kind.message_id()).collect();
    assert_eq!(ids.len(), EventKind::ALL.len(), "two kinds share an id");
    assert_eq!(explained.len(), ids.len(), "an id is explained twice");
    assert_eq!(explained.into_iter().collect::<BTreeSet<_>>(), ids);
    assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))));
}

#[test]
fn names_indexes_and_the_list_of_kinds_agree() {
    for (place, kind) in EventKind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), place);
    }
    assert_eq!(EventKind::ALL.iter().map(|kind| kind.name()).collect::<BTreeSet<_>>().len(), EventKind::ALL.len());
}

/// The cells of the row about `kind` in docs/journal.md.
fn documented(kind: EventKind) -> Vec<String> {
    let document = include_str!("../../docs/journal.md");
    let start = format!("| `{}` |", kind.name());
    let row: Vec<&str> = document.lines().filter(|line| line.starts_with(&start)).collect();
    assert_eq!(row.len(), 1, "{} has one row", kind.name());
    row[0].trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn the_reference_of_the_journal_says_what_the_code_does() {
    let always = ["FIP_EVENT", "MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER"];
    for event in every_event() {
        let kind = event.kind();
        let cells = documented(kind);
        assert_eq!(cells[1], format!("`{}`", kind.message_id()));
        if kind != EventKind::VerdictChanged {
            assert_eq!(cells[2], event.priority().number().to_string(), "{}", kind.name());
        }
        let fields = parse(&journald::encode(kind, event.priority(), &event.entry()));
        let own: Vec<String> =
            fields.keys().filter(|name| !always.contains(&name.as_str())).map(|name| format!("`{name}`")).collect();
        assert_eq!(cells[3], own.join(" "), "{}", kind.name());
    }
}

#[test]
fn the_example_in_the_reference_is_an_entry() {
    let document = include_str!("../../docs/journal.md");
    let example = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: BTreeMap<String, String> = serde_json::from_str(example).unwrap();
    let event = &every_event()[4];
    let mut written = parse(&journald::encode(event.kind(), event.priority(), &event.entry()));
    // The order of keys in the evidence is not part of the contract.
    let evidence = |fields: &BTreeMap<String, String>| serde_json::from_str::<Value>(&fields["FIP_EVIDENCE"]).unwrap();
    assert_eq!(evidence(&example), evidence(&written));
    written.insert("FIP_EVIDENCE".to_owned(), example["FIP_EVIDENCE"].clone());
    assert_eq!(example, written);
}
