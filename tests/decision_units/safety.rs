//! Each condition of `decision::safety` by itself: a step that may be taken, one thing changed, and why it may not be then.
//!
//! Some conditions can never be met by what the ladder asks for; they hold for whatever else may order a step.

use std::time::Duration;

use fip_watchdog::decision::facts::{Holding, LoopState, Role};
use fip_watchdog::decision::observation::{
    AliasView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, KubeletView, LoopFip, LoopProcess, LoopVerdict,
    ManifestView, ProcessView, Quorum, Reading,
};
use fip_watchdog::decision::plan::UnsafeReason;
use fip_watchdog::decision::step::StepKind;

use crate::scene::{NOW, Scene, at, entry, fresh};

/// Every role, and what is said of one that is neither proven to lead nor unknown.
fn roles() -> Vec<(Role, &'static str)> {
    vec![
        (Role::Unknown("blind".to_owned()), "blind"),
        (Role::Unreachable(EtcdFault::Refused), "etcd is unreachable: Refused"),
        (Role::NoLeader, "etcd knows of no leader"),
        (Role::Learner, "the local member is a learner"),
        (Role::ClaimsToLead, "the quorum has not been asked"),
        (Role::Leads, "it leads"),
        (Role::Unproven("why".to_owned()), "why"),
        (Role::ClaimsToFollow, "the quorum has not been asked"),
        (Role::Follows, "another member leads"),
        (Role::CutOff("why".to_owned()), "why"),
    ]
}

const LEADERS_ONLY: [StepKind; 5] =
    [StepKind::ApplyAlias, StepKind::RenewAlias, StepKind::HandOverAlias, StepKind::LeaseAlias, StepKind::AnnounceAlias];

#[test]
fn nothing_is_put_up_kept_or_announced_but_by_a_proven_leader() {
    for step in LEADERS_ONLY {
        for (role, said) in roles() {
            let expected = match &role {
                Role::Leads => None,
                Role::Unknown(reason) => Some(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
                Role::Unreachable(_)
                | Role::NoLeader
                | Role::Learner
                | Role::ClaimsToLead
                | Role::Unproven(_)
                | Role::ClaimsToFollow
                | Role::Follows
                | Role::CutOff(_) => Some(UnsafeReason::NotProvenLeader(said.to_owned())),
            };
            assert_eq!(Scene::of(step).role(role.clone()).why_not(), expected, "{} as {role:?}", step.name());
        }
    }
}

#[test]
fn a_manifest_is_cycled_only_under_a_proven_leader_whoever_it_is() {
    for (role, said) in roles() {
        let expected = match &role {
            Role::Leads | Role::Follows => None,
            Role::Unknown(reason) => Some(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
            Role::Unreachable(_)
            | Role::NoLeader
            | Role::Learner
            | Role::ClaimsToLead
            | Role::Unproven(_)
            | Role::ClaimsToFollow
            | Role::CutOff(_) => Some(UnsafeReason::NoQuorum(said.to_owned())),
        };
        assert_eq!(Scene::of(StepKind::CycleManifest).role(role.clone()).why_not(), expected, "{role:?}");
    }
}

#[test]
fn the_fip_is_released_on_another_leaders_proof_or_by_a_loop_that_is_down_when_nobody_leads() {
    let ms = Duration::from_millis;
    for (role, said) in roles() {
        let release = |watched_loop: LoopState, told_for: Duration| {
            let mut scene = Scene::of(StepKind::ReleaseAlias);
            (scene.facts.watched_loop, scene.facts.told_for) = (watched_loop, told_for);
            scene.role(role.clone()).why_not()
        };
        let (alive, down) = (LoopState::Alive { overdue: false }, LoopState::Stalled("frozen".to_owned()));
        let expected = match &role {
            Role::Follows => None,
            Role::Leads | Role::ClaimsToLead => Some(UnsafeReason::LeadsHere),
            Role::Unknown(reason) => Some(UnsafeReason::SenseUnknown { sense: "etcd", reason: reason.clone() }),
            Role::NoLeader | Role::CutOff(_) => {
                let itself = Some(UnsafeReason::LoopNotStalled("it takes the alias off itself".to_owned()));
                assert_eq!(release(alive, ms(60_000)), itself, "{role:?}");
                let too_soon = Some(UnsafeReason::NoQuorum("not yet for longer than one worst round".to_owned()));
                assert_eq!(release(down.clone(), ms(15_999)), too_soon, "{role:?}");
                assert_eq!(release(LoopState::Absent, ms(16_000)), None, "{role:?}");
                None
            }
            Role::Unreachable(_) | Role::Learner | Role::Unproven(_) | Role::ClaimsToFollow => {
                Some(UnsafeReason::NoQuorum(said.to_owned()))
            }
        };
        assert_eq!(release(down, ms(16_000)), expected, "{role:?}");
    }
}

#[test]
fn while_a_pod_is_being_cycled_nothing_is_taken_off_without_another_leader() {
    let release = |role: Role| {
        let mut scene = Scene::of(StepKind::ReleaseAlias);
        scene.facts.watched_loop = LoopState::Stalled("its pod is being cycled".to_owned());
        scene.facts.told_for = Duration::from_secs(60);
        scene.observation.cycle = Some(CycleView { phase: CyclePhase::Intended });
        scene.role(role).why_not()
    };
    let itself = Some(UnsafeReason::LoopNotStalled("it takes the alias off itself".to_owned()));
    assert_eq!(release(Role::NoLeader), itself, "it may have begun to work again");
    assert_eq!(release(Role::Follows), None);
}

#[test]
fn that_nobody_leads_must_be_as_new_as_a_proof() {
    let release = |age_ms: u64| {
        let mut scene = Scene::of(StepKind::ReleaseAlias);
        scene.facts.watched_loop = LoopState::Absent;
        let value = EtcdView::Answered(EtcdStatus { member_id: 1, ..EtcdStatus::default() });
        scene.observation.etcd = Reading::Fresh { value, at: at(NOW - age_ms) };
        scene.role(Role::NoLeader).why_not()
    };
    assert_eq!(release(2_000), None);
    assert_eq!(release(2_001), Some(UnsafeReason::NoQuorum("etcd's answer is too old".to_owned())));
}

#[test]
fn a_proof_must_be_there_be_new_and_be_from_after_an_own_pause() {
    for step in StepKind::ALL {
        let refused = |why: &str| Some(UnsafeReason::NoQuorum(why.to_owned()));
        let aged = |age_ms: u64| Scene::of(step).quorum(Quorum::Confirmed { at: at(NOW - age_ms) }).why_not();
        assert_eq!(aged(2_000), None, "{}", step.name());
        assert_eq!(aged(2_001), refused("the proof is 2001 ms old"), "{}", step.name());
        assert_eq!(Scene::of(step).quorum(Quorum::NotAsked).why_not(), refused("it has not been asked"), "{}", step.name());
        let denied = Quorum::Denied("no".to_owned());
        assert_eq!(Scene::of(step).quorum(denied).why_not(), refused("it has not been asked"), "{}", step.name());
        let mut unreachable = Scene::of(step);
        unreachable.observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::Refused));
        assert_eq!(unreachable.why_not(), refused("it has not been asked"), "{}", step.name());

        let resumed = |ago_ms: u64| {
            let mut scene = Scene::of(step);
            scene.observation.resumed_at = Some(at(NOW - ago_ms));
            scene.quorum(Quorum::Confirmed { at: at(NOW - 1_000) }).why_not()
        };
        assert_eq!(resumed(1_001), None, "{}", step.name());
        assert_eq!(resumed(1_000), refused("the proof is from before this daemon's own pause"), "{}", step.name());
    }
}

#[test]
fn the_fip_must_be_here_or_not_be_here_as_the_step_needs_it() {
    let (leased, lent) =
        (Holding::Leased { remaining: Duration::from_secs(5) }, Holding::Lent { remaining: Duration::from_secs(5) });
    let why = |step, holding| Scene::of(step).holding(holding).why_not();
    for present in [Holding::Held, leased, lent] {
        assert_eq!(why(StepKind::ApplyAlias, present), Some(UnsafeReason::AliasPresent));
        assert_eq!(why(StepKind::ReleaseAlias, present), None);
        assert_eq!(why(StepKind::AnnounceAlias, present), None);
    }
    for step in
        [StepKind::RenewAlias, StepKind::HandOverAlias, StepKind::LeaseAlias, StepKind::ReleaseAlias, StepKind::AnnounceAlias]
    {
        assert_eq!(why(step, Holding::Absent), Some(UnsafeReason::NoAlias), "{}", step.name());
    }
    for step in [StepKind::RenewAlias, StepKind::HandOverAlias] {
        assert_eq!(why(step, Holding::Held), Some(UnsafeReason::NotOurs), "{}", step.name());
        assert_eq!(why(step, lent), None, "{}", step.name());
    }
    assert_eq!(why(StepKind::LeaseAlias, lent), Some(UnsafeReason::AliasPresent));
    assert_eq!(why(StepKind::LeaseAlias, leased), None, "the loop has confirmed it");
}

#[test]
fn a_sense_that_cannot_tell_forbids_what_rests_on_it() {
    let unknown = |sense| Some(UnsafeReason::SenseUnknown { sense, reason: "blind".to_owned() });
    for step in StepKind::ALL.into_iter().filter(|step| *step != StepKind::CycleManifest) {
        let mut scene = Scene::of(step);
        scene.facts.holding = Err("blind".to_owned());
        assert_eq!(scene.why_not(), unknown("alias"), "{}", step.name());
    }
    for step in [StepKind::ApplyAlias, StepKind::AnnounceAlias] {
        let mut scene = Scene::of(step);
        scene.observation.alias = Reading::Unknown("blind".to_owned());
        assert_eq!(scene.why_not(), unknown("alias"), "{}: the link", step.name());
    }
    let cycle = |change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::of(StepKind::CycleManifest);
        change(&mut scene);
        scene.why_not()
    };
    assert_eq!(cycle(&|scene| scene.observation.kubelet = Reading::Unknown("blind".to_owned())), unknown("kubelet"));
    assert_eq!(cycle(&|scene| scene.observation.manifest = Reading::Unknown("blind".to_owned())), unknown("manifest"));
    assert_eq!(cycle(&|scene| scene.facts.watched_loop = LoopState::Unknown("blind".to_owned())), unknown("loop"));
}

#[test]
fn nothing_is_put_up_or_announced_without_a_link() {
    for step in [StepKind::ApplyAlias, StepKind::AnnounceAlias] {
        assert_eq!(Scene::of(step).alias(|view| view.carrier = false).why_not(), Some(UnsafeReason::LinkDown), "{}", step.name());
        assert_eq!(Scene::of(step).alias(|view| view.up = false).why_not(), Some(UnsafeReason::LinkDown), "{}", step.name());
    }
    let mut flapping = Scene::of(StepKind::ApplyAlias);
    flapping.facts.link_settled = false;
    assert_eq!(flapping.why_not(), Some(UnsafeReason::LinkUnsettled));
}

#[test]
fn an_alias_becomes_the_loops_only_when_the_loop_has_seen_it_as_leader() {
    let not_yet = Some(UnsafeReason::LoopNotConfirmed);
    let after = |change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::of(StepKind::HandOverAlias);
        scene.facts.holding_age = Duration::from_secs(30);
        change(&mut scene);
        scene.why_not()
    };
    assert_eq!(after(&|_| {}), None);
    assert_eq!(after(&|scene| scene.facts.holding_age = Duration::from_millis(1_001)), None);
    assert_eq!(after(&|scene| scene.facts.holding_age = Duration::from_millis(1_000)), not_yet, "the round began before");
    assert_eq!(after(&|scene| scene.facts.holding_age = Duration::from_millis(500)), not_yet);
    assert_eq!(
        after(&|scene| {
            scene.beat(LoopVerdict::Leader, LoopFip::Assigned, 1_000);
        }),
        None
    );
    assert_eq!(
        after(&|scene| {
            scene.beat(LoopVerdict::Leader, LoopFip::Untouched, 1_000);
        }),
        not_yet
    );
    assert_eq!(
        after(&|scene| {
            scene.beat(LoopVerdict::Follower, LoopFip::Kept, 1_000);
        }),
        not_yet
    );
    assert_eq!(
        after(&|scene| {
            scene.beat(LoopVerdict::Leader, LoopFip::Kept, 10_000);
        }),
        None,
        "two intervals"
    );
    assert_eq!(
        after(&|scene| {
            scene.beat(LoopVerdict::Leader, LoopFip::Kept, 10_001);
        }),
        not_yet
    );
    assert_eq!(after(&|scene| scene.observation.heartbeat = Reading::Unknown("blind".to_owned())), not_yet);
    assert_eq!(after(&|scene| scene.facts.watched_loop = LoopState::Alive { overdue: true }), not_yet);
    // What was only lent goes back whatever the loop does; what is leased is not lent without it.
    let lent = Holding::Lent { remaining: Duration::from_secs(5) };
    assert_eq!(
        after(&|scene| {
            scene.holding(lent).beat(LoopVerdict::Follower, LoopFip::Untouched, 1_000);
        }),
        None
    );
    let mut lease = Scene::of(StepKind::LeaseAlias);
    lease.holding(Holding::Leased { remaining: Duration::from_secs(5) }).beat(LoopVerdict::Follower, LoopFip::Kept, 1_000);
    assert_eq!(lease.why_not(), not_yet);
}

#[test]
fn only_a_single_host_route_is_lent_a_lease() {
    let lease = |change: &dyn Fn(&mut AliasView)| Scene::of(StepKind::LeaseAlias).alias(change).why_not();
    assert_eq!(lease(&|_| {}), None);
    assert_eq!(lease(&|view| view.entries[0].prefix_len = 24), Some(UnsafeReason::NotAHostRoute));
    assert_eq!(lease(&|view| view.entries.push(entry(None))), Some(UnsafeReason::NotAHostRoute));
}

#[test]
fn a_manifest_that_is_not_sound_is_not_moved() {
    let cycle = |change: &dyn Fn(&mut ManifestView)| Scene::of(StepKind::CycleManifest).manifest(change).why_not();
    let immovable = Some(UnsafeReason::ManifestImmovable("a link".to_owned()));
    assert_eq!(cycle(&|view| view.immovable = Some("a link".to_owned())), immovable);
    assert_eq!(cycle(&|view| view.sha256 = None), Some(UnsafeReason::ManifestAbsent));
    let shadowed = Some(UnsafeReason::ManifestShadowed("/etc/x.bak".to_owned()));
    assert_eq!(cycle(&|view| view.shadows.push("/etc/x.bak".into())), shadowed);
}

#[test]
fn a_pod_is_not_cycled_twice_at_once_nor_without_a_kubelet_nor_with_a_twin_nor_while_it_works() {
    let cycle = |change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::of(StepKind::CycleManifest);
        change(&mut scene);
        scene.why_not()
    };
    let open = Some(CycleView { phase: CyclePhase::Out });
    assert_eq!(cycle(&|scene| scene.observation.cycle = open.clone()), Some(UnsafeReason::CycleOpen));
    assert_eq!(cycle(&|scene| scene.observation.kubelet = fresh(KubeletView::Down)), Some(UnsafeReason::KubeletDown));
    let copies = |copies: usize| {
        cycle(&|scene| {
            let Some(ProcessView::Present(process)) = scene.observation.process.fresh().cloned() else { panic!("no process") };
            scene.observation.process = fresh(ProcessView::Present(LoopProcess { copies, ..process }));
        })
    };
    assert_eq!(copies(0), None);
    assert_eq!(copies(2), Some(UnsafeReason::SeveralCopies(2)));
    assert_eq!(copies(3), Some(UnsafeReason::SeveralCopies(3)));
    let works = |watched_loop: LoopState| cycle(&|scene| scene.facts.watched_loop = watched_loop.clone());
    let because = |why: &str| Some(UnsafeReason::LoopNotStalled(why.to_owned()));
    assert_eq!(works(LoopState::Absent), because("no process; the kubelet restarts it"));
    assert_eq!(
        works(LoopState::Starved("late".to_owned())),
        because("the node starves, so that a silence of its loop means nothing")
    );
    let blind = LoopState::Blind { how: "curl exit status 60".to_owned(), lasts: Duration::from_secs(60), took_fip_off: false };
    assert_eq!(works(blind), because("it finishes rounds, and a new one would ask the same etcd in the same way"));
    assert_eq!(works(LoopState::LogStalled), because("only its log is frozen"));
    assert_eq!(works(LoopState::Alive { overdue: true }), because("it finishes rounds"));
    let mistaken = LoopState::Mistaken { says_it_leads: true, lasts: Duration::from_secs(60), took_fip_off: false };
    assert_eq!(works(mistaken), None, "no round of it is of use");
}
