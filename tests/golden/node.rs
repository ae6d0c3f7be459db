//! The node of a case in virtual time: what its senses would read, and what its loop, its kernel and its kubelet do of
//! their own accord. Time is handed in, nothing sleeps.

use std::collections::BTreeSet;
use std::time::Duration;

use fip_watchdog::decision::certificate::{Expired, is_suspected};
use fip_watchdog::decision::observation::{
    AliasEntry, AliasView, Beat, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView,
    LoopFip, LoopProcess, LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum, Reading, StrainView,
};
use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;
use fip_watchdog::runtime::clock::Clocks;

use crate::behind::Behind;
use crate::state::{Alias, Etcd, Link, Log, Manifest, Patch, Process, Quorum as Answer, Says, State, held_off};
use crate::timeline::WallClock;

/// The node has been up for a day when the case begins.
const UPTIME: Duration = Duration::from_secs(86_400);

/// The last round of the loop ended so long before the begin.
const LAST_ROUND: Duration = Duration::from_secs(2);

const MEMBER: u64 = 1;

/// A node.
pub struct Node {
    /// What is so now.
    pub state: State,
    /// The open cycle.
    pub cycle: Option<CyclePhase>,
    /// Time since the begin of the case.
    pub time: Duration,
    /// How long its monotonic clock has stood still.
    stood: Duration,
    wall_at_boot: Duration,
    interval: Duration,
    query_timeout: Duration,
    lease: Duration,
    lease_ends: Option<Duration>,
    next_round: Duration,
    beat: Option<(Beat, Moment)>,
    following_since: Moment,
    growth_at: Moment,
    /// The loop's shell variable: it has put the FIP up or found it as leader.
    loop_holds: bool,
    process: LoopProcess,
    absent_since: Moment,
    claim: Option<Claim>,
    behind: Behind,
}

impl Node {
    /// A node on which all has been as `begin` says for a day.
    pub fn new(policy: &Policy, begin: &Patch) -> Self {
        let long_ago = Moment::from_origin(Duration::from_secs(1));
        let mut node = Self {
            state: State::default(),
            cycle: None,
            time: Duration::ZERO,
            stood: Duration::ZERO,
            wall_at_boot: Duration::from_secs(1_800_000_000),
            interval: policy.watched_loop.interval,
            query_timeout: policy.watched_loop.query_timeout,
            lease: policy.limits.alias_lease,
            lease_ends: None,
            next_round: policy.watched_loop.interval.saturating_sub(LAST_ROUND),
            beat: None,
            following_since: long_ago,
            growth_at: long_ago,
            loop_holds: false,
            process: LoopProcess {
                pid: 4711,
                start_ticks: 100,
                state: 'S',
                progress_at: Moment::from_origin(UPTIME - LAST_ROUND),
                seen_since: long_ago,
                wchan: None,
                copies: 1,
            },
            absent_since: long_ago,
            claim: None,
            behind: Behind::new(policy),
        };
        node.state.take(begin);
        node.beat = Some((node.finished_round(), Moment::from_origin(UPTIME - LAST_ROUND)));
        node.loop_holds = node.is_held();
        node.change(begin);
        node
    }

    /// Now, by the node's monotonic clock.
    pub fn now(&self) -> Moment {
        Moment::from_origin(UPTIME + self.time.saturating_sub(self.stood))
    }

    /// What all its clocks show.
    pub fn clocks(&self) -> Clocks {
        let boottime = UPTIME + self.time;
        Clocks { now: self.now(), boottime, wall: self.wall_at_boot + boottime }
    }

    /// The wall clock is set.
    pub fn set_wall_clock(&mut self, by: WallClock) {
        self.wall_at_boot = match by {
            WallClock::Forward(by) => self.wall_at_boot + by.0,
            WallClock::Back(by) => self.wall_at_boot.saturating_sub(by.0),
        };
    }

    /// When something happens of its own accord: a round of the loop, the end of a lease.
    pub fn next_own(&self) -> Duration {
        self.lease_ends.map_or(self.next_round, |ends| ends.min(self.next_round))
    }

    /// Time passes, up to what happens next of its own accord; whether that wakes the watchdog.
    pub fn pass_to(&mut self, time: Duration) -> bool {
        let was_held = self.is_held();
        self.time = time;
        if !self.state.claimed_by.is_empty() && self.is_held() {
            self.claim = Some(Claim { mac: self.state.claimed_by.clone(), at: self.now() });
        }
        if self.lease_ends.is_some_and(|ends| ends <= time) {
            self.lease_ends = None;
            self.state.alias = Alias::Absent;
        }
        if self.next_round <= time {
            let hangs = self.state.etcd == Etcd::TimedOut;
            self.next_round = time + self.interval + if hangs { self.query_timeout } else { Duration::ZERO };
            if self.state.process == Process::Works {
                self.round();
            }
        }
        was_held != self.is_held()
    }

    /// The loop finishes a round.
    fn round(&mut self) {
        let mut beat = self.finished_round();
        if self.state.loop_acts {
            match beat.verdict {
                LoopVerdict::Leader if self.is_absent() => {
                    self.state.alias = Alias::Held;
                    beat.fip = LoopFip::Assigned;
                }
                // Its clean-up goes by its own variable, not by the interface.
                LoopVerdict::Follower | LoopVerdict::QueryFailed(_) if self.is_held() && self.loop_holds => {
                    self.state.alias = Alias::Absent;
                    self.lease_ends = None;
                    beat.fip = LoopFip::Removed;
                }
                LoopVerdict::Leader | LoopVerdict::Follower | LoopVerdict::QueryFailed(_) => {}
            }
            self.loop_holds = beat.verdict == LoopVerdict::Leader;
        }
        match self.state.log {
            Log::Beats | Log::Fresh => {
                self.state.log = Log::Beats;
                self.beat = Some((beat, self.now()));
                self.growth_at = self.now();
            }
            Log::Grows | Log::Frozen | Log::Unknown(_) => {}
        }
    }

    fn finished_round(&self) -> Beat {
        let verdict = match (&self.state.loop_says, &self.state.etcd) {
            (Says::Leader, _) | (Says::WhatEtcdTellsIt, Etcd::Leads) => LoopVerdict::Leader,
            (Says::Follower, _) | (Says::WhatEtcdTellsIt, Etcd::Follows | Etcd::NoLeader | Etcd::Learner) => {
                LoopVerdict::Follower
            }
            (Says::QueryFailed(how), _) => LoopVerdict::QueryFailed(how.clone()),
            (Says::WhatEtcdTellsIt, Etcd::Refused) => LoopVerdict::QueryFailed("curl exit status 7".to_owned()),
            (Says::WhatEtcdTellsIt, Etcd::TimedOut) => LoopVerdict::QueryFailed("curl exit status 28".to_owned()),
            (Says::WhatEtcdTellsIt, Etcd::Tls(_)) => LoopVerdict::QueryFailed("curl exit status 60".to_owned()),
            (Says::WhatEtcdTellsIt, Etcd::Fault(_) | Etcd::Unknown(_)) => {
                LoopVerdict::QueryFailed("curl exit status 22".to_owned())
            }
        };
        let fip = if self.is_held() && verdict == LoopVerdict::Leader { LoopFip::Kept } else { LoopFip::Untouched };
        let index = 1_000 + self.time.as_secs();
        Beat { verdict, revision: Some(500), raft_index: Some(index), raft_term: Some(self.state.term), fip }
    }

    /// Whether the FIP is not here.
    pub fn is_absent(&self) -> bool {
        self.state.alias == Alias::Absent
    }

    /// Whether a proof of leadership would be had now.
    pub fn is_proven_leader(&self) -> bool {
        self.state.etcd == Etcd::Leads && self.state.quorum == Answer::Confirms
    }

    fn is_held(&self) -> bool {
        matches!(self.state.alias, Alias::Held | Alias::Leased | Alias::Lent)
    }

    /// Something changes; the change that undoes it, and whether it wakes the watchdog.
    pub fn change(&mut self, change: &Patch) -> (Patch, bool) {
        let now = self.now();
        let worked = self.state.process == Process::Works;
        let back = self.state.take(change);
        match change.process {
            Some(Process::New | Process::NewFrozen) => {
                let frozen = change.process == Some(Process::NewFrozen);
                self.state.process = if frozen { Process::Frozen } else { Process::Works };
                self.process.pid += 1;
                (self.process.seen_since, self.process.progress_at) = (now, now);
                // Its log is another file, too.
                (self.beat, self.following_since) = (None, now);
                (self.loop_holds, self.next_round) = (false, self.time + Duration::from_secs(1));
            }
            Some(Process::Absent) => self.absent_since = now,
            Some(Process::Frozen) if worked => self.process.progress_at = now,
            Some(Process::Works | Process::Frozen | Process::Unknown(_)) | None => {}
        }
        match &change.log {
            Some(Log::Fresh) => (self.beat, self.following_since) = (None, now),
            Some(Log::Beats | Log::Frozen | Log::Grows | Log::Unknown(_)) | None => {}
        }
        match &change.alias {
            Some(Alias::Leased | Alias::Lent) => self.lease_ends = Some(self.time + self.lease),
            Some(Alias::Absent | Alias::Held | Alias::Unknown(_)) => self.lease_ends = None,
            None => {}
        }
        (back, change.alias.is_some() || change.link.is_some() || change.manifest.is_some())
    }

    /// The loop stands still for so long; with the machine and its clock, what the kernel counts waits too.
    pub fn stand_still(&mut self, lasts: Duration, clock_too: bool) {
        self.next_round += lasts;
        if clock_too {
            self.lease_ends = self.lease_ends.map(|ends| ends + lasts);
            self.stood += lasts;
        }
    }

    /// To a watchdog that has just started all of this is new; a round counts when it is read as new content.
    pub fn seen_for_the_first_time(&mut self) {
        let now = self.now();
        (self.beat, self.following_since, self.absent_since) = (None, now, now);
        (self.process.seen_since, self.process.progress_at) = (now, now);
    }

    /// What a step on the alias leaves behind.
    pub fn alias_step(&mut self, step: StepKind) {
        let (alias, leased) = match step {
            StepKind::ApplyAlias => (Alias::Leased, true),
            StepKind::LeaseAlias => (Alias::Lent, true),
            StepKind::RenewAlias => (self.state.alias.clone(), true),
            StepKind::HandOverAlias => (Alias::Held, false),
            StepKind::ReleaseAlias => (Alias::Absent, false),
            StepKind::AnnounceAlias | StepKind::CycleManifest => return,
        };
        self.state.alias = alias;
        self.lease_ends = leased.then(|| self.time + self.lease);
    }

    /// What all senses read now.
    pub fn observe(&mut self, depth: EtcdDepth, in_flight: BTreeSet<StepKind>, resumed_at: Option<Moment>) -> Observation {
        let now = self.now();
        if self.state.process == Process::Works {
            self.process.progress_at = now;
        }
        if self.state.log == Log::Grows {
            self.growth_at = now;
        }
        let pause = OperatorPause { reason: self.state.paused.clone(), remaining: Duration::from_secs(600) };
        let (etcd, heartbeat, held) = (self.etcd(depth), self.heartbeat(), self.is_held());
        let api = self.behind.look(&self.state.api, held, now);
        Observation {
            expired: self.expired(is_suspected(&etcd, &heartbeat)),
            etcd,
            heartbeat,
            process: self.process(),
            alias: self.alias(),
            manifest: self.manifest(),
            kubelet: self.state.kubelet.read(now),
            conflict: fresh(ConflictView { last: self.claim.clone() }, now),
            api,
            cycle: self.cycle.map(|phase| CycleView { phase }),
            in_flight,
            paused: (!self.state.paused.is_empty()).then_some(pause),
            resumed_at,
            strain: StrainView { late_ticks: self.state.late_ticks, cpu_pressure: Some(self.state.cpu_pressure) },
            hold_off: (!self.state.waits_for.is_empty()).then(|| held_off(&self.state.waits_for)),
        }
    }

    fn etcd(&self, depth: EtcdDepth) -> Reading<EtcdView> {
        let leader = match &self.state.etcd {
            Etcd::Leads => MEMBER,
            Etcd::Follows | Etcd::Learner => MEMBER + 1,
            Etcd::NoLeader => 0,
            Etcd::Refused => return fresh(EtcdView::Unreachable(EtcdFault::Refused), self.now()),
            Etcd::TimedOut => return fresh(EtcdView::Unreachable(EtcdFault::TimedOut), self.now()),
            Etcd::Tls(how) => return fresh(EtcdView::Unreachable(EtcdFault::Tls(how.clone())), self.now()),
            Etcd::Fault(how) => return fresh(EtcdView::Unreachable(EtcdFault::Other(how.clone())), self.now()),
            Etcd::Unknown(why) => return Reading::Unknown(why.clone()),
        };
        let quorum = match (depth, &self.state.quorum) {
            (EtcdDepth::Status, _) => Quorum::NotAsked,
            (EtcdDepth::Proof, Answer::Confirms) => Quorum::Confirmed { at: self.now() },
            (EtcdDepth::Proof, Answer::Denies(why)) => Quorum::Denied(why.clone()),
        };
        let status = EtcdStatus {
            member_id: MEMBER,
            leader,
            raft_term: self.state.term,
            revision: 500,
            raft_index: 1_000 + self.time.as_secs(),
            learner: self.state.etcd == Etcd::Learner,
            errors: self.state.etcd_errors.clone(),
            version: "3.5.13".to_owned(),
            quorum,
        };
        fresh(EtcdView::Answered(status), self.now())
    }

    fn heartbeat(&self) -> Reading<HeartbeatView> {
        if let Log::Unknown(why) = &self.state.log {
            return Reading::Unknown(why.clone());
        }
        let view = HeartbeatView {
            last_beat: self.beat.as_ref().map(|(beat, _)| beat.clone()),
            last_beat_at: self.beat.as_ref().map(|(_, at)| *at),
            following_since: self.following_since,
            last_growth_at: Some(self.growth_at),
            log: "/var/log/pods/kube-system_wcp-fip-cp1_0/wcp-fip/0.log".into(),
        };
        fresh(view, self.now())
    }

    fn process(&self) -> Reading<ProcessView> {
        match &self.state.process {
            Process::Unknown(why) => Reading::Unknown(why.clone()),
            Process::Absent => fresh(ProcessView::Absent { since: self.absent_since }, self.now()),
            Process::Works | Process::Frozen | Process::New | Process::NewFrozen => {
                let process = LoopProcess {
                    state: self.state.process_state,
                    wchan: Some(self.state.wchan.clone()).filter(|name| !name.is_empty()),
                    copies: self.state.copies,
                    ..self.process.clone()
                };
                fresh(ProcessView::Present(process), self.now())
            }
        }
    }

    fn alias(&self) -> Reading<AliasView> {
        let remaining = self.lease_ends.map(|ends| ends.saturating_sub(self.time));
        let entry = |prefix_len, valid_for, lent| vec![AliasEntry { prefix_len, valid_for, lent }];
        let entries = match &self.state.alias {
            Alias::Absent => Vec::new(),
            Alias::Held => entry(self.state.prefix, None, false),
            Alias::Leased => entry(32, remaining, false),
            Alias::Lent => entry(32, remaining, true),
            Alias::Unknown(why) => return Reading::Unknown(why.clone()),
        };
        fresh(AliasView { entries, up: true, carrier: self.state.link == Link::Up }, self.now())
    }

    /// Looked at only when a query failed over TLS.
    fn expired(&self, suspected: bool) -> Option<Expired> {
        let on = Some(self.state.certificate_expired.clone()).filter(|on| suspected && !on.is_empty());
        on.map(|on| Expired { path: "/etc/kubernetes/pki/etcd/server.crt".into(), on })
    }

    fn manifest(&self) -> Reading<ManifestView> {
        let view = |sha256: Option<&str>| ManifestView {
            sha256: sha256.map(|content| content.repeat(32)),
            shadows: Vec::new(),
            immovable: None,
        };
        let out = self.cycle == Some(CyclePhase::Out);
        let view = match &self.state.manifest {
            Manifest::Unknown(why) => return Reading::Unknown(why.clone()),
            Manifest::Missing => view(None),
            Manifest::Present if out => view(None),
            Manifest::Present => view(Some("ab")),
            Manifest::Changed(content) => view(Some(content)),
            Manifest::Shadowed(by) => ManifestView { shadows: vec![by.into()], ..view(Some("ab")) },
            Manifest::Immovable(why) => ManifestView { immovable: Some(why.clone()), ..view(Some("ab")) },
        };
        fresh(view, self.now())
    }
}

fn fresh<T>(value: T, at: Moment) -> Reading<T> {
    Reading::Fresh { value, at }
}
