//! Which content of the manifest is known to be good: the one under which the loop has finished a round.
//!
//! Another content is a vendor's upgrade until the loop beats under it: the kubelet replaces the pod, and nobody knows yet
//! whether the new loop speaks as the old one did. Invariant: without a known good content nothing counts as changed, so that
//! a watchdog that has just been installed on a node with a frozen loop is not kept from healing it. Pure; two hashes and a stamp.

use std::time::Duration;

use super::facts::last_beat;
use super::observation::{Observation, ProcessView};
use super::time::Moment;

/// When a content has been in place for so long, the pod of the one before is gone: its shell ignores SIGTERM and beats on
/// for the grace period, 30 s by default, and the new pod comes up to 10 s later.
const OLD_POD_GONE: Duration = Duration::from_secs(60);

/// The memory of contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Content {
    known_good: Option<String>,
    /// What is in place, and since when.
    seen: Option<(String, Moment)>,
}

impl Content {
    /// A memory that a former process kept.
    pub(super) const fn known_good_before(known_good: Option<String>) -> Self {
        Self { known_good, seen: None }
    }

    /// Looks at the manifest and at the loop. A manifest that is out for a while is no other content.
    pub(super) fn note(&mut self, observation: &Observation, now: Moment) {
        if let Some(hash) = observation.manifest.fresh().and_then(|view| view.sha256.as_ref())
            && self.seen.as_ref().is_none_or(|(seen, _)| seen != hash)
        {
            self.seen = Some((hash.clone(), now));
        }
        if let Some((hash, since)) = &self.seen
            && self.known_good.as_ref() != Some(hash)
            && beats_under_it(observation, *since)
        {
            self.known_good = Some(hash.clone());
        }
    }

    /// The last content under which the loop has beaten, lower-case hex of its SHA-256.
    pub(super) fn known_good(&self) -> Option<&str> {
        self.known_good.as_deref()
    }

    /// Since when a content has been in place that is not the known good one.
    pub(super) fn changed_since(&self) -> Option<Moment> {
        let (hash, since) = self.seen.as_ref()?;
        self.known_good.as_ref().filter(|good| *good != hash).map(|_| *since)
    }
}

/// A round of a loop that began after the content came; or any round, once the old pod must be gone.
fn beats_under_it(observation: &Observation, since: Moment) -> bool {
    let Some((_, beat_at)) = last_beat(observation) else {
        return false;
    };
    let container = observation.heartbeat.fresh().map(|heartbeat| heartbeat.following_since);
    let process = observation.process.fresh().and_then(|process| match process {
        ProcessView::Present(process) => Some(process.seen_since),
        ProcessView::Absent { .. } => None,
    });
    let new_loop = [container, process].into_iter().flatten().any(|began| began > since && beat_at > began);
    new_loop || beat_at.since(since) >= OLD_POD_GONE
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
