//! Whole cycles, and other writers in the middle of them.

use std::sync::Mutex;

use super::*;
use crate::actuator::journal::Outcome;

pub(super) struct Told {
    pub(super) outcome: StepOutcome,
    /// How long the manifest was out, in virtual time; `None` where it did not go out and come back by a rename.
    pub(super) out_for: Option<Duration>,
}

/// Notes when the manifest went out and when it came in, in virtual time. A hook and no subscription to the phases: a
/// subscriber sees only the last of two phases that follow each other while it waits for its turn.
#[derive(Default)]
struct Moves {
    staging: PathBuf,
    manifests: PathBuf,
    out: Mutex<Option<Instant>>,
    back: Mutex<Option<Instant>>,
}

impl FaultHook for Moves {
    fn before(&self, call: &'static str, path: &Path) -> Result<(), Fault> {
        let into = path.parent().filter(|_| call == "move a file to");
        let noted = if into == Some(&self.staging) {
            &self.out
        } else if into == Some(&self.manifests) {
            &self.back
        } else {
            return Ok(());
        };
        noted.lock().unwrap().replace(Instant::now());
        Ok(())
    }
}

/// Runs a cycle; `stop_after` counts from the beginning.
pub(super) async fn tell(node: &Node, pod: Pod, beats: bool, stop_after: Option<Duration>) -> Told {
    let (staging, manifests) = (node.settings.staging_dir.clone(), node.settings.wanted.dir().to_owned());
    let moves = Arc::new(Moves { staging, manifests, ..Moves::default() });
    let fs = Fs::with_hook(Arc::clone(&moves) as Arc<dyn FaultHook>);
    let executor = CycleExecutor::with_fs(fs, &node.settings.state_dir);
    let (stop, stopped) = watch::channel(false);
    let stopping = async {
        match stop_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
        stop.send(true).ok();
        std::future::pending::<StepOutcome>().await
    };
    let beats = Beats(beats);
    let outcome = tokio::select! {
        outcome = executor.run(&node.settings, &pod, &beats, stopped) => outcome,
        never = stopping => never,
    };
    assert_eq!(executor.view(), None);
    let (out, back) = (*moves.out.lock().unwrap(), *moves.back.lock().unwrap());
    Told { outcome, out_for: out.zip(back).map(|(out, back)| back - out) }
}

pub(super) fn last(node: &Node) -> Outcome {
    node.log().closed.last().unwrap().outcome
}

/// Virtual time passes in steps of a poll.
pub(super) fn about(time: Option<Duration>, seconds: u64) -> bool {
    time.is_some_and(|time| (Duration::from_secs(seconds)..Duration::from_millis(seconds * 1000 + 500)).contains(&time))
}

#[tokio::test(start_paused = true)]
async fn the_manifest_is_out_until_three_seconds_after_the_pods_end() {
    let node = Node::new();
    let told = tell(&node, Pod::dying_after(5), true, None).await;
    assert_eq!(told.outcome, StepOutcome::Succeeded("process 8, beat read".into()));
    assert!(about(told.out_for, 8), "{:?}", told.out_for);
    assert_eq!(last(&node), Outcome::Verified);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
    assert_eq!(names(&node.settings.backup_dir()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_already_still_means_three_seconds_out() {
    let told = tell(&Node::new(), Pod::dying_after(0), true, None).await;
    assert!(about(told.out_for, 3), "{:?}", told.out_for);
}

#[tokio::test(start_paused = true)]
async fn where_empty_cgroups_stay_behind_the_kubelets_record_gets_a_second_more() {
    let pod = Pod { afterwards: PodState::Empty, ..Pod::dying_after(5) };
    let told = tell(&Node::new(), pod, true, None).await;
    assert!(matches!(told.outcome, StepOutcome::Succeeded(_)));
    assert!(about(told.out_for, 9), "{:?}", told.out_for);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_die_within_grace_and_margin_gets_its_manifest_back() {
    let node = Node::new();
    let told = tell(&node, Pod::dying_after(3600), true, None).await;
    assert!(matches!(&told.outcome, StepOutcome::PodStuck(why) if why.starts_with("pod_stuck") && why.contains("process 7")));
    assert!(about(told.out_for, 20), "grace 5 and margin 15: {:?}", told.out_for);
    assert_eq!(last(&node), Outcome::PodStuck);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_which_nothing_can_be_told_is_not_cycled() {
    let node = Node::new();
    let pod = Pod { afterwards: PodState::Unknown("no uid".into()), ..Pod::dying_after(0) };
    let told = tell(&node, pod, true, None).await;
    assert_eq!(told.outcome, StepOutcome::Refused("cannot tell when the old pod is gone: no uid".into()));
    assert_eq!(names(&node.settings.state_dir), [""; 0], "nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_out_of_sight_while_dying_counts_as_stuck() {
    let pod = Pod { afterwards: PodState::Unknown("cgroup unreadable".into()), ..Pod::dying_after(2) };
    let told = tell(&Node::new(), pod, true, None).await;
    assert!(matches!(&told.outcome, StepOutcome::PodStuck(why) if why.contains("cgroup unreadable")), "{:?}", told.outcome);
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_that_does_not_beat_fails_the_step_and_the_manifest_stays_in() {
    let node = Node::new();
    let told = tell(&node, Pod::dying_after(5), false, None).await;
    assert!(matches!(&told.outcome, StepOutcome::Failed(why) if why.contains("no beat since")));
    assert_eq!(last(&node), Outcome::Unverified);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_puts_the_manifest_back_but_not_before_it_was_out_for_three_seconds() {
    for (stop_after, out_for) in [(1, 3), (10, 10)] {
        let node = Node::new();
        let told = tell(&node, Pod::dying_after(3600), true, Some(Duration::from_secs(stop_after))).await;
        assert!(matches!(told.outcome, StepOutcome::Failed(_)));
        assert!(about(told.out_for, out_for), "{:?}", told.out_for);
        assert_eq!(last(&node), Outcome::Stopped);
        node.is_home(true).and_then(|()| node.is_clean()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_cycle_begins_touches_nothing() {
    let node = Node::new();
    let (_stop, stopped) = watch::channel(true);
    let outcome = node.executor().run(&node.settings, &Pod::dying_after(5), &Beats(true), stopped).await;
    assert_eq!(outcome, StepOutcome::Refused("the daemon stops".into()));
    assert_eq!(names(&node.settings.state_dir), [""; 0]);
}

/// A pod that never dies by itself, during whose death somebody does something, once.
pub(super) fn with_hand(hand: impl Fn() + Send + Sync + 'static, only_when_gone: PathBuf) -> Pod {
    let done = AtomicUsize::new(0);
    let on_look = Box::new(move || {
        if !only_when_gone.exists() && done.fetch_add(1, Ordering::SeqCst) == 0 {
            hand();
        }
    });
    Pod { on_look, ..Pod::dying_after(3600) }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_somebody_puts_there_meanwhile_stays_and_ours_is_kept() {
    let node = Node::new();
    let path = node.manifest().to_owned();
    let told = tell(&node, with_hand(move || put(&path, NEWER), node.manifest().to_owned()), true, None).await;
    assert!(
        matches!(&told.outcome, StepOutcome::Failed(why) if why.contains("theirs") || why.contains("it stays")),
        "{:?}",
        told.outcome
    );
    assert_eq!(last(&node), Outcome::Replaced);
    assert_eq!(std::fs::read(node.manifest()).unwrap(), NEWER);
    assert_eq!(contents(&node.settings.backup_dir()).into_values().collect::<Vec<_>>(), [POD.to_vec()]);
    node.is_clean().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_staging_place_that_is_emptied_meanwhile_is_made_good_from_the_backup() {
    let node = Node::new();
    let dir = node.settings.staging_dir.clone();
    let hand = move || std::fs::remove_dir_all(&dir).unwrap();
    let told = tell(&node, with_hand(hand, node.manifest().to_owned()), true, None).await;
    assert!(matches!(told.outcome, StepOutcome::Failed(_)), "{:?}", told.outcome);
    node.is_home(false).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manifest_directory_that_is_replaced_meanwhile_gets_the_manifest_all_the_same() {
    let node = Node::new();
    let dir = node.settings.wanted.dir().to_owned();
    let hand = move || {
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        put(&dir.join("etcd.yaml"), OTHER);
    };
    let told = tell(&node, with_hand(hand, node.manifest().to_owned()), true, None).await;
    assert!(matches!(told.outcome, StepOutcome::PodStuck(_)), "{:?}", told.outcome);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

/// Puts a newer manifest there right before a rename to this directory.
struct Upgrade {
    manifest: PathBuf,
    before_rename_to: PathBuf,
}

impl FaultHook for Upgrade {
    fn before(&self, call: &'static str, path: &Path) -> Result<(), Fault> {
        if call == "move a file to" && path.parent() == Some(&self.before_rename_to) {
            put(&self.manifest, NEWER);
        }
        Ok(())
    }
}

fn upgrading(node: &Node, before_rename_to: &Path) -> CycleExecutor {
    let hook = Upgrade { manifest: node.manifest().to_owned(), before_rename_to: before_rename_to.to_owned() };
    CycleExecutor::with_fs(Fs::with_hook(Arc::new(hook)), &node.settings.state_dir)
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_upgraded_between_the_last_look_and_the_rename_back_is_not_overwritten() {
    let node = Node::new();
    let outcome = cycle(&node, &upgrading(&node, node.settings.wanted.dir())).await;
    assert!(matches!(&outcome, StepOutcome::Failed(why) if why.contains("ours is kept as")), "{outcome:?}");
    assert_eq!(std::fs::read(node.manifest()).unwrap(), NEWER);
    assert_eq!(last(&node), Outcome::Replaced);
    node.is_clean().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_upgraded_right_before_the_rename_goes_back_as_it_is() {
    let node = Node::new();
    let executor = upgrading(&node, &node.settings.staging_dir);
    let begun = Instant::now();
    let outcome = cycle(&node, &executor).await;
    assert!(matches!(&outcome, StepOutcome::Failed(why) if why.contains("changed while it was taken out")), "{outcome:?}");
    assert!(begun.elapsed() >= Duration::from_secs(3), "back too early counts as a crash");
    assert_eq!(std::fs::read(node.manifest()).unwrap(), NEWER);
    assert_eq!(last(&node), Outcome::Aborted);
    node.is_clean().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_cycle_is_refused_while_one_is_open() {
    let node = Node::new();
    let executor = node.executor();
    let (first, second) = tokio::join!(cycle(&node, &executor), cycle(&node, &executor));
    assert!(matches!(first, StepOutcome::Succeeded(_)));
    assert_eq!(second, StepOutcome::Refused("a manifest cycle is open already".into()));
    assert_eq!(executor.recent().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_journal_stops_every_cycle_and_every_recovery() {
    let node = Node::new();
    assert!(matches!(cycle(&node, &node.executor()).await, StepOutcome::Succeeded(_)));
    let journal = node.settings.state_dir.join("cycle.journal");
    let mut content = std::fs::read(&journal).unwrap();
    content[20] ^= 1;
    put(&journal, &content);
    let executor = node.executor();
    assert!(matches!(cycle(&node, &executor).await, StepOutcome::Refused(why) if why.contains("damaged at line 1")));
    assert!(matches!(executor.recover().await, Err(CycleError::Journal(JournalError::Corrupt { line: 1, .. }))));
    node.is_home(true).unwrap();
}

#[test]
fn a_cycle_can_run_in_a_task_of_its_own() {
    fn is_send<T: Send>(_: &T) {}
    let node = Node::new();
    let executor = node.executor();
    let (_stop, stopped) = watch::channel(false);
    let watch = ProcCgroupWatch::find(&Policy::with_defaults([10, 0, 0, 1].into(), "eth0").watched_loop, None);
    is_send(&executor.run(&node.settings, &watch, &Beats(true), stopped));
    is_send(&executor.recover());
}
