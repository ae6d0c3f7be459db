//! A release without a quorum rests on what etcd says now, not on what it said a while ago. Found by the model check:
//! a stop too short to be noticed as a pause counted towards "for longer than one worst round".

use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::facts::{Holding, LoopState, Role};
use fip_watchdog::decision::guard::Guards;
use fip_watchdog::decision::judge::Facts;
use fip_watchdog::decision::observation::{EtcdStatus, EtcdView, Observation, Reading, StrainView};
use fip_watchdog::decision::safety::unsafe_to_run;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;

const NOW: Moment = Moment::from_origin(Duration::from_secs(1_000));

fn no_leader(answered: Moment) -> Observation {
    let unread = || "the test does not need it".to_owned();
    Observation {
        etcd: Reading::Fresh { value: EtcdView::Answered(EtcdStatus { member_id: 1, ..EtcdStatus::default() }), at: answered },
        heartbeat: Reading::Unknown(unread()),
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

fn may_release(answer_age: Duration) -> bool {
    let policy = Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0");
    let facts = Facts {
        paused: false,
        resumed: false,
        starting: false,
        role: Role::NoLeader,
        flapping: None,
        role_age: Duration::from_secs(60),
        told_for: Duration::from_secs(60),
        holding: Ok(Holding::Held),
        holding_age: Duration::from_secs(600),
        contested: false,
        link_settled: true,
        watched_loop: LoopState::Stalled("no finished round for 60 s".to_owned()),
        manifest_missing: None,
        manifest_shadowed: None,
        kubelet_down: None,
        pod_stuck: None,
        worst_round: policy.watched_loop.worst_round(),
    };
    let answered = Moment::from_origin(NOW.since_origin().saturating_sub(answer_age));
    unsafe_to_run(StepKind::ReleaseAlias, &no_leader(answered), &facts, &policy, Guards::default(), NOW).is_none()
}

#[test]
fn an_answer_that_is_older_than_a_proof_may_be_releases_nothing() {
    assert!(may_release(Duration::ZERO));
    assert!(may_release(Duration::from_secs(2)));
    assert!(!may_release(Duration::from_millis(2_001)));
}
