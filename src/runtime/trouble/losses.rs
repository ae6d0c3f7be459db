//! What a trouble cost, as far as this node can know: where the FIP was, who led, what was refused. Pure.

use std::time::Duration;

use super::Look;
use crate::audit::recovery::{FipLoss, Leadership};
use crate::decision::time::Moment;

/// Kept while the trouble lasts.
#[derive(Debug)]
pub(super) struct Losses {
    began: Moment,
    was_here: Option<bool>,
    /// Since when the FIP, which had been here, is not.
    away_since: Option<Moment>,
    away: Duration,
    here: bool,
    /// When it first came, where it had not been.
    arrived: Option<Moment>,
    terms: Option<(u64, u64)>,
    leader: Option<u64>,
    changes: u32,
    refused: u64,
}

impl Losses {
    /// Counts from what the round before the trouble saw.
    pub(super) fn since(before: Look, now: Moment) -> Self {
        Self {
            began: now,
            was_here: before.here,
            away_since: None,
            away: Duration::ZERO,
            here: before.here == Some(true),
            arrived: None,
            terms: before.term.map(|(term, _)| (term, term)),
            leader: before.term.and_then(|(_, leader)| leader),
            changes: 0,
            refused: before.refused,
        }
    }

    /// A round of the trouble, or of the calm after it.
    pub(super) fn note(&mut self, look: Look, now: Moment) {
        if let Some((term, leader)) = look.term {
            let first = self.terms.map_or(term, |(first, _)| first);
            self.terms = Some((first, term));
            if leader.is_some() && leader != self.leader {
                self.changes = self.changes.saturating_add(u32::from(self.leader.is_some()));
                self.leader = leader;
            }
        }
        match look.here {
            Some(true) => {
                self.away += self.away_since.take().map(|since| now.since(since)).unwrap_or_default();
                if !self.here && self.was_here == Some(false) {
                    self.arrived = self.arrived.or(Some(now));
                }
                self.here = true;
            }
            Some(false) => {
                if self.here {
                    self.away_since = self.away_since.or(Some(now));
                }
                self.here = false;
            }
            // Where it is cannot be told: it counts as where it was.
            None => {}
        }
        self.was_here = self.was_here.or(look.here);
    }

    /// What there is to say at the end. Where the FIP is not here, it counts as gone until etcd was well (`until`): from then on it may be
    /// where it belongs, which is what the calm time after a trouble looks like from the other nodes.
    pub(super) fn told(&self, look: Look, until: Moment) -> (FipLoss, Leadership, u64) {
        let away = self.away + self.away_since.map(|since| until.since(since)).unwrap_or_default();
        let fip = FipLoss {
            was_here: self.was_here,
            is_here: look.here,
            away,
            arrived_after: self.arrived.map(|arrived| arrived.since(self.began)),
        };
        (fip, Leadership { changes: self.changes, terms: self.terms }, look.refused.saturating_sub(self.refused))
    }
}
