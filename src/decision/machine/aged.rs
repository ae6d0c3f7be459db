//! The machine for the model check: with a guard removed, and one time step older.
//!
//! A model needs states that repeat, so stamps must not grow for ever. Here the model's clock stands at one
//! `now`, and the stamps move into the past instead. Older than `horizon` they stay: the horizon lies beyond
//! every threshold of the policy, so no decision can tell the difference (`model/tests/aged_machine.rs`).

use std::time::Duration;

use super::Machine;
use crate::decision::content::Content;
use crate::decision::guard::Guards;
use crate::decision::time::Moment;
use crate::policy::LimitPolicy;

impl Machine {
    /// The same machine under these guards.
    #[must_use]
    pub const fn under(mut self, guards: Guards) -> Self {
        self.guards = guards;
        self
    }

    /// The machine as it will be when `by` more has passed, told at the same `now`. Ages end at `horizon`, which must
    /// be longer than every duration in the policy but the hour of the budgets: a run older than the
    /// horizon counts as one within the hour for ever. One order of events is lost: of a cycle that has been open
    /// for longer than the horizon and a round of the loop that is as old, the round counts as the earlier.
    pub fn age(&mut self, by: Duration, horizon: Duration, limits: &LimitPolicy, now: Moment) {
        let older = |stamp: Moment| older(stamp, by, horizon, now);
        self.started_at = older(self.started_at);
        self.verdict.since = older(self.verdict.since);
        self.role.since = older(self.role.since);
        self.role_silence.0 = self.role_silence.0.map(older);
        self.told_since = self.told_since.map(older);
        self.holding_silence.0 = self.holding_silence.0.map(older);
        self.holding.since = older(self.holding.since);
        self.link_back_at = self.link_back_at.map(older);
        self.kubelet_down_since = self.kubelet_down_since.map(older);
        self.loop_down_at = self.loop_down_at.map(older);
        if let Some(stuck) = &mut self.stuck {
            stuck.since = older(stuck.since);
        }
        self.manifest_missing_since = self.manifest_missing_since.map(older);
        self.manifest_shadowed_since = self.manifest_shadowed_since.map(older);
        self.cycle_seen_at = self.cycle_seen_at.map(older);
        self.rounds.age(older);
        self.terms.age(older);
        if let Some(strain) = &mut self.strain {
            (strain.since, strain.last) = (older(strain.since), older(strain.last));
        }
        // The model's manifest has one content: what is remembered of it changes nothing.
        self.content = Content::default();
        self.budget.age(limits, older);
    }
}

fn older(stamp: Moment, by: Duration, horizon: Duration, now: Moment) -> Moment {
    let age = now.since(stamp).saturating_add(by).min(horizon);
    Moment::from_origin(now.since_origin().saturating_sub(age))
}
