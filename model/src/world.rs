//! The state, its actions, and the properties: what stateright explores.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fip_watchdog::decision::guard::Guards;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::policy::Policy;
use stateright::{Model, Property};

use crate::contract::Broken;
use crate::fault::{Fault, Menu};
use crate::node::{Alias, Node};
use crate::scale::{LEASE, PROOF_AGE, Ticks, policy};

/// The nodes.
pub const NODES: usize = 3;

/// One state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The nodes, in no order that means anything.
    pub nodes: [Arc<Node>; NODES],
    /// For how long nobody has led.
    pub leaderless: Ticks,
    /// For how long two leased aliases have met.
    pub double: Ticks,
    /// Ticks since something changed from outside.
    pub quiet: Ticks,
    /// Faults that may still happen.
    pub faults_left: u8,
    /// What was broken on the way here, one bit each.
    pub broken: u32,
}

impl World {
    /// The node, to be changed.
    pub fn edit(&mut self, i: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[i])
    }

    /// Something must never have happened, and did.
    pub fn note(&mut self, broken: Broken) {
        self.broken |= 1 << broken as u8;
    }

    /// Two nodes hear each other's ARP.
    #[must_use]
    pub fn reach(&self, a: usize, b: usize) -> bool {
        let heard = |i: usize| self.nodes[i].link && !self.nodes[i].cut && self.nodes[i].frozen.is_none();
        a != b && heard(a) && heard(b)
    }

    /// Another station answers for the FIP while node `i` has it.
    #[must_use]
    pub fn is_claimed(&self, i: usize) -> bool {
        let has = |i: usize| self.nodes[i].alias != Alias::Absent;
        has(i) && (0..NODES).any(|other| has(other) && self.reach(i, other))
    }

    /// What holds in this state alone.
    pub(crate) fn check_state(&mut self) {
        let outlived =
            self.nodes.iter().any(|node| matches!(node.alias, Alias::Leased { proof, .. } if proof > LEASE + PROOF_AGE));
        if outlived {
            self.note(Broken::LeaseOutlivesProof);
        }
        let unjournalled =
            self.nodes.iter().any(|node| node.manifest.place == crate::node::Place::Staged && node.journal.open.is_none());
        if unjournalled {
            self.note(Broken::OutUnjournalled);
        }
        if self.double > LEASE + PROOF_AGE {
            self.note(Broken::TwoHolders);
        }
    }

    /// The same state with the nodes in a canonical order.
    fn in_order(mut self) -> Self {
        self.nodes.sort_by_cached_key(|node| {
            let mut hasher = DefaultHasher::new();
            node.hash(&mut hasher);
            hasher.finish()
        });
        self
    }
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A tick passes: leases, loops, kubelets, and a round of every daemon.
    Tick,
    /// A member wins an election.
    Elect(usize),
    /// The next phase of the step in that lane.
    Phase(usize, Lane),
    /// Something goes wrong.
    Fault(usize, Fault),
    /// Something comes back.
    Repair(usize, Fault),
}

/// The two lanes, as a state can hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The FIP.
    Alias,
    /// The loop's pod.
    Loop,
}

/// The steady state from which every story of a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// All is well: the leader's loop holds the FIP.
    Calm,
    /// Every loop is frozen and no kubelet acts: the leader's watchdog holds the FIP with its lease.
    LoopsFrozen,
}

/// What is explored.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Where it begins.
    pub start: Start,
    /// The policy of all three.
    pub policy: Policy,
    /// What the kernel is told when an alias is added or renewed.
    pub lease: Ticks,
    /// The guards in force.
    pub guards: Guards,
    /// Which faults there are.
    pub menu: Menu,
    /// How many of them may happen.
    pub faults: u8,
    /// Any step that `safety` lets through may be ordered, whatever the ladder says: a person's hand.
    pub hand: bool,
    /// Steps look and prove for themselves before they act, as they do in the product.
    pub steps_check: bool,
    /// The daemon looks for a pause after its senses are read, too.
    pub gap_in_round: bool,
    /// Which broken invariants end a search, one bit each.
    pub watch: u32,
    /// Steps that were ordered and steps that ended well anywhere, one bit each: whether the search reaches anything.
    pub reached: Arc<AtomicU32>,
    /// Set when time is up: nothing more is explored.
    pub stop: Arc<AtomicBool>,
}

impl Cluster {
    /// All guards, the default policy, steps that check for themselves.
    #[must_use]
    pub fn new(menu: Menu, faults: u8) -> Self {
        Self {
            start: Start::Calm,
            policy: policy(),
            lease: LEASE,
            guards: Guards::default(),
            menu,
            faults,
            hand: false,
            steps_check: true,
            gap_in_round: true,
            watch: u32::MAX,
            reached: Arc::default(),
            stop: Arc::default(),
        }
    }

    /// This one broken invariant alone ends the search.
    #[must_use]
    pub const fn watching(mut self, broken: Broken) -> Self {
        self.watch = 1 << broken as u8;
        self
    }

    /// A step was ordered, or ended well.
    pub(crate) fn note_reached(&self, step: StepKind, ended_well: bool) {
        let bit = StepKind::ALL.iter().position(|kind| *kind == step).unwrap_or(0) + if ended_well { 8 } else { 0 };
        self.reached.fetch_or(1 << bit, Ordering::Relaxed);
    }

    /// Whether the step was ordered, or ended well, anywhere in the search.
    #[must_use]
    pub fn has_reached(&self, step: StepKind, ended_well: bool) -> bool {
        let bit = StepKind::ALL.iter().position(|kind| *kind == step).unwrap_or(0) + if ended_well { 8 } else { 0 };
        self.reached.load(Ordering::Relaxed) & (1 << bit) != 0
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let nodes = std::array::from_fn(|i| {
            let name = u8::try_from(i).unwrap_or(u8::MAX);
            Arc::new(Node::healthy(name, i == 0, self.guards))
        });
        let mut world = World { nodes, leaderless: 0, double: 0, quiet: 0, faults_left: 0, broken: 0 };
        if self.start == Start::LoopsFrozen {
            for i in 0..NODES {
                let node = world.edit(i);
                (node.kubelet_acts, node.watched.process) = (false, crate::node::Process::Frozen);
            }
        }
        for _ in 0..6 * crate::scale::HORIZON {
            crate::tick::tick(self, &mut world);
            crate::steps::finish_all(self, &mut world);
        }
        world.faults_left = self.faults;
        world.broken &= self.watch;
        vec![world.in_order()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken != 0 || self.stop.load(Ordering::Relaxed) {
            return;
        }
        let leader_due = world.leader().is_none() && world.has_quorum();
        if leader_due {
            actions.extend((0..NODES).filter(|i| world.nodes[*i].is_connected()).map(Action::Elect));
        }
        let mut steps_due = false;
        for i in 0..NODES {
            for lane in [Lane::Alias, Lane::Loop] {
                if crate::steps::is_due(&world.nodes[i], lane) {
                    steps_due = true;
                    actions.push(Action::Phase(i, lane));
                }
            }
        }
        if !(steps_due || leader_due && world.leaderless > 0) {
            actions.push(Action::Tick);
        }
        for i in 0..NODES {
            actions.extend(self.menu.repairs(&world.nodes[i]).map(|fault| Action::Repair(i, fault)));
            if world.faults_left > 0 {
                actions.extend(self.menu.faults(world, i, self).map(|fault| Action::Fault(i, fault)));
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => crate::tick::tick(self, &mut world),
            Action::Elect(i) => {
                world.set_leader(Some(i));
                world.quiet = 0;
            }
            Action::Phase(i, lane) => crate::steps::advance(self, &mut world, i, lane),
            Action::Fault(i, fault) => {
                world.faults_left -= 1;
                world.quiet = 0;
                crate::fault::strike(self, &mut world, i, fault);
            }
            Action::Repair(i, fault) => {
                world.quiet = 0;
                crate::fault::repair(self, &mut world, i, fault);
            }
        }
        world.check_state();
        world.broken &= self.watch;
        Some(world.in_order())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("no invariant is broken", |_, world: &World| world.broken == 0)]
    }
}

/// What `make model` explores with every guard in force.
#[must_use]
pub fn runs() -> Vec<Cluster> {
    let with = |menu, faults, start| Cluster { hand: true, start, ..Cluster::new(menu, faults) };
    vec![
        with(crate::fault::EVERYTHING, 1, Start::Calm),
        with(crate::fault::FENCING, 2, Start::LoopsFrozen),
        with(crate::fault::MANIFEST, 3, Start::Calm),
        with(crate::fault::LEADERSHIP, 3, Start::Calm),
        with(crate::fault::EVERYTHING, 1, Start::LoopsFrozen),
        with(crate::fault::EVERYTHING, 2, Start::Calm),
    ]
}

/// What a state has broken.
#[must_use]
pub fn broken_in(world: &World) -> Vec<Broken> {
    Broken::ALL.into_iter().filter(|broken| world.broken & (1 << *broken as u8) != 0).collect()
}
