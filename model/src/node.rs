//! What one node is made of.

use std::hash::{Hash, Hasher};

use fip_watchdog::decision::guard::Guards;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::CyclePhase;
use fip_watchdog::decision::step::StepKind;

use crate::scale::{NOW, Ticks, WORST_ROUND, ago};
use crate::sense::Snapshot;

/// `not_leading` ends here, past every use of it.
pub const NOT_LEADING_MAX: Ticks = WORST_ROUND + 1;

/// A node's name, for people. Nodes are interchangeable, so it is no part of the state.
#[derive(Debug, Clone, Copy)]
pub struct Name(pub u8);

impl PartialEq for Name {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Name {}
impl Hash for Name {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Whom a member names as leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// Itself.
    Itself,
    /// Another member.
    Other,
    /// Nobody.
    Nobody,
}

/// The FIP on the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alias {
    /// Not there.
    Absent,
    /// With a lease: the watchdog's.
    Leased {
        /// What remains of the lease.
        left: Ticks,
        /// How old the proof is by which it was given.
        proof: Ticks,
    },
    /// For ever: the loop's, or handed over to it.
    Forever,
}

/// One finished round of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Round {
    /// Leads, the FIP was there.
    Kept,
    /// Leads, put the FIP up.
    Assigned,
    /// Does not lead, took the FIP off.
    Removed,
    /// Does not lead, nothing to do.
    Untouched,
    /// Its query failed.
    Failed,
}

/// The loop's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    /// Finishes its rounds.
    Works,
    /// Does nothing at all.
    Frozen,
    /// Is gone, for so long.
    Absent(Ticks),
}

/// The loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loop {
    /// Its process.
    pub process: Process,
    /// Its log is no longer written, although it works.
    pub log_dead: bool,
    /// A second copy runs.
    pub twice: bool,
    /// It has led before: only such a loop takes the FIP off.
    pub has_led: bool,
    /// It misses its next round.
    pub lags: bool,
    /// A round is in the log that the watchdog has not read.
    pub unread: Option<Round>,
    /// It has made progress that the watchdog has not seen.
    pub stirred: bool,
    /// It is a new process that the watchdog has not seen.
    pub reborn: bool,
    /// It has finished a round as leader with the FIP there, since the FIP appeared.
    pub has_seen_fip: bool,
}

impl Loop {
    /// A loop that was just started.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            process: Process::Works,
            log_dead: false,
            twice: false,
            has_led: false,
            lags: false,
            unread: None,
            stirred: true,
            reborn: true,
            has_seen_fip: false,
        }
    }
}

impl Default for Loop {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the manifest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the kubelet's directory.
    Home,
    /// Staged by a cycle of ours.
    Staged,
    /// Somebody else took it.
    Gone,
}

/// The manifest and its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Manifest {
    /// Where it is.
    pub place: Place,
    /// Another file defines the same pod.
    pub shadowed: bool,
    /// It is no regular file.
    pub immovable: bool,
}

/// The cycle journal on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Journal {
    /// The open entry.
    pub open: Option<CyclePhase>,
    /// How long ago cycles were begun, newest last.
    pub begun: Vec<Ticks>,
}

/// A step of the alias lane that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AliasStep {
    /// Which.
    pub kind: StepKind,
    /// How far it is.
    pub phase: Phase,
    /// How old its proof is.
    pub proof: Option<Ticks>,
    /// For how long somebody has answered the duplicate probe.
    pub conflict: Option<Ticks>,
}

/// How far a step of the alias lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Prove, look, probe.
    Clear,
    /// Somebody answers; again at the next tick.
    Wait,
    /// Prove again if old, then change the interface.
    Act,
    /// Prove again, undo if lost.
    Confirm,
}

/// The cycle that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CycleStep {
    /// Nothing is written yet.
    Planned,
    /// The intent is on disk.
    Intended,
    /// The manifest is staged, for so long.
    Out(Ticks),
    /// The manifest is back, for so long.
    Back(Ticks),
}

/// The running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watchdog {
    /// The product's decision core.
    pub machine: Machine,
    /// How long ago a pause of its own ended.
    pub resumed: Option<Ticks>,
    /// The next question to etcd goes to the quorum.
    pub ask_quorum: bool,
    /// It does not run, for so long.
    pub frozen: Option<Ticks>,
    /// What it had read when it stopped running in the middle of a round.
    pub half_round: Option<HalfRound>,
    /// The interface had no link at the last look.
    pub saw_no_link: bool,
    /// It came back, seen in this tick.
    pub link_is_new: bool,
    /// The alias lane.
    pub alias_step: Option<AliasStep>,
    /// The loop lane.
    pub cycle_step: Option<CycleStep>,
    /// How long it has followed the log.
    pub following: Ticks,
    /// The last round that it read, and how long ago.
    pub beat: Option<(Round, Ticks)>,
    /// How long ago it saw progress of the process, or its first look.
    pub idle: Ticks,
    /// How long ago it first saw this process.
    pub seen: Ticks,
    /// How long ago it first saw that there is no process.
    pub absent: Ticks,
}

/// A round in whose middle the daemon stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HalfRound {
    /// What was read.
    pub snapshot: Snapshot,
    /// etcd's answer was still to come.
    pub etcd_to_come: bool,
}

impl Watchdog {
    /// A daemon that was just started; what the journal says of earlier cycles is known to it.
    #[must_use]
    pub fn start(journal: &Journal, guards: Guards) -> Self {
        let past: Vec<_> = journal.begun.iter().map(|age| ago(*age)).collect();
        Self {
            machine: Machine::new(NOW, &past).under(guards),
            resumed: None,
            ask_quorum: false,
            frozen: None,
            half_round: None,
            saw_no_link: false,
            link_is_new: false,
            alias_step: None,
            cycle_step: None,
            following: 0,
            beat: None,
            idle: 0,
            seen: 0,
            absent: 0,
        }
    }
}

/// A sense that can go blind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sense {
    /// The etcd client.
    Etcd,
    /// The interface.
    Alias,
    /// The loop's log.
    Heartbeat,
    /// The loop's process.
    Process,
    /// The manifest directory.
    Manifest,
    /// The kubelet's service.
    Kubelet,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Its etcd leads, with a quorum.
    pub leads: bool,
    /// For how long its member has not named itself leader.
    pub not_leading: Ticks,
    /// What its etcd goes on saying after it lost touch, and for how long.
    pub stale: Option<(Said, Ticks)>,
    /// The network separates it from the others.
    pub cut: bool,
    /// Its etcd runs.
    pub etcd_up: bool,
    /// The FIP's interface has a link.
    pub link: bool,
    /// The whole node stands still, for so long.
    pub frozen: Option<Ticks>,
    /// The loop.
    pub watched: Loop,
    /// The kubelet runs.
    pub kubelet_runs: bool,
    /// The kubelet acts on the manifest directory.
    pub kubelet_acts: bool,
    /// The FIP.
    pub alias: Alias,
    /// The manifest.
    pub manifest: Manifest,
    /// The disk can be written.
    pub disk_ok: bool,
    /// The cycle journal.
    pub journal: Journal,
    /// A sense that cannot tell.
    pub blind: Option<Sense>,
    /// An operator's pause.
    pub paused: bool,
    /// The daemon, if it runs.
    pub daemon: Option<Watchdog>,
}

impl Node {
    /// A healthy node.
    #[must_use]
    pub fn healthy(name: u8, leads: bool, guards: Guards) -> Self {
        let journal = Journal::default();
        Self {
            name: Name(name),
            leads,
            not_leading: if leads { 0 } else { NOT_LEADING_MAX },
            stale: None,
            cut: false,
            etcd_up: true,
            link: true,
            frozen: None,
            watched: Loop::new(),
            kubelet_runs: true,
            kubelet_acts: true,
            alias: Alias::Absent,
            manifest: Manifest { place: Place::Home, shadowed: false, immovable: false },
            disk_ok: true,
            daemon: Some(Watchdog::start(&journal, guards)),
            journal,
            blind: None,
            paused: false,
        }
    }

    /// Its etcd can talk to others.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        !self.cut && self.etcd_up && self.frozen.is_none()
    }

    /// The FIP appeared or went: what the loop saw before no longer counts.
    pub fn set_alias(&mut self, alias: Alias) {
        if (alias == Alias::Absent) != (self.alias == Alias::Absent) {
            self.watched.has_seen_fip = false;
        }
        self.alias = alias;
    }

    /// The daemon, if it runs and is not stopped.
    #[must_use]
    pub fn acting(&self) -> Option<&Watchdog> {
        self.daemon.as_ref().filter(|daemon| daemon.frozen.is_none() && self.frozen.is_none())
    }
}
