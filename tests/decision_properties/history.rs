//! Random histories: what is seen at each moment, and a walk of the machine through them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView,
    HoldOff, KubeletView, LoopFip, LoopProcess, LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum,
    Reading, StrainView,
};
use fip_watchdog::decision::plan::Decision;
use fip_watchdog::decision::step::{StepKind, StepOutcome};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;
use proptest::option;
use proptest::prelude::*;

pub fn policy() -> Policy {
    Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0")
}

/// The default one, and the one that leases the loop's alias too.
pub fn policies() -> [Policy; 2] {
    let mut leasing = policy();
    leasing.fip.lease_loop_alias = true;
    [policy(), leasing]
}

pub fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

/// One moment of a history; ages are relative to it, so that shrinking keeps it meaningful.
#[derive(Debug, Clone)]
pub struct Sight {
    pub after_ms: u64,
    /// How often the same is seen: without it no verdict would ever hold long enough to act on.
    pub times: usize,
    pub etcd: Option<Result<(bool, u64, u8, u64), u8>>,
    pub beat_age_ms: Option<u64>,
    pub beat_leads: bool,
    pub beat_fails: bool,
    pub beat_removed: bool,
    pub process: Option<(bool, u64, usize)>,
    pub alias: Option<Option<Option<u64>>>,
    pub lent: bool,
    pub claim_age_ms: Option<Option<u64>>,
    pub link: bool,
    pub manifest: Option<(bool, bool, bool)>,
    pub kubelet: Option<bool>,
    /// A cycle that is started here ends with a pod that is stuck.
    pub sticks: bool,
    pub cycle: bool,
    pub lanes: (bool, bool),
    pub paused: bool,
    pub resumed_ago_ms: Option<u64>,
    pub strain: StrainView,
    /// Units are waited for after a boot.
    pub held_off: bool,
}

prop_compose! {
    pub fn sight()(
        after_ms in prop_oneof![Just(250_u64), 1_u64..2_000, 1_000_u64..120_000],
        times in prop_oneof![Just(1_usize), 1_usize..60],
        etcd in option::weighted(0.95, prop_oneof![
            9 => (any::<bool>(), 1_u64..4, 0_u8..3, 0_u64..4_000).prop_map(Ok),
            1 => (0_u8..3).prop_map(Err),
        ]),
        beat_age_ms in option::weighted(0.9, prop_oneof![0_u64..7_000, 15_000_u64..200_000]),
        beat_leads in any::<bool>(),
        beat_fails in prop::bool::weighted(0.2),
        beat_removed in prop::bool::weighted(0.2),
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
        late_ticks in prop_oneof![9 => 0_u32..3, 1 => 3_u32..9],
        held_off in prop::bool::weighted(0.02),
    ) -> Sight {
        let strain = StrainView { late_ticks, cpu_pressure: None };
        Sight { after_ms, times, etcd, beat_age_ms, beat_leads, beat_fails, beat_removed, process, alias, lent, claim_age_ms, link, manifest, kubelet, sticks, cycle, lanes, paused, resumed_ago_ms, strain, held_off }
    }
}

pub fn reading<T>(value: Option<T>, now_ms: u64) -> Reading<T> {
    value.map_or_else(|| Reading::Unknown("the test says so".to_owned()), |value| Reading::Fresh { value, at: at(now_ms) })
}

pub fn etcd_view(seen: Result<(bool, u64, u8, u64), u8>, now_ms: u64) -> EtcdView {
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

fn hold_off() -> HoldOff {
    HoldOff { reason: "kubelet.service is activating".to_owned(), remaining: Duration::from_secs(60) }
}

fn beat(sight: &Sight) -> Beat {
    Beat {
        verdict: if sight.beat_fails {
            LoopVerdict::QueryFailed("curl exit status 60".to_owned())
        } else if sight.beat_leads {
            LoopVerdict::Leader
        } else {
            LoopVerdict::Follower
        },
        revision: None,
        raft_index: None,
        raft_term: None,
        fip: if sight.beat_removed { LoopFip::Removed } else { LoopFip::Kept },
    }
}

pub fn observe(sight: &Sight, now_ms: u64) -> Observation {
    let ago = |age_ms: u64| at(now_ms.saturating_sub(age_ms));
    let heartbeat = sight.beat_age_ms.map(|age| HeartbeatView {
        last_beat: Some(beat(sight)),
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
        api: ApiView::default(),
        expired: None,
        cycle: sight.cycle.then_some(CycleView { phase: CyclePhase::Out }),
        in_flight,
        paused: sight.paused.then(|| OperatorPause { reason: "maintenance".to_owned(), remaining: Duration::from_secs(60) }),
        resumed_at: sight.resumed_ago_ms.map(ago),
        strain: sight.strain,
        hold_off: sight.held_off.then(hold_off),
    }
}

/// Walks a history and hands every decision to `visit`; started steps end at once, and well but for cycles that stick.
pub fn walk(history: &[Sight], policy: &Policy, mut visit: impl FnMut(&Observation, &Decision, Moment)) {
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
