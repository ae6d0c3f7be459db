//! The loop that joins senses, decision and hands.
//!
//! ```text
//! ┌─► take what ended ─► read all senses ─► decide ─► say what is new ─► begin steps ─► feed systemd ─┐
//! └──────────── sleep until the decision's deadline, or an event, or a question, or a signal ◄────────┘
//! ```
//!
//! Tasks: this loop, on the runtime's one thread; a task for each step in flight, owned by the
//! [`Executor`], and one for a look at a hung loop or at an unwell etcd; the control server, aborted when the loop ends; blocking reads and file system work on
//! tokio's blocking threads. The loop alone decides, and it alone feeds the watchdog. Steps that ended are
//! taken *before* the senses are read: a reading from before the end of a step must not judge it.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

use super::attend::attended;
use super::clock;
use super::examination::Episode;
use super::executor::{Ended, Executor, Finished, Order};
use super::gap::GapWatch;
use super::ledger::PauseLedger;
use super::sd_notify::Notifier;
use super::senses::Readings;
use super::sharing::Sharing;
use super::spoken::Spoken;
use super::trouble::Trouble;
use super::world::World;
use crate::actuator::alias::AnnounceSchedule;
use crate::audit::{Audit, AuditEvent, evidence};
use crate::control::diagnosis::LastDiagnosis;
use crate::control::recent::{RecentStep, RecentSteps};
use crate::control::report::{PolicyRejection, PolicySummary};
use crate::control::server::Call;
use crate::decision::machine::Machine;
use crate::decision::observation::{Observation, StrainView};
use crate::decision::plan::{Decision, EtcdDepth};
use crate::decision::step::{Lane, StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::diff::diff;
use crate::policy::{Mode, Policy};

/// Least time between two rounds: a storm of events must not become a busy loop.
const ROUND_MIN: Duration = Duration::from_millis(20);

/// Between two attempts to finish a cycle that could not be finished.
const RECOVER_EVERY: Duration = Duration::from_secs(10);

/// All that the loop needs; made by `startup`.
pub struct Parts<W: World> {
    /// The policy in force.
    pub policy: Policy,
    /// Senses, what wakes, what an operator says.
    pub world: W,
    /// The hands.
    pub executor: Executor<W::Hands>,
    /// Cycles that earlier runs carried out.
    pub past_cycles: Vec<Moment>,
    /// Where everything is said.
    pub audit: Audit,
    /// systemd.
    pub notifier: Notifier,
    /// Questions over the control socket.
    pub calls: mpsc::Receiver<Call>,
}

/// The loop.
pub struct Supervisor<W: World> {
    pub(super) parts: Parts<W>,
    pub(super) machine: Machine,
    pub(super) summary: PolicySummary,
    spoken: Spoken,
    pub(super) gap: GapWatch,
    pub(super) pauses: PauseLedger,
    episode: Episode,
    pub(super) trouble: Trouble,
    pub(super) sharing: Sharing,
    pub(super) diagnosis: Option<LastDiagnosis>,
    repeats: AnnounceSchedule,
    pub(super) recent: RecentSteps,
    pub(super) started_at: Moment,
    pub(super) last: Option<(Observation, Decision)>,
    pub(super) ended: Vec<Ended>,
    recover_at: Moment,
}

/// Why the loop woke.
enum Woke {
    Round,
    Stop(&'static str),
}

impl<W: World> Supervisor<W> {
    /// A loop that has not begun.
    #[must_use]
    pub fn new(parts: Parts<W>) -> Self {
        let now = clock::now();
        let summary = PolicySummary::of(&parts.policy, PathBuf::from(parts.world.policy_path()), now);
        Self {
            machine: Machine::new(now, &parts.past_cycles).knowing(parts.world.known_good()),
            summary,
            spoken: Spoken::new(now),
            gap: GapWatch::new(clock::all()),
            pauses: PauseLedger::default(),
            episode: Episode::default(),
            trouble: Trouble::default(),
            sharing: Sharing::default(),
            diagnosis: None,
            repeats: AnnounceSchedule::default(),
            recent: RecentSteps::default(),
            started_at: now,
            last: None,
            ended: Vec::new(),
            recover_at: now,
            parts,
        }
    }

    /// Runs until `stop` says why to end.
    pub async fn run(mut self, stop: impl Future<Output = &'static str>) {
        tokio::pin!(stop);
        let mut depth = EtcdDepth::Status;
        loop {
            let began = clock::now();
            self.note_gap();
            self.adopt_policy(began).await;
            self.take_ended();
            self.finish_an_open_cycle(began);
            let decision = self.round(depth).await;
            depth = decision.etcd_depth;
            let deadline = self.deadline(&decision).max(began + ROUND_MIN);
            self.gap.expect_back_by(deadline);
            match self.sleep(deadline, began + ROUND_MIN, stop.as_mut()).await {
                Woke::Round => {}
                Woke::Stop(why) => {
                    self.stop(why).await;
                    return;
                }
            }
        }
    }

    /// Reads all senses. A pause of this daemon while it reads counts like one while it sleeps: what was read before
    /// it is void.
    pub(super) async fn observe(&mut self, depth: EtcdDepth) -> Observation {
        let in_flight = self.parts.executor.in_flight();
        let (readings, absence) = attended(self.parts.world.read(&self.parts.policy, depth)).await;
        // Some were read before the gap and some after it: together they are no observation.
        self.gap.was_absent_for(absence.late, clock::now());
        self.note_gap();
        let Readings { etcd, heartbeat, process, alias, manifest, kubelet, conflict, api, expired, cpu_pressure, hold_off } =
            readings;
        let observation = Observation {
            etcd,
            heartbeat,
            process,
            alias,
            manifest,
            kubelet,
            conflict,
            api,
            expired,
            cycle: self.parts.executor.cycle(),
            in_flight,
            paused: self.parts.world.paused(clock::wall()),
            resumed_at: self.gap.resumed_at(),
            strain: StrainView { late_ticks: self.gap.late_ticks(), cpu_pressure },
            hold_off,
        };
        self.parts.executor.show(&observation);
        observation
    }

    /// Reads, decides, says, begins.
    async fn round(&mut self, depth: EtcdDepth) -> Decision {
        let observation = self.observe(depth).await;
        let now = clock::now();
        let decision = self.machine.step(&observation, &self.parts.policy, now);
        self.spoken.say(&self.parts.audit, &observation, &decision, &self.parts.policy, now);
        self.attend_to_etcd(&observation, &decision, now);
        for step in &decision.start {
            self.begin(*step, &observation, decision.verdict, false);
        }
        if self.episode.is_due(decision.verdict, self.parts.executor.is_busy(Lane::Loop), now) {
            self.parts.executor.examine(&self.parts.policy, decision.verdict, evidence(&observation, now));
        }
        let enforces = self.parts.policy.mode == Mode::Enforce;
        if enforces && let Some(known_good) = self.machine.known_good() {
            self.parts.world.keep_known_good(known_good);
        }
        if enforces {
            self.parts.world.keep_members();
        }
        if self.repeats.take_due(now) && enforces && !self.parts.executor.is_busy(Lane::Alias) {
            self.begin(StepKind::AnnounceAlias, &observation, decision.verdict, true);
        }
        let first = decision.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.parts.notifier.status(&format!("{}{first}", decision.verdict));
        self.parts.notifier.feed(now);
        self.parts.audit.flush();
        self.last = Some((observation, decision.clone()));
        decision
    }

    pub(super) fn begin(&mut self, step: StepKind, observation: &Observation, verdict: Verdict, repeat: bool) {
        let now = clock::now();
        let routine = repeat || step == StepKind::RenewAlias;
        if !routine {
            let evidence = evidence(observation, now);
            self.parts.audit.emit(&AuditEvent::StepStarted { step, verdict, evidence });
        }
        if step == StepKind::CycleManifest {
            self.parts.executor.examine(&self.parts.policy, verdict, evidence(observation, now));
        }
        self.machine.on_step_started(step, now);
        let prover = self.parts.world.prover();
        self.parts.executor.start(Order { step, verdict, routine }, &self.parts.policy, prover);
    }

    /// What ended since the last round: to the machine, the audit and `status`.
    pub(super) fn take_ended(&mut self) {
        for ended in std::mem::take(&mut self.ended) {
            match ended {
                Ended::Step(finished) => self.take_finished(finished),
                Ended::Recovery(outcome) => super::startup::say_recovered(outcome, &self.parts.audit),
                Ended::Autopsy(verdict, Some(autopsy)) => self.parts.audit.emit(&AuditEvent::HangAutopsied { verdict, autopsy }),
                Ended::Share(outcome) => self.sharing.ended(&outcome),
                Ended::Diagnosis(Some(diagnosed)) => self.take_diagnosed(diagnosed),
                Ended::Autopsy(_, None) | Ended::Diagnosis(None) => {}
            }
        }
    }

    fn take_finished(&mut self, finished: Finished) {
        let Finished { step, verdict, started_at, outcome, routine } = finished;
        let now = clock::now();
        let arrival = step == StepKind::ApplyAlias || (step == StepKind::AnnounceAlias && self.machine.announces_arrival());
        self.machine.on_step_finished(step, &outcome, now);
        let succeeded = matches!(outcome, StepOutcome::Succeeded(_));
        if succeeded && !routine && arrival {
            self.repeats = AnnounceSchedule::starting(now);
        }
        if succeeded && step == StepKind::ReleaseAlias {
            self.repeats.stop();
        }
        if routine && step == StepKind::AnnounceAlias && matches!(outcome, StepOutcome::Refused(_)) {
            // A repeat that is refused: the FIP is elsewhere by now, and its new place is announced there.
            self.repeats.stop();
            return;
        }
        if routine && succeeded {
            if step == StepKind::RenewAlias {
                self.parts.audit.emit(&AuditEvent::LeaseRenewed { valid_for: self.parts.policy.limits.alias_lease });
            }
            return;
        }
        let duration = now.since(started_at);
        let evidence = self.last.as_ref().map(|(observation, _)| evidence(observation, now)).unwrap_or_default();
        self.parts.audit.emit(&match outcome.clone() {
            StepOutcome::Succeeded(seen) => AuditEvent::StepSucceeded { step, verdict, seen, duration, evidence },
            StepOutcome::Failed(reason) | StepOutcome::PodStuck(reason) => {
                AuditEvent::StepFailed { step, verdict, reason, duration, evidence }
            }
            StepOutcome::Refused(reason) => AuditEvent::StepRefused { step, verdict, reason, evidence },
        });
        self.recent.push(RecentStep { step, verdict, started_at, ended_at: now, outcome });
    }

    /// A pause of this daemon voids ages; what was under way when it began has been bounded by its own deadlines.
    fn note_gap(&mut self) {
        for record in self.gap.back(clock::all()) {
            self.parts.audit.emit(&AuditEvent::PauseRecorded(record));
            self.pauses.push(record);
        }
    }

    async fn adopt_policy(&mut self, now: Moment) {
        let path = self.parts.world.policy_path().to_owned();
        match self.parts.world.edited_policy() {
            None => {}
            Some(Ok(mut policy)) => {
                let mut changes = diff(&self.parts.policy, &policy);
                if policy.state_dir != self.parts.policy.state_dir {
                    // An open cycle is in the journal that was read at the start, and is closed there.
                    policy.state_dir.clone_from(&self.parts.policy.state_dir);
                    changes.push("state_dir counts from the next start on".to_owned());
                }
                if super::farewell::ends_our_say(&self.parts.policy, &policy) {
                    self.farewell().await;
                }
                self.parts.world.adopt(&self.parts.policy, &policy);
                self.summary = PolicySummary::of(&policy, path.clone(), now);
                self.parts.policy = policy;
                self.parts.audit.emit(&AuditEvent::PolicyLoaded { path, diff: changes });
            }
            Some(Err(error)) => {
                let faults = super::startup::sentences(&error);
                self.summary.rejection = Some(PolicyRejection { at: now, faults: faults.clone() });
                self.parts.audit.emit(&AuditEvent::PolicyRejected { path, faults });
            }
        }
    }

    /// An entry that stayed open (a read-only disk, say) is tried again, between steps.
    fn finish_an_open_cycle(&mut self, now: Moment) {
        let open = self.parts.executor.cycle().is_some() && !self.parts.executor.is_busy(Lane::Loop);
        if open && now >= self.recover_at {
            self.recover_at = now + RECOVER_EVERY;
            self.parts.executor.start_recovery();
        }
    }

    /// When the next round must begin: the decision's deadline, a repeat of an announcement, systemd's patience.
    fn deadline(&self, decision: &Decision) -> Moment {
        let repeat = self.repeats.next_due().unwrap_or(decision.next_deadline);
        decision.next_deadline.min(repeat)
    }

    /// Sleeps until `deadline`; an event ends it early, but not before `earliest`. Answers questions meanwhile.
    async fn sleep<S>(&mut self, deadline: Moment, earliest: Moment, mut stop: Pin<&mut S>) -> Woke
    where
        S: Future<Output = &'static str>,
    {
        let until = |moment: Moment| tokio::time::sleep(moment.since(clock::now()));
        let at_deadline = until(deadline);
        tokio::pin!(at_deadline);
        loop {
            let parts = &mut self.parts;
            tokio::select! {
                biased;
                why = stop.as_mut() => return Woke::Stop(why),
                () = &mut at_deadline => return Woke::Round,
                // Whoever paused and then looks must see it.
                Some(call) = parts.calls.recv() => if self.answer(call) { break },
                ended = parts.executor.next_ended() => { self.ended.push(ended); break }
                () = parts.world.changed() => break,
            }
        }
        until(earliest).await;
        Woke::Round
    }
}
