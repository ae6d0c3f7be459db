//! What readings come to, up to the last millisecond on either side of each threshold.

use std::time::Duration;

use fip_watchdog::decision::facts::{Holding, LoopState, Role, last_beat, last_sign, unknown_reason};
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView, LoopProcess, ProcessView, Quorum, Reading,
};
use fip_watchdog::decision::step::StepKind;

use crate::scene::{NOW, Scene, at, entry, fresh, policy};

/// How the loop does when its last sign, the process's progress and its first sight are so old (ms); 0 is now.
fn loop_state(sign: u64, process: Reading<ProcessView>) -> LoopState {
    let mut scene = Scene::of(StepKind::ApplyAlias);
    let view = scene.observation.heartbeat.fresh().unwrap().clone();
    scene.observation.heartbeat = fresh(HeartbeatView { last_beat_at: Some(at(NOW - sign)), ..view });
    scene.observation.process = process;
    LoopState::of(&scene.observation, &policy().watched_loop, at(NOW), at(0))
}

fn present(progress: u64, seen: u64) -> Reading<ProcessView> {
    let Some(ProcessView::Present(process)) = Scene::of(StepKind::ApplyAlias).observation.process.fresh().cloned() else {
        panic!("no process")
    };
    fresh(ProcessView::Present(LoopProcess { progress_at: at(NOW - progress), seen_since: at(NOW - seen), ..process }))
}

const LONG: u64 = 900_000;
const IN_TIME: LoopState = LoopState::Alive { overdue: false };
const OVERDUE: LoopState = LoopState::Alive { overdue: true };

#[test]
fn a_loop_with_a_process_is_judged_by_its_last_round_and_then_by_its_progress() {
    for (sign, progress, state) in [
        (0, 0, Some(IN_TIME)),
        (7_000, 0, Some(IN_TIME)),
        (7_001, 0, Some(OVERDUE)),
        (19_999, 60_000, Some(OVERDUE)),
        (20_000, 0, Some(LoopState::LogStalled)),
        (20_000, 4_000, Some(LoopState::LogStalled)),
        (20_000, 4_001, Some(OVERDUE)),
        (34_999, 19_000, Some(OVERDUE)),
        (35_000, 19_000, Some(LoopState::LogStalled)),
        (60_000, 19_999, Some(LoopState::LogStalled)),
        (60_000, 20_000, None),
        (20_000, 20_000, None),
    ] {
        let seen = loop_state(sign, present(progress, LONG));
        match state {
            Some(state) => assert_eq!(seen, state, "sign {sign} ms, progress {progress} ms ago"),
            None => assert!(matches!(&seen, LoopState::Stalled(how) if how.contains("in state S")), "{seen:?}"),
        }
    }
    assert_eq!(loop_state(LONG, present(LONG, 7_000)), IN_TIME, "a new process gets the time of a round");
    assert_eq!(loop_state(LONG, present(LONG, 7_001)), OVERDUE);
    assert!(loop_state(LONG, present(LONG, 20_000)).is_down());
}

#[test]
fn a_loop_without_a_process_is_absent_when_both_its_signs_are_old() {
    let absent = |sign: u64, since: u64| loop_state(sign, fresh(ProcessView::Absent { since: at(NOW - since) }));
    assert_eq!(absent(60_000, 19_999), OVERDUE);
    assert_eq!(absent(60_000, 20_000), LoopState::Absent);
    assert_eq!(absent(4_999, 60_000), OVERDUE, "it beats: the process was not found");
    assert_eq!(absent(5_000, 60_000), LoopState::Absent);
}

#[test]
fn a_loop_without_a_process_is_absent_although_its_log_is_gone_too() {
    let no_log = |process: Reading<ProcessView>| {
        let mut scene = Scene::of(StepKind::ApplyAlias);
        scene.observation.heartbeat = Reading::Unknown("no log directory".to_owned());
        scene.observation.process = process;
        LoopState::of(&scene.observation, &policy().watched_loop, at(NOW), at(0))
    };
    let absent = |since: u64| fresh(ProcessView::Absent { since: at(NOW - since) });
    let unknown = LoopState::Unknown("heartbeat: no log directory".to_owned());
    assert_eq!(no_log(absent(19_999)), unknown);
    assert_eq!(no_log(absent(20_000)), LoopState::Absent);
    assert_eq!(no_log(present(LONG, LONG)), unknown, "a process that stands still may wait for its next round");
    assert_eq!(no_log(Reading::Unknown("no uid".to_owned())), unknown);
}

#[test]
fn a_process_that_cannot_be_seen_makes_the_log_alone_count_for_longer() {
    let unseen = |sign: u64| loop_state(sign, Reading::Unknown("no permission".to_owned()));
    assert_eq!(unseen(7_000), IN_TIME);
    assert_eq!(unseen(7_001), OVERDUE);
    assert_eq!(unseen(19_999), OVERDUE);
    assert_eq!(unseen(20_000), LoopState::Unknown("process: no permission".to_owned()));
    assert_eq!(unseen(59_999), LoopState::Unknown("process: no permission".to_owned()));
    assert!(matches!(unseen(60_000), LoopState::Stalled(how) if how.contains("cannot be seen: no permission")));
}

#[test]
fn only_a_loop_that_is_down_or_led_astray_keeps_the_fip() {
    let lasts = Duration::from_secs(60);
    let blind = |took_fip_off| LoopState::Blind { how: String::new(), lasts, took_fip_off };
    let mistaken = |took_fip_off| LoopState::Mistaken { says_it_leads: true, lasts, took_fip_off };
    for (state, down, keeps, took) in [
        (LoopState::Unknown(String::new()), false, false, false),
        (IN_TIME, false, false, false),
        (OVERDUE, false, false, false),
        (LoopState::LogStalled, false, false, false),
        (LoopState::Starved(String::new()), false, false, false),
        (LoopState::Stalled(String::new()), true, true, false),
        (LoopState::Absent, true, true, false),
        (blind(false), false, true, false),
        (blind(true), false, true, true),
        (mistaken(false), false, true, false),
        (mistaken(true), false, true, true),
    ] {
        assert_eq!((state.is_down(), state.keeps_fip(), state.took_fip_off()), (down, keeps, took), "{state:?}");
    }
}

#[test]
fn the_sign_of_a_loop_is_its_round_or_where_following_began() {
    let view = Scene::of(StepKind::ApplyAlias).observation.heartbeat.fresh().unwrap().clone();
    let sign = |beat: Option<u64>, following: u64| {
        last_sign(&HeartbeatView { last_beat_at: beat.map(at), following_since: at(following), ..view.clone() })
    };
    assert_eq!(sign(Some(500), 100), at(500));
    assert_eq!(sign(Some(100), 500), at(500), "a new file");
    assert_eq!(sign(None, 500), at(500));
    let scene = Scene::of(StepKind::ApplyAlias);
    assert_eq!(last_beat(&scene.observation).map(|(_, at)| at), Some(at(NOW - 1_000)));
}

#[test]
fn a_member_is_what_it_says_and_what_the_quorum_says_of_it() {
    let confirmed = Quorum::Confirmed { at: at(NOW) };
    let denied = Quorum::Denied("why".to_owned());
    let role = |leader: u64, learner: bool, quorum: &Quorum| {
        let status = EtcdStatus { member_id: 1, leader, learner, quorum: quorum.clone(), ..EtcdStatus::default() };
        Role::of(&fresh(EtcdView::Answered(status)))
    };
    for (quorum, leading, following) in [
        (&Quorum::NotAsked, Role::ClaimsToLead, Role::ClaimsToFollow),
        (&confirmed, Role::Leads, Role::Follows),
        (&denied, Role::Unproven("why".to_owned()), Role::CutOff("why".to_owned())),
    ] {
        assert_eq!(role(1, false, quorum), leading);
        assert_eq!(role(2, false, quorum), following);
        assert_eq!(role(0, false, quorum), Role::NoLeader);
        assert_eq!(role(1, true, quorum), Role::Learner);
        assert!(leading.says_it_leads() && !following.says_it_leads());
    }
    assert_eq!(Role::of(&fresh(EtcdView::Unreachable(EtcdFault::TimedOut))), Role::Unreachable(EtcdFault::TimedOut));
    assert_eq!(Role::of(&Reading::Unknown("why".to_owned())), Role::Unknown("why".to_owned()));
    assert_eq!(Role::of(&Reading::Stale { since: at(0) }), Role::Unknown("the last answer is too old".to_owned()));
    assert!(!Role::NoLeader.says_it_leads() && !Role::Learner.says_it_leads());
}

#[test]
fn whose_an_alias_is_shows_in_its_lifetime() {
    let (long, short) = (Duration::from_secs(9), Duration::from_secs(4));
    let of = |entries: Vec<AliasEntry>| Holding::of(&AliasView { entries, up: true, carrier: true });
    let lent = |valid_for| AliasEntry { lent: true, ..entry(Some(valid_for)) };
    assert_eq!(of(Vec::new()), Holding::Absent);
    assert_eq!(of(vec![entry(None)]), Holding::Held);
    assert_eq!(of(vec![entry(Some(long)), entry(Some(short))]), Holding::Leased { remaining: short });
    assert_eq!(of(vec![entry(Some(short)), entry(None)]), Holding::Held, "one without a lease is the loop's");
    assert_eq!(of(vec![lent(long)]), Holding::Lent { remaining: long });
    assert_eq!(of(vec![entry(Some(short)), lent(long)]), Holding::Lent { remaining: short });
    for (holding, remaining) in [
        (Holding::Absent, None),
        (Holding::Held, None),
        (Holding::Leased { remaining: short }, Some(short)),
        (Holding::Lent { remaining: long }, Some(long)),
    ] {
        assert_eq!(holding.remaining(), remaining);
    }
}

#[test]
fn a_reading_says_why_it_is_not_fresh() {
    assert_eq!(unknown_reason(&fresh(1)), "it is fresh");
    assert_eq!(unknown_reason(&Reading::<u8>::Stale { since: at(0) }), "the last reading is too old");
    assert_eq!(unknown_reason(&Reading::<u8>::Unknown("why".to_owned())), "why");
}
