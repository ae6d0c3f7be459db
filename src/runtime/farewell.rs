//! How the daemon lets go: at a stop, and before a policy takes over that ends its say about the alias.
//!
//! What a healthy loop would hold for ever is left so, under a proof. Everything else keeps its lease: a restart within it
//! takes it up again, and without one the kernel ends it.

use std::time::Duration;

use super::clock;
use super::executor::ALIAS_PATIENCE;
use super::supervisor::Supervisor;
use super::world::World;
use crate::audit::AuditEvent;
use crate::decision::observation::Observation;
use crate::decision::plan::EtcdDepth;
use crate::decision::step::{Lane, StepKind};
use crate::policy::{Mode, Policy};

/// How long a stop may take until the manifest is back; with the farewell below the unit's `TimeoutStopSec`.
const STOP_LIMIT: Duration = Duration::from_secs(38);

/// How long the last step on the alias may take: a proof, two requests to the kernel. When it is over the
/// lease runs out.
const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

/// Between two looks at the lease while a manifest goes back.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Between two signs of life to systemd.
const TICK: Duration = Duration::from_millis(250);

/// Whether the new policy would leave an alias to its lease that the old one has lent one to.
pub(super) fn ends_our_say(old: &Policy, new: &Policy) -> bool {
    let moved = (old.fip.address, &old.fip.interface) != (new.fip.address, &new.fip.interface);
    old.mode == Mode::Enforce && (new.mode == Mode::Observe || moved)
}

impl<W: World> Supervisor<W> {
    /// Ends in order: no new step but upkeep; a manifest that is out goes back; the alias is left as it should be.
    pub(super) async fn stop(&mut self, why: &'static str) {
        self.parts.audit.emit(&AuditEvent::Stopping { reason: why.to_owned() });
        self.parts.notifier.stopping(why);
        let began = clock::now();
        let mut renew_at = began + ALIAS_PATIENCE;
        self.parts.executor.stop();
        while self.parts.executor.is_busy(Lane::Alias) || self.parts.executor.is_busy(Lane::Loop) {
            let now = clock::now();
            if now.since(began) >= STOP_LIMIT {
                tracing::error!("a cycle has not ended; the next start finishes it");
                break;
            }
            if now >= renew_at && self.parts.executor.is_busy(Lane::Alias) {
                self.parts.executor.drop_alias_steps();
            } else if now >= renew_at {
                renew_at = now + RENEW_EVERY;
                self.last_step(|this, observation| {
                    this.machine.renewal_while_stopping(observation, &this.parts.policy, clock::now())
                })
                .await;
            }
            self.wait_for_a_step(TICK).await;
        }
        self.take_ended();
        self.farewell().await;
        self.parts.audit.flush();
    }

    /// Leaves the alias as a healthy loop would have it, if that is proven to be right; within [`FAREWELL_LIMIT`].
    pub(super) async fn farewell(&mut self) {
        self.last_step(|this, observation| this.machine.farewell(observation, &this.parts.policy, clock::now())).await;
        let began = clock::now();
        while self.parts.executor.is_busy(Lane::Alias) {
            if clock::now().since(began) >= FAREWELL_LIMIT {
                self.parts.executor.drop_alias_steps();
            }
            self.wait_for_a_step(TICK).await;
        }
        self.take_ended();
    }

    /// Asks etcd only where there is a lease to decide about.
    async fn last_step(&mut self, choose: impl FnOnce(&mut Self, &Observation) -> Option<StepKind>) {
        let Some((last, decision)) = &self.last else { return };
        let verdict = decision.verdict;
        if last.alias.fresh().is_none_or(|alias| alias.lease().is_none()) || self.parts.executor.is_busy(Lane::Alias) {
            return;
        }
        let observation = self.observe(EtcdDepth::Proof).await;
        if let Some(step) = choose(self, &observation) {
            self.begin(step, &observation, verdict, false);
        }
    }

    async fn wait_for_a_step(&mut self, limit: Duration) {
        match tokio::time::timeout(limit, self.parts.executor.next_ended()).await {
            Ok(ended) => self.ended.push(ended),
            Err(_elapsed) => self.parts.notifier.feed(clock::now()),
        }
    }
}
