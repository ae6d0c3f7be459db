//! Properties of the decision core over random histories: I1 (proof before alias), I3 (unknown never
//! acts), I5 (bounded, and never silent for ever).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView,
    KubeletView, LoopFip, LoopProcess, LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum, Reading,
};
use fip_watchdog::decision::plan::{Decision, WaitingOn};
use fip_watchdog::decision::step::{Lane, StepKind, StepOutcome};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::{Mode, Policy};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn policy() -> Policy {
    Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0")
}

/// The default one, and the one that leases the loop's alias too.
fn policies() -> [Policy; 2] {
    let mut leasing = policy();
    leasing.fip.lease_loop_alias = true;
    [policy(), leasing]
}

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

/// One moment of a history; ages are relative to it, so that shrinking keeps it meaningful.
#[derive(Debug, Clone)]
struct Sight {
    after_ms: u64,
    /// How often the same is seen: without it no verdict would ever hold long enough to act on.
    times: usize,
    etcd: Option<Result<(bool, u64, u8, u64), u8>>,
    beat_age_ms: Option<u64>,
    beat_leads: bool,
    process: Option<(bool, u64, usize)>,
    alias: Option<Option<Option<u64>>>,
    lent: bool,
    claim_age_ms: Option<Option<u64>>,
    link: bool,
    manifest: Option<(bool, bool, bool)>,
    kubelet: Option<bool>,
    /// A cycle that is started here ends with a pod that is stuck.
    sticks: bool,
    cycle: bool,
    lanes: (bool, bool),
    paused: bool,
    resumed_ago_ms: Option<u64>,
}

prop_compose! {
    fn sight()(
        after_ms in prop_oneof![Just(250_u64), 1_u64..2_000, 1_000_u64..120_000],
        times in prop_oneof![Just(1_usize), 1_usize..60],
        etcd in option::weighted(0.95, prop_oneof![
            9 => (any::<bool>(), 1_u64..4, 0_u8..3, 0_u64..4_000).prop_map(Ok),
            1 => (0_u8..3).prop_map(Err),
        ]),
        beat_age_ms in option::weighted(0.9, prop_oneof![0_u64..7_000, 15_000_u64..200_000]),
        beat_leads in any::<bool>(),
        process in option::weighted(0.9, (prop::bool::weighted(0.9), prop_oneof![0_u64..7_000, 15_000_u64..200_000], 1_usize..3)),
        alias in option::weighted(0.95, option::of(option::of(0_u64..10_000))),
        lent in any::<bool>(),
        claim_age_ms in option::weighted(0.9, option::weighted(0.3, 0_u64..8_000)),
        link in prop::bool::weighted(0.9),
        manifest in option::weighted(0.9, (prop::bool::weighted(0.9), prop::bool::weighted(0.1), prop::bool::weighted(0.1))),
        kubelet in option::weighted(0.95, prop::bool::weighted(0.9)),
        sticks in prop::bool::weighted(0.3),
        cycle in prop::bool::weighted(0.1),
        lanes in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        paused in prop::bool::weighted(0.05),
        resumed_ago_ms in option::weighted(0.1, 0_u64..60_000),
    ) -> Sight {
        Sight { after_ms, times, etcd, beat_age_ms, beat_leads, process, alias, lent, claim_age_ms, link, manifest, kubelet, sticks, cycle, lanes, paused, resumed_ago_ms }
    }
}

fn reading<T>(value: Option<T>, now_ms: u64) -> Reading<T> {
    value.map_or_else(|| Reading::Unknown("the test says so".to_owned()), |value| Reading::Fresh { value, at: at(now_ms) })
}

fn etcd_view(seen: Result<(bool, u64, u8, u64), u8>, now_ms: u64) -> EtcdView {
    match seen {
        Err(kind) => EtcdView::Unreachable(match kind {
            0 => EtcdFault::Refused,
            1 => EtcdFault::TimedOut,
            _ => EtcdFault::Tls("unknown issuer".to_owned()),
        }),
        Ok((learner, leader, quorum, proof_age_ms)) => EtcdView::Answered(EtcdStatus {
            member_id: 1,
            leader: leader % 3,
            raft_term: 7,
            learner: learner && leader == 3,
            quorum: match quorum {
                0 => Quorum::NotAsked,
                1 => Quorum::Denied("timed out".to_owned()),
                _ => Quorum::Confirmed { at: at(now_ms.saturating_sub(proof_age_ms)) },
            },
            ..EtcdStatus::default()
        }),
    }
}

fn observe(sight: &Sight, now_ms: u64) -> Observation {
    let ago = |age_ms: u64| at(now_ms.saturating_sub(age_ms));
    let beat = Beat {
        verdict: if sight.beat_leads { LoopVerdict::Leader } else { LoopVerdict::Follower },
        revision: None,
        raft_index: None,
        raft_term: None,
        fip: LoopFip::Kept,
    };
    let heartbeat = sight.beat_age_ms.map(|age| HeartbeatView {
        last_beat: Some(beat),
        last_beat_at: Some(ago(age)),
        following_since: at(0),
        last_growth_at: None,
        log: "/var/log/pods/x/0.log".into(),
    });
    let process = sight.process.map(|(present, idle, copies)| {
        if !present {
            return ProcessView::Absent { since: ago(idle) };
        }
        ProcessView::Present(LoopProcess {
            pid: 100,
            start_ticks: 1,
            state: 'S',
            progress_at: ago(idle),
            seen_since: at(0),
            wchan: None,
            copies,
        })
    });
    let alias = sight.alias.map(|entry| AliasView {
        entries: entry
            .map(|lease| AliasEntry {
                prefix_len: 32,
                valid_for: lease.map(Duration::from_millis),
                lent: sight.lent && lease.is_some(),
            })
            .into_iter()
            .collect(),
        up: true,
        carrier: sight.link,
    });
    let conflict = sight
        .claim_age_ms
        .map(|claim| ConflictView { last: claim.map(|age| Claim { mac: "02:00:00:00:00:09".to_owned(), at: ago(age) }) });
    let manifest = sight.manifest.map(|(present, shadowed, immovable)| ManifestView {
        sha256: present.then(|| "ab".repeat(32)),
        shadows: if shadowed { vec!["/etc/kubernetes/manifests/wcp-fip.yaml.bak".into()] } else { Vec::new() },
        immovable: immovable.then(|| "it is a symbolic link".to_owned()),
    });
    let mut in_flight = BTreeSet::new();
    if sight.lanes.0 {
        in_flight.insert(StepKind::ApplyAlias);
    }
    if sight.lanes.1 {
        in_flight.insert(StepKind::CycleManifest);
    }
    Observation {
        etcd: reading(sight.etcd.map(|seen| etcd_view(seen, now_ms)), now_ms),
        heartbeat: reading(heartbeat, now_ms),
        process: reading(process, now_ms),
        alias: reading(alias, now_ms),
        manifest: reading(manifest, now_ms),
        kubelet: reading(sight.kubelet.map(|runs| if runs { KubeletView::Running } else { KubeletView::Down }), now_ms),
        conflict: reading(conflict, now_ms),
        cycle: sight.cycle.then_some(CycleView { phase: CyclePhase::Out }),
        in_flight,
        paused: sight.paused.then(|| OperatorPause { reason: "maintenance".to_owned(), remaining: Duration::from_secs(60) }),
        resumed_at: sight.resumed_ago_ms.map(ago),
    }
}

/// Walks a history and hands every decision to `visit`; started steps end at once, and well but for cycles that stick.
fn walk(history: &[Sight], policy: &Policy, mut visit: impl FnMut(&Observation, &Decision, Moment)) {
    let mut now_ms = 1_000_000;
    let mut machine = Machine::new(at(now_ms), &[]);
    for sight in history.iter().flat_map(|sight| std::iter::repeat_n(sight, sight.times)) {
        now_ms += sight.after_ms;
        let observation = observe(sight, now_ms);
        let decision = machine.step(&observation, policy, at(now_ms));
        visit(&observation, &decision, at(now_ms));
        for step in &decision.start {
            machine.on_step_started(*step, at(now_ms));
            let outcome = if *step == StepKind::CycleManifest && sight.sticks {
                StepOutcome::PodStuck("process 100 is left".to_owned())
            } else {
                StepOutcome::Succeeded("done".to_owned())
            };
            machine.on_step_finished(*step, &outcome, at(now_ms));
        }
    }
}

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
    fn the_next_look_is_never_further_away_than_the_calm_poll(history in vec(sight(), 1..60)) {
        let policy = policy();
        walk(&history, &policy, |_, decision, now| assert!(decision.next_deadline <= now + policy.etcd.poll));
    }
}

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
