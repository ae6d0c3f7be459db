//! A node that starves: its loop's ages mean nothing, for a bounded time.
//!
//! Under strain nobody is punctual, and a cycle would add to it. So a loop that looks frozen is not judged by its silence while
//! the node starves, and from then on its ages count anew. Only the loop's: the FIP goes on following etcd, under proof.

use crate::decision::facts::LoopState;
use crate::decision::observation::{Observation, StrainView};
use crate::decision::time::Moment;
use crate::policy::{HostPolicy, Policy};

/// A time in which the node starved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Strain {
    /// Since when.
    pub since: Moment,
    /// When it last showed.
    pub last: Moment,
}

impl Strain {
    /// When it counts as over: after a calm time, or when a frozen loop has waited long enough.
    fn ends_at(&self, policy: &HostPolicy) -> Moment {
        (self.last + policy.calm_after).min(self.since + policy.starved_max)
    }

    /// What is remembered after a look; a strain that has been over for longer than a calm time is followed by a new one.
    pub fn after(before: Option<Self>, observation: &Observation, policy: &HostPolicy, now: Moment) -> Option<Self> {
        if !shows(observation.strain, policy) {
            return before;
        }
        match before {
            Some(strain) if now.since(strain.last) < policy.calm_after => Some(Self { last: now, ..strain }),
            Some(_) | None => Some(Self { since: now, last: now }),
        }
    }

    /// Ages of the loop from before this are void.
    pub fn void_before(&self, policy: &HostPolicy, now: Moment) -> Option<Moment> {
        let end = self.ends_at(policy);
        (end <= now).then_some(end)
    }

    /// The loop's state, unless its silence means nothing now.
    pub fn cast_doubt(&self, state: LoopState, observation: &Observation, policy: &Policy, now: Moment) -> LoopState {
        match state {
            LoopState::Stalled(_) | LoopState::LogStalled if now < self.ends_at(&policy.host) => {
                LoopState::Starved(sentence(observation.strain))
            }
            LoopState::Unknown(_)
            | LoopState::Alive { .. }
            | LoopState::Renewed { .. }
            | LoopState::Blind { .. }
            | LoopState::Mistaken { .. }
            | LoopState::LogStalled
            | LoopState::Stalled(_)
            | LoopState::Starved(_)
            | LoopState::Absent
            | LoopState::Returning => state,
        }
    }
}

/// Own lateness is a proof, also of a hypervisor that gives the machine no time, which no guest's kernel accounts for.
/// Pressure alone must be close to all of the time.
const fn shows(strain: StrainView, policy: &HostPolicy) -> bool {
    let pressed = match strain.cpu_pressure {
        Some(percent) => percent > policy.cpu_pressure,
        None => false,
    };
    strain.late_ticks >= policy.late_ticks || pressed
}

fn sentence(strain: StrainView) -> String {
    let late = format!("this daemon woke late {} times in the last minute", strain.late_ticks);
    match strain.cpu_pressure {
        Some(percent) => format!("{late}, and some task waited for a CPU {percent} % of the time"),
        None => late,
    }
}
