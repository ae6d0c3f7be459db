//! The fast cycle: what the kill changes, and what it never does.

use super::story::{about, last, tell};
use super::*;
use crate::actuator::journal::Outcome;

/// The default: 2.5 s after the removal.
fn killing() -> Node {
    let mut node = Node::new();
    node.settings.kill_after = Some(Duration::from_millis(2500));
    node
}

fn becoming(state: PodState) -> Pod {
    Pod { when_killed: Some(state), ..Pod::dying_after(3600) }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_killed_after_two_and_a_half_seconds_makes_a_cycle_of_six() {
    let node = killing();
    let told = tell(&node, becoming(PodState::Gone), true, None).await;
    let text = "process 7 was killed after 2600 ms; process 8, beat read";
    assert_eq!(told.outcome, StepOutcome::Succeeded(text.into()));
    let six = Duration::from_millis(5500)..Duration::from_millis(6200);
    assert!(told.out_for.is_some_and(|time| six.contains(&time)), "{:?}", told.out_for);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_restarted_while_the_manifest_is_out_gets_it_back_after_a_short_wait() {
    let node = killing();
    let told = tell(&node, becoming(PodState::Reborn("process 8".into())), true, None).await;
    assert!(matches!(told.outcome, StepOutcome::Succeeded(_)), "{:?}", told.outcome);
    // 2.6 s until the kill, and RESTARTED_WAIT.
    let short = Duration::from_millis(3500)..Duration::from_millis(4500);
    assert!(told.out_for.is_some_and(|time| short.contains(&time)), "{:?}", told.out_for);
    assert_eq!(last(&node), Outcome::Verified);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_not_even_a_kill_ends_is_stuck_a_margin_after_it_and_gets_its_manifest_back() {
    let node = killing();
    let told = tell(&node, becoming(PodState::Present("process 7".into())), true, None).await;
    assert!(matches!(&told.outcome, StepOutcome::PodStuck(why) if why.contains("was killed") && why.contains("process 7")));
    let margin = Duration::from_millis(17_500)..Duration::from_millis(18_000);
    assert!(told.out_for.is_some_and(|time| margin.contains(&time)), "{:?}", told.out_for);
    assert_eq!(last(&node), Outcome::PodStuck);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_is_not_permitted_leaves_the_pod_its_grace_period() {
    let node = killing();
    let told = tell(&node, Pod::dying_after(12), true, None).await;
    assert!(matches!(&told.outcome, StepOutcome::Succeeded(seen) if seen.contains("EPERM")), "{:?}", told.outcome);
    assert!(about(told.out_for, 15), "{:?}", told.out_for);
}

#[tokio::test(start_paused = true)]
async fn a_killed_pod_after_which_none_comes_is_stuck_too() {
    let node = killing();
    let (_stop, stopped) = watch::channel(false);
    let outcome = node.executor().run(&node.settings, &becoming(PodState::Gone), &Nobody, stopped).await;
    assert!(matches!(&outcome, StepOutcome::PodStuck(why) if why.contains("no new pod came")), "{outcome:?}");
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_killed_once_somebody_else_has_put_a_manifest_there() {
    let node = killing();
    let path = node.manifest().to_owned();
    let born = Instant::now();
    let hand = move || {
        // Between two looks at the manifest's place, which are a second apart.
        if born.elapsed() >= Duration::from_millis(2300) && !path.exists() {
            put(&path, NEWER);
        }
    };
    let pod = Pod { on_look: Box::new(hand), ..becoming(PodState::Gone) };
    let told = tell(&node, pod, true, None).await;
    assert!(matches!(&told.outcome, StepOutcome::Failed(why) if !why.contains("killed")), "{:?}", told.outcome);
    assert_eq!(last(&node), Outcome::Replaced);
    assert_eq!(std::fs::read(node.manifest()).unwrap(), NEWER);
}
