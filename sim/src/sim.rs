//! The world's state and its queue of events.
//!
//! Events of a node that stands still wait until it runs again: at once if its clocks ran on, later by the whole
//! standstill if they did not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::Waker;

use fip_watchdog::decision::observation::CyclePhase;
use tokio::sync::Notify;

use crate::address::{Address, Client};
use crate::check::Checks;
use crate::etcd::Etcd;
use crate::fault::{Planned, PolicyKind};
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::rest::Rest;
use crate::rng::Rng;
use crate::{Ms, NODES, stamp};

/// Something that happens at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as what happens; `dispatch` says where each is handled")]
pub enum Event {
    Fault { index: usize },
    Heal { index: usize },
    View { member: usize, gain: bool },
    Elect,
    LoopWakes { node: usize, container: u64 },
    LoopAnswered { node: usize, container: u64, round: u64 },
    PodDies { node: usize, container: u64 },
    RecordGone { node: usize, container: u64 },
    PodStarts { node: usize, attempt: u64 },
    KubeletLists { node: usize },
    LeaseEnds { node: usize, given: u64 },
    ClientAsks,
    DaemonStarts { node: usize, life: u64 },
    DaemonStarved { node: usize, life: u64 },
    Look,
}

impl Event {
    const fn node(self) -> Option<usize> {
        match self {
            Self::LoopWakes { node, .. }
            | Self::LoopAnswered { node, .. }
            | Self::PodDies { node, .. }
            | Self::RecordGone { node, .. }
            | Self::PodStarts { node, .. }
            | Self::KubeletLists { node }
            | Self::LeaseEnds { node, .. }
            | Self::DaemonStarts { node, .. } => Some(node),
            Self::Fault { .. }
            | Self::Heal { .. }
            | Self::View { .. }
            | Self::Elect
            | Self::ClientAsks
            | Self::DaemonStarved { .. }
            | Self::Look => None,
        }
    }
}

/// An event in the queue: due, order of arrival, what, and the node's standstill when it was queued.
type Queued = Reverse<(Ms, u64, Event, Ms)>;

/// What the world's task does for the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A daemon begins.
    Start(usize),
    /// A daemon is killed.
    Kill(usize),
    /// A daemon is asked to stop.
    Stop(usize),
}

/// A machine that stands still.
#[derive(Debug, Clone, Copy)]
pub struct Freeze {
    /// Since when.
    pub since: Ms,
    /// Whether its monotonic clock stands still too.
    pub suspended: bool,
    /// Until when.
    pub until: Ms,
    /// The fault that did it.
    pub index: usize,
}

/// The daemon and what it keeps on its disk.
#[derive(Default)]
pub struct Daemon {
    /// Counts its lives.
    pub life: u64,
    /// It runs.
    pub running: bool,
    /// Stopped by a signal.
    pub stopped: bool,
    /// Since when.
    pub stopped_at: Ms,
    /// Wakes its loop.
    pub changed: Arc<Notify>,
    /// An edit of its policy that it has not seen.
    pub edited: Option<PolicyKind>,
    /// The policy that the file holds.
    pub policy: Option<PolicyKind>,
    /// The operator's pause ends (wall clock, ms).
    pub paused_until: Option<Ms>,
    /// The content of the manifest that is kept as known good.
    pub known_good: Option<String>,
    /// The open entry of its journal of cycles.
    pub open_cycle: Option<CyclePhase>,
    /// Starts of its cycles.
    pub cycles: Vec<Ms>,
    /// Its disk cannot be written.
    pub read_only: u8,
}

/// The manifest directory: versions of the content.
#[derive(Debug, Default)]
pub struct Manifest {
    /// In its place.
    pub in_place: Option<u32>,
    /// Taken out by a cycle.
    pub staged: Option<u32>,
    /// Since when by a cycle.
    pub out_since: Ms,
    /// Taken out by an operator.
    pub operator_has: Option<u32>,
    /// The newest that somebody put there.
    pub newest: u32,
}

/// A node.
#[derive(Default)]
pub struct Node {
    /// It stands still.
    pub frozen: Option<Freeze>,
    /// A fault that strikes when so many more requests to the kernel were made.
    pub armed: Option<(u32, usize)>,
    /// When it last ran again.
    pub thawed_at: Ms,
    /// How long its monotonic clock has stood still in all.
    pub standstill: Ms,
    /// How long it has stood still in all, by whatever clock.
    pub absent: Ms,
    /// Its wall clock is wrong by this.
    pub wall_offset: i64,
    /// Tasks to poll when it runs again.
    pub wakers: Vec<Waker>,
    /// The loop's pod.
    pub pod: Pod,
    /// The kubelet.
    pub kubelet: Kubelet,
    /// The manifest directory.
    pub manifest: Manifest,
    /// The FIP on its interface.
    pub address: Option<Address>,
    /// Counts changes of the address.
    pub address_changes: u64,
    /// Link down.
    pub link_down: u8,
    /// Senses that are blind: etcd, heartbeat, process, alias, manifest.
    pub blind: [u8; 5],
    /// The watchdog.
    pub daemon: Daemon,
}

/// The world.
pub struct Sim {
    /// Virtual time.
    pub now: Ms,
    /// Events queued so far.
    pub seq: u64,
    queue: BinaryHeap<Queued>,
    /// What happens by chance.
    pub rng: Rng,
    /// The faults of the schedule.
    pub plan: Vec<Planned>,
    /// etcd.
    pub etcd: Etcd,
    /// The nodes.
    pub nodes: [Node; NODES],
    /// How many cuts lie on the way `[from][to]`.
    pub cuts: [[u8; NODES]; NODES],
    /// How many cuts lie between a node and the client.
    pub client_cuts: [u8; NODES],
    /// The client.
    pub client: Client,
    /// Invariants.
    pub checks: Checks,
    /// Things to do that need the tasks.
    pub acts: Vec<Act>,
    /// The timeline, if somebody wants it.
    pub timeline: Option<Vec<String>>,
    /// Events handled.
    pub handled: u64,
    /// The end of the schedule.
    pub rest: Rest,
}

impl Sim {
    /// A calm cluster.
    #[must_use]
    pub fn new(seed: u64, plan: Vec<Planned>, timeline: bool) -> Self {
        Self {
            now: 0,
            seq: 0,
            queue: BinaryHeap::new(),
            // Another stream than the schedule's: dropping a fault must not change what the others do.
            rng: Rng::new(seed ^ 0x5eed_0000_5eed_0000),
            plan,
            etcd: Etcd::default(),
            nodes: std::array::from_fn(|_| Node::default()),
            cuts: [[0; NODES]; NODES],
            client_cuts: [0; NODES],
            client: Client::default(),
            checks: Checks::default(),
            acts: Vec::new(),
            timeline: timeline.then(Vec::new),
            handled: 0,
            rest: Rest::default(),
        }
    }

    /// Everything runs, everything is as it should be.
    pub fn begin(&mut self) {
        self.etcd_begins();
        for node in 0..NODES {
            self.kubelet_begins(node);
            let life = self.nodes[node].daemon.life;
            let start = self.rng.between(0, 1500);
            self.after(start, Event::DaemonStarts { node, life });
        }
        for index in 0..self.plan.len() {
            self.after(self.plan[index].at, Event::Fault { index });
        }
        self.rest_begins();
    }

    /// Queues an event.
    pub fn after(&mut self, delay: Ms, event: Event) {
        let standstill = event.node().map_or(0, |node| self.nodes[node].standstill);
        self.queue.push(Reverse((self.now + delay, self.seq, event, standstill)));
        self.seq += 1;
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Ms> {
        self.queue.peek().map(|Reverse((due, ..))| *due)
    }

    /// Handles what is due.
    pub fn advance(&mut self) {
        while let Some(Reverse((due, _, event, standstill))) = self.queue.peek().copied() {
            if due > self.now {
                return;
            }
            self.queue.pop();
            if let Some(node) = event.node() {
                if let Some(freeze) = self.nodes[node].frozen {
                    // Looked at again when the machine runs; it gets what is left of its wait then.
                    let waited = if freeze.suspended { due.saturating_sub(freeze.since) } else { 0 };
                    let thaw = freeze.until;
                    let standstill = standstill + if freeze.suspended { thaw - freeze.since } else { 0 };
                    self.queue.push(Reverse((thaw.max(self.now) + waited, self.seq, event, standstill)));
                    self.seq += 1;
                    continue;
                }
                let stood = self.nodes[node].standstill.saturating_sub(standstill);
                if stood > 0 {
                    self.after(stood, event);
                    continue;
                }
            }
            self.handled += 1;
            self.dispatch(event);
            self.check();
        }
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Fault { index } => self.inflict(index),
            Event::Heal { index } => self.heal(index),
            Event::View { member, gain } => self.etcd_view(member, gain),
            Event::Elect => self.etcd_elects(),
            Event::LoopWakes { node, container } => self.loop_wakes(node, container),
            Event::LoopAnswered { node, container, round } => self.loop_answered(node, container, round),
            Event::PodDies { node, container } => self.pod_dies(node, container),
            Event::RecordGone { node, container } => self.record_gone(node, container),
            Event::PodStarts { node, attempt } => self.pod_starts(node, attempt),
            Event::KubeletLists { node } => self.kubelet_lists(node),
            Event::LeaseEnds { node, given } => self.lease_ends(node, given),
            Event::ClientAsks => self.client_asks(),
            Event::DaemonStarts { node, life } => self.daemon_starts(node, life),
            Event::DaemonStarved { node, life } => self.daemon_starved(node, life),
            Event::Look => self.look(),
        }
    }

    /// A line of the timeline.
    pub fn say(&mut self, node: Option<usize>, text: impl FnOnce() -> String) {
        if self.timeline.is_none() {
            return;
        }
        let cells: Vec<String> = (0..NODES).map(|node| self.cell(node)).collect();
        let served = self.client.neighbour.filter(|_| self.client.unserved_since.is_none());
        let client = served.map_or_else(|| "nobody".to_owned(), |node| format!("cp{}   ", node + 1));
        let who = node.map_or_else(|| "   ".to_owned(), |node| format!("cp{}", node + 1));
        let line = format!("{}  {} {client}  {who}  {}", stamp(self.now), cells.join("  "), text());
        self.timeline.get_or_insert_default().push(line);
    }

    /// The FIP on a node, and whether etcd leads there, in two characters.
    fn cell(&self, node: usize) -> String {
        let fip = match self.nodes[node].address {
            None => '·',
            Some(Address { until: None, .. }) => '█',
            Some(Address { until: Some(_), .. }) => '▒',
        };
        let leads = if self.etcd.leader == Some(node) { 'L' } else { ' ' };
        format!("{fip}{leads}")
    }

    /// Wakes the loop of a daemon.
    pub fn wake(&self, node: usize) {
        self.nodes[node].daemon.changed.notify_one();
    }

    /// Whether frames of one node reach another.
    #[must_use]
    pub fn hears(&self, to: usize, from: usize) -> bool {
        self.cuts[from][to] == 0 && self.nodes[from].link_down == 0 && self.nodes[to].link_down == 0
    }

    /// Whether two nodes reach each other.
    #[must_use]
    pub fn reach_each_other(&self, a: usize, b: usize) -> bool {
        self.hears(a, b) && self.hears(b, a)
    }
}
