//! A check that cannot fail proves nothing: each is broken here on purpose.

use fip_sim::check::Violation;
use fip_sim::sim::Sim;
use fip_watchdog::audit::AuditEvent;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use std::time::Duration;

/// A calm cluster, a minute old.
fn calm() -> Sim {
    let mut sim = Sim::new(1, Vec::new(), false);
    sim.begin();
    sim.now = 60_000;
    sim
}

#[track_caller]
fn assert_broken(sim: &Sim, invariant: &str) {
    let broken: Vec<&str> = sim.checks.violations.iter().map(|Violation { invariant, .. }| *invariant).collect();
    assert!(broken.contains(&invariant), "{broken:?}");
}

fn proof(sim: &mut Sim, node: usize, age: u64) {
    let now = sim.clocks(node).now.since_origin();
    sim.checks.proved(node, Moment::from_origin(now.saturating_sub(Duration::from_millis(age))));
}

#[test]
fn a_calm_cluster_breaks_nothing() {
    let mut sim = calm();
    sim.check();
    assert_eq!(sim.checks.violations, []);
}

#[test]
fn a_lease_without_a_proof_or_under_an_old_one_breaks_i1() {
    let mut sim = calm();
    sim.lease_given(0, 10_000);
    assert_broken(&sim, "I1");
    let mut sim = calm();
    proof(&mut sim, 0, 2_001);
    sim.lease_given(0, 10_000);
    assert_broken(&sim, "I1");
    let mut sim = calm();
    proof(&mut sim, 0, 1_999);
    sim.lease_given(0, 10_000);
    assert_eq!(sim.checks.violations, []);
}

#[test]
fn a_lease_that_the_kernel_does_not_end_breaks_i1() {
    let mut sim = calm();
    proof(&mut sim, 0, 0);
    sim.lease_given(0, 10_000);
    sim.set_address(0, Some(Some(10_000)));
    sim.now += 11_000;
    sim.check();
    assert_eq!(sim.checks.violations, []);
    sim.now += 1;
    sim.check();
    assert_broken(&sim, "I1");
}

#[test]
fn two_leases_that_reach_each_other_break_i1_when_they_last() {
    let mut sim = calm();
    for _ in 0..5 {
        for node in 0..2 {
            proof(&mut sim, node, 0);
            sim.lease_given(node, 10_000);
            sim.set_address(node, Some(Some(10_000)));
        }
        sim.check();
        sim.now += 4_000;
    }
    assert_broken(&sim, "I1");
}

#[test]
fn a_manifest_that_nobody_has_breaks_i2_and_so_does_an_old_one_over_a_newer() {
    let mut sim = calm();
    sim.nodes[2].manifest.in_place = None;
    sim.check();
    assert_broken(&sim, "I2");
    let mut sim = calm();
    sim.nodes[2].manifest.newest = 2;
    sim.check();
    assert_broken(&sim, "I2");
}

#[test]
fn a_step_on_readings_that_cannot_tell_breaks_i3() {
    for step in [StepKind::ApplyAlias, StepKind::RenewAlias, StepKind::ReleaseAlias, StepKind::CycleManifest] {
        let mut sim = calm();
        sim.step_begins(0, step);
        assert_broken(&sim, "I3");
    }
}

#[test]
fn a_cycle_soon_after_a_standstill_breaks_i4_and_one_soon_after_another_breaks_i5() {
    let mut sim = calm();
    sim.checks.thawed(0, 55_000);
    sim.step_begins(0, StepKind::CycleManifest);
    assert_broken(&sim, "I4");
    let mut sim = calm();
    sim.nodes[0].daemon.cycles.push(10_000);
    sim.step_begins(0, StepKind::CycleManifest);
    assert_broken(&sim, "I5");
}

#[test]
fn another_address_breaks_i6() {
    let mut sim = calm();
    sim.checks.touches(0, "eth0", std::net::Ipv4Addr::new(192, 168, 111, 201));
    assert_broken(&sim, "I6");
}

#[test]
fn a_step_without_an_end_and_a_refusal_without_a_reason_break_i7() {
    let (step, verdict) = (StepKind::ApplyAlias, Verdict::FipMissing);
    let evidence = fip_watchdog::audit::AuditEvent::StepStarted { step, verdict, evidence: Default::default() };
    let mut sim = calm();
    sim.heard(0, &evidence);
    sim.stopped_in_order(0);
    assert_broken(&sim, "I7");
    let mut sim = calm();
    sim.heard(0, &evidence);
    sim.now += 150_001;
    sim.check();
    assert_broken(&sim, "I7");
    let mut sim = calm();
    sim.heard(0, &AuditEvent::StepRefused { step, verdict, reason: " ".to_owned(), evidence: Default::default() });
    assert_broken(&sim, "I7");
}

#[test]
fn a_step_in_observe_mode_breaks_i8() {
    let mut sim = calm();
    sim.checks.adopted(0, &fip_sim::fault::PolicyKind::Observe.policy());
    sim.step_begins(0, StepKind::AnnounceAlias);
    assert_broken(&sim, "I8");
}
