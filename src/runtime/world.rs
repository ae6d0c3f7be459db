//! What the loop reads, is woken by, and obeys: the seam at which a simulation takes a node's place.
//!
//! [`Node`] is the real one; the hands are behind [`Hands`].

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use super::executor::{Hands, NodeHands};
use super::known_good::KnownGood;
use super::pause::{PauseError, PauseFile};
use super::remembered::Remembered;
use super::senses::{Readings, Senses};
use crate::decision::observation::OperatorPause;
use crate::decision::plan::EtcdDepth;
use crate::policy::Policy;
use crate::policy::load::LoadError;
use crate::policy::reload::PolicyWatch;
use crate::sensor::alias::AliasEvents;
use crate::sensor::etcd::EtcdProver;
use crate::sensor::manifest::ManifestWatch;

/// Everything around the loop but its hands.
pub trait World {
    /// What the steps are carried out with.
    type Hands: Hands;

    /// Reads all senses. Bounded; the loop awaits it to the end.
    fn read(&mut self, policy: &Policy, depth: EtcdDepth) -> impl Future<Output = Readings>;

    /// A prover for the alias steps.
    fn prover(&self) -> <Self::Hands as Hands>::Prover;

    /// Returns when something may have changed, so that a round is worth it. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()>;

    /// Whether an edit of the policy is to be judged, and how it was judged.
    fn edited_policy(&mut self) -> Option<Result<Policy, LoadError>>;

    /// A new policy comes into force.
    fn adopt(&mut self, old: &Policy, new: &Policy);

    /// The policy's file, for people.
    fn policy_path(&self) -> &Path;

    /// The content of the manifest under which the loop has beaten in a former process.
    fn known_good(&self) -> Option<String>;

    /// Keeps another one. Must not block.
    fn keep_known_good(&mut self, sha256: &str);

    /// Keeps etcd's member list, if it is another one than was kept. Must not block.
    fn keep_members(&mut self) {}

    /// The operator's pause in force at `wall`.
    fn paused(&self, wall: Duration) -> Option<OperatorPause>;

    /// An operator pauses the remedies.
    ///
    /// # Errors
    /// A length or a reason out of range, or the pause cannot be kept.
    fn pause(&mut self, reason: &str, length: Duration, wall: Duration) -> Result<(), PauseError>;

    /// An operator ends the pause; whether one was in force.
    ///
    /// # Errors
    /// The kept pause cannot be removed.
    fn resume(&mut self) -> Result<bool, PauseError>;
}

/// The node on which the daemon runs.
pub struct Node {
    /// The policy's file.
    pub policy_watch: PolicyWatch,
    /// The senses.
    pub senses: Senses,
    /// Wakes when an address or a link changes; `None` if the kernel would not say.
    pub alias_events: Option<AliasEvents>,
    /// Wakes when the manifest directory changes.
    pub manifest_watch: ManifestWatch,
    /// The operator's pause.
    pub pause: PauseFile,
    /// The manifest's known good content.
    pub known_good: KnownGood,
    /// etcd's member list.
    pub remembered: Remembered,
}

impl World for Node {
    type Hands = NodeHands;

    async fn read(&mut self, policy: &Policy, depth: EtcdDepth) -> Readings {
        let readings = self.senses.read(policy, depth).await;
        self.manifest_watch.check();
        readings
    }

    fn prover(&self) -> EtcdProver {
        self.senses.prover()
    }

    async fn changed(&mut self) {
        tokio::select! {
            biased;
            () = changed(self.alias_events.as_ref()) => {}
            () = self.manifest_watch.changed() => {}
            () = self.policy_watch.wake() => {}
        }
    }

    fn edited_policy(&mut self) -> Option<Result<Policy, LoadError>> {
        self.policy_watch.poll()
    }

    fn adopt(&mut self, old: &Policy, new: &Policy) {
        self.senses.adopt(old, new);
        if old.watched_loop.manifest != new.watched_loop.manifest {
            self.manifest_watch = super::startup::watch_manifest(new);
        }
        if old.fip != new.fip {
            self.alias_events = super::startup::watch_alias(new);
        }
    }

    fn policy_path(&self) -> &Path {
        self.policy_watch.path()
    }

    fn known_good(&self) -> Option<String> {
        self.known_good.sha256()
    }

    fn keep_known_good(&mut self, sha256: &str) {
        self.known_good.keep(sha256);
    }

    fn keep_members(&mut self) {
        if let Some(list) = self.senses.member_list() {
            self.remembered.keep(&list);
        }
    }

    fn paused(&self, wall: Duration) -> Option<OperatorPause> {
        self.pause.in_force(wall)
    }

    fn pause(&mut self, reason: &str, length: Duration, wall: Duration) -> Result<(), PauseError> {
        self.pause.pause(reason, length, wall)
    }

    fn resume(&mut self) -> Result<bool, PauseError> {
        self.pause.resume(super::clock::wall())
    }
}

async fn changed(events: Option<&AliasEvents>) {
    match events {
        Some(events) => events.changed().await,
        None => std::future::pending().await,
    }
}
