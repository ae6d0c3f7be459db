//! Streaks of odd rounds: what counts, what ends them.

use std::time::Duration;

use super::*;
use crate::decision::api::ApiView;
use crate::decision::observation::{HeartbeatView, Reading, StrainView};

const NONE: Moment = Moment::from_origin(Duration::ZERO);

fn at(seconds: u64) -> Moment {
    Moment::from_origin(Duration::from_secs(seconds))
}

fn failed() -> LoopVerdict {
    LoopVerdict::QueryFailed("curl exit status 7".to_owned())
}

/// What is seen when the loop's last round was read at `beat_at`.
fn seen(verdict: Option<LoopVerdict>, fip: LoopFip, beat_at: u64) -> Observation {
    let unread = || "the test does not need it".to_owned();
    let beat = verdict.map(|verdict| Beat { verdict, revision: None, raft_index: None, raft_term: None, fip });
    let heartbeat = HeartbeatView {
        last_beat_at: beat.as_ref().map(|_| at(beat_at)),
        last_beat: beat,
        following_since: NONE,
        last_growth_at: None,
        log: "/var/log/pods/x/0.log".into(),
    };
    Observation {
        etcd: Reading::Unknown(unread()),
        heartbeat: Reading::Fresh { value: heartbeat, at: at(beat_at) },
        process: Reading::Unknown(unread()),
        alias: Reading::Unknown(unread()),
        manifest: Reading::Unknown(unread()),
        kubelet: Reading::Unknown(unread()),
        conflict: Reading::Unknown(unread()),
        api: ApiView::default(),
        expired: None,
        cycle: None,
        in_flight: std::collections::BTreeSet::new(),
        paused: None,
        resumed_at: None,
        strain: StrainView::default(),
        hold_off: None,
    }
}

/// The oddness that is known after these rounds, 5 s apart, each looked at three times.
fn after(rounds: &[(LoopVerdict, Role)]) -> Option<Odd> {
    let mut memory = Rounds::default();
    for (round, (verdict, role)) in rounds.iter().enumerate() {
        for _ in 0..3 {
            memory.note(&seen(Some(verdict.clone()), LoopFip::Untouched, 5 * (round as u64 + 1)), role, NONE);
        }
    }
    memory.streak().map(|streak| streak.odd)
}

#[test]
fn three_failed_rounds_in_a_row_make_a_loop_blind_and_two_do_not() {
    for role in [Role::Leads, Role::ClaimsToFollow, Role::NoLeader] {
        assert_eq!(after(&vec![(failed(), role.clone()); 2]), None);
        assert_eq!(after(&vec![(failed(), role); 3]), Some(Odd::Blind));
    }
}

#[test]
fn one_round_that_asked_well_ends_the_blindness() {
    let (bad, good) = ((failed(), Role::Leads), (LoopVerdict::Leader, Role::Leads));
    assert_eq!(after(&[bad.clone(), bad.clone(), good.clone(), bad.clone(), bad.clone()]), None);
    assert_eq!(after(&[bad.clone(), bad.clone(), bad, good]), None);
}

#[test]
fn an_etcd_that_does_not_answer_us_either_makes_no_blindness() {
    let unreachable = Role::Unreachable(crate::decision::observation::EtcdFault::Refused);
    let bad = |role: &Role| (failed(), role.clone());
    assert_eq!(after(&vec![bad(&unreachable); 9]), None);
    assert_eq!(after(&[bad(&unreachable), bad(&unreachable), bad(&Role::Leads), bad(&Role::Leads)]), None);
}

#[test]
fn a_blind_loop_stays_blind_through_an_election() {
    let bad = |role| (failed(), role);
    assert_eq!(after(&[bad(Role::Follows), bad(Role::NoLeader), bad(Role::ClaimsToLead)]), Some(Odd::Blind));
}

#[test]
fn three_rounds_that_contradict_etcd_make_a_loop_mistaken_whichever_way() {
    for (verdict, role, odd) in [
        (LoopVerdict::Leader, Role::ClaimsToFollow, Odd::TakesItselfForLeader),
        (LoopVerdict::Follower, Role::Leads, Odd::TakesItselfForFollower),
    ] {
        assert_eq!(after(&vec![(verdict.clone(), role.clone()); 2]), None);
        assert_eq!(after(&vec![(verdict, role); 3]), Some(odd));
    }
}

#[test]
fn a_role_that_changes_in_between_starts_the_count_anew() {
    let (leader, follower) = (LoopVerdict::Leader, LoopVerdict::Follower);
    let wrong = (follower, Role::Leads);
    assert_eq!(after(&[wrong.clone(), wrong.clone(), (leader, Role::Follows), wrong.clone()]), None);
    assert_eq!(after(&[wrong.clone(), wrong.clone(), (LoopVerdict::Follower, Role::NoLeader), wrong]), None);
}

#[test]
fn a_round_from_before_the_role_changed_counts_for_nothing_however_often_it_is_seen() {
    let mut memory = Rounds::default();
    memory.note(&seen(Some(LoopVerdict::Follower), LoopFip::Untouched, 5), &Role::Follows, NONE);
    for _ in 0..100 {
        memory.note(&seen(Some(LoopVerdict::Follower), LoopFip::Untouched, 5), &Role::Leads, NONE);
    }
    assert_eq!(memory.streak, None);
}

#[test]
fn a_new_container_and_a_pause_of_this_daemon_start_the_count_anew() {
    let mut memory = Rounds::default();
    let mut round = |verdict: Option<LoopVerdict>, beat_at, void_before| {
        memory.note(&seen(verdict, LoopFip::Untouched, beat_at), &Role::Leads, void_before);
        memory.streak().is_some()
    };
    assert!(!round(Some(failed()), 5, NONE) && !round(Some(failed()), 10, NONE) && round(Some(failed()), 15, NONE));
    assert!(!round(Some(failed()), 15, at(17)), "rounds from before the pause");
    assert!(!round(Some(failed()), 20, at(17)) && !round(Some(failed()), 25, at(17)) && round(Some(failed()), 30, at(17)));
    assert!(!round(None, 35, at(17)), "a new container");
    assert!(!round(Some(failed()), 36, at(17)));
}

#[test]
fn a_round_that_was_read_in_the_moment_in_which_the_pause_ended_is_the_first_that_counts() {
    let mut memory = Rounds::default();
    for beat_at in [12, 17, 22] {
        memory.note(&seen(Some(failed()), LoopFip::Untouched, beat_at), &Role::Leads, at(17));
        assert_eq!(memory.streak(), None);
    }
    memory.note(&seen(Some(failed()), LoopFip::Untouched, 27), &Role::Leads, at(17));
    assert!(memory.streak().is_some());
}

#[test]
fn a_loop_that_took_the_fip_off_in_one_of_the_rounds_is_remembered() {
    let mut memory = Rounds::default();
    for (round, fip) in [LoopFip::Removed, LoopFip::Untouched, LoopFip::Untouched].into_iter().enumerate() {
        memory.note(&seen(Some(failed()), fip, 5 * (round as u64 + 1)), &Role::Leads, NONE);
    }
    assert!(memory.streak().is_some_and(|streak| streak.took_fip_off));
}

#[test]
fn a_log_that_cannot_be_read_for_a_moment_forgets_nothing() {
    let mut memory = Rounds::default();
    for beat_at in [5, 10, 15] {
        memory.note(&seen(Some(failed()), LoopFip::Untouched, beat_at), &Role::Leads, NONE);
        let mut blind = seen(None, LoopFip::Untouched, beat_at);
        blind.heartbeat = Reading::Unknown("the disk hangs".to_owned());
        memory.note(&blind, &Role::Leads, NONE);
    }
    assert!(memory.streak().is_some());
}
