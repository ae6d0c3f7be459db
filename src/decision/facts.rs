//! From readings to facts: what the local member is, whether the FIP is here, and how the loop does.
//!
//! Nothing here decides. Each fact keeps "cannot tell" apart from every definite answer.

use std::time::Duration;

use super::observation::{
    AliasView, Beat, EtcdFault, EtcdStatus, EtcdView, HeartbeatView, Observation, ProcessView, Quorum, Reading,
};
use super::time::Moment;
use crate::policy::LoopPolicy;

/// What the local etcd member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The sense cannot tell.
    Unknown(String),
    /// No usable answer.
    Unreachable(EtcdFault),
    /// It answers, and knows of no leader.
    NoLeader,
    /// A learner: never leads, cannot prove a quorum.
    Learner,
    /// It says that it leads; nobody else was asked.
    ClaimsToLead,
    /// It leads, confirmed by a quorum in this round.
    Leads,
    /// It says that it leads, and the quorum did not confirm.
    Unproven(String),
    /// It says that another member leads; nobody else was asked.
    ClaimsToFollow,
    /// Another member leads, confirmed by a quorum in this round.
    Follows,
    /// It says that another member leads, and the quorum did not confirm.
    CutOff(String),
}

impl Role {
    /// The role that an answer of the etcd sense shows.
    #[must_use]
    pub fn of(reading: &Reading<EtcdView>) -> Self {
        match reading {
            Reading::Unknown(reason) => Self::Unknown(reason.clone()),
            Reading::Stale { .. } => Self::Unknown("the last answer is too old".to_owned()),
            Reading::Fresh { value: EtcdView::Unreachable(fault), .. } => Self::Unreachable(fault.clone()),
            Reading::Fresh { value: EtcdView::Answered(status), .. } => Self::of_status(status),
        }
    }

    fn of_status(status: &EtcdStatus) -> Self {
        if status.learner {
            return Self::Learner;
        }
        if status.leader == 0 {
            return Self::NoLeader;
        }
        match (status.claims_to_lead(), &status.quorum) {
            (true, Quorum::NotAsked) => Self::ClaimsToLead,
            (true, Quorum::Confirmed { .. }) => Self::Leads,
            (true, Quorum::Denied(why)) => Self::Unproven(why.clone()),
            (false, Quorum::NotAsked) => Self::ClaimsToFollow,
            (false, Quorum::Confirmed { .. }) => Self::Follows,
            (false, Quorum::Denied(why)) => Self::CutOff(why.clone()),
        }
    }

    /// Whether the member says that it leads, proven or not.
    #[must_use]
    pub const fn says_it_leads(&self) -> bool {
        matches!(self, Self::ClaimsToLead | Self::Leads | Self::Unproven(_))
    }
}

/// Whether the FIP is on the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// It is not.
    Absent,
    /// It is, with a finite lifetime: we applied it.
    Leased {
        /// What remains of the lease.
        remaining: Duration,
    },
    /// It is, with a finite lifetime that we gave to the loop's alias.
    Lent {
        /// What remains of the lease.
        remaining: Duration,
    },
    /// It is, for ever: the loop's, or handed over to it.
    Held,
}

impl Holding {
    /// What an alias view shows. One entry without a lease makes it the loop's.
    #[must_use]
    pub fn of(view: &AliasView) -> Self {
        match (view.is_held(), view.lease()) {
            (false, _) => Self::Absent,
            (true, Some(remaining)) if view.is_lent() => Self::Lent { remaining },
            (true, Some(remaining)) => Self::Leased { remaining },
            (true, None) => Self::Held,
        }
    }

    /// What remains of a lease of ours, whoever's the alias is.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Leased { remaining } | Self::Lent { remaining } => Some(*remaining),
            Self::Absent | Self::Held => None,
        }
    }
}

/// How the loop does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopState {
    /// A sense cannot tell.
    Unknown(String),
    /// Its last round is younger than the threshold. Whether one is overdue is in the text.
    Alive {
        /// A round is overdue, and not yet by enough.
        overdue: bool,
    },
    /// The manifest has another content than the last known good one, and the loop has not beaten under it yet.
    Renewed {
        /// For how long.
        lasts: Duration,
        /// Its log grows, but no finished round is recognised in it.
        unrecognised: bool,
    },
    /// It finishes its rounds, and its queries have failed in several of them in a row, while etcd answers us.
    Blind {
        /// How the last one failed, in the trace's words.
        how: String,
        /// For how long.
        lasts: Duration,
        /// It took the FIP off in one of those rounds.
        took_fip_off: bool,
    },
    /// It finishes its rounds, and has said the opposite of what etcd says in several of them in a row.
    Mistaken {
        /// What it says: that this node leads, or that it does not.
        says_it_leads: bool,
        /// For how long.
        lasts: Duration,
        /// It took the FIP off in one of those rounds.
        took_fip_off: bool,
    },
    /// No finished round for too long, and the process has gone on working for one worst round since the last: only its log is
    /// frozen.
    LogStalled,
    /// No finished round for too long, and no progress; how it shows.
    Stalled(String),
    /// It looks stalled, or its log does, on a node that starves: that means nothing.
    Starved(String),
    /// No process for long.
    Absent,
    /// It was frozen or gone, is not any more, and has not finished a round yet: it may work, and may put the alias right any moment.
    Returning,
}

/// A round may be late by this much before it counts as overdue: scheduling, a slow curl.
pub(super) const ROUND_SLACK: Duration = Duration::from_secs(2);

impl LoopState {
    /// How the loop does, as of `now`, with all ages counted from `void_before` at the earliest.
    #[must_use]
    pub fn of(observation: &Observation, policy: &LoopPolicy, now: Moment, void_before: Moment) -> Self {
        let age = |stamp: Moment| now.since(stamp.max(void_before));
        let Some(heartbeat) = observation.heartbeat.fresh() else {
            return match observation.process.fresh() {
                // Within a minute of a pod's end the kubelet removes its log, too: that there is no process is then all there is to see.
                Some(ProcessView::Absent { since }) if age(*since) >= policy.stalled_after => Self::Absent,
                Some(ProcessView::Absent { .. } | ProcessView::Present(_)) | None => {
                    Self::Unknown(format!("heartbeat: {}", unknown_reason(&observation.heartbeat)))
                }
            };
        };
        let beat_age = age(last_sign(heartbeat));
        match (&observation.process, observation.process.fresh()) {
            (_, Some(ProcessView::Present(process))) => {
                let beat_age = beat_age.min(age(process.seen_since));
                if beat_age < policy.stalled_after {
                    return Self::Alive { overdue: beat_age > policy.interval.saturating_add(ROUND_SLACK) };
                }
                let idle = age(process.progress_at);
                if idle < policy.stalled_after {
                    // One that freezes in the middle of a round has worked on for less, and must not look well in between.
                    let worked_on = beat_age.saturating_sub(idle);
                    let log_only = worked_on >= policy.worst_round();
                    return if log_only { Self::LogStalled } else { Self::Alive { overdue: true } };
                }
                let wchan = process.wchan.as_deref().map(|name| format!(", in {name}")).unwrap_or_default();
                Self::Stalled(format!(
                    "no finished round for {} s, pid {} in state {}{wchan} without progress for {} s",
                    beat_age.as_secs(),
                    process.pid,
                    process.state,
                    idle.as_secs()
                ))
            }
            (_, Some(ProcessView::Absent { since })) => {
                if age(*since) < policy.stalled_after || beat_age < policy.interval {
                    return Self::Alive { overdue: true };
                }
                Self::Absent
            }
            (reading, None) => {
                if beat_age < policy.stalled_after {
                    return Self::Alive { overdue: beat_age > policy.interval.saturating_add(ROUND_SLACK) };
                }
                if beat_age < policy.stalled_after_log_only {
                    return Self::Unknown(format!("process: {}", unknown_reason(reading)));
                }
                Self::Stalled(format!(
                    "no finished round for {} s; the process cannot be seen: {}",
                    beat_age.as_secs(),
                    unknown_reason(reading)
                ))
            }
        }
    }

    /// It will not let go of the FIP by itself: frozen, gone, or led astray. A blind loop lets go in its first failed
    /// round of what it put up, and never of what it did not.
    #[must_use]
    pub const fn keeps_fip(&self) -> bool {
        self.is_down() || matches!(self, Self::Blind { .. } | Self::Mistaken { .. })
    }

    /// It took the FIP off as soon as it could, in one of the rounds that make it blind or mistaken.
    #[must_use]
    pub const fn took_fip_off(&self) -> bool {
        matches!(self, Self::Blind { took_fip_off: true, .. } | Self::Mistaken { took_fip_off: true, .. })
    }

    /// Frozen or gone: it will not touch the FIP.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        matches!(self, Self::Stalled(_) | Self::Absent)
    }
}

/// When the loop last gave a sign in its log, or when listening for one began.
#[must_use]
pub fn last_sign(heartbeat: &HeartbeatView) -> Moment {
    heartbeat.last_beat_at.map_or(heartbeat.following_since, |at| at.max(heartbeat.following_since))
}

/// Whether the log has gone on growing for a worst round without a finished round: the loop speaks in another way.
#[must_use]
pub fn grows_without_rounds(heartbeat: &HeartbeatView, worst_round: Duration) -> bool {
    heartbeat.last_growth_at.is_some_and(|growth| growth.since(last_sign(heartbeat)) >= worst_round)
}

/// The last round of the loop and when it was read.
#[must_use]
pub fn last_beat(observation: &Observation) -> Option<(&Beat, Moment)> {
    let heartbeat = observation.heartbeat.fresh()?;
    Some((heartbeat.last_beat.as_ref()?, heartbeat.last_beat_at?))
}

/// Why a reading is not fresh.
#[must_use]
pub fn unknown_reason<T>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Fresh { .. } => "it is fresh".to_owned(),
        Reading::Stale { .. } => "the last reading is too old".to_owned(),
        Reading::Unknown(reason) => reason.clone(),
    }
}
