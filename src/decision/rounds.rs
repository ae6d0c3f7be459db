//! What several rounds of the loop in a row add up to: it cannot ask etcd, or it does not go by the answer.
//!
//! ```text
//!             a round fails, or says the opposite of what etcd says
//!   nothing odd ────────────────────────────────────────────────────► streak, counted up to [`ROUNDS`]
//!       ▲   a round that says what etcd says · another kind of oddness · a new container          │
//!       └── the role changed · a pause of this daemon · etcd does not answer us either ◄──────────┘
//! ```
//!
//! Invariant: one round proves nothing, and each round counts once, whatever is read in between. Pure and
//! bounded: three stamps and a count.

use super::facts::Role;
use super::observation::{Beat, LoopFip, LoopVerdict, Observation};
use super::time::Moment;

/// Rounds in a row after which a failing query, or a contradiction, is no hiccup: of three rounds that ended after the
/// role changed two began after it too.
pub(super) const ROUNDS: u8 = 3;

/// In which way a round is odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Odd {
    /// Its query failed, while etcd answers us.
    Blind,
    /// It says "leader", and another member leads.
    TakesItselfForLeader,
    /// It says "not the leader", and this member leads.
    TakesItselfForFollower,
}

/// Odd rounds in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Streak {
    /// In which way all of them are odd.
    pub odd: Odd,
    /// How many, at most [`ROUNDS`].
    rounds: u8,
    /// When the first of them was read.
    pub first_at: Moment,
    /// One of them took the FIP off.
    pub took_fip_off: bool,
}

/// The memory of the loop's rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Rounds {
    /// The last round that was looked at.
    seen_at: Option<Moment>,
    streak: Option<Streak>,
}

impl Rounds {
    /// Looks at the last round; what was read before `void_before` counts for nothing.
    pub(super) fn note(&mut self, observation: &Observation, role: &Role, void_before: Moment) {
        let Some(heartbeat) = observation.heartbeat.fresh() else { return };
        let Some((beat, at)) = heartbeat.last_beat.as_ref().zip(heartbeat.last_beat_at) else {
            // Another container: what its predecessor did tells nothing of it.
            *self = Self::default();
            return;
        };
        let is_new = self.seen_at.is_none_or(|seen| at > seen);
        self.seen_at = Some(at);
        let Some(odd) = oddness(beat, role) else {
            self.streak = None;
            return;
        };
        self.streak.take_if(|streak| streak.odd != odd || streak.first_at < void_before);
        if is_new && at >= void_before {
            let streak = self.streak.get_or_insert(Streak { odd, rounds: 0, first_at: at, took_fip_off: false });
            streak.rounds = streak.rounds.saturating_add(1).min(ROUNDS);
            streak.took_fip_off |= beat.fip == LoopFip::Removed;
        }
    }

    /// The streak, once it is long enough to mean something.
    pub(super) fn streak(&self) -> Option<&Streak> {
        self.streak.as_ref().filter(|streak| streak.rounds >= ROUNDS)
    }

    /// Moves every stamp into the past.
    #[cfg(feature = "model")]
    pub(super) fn age(&mut self, older: impl Fn(Moment) -> Moment) {
        self.seen_at = self.seen_at.map(&older);
        if let Some(streak) = &mut self.streak {
            streak.first_at = older(streak.first_at);
        }
    }
}

/// How a round is odd under a role. An etcd that does not answer us either makes no blindness of the loop, and without
/// a leader there is nothing to contradict.
const fn oddness(beat: &Beat, role: &Role) -> Option<Odd> {
    match (&beat.verdict, role) {
        (_, Role::Unknown(_) | Role::Unreachable(_) | Role::Learner) => None,
        (LoopVerdict::QueryFailed(_), _) => Some(Odd::Blind),
        (LoopVerdict::Leader, Role::Follows | Role::ClaimsToFollow) => Some(Odd::TakesItselfForLeader),
        (LoopVerdict::Follower, Role::Leads | Role::ClaimsToLead) => Some(Odd::TakesItselfForFollower),
        (
            LoopVerdict::Leader | LoopVerdict::Follower,
            Role::Leads
            | Role::ClaimsToLead
            | Role::Follows
            | Role::ClaimsToFollow
            | Role::NoLeader
            | Role::Unproven(_)
            | Role::CutOff(_),
        ) => None,
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
