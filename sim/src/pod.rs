//! The loop of the first article, in its pod: sleep, ask etcd, put the FIP up or take it off, log the round.
//!
//! Its clean-up trusts the variable `FIP` and does not look at the interface, so a fresh loop leaves alone what its
//! predecessor put there.

use fip_watchdog::decision::observation::{Beat, LoopFip, LoopVerdict};

use crate::Ms;
use crate::sim::{Event, Sim};

/// The loop's `sleep`.
const INTERVAL: Ms = 5_000;

/// The `-m` of its curl.
const QUERY_TIMEOUT: Ms = 10_000;

/// Rounds that fit into the pipe of the log while nobody reads it: 64 KiB at 1.5 KiB a round.
const PIPE_ROUNDS: u32 = 43;

/// The pod.
#[derive(Debug, Default)]
pub struct Pod {
    /// Counts containers; the log and the process of each are its own.
    pub container: u64,
    /// The loop's process lives.
    pub alive: bool,
    /// The kubelet is ending it.
    pub dying: bool,
    /// The version of the manifest that it runs.
    pub version: u32,
    /// The shell's variable `FIP`.
    pub fip: bool,
    /// Stopped by a signal.
    pub stopped: bool,
    /// Its child hangs.
    pub child_hangs: bool,
    /// The container runtime reads its output.
    pub log_is_read: bool,
    /// Rounds in the pipe that nobody read.
    pub unread: u32,
    /// Rounds begun: the shell reaps children in each.
    pub progress: u64,
    /// When it last made progress, and how long the machine had stood still by then.
    pub progress_at: (Ms, Ms),
    /// Finished rounds in the log.
    pub beats: u64,
    /// The last of them.
    pub last_beat: Option<Beat>,
    /// A wake-up that came while it could not run.
    owed: Option<Event>,
    /// No process since.
    pub dead_since: Option<Ms>,
}

impl Pod {
    /// The shell sleeps in `pipe_write` for ever.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.unread >= PIPE_ROUNDS
    }

    /// It finishes rounds, and they are logged.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.alive && !self.stopped && !self.child_hangs && self.log_is_read && !self.is_blocked()
    }
}

impl Sim {
    /// A fresh container.
    pub fn loop_begins(&mut self, node: usize, version: u32, first: Ms) {
        let stood = self.nodes[node].absent;
        let container = self.nodes[node].pod.container + 1;
        self.nodes[node].pod =
            Pod { container, alive: true, version, log_is_read: true, progress_at: (self.now, stood), ..Pod::default() };
        self.after(first, Event::LoopWakes { node, container });
    }

    /// The pipe is full at once, as after minutes without a reader.
    pub fn loop_pipe_fills(&mut self, node: usize) {
        self.nodes[node].pod.log_is_read = false;
        self.nodes[node].pod.unread = PIPE_ROUNDS;
    }

    /// The loop can run again: what it owes it does now.
    pub fn loop_resumes(&mut self, node: usize) {
        if let Some(event) = self.nodes[node].pod.owed.take() {
            self.after(1, event);
        }
    }

    fn loop_is_held(&mut self, node: usize, event: Event) -> bool {
        let pod = &mut self.nodes[node].pod;
        let held = pod.stopped || pod.child_hangs || pod.is_blocked();
        if held {
            pod.owed = Some(event);
        }
        held
    }

    /// Its sleep is over: it asks the local etcd.
    pub fn loop_wakes(&mut self, node: usize, container: u64) {
        let pod = &self.nodes[node].pod;
        if pod.container != container || !pod.alive || self.loop_is_held(node, Event::LoopWakes { node, container }) {
            return;
        }
        let member = self.etcd.members[node];
        let wait = if member.stopped == 0 && member.hung > 0 { QUERY_TIMEOUT } else { self.rng.between(15, 45) };
        self.loop_progressed(node);
        let round = self.nodes[node].pod.progress;
        self.after(wait, Event::LoopAnswered { node, container, round });
    }

    fn loop_progressed(&mut self, node: usize) {
        let (now, stood) = (self.now, self.nodes[node].absent);
        let pod = &mut self.nodes[node].pod;
        pod.progress += 1;
        pod.progress_at = (now, stood);
    }

    /// Its curl came back.
    pub fn loop_answered(&mut self, node: usize, container: u64, round: u64) {
        let pod = &self.nodes[node].pod;
        let event = Event::LoopAnswered { node, container, round };
        if pod.container != container || !pod.alive || self.loop_is_held(node, event) {
            return;
        }
        let member = self.etcd.members[node];
        let verdict = if member.stopped > 0 || member.tls > 0 || member.hung > 0 {
            LoopVerdict::QueryFailed("curl: no answer".to_owned())
        } else if member.view == Some(node) {
            LoopVerdict::Leader
        } else {
            LoopVerdict::Follower
        };
        let fip = if verdict == LoopVerdict::Leader { self.loop_assigns(node) } else { self.loop_cleans_up(node) };
        self.loop_progressed(node);
        let pod = &mut self.nodes[node].pod;
        if pod.log_is_read {
            pod.beats += 1;
            pod.last_beat = Some(Beat { verdict, revision: None, raft_index: None, raft_term: None, fip });
        } else {
            pod.unread += 1;
        }
        let wait = INTERVAL + self.rng.between(2, 40);
        self.after(wait, Event::LoopWakes { node, container });
    }

    fn loop_assigns(&mut self, node: usize) -> LoopFip {
        self.nodes[node].pod.fip = true;
        if self.nodes[node].address.is_some() {
            return LoopFip::Kept;
        }
        self.say(Some(node), || "the loop puts the FIP up".to_owned());
        self.set_address(node, Some(None));
        LoopFip::Assigned
    }

    fn loop_cleans_up(&mut self, node: usize) -> LoopFip {
        if !std::mem::take(&mut self.nodes[node].pod.fip) {
            return LoopFip::Untouched;
        }
        if self.nodes[node].address.is_some() {
            self.say(Some(node), || "the loop takes the FIP off".to_owned());
            self.set_address(node, None);
        }
        LoopFip::Removed
    }
}
