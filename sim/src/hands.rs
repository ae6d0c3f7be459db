//! The hands of a simulated node: the kernel's table and the wire for the real alias steps, and a model of the cycle.
//!
//! The real cycle is files, renames and fsyncs; those are attacked elsewhere, call by call. Here it keeps the order, the
//! waits and the open entry, so that kills, stops, other writers and a kubelet that does not act meet the real loop.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::actuator::alias::{AliasSettings, AliasSteps};
use fip_watchdog::actuator::arp::{ArpError, ArpWire, Mac, ProbeOutcome};
use fip_watchdog::actuator::journal::Outcome;
use fip_watchdog::actuator::manifest_cycle::{CycleError, Recovered, Verify as _};
use fip_watchdog::autopsy::{Autopsy, Case};
use fip_watchdog::decision::observation::{AliasView, CyclePhase, CycleView, Reading};
use fip_watchdog::decision::step::{StepKind, StepOutcome};
use fip_watchdog::diagnose::Diagnosed;
use fip_watchdog::policy::Policy;
use fip_watchdog::runtime::clock;
use fip_watchdog::runtime::executor::{Hands, NewPodBeats, alias_step};
use fip_watchdog::runtime::ledger::PauseRecord;
use fip_watchdog::runtime::sharing::Share;
use fip_watchdog::sensor::alias::{Added, AddressTable, Lifetime, TableError};
use tokio::sync::{oneshot, watch};

use crate::Ms;
use crate::clocks::{OnNode, Shared};
use crate::eyes::{SimProver, alias, ms};
use crate::kubelet::GRACE;
use crate::sim::Sim;

/// The FIP of every schedule.
pub const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);

/// Its interface.
pub const INTERFACE: &str = "eth0";

/// Attempts to put the manifest back, a second apart, before the entry is left open.
const PUT_BACK_TRIES: u32 = 20;

/// The hands of one node.
#[derive(Clone)]
pub struct SimHands {
    shared: Shared,
    node: usize,
}

impl SimHands {
    /// The hands of a node.
    #[must_use]
    pub fn new(shared: &Shared, node: usize) -> Self {
        Self { shared: shared.clone(), node }
    }

    /// A netlink request takes microseconds, or its turn.
    async fn turn(&self, act: &str) -> Result<(), TableError> {
        let (wait, blind) = {
            let mut sim = self.shared.lock();
            (sim.rng.percent(30), sim.nodes[self.node].blind[3] > 0)
        };
        if wait {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if self.shared.with(|sim| sim.struck_mid_step(self.node)) {
            // Polled again when the machine runs, or never.
            tokio::task::yield_now().await;
        }
        if blind {
            tokio::time::sleep(Duration::from_secs(1)).await;
            return Err(TableError::TimedOut { act: act.to_owned(), after_ms: 1_000 });
        }
        Ok(())
    }
}

impl Hands for SimHands {
    type Prover = SimProver;

    fn alias(&self, step: StepKind, policy: &Policy, prover: SimProver) -> impl Future<Output = StepOutcome> + Send + 'static {
        self.shared.with(|sim| sim.step_begins(self.node, step));
        let hands = AliasSteps::new(prover.clone(), self.clone(), self.clone(), AliasSettings::from(policy));
        OnNode::new(&self.shared, self.node, alias_step(step, hands, prover))
    }

    fn cycle(
        &self,
        policy: &Policy,
        verification: NewPodBeats,
        stop: watch::Receiver<bool>,
    ) -> impl Future<Output = StepOutcome> + Send + 'static {
        self.shared.with(|sim| sim.step_begins(self.node, StepKind::CycleManifest));
        let (hands, policy) = (self.clone(), policy.clone());
        OnNode::new(&self.shared, self.node, async move { hands.run_cycle(&policy, &verification, stop).await })
    }

    /// No process of a simulated node can be looked at.
    fn autopsy(&self, _: Case, _: oneshot::Sender<()>) -> impl Future<Output = Option<Autopsy>> + Send + 'static {
        std::future::ready(None)
    }

    /// Nor its network.
    fn diagnose(&self, _: &Policy, _: Option<PauseRecord>) -> impl Future<Output = Option<Diagnosed>> + Send + 'static {
        std::future::ready(None)
    }

    /// Nor is anything shared: the policy of a schedule does not say so.
    fn share(&self, _: &Policy, _: SimProver, _: Share) -> impl Future<Output = Result<(), String>> + Send + 'static {
        std::future::ready(Ok(()))
    }

    fn recover(&self) -> impl Future<Output = Result<Option<Recovered>, CycleError>> + Send + 'static {
        let hands = self.clone();
        OnNode::new(&self.shared, self.node, async move { hands.finish_open_cycle().await })
    }

    async fn ages_of_past_cycles(&self) -> Result<Vec<Duration>, CycleError> {
        let sim = self.shared.lock();
        Ok(sim.nodes[self.node].daemon.cycles.iter().map(|start| Duration::from_millis(sim.now - start)).collect())
    }

    fn open_cycle(&self) -> Option<CycleView> {
        self.shared.lock().nodes[self.node].daemon.open_cycle.map(|phase| CycleView { phase })
    }
}

impl SimHands {
    async fn finish_open_cycle(&self) -> Result<Option<Recovered>, CycleError> {
        let (open, out_since) = {
            let sim = self.shared.lock();
            (sim.nodes[self.node].daemon.open_cycle, sim.nodes[self.node].manifest.out_since)
        };
        let Some(phase) = open else { return Ok(None) };
        if phase == CyclePhase::Out {
            tokio::time::sleep_until(self.shared.instant(out_since + 3_000)).await;
        }
        match self.shared.with(|sim| sim.put_back(self.node)) {
            Err(reason) => Err(CycleError::BootId(std::io::Error::other(reason))),
            Ok(_) => {
                self.shared.with(|sim| sim.nodes[self.node].daemon.open_cycle = None);
                let manifest = "wcp-fip.yaml".into();
                Ok(Some(Recovered {
                    id: 1,
                    manifest,
                    phase,
                    outcome: Outcome::RecoveredPutBack,
                    detail: "it is in place".to_owned(),
                }))
            }
        }
    }
}

/// How the wait for the old pod's end went.
enum Wait {
    Dead,
    Stuck,
    Interrupted,
    Stopped,
}

impl SimHands {
    async fn run_cycle(&self, policy: &Policy, verification: &NewPodBeats, mut stop: watch::Receiver<bool>) -> StepOutcome {
        if let Some(refusal) = self.shared.lock().cycle_refused(self.node) {
            return StepOutcome::Refused(refusal.to_owned());
        }
        self.shared.with(|sim| {
            sim.nodes[self.node].daemon.open_cycle = Some(CyclePhase::Intended);
            let now = sim.now;
            sim.nodes[self.node].daemon.cycles.push(now);
        });
        tokio::time::sleep(Duration::from_millis(4)).await;
        let out_since = self.shared.now();
        if !self.shared.with(|sim| sim.take_out(self.node)) {
            self.shared.with(|sim| sim.nodes[self.node].daemon.open_cycle = None);
            return StepOutcome::Failed("the manifest changed while it was taken out; nothing was moved".to_owned());
        }
        let deadline = out_since + GRACE + ms(policy.cycle.death_margin);
        let wait = self.until_gone(out_since, deadline, policy, &mut stop).await;
        tokio::time::sleep_until(self.shared.instant(out_since + ms(policy.cycle.settle))).await;
        let mut tries = 1;
        let home = loop {
            match self.shared.with(|sim| sim.put_back(self.node)) {
                Ok(home) => break home,
                Err(reason) if tries >= PUT_BACK_TRIES => return StepOutcome::Failed(format!("it is not back: {reason}")),
                Err(_) => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        let outcome = match wait {
            Wait::Dead if home => verified(verification, policy.cycle.verify_timeout, &mut stop).await,
            Wait::Dead | Wait::Interrupted => StepOutcome::Failed("another manifest is in place and stays".to_owned()),
            Wait::Stuck => StepOutcome::PodStuck("the old pod did not die; the manifest is back".to_owned()),
            Wait::Stopped => StepOutcome::Failed("the daemon stops; the manifest is back".to_owned()),
        };
        self.shared.with(|sim| sim.nodes[self.node].daemon.open_cycle = None);
        outcome
    }

    async fn until_gone(&self, out_since: Ms, deadline: Ms, policy: &Policy, stop: &mut watch::Receiver<bool>) -> Wait {
        let (settle, kill_after) = (ms(policy.cycle.settle), policy.cycle.kill_after.map_or(Ms::MAX, ms));
        let mut gone_since = None;
        loop {
            let now = self.shared.now();
            {
                let sim = self.shared.lock();
                let node = &sim.nodes[self.node];
                if node.manifest.in_place.is_some() {
                    return Wait::Interrupted;
                }
                gone_since = if node.pod.alive { None } else { gone_since.or(Some(now)) };
            }
            if gone_since.is_none() && now - out_since >= kill_after {
                self.shared.with(|sim| sim.kill_loop(self.node));
            }
            if gone_since.is_some_and(|since| now - since >= settle) && now - out_since >= settle {
                return Wait::Dead;
            }
            if gone_since.is_none() && now >= deadline {
                return Wait::Stuck;
            }
            if stopped_within(stop, Duration::from_millis(500)).await {
                return Wait::Stopped;
            }
        }
    }
}

async fn verified(verification: &NewPodBeats, limit: Duration, stop: &mut watch::Receiver<bool>) -> StepOutcome {
    let end = tokio::time::Instant::now() + limit;
    let mut missing = String::new();
    while tokio::time::Instant::now() < end {
        match verification.verified().await {
            Ok(seen) => return StepOutcome::Succeeded(seen),
            Err(reason) => missing = format!("{reason:?}"),
        }
        if stopped_within(stop, Duration::from_millis(500)).await {
            return StepOutcome::Failed("the daemon stops; the manifest is back, not verified yet".to_owned());
        }
    }
    StepOutcome::Failed(format!("the manifest is back, but not verified in time: {missing}"))
}

async fn stopped_within(stop: &mut watch::Receiver<bool>, wait: Duration) -> bool {
    matches!(tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await, Ok(Ok(_)))
}

impl Sim {
    fn cycle_refused(&self, node: usize) -> Option<&'static str> {
        let node = &self.nodes[node];
        if node.blind[2] > 0 {
            return Some("cannot tell when the old pod is gone");
        }
        if node.daemon.read_only > 0 {
            return Some("the backup cannot be written");
        }
        node.manifest.in_place.is_none().then_some("the manifest is not in its directory")
    }

    /// SIGKILL by the cycle's own hand.
    fn kill_loop(&mut self, node: usize) {
        if self.nodes[node].kubelet.unkillable == 0 && self.nodes[node].pod.alive {
            self.nodes[node].pod.dying = true;
            self.loop_ends(node);
        }
    }

    fn take_out(&mut self, node: usize) -> bool {
        let now = self.now;
        let at = &mut self.nodes[node];
        if at.daemon.read_only > 0 || at.manifest.in_place.is_none() {
            return false;
        }
        at.manifest.staged = at.manifest.in_place.take();
        at.manifest.out_since = now;
        at.daemon.open_cycle = Some(CyclePhase::Out);
        self.say(Some(node), || "the cycle takes the manifest out".to_owned());
        self.manifest_changed(node);
        true
    }

    /// Whether ours is home; another one that is in place stays.
    fn put_back(&mut self, node: usize) -> Result<bool, &'static str> {
        let at = &mut self.nodes[node];
        if at.daemon.read_only > 0 {
            return Err("the file system is read-only");
        }
        let staged = at.manifest.staged.take();
        let free = at.manifest.in_place.is_none();
        if free {
            at.manifest.in_place = staged;
        }
        at.daemon.open_cycle = Some(CyclePhase::Back);
        self.say(Some(node), || "the cycle has brought the manifest home".to_owned());
        self.manifest_changed(node);
        Ok(free || staged.is_none())
    }
}

impl AddressTable for SimHands {
    async fn read(&self, _interface: &str, _fip: Ipv4Addr) -> Reading<AliasView> {
        match self.turn("list the addresses").await {
            Ok(()) => alias(&self.shared.lock(), self.node, clock::now()),
            Err(error) => Reading::Unknown(error.to_string()),
        }
    }

    async fn add(&self, interface: &str, fip: Ipv4Addr, lease: Duration) -> Result<Added, TableError> {
        self.turn("add the alias").await?;
        Ok(self.shared.with(|sim| {
            sim.checks.touches(self.node, interface, fip);
            if sim.nodes[self.node].address.is_some() {
                return Added::AlreadyThere;
            }
            sim.lease_given(self.node, ms(lease));
            sim.say(Some(self.node), || format!("the FIP is put up with a lease of {} s", lease.as_secs()));
            sim.set_address(self.node, Some(Some(ms(lease))));
            Added::New
        }))
    }

    async fn set_lifetime(&self, interface: &str, fip: Ipv4Addr, lifetime: Lifetime) -> Result<(), TableError> {
        self.turn("set the lifetime of the alias").await?;
        self.shared.with(|sim| {
            sim.checks.touches(self.node, interface, fip);
            if sim.nodes[self.node].address.is_none() {
                return Err(TableError::NoAlias(fip));
            }
            match lifetime {
                Lifetime::Leased(lease) | Lifetime::Lent(lease) => {
                    sim.lease_given(self.node, ms(lease));
                    sim.set_address(self.node, Some(Some(ms(lease))));
                }
                Lifetime::Forever => {
                    sim.proof_is_fresh(self.node, "handed over");
                    sim.say(Some(self.node), || "the FIP is handed over to the loop".to_owned());
                    sim.set_address(self.node, Some(None));
                }
            }
            if let Some(address) = &mut sim.nodes[self.node].address {
                address.lent = matches!(lifetime, Lifetime::Lent(_));
            }
            Ok(())
        })
    }

    async fn remove(&self, interface: &str, fip: Ipv4Addr) -> Result<usize, TableError> {
        self.turn("remove the alias").await?;
        Ok(self.shared.with(|sim| {
            sim.checks.touches(self.node, interface, fip);
            let was_there = sim.nodes[self.node].address.is_some();
            if was_there {
                sim.say(Some(self.node), || "the watchdog takes the FIP off".to_owned());
                sim.set_address(self.node, None);
            }
            usize::from(was_there)
        }))
    }
}

impl ArpWire for SimHands {
    async fn probe(&self, _interface: &str, _fip: Ipv4Addr, wait: Duration) -> Result<ProbeOutcome, ArpError> {
        let end = self.shared.instant(self.shared.now() + ms(wait));
        loop {
            if let Some(holder) = self.shared.lock().answers_probe_of(self.node) {
                let last = u8::try_from(holder).unwrap_or(u8::MAX);
                return Ok(ProbeOutcome::Answered { mac: Mac([2, 0, 0, 0, 0, last]) });
            }
            if tokio::time::Instant::now() >= end {
                return Ok(ProbeOutcome::Silent);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn announce(&self, interface: &str, fip: Ipv4Addr) -> Result<(), ArpError> {
        self.shared.with(|sim| {
            sim.checks.touches(self.node, interface, fip);
            sim.announce(self.node);
        });
        Ok(())
    }
}
