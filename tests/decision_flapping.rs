//! A leadership that changes hands again and again is waited out; one failover, or a partition that heals, is not.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, ConflictView, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopProcess, ManifestView,
    Observation, ProcessView, Quorum, Reading, StrainView,
};
use fip_watchdog::decision::plan::{Decision, WaitingOn};
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::Policy;

const fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

/// A node whose loop has been frozen for long.
#[derive(Clone, Copy)]
struct Seen {
    leads: bool,
    term: u64,
    alias: Option<Option<Duration>>,
}

fn observation(seen: Seen, now: Moment) -> Observation {
    fn fresh<T>(value: T, at: Moment) -> Reading<T> {
        Reading::Fresh { value, at }
    }
    let status = EtcdStatus {
        member_id: 1,
        leader: if seen.leads { 1 } else { 2 },
        raft_term: seen.term,
        quorum: Quorum::Confirmed { at: now },
        ..EtcdStatus::default()
    };
    let heartbeat = HeartbeatView {
        last_beat: None,
        last_beat_at: None,
        following_since: at(0),
        last_growth_at: None,
        log: "/var/log/pods/x/0.log".into(),
    };
    let process =
        LoopProcess { pid: 7, start_ticks: 1, state: 'S', progress_at: at(0), seen_since: at(0), wchan: None, copies: 1 };
    let entries = seen.alias.map(|valid_for| AliasEntry { prefix_len: 32, valid_for, lent: false });
    Observation {
        etcd: fresh(EtcdView::Answered(status), now),
        heartbeat: fresh(heartbeat, now),
        process: fresh(ProcessView::Present(process), now),
        alias: fresh(AliasView { entries: entries.into_iter().collect(), up: true, carrier: true }, now),
        manifest: fresh(ManifestView { sha256: Some("ab".repeat(32)), shadows: Vec::new(), immovable: None }, now),
        kubelet: fresh(KubeletView::Running, now),
        conflict: fresh(ConflictView::default(), now),
        api: ApiView::default(),
        expired: None,
        cycle: None,
        in_flight: BTreeSet::new(),
        paused: None,
        resumed_at: None,
        strain: StrainView::default(),
        hold_off: None,
    }
}

struct Node {
    machine: Machine,
    policy: Policy,
    now: u64,
    last: Option<Decision>,
}

impl Node {
    /// A follower whose machine has looked at the frozen loop for a minute.
    fn new() -> Self {
        let policy = Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0");
        let mut node = Self { machine: Machine::new(at(600_000), &[]), policy, now: 600_000, last: None };
        node.policy.remedies.insert(Verdict::LoopStalledFollower, Vec::new());
        node.look(Seen { leads: false, term: 1, alias: None }, 60_000);
        node
    }

    /// The same for so long; the steps that were ordered.
    fn look(&mut self, seen: Seen, millis: u64) -> BTreeSet<StepKind> {
        let mut steps = BTreeSet::new();
        for _ in 0..millis / 250 {
            self.now += 250;
            let decision = self.machine.step(&observation(seen, at(self.now)), &self.policy, at(self.now));
            steps.extend(decision.start.iter().copied());
            self.last = Some(decision);
        }
        steps
    }

    /// The leader moves to and fro every `millis`, so often; this node leads at the end.
    fn flap(&mut self, times: u64, millis: u64) -> BTreeSet<StepKind> {
        let mut steps = BTreeSet::new();
        for change in (0..times).rev() {
            steps.extend(self.look(Seen { leads: change % 2 == 0, term: 100 - change, alias: None }, millis));
        }
        steps
    }

    fn verdict(&self) -> Verdict {
        self.last.as_ref().map_or(Verdict::Starting, |decision| decision.verdict)
    }
}

const LEADS: Seen = Seen { leads: true, term: 100, alias: None };

#[test]
fn up_to_three_changes_in_a_minute_hold_nothing_up() {
    for changes in 1..=3 {
        let mut node = Node::new();
        node.flap(changes, 250);
        assert_eq!(node.verdict(), Verdict::LoopStalledFipMissing, "{changes} changes");
        assert!(node.last.as_ref().is_some_and(|decision| decision.start == [StepKind::ApplyAlias]), "{changes} changes");
    }
}

#[test]
fn a_leader_that_moves_every_three_seconds_is_waited_out_until_it_is_stable() {
    let mut node = Node::new();
    node.flap(7, 3_000);
    assert_eq!(node.verdict(), Verdict::LeaderFlapping);
    let last = node.last.clone().expect("a decision");
    assert!(matches!(last.waiting_on.as_slice(), [WaitingOn::StableLeader { .. }]), "{:?}", last.waiting_on);
    assert!(node.look(LEADS, 11_750).is_empty(), "15 s after the last change have not passed");
    assert!(node.look(LEADS, 500).contains(&StepKind::ApplyAlias));
}

#[test]
fn changes_that_are_far_apart_never_add_up() {
    let mut node = Node::new();
    node.flap(9, 20_250);
    assert_eq!(node.verdict(), Verdict::LoopStalledFipMissing);
    for term in 101..110 {
        // Four changes, the first of them a minute ago.
        for millis in [250, 19_750] {
            node.look(Seen { term, ..LEADS }, millis);
            assert_eq!(node.verdict(), Verdict::LoopStalledFipMissing, "term {term}");
        }
    }
}

#[test]
fn after_a_hold_the_count_begins_anew() {
    let mut node = Node::new();
    node.flap(5, 3_000);
    node.look(LEADS, 15_000);
    node.look(Seen { leads: false, term: 101, alias: None }, 250);
    assert!(node.look(Seen { leads: true, term: 102, alias: None }, 1_250).contains(&StepKind::ApplyAlias));
}

#[test]
fn a_change_at_the_very_end_of_a_hold_is_the_first_of_the_new_count() {
    let mut node = Node::new();
    node.flap(5, 3_000);
    node.look(LEADS, 12_250);
    assert_eq!(node.verdict(), Verdict::LoopStalledFipMissing, "the hold has ended in this look");
    for term in 101..104 {
        node.look(Seen { term, ..LEADS }, 250);
        assert_eq!(node.verdict(), Verdict::LoopStalledFipMissing, "term {term}");
    }
    node.look(Seen { term: 104, ..LEADS }, 250);
    assert_eq!(node.verdict(), Verdict::LeaderFlapping);
}

#[test]
fn a_hold_that_is_longer_than_the_window_is_held_to_its_end() {
    let mut node = Node::new();
    node.policy.etcd.stable_for = Duration::from_secs(90);
    node.flap(5, 3_000);
    assert!(node.look(LEADS, 87_000).is_empty());
    assert_eq!(node.verdict(), Verdict::LeaderFlapping);
    assert!(node.look(LEADS, 250).contains(&StepKind::ApplyAlias));
}

#[test]
fn a_lease_goes_on_under_its_proof_and_a_follower_lets_go_and_is_not_cycled() {
    let mut node = Node::new();
    node.flap(5, 3_000);
    let leased = Seen { alias: Some(Some(Duration::from_secs(3))), ..LEADS };
    assert_eq!(node.look(leased, 1_000), BTreeSet::from([StepKind::RenewAlias]));
    assert_eq!(node.verdict(), Verdict::LeaderFlapping);
    let held = Seen { leads: false, term: 101, alias: Some(None) };
    assert_eq!(node.look(held, 1_000), BTreeSet::from([StepKind::ReleaseAlias]));
    assert_eq!(node.verdict(), Verdict::FipOrphaned);
    node.policy.remedies.insert(Verdict::FipOrphaned, vec![StepKind::CycleManifest]);
    assert!(node.look(held, 12_000).is_empty(), "no cycle while the leadership flaps");
    assert!(node.look(held, 5_000).contains(&StepKind::CycleManifest));
}
