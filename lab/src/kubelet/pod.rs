//! One pod's worker: a state machine without clock, process or file. Time is an argument, [`Worker::next_deadline`] tells when to call again.
//!
//! ```text
//!            wanted                    start                 manifest out
//!   Held ───────────► Due ───────────────────► Running ───────────────────► Terminating
//!    ▲ namesake ends   ▲    restart (back-off)    │ dies, wanted                 │ dies
//!    │                 ├──────────────────────────┘                              ▼
//!    │                 │  tick or manifest back                                Ended ──► record gone, forgotten
//!    └─ same name,     └─────────────────────────────────────────────────────────┘
//!       other content
//! ```
//!
//! Invariant: at most one container of a worker runs, and none is started while a record says that one may still run.

use std::time::Duration;

use super::backoff::Backoff;
use super::manifest::Pod;
use super::phase::{Conditions, Effect, Phase};
use super::timing::{Stamp, Timing};

/// The worker of one pod, by UID.
#[derive(Debug, Clone)]
pub struct Worker {
    /// What to run.
    pub pod: Pod,
    pub(super) phase: Phase,
    pub(super) wanted: bool,
    pub(super) attempt: u32,
    record: bool,
    record_gone_at: Option<Stamp>,
    log_dir_gone_at: Option<Stamp>,
    seen_missing: bool,
    forgotten: bool,
    orphan_at: Option<Stamp>,
    kill_failure_said: bool,
    /// Its termination will not come to an end while the mode holds.
    held_back: bool,
    /// The container died meanwhile.
    died_unseen: bool,
    backoff: Backoff,
    seed: u64,
}

impl Worker {
    /// A pod that is new to the kubelet; `held` while a namesake is still there.
    #[must_use]
    pub fn new(pod: Pod, held: bool, now: Stamp, timing: &Timing) -> Self {
        let seed = pod.uid.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let mut worker = Self {
            pod,
            phase: Phase::Held,
            wanted: true,
            attempt: 0,
            record: false,
            record_gone_at: None,
            log_dir_gone_at: None,
            seen_missing: false,
            forgotten: false,
            orphan_at: None,
            kill_failure_said: false,
            held_back: false,
            died_unseen: false,
            backoff: Backoff::default(),
            seed,
        };
        if !held {
            worker.phase = Phase::Due { at: now + timing.start.pick(worker.salt()), attempt: 0 };
        }
        worker
    }

    /// A container that was found running when the kubelet started; an orphan unless the first list wants it.
    #[must_use]
    pub fn adopted(pod: Pod, attempt: u32, now: Stamp, timing: &Timing) -> Self {
        let mut worker = Self::new(pod, true, now, timing);
        worker.wanted = false;
        worker.phase = Phase::Running;
        worker.attempt = attempt;
        worker.record = true;
        worker.orphan_at = Some(timing.orphan);
        worker
    }

    fn salt(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }

    /// The manifest directory asks for this pod (again).
    pub fn want(&mut self, pod: &Pod, now: Stamp, timing: &Timing) {
        // The same UID is the same content, but an adopted pod is not wholly known before its manifest is seen.
        self.pod = pod.clone();
        self.wanted = true;
        self.log_dir_gone_at = None;
        self.orphan_at = None;
        match self.phase {
            // The record of the ended container is still there: to the kubelet this is a crash.
            Phase::Ended { at } if self.record && !self.seen_missing => self.restart(at, now, timing),
            Phase::Ended { at: _ } if self.forgotten && !self.record => {
                self.phase = Phase::Due { at: now + timing.start.pick(self.salt()), attempt: 0 };
            }
            // Terminating, or ended and not yet forgotten: the next tick after the end restarts it.
            Phase::Ended { at: _ } | Phase::Held | Phase::Due { .. } | Phase::Running | Phase::Terminating { .. } => {}
        }
    }

    /// The manifest directory no longer asks for this pod.
    pub fn unwant(&mut self, now: Stamp, conditions: Conditions, timing: &Timing) -> Vec<Effect> {
        self.wanted = false;
        self.forgotten = false;
        self.seen_missing = false;
        self.kill_failure_said = false;
        match self.phase {
            Phase::Running if conditions.sources_not_ready => {
                vec![Effect::Say(format!(
                    "\"Failed to delete pod\" pod=\"{}\" err=\"skipping delete because sources aren't ready yet\"",
                    self.pod.key()
                ))]
            }
            Phase::Running => self.terminate(now, conditions, timing),
            Phase::Held | Phase::Due { .. } => {
                self.phase = Phase::Ended { at: now };
                self.forgotten = !self.record;
                Vec::new()
            }
            Phase::Terminating { .. } | Phase::Ended { .. } => Vec::new(),
        }
    }

    /// Begin the end: TERM now, KILL after the grace period.
    pub fn terminate(&mut self, now: Stamp, conditions: Conditions, timing: &Timing) -> Vec<Effect> {
        let grace = Duration::from_secs(self.pod.grace_seconds).mul_f64(timing.scale).max(timing.grace_min);
        self.phase = Phase::Terminating { kill_at: now + grace };
        let mut effects = vec![Effect::Say(format!(
            "\"Killing container with a grace period\" pod=\"{}\" gracePeriod={}",
            self.pod.key(),
            self.pod.grace_seconds.max(2)
        ))];
        self.held_back = conditions.termination_stuck;
        if !conditions.unkillable {
            effects.push(Effect::Term);
        }
        effects
    }

    /// The other pod of the same name has ended at `end`.
    pub fn release(&mut self, end: Stamp, timing: &Timing) {
        if self.phase == Phase::Held {
            self.phase = Phase::Due { at: end + timing.replacement.pick(self.salt()), attempt: 0 };
        }
    }

    /// The driver has started the container, or could not.
    pub fn started(&mut self, now: Stamp, ok: bool, timing: &Timing) {
        let Phase::Due { at: _, attempt } = self.phase else { return };
        if ok {
            self.phase = Phase::Running;
            self.attempt = attempt;
            self.record = true;
            self.record_gone_at = None;
        } else {
            self.phase = Phase::Due { at: now + timing.retry, attempt };
        }
    }

    /// The container died, by whomever.
    pub fn died(&mut self, now: Stamp, timing: &Timing) {
        match self.phase {
            Phase::Running if self.wanted => self.restart(now, now, timing),
            // The kubelet does not look at a pod that it was told to remove but may not: the record stays.
            Phase::Running => self.phase = Phase::Ended { at: now },
            Phase::Terminating { .. } if self.held_back => self.died_unseen = true,
            Phase::Terminating { .. } if self.seen_missing => {
                let delay = timing.record.pick(self.salt());
                self.end(now, delay);
            }
            Phase::Terminating { .. } if self.wanted => self.phase = Phase::Ended { at: now },
            Phase::Terminating { .. } => {
                let delay = timing.record_late.pick(self.salt());
                self.end(now, delay);
            }
            Phase::Held | Phase::Due { .. } | Phase::Ended { .. } => {}
        }
    }

    fn end(&mut self, now: Stamp, record_delay: Duration) {
        self.phase = Phase::Ended { at: now };
        self.record_gone_at = self.record.then_some(now + record_delay);
    }

    /// Restart as the next attempt, as after a crash at `death`.
    fn restart(&mut self, death: Stamp, now: Stamp, timing: &Timing) {
        let delay = self.backoff.next(now, timing);
        let slack = if delay.is_zero() { timing.restart } else { timing.backoff_slack };
        let at = (death + delay).max(now) + slack.pick(self.salt());
        self.record_gone_at = None;
        self.phase = Phase::Due { at, attempt: self.attempt + 1 };
    }

    /// Housekeeping.
    pub fn tick(&mut self, now: Stamp, conditions: Conditions, timing: &Timing) -> Vec<Effect> {
        if self.held_back && !conditions.termination_stuck {
            self.held_back = false;
            if std::mem::take(&mut self.died_unseen) {
                self.died(now, timing);
            }
        }
        match self.phase {
            Phase::Running if conditions.evict => {
                self.phase = Phase::Terminating { kill_at: now + timing.retry };
                vec![Effect::Say(format!("\"Eviction manager: pod is evicted\" pod=\"{}\"", self.pod.key())), Effect::Kill]
            }
            // Neither at once nor later, and not as a new pod either.
            Phase::Ended { .. } if self.wanted && conditions.evict => Vec::new(),
            Phase::Running if !self.wanted && self.orphan_at.is_none() && !conditions.sources_not_ready => {
                self.terminate(now, conditions, timing)
            }
            Phase::Terminating { .. } if !self.wanted && !self.seen_missing => {
                self.seen_missing = true;
                vec![Effect::Say(format!("\"SyncLoop (housekeeping): pod is no longer wanted\" pod=\"{}\"", self.pod.key()))]
            }
            Phase::Ended { at: _ } if !self.wanted => {
                self.forgotten = true;
                if self.record && self.record_gone_at.is_none() && !conditions.sources_not_ready {
                    self.seen_missing = true;
                    self.record_gone_at = Some(now + timing.record.pick(self.salt()));
                }
                Vec::new()
            }
            Phase::Ended { at: _ } if !self.record => {
                self.phase = Phase::Due { at: now, attempt: 0 };
                vec![Effect::Say(format!(
                    "\"Pod will be restarted because it is in the desired set\" pod=\"{}\"",
                    self.pod.key()
                ))]
            }
            Phase::Ended { at } if !self.seen_missing => {
                self.restart(at, now, timing);
                Vec::new()
            }
            Phase::Ended { .. } | Phase::Held | Phase::Due { .. } | Phase::Running | Phase::Terminating { .. } => Vec::new(),
        }
    }

    /// Everything that is due by `now`.
    pub fn poll(&mut self, now: Stamp, conditions: Conditions, timing: &Timing) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.record_gone_at.is_some_and(|at| at <= now) {
            self.record_gone_at = None;
            self.record = false;
            self.log_dir_gone_at = (!self.wanted).then(|| now + timing.log_dir.pick(self.seed));
            effects.push(Effect::RemoveRecord);
        }
        if self.log_dir_gone_at.is_some_and(|at| at <= now) {
            self.log_dir_gone_at = None;
            effects.push(Effect::RemoveLogDir);
        }
        match self.phase {
            Phase::Due { at, attempt } if at <= now && !conditions.evict => effects.push(Effect::Start { attempt }),
            Phase::Running if !self.wanted && !conditions.sources_not_ready && self.orphan_at.is_some_and(|at| at <= now) => {
                self.orphan_at = None;
                self.seen_missing = true;
                self.phase = Phase::Terminating { kill_at: now };
                effects.push(Effect::Say(format!("\"Clean up containers for orphaned pod\" pod=\"{}\"", self.pod.key())));
                effects.extend(self.kill(now, conditions, timing));
            }
            Phase::Terminating { kill_at } if kill_at <= now => effects.extend(self.kill(now, conditions, timing)),
            Phase::Held | Phase::Due { .. } | Phase::Running | Phase::Terminating { .. } | Phase::Ended { .. } => {}
        }
        effects
    }

    fn kill(&mut self, now: Stamp, conditions: Conditions, timing: &Timing) -> Vec<Effect> {
        if !conditions.unkillable {
            self.phase = Phase::Terminating { kill_at: now + timing.retry };
            return vec![Effect::Kill];
        }
        // Short, so that a container that can be killed again is killed soon.
        self.phase = Phase::Terminating { kill_at: now + timing.retry / 20 };
        if !self.kill_failure_said {
            self.kill_failure_said = true;
            return vec![Effect::Say(format!(
                "\"Kill container failed\" pod=\"{}\" err=\"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"",
                self.pod.key()
            ))];
        }
        Vec::new()
    }

    /// When [`Worker::poll`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self, conditions: Conditions) -> Option<Stamp> {
        let phase = match self.phase {
            Phase::Due { at, attempt: _ } => (!conditions.evict).then_some(at),
            Phase::Terminating { kill_at } => Some(kill_at),
            Phase::Running if !self.wanted && !conditions.sources_not_ready => self.orphan_at,
            Phase::Running | Phase::Held | Phase::Ended { .. } => None,
        };
        [phase, self.record_gone_at, self.log_dir_gone_at].into_iter().flatten().min()
    }

    /// A namesake has to wait for this one.
    #[must_use]
    pub fn occupies_name(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Terminating { .. })
    }

    /// Nothing is left that the kubelet has to remember.
    #[must_use]
    pub fn is_forgettable(&self, now: Stamp, timing: &Timing) -> bool {
        let ended = matches!(self.phase, Phase::Ended { .. }) && !self.wanted && !self.record && self.log_dir_gone_at.is_none();
        ended && self.forgotten && self.backoff.is_quiet(now, timing)
    }
}
