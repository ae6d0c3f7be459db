//! Histories made by hand: bounds that hold for hours, and pauses.

use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::plan::WaitingOn;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;

use crate::history::{Sight, at, observe, policy, walk};

/// A follower whose loop stays frozen whatever is done.
fn frozen_follower() -> Sight {
    Sight {
        after_ms: 250,
        times: 1,
        etcd: Some(Ok((false, 2, 2, 0))),
        beat_age_ms: Some(600_000),
        beat_leads: false,
        process: Some((true, 600_000, 1)),
        alias: Some(None),
        lent: false,
        claim_age_ms: Some(None),
        link: true,
        manifest: Some((true, false, false)),
        kubelet: Some(true),
        sticks: false,
        cycle: false,
        lanes: (false, false),
        paused: false,
        resumed_ago_ms: None,
    }
}

#[test]
fn i5_a_loop_that_freezes_for_ever_is_cycled_in_every_hour_and_never_more_than_allowed() {
    let history = vec![frozen_follower(); 4 * 3600 * 5];
    let mut cycles = Vec::new();
    walk(&history, &policy(), |_, decision, now| {
        if decision.start.contains(&StepKind::CycleManifest) {
            cycles.push(now.since_origin().as_secs() - 1_000);
        }
    });
    for hour in 0..5 {
        let in_the_hour = cycles.iter().filter(|start| **start / 3600 == hour).count();
        assert!((2..=4).contains(&in_the_hour), "hour {hour}: {in_the_hour} cycles, all: {cycles:?}");
    }
}

#[test]
fn i5_a_spent_budget_stays_alarmed_says_until_when_and_is_armed_again_after_the_hour() {
    let hour = 4 * 3600;
    let (mut cycles, mut spent, mut silent) = (Vec::new(), 0, 0);
    walk(&vec![frozen_follower(); 2 * hour], &policy(), |_, decision, now| {
        let at = now.since_origin().as_secs() - 1_000;
        if decision.start.contains(&StepKind::CycleManifest) {
            cycles.push(at);
        }
        let waits =
            decision.waiting_on.iter().any(|wait| matches!(wait, WaitingOn::Budget { step: StepKind::CycleManifest, .. }));
        spent += usize::from(waits);
        let alarmed = fip_watchdog::audit::severity::is_alarmed(decision.verdict);
        silent += usize::from(at > 30 && !(alarmed && (!decision.start.is_empty() || !decision.waiting_on.is_empty())));
    });
    assert_eq!(cycles.iter().filter(|at| **at < 3600).count(), 3, "{cycles:?}");
    assert!(cycles.iter().any(|at| *at >= 3600), "armed again: {cycles:?}");
    assert!(spent > hour / 2, "{spent} rounds say that the budget is spent");
    assert_eq!(silent, 0, "rounds without an alarm or without a reason");
}

#[test]
fn a_pod_that_sticks_is_left_alone_for_a_cooldown_and_its_verdict_ends_with_the_first_beat() {
    let policy = policy();
    let (mut sticks, mut beats) = (frozen_follower(), frozen_follower());
    sticks.sticks = true;
    (beats.beat_age_ms, beats.process) = (Some(0), Some((true, 0, 1)));
    let mut verdicts: Vec<(Verdict, u64)> = Vec::new();
    let history = [vec![sticks; 4 * 200], vec![beats; 4]].concat();
    walk(&history, &policy, |_, decision, now| {
        if verdicts.last().is_none_or(|(last, _)| *last != decision.verdict) {
            verdicts.push((decision.verdict, now.since_origin().as_secs()));
        }
        assert!(decision.verdict != Verdict::PodStuck || !decision.start.contains(&StepKind::CycleManifest));
    });
    let names: Vec<_> = verdicts.iter().map(|(verdict, _)| *verdict).collect();
    let (stalled, stuck) = (Verdict::LoopStalledFollower, Verdict::PodStuck);
    assert_eq!(names, [Verdict::Healthy, stalled, stuck, stalled, stuck, Verdict::Healthy], "{verdicts:?}");
    assert!(verdicts[3].1 - verdicts[2].1 >= policy.limits.cooldown.as_secs() - 1);
}

#[test]
fn without_a_kubelet_the_alias_path_works_and_nothing_is_cycled() {
    let mut leads = frozen_follower();
    (leads.etcd, leads.kubelet) = (Some(Ok((false, 1, 2, 0))), Some(false));
    let (mut applied, mut last) = (false, Verdict::Starting);
    walk(&vec![leads; 4 * 60], &policy(), |_, decision, _| {
        assert!(!decision.start.contains(&StepKind::CycleManifest));
        applied |= decision.start.contains(&StepKind::ApplyAlias);
        last = decision.verdict;
    });
    assert!(applied);
    assert_eq!(last, Verdict::KubeletDown);
}

#[test]
fn i4_a_pause_of_the_daemon_voids_ages_and_a_stall_after_it_is_still_found() {
    let resumed_at = 2_000_000_u64;
    let mut machine = Machine::new(at(1_000_000), &[]);
    let mut first_cycle = None;
    for now_ms in (resumed_at..resumed_at + 60_000).step_by(250) {
        let mut sight = frozen_follower();
        sight.resumed_ago_ms = Some(now_ms - resumed_at);
        let decision = machine.step(&observe(&sight, now_ms), &policy(), at(now_ms));
        if decision.start.contains(&StepKind::CycleManifest) {
            first_cycle.get_or_insert(now_ms - resumed_at);
        }
    }
    let first_cycle = first_cycle.expect("the stall was never found");
    assert!(first_cycle >= 25_000, "cycled {first_cycle} ms after a pause, on ages from before it");
}
