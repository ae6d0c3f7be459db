//! How often the leadership changes hands: too often within a window, and nothing is begun until it has been stable.
//!
//! Each change of leader, and each election that the old leader wins again, has a new raft term, so terms are what is
//! counted; compared for equality only (`raftTerm` is that of the last applied entry). Two changes between two looks count as one.
//!
//! Invariant: an ordinary failover is never held up. One takes one term; a partition that heals, without pre-vote, up to
//! three. Pure and bounded: as many stamps as the policy allows changes.

use std::collections::VecDeque;
use std::time::Duration;

use super::observation::{EtcdView, Observation};
use super::time::Moment;
use crate::policy::EtcdPolicy;

/// The memory of terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    last: Option<u64>,
    /// When the term was seen to have changed, oldest first; the last change stays, however old.
    changes: VecDeque<Moment>,
    flapping: bool,
}

impl Terms {
    /// Looks at the term that etcd tells of, if it answers.
    pub(super) fn note(&mut self, observation: &Observation, policy: &EtcdPolicy, now: Moment) {
        if let Some(EtcdView::Answered(status)) = observation.etcd.fresh()
            && self.last.replace(status.raft_term).is_some_and(|last| last != status.raft_term)
        {
            self.changes.push_back(now);
        }
        let allowed = usize::try_from(policy.flap_changes).unwrap_or(usize::MAX).max(1);
        while self.changes.len() > allowed
            || self.changes.len() > 1 && self.changes.front().is_some_and(|first| now.since(*first) >= policy.flap_window)
        {
            self.changes.pop_front();
        }
        self.flapping |= self.changes.len() >= allowed;
        if self.flapping && self.stable_in(policy, now).is_zero() {
            *self = Self { last: self.last, ..Self::default() };
        }
    }

    /// How long the leadership must be stable still, if it flaps.
    pub(super) fn flapping(&self, policy: &EtcdPolicy, now: Moment) -> Option<Duration> {
        self.flapping.then(|| self.stable_in(policy, now))
    }

    fn stable_in(&self, policy: &EtcdPolicy, now: Moment) -> Duration {
        let stable_for = self.changes.back().map_or(Duration::MAX, |last| now.since(*last));
        policy.stable_for.saturating_sub(stable_for)
    }

    /// Moves every stamp into the past.
    #[cfg(feature = "model")]
    pub(super) fn age(&mut self, older: impl Fn(Moment) -> Moment) {
        self.changes.iter_mut().for_each(|change| *change = older(*change));
    }
}
