//! One cycle from plan to end: the waits, the announcements, and the way back from every failure.
//!
//! Invariant: from the moment of the rename there is no path out of [`CycleExecutor::run`] that does not go
//! through `bring_home`, and every wait has an end. Not cancel-safe, see the module above.
//! Waits run on tokio's clock, which stands still with the machine: a wait is never cut short.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::place::{Home, IfNowhere, bring_home, ensure_backup, is_out, stage_out};
use super::plan::{Plan, plan};
use super::wait::{PodWait, Verify, Wait, look, verification};
use super::{CycleError, CycleExecutor, CycleSettings, PodState, PodWatch, chain, stamp};
use crate::actuator::journal::{Intent, Outcome, PhaseMark, Record};
use crate::decision::observation::CyclePhase;
use crate::decision::step::StepOutcome;

/// Putting back is tried this often, [`PUT_BACK_PAUSE`] apart, before the entry is left open for `recover`.
const PUT_BACK_TRIES: u32 = 20;
const PUT_BACK_PAUSE: Duration = Duration::from_secs(1);

impl CycleExecutor {
    /// Cycles the manifest once. `stop` turning true makes it put the manifest back: at once if it has been
    /// out for the settle time, else as soon as it has. Takes at most the pod's grace period, `death_margin`,
    /// 20 s of attempts to put back, and `verify_timeout`.
    pub async fn run(
        &self,
        settings: &CycleSettings,
        pod: &impl PodWatch,
        verify: &impl Verify,
        mut stop: watch::Receiver<bool>,
    ) -> StepOutcome {
        let Ok(_only_one) = self.busy.try_lock() else {
            return StepOutcome::Refused("a manifest cycle is open already".to_owned());
        };
        match self.finish_open().await {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                return StepOutcome::Refused(format!("finished cycle {} first: {}", recovered.id, recovered.detail));
            }
            Err(error) => return StepOutcome::Refused(format!("an earlier cycle cannot be finished: {}", chain(&error))),
        }
        if *stop.borrow_and_update() {
            return StepOutcome::Refused("the daemon stops".to_owned());
        }
        if let PodState::Unknown(reason) = look(pod).await {
            return StepOutcome::Refused(format!("cannot tell when the old pod is gone: {reason}"));
        }
        match self.prepare(settings, pod).await {
            Ok(plan) => self.carry_out(settings, plan, pod, verify, &mut stop).await,
            Err(error) => StepOutcome::Refused(chain(&error)),
        }
    }

    /// Plan and intent. The intent comes before the backup, so that whoever finds it open removes what a
    /// backup that was broken off has left.
    async fn prepare(&self, settings: &CycleSettings, pod: &impl PodWatch) -> Result<Plan, CycleError> {
        let (settings, record, now) = (settings.clone(), pod.record(), stamp()?);
        self.blocking(move |fs, journal| {
            let id = journal.load()?.next_id();
            let plan = plan(fs, &settings, id, record, now)?;
            journal.append(&Record::Intent(Box::new(plan.intent.clone())))?;
            Ok(plan)
        })
        .await
    }

    async fn carry_out(
        &self,
        settings: &CycleSettings,
        plan: Plan,
        pod: &impl PodWatch,
        verify: &impl Verify,
        stop: &mut watch::Receiver<bool>,
    ) -> StepOutcome {
        self.announce(Some(CyclePhase::Intended));
        let intent = Arc::new(plan.intent);
        let (entry, identity, content) = (Arc::clone(&intent), plan.manifest.identity, plan.manifest.content);
        if let Err(error) = self.blocking(move |fs, _| Ok(ensure_backup(fs, &entry.backup, &content)?)).await {
            return self.close(&intent, Outcome::NotMoved, chain(&error)).await;
        }
        let entry = Arc::clone(&intent);
        if let Err(error) = self.blocking(move |fs, _| stage_out(fs, &entry, identity)).await {
            // Where the rename was done all the same: back too early would count as a crash of the pod.
            if self.is_still_out(&intent).await {
                sleep(settings.settle).await;
            }
            return self.give_up_early(&intent, &chain(&error)).await;
        }
        let out_since = Instant::now();
        self.announce(Some(CyclePhase::Out));
        let (wait, killed) = match self.mark(&intent, PhaseMark::Out).await {
            Ok(()) => {
                let mut wait = PodWait::new(settings, out_since, Duration::from_secs(plan.grace_s));
                let ended = wait.until_gone(pod, (self, &intent), stop).await;
                (ended, wait.killed.map(|killed| format!("{killed}; ")).unwrap_or_default())
            }
            Err(error) => (Wait::Aborted(chain(&error)), String::new()),
        };
        tokio::time::sleep_until(out_since + settings.settle).await;
        let home = match self.put_back(&intent, IfNowhere::Restore).await {
            Ok(home) => home,
            Err(error) => return self.left_open(&intent, &error),
        };
        self.announce(Some(CyclePhase::Back));
        // Not vital, so no failure of the cycle: the state of the directories says the same to a later start.
        match self.mark(&intent, PhaseMark::Back).await {
            Ok(()) | Err(_) => {}
        }
        let (outcome, detail) = match ending(wait, &home, &intent) {
            Some(ending) => ending,
            None => verification(verify, settings.verify_timeout, stop).await,
        };
        self.close(&intent, outcome, format!("{killed}{detail}")).await
    }

    /// The manifest could not be taken out: undo what may have been done.
    async fn give_up_early(&self, intent: &Arc<Intent>, reason: &str) -> StepOutcome {
        match self.put_back(intent, IfNowhere::Leave).await {
            Ok(Home::InPlace) => self.close(intent, Outcome::NotMoved, format!("{reason}; nothing was moved")).await,
            Ok(Home::RemovedByOther(_)) => {
                self.close(intent, Outcome::NotMoved, format!("{reason}; somebody else removed it")).await
            }
            Ok(Home::Lost) => self.close(intent, Outcome::Lost, format!("{reason}; the manifest and its backup are lost")).await,
            Ok(Home::PutBack | Home::FromBackup) => {
                self.close(intent, Outcome::Aborted, format!("{reason}; the manifest is back")).await
            }
            Ok(Home::Replaced(kept)) => {
                let detail = format!("{reason}; another manifest is in place and stays; ours is kept as {}", kept.display());
                self.close(intent, Outcome::Replaced, detail).await
            }
            Err(error) => self.left_open(intent, &error),
        }
    }

    fn left_open(&self, intent: &Intent, error: &CycleError) -> StepOutcome {
        StepOutcome::Failed(format!(
            "{} is not back; it waits in {}, its backup is {}: {}",
            intent.manifest.display(),
            intent.staging.display(),
            intent.backup.display(),
            chain(error)
        ))
    }

    async fn put_back(&self, intent: &Arc<Intent>, if_nowhere: IfNowhere) -> Result<Home, CycleError> {
        let mut tries = 1;
        loop {
            let entry = Arc::clone(intent);
            match self.blocking(move |fs, _| Ok(bring_home(fs, &entry, if_nowhere)?)).await {
                Ok(home) => return Ok(home),
                Err(error) if tries >= PUT_BACK_TRIES => return Err(error),
                Err(_) => {
                    tries += 1;
                    sleep(PUT_BACK_PAUSE).await;
                }
            }
        }
    }

    /// A look that fails counts as out: the deadline ends the wait then.
    pub(super) async fn is_still_out(&self, intent: &Arc<Intent>) -> bool {
        let entry = Arc::clone(intent);
        self.blocking(move |fs, _| Ok(is_out(fs, &entry)?)).await.unwrap_or(true)
    }

    async fn mark(&self, intent: &Intent, phase: PhaseMark) -> Result<(), CycleError> {
        let record = Record::Phase { id: intent.id, phase, at: stamp()? };
        self.blocking(move |_, journal| Ok(journal.append(&record)?)).await
    }

    async fn close(&self, intent: &Intent, outcome: Outcome, detail: String) -> StepOutcome {
        let (id, text) = (intent.id, detail.clone());
        let closed = match stamp() {
            Ok(at) => self.blocking(move |_, journal| Ok(journal.close(id, outcome, &text, at)?)).await,
            Err(error) => Err(error),
        };
        match (closed, outcome) {
            (Err(error), _) => StepOutcome::Failed(format!("{detail}; but the journal entry stays open: {}", chain(&error))),
            (Ok(()), Outcome::Verified) => self.ended(StepOutcome::Succeeded(detail)),
            (Ok(()), Outcome::NotMoved) => self.ended(StepOutcome::Refused(detail)),
            (Ok(()), Outcome::PodStuck) => self.ended(StepOutcome::PodStuck(detail)),
            (Ok(()), _) => self.ended(StepOutcome::Failed(detail)),
        }
    }

    fn ended(&self, outcome: StepOutcome) -> StepOutcome {
        self.announce(None);
        outcome
    }
}

/// How a cycle ends that is not verified; `None`: the manifest went out and in as it should.
fn ending(wait: Wait, home: &Home, intent: &Intent) -> Option<(Outcome, String)> {
    let manifest = intent.manifest.display();
    match (wait, home) {
        (_, Home::Replaced(kept)) => {
            let detail =
                format!("somebody else put another {manifest} there meanwhile, it stays; ours is kept as {}", kept.display());
            Some((Outcome::Replaced, detail))
        }
        (_, Home::Lost) => Some((Outcome::Lost, format!("{manifest} is lost, and so is its backup"))),
        (Wait::Stuck(left), _) => {
            Some((Outcome::PodStuck, format!("pod_stuck: the old pod did not go in time: {left}; the manifest is back")))
        }
        (Wait::Stopped, _) => Some((Outcome::Stopped, "the daemon stops; the manifest is back".to_owned())),
        (Wait::Aborted(reason), _) => Some((Outcome::Aborted, format!("{reason}; the manifest is back"))),
        (Wait::Interrupted, _) => Some((Outcome::Aborted, "somebody else moved the manifest meanwhile; it is back".to_owned())),
        (Wait::Dead | Wait::Restarted, Home::InPlace | Home::PutBack | Home::FromBackup | Home::RemovedByOther(_)) => None,
    }
}
