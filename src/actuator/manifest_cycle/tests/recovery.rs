//! What a start makes of every state that an earlier life can leave.

use super::*;
use crate::actuator::journal::{Intent, Outcome, PhaseMark, Record, Stamp, hex, sha256_hex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    None,
    Ours,
    Other,
    /// A directory in place, a link in staging.
    Odd,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    place: There,
    staged: There,
    phase: Option<PhaseMark>,
    same_boot: bool,
    backup: There,
}

/// Every combination.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [There::None, There::Ours, There::Other, There::Odd] {
        for staged in [There::None, There::Ours, There::Other, There::Odd] {
            for phase in [None, Some(PhaseMark::Out), Some(PhaseMark::Back)] {
                for same_boot in [true, false] {
                    for backup in [There::None, There::Ours, There::Other] {
                        cases.push(Case { place, staged, phase, same_boot, backup });
                    }
                }
            }
        }
    }
    cases
}

/// The table in `recover`'s head, written a second time.
fn expected(case: Case) -> Outcome {
    use There::{None as No, Odd, Other, Ours};
    match (case.place, case.staged, case.phase) {
        (Ours, _, None) => Outcome::NotMoved,
        (Ours, _, Some(_)) => Outcome::RecoveredInPlace,
        (Other | Odd, _, _) => Outcome::Replaced,
        (No, Ours | Other, _) => Outcome::RecoveredPutBack,
        (No, No | Odd, Some(PhaseMark::Back)) => Outcome::RemovedByOther,
        (No, No | Odd, None) if case.same_boot => Outcome::RemovedByOther,
        (No, No | Odd, _) if case.backup == Ours => Outcome::RecoveredFromBackup,
        (No, No | Odd, _) => Outcome::Lost,
    }
}

/// Makes the state of a case.
fn arrange(node: &Node, case: Case) -> Intent {
    let (manifest, staged, backup) = (node.manifest(), node.staged(), node.settings.backup_dir().join("kept"));
    for dir in [&node.settings.staging_dir, &node.settings.state_dir, &node.settings.backup_dir()] {
        std::fs::create_dir(dir).unwrap();
    }
    match case.staged {
        There::None => {}
        // The very inode with its metadata.
        There::Ours => assert!(std::process::Command::new("cp").arg("-a").args([manifest, &staged]).status().unwrap().success()),
        There::Other => put(&staged, NEWER),
        There::Odd => std::os::unix::fs::symlink("/etc/hostname", &staged).unwrap(),
    }
    match case.place {
        There::Ours => {}
        There::None => std::fs::remove_file(manifest).unwrap(),
        There::Other => put(manifest, b"theirs"),
        There::Odd => std::fs::remove_file(manifest).and_then(|()| std::fs::create_dir(manifest)).unwrap(),
    }
    match case.backup {
        There::None | There::Odd => {}
        There::Ours => put(&backup, POD),
        There::Other => put(&backup, &POD[..10]),
    }
    let mut at = stamp().unwrap();
    if !case.same_boot {
        at.boot_id = "another".to_owned();
    }
    // Long enough out not to wait.
    at.boottime_ms = at.boottime_ms.saturating_sub(60_000);
    intent(node, at, backup)
}

fn intent(node: &Node, at: Stamp, backup: PathBuf) -> Intent {
    Intent {
        id: 1,
        manifest: node.manifest().to_owned(),
        staging: node.staged(),
        backup,
        sha256: sha256_hex(POD),
        size: 0,
        mode: 0o640,
        uid: 12,
        gid: 34,
        xattrs: BTreeMap::from([("user.note".to_owned(), hex(b"\x00kept\xff"))]),
        pod: PodRecord::default(),
        settle_ms: 3000,
        at,
    }
}

fn journal(node: &Node, intent: &Intent, phase: Option<PhaseMark>) {
    let journal = Journal::new(Fs::default(), &node.settings.state_dir);
    journal.append(&Record::Intent(Box::new(intent.clone()))).unwrap();
    if let Some(phase) = phase {
        journal.append(&Record::Phase { id: 1, phase: PhaseMark::Out, at: intent.at.clone() }).unwrap();
        if phase == PhaseMark::Back {
            journal.append(&Record::Phase { id: 1, phase, at: intent.at.clone() }).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_combination_of_place_staging_phase_boot_and_backup_ends_as_the_table_says() {
    for case in cases() {
        let node = Node::new();
        let intent = arrange(&node, case);
        let theirs = contents(node.settings.wanted.dir());
        journal(&node, &intent, case.phase);
        let recovered = node.executor().recover().await.unwrap().unwrap();
        assert_eq!(recovered.outcome, expected(case), "{case:?}: {}", recovered.detail);
        assert_eq!(node.log().open, None, "{case:?}");
        let there = contents(node.settings.wanted.dir());
        match recovered.outcome {
            Outcome::RecoveredPutBack if case.staged == There::Other => assert_eq!(there[FILE], NEWER, "{case:?}"),
            Outcome::NotMoved | Outcome::RecoveredInPlace => node.is_home(true).unwrap(),
            Outcome::RecoveredPutBack | Outcome::RecoveredFromBackup => node.is_home(false).unwrap(),
            Outcome::Verified
            | Outcome::Unverified
            | Outcome::PodStuck
            | Outcome::Stopped
            | Outcome::Aborted
            | Outcome::Replaced
            | Outcome::RemovedByOther
            | Outcome::Lost => assert_eq!(there, theirs, "{case:?}: what others put there, or took away, is left alone"),
        }
        let expected_staging: &[&str] = if case.staged == There::Odd { &[FILE] } else { &[] };
        assert_eq!(names(&node.settings.staging_dir), expected_staging, "{case:?}");
        let only_copy = case.staged == There::Other && case.place != There::None;
        let kept = contents(&node.settings.backup_dir());
        assert!(!only_copy || kept.values().any(|content| content == NEWER), "{case:?}: the staged copy is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_right_after_the_rename_leaves_the_manifest_out_for_the_rest_of_the_settle_time() {
    let node = Node::new();
    let case =
        Case { place: There::None, staged: There::Ours, phase: Some(PhaseMark::Out), same_boot: true, backup: There::Ours };
    let mut intent = arrange(&node, case);
    intent.at = stamp().unwrap();
    // Long against the real time that a busy disk may take for the journal.
    intent.settle_ms = 25_000;
    journal(&node, &intent, case.phase);
    let begun = Instant::now();
    let executor = node.executor();
    let mut phases = executor.subscribe();
    let (recovered, first) = tokio::join!(executor.recover(), async {
        phases.changed().await.unwrap();
        phases.borrow_and_update().clone()
    });
    assert_eq!(first, Some(CycleView { phase: CyclePhase::Out }));
    assert_eq!(recovered.unwrap().unwrap().outcome, Outcome::RecoveredPutBack);
    // Virtual time, less the real time that has passed since the stamp.
    assert!((Duration::from_secs(1)..=Duration::from_secs(26)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_open_entry_is_finished_before_a_new_cycle_and_counts_for_the_cooldown() {
    let node = Node::new();
    let case =
        Case { place: There::None, staged: There::Ours, phase: Some(PhaseMark::Out), same_boot: true, backup: There::Ours };
    let intent = arrange(&node, case);
    journal(&node, &intent, case.phase);
    let executor = node.executor();
    let outcome = cycle(&node, &executor).await;
    assert!(matches!(outcome, StepOutcome::Refused(why) if why.starts_with("finished cycle 1 first")));
    let recent = executor.recent().await.unwrap();
    assert_eq!((recent.len(), recent[0].outcome), (1, Some(Outcome::RecoveredPutBack)));
    assert!(recent[0].age >= Duration::from_secs(60) && recent[0].age < Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_journal_cut_at_any_byte_while_the_manifest_is_out_never_loses_it() {
    let case =
        Case { place: There::None, staged: There::Ours, phase: Some(PhaseMark::Out), same_boot: true, backup: There::Ours };
    for cut in 0.. {
        let node = Node::new();
        let intent = arrange(&node, case);
        journal(&node, &intent, case.phase);
        let path = node.settings.state_dir.join("cycle.journal");
        let whole = std::fs::read(&path).unwrap();
        // The intent was acknowledged before the rename, so it is never cut.
        let len = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1 + cut;
        if len > whole.len() {
            assert!(cut > 50, "the second record is cut at each byte");
            return;
        }
        put(&path, &whole[..len]);
        node.executor().recover().await.unwrap().unwrap();
        node.is_home(false).and_then(|()| node.is_clean()).unwrap_or_else(|fault| panic!("cut at {len}: {fault}"));
    }
}

#[tokio::test(start_paused = true)]
async fn recovery_with_nothing_open_writes_nothing() {
    let node = Node::new();
    assert_eq!(node.executor().recover().await.unwrap(), None);
    assert_eq!(names(node.root.path()), ["manifests"]);
}

/// As a unit without CAP_CHOWN and CAP_SYS_ADMIN.
struct Unprivileged;

impl FaultHook for Unprivileged {
    fn before(&self, call: &'static str, _: &Path) -> Result<(), Fault> {
        let denied = call.starts_with("set the owner") || call.starts_with("set an attribute");
        if denied { Err(Fault { errno: Errno::PERM, half_done: false }) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_whose_owner_may_not_be_set_is_restored_all_the_same() {
    let node = Node::new();
    let case =
        Case { place: There::None, staged: There::None, phase: Some(PhaseMark::Out), same_boot: true, backup: There::Ours };
    let intent = arrange(&node, case);
    journal(&node, &intent, case.phase);
    let executor = CycleExecutor::with_fs(Fs::with_hook(Arc::new(Unprivileged)), &node.settings.state_dir);
    assert_eq!(executor.recover().await.unwrap().unwrap().outcome, Outcome::RecoveredFromBackup);
    assert_eq!(std::fs::read(node.manifest()).unwrap(), POD);
    node.is_clean().unwrap();
}
