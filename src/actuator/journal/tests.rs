//! The journal on disk: torn tails, damage at every byte, compaction.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use super::*;

fn stamp(boot: &str, second: u64) -> Stamp {
    Stamp { boot_id: boot.to_owned(), boottime_ms: second * 1000, wall_ms: 1_800_000_000_000 }
}

fn intent(id: u64, at: Stamp) -> Intent {
    Intent {
        id,
        manifest: "/etc/kubernetes/manifests/wcp-fip.yaml".into(),
        staging: "/etc/kubernetes/fip-watchdog.staging/wcp-fip.yaml".into(),
        backup: format!("/nowhere/wcp-fip.yaml.{id}").into(),
        sha256: sha256_hex(b"content"),
        size: 7,
        mode: 0o600,
        uid: 0,
        gid: 0,
        xattrs: BTreeMap::from([("user.note".to_owned(), hex(b"\x00\xff"))]),
        pod: PodRecord { namespace: "kube-system".into(), name: "wcp-fip".into(), uids: vec![], process: Some((42, 99)) },
        settle_ms: 3000,
        at,
    }
}

fn run_cycle(journal: &Journal, id: u64, at: Stamp) {
    journal.append(&Record::Intent(Box::new(intent(id, at.clone())))).unwrap();
    journal.append(&Record::Phase { id, phase: PhaseMark::Out, at: at.clone() }).unwrap();
    journal.append(&Record::Phase { id, phase: PhaseMark::Back, at: at.clone() }).unwrap();
    journal.close(id, Outcome::Verified, "new process 7, beat after 3 s", at).unwrap();
}

fn journal() -> (tempfile::TempDir, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(Fs::default(), &dir.path().join("state"));
    (dir, journal)
}

fn replace(journal: &Journal, content: &[u8]) {
    std::fs::File::create(journal.path()).unwrap().write_all(content).unwrap();
}

#[test]
fn a_journal_that_does_not_exist_is_empty_and_reading_it_creates_nothing() {
    let (dir, journal) = journal();
    assert_eq!(journal.load().unwrap(), Log::default());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_was_appended_is_read_again() {
    let (_dir, journal) = journal();
    run_cycle(&journal, 1, stamp("a", 10));
    journal.append(&Record::Intent(Box::new(intent(2, stamp("a", 20))))).unwrap();
    let log = journal.load().unwrap();
    assert_eq!(log.closed[0].intent, intent(1, stamp("a", 10)));
    assert_eq!(log.closed[0].outcome, Outcome::Verified);
    assert_eq!(log.open.as_ref().unwrap().intent, intent(2, stamp("a", 20)));
    assert_eq!(log.next_id(), 3);
}

#[test]
fn a_journal_truncated_at_any_byte_is_a_prefix_of_what_was_acknowledged_and_takes_new_records() {
    let (_dir, journal) = journal();
    run_cycle(&journal, 1, stamp("a", 10));
    let whole = std::fs::read(journal.path()).unwrap();
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    for len in 0..=whole.len() {
        replace(&journal, &whole[..len]);
        let records = ends.iter().filter(|end| **end <= len).count();
        let log = journal.load().unwrap();
        assert_eq!(log.closed.len(), usize::from(records == 4), "at byte {len}");
        assert_eq!(log.open.is_some(), (1..4).contains(&records), "at byte {len}");
        if records == 0 {
            journal.append(&Record::Intent(Box::new(intent(2, stamp("a", 20))))).unwrap();
            assert_eq!(journal.load().unwrap().open.unwrap().intent.id, 2, "at byte {len}");
        } else if records < 4 {
            journal.close(1, Outcome::Aborted, "cut", stamp("a", 30)).unwrap();
            assert_eq!(journal.load().unwrap().closed.len(), 1, "at byte {len}");
        }
    }
}

#[test]
fn a_changed_byte_before_the_tail_is_an_error_that_names_the_line() {
    let (_dir, journal) = journal();
    run_cycle(&journal, 1, stamp("a", 10));
    let whole = std::fs::read(journal.path()).unwrap();
    for index in 0..whole.len() - 1 {
        let mut damaged = whole.clone();
        damaged[index] ^= 1;
        replace(&journal, &damaged);
        let line = 1 + whole[..index].iter().filter(|b| **b == b'\n').count();
        match journal.load() {
            Err(JournalError::Corrupt { line: named, .. }) => assert_eq!(named, line, "at byte {index}"),
            Err(error @ (JournalError::Io(_) | JournalError::Unwritable(_))) => panic!("at byte {index}: {error}"),
            Ok(log) => panic!("damage at byte {index} went unnoticed: {log:?}"),
        }
    }
}

#[test]
fn records_that_cannot_follow_each_other_are_damage() {
    let (_dir, journal) = journal();
    journal.append(&Record::Intent(Box::new(intent(1, stamp("a", 1))))).unwrap();
    journal.append(&Record::Intent(Box::new(intent(2, stamp("a", 2))))).unwrap();
    assert!(matches!(journal.load(), Err(JournalError::Corrupt { line: 2, .. })));
}

#[test]
fn the_journal_and_its_backups_stay_bounded() {
    let (dir, journal) = journal();
    let backups = dir.path().join("backups");
    std::fs::create_dir(&backups).unwrap();
    for id in 1..=200 {
        let mut begin = intent(id, stamp("a", id));
        begin.backup = backups.join(format!("b{id}"));
        std::fs::File::create(&begin.backup).unwrap();
        journal.append(&Record::Intent(Box::new(begin))).unwrap();
        journal.close(id, Outcome::Verified, "ok", stamp("a", id)).unwrap();
        let log = journal.load().unwrap();
        assert!(log.closed.len() < COMPACT_AT);
        assert_eq!(log.next_id(), id + 1);
        assert_eq!(std::fs::read_dir(&backups).unwrap().count(), log.closed.len());
    }
}

fn ages(log: &Log, now: u64, boot: &str) -> Vec<u64> {
    log.recent(Duration::from_secs(now), boot).iter().map(|past| past.age.as_secs()).collect()
}

#[test]
fn ages_of_this_boot_are_differences_of_boottime() {
    let (_dir, journal) = journal();
    run_cycle(&journal, 1, stamp("a", 100));
    run_cycle(&journal, 2, stamp("a", 400));
    assert_eq!(ages(&journal.load().unwrap(), 500, "a"), [100, 400]);
}

#[test]
fn ages_of_an_earlier_boot_are_at_least_this_boot_and_keep_their_distance() {
    let (_dir, journal) = journal();
    run_cycle(&journal, 1, stamp("a", 1000));
    run_cycle(&journal, 2, stamp("b", 50));
    run_cycle(&journal, 3, stamp("b", 4000));
    run_cycle(&journal, 4, stamp("c", 20));
    // 4: 30 - 20. 3: uptime. 2: uptime + 3950. 1: uptime + the 4000 s of boot b.
    assert_eq!(ages(&journal.load().unwrap(), 30, "c"), [10, 30, 3980, 4030]);
}

#[test]
fn a_cycle_that_moved_nothing_does_not_count() {
    let (_dir, journal) = journal();
    journal.append(&Record::Intent(Box::new(intent(1, stamp("a", 1))))).unwrap();
    journal.close(1, Outcome::NotMoved, "changed meanwhile", stamp("a", 1)).unwrap();
    assert_eq!(ages(&journal.load().unwrap(), 5, "a"), [0_u64; 0]);
}
