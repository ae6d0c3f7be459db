//! What is started, what is waited for and when to look again, in single looks at a node on which all has been so for long.

use std::time::Duration;

use fip_watchdog::decision::facts::Holding;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    EtcdFault, EtcdStatus, EtcdView, HoldOff, LoopFip, LoopProcess, LoopVerdict, OperatorPause, ProcessView, Quorum, Reading,
    StrainView,
};
use fip_watchdog::decision::plan::{Decision, EtcdDepth, UnsafeReason, WaitingOn};
use fip_watchdog::decision::step::{StepKind, StepOutcome};
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::{Mode, Policy};

use crate::scene::{NOW, Scene, at, fresh, policy};

/// A node that leads, or follows, under a proof, whose alias is so, and whose loop works.
fn node(leads: bool, holding: Holding) -> Scene {
    let mut scene = Scene::of(StepKind::AnnounceAlias);
    let leader = if leads { 1 } else { 2 };
    let status = EtcdStatus { member_id: 1, leader, quorum: Quorum::Confirmed { at: at(NOW - 1) }, ..EtcdStatus::default() };
    scene.observation.etcd = fresh(EtcdView::Answered(status));
    let verdict = if leads { LoopVerdict::Leader } else { LoopVerdict::Follower };
    scene.holding(holding).beat(verdict, LoopFip::Untouched, 1_000);
    scene
}

/// The same with a loop that froze so long ago.
fn frozen(leads: bool, holding: Holding) -> Scene {
    let mut scene = node(leads, holding);
    let Some(ProcessView::Present(process)) = scene.observation.process.fresh().cloned() else { panic!("no process") };
    scene.observation.process = fresh(ProcessView::Present(LoopProcess { progress_at: at(1), ..process }));
    scene.beat(LoopVerdict::Follower, LoopFip::Untouched, NOW - 1);
    scene
}

/// A machine that has looked at the node for the first time so long ago, and has told of its alias.
fn machine(scene: &Scene, policy: &Policy, ago_ms: u64) -> Machine {
    let mut machine = Machine::new(at(0), &[]);
    machine.step(&scene.observation, policy, at(NOW - ago_ms));
    let told = StepOutcome::Succeeded("told".to_owned());
    machine.on_step_finished(StepKind::AnnounceAlias, &told, at(NOW - ago_ms));
    machine
}

fn decide(scene: &Scene, ago_ms: u64) -> Decision {
    machine(scene, &policy(), ago_ms).step(&scene.observation, &policy(), at(NOW))
}

fn pace(decision: &Decision) -> (EtcdDepth, u128) {
    (decision.etcd_depth, decision.next_deadline.since(at(NOW)).as_millis())
}

#[test]
fn a_healthy_node_is_looked_at_calmly_and_waits_for_nothing() {
    for (leads, holding) in [(true, Holding::Held), (false, Holding::Absent)] {
        let decision = decide(&node(leads, holding), 4_000);
        assert_eq!((decision.verdict, decision.start.as_slice()), (Verdict::Healthy, [].as_slice()));
        assert_eq!((decision.waiting_on.as_slice(), pace(&decision)), ([].as_slice(), (EtcdDepth::Status, 1_000)));
    }
}

#[test]
fn a_follower_with_the_fip_says_that_it_waits_for_its_loop_whatever_is_told_of_the_loop() {
    let waits = [WaitingOn::LoopsOwnRound { remaining: Duration::from_secs(12) }];
    let decision = decide(&node(false, Holding::Held), 4_000);
    assert_eq!((decision.verdict, decision.waiting_on.as_slice()), (Verdict::Healthy, waits.as_slice()));
    assert_eq!(pace(&decision), (EtcdDepth::Status, 1_000), "an ordinary change of leader is no reason to ask more often");
    let mut blind = node(false, Holding::Held);
    blind.observation.heartbeat = Reading::Unknown("no log".to_owned());
    let decision = decide(&blind, 4_000);
    assert_eq!((decision.verdict, decision.waiting_on.as_slice()), (Verdict::Unknown, waits.as_slice()));
    let decision = decide(&node(false, Holding::Held), 16_000);
    assert_eq!((decision.verdict, decision.start.as_slice()), (Verdict::FipOrphaned, [StepKind::ReleaseAlias].as_slice()));
    assert!(!decision.waiting_on.iter().any(|wait| matches!(wait, WaitingOn::LoopsOwnRound { .. })), "its time is over");
}

#[test]
fn nobody_waits_for_a_round_while_nothing_is_judged_or_the_end_of_that_time_changes_nothing() {
    let own_round =
        |scene: &Scene| decide(scene, 4_000).waiting_on.iter().any(|wait| matches!(wait, WaitingOn::LoopsOwnRound { .. }));
    let mut paused = node(false, Holding::Held);
    paused.observation.paused = Some(OperatorPause { reason: "work".to_owned(), remaining: Duration::from_secs(60) });
    let mut resumed = node(false, Holding::Held);
    resumed.observation.resumed_at = Some(at(NOW - 3_000));
    let mut waits_for_units = node(false, Holding::Held);
    let hold_off = HoldOff { reason: "a.service is activating".to_owned(), remaining: Duration::from_secs(60) };
    waits_for_units.observation.hold_off = Some(hold_off);
    let mut blind = node(true, Holding::Absent);
    blind.observation.heartbeat = Reading::Unknown("no log".to_owned());
    for scene in [paused, resumed, waits_for_units, blind, frozen(true, Holding::Absent), frozen(false, Holding::Held)] {
        assert!(!own_round(&scene), "{:?}", decide(&scene, 4_000));
    }
}

#[test]
fn a_leader_without_the_fip_waits_for_a_loop_of_which_only_the_log_is_frozen() {
    let mut scene = node(true, Holding::Absent);
    scene.beat(LoopVerdict::Leader, LoopFip::Kept, 60_000);
    let decision = decide(&scene, 4_000);
    assert_eq!(decision.verdict, Verdict::LogStalled);
    assert_eq!(decision.waiting_on, [WaitingOn::LoopsOwnRound { remaining: Duration::from_secs(12) }]);
}

#[test]
fn a_leader_without_the_fip_gives_its_loop_the_rest_of_a_worst_round_and_looks_often_without_a_proof() {
    let decision = decide(&node(true, Holding::Absent), 4_000);
    assert_eq!(decision.verdict, Verdict::Healthy);
    assert_eq!(decision.waiting_on, [WaitingOn::LoopsOwnRound { remaining: Duration::from_secs(12) }]);
    assert_eq!(pace(&decision), (EtcdDepth::Status, 250));
    let decision = decide(&node(true, Holding::Absent), 16_000);
    assert_eq!((decision.verdict, decision.start.as_slice()), (Verdict::FipMissing, [StepKind::ApplyAlias].as_slice()));
    assert_eq!((decision.waiting_on.as_slice(), pace(&decision)), ([].as_slice(), (EtcdDepth::Proof, 250)));
}

#[test]
fn a_round_that_is_overdue_is_looked_at_often() {
    let mut scene = node(true, Holding::Held);
    scene.beat(LoopVerdict::Leader, LoopFip::Kept, 7_001);
    let decision = decide(&scene, 4_000);
    assert_eq!((decision.verdict, pace(&decision)), (Verdict::Healthy, (EtcdDepth::Status, 250)));
}

#[test]
fn a_node_that_starves_is_looked_at_calmly() {
    let mut scene = frozen(true, Holding::Held);
    scene.observation.strain = StrainView { late_ticks: 60, cpu_pressure: None };
    let decision = decide(&scene, 4_000);
    assert_eq!((decision.verdict, pace(&decision)), (Verdict::HostStarved, (EtcdDepth::Status, 1_000)));
}

#[test]
fn an_etcd_that_does_not_answer_is_asked_often_and_for_a_proof() {
    let mut scene = node(true, Holding::Held);
    scene.observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::TimedOut));
    let decision = decide(&scene, 4_000);
    assert_eq!((decision.verdict, pace(&decision)), (Verdict::EtcdUnreachable, (EtcdDepth::Proof, 250)));
}

#[test]
fn what_is_a_matter_for_a_quorum_is_asked_of_it_at_once() {
    let mut scene = frozen(true, Holding::Absent);
    scene.quorum(Quorum::NotAsked);
    let decision = decide(&scene, 60_000);
    assert_eq!((pace(&decision), decision.start.as_slice()), ((EtcdDepth::Proof, 0), [].as_slice()));
    assert_eq!(decision.waiting_on, []);
}

#[test]
fn the_alias_comes_first_and_the_pod_is_touched_after_the_verdict_has_held_for_long_enough() {
    let scene = frozen(true, Holding::Absent);
    assert_eq!(decide(&scene, 60_000).start, [StepKind::ApplyAlias], "one step of a ladder at a time");
    let scene = frozen(false, Holding::Absent);
    let confirm = |remaining| vec![WaitingOn::Confirm { step: StepKind::CycleManifest, remaining }];
    for (ago, remaining) in [(0, 5_000), (4_999, 1)] {
        let decision = decide(&scene, ago);
        assert_eq!(decision.verdict, Verdict::LoopStalledFollower);
        assert_eq!((decision.start, decision.waiting_on), (Vec::new(), confirm(Duration::from_millis(remaining))));
    }
    let decision = decide(&scene, 5_000);
    assert_eq!((decision.start, decision.waiting_on), (vec![StepKind::CycleManifest], Vec::new()));
}

#[test]
fn a_step_waits_for_the_one_that_runs_in_its_own_lane_alone() {
    let mut scene = frozen(true, Holding::Absent);
    scene.observation.in_flight.insert(StepKind::CycleManifest);
    let decision = decide(&scene, 60_000);
    assert_eq!((decision.start, decision.waiting_on), (vec![StepKind::ApplyAlias], Vec::new()));
    scene.observation.in_flight.insert(StepKind::ReleaseAlias);
    let decision = decide(&scene, 60_000);
    let lane = WaitingOn::Lane { step: StepKind::ApplyAlias, running: StepKind::ReleaseAlias };
    assert_eq!((decision.start, decision.waiting_on), (Vec::new(), vec![lane]));
    let mut lease = node(true, Holding::Leased { remaining: Duration::from_secs(1) });
    lease.observation.in_flight.insert(StepKind::AnnounceAlias);
    let decision = decide(&lease, 4_000);
    let lane = WaitingOn::Lane { step: StepKind::RenewAlias, running: StepKind::AnnounceAlias };
    assert_eq!((decision.start, decision.waiting_on), (Vec::new(), vec![lane]));
}

#[test]
fn in_observe_mode_every_step_of_the_ladder_is_named_and_none_is_started() {
    let scene = frozen(true, Holding::Absent);
    let mut policy = policy();
    policy.mode = Mode::Observe;
    let decision = machine(&scene, &policy, 60_000).step(&scene.observation, &policy, at(NOW));
    let named = [StepKind::ApplyAlias, StepKind::CycleManifest].map(|step| WaitingOn::ObserveMode { step });
    assert_eq!((decision.start, decision.waiting_on), (Vec::new(), named.to_vec()));
}

#[test]
fn a_step_that_cools_down_leaves_the_next_one_its_turn() {
    let scene = frozen(true, Holding::Absent);
    let mut machine = machine(&scene, &policy(), 60_000);
    machine.on_step_started(StepKind::ApplyAlias, at(NOW - 400));
    let decision = machine.step(&scene.observation, &policy(), at(NOW));
    let cooldown = WaitingOn::Cooldown { step: StepKind::ApplyAlias, remaining: Duration::from_millis(600) };
    assert_eq!((decision.start, decision.waiting_on), (vec![StepKind::CycleManifest], vec![cooldown]));
}

#[test]
fn a_step_that_would_be_unsafe_is_named_with_its_reason_and_leaves_the_next_one_its_turn() {
    let mut scene = frozen(true, Holding::Absent);
    scene.alias(|view| view.carrier = false);
    let decision = decide(&scene, 60_000);
    let refused = WaitingOn::Refused { step: StepKind::ApplyAlias, reason: UnsafeReason::LinkDown };
    assert_eq!((decision.start, decision.waiting_on), (vec![StepKind::CycleManifest], vec![refused]));
}

#[test]
fn what_a_ladder_need_not_do_is_not_even_waited_for() {
    for (leads, holding, started) in [
        (true, Holding::Held, vec![StepKind::CycleManifest]),
        (false, Holding::Absent, vec![StepKind::CycleManifest]),
        (false, Holding::Held, vec![StepKind::ReleaseAlias]),
        (true, Holding::Absent, vec![StepKind::ApplyAlias]),
    ] {
        let scene = frozen(leads, holding);
        let mut policy = policy();
        let all = [StepKind::ApplyAlias, StepKind::ReleaseAlias, StepKind::AnnounceAlias, StepKind::CycleManifest];
        policy.remedies.values_mut().for_each(|ladder| *ladder = all.to_vec());
        let decision = machine(&scene, &policy, 60_000).step(&scene.observation, &policy, at(NOW));
        assert_eq!((decision.start, decision.waiting_on), (started, Vec::new()), "leads {leads}, {holding:?}");
    }
}

#[test]
fn a_loop_that_is_blind_for_days_is_looked_at_calmly_once_nothing_is_left_to_do() {
    let blind = |leads: bool, holding: Holding| {
        let mut scene = node(leads, holding);
        let mut machine = machine(&scene, &policy(), 60_000);
        for ago in [15_000, 10_000, 5_000, 0] {
            scene.beat(LoopVerdict::QueryFailed("curl exit status 7".to_owned()), LoopFip::Untouched, ago);
            let decision = machine.step(&scene.observation, &policy(), at(NOW - ago));
            if ago == 0 {
                assert_eq!(decision.verdict, Verdict::LoopBlind);
                return (pace(&decision).1, decision.start);
            }
        }
        unreachable!("the last round is now")
    };
    assert_eq!(blind(false, Holding::Absent), (1_000, Vec::new()));
    assert_eq!(blind(true, Holding::Held), (1_000, Vec::new()));
    assert_eq!(blind(true, Holding::Absent), (250, vec![StepKind::ApplyAlias]));
    let leased = Holding::Leased { remaining: Duration::from_secs(9) };
    assert_eq!(blind(true, leased), (250, Vec::new()), "the lease runs out");
}
