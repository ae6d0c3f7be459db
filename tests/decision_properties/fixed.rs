//! Histories made by hand: bounds that hold for hours, and pauses.

use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::StrainView;
use fip_watchdog::decision::plan::WaitingOn;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;

use crate::history::{Sight, at, observe, policy, walk};

/// A follower whose loop stays frozen whatever is done.
pub fn frozen_follower() -> Sight {
    Sight {
        after_ms: 250,
        times: 1,
        etcd: Some(Ok((false, 2, 2, 0))),
        beat_age_ms: Some(600_000),
        beat_leads: false,
        beat_fails: false,
        beat_removed: false,
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
        strain: StrainView::default(),
        held_off: false,
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

/// A node whose loop finishes a round in each look.
fn working(leads: bool) -> Sight {
    let mut sight = frozen_follower();
    sight.after_ms = 5_000;
    sight.etcd = Some(Ok((false, if leads { 1 } else { 2 }, 2, 0)));
    (sight.beat_age_ms, sight.beat_leads, sight.process) = (Some(0), leads, Some((true, 0, 1)));
    sight
}

#[test]
fn a_blind_loop_is_never_cycled_and_a_leader_without_the_fip_gets_it_at_once() {
    let (mut blind_follower, mut blind_leader) = (working(false), working(true));
    (blind_follower.beat_fails, blind_leader.beat_fails) = (true, true);
    let history = [vec![working(false); 4], vec![blind_follower; 5], vec![blind_leader; 20]].concat();
    let (mut verdicts, mut applied) = (Vec::new(), None);
    walk(&history, &policy(), |_, decision, now| {
        assert!(!decision.start.contains(&StepKind::CycleManifest), "cycled for {}", decision.verdict);
        verdicts.push(decision.verdict);
        if decision.start.contains(&StepKind::ApplyAlias) {
            applied.get_or_insert((now.since_origin().as_secs() - 1_000, decision.reasons[0].clone()));
        }
    });
    assert_eq!(&verdicts[4..7], [Verdict::Healthy, Verdict::Healthy, Verdict::LoopBlind]);
    let (at, reason) = applied.expect("never applied");
    assert_eq!(at, 50, "the first look as leader");
    assert!(reason.contains("the server's certificate is not accepted"), "{reason}");
}

#[test]
fn a_blind_loop_that_takes_the_fip_off_gets_the_time_of_a_worst_round_between_two_applications() {
    let policy = policy();
    let mut machine = Machine::new(at(1_000_000), &[]);
    let (mut is_up, mut applied) = (true, Vec::new());
    for look in 0..4 * 600_u64 {
        let now_ms = 1_000_000 + look * 250;
        let mut fights = working(true);
        // A round every 5 s, and each of them takes the FIP off.
        let since_round = look % 20 * 250;
        is_up &= since_round != 0;
        (fights.beat_fails, fights.beat_removed, fights.beat_age_ms) = (true, true, Some(since_round));
        fights.alias = Some(is_up.then_some(Some(9_000)));
        let decision = machine.step(&observe(&fights, now_ms), &policy, at(now_ms));
        if decision.start.contains(&StepKind::ApplyAlias) {
            machine.on_step_started(StepKind::ApplyAlias, at(now_ms));
            applied.push(now_ms / 1_000);
            is_up = true;
        }
    }
    assert!(applied.len() > 20, "{applied:?}");
    assert!(applied.windows(2).all(|pair| pair[1] - pair[0] >= 16), "{applied:?}");
}

#[test]
fn a_mistaken_loop_on_the_leader_gets_the_alias_put_up_first_and_is_then_cycled() {
    let mut mistaken = working(true);
    mistaken.beat_leads = false;
    let mut held = mistaken.clone();
    held.alias = Some(Some(Some(9_000)));
    let history = [vec![working(false); 4], vec![mistaken; 5], vec![held; 3]].concat();
    let mut steps = Vec::new();
    walk(&history, &policy(), |_, decision, now| {
        let at = now.since_origin().as_secs() - 1_000;
        steps.extend(
            decision.start.iter().filter(|step| **step != StepKind::RenewAlias).map(|step| (*step, decision.verdict, at)),
        );
    });
    let (first, mistaken) = (steps.first().expect("no step"), Verdict::LoopMistaken);
    assert_eq!((first.0, first.1), (StepKind::ApplyAlias, mistaken), "{steps:?}");
    assert!(first.2 >= 25 + 16, "not before the role has been the same for a worst round: {steps:?}");
    assert!(steps.iter().any(|step| step.0 == StepKind::CycleManifest && step.1 == mistaken), "{steps:?}");
}

#[test]
fn a_mistaken_loop_that_puts_the_fip_up_on_a_follower_again_and_again_loses_it_and_is_cycled() {
    let mut holds = working(false);
    (holds.beat_leads, holds.after_ms) = (true, 4_900);
    holds.alias = Some(Some(None));
    let mut released = holds.clone();
    (released.after_ms, released.alias) = (100, Some(None));
    let mut steps = std::collections::BTreeSet::new();
    let history = [vec![working(false); 4], vec![[holds, released]; 12].concat()].concat();
    walk(&history, &policy(), |_, decision, _| steps.extend(decision.start.iter().map(|step| (*step, decision.verdict))));
    assert!(steps.contains(&(StepKind::ReleaseAlias, Verdict::FipOrphaned)), "{steps:?}");
    assert!(steps.contains(&(StepKind::CycleManifest, Verdict::LoopMistaken)), "{steps:?}");
}

#[test]
fn a_loop_that_is_one_round_behind_a_change_of_leader_is_not_mistaken() {
    let mut behind = working(true);
    behind.beat_leads = false;
    let history = [vec![working(false); 4], vec![behind; 2], vec![working(true); 4]].concat();
    walk(&history, &policy(), |_, decision, _| {
        assert_ne!(decision.verdict, Verdict::LoopMistaken);
        assert!(!decision.start.contains(&StepKind::CycleManifest));
    });
}

#[test]
fn a_shadow_is_said_before_it_matters_and_the_alias_path_stays_open_under_it() {
    let (mut calm, mut stalled) = (working(false), frozen_follower());
    (calm.manifest, stalled.manifest) = (Some((true, true, false)), Some((true, true, false)));
    (stalled.after_ms, stalled.etcd) = (5_000, Some(Ok((false, 1, 2, 0))));
    let history = [vec![working(false); 2], vec![calm; 4], vec![stalled; 20]].concat();
    let (mut verdicts, mut applied) = (Vec::new(), false);
    walk(&history, &policy(), |_, decision, _| {
        verdicts.push(decision.verdict);
        assert!(!decision.start.contains(&StepKind::CycleManifest));
        applied |= decision.start.contains(&StepKind::ApplyAlias);
    });
    verdicts.dedup();
    assert_eq!(verdicts, [Verdict::Healthy, Verdict::ManifestShadowed]);
    assert!(applied);
}
