//! The senses of a simulated node: the same views, the same reasons for not knowing, from the world's state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Claim, ConflictView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopProcess,
    ManifestView, OperatorPause, ProcessView, Quorum, Reading,
};
use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;
use fip_watchdog::policy::load::LoadError;
use fip_watchdog::runtime::attend::Stopwatch;
use fip_watchdog::runtime::clock;
use fip_watchdog::runtime::pause::PauseError;
use fip_watchdog::runtime::senses::Readings;
use fip_watchdog::runtime::world::World;
use fip_watchdog::sensor::etcd::{LeadershipProver, NotProven, Proof, agree, in_time, unpaused};
use tokio::sync::Notify;

use crate::Ms;
use crate::clocks::Shared;
use crate::fault::PolicyKind;
use crate::hands::SimHands;
use crate::sim::Sim;

/// What a daemon's senses remember between two rounds.
#[derive(Debug, Default)]
struct Memory {
    following: Option<(u64, Moment)>,
    beats: u64,
    beat_at: Option<Moment>,
    process: Option<(u64, u64, Moment, Moment)>,
    absent_since: Option<Moment>,
}

/// A simulated node, to the loop.
pub struct SimWorld {
    shared: Shared,
    node: usize,
    changed: Arc<Notify>,
    memory: Memory,
    path: PathBuf,
}

impl SimWorld {
    /// The eyes of a new life of the daemon.
    #[must_use]
    pub fn new(shared: &Shared, node: usize) -> Self {
        let changed = Arc::clone(&shared.lock().nodes[node].daemon.changed);
        Self { shared: shared.clone(), node, changed, memory: Memory::default(), path: PathBuf::from("policy.yaml") }
    }
}

impl World for SimWorld {
    type Hands = SimHands;

    async fn read(&mut self, policy: &Policy, depth: EtcdDepth) -> Readings {
        let now = clock::now();
        let (heartbeat, process, alias, manifest, kubelet, conflict) = {
            let sim = self.shared.lock();
            let memory = &mut self.memory;
            (
                unless_blind(&sim, self.node, 1, || memory.heartbeat(&sim, self.node, now), now),
                unless_blind(&sim, self.node, 2, || memory.process(&sim, self.node, now), now),
                alias(&sim, self.node, now),
                unless_blind(&sim, self.node, 4, || manifest(&sim, self.node), now),
                kubelet(&sim, self.node, now),
                unless_blind(&sim, self.node, 3, || conflict(&sim, self.node, now), now),
            )
        };
        self.shared.lock().looks(self.node);
        let etcd = if self.shared.lock().nodes[self.node].blind[0] > 0 {
            Reading::Unknown("the etcd certificates could not be read within the deadline".to_owned())
        } else {
            match ask(&self.shared, self.node, policy.etcd.deadline, depth).await {
                Ok(value) => Reading::Fresh { value, at: clock::now() },
                Err(reason) => Reading::Unknown(reason),
            }
        };
        let (cpu_pressure, hold_off) = (None, None);
        let api = ApiView::default();
        let readings =
            Readings { etcd, heartbeat, process, alias, manifest, kubelet, conflict, api, expired: None, cpu_pressure, hold_off };
        self.shared.lock().looked(self.node, &readings);
        readings
    }

    fn prover(&self) -> SimProver {
        SimProver { shared: self.shared.clone(), node: self.node, deadline: Duration::from_millis(1_500) }
    }

    async fn changed(&mut self) {
        self.changed.notified().await;
    }

    fn edited_policy(&mut self) -> Option<Result<Policy, LoadError>> {
        let edited = self.shared.lock().nodes[self.node].daemon.edited.take()?;
        Some(edited.judged())
    }

    fn adopt(&mut self, _old: &Policy, new: &Policy) {
        self.shared.lock().checks.adopted(self.node, new);
    }

    fn policy_path(&self) -> &Path {
        &self.path
    }

    fn known_good(&self) -> Option<String> {
        self.shared.lock().nodes[self.node].daemon.known_good.clone()
    }

    fn keep_known_good(&mut self, sha256: &str) {
        let mut sim = self.shared.lock();
        let kept = &mut sim.nodes[self.node].daemon.known_good;
        if kept.as_deref() != Some(sha256) {
            *kept = Some(sha256.to_owned());
        }
    }

    fn paused(&self, wall: Duration) -> Option<OperatorPause> {
        let until = Duration::from_millis(self.shared.lock().nodes[self.node].daemon.paused_until?);
        let remaining = until.checked_sub(wall).filter(|left| !left.is_zero())?;
        Some(OperatorPause { reason: "maintenance".to_owned(), remaining })
    }

    fn pause(&mut self, _reason: &str, length: Duration, _wall: Duration) -> Result<(), PauseError> {
        Err(PauseError::Length(length))
    }

    fn resume(&mut self) -> Result<bool, PauseError> {
        Ok(false)
    }
}

impl PolicyKind {
    /// The policy itself.
    #[must_use]
    pub fn policy(self) -> Policy {
        use fip_watchdog::decision::step::StepKind;
        use fip_watchdog::policy::{Mode, OnConflict};
        let mut policy = Policy::with_defaults(crate::hands::FIP, crate::hands::INTERFACE);
        match self {
            Self::Default | Self::Broken => {}
            Self::Observe => policy.mode = Mode::Observe,
            Self::AliasOnly => {
                policy.remedies.values_mut().for_each(|steps| steps.retain(|step| *step != StepKind::CycleManifest))
            }
            Self::Wait => policy.fip.on_conflict = OnConflict::Wait,
            Self::Alarm => policy.fip.on_conflict = OnConflict::Alarm,
            Self::LoopLeased => policy.fip.lease_loop_alias = true,
            Self::ShortLease => {
                policy.limits.alias_lease = Duration::from_secs(5);
                policy.watched_loop.stalled_after = Duration::from_secs(30);
            }
        }
        policy
    }

    fn judged(self) -> Result<Policy, LoadError> {
        if self == Self::Broken {
            Err(LoadError::NotAFile { path: PathBuf::from("policy.yaml"), kind: "a directory" })
        } else {
            Ok(self.policy())
        }
    }
}

fn unless_blind<T>(sim: &Sim, node: usize, sense: usize, read: impl FnOnce() -> T, now: Moment) -> Reading<T> {
    if sim.nodes[node].blind[sense] > 0 {
        return Reading::Unknown("the disk does not answer".to_owned());
    }
    Reading::Fresh { value: read(), at: now }
}

impl Memory {
    fn heartbeat(&mut self, sim: &Sim, node: usize, now: Moment) -> HeartbeatView {
        let pod = &sim.nodes[node].pod;
        let since = match self.following {
            Some((container, since)) if container == pod.container => since,
            Some(_) | None => {
                // What the log holds already is history.
                (self.following, self.beats, self.beat_at) = (Some((pod.container, now)), pod.beats, None);
                now
            }
        };
        if pod.beats > self.beats {
            (self.beats, self.beat_at) = (pod.beats, Some(now));
        }
        HeartbeatView {
            last_beat: self.beat_at.and(pod.last_beat.clone()),
            last_beat_at: self.beat_at,
            following_since: since,
            last_growth_at: self.beat_at,
            log: PathBuf::new(),
        }
    }

    fn process(&mut self, sim: &Sim, node: usize, now: Moment) -> ProcessView {
        let pod = &sim.nodes[node].pod;
        if !pod.alive {
            self.process = None;
            return ProcessView::Absent { since: *self.absent_since.get_or_insert(now) };
        }
        self.absent_since = None;
        let (_, _, progress_at, seen_since) = *match &mut self.process {
            Some(known) if known.0 == pod.container => {
                if known.1 != pod.progress {
                    (known.1, known.2) = (pod.progress, now);
                }
                known
            }
            unknown => unknown.insert((pod.container, pod.progress, now, now)),
        };
        let pid = u32::try_from(1_000 + pod.container).unwrap_or(u32::MAX);
        let state = if pod.stopped { 'T' } else { 'S' };
        let wchan = pod.is_blocked().then(|| "anon_pipe_write".to_owned());
        ProcessView::Present(LoopProcess { pid, start_ticks: pod.container, state, progress_at, seen_since, wchan, copies: 1 })
    }
}

/// The FIP and the link, as rtnetlink lists them: lifetimes in whole seconds, rounded down.
pub fn alias(sim: &Sim, node: usize, now: Moment) -> Reading<AliasView> {
    let link = sim.nodes[node].link_down == 0;
    let lent = sim.nodes[node].address.is_some_and(|address| address.lent);
    let read = || AliasView {
        entries: sim
            .remaining(node)
            .map(|left| AliasEntry { prefix_len: 32, valid_for: left.map(|left| Duration::from_secs(left / 1000)), lent })
            .into_iter()
            .collect(),
        up: true,
        carrier: link,
    };
    unless_blind(sim, node, 3, read, now)
}

fn kubelet(sim: &Sim, node: usize, now: Moment) -> Reading<KubeletView> {
    let down = sim.nodes[node].kubelet.down > 0;
    Reading::Fresh { value: if down { KubeletView::Down } else { KubeletView::Running }, at: now }
}

/// Who else answers for the FIP while it is here.
fn conflict(sim: &Sim, node: usize, now: Moment) -> ConflictView {
    let here = sim.nodes[node].address.is_some() && sim.nodes[node].link_down == 0;
    let other = sim.answers_probe_of(node).filter(|_| here);
    ConflictView { last: other.map(|other| Claim { mac: format!("02:00:00:00:00:{other:02x}"), at: now }) }
}

fn manifest(sim: &Sim, node: usize) -> ManifestView {
    let sha256 = sim.nodes[node].manifest.in_place.map(|version| format!("{version:064}"));
    ManifestView { sha256, shadows: Vec::new(), immovable: None }
}

/// Proofs from the simulated etcd, by the protocol of the real sensor.
#[derive(Clone)]
pub struct SimProver {
    shared: Shared,
    node: usize,
    deadline: Duration,
}

impl LeadershipProver for SimProver {
    async fn prove(&self) -> Result<Proof, NotProven> {
        match ask(&self.shared, self.node, self.deadline, EtcdDepth::Proof).await.map_err(NotProven::CannotTell)? {
            EtcdView::Unreachable(fault) => Err(NotProven::Unreachable(fault)),
            EtcdView::Answered(status) => Proof::of(&status).ok_or(NotProven::Denied("the quorum did not confirm".to_owned())),
        }
    }
}

/// One round of questions, as `sensor::etcd::proof` asks them.
async fn ask(shared: &Shared, node: usize, deadline: Duration, depth: EtcdDepth) -> Result<EtcdView, String> {
    let view = unpaused(|| ask_once(shared, node, deadline, depth)).await?;
    if let EtcdView::Answered(EtcdStatus { member_id, leader, quorum: Quorum::Confirmed { at }, .. }) = &view
        && member_id == leader
    {
        shared.lock().checks.proved(node, *at);
    }
    Ok(view)
}

async fn ask_once(shared: &Shared, node: usize, deadline: Duration, depth: EtcdDepth) -> Result<EtcdView, String> {
    let watch = Stopwatch::start();
    let until = shared.now() + ms(deadline);
    let view = match status(shared, node, until).await {
        Err(fault) => EtcdView::Unreachable(fault),
        Ok(first) => {
            let quorum = match depth {
                EtcdDepth::Status => Quorum::NotAsked,
                EtcdDepth::Proof => confirm(shared, node, &first, until).await.unwrap_or_else(Quorum::Denied),
            };
            EtcdView::Answered(EtcdStatus { quorum, ..first })
        }
    };
    in_time(view, watch.elapsed(), deadline)
}

async fn confirm(shared: &Shared, node: usize, first: &EtcdStatus, until: Ms) -> Result<Quorum, String> {
    if first.leader == 0 {
        return Err("the member knows of no leader (etcdserver: no leader)".to_owned());
    }
    let at = clock::now();
    pause(shared, node, 1, 4).await;
    let term = loop {
        if let Some(term) = shared.lock().confirms(node) {
            break term;
        }
        if shared.now() >= until {
            return Err("linearizable read: no answer within the deadline".to_owned());
        }
        tokio::time::sleep_until(shared.instant((shared.now() + 100).min(until))).await;
    };
    pause(shared, node, 1, 3).await;
    let second = status(shared, node, until).await.map_err(|fault| format!("status after the read: {fault:?}"))?;
    agree(first, (first.member_id, term), &second, at)
}

async fn status(shared: &Shared, node: usize, until: Ms) -> Result<EtcdStatus, EtcdFault> {
    loop {
        pause(shared, node, 1, 2).await;
        let member = shared.lock().etcd.members[node];
        if member.stopped > 0 {
            return Err(EtcdFault::Refused);
        }
        if shared.now() >= until {
            return Err(EtcdFault::TimedOut);
        }
        if member.hung > 0 {
            tokio::time::sleep_until(shared.instant((shared.now() + 200).min(until))).await;
            continue;
        }
        if member.tls > 0 {
            return Err(EtcdFault::Tls("unknown issuer".to_owned()));
        }
        let id = |node: usize| 0xa0 + node as u64;
        return Ok(EtcdStatus {
            member_id: id(node),
            leader: member.view.map_or(0, id),
            raft_term: member.view_term,
            ..EtcdStatus::default()
        });
    }
}

async fn pause(shared: &Shared, node: usize, low: Ms, high: Ms) {
    let until = {
        let mut sim = shared.lock();
        let slow = sim.etcd.members[node].slow > 0;
        let wait = if slow { sim.rng.between(20, 700) } else { sim.rng.between(low, high) };
        shared.instant(sim.now + wait)
    };
    tokio::time::sleep_until(until).await;
}

/// Whole milliseconds.
#[must_use]
pub fn ms(duration: Duration) -> Ms {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
