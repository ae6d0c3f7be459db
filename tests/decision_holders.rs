//! One holder (invariant I1), as histories: a second holder, a pause of our own, the lease on the loop's alias, a
//! link that flaps, and the end of the daemon.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, Claim, ConflictView, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopFip, LoopProcess,
    LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum, Reading, StrainView,
};
use fip_watchdog::decision::plan::{Decision, EtcdDepth};
use fip_watchdog::decision::step::{StepKind, StepOutcome};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::{Mode, Policy};

const START_MS: u64 = 1_000_000;
const LEASE: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

/// A node with a healthy loop, and what a history changes about it.
struct Node {
    machine: Machine,
    policy: Policy,
    now_ms: u64,
    leads: bool,
    /// Every question to etcd is answered with a proof; otherwise only when it was asked for.
    proof_at: Option<u64>,
    alias: Vec<AliasEntry>,
    link: bool,
    claimed: bool,
    /// A claim that was heard at this time, and not since.
    old_claim: Option<u64>,
    loop_frozen_since: Option<u64>,
    resumed_at: Option<u64>,
    paused: bool,
}

impl Node {
    fn new() -> Self {
        Self {
            machine: Machine::new(at(START_MS), &[]),
            policy: Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0"),
            now_ms: START_MS,
            leads: true,
            proof_at: None,
            alias: vec![forever()],
            link: true,
            claimed: false,
            old_claim: None,
            loop_frozen_since: None,
            resumed_at: None,
            paused: false,
        }
    }

    fn observation(&self) -> Observation {
        fn fresh<T>(value: T, now_ms: u64) -> Reading<T> {
            Reading::Fresh { value, at: at(now_ms) }
        }
        let now = self.now_ms;
        let beat_at = self.loop_frozen_since.unwrap_or(now - now % 5_000).min(now);
        let fip = if self.leads { LoopFip::Kept } else { LoopFip::Untouched };
        let verdict = if self.leads { LoopVerdict::Leader } else { LoopVerdict::Follower };
        Observation {
            etcd: fresh(
                EtcdView::Answered(EtcdStatus {
                    member_id: 1,
                    leader: if self.leads { 1 } else { 2 },
                    raft_term: 7,
                    quorum: Quorum::Confirmed { at: at(self.proof_at.unwrap_or(now)) },
                    ..EtcdStatus::default()
                }),
                now,
            ),
            heartbeat: fresh(
                HeartbeatView {
                    last_beat: Some(Beat { verdict, revision: None, raft_index: None, raft_term: None, fip }),
                    last_beat_at: Some(at(beat_at)),
                    following_since: at(0),
                    last_growth_at: None,
                    log: "/var/log/pods/x/0.log".into(),
                },
                now,
            ),
            process: fresh(
                ProcessView::Present(LoopProcess {
                    pid: 100,
                    start_ticks: 1,
                    state: 'S',
                    progress_at: at(beat_at),
                    seen_since: at(0),
                    wchan: None,
                    copies: 1,
                }),
                now,
            ),
            alias: fresh(AliasView { entries: self.alias.clone(), up: true, carrier: self.link }, now),
            manifest: fresh(ManifestView { sha256: Some("ab".repeat(32)), shadows: Vec::new(), immovable: None }, now),
            kubelet: fresh(KubeletView::Running, now),
            conflict: fresh(
                ConflictView {
                    last: self
                        .old_claim
                        .or(self.claimed.then_some(now))
                        .map(|heard| Claim { mac: "02:00:00:00:00:09".to_owned(), at: at(heard) }),
                },
                now,
            ),
            api: ApiView::default(),
            expired: None,
            cycle: None,
            in_flight: BTreeSet::new(),
            paused: self.paused.then(|| OperatorPause { reason: "test".to_owned(), remaining: Duration::from_secs(60) }),
            resumed_at: self.resumed_at.map(at),
            strain: StrainView::default(),
            hold_off: None,
        }
    }

    /// One round; steps that are started succeed, and show on the interface.
    fn round(&mut self) -> Decision {
        let decision = self.machine.step(&self.observation(), &self.policy, at(self.now_ms));
        for step in &decision.start {
            self.machine.on_step_started(*step, at(self.now_ms));
            self.machine.on_step_finished(*step, &StepOutcome::Succeeded("done".to_owned()), at(self.now_ms));
            match step {
                StepKind::ApplyAlias => self.alias = vec![leased(LEASE)],
                StepKind::HandOverAlias => self.alias = vec![forever()],
                StepKind::LeaseAlias => self.alias = vec![lent(LEASE)],
                StepKind::ReleaseAlias => self.alias.clear(),
                StepKind::RenewAlias => self.alias.iter_mut().for_each(|entry| entry.valid_for = Some(LEASE)),
                StepKind::AnnounceAlias | StepKind::CycleManifest => {}
            }
        }
        decision
    }

    /// Rounds every 250 ms for so long; every step that began, with its time.
    fn run(&mut self, millis: u64) -> Vec<(u64, StepKind)> {
        let mut began = Vec::new();
        let end = self.now_ms + millis;
        while self.now_ms < end {
            self.now_ms += 250;
            for entry in &mut self.alias {
                entry.valid_for = entry.valid_for.map(|left| left.saturating_sub(Duration::from_millis(250)));
            }
            self.alias.retain(|entry| entry.valid_for != Some(Duration::ZERO));
            let decision = self.round();
            began.extend(decision.start.iter().map(|step| (self.now_ms, *step)));
        }
        began
    }

    fn verdict(&self) -> Verdict {
        self.machine.verdict_since().0
    }
}

fn forever() -> AliasEntry {
    AliasEntry { prefix_len: 32, valid_for: None, lent: false }
}

fn leased(left: Duration) -> AliasEntry {
    AliasEntry { prefix_len: 32, valid_for: Some(left), lent: false }
}

fn lent(left: Duration) -> AliasEntry {
    AliasEntry { prefix_len: 32, valid_for: Some(left), lent: true }
}

fn kinds(began: &[(u64, StepKind)]) -> Vec<StepKind> {
    began.iter().map(|(_, step)| *step).collect()
}

#[test]
fn a_proven_leader_defends_the_fip_at_most_once_in_ten_seconds_and_keeps_it() {
    let mut node = Node::new();
    node.run(30_000);
    node.claimed = true;
    let began = node.run(60_000);
    assert_eq!(node.verdict(), Verdict::FipDuplicated);
    assert!(began.iter().all(|(_, step)| *step == StepKind::AnnounceAlias), "{began:?}");
    assert!((6..=7).contains(&began.len()), "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 10_000), "{began:?}");
    node.claimed = false;
    node.run(1_000);
    assert_eq!(node.verdict(), Verdict::Healthy, "a conflict that is over is over");
}

#[test]
fn a_proven_follower_lets_go_of_a_contested_fip_before_the_loops_worst_round_is_over() {
    let mut node = Node::new();
    node.run(30_000);
    node.leads = false;
    node.claimed = true;
    let began = node.run(20_000);
    let change = began.first().map(|(at, step)| (at - START_MS - 30_000, *step));
    assert_eq!(change, Some((7_250, StepKind::ReleaseAlias)), "{began:?}");
    assert_eq!(began.len(), 1);
}

#[test]
fn two_holders_during_an_ordinary_hand_over_are_the_loops_business() {
    let mut node = Node::new();
    node.run(30_000);
    node.leads = false;
    node.claimed = true;
    assert_eq!(node.run(6_500), []);
    // What was heard then is remembered, and must not count later.
    node.old_claim = Some(node.now_ms);
    node.claimed = false;
    assert_eq!(node.run(6_000), []);
    assert_eq!(node.verdict(), Verdict::Healthy);
    let changed_at = node.machine.verdict_since().1.since_origin();
    assert!(changed_at < Duration::from_millis(START_MS + 30_000), "another verdict came between");
}

#[test]
fn a_frozen_loop_is_cycled_although_the_fip_is_contested_and_the_fip_is_announced() {
    let mut node = Node::new();
    node.run(30_000);
    node.claimed = true;
    node.loop_frozen_since = Some(node.now_ms);
    let began = kinds(&node.run(40_000));
    assert_eq!(node.verdict(), Verdict::LoopStalledFipHeld);
    assert!(began.contains(&StepKind::AnnounceAlias) && began.contains(&StepKind::CycleManifest), "{began:?}");
}

#[test]
fn after_an_own_pause_a_lease_is_renewed_under_a_proof_from_after_it_alone() {
    let mut node = Node::new();
    node.alias = vec![leased(LEASE)];
    node.loop_frozen_since = Some(START_MS - 600_000);
    node.run(3_000);
    // The clock stood still: by it the proof is young, and it is from before the pause.
    node.proof_at = Some(node.now_ms);
    node.now_ms += 1;
    node.resumed_at = Some(node.now_ms);
    node.alias = vec![leased(Duration::from_secs(1))];
    let decision = node.round();
    assert_eq!((decision.verdict, decision.etcd_depth), (Verdict::Resumed, EtcdDepth::Proof));
    assert_eq!(decision.start, []);
    node.proof_at = None;
    node.now_ms += 1;
    assert_eq!(node.round().start, [StepKind::RenewAlias], "the first thing under the new proof");
}

#[test]
fn after_an_own_pause_a_leased_alias_goes_as_soon_as_another_leader_is_proven() {
    let mut node = Node::new();
    node.alias = vec![leased(LEASE)];
    node.run(1_000);
    node.now_ms += 60_000;
    node.resumed_at = Some(node.now_ms - 1);
    node.leads = false;
    assert_eq!(node.round().start, [StepKind::ReleaseAlias]);
    assert_eq!(node.verdict(), Verdict::Resumed);
}

#[test]
fn the_loops_alias_is_leased_kept_alive_and_given_back_when_the_option_goes_or_an_operator_pauses() {
    for by_pause in [false, true] {
        let mut node = Node::new();
        assert_eq!(kinds(&node.run(60_000)), [StepKind::AnnounceAlias], "the option is off");
        node.policy.fip.lease_loop_alias = true;
        let began = kinds(&node.run(60_000));
        assert_eq!(began.first(), Some(&StepKind::LeaseAlias));
        assert!(began[1..].iter().all(|step| *step == StepKind::RenewAlias) && began.len() > 8, "{began:?}");
        assert_eq!(node.verdict(), Verdict::Healthy);
        if by_pause {
            node.paused = true;
        } else {
            node.policy.fip.lease_loop_alias = false;
        }
        assert_eq!(kinds(&node.run(60_000)), [StepKind::HandOverAlias]);
        assert_eq!(node.alias, [forever()]);
    }
}

#[test]
fn a_follower_does_not_renew_what_it_lent_and_the_loop_gets_its_round() {
    let mut node = Node::new();
    node.policy.fip.lease_loop_alias = true;
    node.run(10_000);
    node.leads = false;
    let began = node.run(12_000);
    assert_eq!((began, node.alias.as_slice()), (Vec::new(), [].as_slice()), "the kernel ends it");
    assert_eq!(node.verdict(), Verdict::Healthy);
}

#[test]
fn with_the_option_an_applied_alias_stays_leased_when_the_loop_takes_it_over() {
    let mut node = Node::new();
    node.policy.fip.lease_loop_alias = true;
    node.alias = vec![leased(LEASE)];
    let began = kinds(&node.run(20_000));
    assert!(began.contains(&StepKind::LeaseAlias), "{began:?}");
    assert!(!began.contains(&StepKind::HandOverAlias));
}

#[test]
fn neither_an_alias_of_another_prefix_nor_any_in_observe_mode_is_leased() {
    let mut node = Node::new();
    node.policy.fip.lease_loop_alias = true;
    node.alias = vec![AliasEntry { prefix_len: 24, ..forever() }];
    assert_eq!(kinds(&node.run(20_000)), [StepKind::AnnounceAlias]);
    node.alias = vec![forever()];
    node.policy.mode = Mode::Observe;
    assert_eq!(node.run(20_000), []);
}

#[test]
fn the_fip_that_a_starting_daemon_finds_on_a_proven_leader_is_announced_once() {
    let mut node = Node::new();
    assert_eq!(kinds(&node.run(60_000)), [StepKind::AnnounceAlias], "the loop may have put it up a moment before");

    let mut follower = Node::new();
    follower.leads = false;
    follower.alias.clear();
    assert_eq!(follower.run(60_000), []);
}

#[test]
fn an_announcement_that_must_not_be_made_does_not_make_the_quorum_be_asked_again_and_again() {
    let asked = |mode: Mode, paused: bool| {
        let mut node = Node::new();
        (node.policy.mode, node.paused) = (mode, paused);
        node.run(30_000);
        node.round()
    };
    for (mode, paused) in [(Mode::Observe, false), (Mode::Enforce, true)] {
        let decision = asked(mode, paused);
        assert_eq!((decision.start.as_slice(), decision.etcd_depth), ([].as_slice(), EtcdDepth::Status));
    }
}

#[test]
fn a_stop_gives_back_what_was_lent_and_what_the_loop_knows_and_leaves_the_rest_to_its_lease() {
    let farewell = |alias: AliasEntry, frozen: bool, leads: bool| {
        let mut node = Node::new();
        node.alias = vec![alias.clone()];
        node.loop_frozen_since = frozen.then_some(START_MS);
        node.machine.step(&node.observation(), &node.policy, at(node.now_ms));
        // A round of the loop has begun and ended since the alias is there.
        node.now_ms += if frozen { 60_000 } else { 6_000 };
        node.leads = leads;
        node.machine.farewell(&node.observation(), &node.policy, at(node.now_ms))
    };
    assert_eq!(farewell(leased(LEASE), false, true), Some(StepKind::HandOverAlias));
    assert_eq!(farewell(leased(LEASE), true, true), None, "nobody would take it off again");
    assert_eq!(farewell(lent(LEASE), false, true), Some(StepKind::HandOverAlias));
    assert_eq!(farewell(lent(LEASE), true, true), Some(StepKind::HandOverAlias), "as it was before we came");
    assert_eq!(farewell(lent(LEASE), false, false), None);
    assert_eq!(farewell(forever(), false, true), None);
}

#[test]
fn nothing_is_applied_behind_a_link_that_came_back_a_moment_ago() {
    let mut node = Node::new();
    node.loop_frozen_since = Some(START_MS - 600_000);
    node.run(30_000);
    node.alias.clear();
    for _ in 0..5 {
        node.link = false;
        assert!(!kinds(&node.run(1_000)).contains(&StepKind::ApplyAlias));
        node.link = true;
        assert!(!kinds(&node.run(1_500)).contains(&StepKind::ApplyAlias), "the link flaps");
    }
    assert!(kinds(&node.run(1_000)).contains(&StepKind::ApplyAlias), "it stays");
}
