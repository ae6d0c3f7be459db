//! Properties of the decision core over random histories: I1 (proof before alias), I3 (unknown never
//! acts), I5 (bounded, and never silent for ever).

mod fixed;
mod history;
mod strain;

use std::collections::BTreeSet;
use std::time::Duration;

use fip_watchdog::decision::api::{ApiView, SILENT_AFTER};
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{EtcdView, KubeletView, Observation, Quorum};
use fip_watchdog::decision::step::{Lane, StepKind};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Mode;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::history::{policies, policy, sight, walk};

fn proof_age(observation: &Observation, now: Moment) -> Option<(bool, Duration)> {
    match observation.etcd.fresh()? {
        EtcdView::Answered(status) => match status.quorum {
            Quorum::Confirmed { at } => Some((status.claims_to_lead(), now.since(at))),
            Quorum::NotAsked | Quorum::Denied(_) => None,
        },
        EtcdView::Unreachable(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn i1_an_alias_is_put_up_or_prolonged_only_under_a_fresh_proof_that_this_member_leads(history in vec(sight(), 1..60)) {
        let policy = &policies()[history.len() % 2];
        walk(&history, policy, |observation, decision, now| {
            let needs_proof = [
                StepKind::ApplyAlias,
                StepKind::RenewAlias,
                StepKind::HandOverAlias,
                StepKind::LeaseAlias,
                StepKind::AnnounceAlias,
            ];
            if decision.start.iter().any(|step| needs_proof.contains(step)) {
                let (leads, age) = proof_age(observation, now).expect("a step on the alias without a proof");
                assert!(leads, "the proof is another member's");
                assert!(age <= policy.limits.proof_max_age, "the proof is {age:?} old");
                let since_resumed = observation.resumed_at.map(|at| now.since(at));
                assert!(since_resumed.is_none_or(|resumed| age < resumed), "the proof is from before a pause");
            }
            if decision.start.contains(&StepKind::ReleaseAlias) {
                assert!(proof_age(observation, now).is_none_or(|(leads, _)| !leads), "released on the proven leader");
            }
        });
    }

    #[test]
    fn i3_a_sense_that_cannot_tell_never_authorises_a_step(history in vec(sight(), 1..60)) {
        walk(&history, &policy(), |observation, decision, _| {
            for step in &decision.start {
                assert!(observation.etcd.fresh().is_some(), "{step:?} although etcd is unknown");
                if step.lane() == Lane::Alias {
                    assert!(observation.alias.fresh().is_some(), "{step:?} although the alias is unknown");
                }
                if *step == StepKind::CycleManifest {
                    assert!(observation.heartbeat.fresh().is_some(), "cycled although the heartbeat is unknown");
                    assert_eq!(observation.kubelet.fresh(), Some(&KubeletView::Running), "cycled without a kubelet");
                    let manifest = observation.manifest.fresh().expect("cycled although the manifest is unknown");
                    assert!(manifest.sha256.is_some() && manifest.shadows.is_empty() && manifest.immovable.is_none());
                }
                assert!(observation.paused.is_none() || *step != StepKind::CycleManifest, "cycled while paused");
                assert!(observation.paused.is_none() || *step != StepKind::ApplyAlias, "applied while paused");
            }
        });
    }

    #[test]
    fn i5_cycles_keep_their_cooldown_and_their_budget(history in vec(sight(), 1..200)) {
        let policy = policy();
        let mut cycles: Vec<Moment> = Vec::new();
        walk(&history, &policy, |_, decision, now| {
            if decision.start.contains(&StepKind::CycleManifest) {
                if let Some(last) = cycles.last() {
                    assert!(now.since(*last) >= policy.limits.cooldown);
                }
                cycles.push(now);
                let in_the_hour = cycles.iter().filter(|start| now.since(**start) < Duration::from_secs(3600)).count();
                assert!(in_the_hour <= usize::try_from(policy.limits.cycles_per_hour).unwrap());
            }
        });
    }

    #[test]
    fn a_step_is_never_ordered_into_a_busy_lane_and_never_two_into_one(history in vec(sight(), 1..60)) {
        walk(&history, &policy(), |observation, decision, _| {
            let lanes: Vec<_> = decision.start.iter().map(|step| step.lane()).collect();
            assert_eq!(lanes.iter().collect::<BTreeSet<_>>().len(), lanes.len(), "{:?}", decision.start);
            assert!(observation.in_flight.iter().all(|running| !lanes.contains(&running.lane())));
        });
    }

    #[test]
    fn observe_mode_orders_nothing(history in vec(sight(), 1..60)) {
        let mut policy = policy();
        policy.mode = Mode::Observe;
        walk(&history, &policy, |_, decision, _| assert_eq!(decision.start, Vec::new()));
    }

    #[test]
    fn the_api_behind_the_fip_changes_what_is_said_and_nothing_else(history in vec(sight(), 1..60)) {
        let policy = policy();
        let mut api = ApiView::new(6443);
        api.note(Ok(()), Moment::default());
        for _ in 0..SILENT_AFTER {
            api.note(Err("connection refused".to_owned()), Moment::default());
        }
        let (mut plain, mut silent) = (Machine::new(Moment::default(), &[]), Machine::new(Moment::default(), &[]));
        walk(&history, &policy, |observation, _, now| {
            let expected = plain.step(observation, &policy, now);
            let mut decision = silent.step(&Observation { api: api.clone(), ..observation.clone() }, &policy, now);
            let said = decision.reasons.iter().position(|reason| reason.contains("does not answer: port 6443"));
            decision.reasons.remove(said.expect("it is said whatever the verdict"));
            assert_eq!(decision, expected);
            for step in &expected.start {
                plain.on_step_started(*step, now);
                silent.on_step_started(*step, now);
            }
        });
    }

    #[test]
    fn the_next_look_is_never_further_away_than_the_calm_poll(history in vec(sight(), 1..60)) {
        let policy = policy();
        walk(&history, &policy, |_, decision, now| assert!(decision.next_deadline <= now + policy.etcd.poll));
    }
}

#[test]
fn the_random_histories_reach_every_step_and_every_verdict_that_acts() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut steps, mut verdicts) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..1_000 {
        let history = vec(sight(), 1..60).new_tree(&mut runner).unwrap().current();
        let policy = &policies()[round % 2];
        walk(&history, policy, |_, decision, _| {
            steps.extend(decision.start.iter().copied());
            verdicts.insert(decision.verdict);
        });
    }
    assert_eq!(steps.into_iter().collect::<Vec<_>>(), StepKind::ALL.to_vec());
    for verdict in policy().remedies.keys() {
        assert!(verdicts.contains(verdict), "no random history reaches {verdict}");
    }
}
