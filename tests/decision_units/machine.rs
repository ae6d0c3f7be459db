//! What the machine is asked beside its decisions: when the daemon ends, and what it keeps for the next one. And by which
//! names its words go.

use std::time::Duration;

use fip_watchdog::decision::facts::Holding;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{EtcdStatus, EtcdView, ManifestView, Quorum, Reading};
use fip_watchdog::decision::plan::WaitingOn;
use fip_watchdog::decision::step::{Lane, StepKind, StepOutcome};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::Mode;

use crate::scene::{NOW, Scene, at, fresh, policy};

/// A proven leader with a lease of ours that ends so soon, as changed.
fn stopping(lease_left_ms: u64, mode: Mode, change: impl FnOnce(&mut Scene)) -> Option<StepKind> {
    let mut scene = Scene::of(StepKind::RenewAlias);
    scene.holding(Holding::Leased { remaining: Duration::from_millis(lease_left_ms) });
    change(&mut scene);
    let mut policy = policy();
    policy.mode = mode;
    Machine::new(at(0), &[]).renewal_while_stopping(&scene.observation, &policy, at(NOW))
}

#[test]
fn while_the_end_of_the_daemon_waits_a_lease_is_renewed_from_its_half_life_on_under_a_proof() {
    let renewed = Some(StepKind::RenewAlias);
    assert_eq!(stopping(5_000, Mode::Enforce, |_| ()), renewed);
    assert_eq!(stopping(5_001, Mode::Enforce, |_| ()), None, "not due");
    assert_eq!(stopping(5_000, Mode::Observe, |_| ()), None);
    for quorum in [Quorum::NotAsked, Quorum::Denied("why".to_owned()), Quorum::Confirmed { at: at(NOW - 2_001) }] {
        let unproven = |scene: &mut Scene| {
            scene.quorum(quorum.clone());
        };
        assert_eq!(stopping(1_000, Mode::Enforce, unproven), None, "{quorum:?}");
    }
    let unseen = |scene: &mut Scene| scene.observation.alias = Reading::Unknown("blind".to_owned());
    assert_eq!(stopping(1_000, Mode::Enforce, unseen), None);
}

#[test]
fn a_daemon_that_only_observes_leaves_a_lease_that_it_finds_to_its_end() {
    let mut scene = Scene::of(StepKind::HandOverAlias);
    scene.holding(Holding::Lent { remaining: Duration::from_secs(5) });
    for (mode, step) in [(Mode::Enforce, Some(StepKind::HandOverAlias)), (Mode::Observe, None)] {
        let mut policy = policy();
        policy.mode = mode;
        assert_eq!(Machine::new(at(0), &[]).farewell(&scene.observation, &policy, at(NOW)), step);
    }
}

#[test]
fn applications_that_were_refused_cost_nothing_of_the_hour_and_those_that_failed_do() {
    let (refused, failed) = (StepOutcome::Refused("not proven".to_owned()), StepOutcome::Failed("undone".to_owned()));
    for (outcome, goes_on) in [(refused, true), (failed, false)] {
        let mut scene = Scene::of(StepKind::ApplyAlias);
        let mut machine = Machine::new(at(0), &[]);
        machine.step(&scene.observation, &policy(), at(0));
        for attempt in 1..=u64::from(policy().limits.alias_per_hour) {
            let then = at(NOW - 1_000 * attempt);
            machine.on_step_started(StepKind::ApplyAlias, then);
            machine.on_step_finished(StepKind::ApplyAlias, &outcome, then);
        }
        let decision = machine.step(&scene.quorum(Quorum::Confirmed { at: at(NOW) }).observation, &policy(), at(NOW));
        let spent = |wait: &WaitingOn| matches!(wait, WaitingOn::Budget { step: StepKind::ApplyAlias, .. });
        let what = (decision.start.contains(&StepKind::ApplyAlias), decision.waiting_on.iter().any(spent));
        assert_eq!(what, (goes_on, !goes_on), "{outcome:?}: {decision:?}");
    }
}

#[test]
fn the_content_under_which_the_loop_has_beaten_outlives_the_process_and_tells_another_from_it() {
    let machine = Machine::new(at(0), &[]);
    assert_eq!(machine.known_good(), None);
    let mut machine = machine.knowing(Some("aa".to_owned()));
    assert_eq!(machine.known_good(), Some("aa"));
    let mut scene = Scene::of(StepKind::AnnounceAlias);
    let content = |sha256: &str| fresh(ManifestView { sha256: Some(sha256.to_owned()), shadows: Vec::new(), immovable: None });
    for (sha256, verdict) in [("aa", Verdict::Healthy), ("bb", Verdict::ManifestChanged), ("aa", Verdict::Healthy)] {
        scene.observation.manifest = content(sha256);
        assert_eq!(machine.step(&scene.observation, &policy(), at(NOW)).verdict, verdict, "{sha256}");
        assert_eq!(machine.verdict_since(), (verdict, at(NOW)));
    }
}

#[test]
fn an_alarm_of_the_cluster_is_told_from_what_else_etcd_reports() {
    let errors = ["etcdserver: no leader", " memberID:4711 alarm:NOSPACE ", "memberID:4712 alarm:CORRUPT"].map(str::to_owned);
    let status = EtcdStatus { errors: errors.to_vec(), ..EtcdStatus::default() };
    assert_eq!(status.alarms().collect::<Vec<_>>(), ["memberID:4711 alarm:NOSPACE", "memberID:4712 alarm:CORRUPT"]);
}

#[test]
fn only_a_quorums_yes_confirms_and_a_learner_or_a_member_without_an_id_never_leads() {
    let status = |member_id, leader, learner, quorum| EtcdStatus { member_id, leader, learner, quorum, ..EtcdStatus::default() };
    for (quorum, confirmed) in
        [(Quorum::NotAsked, false), (Quorum::Denied("why".to_owned()), false), (Quorum::Confirmed { at: at(0) }, true)]
    {
        assert_eq!(status(1, 1, false, quorum).is_confirmed(), confirmed);
    }
    for (member_id, leader, learner, leads) in
        [(1, 1, false, true), (1, 2, false, false), (1, 1, true, false), (0, 0, false, false), (1, 0, false, false)]
    {
        assert_eq!(status(member_id, leader, learner, Quorum::NotAsked).claims_to_lead(), leads);
    }
}

#[test]
fn a_reading_has_a_value_and_a_time_only_while_it_is_fresh() {
    let read = fresh(EtcdView::Answered(EtcdStatus::default()));
    assert_eq!((read.fresh(), read.fresh_at()), (Some(&EtcdView::Answered(EtcdStatus::default())), Some(at(NOW))));
    for reading in [Reading::<u8>::Stale { since: at(0) }, Reading::Unknown("why".to_owned())] {
        assert_eq!((reading.fresh(), reading.fresh_at()), (None, None));
    }
}

#[test]
fn verdicts_and_steps_are_printed_by_the_names_that_policies_call_them() {
    for verdict in Verdict::ALL {
        assert_eq!(serde_json::json!(verdict), verdict.name());
        assert_eq!(verdict.to_string(), verdict.name());
    }
    for step in StepKind::ALL {
        assert_eq!(serde_json::json!(step), step.name());
        assert_eq!(step.lane() == Lane::Loop, step == StepKind::CycleManifest);
    }
}

#[test]
fn a_time_never_runs_below_the_origin_nor_over_the_end() {
    assert_eq!(at(5).since(at(2)), Duration::from_millis(3));
    assert_eq!(at(2).since(at(5)), Duration::ZERO);
    assert_eq!(at(2) + Duration::from_millis(3), at(5));
    assert_eq!(Moment::from_origin(Duration::MAX) + Duration::from_secs(1), Moment::from_origin(Duration::MAX));
    assert_eq!(at(7).since_origin(), Duration::from_millis(7));
}
