//! Carries steps out: one task a lane, each with its own limit; obeys, and decides nothing.
//!
//! Tasks: one for each step in flight, owned by the executor's `JoinSet`. An alias step may be dropped at any
//! await (a lease ends by itself). A cycle must not be: it is stopped through its channel, and puts the
//! manifest back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::clock;
use crate::actuator::alias::{AliasSettings, AliasSteps};
use crate::actuator::arp::PacketWire;
use crate::actuator::manifest_cycle::{CycleError, CycleExecutor, CycleSettings, ProcCgroupWatch, Recovered, Verify};
use crate::decision::observation::{CycleView, Observation, ProcessView};
use crate::decision::step::{Lane, StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::Policy;
use crate::sensor::alias::AliasTable;
use crate::sensor::etcd::{EtcdProver, LeadershipProver as _};

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

/// The hands.
pub struct Executor {
    tasks: JoinSet<Finished>,
    running: BTreeMap<StepKind, AbortHandle>,
    table: Arc<AliasTable>,
    cycles: Arc<CycleExecutor>,
    seen: watch::Sender<Seen>,
    stop: watch::Sender<bool>,
}

impl Executor {
    /// Hands that keep their journal in `state_dir`.
    #[must_use]
    pub fn new(table: Arc<AliasTable>, state_dir: &Path) -> Self {
        Self {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            table,
            cycles: Arc::new(CycleExecutor::new(state_dir)),
            seen: watch::Sender::new(Seen::default()),
            stop: watch::Sender::new(false),
        }
    }

    /// Finishes a cycle that an earlier run left open. Before the first verdict, and again while one is open
    /// that no step in flight accounts for.
    ///
    /// # Errors
    /// The journal is damaged, or a file system call failed; nothing is lost, and the entry stays open.
    pub async fn recover(&self) -> Result<Option<Recovered>, CycleError> {
        self.cycles.recover().await
    }

    /// The starts of cycles that earlier runs carried out, as moments of this run's clock.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn past_cycles(&self, now: Moment) -> Result<Vec<Moment>, CycleError> {
        let past = self.cycles.recent().await?;
        Ok(past.iter().map(|cycle| Moment::from_origin(now.since_origin().saturating_sub(cycle.age))).collect())
    }

    /// The open cycle, if there is one.
    #[must_use]
    pub fn cycle(&self) -> Option<CycleView> {
        self.cycles.view()
    }

    /// The steps in flight.
    #[must_use]
    pub fn in_flight(&self) -> BTreeSet<StepKind> {
        self.running.keys().copied().collect()
    }

    /// Whether a step of the lane is in flight.
    #[must_use]
    pub fn is_busy(&self, lane: Lane) -> bool {
        self.running.keys().any(|step| step.lane() == lane)
    }

    /// Shows the cycle in flight what the senses see, for its verification.
    pub fn show(&self, observation: &Observation) {
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

    /// Begins a step. The caller has made sure that its lane is free.
    pub fn start(&mut self, order: Order, policy: &Policy, prover: EtcdProver) {
        let Order { step, verdict, routine } = order;
        let started_at = clock::now();
        let finished = move |outcome| Finished { step, verdict, started_at, outcome, routine };
        let handle = match step.lane() {
            Lane::Alias => {
                let hands = AliasSteps::new(prover.clone(), Arc::clone(&self.table), PacketWire, AliasSettings::from(policy));
                self.tasks.spawn(async move {
                    finished(match step {
                        StepKind::ApplyAlias => hands.apply().await,
                        StepKind::RenewAlias => match prover.prove().await {
                            Ok(proof) => hands.renew(proof).await,
                            Err(reason) => StepOutcome::Refused(format!("not renewed, so the lease ends by itself: {reason}")),
                        },
                        StepKind::HandOverAlias => hands.hand_over().await,
                        StepKind::LeaseAlias => hands.lease().await,
                        StepKind::ReleaseAlias => hands.release().await,
                        StepKind::AnnounceAlias => hands.announce().await,
                        StepKind::CycleManifest => StepOutcome::Refused("not a step of the alias lane".to_owned()),
                    })
                })
            }
            Lane::Loop => {
                let (cycles, settings, stop) = (Arc::clone(&self.cycles), CycleSettings::from(policy), self.stop.subscribe());
                let verification = NewPodBeats { seen: self.seen.subscribe(), old: self.seen.borrow().process };
                let watched = policy.watched_loop.clone();
                self.tasks.spawn(async move {
                    let old = verification.old;
                    let pod = tokio::task::spawn_blocking(move || ProcCgroupWatch::find(&watched, old)).await;
                    finished(match pod {
                        Ok(pod) => cycles.run(&settings, &pod, &verification, stop).await,
                        Err(failed) => StepOutcome::Refused(format!("looking for the loop's pod broke off: {failed}")),
                    })
                })
            }
        };
        self.running.insert(step, handle);
    }

    /// The next step that ends; pending while none is in flight. Cancel-safe.
    pub async fn next_finished(&mut self) -> Finished {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(finished)) => {
                    self.running.remove(&finished.step);
                    return finished;
                }
                // A task that panicked or was aborted names no step: whatever is no longer running is free again.
                Some(Err(failed)) => {
                    tracing::error!(%failed, "a step broke off");
                    self.running.retain(|_, task| !task.is_finished());
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Ends all steps: a cycle puts its manifest back, alias steps get `patience` and are then dropped.
    /// The caller goes on taking [`next_finished`](Self::next_finished) until the loop lane is free.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Drops the alias steps in flight; the kernel ends what they leased.
    pub fn drop_alias_steps(&self) {
        for (_, task) in self.running.iter().filter(|(step, _)| step.lane() == Lane::Alias) {
            task.abort();
        }
    }
}

/// A new container runs and finishes rounds.
struct NewPodBeats {
    seen: watch::Receiver<Seen>,
    old: Option<(u32, u64)>,
}

impl Verify for NewPodBeats {
    async fn verified(&self) -> Result<String, String> {
        let seen = *self.seen.borrow();
        let Some(process) = seen.process.filter(|process| Some(*process) != self.old) else {
            return Err("no new process of the loop".to_owned());
        };
        match seen.beat_at {
            Some(beat_at) if beat_at > seen.seen_since => Ok(format!("the new loop, pid {}, finishes rounds", process.0)),
            Some(_) | None => Err(format!("the new loop, pid {}, has finished no round yet", process.0)),
        }
    }
}

/// How long a stop waits for the alias lane before it drops what is in flight there.
pub const ALIAS_PATIENCE: Duration = Duration::from_secs(1);
