//! A step that may be taken: what the conditions of `decision::safety` look at, as the tests change it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::facts::{Holding, LoopState, Role};
use fip_watchdog::decision::guard::Guards;
use fip_watchdog::decision::judge::Facts;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, ConflictView, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopFip, LoopProcess,
    LoopVerdict, ManifestView, Observation, ProcessView, Quorum, Reading, StrainView,
};
use fip_watchdog::decision::plan::UnsafeReason;
use fip_watchdog::decision::safety::unsafe_to_run;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;

pub fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

pub const NOW: u64 = 1_000_000;

/// A step that may be taken now.
pub struct Scene {
    pub step: StepKind,
    pub observation: Observation,
    pub facts: Facts,
    policy: Policy,
}

pub fn fresh<T>(value: T) -> Reading<T> {
    Reading::Fresh { value, at: at(NOW) }
}

pub fn entry(valid_for: Option<Duration>) -> AliasEntry {
    AliasEntry { prefix_len: 32, valid_for, lent: false }
}

impl Scene {
    /// The step under circumstances that it needs: a proven leader, or follower, with the FIP as it should be for it.
    pub fn of(step: StepKind) -> Self {
        let (role, holding) = match step {
            StepKind::ApplyAlias => (Role::Leads, Holding::Absent),
            StepKind::RenewAlias | StepKind::HandOverAlias => {
                (Role::Leads, Holding::Leased { remaining: Duration::from_secs(5) })
            }
            StepKind::LeaseAlias | StepKind::AnnounceAlias => (Role::Leads, Holding::Held),
            StepKind::ReleaseAlias => (Role::Follows, Holding::Held),
            StepKind::CycleManifest => (Role::Follows, Holding::Absent),
        };
        let frozen = step == StepKind::CycleManifest;
        let watched_loop = if frozen { LoopState::Stalled("frozen".to_owned()) } else { LoopState::Alive { overdue: false } };
        let mut scene = Self { step, observation: observation(), facts: facts(watched_loop), policy: policy() };
        scene.role(role);
        scene.holding(holding);
        assert_eq!(scene.why_not(), None, "{} may be taken in its own scene", step.name());
        scene
    }

    pub fn why_not(&self) -> Option<UnsafeReason> {
        unsafe_to_run(self.step, &self.observation, &self.facts, &self.policy, Guards::default(), at(NOW))
    }

    pub fn role(&mut self, role: Role) -> &mut Self {
        self.facts.role = role;
        self
    }

    pub fn holding(&mut self, holding: Holding) -> &mut Self {
        let entries = match holding {
            Holding::Absent => Vec::new(),
            Holding::Held => vec![entry(None)],
            Holding::Leased { remaining } => vec![entry(Some(remaining))],
            Holding::Lent { remaining } => vec![AliasEntry { lent: true, ..entry(Some(remaining)) }],
        };
        self.observation.alias = fresh(AliasView { entries, up: true, carrier: true });
        self.facts.holding = Ok(holding);
        self
    }

    pub fn beat(&mut self, verdict: LoopVerdict, fip: LoopFip, age_ms: u64) -> &mut Self {
        let beat = Beat { verdict, revision: None, raft_index: None, raft_term: None, fip };
        self.observation.heartbeat = fresh(HeartbeatView {
            last_beat: Some(beat),
            last_beat_at: Some(at(NOW - age_ms)),
            following_since: at(0),
            last_growth_at: None,
            log: "/var/log/pods/x/0.log".into(),
        });
        self
    }

    pub fn quorum(&mut self, quorum: Quorum) -> &mut Self {
        let status = EtcdStatus { member_id: 1, leader: 1, raft_term: 7, quorum, ..EtcdStatus::default() };
        self.observation.etcd = fresh(EtcdView::Answered(status));
        self
    }

    pub fn alias(&mut self, change: impl FnOnce(&mut AliasView)) -> &mut Self {
        let mut view = self.observation.alias.fresh().unwrap().clone();
        change(&mut view);
        self.observation.alias = fresh(view);
        self
    }

    pub fn manifest(&mut self, change: impl FnOnce(&mut ManifestView)) -> &mut Self {
        let mut view = self.observation.manifest.fresh().unwrap().clone();
        change(&mut view);
        self.observation.manifest = fresh(view);
        self
    }
}

pub fn policy() -> Policy {
    Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0")
}

fn facts(watched_loop: LoopState) -> Facts {
    Facts {
        paused: false,
        resumed: false,
        starting: false,
        role: Role::Leads,
        role_age: Duration::from_secs(60),
        told_for: Duration::from_secs(60),
        flapping: None,
        holding: Ok(Holding::Absent),
        holding_age: Duration::from_secs(60),
        contested: false,
        link_settled: true,
        watched_loop,
        manifest_missing: None,
        manifest_shadowed: None,
        kubelet_down: None,
        pod_stuck: None,
        worst_round: Duration::from_secs(16),
    }
}

pub fn observation() -> Observation {
    let process =
        LoopProcess { pid: 100, start_ticks: 1, state: 'S', progress_at: at(NOW), seen_since: at(0), wchan: None, copies: 1 };
    let mut scene = Scene {
        step: StepKind::ApplyAlias,
        observation: Observation {
            etcd: Reading::Unknown("not asked".to_owned()),
            heartbeat: Reading::Unknown("not read".to_owned()),
            process: fresh(ProcessView::Present(process)),
            alias: Reading::Unknown("not read".to_owned()),
            manifest: fresh(ManifestView { sha256: Some("ab".repeat(32)), shadows: Vec::new(), immovable: None }),
            kubelet: fresh(KubeletView::Running),
            conflict: fresh(ConflictView::default()),
            api: ApiView::default(),
            expired: None,
            cycle: None,
            in_flight: BTreeSet::new(),
            paused: None,
            resumed_at: None,
            strain: StrainView::default(),
            hold_off: None,
        },
        facts: facts(LoopState::Absent),
        policy: policy(),
    };
    scene.quorum(Quorum::Confirmed { at: at(NOW - 100) }).beat(LoopVerdict::Leader, LoopFip::Kept, 1_000);
    scene.observation
}
