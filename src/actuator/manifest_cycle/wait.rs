//! The waits of a cycle: for the old pod's end, and for the new pod's first beat.
//!
//! Every wait has an end, and a stop ends each of them. Cancel-safe: nothing is changed here.
//! They run on tokio's clock, which stands still with the machine: a wait is never cut short (I4).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{CycleExecutor, CycleSettings, Kill, PodState, PodWatch};
use crate::actuator::journal::{Intent, Outcome};

/// Between two looks at the old pod.
const POD_POLL: Duration = Duration::from_millis(200);
/// Looks at the pod for one look at the manifest's place: once a second.
const LOOKS_A_PLACE: u32 = 5;
/// The longest that one look may take.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// The kubelet drops its record of a container up to 0.94 s after the process's end, measured on 1.32 and
/// 1.36. Where the cgroup directory stays, or is not known, the settle time begins this much later.
const RECORD_LAG: Duration = Duration::from_secs(1);
/// How long a restarted container must have run before the manifest goes back. The kubelet's record never goes then, so
/// there is nothing else to wait for.
const RESTARTED_WAIT: Duration = Duration::from_secs(1);
/// Between two questions whether the new pod beats.
const VERIFY_POLL: Duration = Duration::from_millis(100);

/// Tells whether the new pod works, from what the senses see.
pub trait Verify: Sync {
    /// What was seen (a process with another pid or start time, and a beat read since), or what is missing
    /// still. Asked ten times a second until the policy's time is up.
    fn verified(&self) -> impl Future<Output = Result<String, Missing>> + Send;
}

/// What is missing of the new pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The pod itself.
    Pod(String),
    /// The pod is there, and does not work yet.
    Beat(String),
}

/// Why the wait for the old pod ended.
pub(super) enum Wait {
    /// Gone, and out for long enough.
    Dead,
    /// The kubelet did not act on the removal, and restarted the container after its end.
    Restarted,
    /// Not gone in time; what is left.
    Stuck(String),
    /// The manifest is not out any more, by somebody else's hand.
    Interrupted,
    /// Something failed.
    Aborted(String),
    /// The daemon stops.
    Stopped,
}

/// The wait for the old pod's end.
pub(super) struct PodWait {
    pub(super) settle: Duration,
    pub(super) out_since: Instant,
    /// Counted from `out_since`.
    pub(super) deadline: Duration,
    /// Counted from `out_since`; `None` is never.
    pub(super) kill_after: Option<Duration>,
    /// How long a process may take to die after it was killed.
    pub(super) death_margin: Duration,
    /// What came of the kill, in words.
    pub(super) killed: Option<String>,
}

impl PodWait {
    pub(super) fn new(settings: &CycleSettings, out_since: Instant, grace: Duration) -> Self {
        Self {
            settle: settings.settle,
            out_since,
            deadline: grace.saturating_add(settings.death_margin),
            kill_after: settings.kill_after,
            death_margin: settings.death_margin,
            killed: None,
        }
    }

    /// Waits until the old pod is gone and has been for the settle time, and kills the loop on the way where it takes
    /// too long; or for the deadline, a stop, or somebody else's hand in it.
    pub(super) async fn until_gone(
        &mut self,
        pod: &impl PodWatch,
        cycle: (&CycleExecutor, &Arc<Intent>),
        stop: &mut watch::Receiver<bool>,
    ) -> Wait {
        let mut settled = Settling::default();
        for round in 0_u32.. {
            let state = look(pod).await;
            let now = Instant::now();
            let out_for = now.duration_since(self.out_since);
            if settled.is_over(&state, self.settle, now) && out_for >= self.settle {
                return Wait::Dead;
            }
            if settled.restarted_since.is_some_and(|since| now.duration_since(since) >= RESTARTED_WAIT) {
                return Wait::Restarted;
            }
            if let Some(left) = settled.left.as_ref().filter(|_| out_for >= self.deadline) {
                return Wait::Stuck(left.clone());
            }
            if round % LOOKS_A_PLACE == 0 && !cycle.0.is_still_out(cycle.1).await {
                return Wait::Interrupted;
            }
            if self.kill_after.is_some_and(|after| out_for >= after) && matches!(state, PodState::Present(_)) {
                self.kill_after = None;
                // Whoever put a manifest there meanwhile may want the pod that runs.
                if !cycle.0.is_still_out(cycle.1).await {
                    return Wait::Interrupted;
                }
                self.kill(pod, out_for).await;
            }
            tokio::select! {
                () = sleep(POD_POLL) => {}
                () = stopped(stop) => return Wait::Stopped,
            }
        }
        Wait::Aborted("the wait for the old pod has no end".to_owned())
    }

    /// Once killed, a process dies at once or is beyond reach: there is no grace period to wait for.
    async fn kill(&mut self, pod: &impl PodWatch, out_for: Duration) {
        match pod.kill().await {
            Kill::Sent(pid) => {
                tracing::warn!(pid, out_ms = u64::try_from(out_for.as_millis()).unwrap_or(u64::MAX), "killed the loop's process");
                self.deadline = self.deadline.min(out_for.saturating_add(self.death_margin));
                self.killed = Some(format!("process {pid} was killed after {} ms", out_for.as_millis()));
            }
            Kill::Gone => {}
            Kill::Failed(reason) => {
                tracing::warn!(reason, "cannot kill the loop's process; the kubelet has to");
                self.killed = Some(reason);
            }
        }
    }
}

/// One look, bounded.
pub(super) async fn look(pod: &impl PodWatch) -> PodState {
    match timeout(LOOK_MAX, pod.state()).await {
        Ok(state) => state,
        Err(_) => PodState::Unknown("the look at the pod takes too long".to_owned()),
    }
}

/// For how long the pod has been gone without interruption.
#[derive(Default)]
struct Settling {
    gone_since: Option<Instant>,
    empty_since: Option<Instant>,
    restarted_since: Option<Instant>,
    /// What is left; `None` while nothing is, and then the deadline waits for the settle time.
    left: Option<String>,
}

impl Settling {
    fn is_over(&mut self, state: &PodState, settle: Duration, now: Instant) -> bool {
        match state {
            PodState::Present(left) | PodState::Unknown(left) => {
                *self = Self { left: Some(left.clone()), ..Self::default() };
            }
            PodState::Reborn(left) => {
                let since = self.restarted_since.unwrap_or(now);
                *self = Self { left: Some(left.clone()), restarted_since: Some(since), ..Self::default() };
            }
            PodState::Empty => {
                self.empty_since.get_or_insert(now);
                (self.gone_since, self.restarted_since, self.left) = (None, None, None);
            }
            PodState::Gone => {
                self.empty_since.get_or_insert(now);
                self.gone_since.get_or_insert(now);
                (self.restarted_since, self.left) = (None, None);
            }
        }
        let over = |since: Option<Instant>, wait: Duration| since.is_some_and(|since| now.duration_since(since) >= wait);
        over(self.gone_since, settle) || over(self.empty_since, settle.saturating_add(RECORD_LAG))
    }
}

/// Returns once `stop` is true; never if nobody can say so any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Asks until the new pod is verified, the time is up, or the daemon stops.
pub(super) async fn verification(verify: &impl Verify, limit: Duration, stop: &mut watch::Receiver<bool>) -> (Outcome, String) {
    let mut missing = Missing::Pod("nothing was seen of it".to_owned());
    let end = Instant::now() + limit;
    // An answer that is ready at once beats any timeout around it, so the clock is asked here too.
    while Instant::now() < end {
        match tokio::time::timeout_at(end, verify.verified()).await {
            Ok(Ok(seen)) => return (Outcome::Verified, seen),
            Ok(Err(reason)) => missing = reason,
            Err(_) => break,
        }
        tokio::select! {
            () = sleep(VERIFY_POLL) => {}
            () = stopped(stop) => {
                let (Missing::Pod(reason) | Missing::Beat(reason)) = missing;
                return (Outcome::Stopped, format!("the daemon stops; the manifest is back, not verified yet: {reason}"));
            }
        }
    }
    match missing {
        Missing::Pod(reason) => (Outcome::PodStuck, format!("pod_stuck: the manifest is back, and no new pod came: {reason}")),
        Missing::Beat(reason) => (Outcome::Unverified, format!("the manifest is back, but not verified in time: {reason}")),
    }
}
