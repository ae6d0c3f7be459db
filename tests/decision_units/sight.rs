//! What the machine remembers between two looks, up to the last millisecond on either side of each threshold.

use std::time::Duration;

use fip_watchdog::decision::facts::{Holding, LoopState};
use fip_watchdog::decision::judge::Facts;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    AliasView, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, KubeletView, LoopFip, LoopVerdict,
    ManifestView, Observation, ProcessView, Quorum, Reading, StrainView,
};
use fip_watchdog::decision::step::{StepKind, StepOutcome};

use crate::scene::{NOW, Scene, at, entry, fresh, policy};

/// A leader with the FIP whose loop beats: what the machine sees at `now`.
fn look(machine: &mut Machine, now: u64, change: impl FnOnce(&mut Observation)) -> Facts {
    let mut scene = Scene::of(StepKind::AnnounceAlias);
    scene.quorum(Quorum::Confirmed { at: at(now) }).beat(LoopVerdict::Leader, LoopFip::Kept, NOW - now.saturating_sub(1));
    change(&mut scene.observation);
    machine.facts(&scene.observation, &policy(), at(now))
}

fn started() -> Machine {
    let mut machine = Machine::new(at(0), &[]);
    look(&mut machine, 0, |_| ());
    machine
}

fn beat_at(observation: &mut Observation, beat: u64) {
    let mut view = observation.heartbeat.fresh().unwrap().clone();
    view.last_beat_at = Some(at(beat));
    observation.heartbeat = fresh(view);
}

#[test]
fn a_claim_counts_once_the_roles_had_the_time_of_a_round_and_for_five_seconds() {
    let contested = |heard: u64, now: u64, alias: Reading<AliasView>| {
        look(&mut started(), now, |observation| {
            let claim = Claim { mac: "02:00:00:00:00:09".to_owned(), at: at(heard) };
            observation.conflict = fresh(ConflictView { last: Some(claim) });
            observation.alias = alias;
        })
        .contested
    };
    let alias = |entries| fresh(AliasView { entries, up: true, carrier: true });
    for (heard, now, counts) in [
        (6_999, 7_000, false),
        (7_000, 7_000, true),
        (7_000, 11_999, true),
        (7_000, 12_000, false),
        (7_000, 12_001, false),
        (7_000, 60_000, false),
    ] {
        assert_eq!(contested(heard, now, alias(vec![entry(None)])), counts, "heard at {heard}, looked at {now}");
        assert!(!contested(heard, now, alias(Vec::new())), "what is not here is nobody's second");
        assert!(!contested(heard, now, Reading::Unknown("blind".to_owned())));
    }
}

#[test]
fn a_role_goes_on_through_a_silence_of_etcd_that_is_shorter_than_a_worst_round() {
    let silent = |observation: &mut Observation| observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::TimedOut));
    for (lasts, role_age) in [(15_999, 36_000), (16_000, 0), (16_001, 0)] {
        let mut machine = started();
        look(&mut machine, 20_000, silent);
        look(&mut machine, 20_000 + lasts, silent);
        let age = look(&mut machine, 36_000.max(20_000 + lasts), |_| ()).role_age;
        assert_eq!(age, Duration::from_millis(role_age), "silent for {lasts} ms");
    }
    let mut machine = started();
    for silence in [20_000, 30_000, 40_000] {
        look(&mut machine, silence, silent);
        assert_eq!(
            look(&mut machine, silence + 9_000, |_| ()).role_age,
            Duration::from_millis(silence + 9_000),
            "each counts anew"
        );
    }
}

/// Without another leader's proof a release rests on what etcd says alone: in a silence the member may have led.
#[test]
fn how_long_etcd_has_told_a_role_ends_with_each_silence() {
    let silent = |observation: &mut Observation| observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::TimedOut));
    let another = |observation: &mut Observation| {
        observation.etcd = fresh(EtcdView::Answered(EtcdStatus { member_id: 1, leader: 2, ..EtcdStatus::default() }));
    };
    let mut machine = started();
    let mut told = |now, change: &dyn Fn(&mut Observation)| {
        let facts = look(&mut machine, now, |observation| change(observation));
        (facts.role_age.as_millis(), facts.told_for.as_millis())
    };
    assert_eq!(told(20_000, &|_| ()), (20_000, 20_000));
    assert_eq!(told(21_000, &silent), (21_000, 0));
    assert_eq!(told(22_000, &|_| ()), (22_000, 0));
    assert_eq!(told(30_000, &|_| ()), (30_000, 8_000));
    assert_eq!(told(31_000, &another), (0, 0), "nor is it longer than the role");
    assert_eq!(told(33_000, &another), (2_000, 2_000));
}

#[test]
fn a_fip_stays_where_it_is_through_a_silence_of_the_interface_that_is_shorter_than_a_worst_round() {
    let blind = |observation: &mut Observation| observation.alias = Reading::Unknown("no answer".to_owned());
    let gone = |observation: &mut Observation| {
        observation.alias = fresh(AliasView { entries: Vec::new(), up: true, carrier: true });
    };
    for (lasts, holding_age) in [(15_999, 36_000), (16_000, 0), (16_001, 0)] {
        let mut machine = started();
        look(&mut machine, 20_000, blind);
        assert!(look(&mut machine, 20_000 + lasts, blind).holding.is_err(), "it goes on counting, and is not known");
        let age = look(&mut machine, 36_000.max(20_000 + lasts), |_| ()).holding_age;
        assert_eq!(age, Duration::from_millis(holding_age), "silent for {lasts} ms");
    }
    let mut machine = started();
    look(&mut machine, 20_000, blind);
    assert_eq!(look(&mut machine, 21_000, gone).holding_age, Duration::ZERO, "it went meanwhile");
}

#[test]
fn a_leadership_that_comes_while_etcd_is_silent_for_a_moment_is_announced() {
    let another = |observation: &mut Observation| {
        let status = EtcdStatus { member_id: 1, leader: 2, ..EtcdStatus::default() };
        observation.etcd = fresh(EtcdView::Answered(status));
    };
    let silent = |observation: &mut Observation| observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::TimedOut));
    let mut machine = started();
    machine.on_step_finished(StepKind::AnnounceAlias, &StepOutcome::Succeeded("told".to_owned()), at(1));
    look(&mut machine, 20_000, another);
    look(&mut machine, 21_000, silent);
    assert!(!machine.announces_arrival());
    look(&mut machine, 22_000, |_| ());
    assert!(machine.announces_arrival(), "the FIP was elsewhere meanwhile");
}

#[test]
fn the_grace_after_an_own_pause_is_twenty_seconds() {
    let resumed = |now: u64| look(&mut started(), now, |observation| observation.resumed_at = Some(at(100_000))).resumed;
    assert_eq!([100_000, 119_999, 120_000, 120_001, 200_000].map(resumed), [true, true, false, false, false]);
}

#[test]
fn a_link_that_came_back_is_settled_after_two_seconds_whichever_way_it_went() {
    for (up, carrier) in [(false, true), (true, false), (false, false)] {
        let mut machine = started();
        let down = |observation: &mut Observation| {
            observation.alias = fresh(AliasView { entries: vec![entry(None)], up, carrier });
        };
        assert!(look(&mut machine, 10_000, |_| ()).link_settled, "it never went");
        look(&mut machine, 20_000, down);
        look(&mut machine, 21_000, |observation| observation.alias = Reading::Unknown("blind".to_owned()));
        for (now, settled) in [(22_000, false), (23_999, false), (24_000, true), (60_000, true)] {
            assert_eq!(look(&mut machine, now, |_| ()).link_settled, settled, "up {up}, carrier {carrier}, {now}");
        }
    }
}

#[test]
fn a_pod_is_stuck_until_a_round_is_finished_after_that_or_for_one_cooldown() {
    let stuck_at = |machine: &mut Machine, now: u64| {
        machine.on_step_finished(StepKind::CycleManifest, &StepOutcome::PodStuck("does not die".to_owned()), at(now));
    };
    let is_stuck = |machine: &mut Machine, now: u64, beat: u64| {
        look(machine, now, |observation| beat_at(observation, beat)).pod_stuck.is_some()
    };
    let mut machine = started();
    stuck_at(&mut machine, 50_000);
    assert!(is_stuck(&mut machine, 51_000, 50_000), "that round was the old pod's");
    assert!(!is_stuck(&mut machine, 51_000, 50_001));
    assert!(!is_stuck(&mut machine, 52_000, 50_000), "it is forgotten");
    stuck_at(&mut machine, 100_000);
    assert!(is_stuck(&mut machine, 219_999, 100_000));
    assert!(!is_stuck(&mut machine, 220_000, 100_000));
    for (outcome, remains) in [
        (StepOutcome::Refused("why".to_owned()), true),
        (StepOutcome::Failed("why".to_owned()), true),
        (StepOutcome::Succeeded("what".to_owned()), false),
    ] {
        stuck_at(&mut machine, 300_000);
        machine.on_step_finished(StepKind::ApplyAlias, &StepOutcome::Succeeded("another lane".to_owned()), at(300_001));
        machine.on_step_finished(StepKind::CycleManifest, &outcome, at(300_001));
        assert_eq!(is_stuck(&mut machine, 300_002, 300_000), remains, "{outcome:?}");
    }
}

#[test]
fn while_its_pod_is_cycled_a_loop_counts_as_down_until_it_beats_after_the_manifest_is_back() {
    let mut machine = started();
    let mut state = |now: u64, phase: CyclePhase, beat: u64| {
        look(&mut machine, now, |observation| {
            observation.cycle = Some(CycleView { phase });
            beat_at(observation, beat);
        })
        .watched_loop
    };
    let down = LoopState::Stalled("its pod is being cycled".to_owned());
    assert_eq!(state(10_000, CyclePhase::Intended, 10_000), down);
    assert_eq!(state(11_000, CyclePhase::Out, 11_000), down, "the old pod's");
    assert_eq!(state(12_000, CyclePhase::Back, 11_000), down);
    assert_eq!(state(13_000, CyclePhase::Back, 11_000), down, "the manifest came back after that");
    assert_eq!(state(14_000, CyclePhase::Back, 11_001), LoopState::Alive { overdue: false });
    assert_eq!(look(&mut machine, 15_000, |_| ()).watched_loop, LoopState::Alive { overdue: false }, "the cycle is closed");
}

#[test]
fn a_loop_that_was_down_is_coming_up_until_it_has_finished_a_round_whatever_its_process_looks_like() {
    let see = |machine: &mut Machine, now: u64, progress: u64, beat: u64, resumed: Option<u64>| {
        let facts = look(machine, now, |observation| {
            let Some(ProcessView::Present(mut process)) = observation.process.fresh().cloned() else { panic!("no process") };
            (process.progress_at, process.seen_since) = (at(progress), at(progress));
            observation.process = fresh(ProcessView::Present(process));
            observation.resumed_at = resumed.map(at);
            beat_at(observation, beat);
        });
        facts.watched_loop
    };
    let works = LoopState::Alive { overdue: false };
    let down = || {
        let mut machine = started();
        assert!(matches!(see(&mut machine, 100_000, 0, 0, None), LoopState::Stalled(_)));
        assert_eq!(see(&mut machine, 101_000, 101_000, 0, None), LoopState::Returning, "a new process");
        machine
    };
    let mut machine = down();
    assert_eq!(see(&mut machine, 102_000, 101_000, 100_000, None), LoopState::Returning, "that round was the old one's");
    assert_eq!(see(&mut machine, 103_000, 101_000, 100_001, None), works);
    assert_eq!(see(&mut machine, 104_000, 101_000, 0, None), works, "it is forgotten");
    assert_eq!(see(&mut down(), 102_000, 101_000, 0, Some(100_000)), LoopState::Returning);
    assert_eq!(see(&mut down(), 102_000, 101_000, 0, Some(100_001)), works, "an own pause voids what was seen before it");
    let mut machine = down();
    look(&mut machine, 130_000, |observation| {
        beat_at(observation, 0);
        observation.process = Reading::Unknown("blind".to_owned());
    });
    assert_eq!(see(&mut machine, 131_000, 131_000, 0, None), LoopState::Returning);
}

#[test]
fn a_manifest_is_missing_shadowed_or_without_a_kubelet_since_the_first_look_that_shows_it() {
    let manifest = |sha256: Option<&str>, shadow: Option<&str>, immovable: Option<&str>| {
        fresh(ManifestView {
            sha256: sha256.map(str::to_owned),
            shadows: shadow.into_iter().map(Into::into).collect(),
            immovable: immovable.map(str::to_owned),
        })
    };
    let seen = |view: &Reading<ManifestView>, kubelet: KubeletView, cycle: Option<CyclePhase>| {
        let mut machine = started();
        let mut ages = (None, None, None);
        for now in [10_000, 10_500, 12_000] {
            let facts = look(&mut machine, now, |observation| {
                observation.manifest = view.clone();
                observation.kubelet = fresh(kubelet);
                observation.cycle = cycle.map(|phase| CycleView { phase });
            });
            ages = (facts.manifest_missing, facts.manifest_shadowed, facts.kubelet_down);
        }
        let whole = look(&mut machine, 13_000, |_| ());
        assert_eq!((whole.manifest_missing, whole.manifest_shadowed, whole.kubelet_down), (None, None, None));
        ages
    };
    let (running, age) = (KubeletView::Running, Some(Duration::from_secs(2)));
    assert_eq!(seen(&manifest(Some("aa"), None, None), running, None), (None, None, None));
    assert_eq!(seen(&manifest(None, None, None), running, None), (age, None, None));
    assert_eq!(seen(&manifest(None, None, None), running, Some(CyclePhase::Out)), (None, None, None), "it is us");
    assert_eq!(seen(&manifest(None, None, Some("a link")), running, None), (None, None, None), "something is there");
    assert_eq!(seen(&manifest(Some("aa"), Some("/etc/x.bak"), None), running, None), (None, age, None));
    assert_eq!(seen(&Reading::Unknown("blind".to_owned()), running, None), (None, None, None));
    assert_eq!(seen(&manifest(Some("aa"), None, None), KubeletView::Down, None), (None, None, age));
}

#[test]
fn a_start_is_over_when_every_sense_has_been_fresh_at_once_or_after_the_time_of_a_stalled_loop() {
    let blind = || "blind".to_owned();
    let senses: [fn(&mut Observation, String); 5] = [
        |observation, why| observation.etcd = Reading::Unknown(why),
        |observation, why| observation.alias = Reading::Unknown(why),
        |observation, why| observation.process = Reading::Unknown(why),
        |observation, why| observation.manifest = Reading::Unknown(why),
        |observation, why| observation.heartbeat = Reading::Unknown(why),
    ];
    for (sense, blinded) in senses.iter().enumerate() {
        let mut machine = Machine::new(at(0), &[]);
        let mut starting = |now: u64| look(&mut machine, now, |observation| blinded(observation, blind())).starting;
        assert_eq!([0, 19_999, 20_000, 20_001].map(&mut starting), [true, true, false, false], "sense {sense}");
        assert!(!look(&mut started(), 1, |observation| blinded(observation, blind())).starting, "it had been fresh once");
    }
    assert!(!look(&mut Machine::new(at(0), &[]), 0, |_| ()).starting);
}

#[test]
fn an_alias_is_announced_when_it_comes_and_when_its_follower_becomes_the_leader() {
    let announced = |machine: &mut Machine| {
        machine.on_step_finished(StepKind::AnnounceAlias, &StepOutcome::Refused("why".to_owned()), at(1));
        assert!(machine.announces_arrival(), "a refusal announces nothing");
        machine.on_step_finished(StepKind::AnnounceAlias, &StepOutcome::Succeeded("done".to_owned()), at(1));
        assert!(!machine.announces_arrival());
    };
    let absent = |observation: &mut Observation| {
        observation.alias = fresh(AliasView { entries: Vec::new(), up: true, carrier: true });
    };
    let mut machine = started();
    assert!(machine.announces_arrival(), "it is here at the first look");
    announced(&mut machine);
    look(&mut machine, 1_000, |_| ());
    look(&mut machine, 2_000, |observation| observation.alias = Reading::Unknown("blind".to_owned()));
    look(&mut machine, 3_000, |_| ());
    assert!(!machine.announces_arrival(), "a look that could not tell is no absence");
    look(&mut machine, 4_000, absent);
    assert!(!machine.announces_arrival());
    look(&mut machine, 5_000, |_| ());
    assert!(machine.announces_arrival(), "it came");
    look(&mut machine, 6_000, absent);
    assert!(!machine.announces_arrival(), "it went before it was announced");

    let follows = |observation: &mut Observation| {
        let status = EtcdStatus { member_id: 1, leader: 2, quorum: Quorum::Confirmed { at: at(1_000) }, ..EtcdStatus::default() };
        observation.etcd = fresh(EtcdView::Answered(status));
    };
    let unclear = |observation: &mut Observation| observation.etcd = Reading::Unknown("blind".to_owned());
    let changed = |first: &dyn Fn(&mut Observation), held: bool| {
        let mut machine = started();
        announced(&mut machine);
        let alias = |observation: &mut Observation| {
            if !held {
                absent(observation);
            }
        };
        look(&mut machine, 1_000, |observation| {
            first(observation);
            alias(observation);
        });
        look(&mut machine, 2_000, alias);
        machine.announces_arrival()
    };
    assert!(changed(&follows, true), "the FIP may have been elsewhere meanwhile");
    assert!(!changed(&unclear, true), "a question that failed moved nothing");
    assert!(!changed(&follows, false));
}

/// How a loop that has been frozen from the begin on looks.
fn frozen(machine: &mut Machine, now: u64, strain: StrainView) -> LoopState {
    let facts = look(machine, now, |observation| {
        observation.strain = strain;
        beat_at(observation, 0);
        let mut process = Scene::of(StepKind::CycleManifest).observation.process.fresh().unwrap().clone();
        if let ProcessView::Present(process) = &mut process {
            process.progress_at = at(0);
        }
        observation.process = fresh(process);
    });
    facts.watched_loop
}

#[test]
fn a_frozen_loop_on_a_node_that_starves_is_left_alone_for_so_long_and_no_longer() {
    let late = StrainView { late_ticks: 3, cpu_pressure: Some(12) };
    let mut machine = started();
    let starved = LoopState::Starved(
        "this daemon woke late 3 times in the last minute, and some task waited for a CPU 12 % of the time".to_owned(),
    );
    assert_eq!(frozen(&mut machine, 100_000, late), starved);
    let calm = StrainView::default();
    let end = 100_000 + u64::try_from(policy().host.calm_after.as_millis()).unwrap();
    assert!(matches!(frozen(&mut machine, end - 1, calm), LoopState::Starved(_)));
    assert_eq!(frozen(&mut machine, end, calm), LoopState::Alive { overdue: false }, "its silence counts anew from here");
    assert!(matches!(frozen(&mut machine, end + 20_000, calm), LoopState::Stalled(_)));
}

#[test]
fn strain_after_a_calm_time_is_another_one_and_has_all_its_time() {
    let late = StrainView { late_ticks: 3, cpu_pressure: None };
    let mut machine = started();
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    let again = 100_000 + ms(policy().host.calm_after);
    let end = again + ms(policy().host.starved_max);
    for now in [100_000, again].into_iter().chain((again..end).step_by(10_000)).chain([end - 1]) {
        assert!(matches!(frozen(&mut machine, now, late), LoopState::Starved(_)), "at {now}");
    }
    assert_eq!(frozen(&mut machine, end, late), LoopState::Alive { overdue: false }, "its silence counts anew from here");
}

#[test]
fn a_holding_is_the_same_whatever_its_lease_and_its_age_counts_from_the_change() {
    let mut machine = started();
    let age = |machine: &mut Machine, now: u64, holding: Holding| {
        let mut scene = Scene::of(StepKind::AnnounceAlias);
        scene.holding(holding);
        look(machine, now, |observation| observation.alias = scene.observation.alias.clone()).holding_age.as_millis()
    };
    assert_eq!(age(&mut machine, 5_000, Holding::Held), 5_000);
    assert_eq!(age(&mut machine, 6_000, Holding::Leased { remaining: Duration::from_secs(9) }), 6_000);
    assert_eq!(age(&mut machine, 7_000, Holding::Absent), 0);
    assert_eq!(age(&mut machine, 8_000, Holding::Absent), 1_000);
    assert_eq!(age(&mut machine, 9_000, Holding::Held), 0);
}
