//! How deep and how soon etcd is asked for the sake of an alias that is there already, while all is well.

use std::time::Duration;

use fip_watchdog::decision::facts::Holding;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{EtcdStatus, EtcdView, LoopFip, LoopVerdict, OperatorPause, Quorum};
use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::decision::step::{StepKind, StepOutcome};
use fip_watchdog::policy::Mode;

use crate::scene::{NOW, Scene, at, fresh, policy};

/// A member that has only been asked for its own word.
struct Seen {
    leads: bool,
    holding: Holding,
    announced: bool,
    option: bool,
    paused: bool,
    mode: Mode,
}

const HELD: Seen =
    Seen { leads: true, holding: Holding::Held, announced: true, option: true, paused: false, mode: Mode::Enforce };

/// How deep the next question goes, and after how many milliseconds.
fn next(seen: &Seen) -> (EtcdDepth, u128) {
    let mut scene = Scene::of(StepKind::AnnounceAlias);
    scene.holding(seen.holding);
    let verdict = if seen.leads { LoopVerdict::Leader } else { LoopVerdict::Follower };
    scene.beat(verdict, if seen.leads { LoopFip::Kept } else { LoopFip::Untouched }, 1_000);
    let status = |quorum| EtcdStatus { member_id: 1, leader: if seen.leads { 1 } else { 2 }, quorum, ..EtcdStatus::default() };
    scene.observation.paused =
        seen.paused.then(|| OperatorPause { reason: "test".to_owned(), remaining: Duration::from_secs(60) });
    let mut policy = policy();
    (policy.fip.lease_loop_alias, policy.mode) = (seen.option, seen.mode);
    let mut machine = Machine::new(at(0), &[]);
    scene.observation.etcd = fresh(EtcdView::Answered(status(Quorum::Confirmed { at: at(NOW - 1) })));
    machine.step(&scene.observation, &policy, at(NOW - 1));
    if seen.announced {
        machine.on_step_finished(StepKind::AnnounceAlias, &StepOutcome::Succeeded("test".to_owned()), at(NOW - 1));
    }
    scene.observation.etcd = fresh(EtcdView::Answered(status(Quorum::NotAsked)));
    let decision = machine.step(&scene.observation, &policy, at(NOW));
    assert_eq!(decision.start, [], "nothing is begun on the member's own word");
    (decision.etcd_depth, decision.next_deadline.since(at(NOW)).as_millis())
}

const CALM: (EtcdDepth, u128) = (EtcdDepth::Status, 1_000);
const SOON: (EtcdDepth, u128) = (EtcdDepth::Proof, 250);

const fn lent(left_ms: u64) -> Holding {
    Holding::Lent { remaining: Duration::from_millis(left_ms) }
}

const fn leased(left_ms: u64) -> Holding {
    Holding::Leased { remaining: Duration::from_millis(left_ms) }
}

#[test]
fn an_alias_for_ever_is_proven_only_to_lend_it_a_lease() {
    assert_eq!(next(&HELD), (EtcdDepth::Proof, 1_000), "nothing runs out");
    assert_eq!(next(&Seen { option: false, ..HELD }), CALM);
    assert_eq!(next(&Seen { leads: false, ..HELD }), CALM);
    assert_eq!(next(&Seen { paused: true, ..HELD }), CALM);
    assert_eq!(next(&Seen { mode: Mode::Observe, ..HELD }), CALM);
}

#[test]
fn a_lent_lease_is_proven_one_look_before_its_renewal_is_due_and_at_once_when_it_is_to_go_back() {
    assert_eq!(next(&Seen { holding: lent(6_001), ..HELD }), CALM);
    assert_eq!(next(&Seen { holding: lent(6_000), ..HELD }), SOON);
    assert_eq!(next(&Seen { holding: lent(9_000), option: false, ..HELD }), SOON);
    assert_eq!(next(&Seen { holding: lent(9_000), paused: true, ..HELD }), SOON);
    assert_eq!(next(&Seen { leads: false, holding: lent(1_000), ..HELD }), CALM, "the loop takes it off, or it ends");
    assert_eq!(next(&Seen { leads: false, holding: lent(1_000), option: false, ..HELD }), CALM);
}

#[test]
fn what_was_applied_is_proven_all_the_time_wherever_the_leader_is() {
    for option in [false, true] {
        assert_eq!(next(&Seen { holding: leased(9_000), option, ..HELD }), SOON);
    }
    let follower = next(&Seen { leads: false, holding: leased(9_000), option: false, ..HELD });
    assert_eq!(follower.0, EtcdDepth::Proof, "to take it off");
}

#[test]
fn an_announcement_that_clients_wait_for_is_proven_now_and_on_the_leader_alone() {
    let due = Seen { announced: false, option: false, ..HELD };
    assert_eq!(next(&due), (EtcdDepth::Proof, 0));
    assert_eq!(next(&Seen { leads: false, ..due }).0, EtcdDepth::Status);
}
