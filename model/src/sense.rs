//! What a node's daemon reads, and the product's `Observation` made of it.

use std::collections::BTreeSet;
use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView,
    KubeletView, LoopFip, LoopProcess, LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum, Reading,
    StrainView,
};
use fip_watchdog::decision::step::StepKind;

use crate::node::{Alias, Manifest, Node, Place, Process, Round, Said, Sense};
use crate::scale::{Ticks, ago, older, ticks};

/// What the quorum said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// It was not asked.
    No,
    /// It confirmed, so long ago.
    Confirmed(Ticks),
    /// It did not confirm.
    Denied,
}

/// The etcd sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EtcdSeen {
    /// No answer.
    Unreachable,
    /// Whom it names, and what the quorum says to that.
    Answered(Said, Asked),
}

/// The loop's process as seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessSeen {
    /// It is there.
    Present {
        /// How long ago it made progress.
        idle: Ticks,
        /// How long ago it was first seen.
        seen: Ticks,
        /// A second copy runs.
        twice: bool,
    },
    /// It is gone, for so long.
    Absent(Ticks),
}

/// All that one round read, with ages instead of stamps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// etcd.
    pub etcd: EtcdSeen,
    /// The last round that was read, and how long ago.
    pub beat: Option<(Round, Ticks)>,
    /// How long the log has been followed.
    pub following: Ticks,
    /// The process.
    pub process: ProcessSeen,
    /// The FIP.
    pub alias: Alias,
    /// The link.
    pub link: bool,
    /// The link was down at the last look.
    pub link_new: bool,
    /// The manifest directory.
    pub manifest: Manifest,
    /// The kubelet runs.
    pub kubelet: bool,
    /// Another station claims the FIP while it is here.
    pub claimed: bool,
    /// The open cycle.
    pub cycle: Option<CyclePhase>,
    /// Steps under way.
    pub in_flight: (Option<StepKind>, bool),
    /// An operator's pause.
    pub paused: bool,
    /// The sense that cannot tell.
    pub blind: Option<Sense>,
    /// The node starves.
    pub strained: bool,
    /// How long ago all this was read.
    pub age: Ticks,
    /// How long ago etcd answered.
    pub answered: Ticks,
}

impl Snapshot {
    /// What the daemon reads now; `None` if none runs. New rounds and progress count from this look.
    pub fn take(node: &mut Node, etcd: EtcdSeen, claimed: bool) -> Option<Self> {
        let daemon = node.daemon.as_mut()?;
        if std::mem::replace(&mut daemon.saw_no_link, !node.link) && node.link {
            daemon.link_is_new = true;
        }
        let watched = &mut node.watched;
        if std::mem::take(&mut watched.reborn) {
            (daemon.seen, daemon.idle, daemon.absent) = (0, 0, 0);
        }
        if std::mem::take(&mut watched.stirred) {
            daemon.idle = 0;
        }
        if let Some(round) = watched.unread.take() {
            daemon.beat = Some((round, 0));
        }
        let process = match watched.process {
            Process::Works | Process::Frozen => {
                daemon.absent = 0;
                ProcessSeen::Present { idle: daemon.idle, seen: daemon.seen, twice: watched.twice }
            }
            Process::Absent(_) => ProcessSeen::Absent(daemon.absent),
        };
        Some(Self {
            etcd,
            beat: daemon.beat,
            following: daemon.following,
            process,
            alias: node.alias,
            link: node.link,
            link_new: daemon.link_is_new,
            manifest: node.manifest,
            kubelet: node.kubelet_runs,
            claimed,
            cycle: node.journal.open,
            in_flight: (daemon.alias_step.map(|step| step.kind), daemon.cycle_step.is_some()),
            paused: node.paused,
            blind: node.blind,
            strained: false,
            age: 0,
            answered: 0,
        })
    }

    /// A tick passes before anything is decided.
    pub fn grow_older(&mut self) {
        self.age = older(self.age);
        self.answered = older(self.answered);
        if let EtcdSeen::Answered(_, Asked::Confirmed(age)) = &mut self.etcd {
            *age = older(*age);
        }
    }

    /// How old the quorum's confirmation is, and whether it names this member.
    #[must_use]
    pub const fn proof(&self) -> Option<(bool, Ticks)> {
        match self.etcd {
            EtcdSeen::Answered(said, Asked::Confirmed(age)) => Some((matches!(said, Said::Itself), age)),
            EtcdSeen::Answered(_, Asked::No | Asked::Denied) | EtcdSeen::Unreachable => None,
        }
    }

    /// As the product is told. `resumed` is how long ago a pause of the daemon ended.
    #[must_use]
    pub fn observation(&self, resumed: Option<Ticks>) -> Observation {
        let mut in_flight: BTreeSet<_> = self.in_flight.0.into_iter().collect();
        if self.in_flight.1 {
            in_flight.insert(StepKind::CycleManifest);
        }
        Observation {
            etcd: self.reading(Sense::Etcd, self.etcd_view()),
            heartbeat: self.reading(Sense::Heartbeat, self.heartbeat_view()),
            process: self.reading(Sense::Process, self.process_view()),
            alias: self.reading(Sense::Alias, self.alias_view()),
            manifest: self.reading(Sense::Manifest, self.manifest_view()),
            kubelet: self.reading(Sense::Kubelet, if self.kubelet { KubeletView::Running } else { KubeletView::Down }),
            conflict: Reading::Fresh { value: self.conflict_view(), at: ago(self.age) },
            api: ApiView::default(),
            expired: None,
            cycle: self.cycle.map(|phase| CycleView { phase }),
            in_flight,
            paused: self.paused.then(|| OperatorPause { reason: String::new(), remaining: Duration::from_secs(60) }),
            resumed_at: resumed.map(ago),
            strain: StrainView { late_ticks: if self.strained { u32::MAX } else { 0 }, cpu_pressure: None },
            hold_off: None,
        }
    }

    fn reading<T>(&self, sense: Sense, value: T) -> Reading<T> {
        if self.blind == Some(sense) { Reading::Unknown(String::new()) } else { Reading::Fresh { value, at: ago(self.age) } }
    }

    const fn past(&self, age: Ticks) -> Ticks {
        age.saturating_add(self.age)
    }

    fn etcd_view(&self) -> EtcdView {
        let EtcdSeen::Answered(said, asked) = self.etcd else {
            return EtcdView::Unreachable(EtcdFault::Refused);
        };
        EtcdView::Answered(EtcdStatus {
            member_id: 1,
            leader: match said {
                Said::Itself => 1,
                Said::Other => 2,
                Said::Nobody => 0,
            },
            quorum: match asked {
                Asked::No => Quorum::NotAsked,
                Asked::Confirmed(age) => Quorum::Confirmed { at: ago(age) },
                Asked::Denied => Quorum::Denied(String::new()),
            },
            ..EtcdStatus::default()
        })
    }

    fn heartbeat_view(&self) -> HeartbeatView {
        let beat = |round| Beat {
            verdict: match round {
                Round::Kept | Round::Assigned => LoopVerdict::Leader,
                Round::Removed | Round::Untouched => LoopVerdict::Follower,
                Round::Failed => LoopVerdict::QueryFailed(String::new()),
            },
            revision: None,
            raft_index: None,
            raft_term: None,
            fip: match round {
                Round::Kept => LoopFip::Kept,
                Round::Assigned => LoopFip::Assigned,
                Round::Removed => LoopFip::Removed,
                Round::Untouched | Round::Failed => LoopFip::Untouched,
            },
        };
        HeartbeatView {
            last_beat: self.beat.map(|(round, _)| beat(round)),
            last_beat_at: self.beat.map(|(_, age)| ago(self.past(age))),
            following_since: ago(self.past(self.following)),
            last_growth_at: None,
            log: std::path::PathBuf::new(),
        }
    }

    fn process_view(&self) -> ProcessView {
        match self.process {
            ProcessSeen::Absent(age) => ProcessView::Absent { since: ago(self.past(age)) },
            ProcessSeen::Present { idle, seen, twice } => ProcessView::Present(LoopProcess {
                pid: 1,
                start_ticks: 1,
                state: 'S',
                progress_at: ago(self.past(idle)),
                seen_since: ago(self.past(seen)),
                wchan: None,
                copies: if twice { 2 } else { 1 },
            }),
        }
    }

    fn alias_view(&self) -> AliasView {
        let entry = match self.alias {
            Alias::Absent => None,
            Alias::Leased { left, .. } => Some(Some(ticks(left))),
            Alias::Forever => Some(None),
        };
        let entries = entry.into_iter().map(|valid_for| AliasEntry { prefix_len: 32, valid_for, lent: false }).collect();
        AliasView { entries, up: true, carrier: self.link }
    }

    fn conflict_view(&self) -> ConflictView {
        ConflictView { last: self.claimed.then(|| Claim { mac: String::new(), at: ago(self.age) }) }
    }

    fn manifest_view(&self) -> ManifestView {
        let Manifest { place, shadowed, immovable } = self.manifest;
        ManifestView {
            sha256: (place == Place::Home).then(String::new),
            shadows: if shadowed { vec![std::path::PathBuf::new()] } else { Vec::new() },
            immovable: immovable.then(String::new),
        }
    }
}
