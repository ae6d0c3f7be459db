//! From an [`Observation`] to the [`Facts`] that leave the daemon.
//!
//! Invariant: the result is bounded whatever the senses read: every text is clipped, every list is cut
//! and says by how much. Pure: ages are taken against the `now` that is handed in.

use serde_json::Value;

use super::facts::{
    AliasEntryFacts, AliasFacts, ApiFacts, ConflictFacts, EtcdFacts, EtcdRole, ExpiredFacts, Facts, HeartbeatFacts, HoldOffFacts,
    KubeletFacts, ManifestFacts, PauseFacts, ProcessFacts, QuorumFacts, Sense, StrainFacts,
};
use super::text::{ITEMS_MAX, millis, sentence, sentences};
use crate::decision::api::ApiView;
use crate::decision::observation::{
    AliasView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopFip, LoopVerdict, ManifestView, Observation,
    ProcessView, Quorum, Reading,
};
use crate::decision::time::Moment;

impl<T> Sense<T> {
    fn of<V>(reading: &Reading<V>, now: Moment, value: impl FnOnce(&V) -> T) -> Self {
        match reading {
            Reading::Fresh { value: seen, at } => Self::Fresh { age_ms: age(*at, now), value: value(seen) },
            Reading::Stale { since } => Self::Stale { age_ms: age(*since, now) },
            Reading::Unknown(reason) => Self::Unknown { reason: sentence(reason) },
        }
    }
}

impl Facts {
    /// The facts of an observation as of `now`.
    #[must_use]
    pub fn of(observation: &Observation, now: Moment) -> Self {
        Self {
            etcd: Sense::of(&observation.etcd, now, |view| EtcdFacts::of(view, now)),
            heartbeat: Sense::of(&observation.heartbeat, now, |view| HeartbeatFacts::of(view, now)),
            process: Sense::of(&observation.process, now, |view| ProcessFacts::of(view, now)),
            alias: Sense::of(&observation.alias, now, AliasFacts::of),
            manifest: Sense::of(&observation.manifest, now, ManifestFacts::of),
            kubelet: Sense::of(&observation.kubelet, now, |view| KubeletFacts { running: *view == KubeletView::Running }),
            conflict: Sense::of(&observation.conflict, now, |view| ConflictFacts {
                mac: view.last.as_ref().map(|claim| sentence(&claim.mac)),
                age_ms: view.last.as_ref().map(|claim| age(claim.at, now)),
            }),
            api: ApiFacts::of(&observation.api, now),
            expired: observation
                .expired
                .as_ref()
                .map(|expired| ExpiredFacts { path: sentence(&expired.path.to_string_lossy()), on: sentence(&expired.on) }),
            cycle: observation.cycle.as_ref().map(|cycle| cycle.phase),
            in_flight: observation.in_flight.iter().copied().collect(),
            paused: observation
                .paused
                .as_ref()
                .map(|pause| PauseFacts { reason: sentence(&pause.reason), remaining_ms: millis(pause.remaining) }),
            resumed_age_ms: observation.resumed_at.map(|at| age(at, now)),
            strain: StrainFacts { late_ticks: observation.strain.late_ticks, cpu_pressure: observation.strain.cpu_pressure },
            hold_off: observation
                .hold_off
                .as_ref()
                .map(|hold_off| HoldOffFacts { reason: sentence(&hold_off.reason), remaining_ms: millis(hold_off.remaining) }),
        }
    }
}

/// The evidence for a journal entry: [`Facts`] as JSON.
///
/// `Null` if a value cannot be written as JSON, which no value of [`Facts`] can cause.
#[must_use]
pub fn evidence(observation: &Observation, now: Moment) -> Value {
    serde_json::to_value(Facts::of(observation, now)).unwrap_or(Value::Null)
}

fn age(at: Moment, now: Moment) -> u64 {
    millis(now.since(at))
}

impl ApiFacts {
    fn of(view: &ApiView, now: Moment) -> Option<Self> {
        view.port().map(|port| Self {
            port,
            answered_age_ms: view.answered_at().map(|at| age(at, now)),
            silent_ms: view.silence().map(|silence| age(silence.since, now)),
            how: view.silence().map(|silence| sentence(&silence.how)),
        })
    }
}

impl EtcdFacts {
    fn of(view: &EtcdView, now: Moment) -> Self {
        match view {
            EtcdView::Unreachable(fault) => {
                let (fault, detail) = match fault {
                    EtcdFault::Refused => ("refused", ""),
                    EtcdFault::TimedOut => ("timed_out", ""),
                    EtcdFault::Tls(detail) => ("tls", detail.as_str()),
                    EtcdFault::Other(detail) => ("other", detail.as_str()),
                };
                Self::None { fault: fault.to_owned(), detail: sentence(detail) }
            }
            EtcdView::Answered(status) => Self::Status {
                role: EtcdRole::of(status),
                member_id: format!("{:x}", status.member_id),
                leader: format!("{:x}", status.leader),
                raft_term: status.raft_term,
                revision: status.revision,
                errors: sentences(&status.errors),
                version: sentence(&status.version),
                quorum: match &status.quorum {
                    Quorum::NotAsked => QuorumFacts::NotAsked,
                    Quorum::Confirmed { at } => QuorumFacts::Confirmed { age_ms: age(*at, now) },
                    Quorum::Denied(reason) => QuorumFacts::Denied { reason: sentence(reason) },
                },
            },
        }
    }
}

impl EtcdRole {
    const fn of(status: &EtcdStatus) -> Self {
        if status.learner {
            Self::Learner
        } else if status.leader == 0 {
            Self::NoLeader
        } else if status.claims_to_lead() {
            Self::Leader
        } else {
            Self::Follower
        }
    }
}

impl HeartbeatFacts {
    fn of(view: &HeartbeatView, now: Moment) -> Self {
        let beat = view.last_beat.as_ref();
        Self {
            last_beat_age_ms: view.last_beat_at.map(|at| age(at, now)),
            following_ms: age(view.following_since, now),
            last_growth_age_ms: view.last_growth_at.map(|at| age(at, now)),
            verdict: beat.map(|beat| match &beat.verdict {
                LoopVerdict::Leader => "leader".to_owned(),
                LoopVerdict::Follower => "follower".to_owned(),
                LoopVerdict::QueryFailed(how) => sentence(&format!("query failed: {how}")),
            }),
            fip: beat.map(|beat| {
                match beat.fip {
                    LoopFip::Kept => "kept",
                    LoopFip::Assigned => "assigned",
                    LoopFip::Removed => "removed",
                    LoopFip::Untouched => "untouched",
                }
                .to_owned()
            }),
            raft_term: beat.and_then(|beat| beat.raft_term),
            log: sentence(&view.log.to_string_lossy()),
        }
    }
}

impl ProcessFacts {
    fn of(view: &ProcessView, now: Moment) -> Self {
        match view {
            ProcessView::Absent { since } => Self::Absent { for_ms: age(*since, now) },
            ProcessView::Present(process) => Self::Present {
                pid: process.pid,
                start_ticks: process.start_ticks,
                process_state: process.state,
                progress_age_ms: age(process.progress_at, now),
                wchan: process.wchan.as_deref().map(sentence),
                copies: process.copies,
            },
        }
    }
}

impl AliasFacts {
    fn of(view: &AliasView) -> Self {
        Self {
            held: view.is_held(),
            entries: view
                .entries
                .iter()
                .take(ITEMS_MAX)
                .map(|entry| AliasEntryFacts { prefix_len: entry.prefix_len, valid_for_ms: entry.valid_for.map(millis) })
                .collect(),
            up: view.up,
            carrier: view.carrier,
        }
    }
}

impl ManifestFacts {
    fn of(view: &ManifestView) -> Self {
        let shadows: Vec<String> = view.shadows.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        Self {
            sha256: view.sha256.as_deref().map(sentence),
            shadows: sentences(&shadows),
            immovable: view.immovable.as_deref().map(sentence),
        }
    }
}
