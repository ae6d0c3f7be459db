//! The invariants, checked after each event from outside: by what the world is, not by what a daemon believes.
//!
//! | | Checked here |
//! |---|---|
//! | I1 | a lease is given, or handed over, only under a true proof; it ends in time; no two leases that reach each other last |
//! | I2 | the manifest is in its place, or a cycle or an operator has it, and a cycle not for long; the newest one wins |
//! | I3 | no step without the fresh readings that it needs |
//! | I4 | no cycle of a loop that works, nor soon after the daemon did not run |
//! | I5 | cooldown and budget of cycles, across restarts |
//! | I6 | no other address, no other interface |
//! | I7 | every step that was said to start ends, in time; every refusal has a reason |
//! | I8 | no step in observe mode |

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fip_watchdog::audit::AuditEvent;
use fip_watchdog::decision::observation::{CyclePhase, EtcdView, Quorum};
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::{Mode, Policy};
use fip_watchdog::runtime::senses::Readings;

use crate::eyes::ms;
use crate::fault::PolicyKind;
use crate::kubelet::GRACE;
use crate::sim::Sim;
use crate::{Ms, NODES};

/// The kernel's half second, and half a second for the netlink request.
const LEASE_MARGIN: Ms = 1_000;

/// The oldest proof under which anything may be done (`limits.proof_max_age`).
const PROOF_MAX: Ms = 2_000;

/// A proof takes its deadline at most; then there is one, or the address is gone.
const DEBT_MAX: Ms = 2_000;

/// The loop counts as working if it made progress within this time.
const WORKS: Ms = 12_000;

/// Soon after a daemon could not run: well within its grace and its start.
const SOON: Ms = 15_000;

/// The longest that a cycle may have the manifest: grace, margin, a look at the pod.
const OUT_MAX: Ms = GRACE + 15_000 + 6_000;

/// The longest that a step may take that runs; the longest waits for three worst rounds of a conflict.
const STEP_MAX: Ms = 150_000;

/// What was broken, when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Ms,
    /// Which invariant.
    pub invariant: &'static str,
    /// How.
    pub how: String,
}

/// What the senses said last, as far as steps rest on it.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    confirmed: bool,
    leads: bool,
    leaderless: bool,
    heartbeat: bool,
    process: bool,
    alias: bool,
    manifest: bool,
    /// For how long the loop had made no progress then, in truth.
    idle: Ms,
}

#[derive(Debug, Default)]
struct OfNode {
    proved_at: Option<Ms>,
    lease_limit: Option<Ms>,
    runs_since: Ms,
    looked: Looked,
    idle: Ms,
    /// The kernel was given something under a proof that had grown old in the very act: since when a new proof, or the
    /// end of the address, is owed.
    owes_since: Option<Ms>,
    under_way: BTreeMap<StepKind, Ms>,
    policy: Option<Policy>,
    verdict: Option<Verdict>,
    disk_works_since: Ms,
}

/// What the checks remember.
#[derive(Debug, Default)]
pub struct Checks {
    /// What was broken; the first is the one that counts.
    pub violations: Vec<Violation>,
    /// Steps begun.
    pub steps: u64,
    /// Which, when and where.
    pub begun: Vec<(Ms, usize, StepKind)>,
    nodes: [OfNode; NODES],
    two_leases_since: Option<Ms>,
}

impl Checks {
    fn breaks(&mut self, at: Ms, invariant: &'static str, how: String) {
        if self.violations.len() < 8 {
            self.violations.push(Violation { at, invariant, how });
        }
    }

    /// A daemon could not run for long, and can again.
    pub const fn thawed(&mut self, node: usize, now: Ms) {
        self.nodes[node].runs_since = now;
    }

    /// A daemon took a policy over.
    pub fn adopted(&mut self, node: usize, policy: &Policy) {
        self.nodes[node].policy = Some(policy.clone());
    }

    /// A true proof that the node leads, dated by its monotonic clock.
    pub fn proved(&mut self, node: usize, at: Moment) {
        self.nodes[node].owes_since = None;
        self.nodes[node].proved_at = Some(ms(at.since_origin()).saturating_sub(crate::clocks::UP_FOR));
    }

    /// A step touches an address.
    pub fn touches(&mut self, node: usize, interface: &str, fip: Ipv4Addr) {
        if interface != crate::hands::INTERFACE || fip != crate::hands::FIP {
            self.breaks(0, "I6", format!("cp{} touches {fip} on {interface}", node + 1));
        }
    }

    /// A life of a daemon is over.
    pub fn daemon_ended(&mut self, node: usize) {
        self.nodes[node].under_way.clear();
        self.nodes[node].verdict = None;
        self.nodes[node].policy = None;
    }

    /// The verdict that a daemon last spoke.
    #[must_use]
    pub fn verdict(&self, node: usize) -> Option<Verdict> {
        self.nodes[node].verdict
    }
}

impl Sim {
    /// For how long the loop has made no progress while the machine ran.
    fn loop_idle(&self, node: usize) -> Ms {
        let (at, absent) = self.nodes[node].pod.progress_at;
        (self.now - at).saturating_sub(self.nodes[node].absent - absent)
    }

    /// A round of senses looks at the loop; what etcd says comes later.
    pub fn looks(&mut self, node: usize) {
        self.checks.nodes[node].idle = self.loop_idle(node);
    }

    /// A round of senses was read.
    pub fn looked(&mut self, node: usize, readings: &Readings) {
        let idle = self.checks.nodes[node].idle;
        let mut looked = Looked {
            heartbeat: readings.heartbeat.fresh().is_some(),
            process: readings.process.fresh().is_some(),
            alias: readings.alias.fresh().is_some(),
            manifest: readings.manifest.fresh().is_some(),
            idle,
            ..Looked::default()
        };
        if let Some(EtcdView::Answered(status)) = readings.etcd.fresh() {
            looked.confirmed = status.is_confirmed();
            looked.leads = status.claims_to_lead();
            looked.leaderless = status.leader == 0 || matches!(status.quorum, Quorum::Denied(_));
        }
        self.checks.nodes[node].looked = looked;
    }

    /// A step begins (I3, I4, I5, I8).
    pub fn step_begins(&mut self, node: usize, step: StepKind) {
        self.checks.steps += 1;
        self.checks.begun.push((self.now, node, step));
        let (now, name) = (self.now, step.name());
        let of_node = &self.checks.nodes[node];
        let looked = of_node.looked;
        let policy = of_node.policy.clone().unwrap_or_else(|| PolicyKind::Default.policy());
        if policy.mode == Mode::Observe {
            self.checks.breaks(now, "I8", format!("cp{} begins {name} in observe mode", node + 1));
        }
        let grounded = match step {
            StepKind::ApplyAlias | StepKind::RenewAlias | StepKind::HandOverAlias | StepKind::LeaseAlias => {
                looked.confirmed && looked.leads && looked.alias
            }
            StepKind::ReleaseAlias => looked.alias && ((looked.confirmed && !looked.leads) || looked.leaderless),
            // Repeats follow a schedule; the step proves for itself.
            StepKind::AnnounceAlias => true,
            StepKind::CycleManifest => looked.confirmed && looked.heartbeat && looked.manifest,
        };
        if !grounded {
            self.checks.breaks(now, "I3", format!("cp{} begins {name} on {looked:?}", node + 1));
        }
        if step == StepKind::CycleManifest {
            self.cycle_begins(node, &policy, looked);
        }
    }

    fn cycle_begins(&mut self, node: usize, policy: &Policy, looked: Looked) {
        let now = self.now;
        if looked.process && looked.idle < WORKS && self.loop_idle(node) < WORKS {
            self.checks.breaks(now, "I4", format!("cp{} cycles a loop that made progress {} ms ago", node + 1, looked.idle));
        }
        let ran = now - self.checks.nodes[node].runs_since;
        if ran < SOON {
            self.checks.breaks(now, "I4", format!("cp{} cycles {ran} ms after it could not run", node + 1));
        }
        let cycles = &self.nodes[node].daemon.cycles;
        let recent = cycles.iter().filter(|start| now - **start < 3_600_000).count();
        let cooled = cycles.last().is_none_or(|start| now - start >= ms(policy.limits.cooldown));
        if recent >= usize::try_from(policy.limits.cycles_per_hour).unwrap_or(usize::MAX) || !cooled {
            self.checks.breaks(now, "I5", format!("cp{} cycles after cycles at {cycles:?}", node + 1));
        }
    }

    /// The kernel is given a lease (I1).
    pub fn lease_given(&mut self, node: usize, lease: Ms) {
        let monotonic = self.monotonic(node);
        self.proof_is_fresh(node, "given a lease");
        // Under an old proof it is not the lease but the debt that runs out, and that sooner.
        let of_node = &mut self.checks.nodes[node];
        let dated = if of_node.owes_since.is_some() { Some(monotonic) } else { of_node.proved_at };
        let limit = dated.unwrap_or(0) + PROOF_MAX + lease + LEASE_MARGIN;
        of_node.lease_limit = Some(limit.min(monotonic + lease + LEASE_MARGIN));
    }

    /// The kernel is given a lifetime under a true and fresh proof.
    pub fn proof_is_fresh(&mut self, node: usize, what: &str) {
        let (now, monotonic) = (self.now, self.monotonic(node));
        let age = self.checks.nodes[node].proved_at.map(|at| monotonic.saturating_sub(at));
        if age.is_none_or(|age| age > PROOF_MAX) {
            self.checks.nodes[node].owes_since = Some(now);
            self.say(Some(node), || format!("the FIP is {what} under a proof of age {age:?} ms"));
        }
    }

    /// After each event.
    pub fn check(&mut self) {
        self.check_leases();
        for node in 0..NODES {
            self.check_manifest(node);
            self.check_debt(node);
            let (now, runs_since) = (self.now, self.checks.nodes[node].runs_since);
            let runs = self.nodes[node].frozen.is_none() && !self.nodes[node].daemon.stopped;
            let late = self.checks.nodes[node].under_way.iter().find(|(_, since)| now - (**since).max(runs_since) > STEP_MAX);
            if let Some((step, _)) = late.map(|(step, since)| (*step, *since)).filter(|_| runs) {
                self.checks.nodes[node].under_way.remove(&step);
                self.checks.breaks(now, "I7", format!("{} on cp{} does not end", step.name(), node + 1));
            }
        }
    }

    /// A standstill between a proof and the request that follows it can be told afterwards alone.
    fn check_debt(&mut self, node: usize) {
        let now = self.now;
        let gone = self.nodes[node].address.is_none() || self.nodes[node].frozen.is_some();
        let of_node = &mut self.checks.nodes[node];
        match of_node.owes_since {
            Some(_) if gone => of_node.owes_since = None,
            Some(since) if now - since > DEBT_MAX => {
                of_node.owes_since = None;
                self.checks.breaks(
                    now,
                    "I1",
                    format!("the FIP is on cp{} for {} ms without a fresh proof", node + 1, now - since),
                );
            }
            Some(_) | None => {}
        }
    }

    fn check_leases(&mut self) {
        let now = self.now;
        let leased = |sim: &Self, node: usize| {
            // What the kernel owes it does first when the machine runs again, within this very instant.
            let runs = sim.nodes[node].frozen.is_none() && sim.nodes[node].thawed_at < now;
            runs && sim.nodes[node].address.is_some_and(|address| address.until.is_some())
        };
        let mut two = false;
        for node in 0..NODES {
            if !leased(self, node) {
                continue;
            }
            let monotonic = self.monotonic(node);
            if self.checks.nodes[node].lease_limit.is_some_and(|limit| monotonic > limit) {
                self.checks.nodes[node].lease_limit = None;
                self.checks.breaks(now, "I1", format!("the lease on cp{} outlives its proof", node + 1));
            }
            two |= (0..node).any(|other| leased(self, other) && self.reach_each_other(node, other));
        }
        let since = self.checks.two_leases_since.filter(|_| two).unwrap_or(now);
        self.checks.two_leases_since = two.then_some(since);
        if now - since > 10_000 + PROOF_MAX + LEASE_MARGIN {
            self.checks.two_leases_since = Some(now);
            self.checks.breaks(now, "I1", format!("two leases reach each other since {since} ms"));
        }
    }

    fn check_manifest(&mut self, node: usize) {
        let now = self.now;
        let Self { nodes, checks, .. } = self;
        let (at, of_node) = (&nodes[node], &mut checks.nodes[node]);
        if at.daemon.read_only > 0 {
            of_node.disk_works_since = now;
        }
        let manifest = &at.manifest;
        match manifest.in_place {
            Some(version) if version == manifest.newest => {}
            Some(version) => {
                checks.breaks(
                    now,
                    "I2",
                    format!("manifest {version} is in place of the newer {} on cp{}", manifest.newest, node + 1),
                );
            }
            None if at.daemon.open_cycle != Some(CyclePhase::Out) && manifest.operator_has.is_none() => {
                checks.breaks(now, "I2", format!("the manifest of cp{} is nowhere", node + 1));
            }
            None => {
                let able = at.frozen.is_none() && at.daemon.running && !at.daemon.stopped && manifest.operator_has.is_none();
                let able_since = of_node.runs_since.max(of_node.disk_works_since);
                if able && now > (manifest.out_since + OUT_MAX).max(able_since + SOON) {
                    checks.breaks(
                        now,
                        "I2",
                        format!("the manifest of cp{} is out for {} ms", node + 1, now - manifest.out_since),
                    );
                }
            }
        }
    }

    /// The audit of a daemon speaks (I7).
    pub fn heard(&mut self, node: usize, event: &AuditEvent) {
        if self.timeline.is_some() {
            let message = event.entry().message;
            self.say(Some(node), || message);
        }
        let now = self.now;
        let of_node = &mut self.checks.nodes[node];
        match event {
            AuditEvent::VerdictChanged { to, .. } => of_node.verdict = Some(*to),
            AuditEvent::StepStarted { step, .. } => {
                if of_node.under_way.insert(*step, now).is_some() {
                    self.checks.breaks(now, "I7", format!("{} on cp{} starts twice", step.name(), node + 1));
                }
            }
            AuditEvent::StepSucceeded { step, .. } | AuditEvent::StepFailed { step, .. } => {
                of_node.under_way.remove(step);
            }
            AuditEvent::StepRefused { step, reason, .. } => {
                of_node.under_way.remove(step);
                if reason.trim().is_empty() {
                    self.checks.breaks(now, "I7", format!("{} on cp{} is refused without a reason", step.name(), node + 1));
                }
            }
            AuditEvent::Started { .. }
            | AuditEvent::Stopping { .. }
            | AuditEvent::PolicyLoaded { .. }
            | AuditEvent::PolicyRejected { .. }
            | AuditEvent::PlanStarted { .. }
            | AuditEvent::LeaseRenewed { .. }
            | AuditEvent::CycleRecovered { .. }
            | AuditEvent::PauseRecorded(_)
            | AuditEvent::SenseLost { .. }
            | AuditEvent::SenseFound { .. }
            | AuditEvent::HangAutopsied { .. }
            | AuditEvent::EtcdAlarmRaised { .. }
            | AuditEvent::EtcdAlarmCleared { .. }
            | AuditEvent::Diagnosed { .. }
            | AuditEvent::Recovered(_)
            | AuditEvent::ApiSilenceBegan { .. }
            | AuditEvent::ApiSilenceEnded { .. } => {}
        }
    }

    /// A daemon ended as asked: nothing that it started is left untold (I7).
    pub fn stopped_in_order(&mut self, node: usize) {
        let now = self.now;
        let left: Vec<&str> = self.checks.nodes[node].under_way.keys().map(|step| step.name()).collect();
        if !left.is_empty() {
            self.checks.breaks(now, "I7", format!("cp{} ends without a word on {}", node + 1, left.join(", ")));
        }
    }

    /// The schedule is over and the world has not come to rest.
    pub fn never_at_rest(&mut self, why: String) {
        self.checks.breaks(self.now, "rest", why);
    }
}
