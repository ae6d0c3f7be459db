//! Carries steps out: one task a lane, each with its own limit; obeys, and decides nothing.
//!
//! Tasks: one for each step in flight, owned by the executor's `JoinSet`. An alias step may be dropped at any
//! await (a lease ends by itself). A cycle must not be: it is stopped through its channel, and puts the
//! manifest back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::clock;
use super::examination::LastSeen;
pub use super::hands::{Hands, NodeHands, alias_step};
use super::ledger::PauseRecord;
use super::sharing::Share;
use crate::actuator::manifest_cycle::{CycleError, Missing, Recovered, Verify};
use crate::autopsy::{Autopsy, PATIENCE};
use crate::decision::observation::{CycleView, Observation, ProcessView};
use crate::decision::step::{Lane, StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::diagnose::Diagnosed;
use crate::policy::Policy;

/// A step that ended.
#[derive(Debug)]
pub struct Finished {
    /// Which.
    pub step: StepKind,
    /// What it answered.
    pub verdict: Verdict,
    /// When it began.
    pub started_at: Moment,
    /// How it ended.
    pub outcome: StepOutcome,
    /// Whether it is routine that the audit does not repeat.
    pub routine: bool,
}

/// A step to begin.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// Which.
    pub step: StepKind,
    /// What it answers.
    pub verdict: Verdict,
    /// Whether it is routine that the audit does not repeat.
    pub routine: bool,
}

/// What a cycle's verification looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    process: Option<(u32, u64)>,
    seen_since: Moment,
    beat_at: Option<Moment>,
}

/// A step in flight.
struct Running {
    task: AbortHandle,
    order: Order,
    started_at: Moment,
}

/// Something that ended.
#[derive(Debug)]
pub enum Ended {
    /// A step.
    Step(Finished),
    /// An attempt to finish a cycle that was left open.
    Recovery(Result<Option<Recovered>, CycleError>),
    /// An autopsy; none where there was nothing to look at.
    Autopsy(Verdict, Option<Box<Autopsy>>),
    /// A diagnosis; none where there was nothing to look at.
    Diagnosis(Option<Box<Diagnosed>>),
    /// An attempt to share what this node sees.
    Share(Result<(), String>),
}

/// The steps in flight, and what they are carried out with.
pub struct Executor<H> {
    tasks: JoinSet<Ended>,
    running: BTreeMap<StepKind, Running>,
    recovering: Option<AbortHandle>,
    diagnosing: Option<AbortHandle>,
    sharing: Option<AbortHandle>,
    hands: H,
    seen: watch::Sender<Seen>,
    stop: watch::Sender<bool>,
    last_seen: LastSeen,
    examined: Option<oneshot::Receiver<()>>,
}

impl<H: Hands> Executor<H> {
    /// No step is in flight.
    #[must_use]
    pub fn new(hands: H) -> Self {
        Self {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            recovering: None,
            diagnosing: None,
            sharing: None,
            hands,
            seen: watch::Sender::new(Seen::default()),
            stop: watch::Sender::new(false),
            last_seen: LastSeen::default(),
            examined: None,
        }
    }

    /// Finishes a cycle that an earlier run left open, before the first verdict.
    ///
    /// # Errors
    /// The journal is damaged, or a file system call failed; nothing is lost, and the entry stays open.
    pub async fn recover(&self) -> Result<Option<Recovered>, CycleError> {
        self.hands.recover().await
    }

    /// Begins to finish an open cycle that no step in flight accounts for; the loop lane is busy until it ends.
    pub fn start_recovery(&mut self) {
        let ended = self.hands.recover();
        self.recovering = Some(self.tasks.spawn(async move { Ended::Recovery(ended.await) }));
    }

    /// The starts of cycles that earlier runs carried out, as moments of this run's clock.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn past_cycles(&self, now: Moment) -> Result<Vec<Moment>, CycleError> {
        let ages = self.hands.ages_of_past_cycles().await?;
        Ok(ages.iter().map(|age| Moment::from_origin(now.since_origin().saturating_sub(*age))).collect())
    }

    /// The open cycle, if there is one.
    #[must_use]
    pub fn cycle(&self) -> Option<CycleView> {
        self.hands.open_cycle()
    }

    /// The steps in flight.
    #[must_use]
    pub fn in_flight(&self) -> BTreeSet<StepKind> {
        let recovering = self.recovering.as_ref().map(|_| StepKind::CycleManifest);
        self.running.keys().copied().chain(recovering).collect()
    }

    /// Whether a step of the lane is in flight.
    #[must_use]
    pub fn is_busy(&self, lane: Lane) -> bool {
        self.in_flight().iter().any(|step| step.lane() == lane)
    }

    /// Shows the cycle in flight what the senses see, for its verification.
    pub fn show(&mut self, observation: &Observation) {
        self.last_seen.note(observation);
        let process = match observation.process.fresh() {
            Some(ProcessView::Present(process)) => Some(process),
            Some(ProcessView::Absent { .. }) | None => None,
        };
        self.seen.send_replace(Seen {
            process: process.map(|process| (process.pid, process.start_ticks)),
            seen_since: process.map(|process| process.seen_since).unwrap_or_default(),
            beat_at: observation.heartbeat.fresh().and_then(|heartbeat| heartbeat.last_beat_at),
        });
    }

    /// Begins to look at a hung loop. A cycle that is begun next waits until all is seen, for [`PATIENCE`] at most.
    pub fn examine(&mut self, policy: &Policy, verdict: Verdict, facts: Value) {
        let (saved, examined) = oneshot::channel();
        let autopsy = self.hands.autopsy(self.last_seen.case(policy, verdict, facts), saved);
        self.tasks.spawn(async move { Ended::Autopsy(verdict, autopsy.await.map(Box::new)) });
        self.examined = Some(examined);
    }

    /// Begins to look for what is wrong with etcd, unless that is under way; `last_pause` is evidence too. Nothing waits for it.
    pub fn diagnose(&mut self, policy: &Policy, last_pause: Option<PauseRecord>) {
        if self.diagnosing.is_none() {
            let look = self.hands.diagnose(policy, last_pause);
            self.diagnosing = Some(self.tasks.spawn(async move { Ended::Diagnosis(look.await.map(Box::new)) }));
        }
    }

    /// Whether a diagnosis is under way.
    #[must_use]
    pub const fn is_diagnosing(&self) -> bool {
        self.diagnosing.is_some()
    }

    /// Begins to share what this node sees, unless that is under way. Nothing waits for it.
    pub fn share(&mut self, policy: &Policy, prover: H::Prover, share: Share) {
        if self.sharing.is_none() {
            let attempt = self.hands.share(policy, prover, share);
            self.sharing = Some(self.tasks.spawn(async move { Ended::Share(attempt.await) }));
        }
    }

    /// Begins a step. The caller has made sure that its lane is free.
    pub fn start(&mut self, order: Order, policy: &Policy, prover: H::Prover) {
        let Order { step, verdict, routine } = order;
        let started_at = clock::now();
        let finished = move |outcome| Ended::Step(Finished { step, verdict, started_at, outcome, routine });
        let handle = match step.lane() {
            Lane::Alias => {
                let ended = self.hands.alias(step, policy, prover);
                self.tasks.spawn(async move { finished(ended.await) })
            }
            Lane::Loop => {
                let verification = NewPodBeats { seen: self.seen.subscribe(), old: self.seen.borrow().process };
                let ended = self.hands.cycle(policy, verification, self.stop.subscribe());
                let examined = self.examined.take();
                self.tasks.spawn(async move {
                    if let Some(examined) = examined {
                        // Seen, given up, or too late: the remedy goes on.
                        tokio::time::timeout(PATIENCE, examined).await.ok();
                    }
                    finished(ended.await)
                })
            }
        };
        self.running.insert(step, Running { task: handle, order, started_at });
    }

    /// What ends next; pending while nothing is in flight. Cancel-safe.
    pub async fn next_ended(&mut self) -> Ended {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Ended::Autopsy(_, None))) => {}
                Some(Ok(Ended::Diagnosis(None))) => self.diagnosing = None,
                Some(Ok(ended)) => {
                    match &ended {
                        Ended::Step(finished) => drop(self.running.remove(&finished.step)),
                        Ended::Recovery(_) => self.recovering = None,
                        Ended::Diagnosis(_) => self.diagnosing = None,
                        Ended::Share(_) => self.sharing = None,
                        Ended::Autopsy(..) => {}
                    }
                    return ended;
                }
                // It panicked, or was dropped at a stop: an end all the same, and the audit says which.
                Some(Err(failed)) => {
                    let step = self.running.iter().find(|(_, running)| running.task.id() == failed.id()).map(|(step, _)| *step);
                    if let Some(Running { order, started_at, .. }) = step.and_then(|step| self.running.remove(&step)) {
                        let Order { step, verdict, routine } = order;
                        let how = if failed.is_cancelled() {
                            "dropped, because the daemon stops".to_owned()
                        } else {
                            failed.to_string()
                        };
                        let outcome = StepOutcome::Failed(format!("{how}; what it leased ends by itself"));
                        return Ended::Step(Finished { step, verdict, started_at, outcome, routine });
                    }
                    self.recovering = self.recovering.take().filter(|task| !task.is_finished());
                    self.diagnosing = self.diagnosing.take().filter(|task| !task.is_finished());
                    self.sharing = self.sharing.take().filter(|task| !task.is_finished());
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Ends all steps: a cycle puts its manifest back, alias steps get `patience` and are then dropped.
    /// The caller goes on taking [`next_ended`](Self::next_ended) until the loop lane is free. A diagnosis is dropped,
    /// and what is being shared.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        for look in self.diagnosing.iter().chain(&self.sharing) {
            look.abort();
        }
    }

    /// Drops the alias steps in flight; the kernel ends what they leased.
    pub fn drop_alias_steps(&self) {
        for (_, running) in self.running.iter().filter(|(step, _)| step.lane() == Lane::Alias) {
            running.task.abort();
        }
    }
}

/// A new container runs and finishes rounds.
pub struct NewPodBeats {
    seen: watch::Receiver<Seen>,
    pub(super) old: Option<(u32, u64)>,
}

impl Verify for NewPodBeats {
    async fn verified(&self) -> Result<String, Missing> {
        let seen = *self.seen.borrow();
        let Some(process) = seen.process.filter(|process| Some(*process) != self.old) else {
            return Err(Missing::Pod("no new process of the loop".to_owned()));
        };
        match seen.beat_at {
            Some(beat_at) if beat_at > seen.seen_since => Ok(format!("the new loop, pid {}, finishes rounds", process.0)),
            Some(_) | None => Err(Missing::Beat(format!("the new loop, pid {}, has finished no round yet", process.0))),
        }
    }
}

/// How long a stop waits for the alias lane before it drops what is in flight there.
pub const ALIAS_PATIENCE: Duration = Duration::from_secs(1);
