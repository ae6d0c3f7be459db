//! A node that starves, and a node that has just booted: what is not judged, what is done all the same, and until when.

use fip_watchdog::decision::observation::StrainView;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::Policy;

use crate::fixed::frozen_follower;
use crate::history::{Sight, policy, walk};

const LATE: StrainView = StrainView { late_ticks: 3, cpu_pressure: None };

/// Something, and the second in which it came.
type Second<T> = (T, u64);

/// Four looks a second.
fn seconds(sight: &Sight, count: usize) -> Vec<Sight> {
    vec![sight.clone(); 4 * count]
}

/// When each step began and each verdict came, in seconds.
fn run(history: &[Sight], policy: &Policy) -> (Vec<Second<StepKind>>, Vec<Second<Verdict>>) {
    let (mut steps, mut verdicts) = (Vec::new(), Vec::new());
    walk(history, policy, |_, decision, now| {
        let second = now.since_origin().as_secs() - 1_000;
        steps.extend(decision.start.iter().map(|step| (*step, second)));
        if verdicts.last().is_none_or(|(verdict, _)| *verdict != decision.verdict) {
            verdicts.push((decision.verdict, second));
        }
    });
    (steps, verdicts)
}

#[test]
fn case_24_a_loop_that_looks_frozen_on_a_node_that_starves_is_observed() {
    let pressed = |percent| StrainView { late_ticks: 0, cpu_pressure: Some(percent) };
    for (strain, starves) in [(LATE, true), (pressed(96), true), (pressed(95), false), (StrainView::default(), false)] {
        let sight = Sight { strain, ..frozen_follower() };
        let (steps, verdicts) = run(&seconds(&sight, 120), &policy());
        let last = verdicts.last().unwrap().0;
        assert_eq!(last == Verdict::HostStarved, starves, "{strain:?}: {verdicts:?}");
        assert_eq!(steps.is_empty(), starves, "{strain:?}: {steps:?}");
    }
}

#[test]
fn a_loop_that_beats_on_a_node_that_starves_is_healthy() {
    let sight = Sight { strain: LATE, beat_age_ms: Some(4_000), process: Some((true, 1_000, 1)), ..frozen_follower() };
    let (steps, verdicts) = run(&seconds(&sight, 120), &policy());
    assert_eq!((steps, verdicts.last().unwrap().0), (Vec::new(), Verdict::Healthy));
}

#[test]
fn a_fip_that_is_missing_on_a_node_that_starves_is_put_up_after_one_worst_round() {
    let sight = Sight { strain: LATE, etcd: Some(Ok((false, 1, 2, 0))), ..frozen_follower() };
    let (steps, _) = run(&seconds(&sight, 120), &policy());
    let (first, second) = *steps.first().expect("nothing was done");
    assert_eq!(first, StepKind::ApplyAlias);
    assert!((16..=17).contains(&second), "after {second} s");
    assert!(steps.iter().all(|(step, _)| *step != StepKind::CycleManifest));
}

#[test]
fn when_a_node_starves_no_more_its_loops_silence_counts_from_zero() {
    let (calm, policy) = (frozen_follower(), policy());
    let starving = Sight { strain: LATE, ..calm.clone() };
    let (steps, verdicts) = run(&[seconds(&starving, 120), seconds(&calm, 120)].concat(), &policy);
    // 30 s calm, 20 s of silence, 5 s to confirm.
    let (step, second) = *steps.first().expect("the stall was never found");
    assert_eq!(step, StepKind::CycleManifest);
    assert!((174..=176).contains(&second), "after {second} s: {verdicts:?}");
}

#[test]
fn strain_that_comes_and_goes_is_one_and_says_so_once() {
    let calm = frozen_follower();
    let starving = Sight { strain: LATE, ..calm.clone() };
    let history: Vec<Sight> = (0..20).flat_map(|_| [seconds(&starving, 1), seconds(&calm, 15)].concat()).collect();
    let (steps, verdicts) = run(&history, &policy());
    assert!(steps.is_empty(), "{steps:?}");
    assert_eq!(verdicts.iter().filter(|(verdict, _)| *verdict == Verdict::HostStarved).count(), 1, "{verdicts:?}");
}

#[test]
fn a_frozen_loop_on_a_node_that_starves_for_ever_is_cycled_in_the_end() {
    let sight = Sight { strain: LATE, ..frozen_follower() };
    let (steps, verdicts) = run(&seconds(&sight, 700), &policy());
    let (step, second) = *steps.first().expect("the stall was never found");
    assert_eq!(step, StepKind::CycleManifest);
    assert!((624..=627).contains(&second), "after {second} s: {verdicts:?}");
}

#[test]
fn while_units_are_waited_for_after_a_boot_nothing_is_judged_and_ages_count_from_then_on() {
    let leads = Sight { etcd: Some(Ok((false, 1, 2, 0))), beat_age_ms: None, process: None, ..frozen_follower() };
    let held_off = Sight { held_off: true, ..leads.clone() };
    let (steps, verdicts) = run(&[seconds(&held_off, 200), seconds(&leads, 10)].concat(), &policy());
    assert_eq!((steps, verdicts), (Vec::new(), vec![(Verdict::Starting, 0)]));
    let frozen = Sight { etcd: Some(Ok((false, 1, 2, 0))), ..frozen_follower() };
    let held_off = Sight { held_off: true, ..frozen.clone() };
    let (steps, _) = run(&[seconds(&held_off, 200), seconds(&frozen, 60)].concat(), &policy());
    let (first, second) = *steps.first().expect("nothing was done");
    assert_eq!(first, StepKind::ApplyAlias);
    assert!((216..=221).contains(&second), "after {second} s");
}

#[test]
fn our_own_lease_goes_on_while_units_are_waited_for() {
    let leased = Some(Some(Some(4_000)));
    let sight = Sight { held_off: true, etcd: Some(Ok((false, 1, 2, 0))), alias: leased, ..frozen_follower() };
    let (steps, _) = run(&seconds(&sight, 5), &policy());
    assert!(steps.iter().any(|(step, _)| *step == StepKind::RenewAlias), "{steps:?}");
}
