//! What can go wrong, and what can come back. A fault costs one of the faults that a run allows; a repair is free,
//! and may come at any time or never.

use fip_watchdog::decision::safety::unsafe_to_run;
use fip_watchdog::decision::step::StepKind;

use crate::node::{Alias, HalfRound, Loop, Node, Place, Process, Sense, Watchdog};
use crate::scale::{GAP_NOTICED, NOW};
use crate::sense::Snapshot;
use crate::world::{Cluster, World};

/// Something that goes wrong on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The leadership is handed to this node.
    Transfer,
    /// The network separates the node.
    Cut,
    /// As a repair: it is joined again, and the others lose their leader for a while, as without pre-vote.
    Disrupt,
    /// etcd stops.
    EtcdStops,
    /// The FIP's interface loses its link.
    LinkDown,
    /// The whole node stands still. As a repair: it goes on, and its daemon notices if it was long enough.
    NodeFreezes,
    /// As a repair: it goes on, and no clock shows that it stood still.
    Unnoticed,
    /// The loop freezes.
    LoopFreezes,
    /// The loop's process dies.
    LoopDies,
    /// The loop's log stops, the loop does not.
    LogStops,
    /// A second copy of the loop appears.
    SecondCopy,
    /// The loop misses a round.
    LoopLags,
    /// The kubelet no longer acts on the manifest directory.
    KubeletStops,
    /// The kubelet's service stops.
    KubeletDies,
    /// The daemon is killed. As a repair: it is started.
    DaemonDies,
    /// The daemon is stopped between two rounds or phases.
    DaemonFreezes,
    /// The daemon is stopped in the middle of a round, everything read.
    HalfRound,
    /// The same, with etcd's answer still to come.
    EtcdToCome,
    /// A sense cannot tell.
    Blind(Sense),
    /// An operator pauses the daemon.
    Pause,
    /// A second file defines the pod.
    Shadow,
    /// The manifest becomes a link.
    Immovable,
    /// Somebody takes the manifest out.
    Taken,
    /// Somebody deletes the FIP from the interface.
    AliasDeleted,
    /// The disk becomes read-only.
    DiskReadOnly,
    /// A person orders this step; `safety` is asked, the ladder is not.
    Hand(StepKind),
}

/// The faults of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Menu {
    /// Its name.
    pub name: &'static str,
    /// What can happen.
    pub faults: &'static [Fault],
}

/// Who leads, who hears whom, and who runs: all that a second holder could come from.
pub const LEADERSHIP: Menu = Menu {
    name: "leadership",
    faults: &[Fault::Transfer, Fault::Cut, Fault::NodeFreezes, Fault::LoopFreezes, Fault::DaemonDies, Fault::DaemonFreezes],
};

/// Where the watchdogs alone carry the FIP: all that could make two of them do so.
pub const FENCING: Menu = Menu {
    name: "fencing",
    faults: &[Fault::Transfer, Fault::Cut, Fault::NodeFreezes, Fault::DaemonDies, Fault::DaemonFreezes, Fault::HalfRound],
};

/// The loop's pod and its manifest.
pub const MANIFEST: Menu = Menu {
    name: "manifest",
    faults: &[
        Fault::LoopFreezes,
        Fault::KubeletStops,
        Fault::DaemonDies,
        Fault::DiskReadOnly,
        Fault::Shadow,
        Fault::Taken,
        Fault::Transfer,
    ],
};

/// Every fault there is.
pub const EVERYTHING: Menu = Menu {
    name: "everything",
    faults: &[
        Fault::Transfer,
        Fault::Cut,
        Fault::EtcdStops,
        Fault::LinkDown,
        Fault::NodeFreezes,
        Fault::LoopFreezes,
        Fault::LoopDies,
        Fault::LogStops,
        Fault::SecondCopy,
        Fault::LoopLags,
        Fault::KubeletStops,
        Fault::DaemonDies,
        Fault::DaemonFreezes,
        Fault::HalfRound,
        Fault::EtcdToCome,
        Fault::Blind(Sense::Etcd),
        Fault::Blind(Sense::Alias),
        Fault::Blind(Sense::Heartbeat),
        Fault::Blind(Sense::Process),
        Fault::Blind(Sense::Manifest),
        Fault::Blind(Sense::Kubelet),
        Fault::KubeletDies,
        Fault::Pause,
        Fault::Shadow,
        Fault::Immovable,
        Fault::Taken,
        Fault::AliasDeleted,
        Fault::DiskReadOnly,
        Fault::Hand(StepKind::ApplyAlias),
        Fault::Hand(StepKind::RenewAlias),
        Fault::Hand(StepKind::HandOverAlias),
        Fault::Hand(StepKind::ReleaseAlias),
        Fault::Hand(StepKind::AnnounceAlias),
    ],
};

/// All that a repair can undo.
const REPAIRS: [Fault; 17] = [
    Fault::KubeletDies,
    Fault::Cut,
    Fault::Disrupt,
    Fault::EtcdStops,
    Fault::LinkDown,
    Fault::NodeFreezes,
    Fault::Unnoticed,
    Fault::LoopFreezes,
    Fault::KubeletStops,
    Fault::DaemonDies,
    Fault::DaemonFreezes,
    Fault::Pause,
    Fault::Shadow,
    Fault::Immovable,
    Fault::Taken,
    Fault::DiskReadOnly,
    Fault::Blind(Sense::Etcd),
];

impl Menu {
    /// What can strike the node now.
    pub fn faults<'a>(&'a self, world: &'a World, i: usize, cluster: &'a Cluster) -> impl Iterator<Item = Fault> + 'a {
        self.faults.iter().copied().filter(move |fault| can_strike(world, i, *fault, cluster))
    }

    /// What a run breaks it can also repair; what was broken from the start stays so unless the run can break it too.
    fn undoes(&self, repair: Fault) -> bool {
        let stops = [Fault::DaemonFreezes, Fault::HalfRound, Fault::EtcdToCome];
        self.faults.iter().any(|fault| {
            *fault == repair
                || (repair == Fault::Disrupt && *fault == Fault::Cut)
                || (repair == Fault::Unnoticed && *fault == Fault::NodeFreezes)
                || (repair == Fault::DaemonFreezes && stops.contains(fault))
                || (matches!(repair, Fault::Blind(_)) && matches!(fault, Fault::Blind(_)))
        })
    }

    /// What can come back on the node now.
    pub fn repairs<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = Fault> + 'a {
        REPAIRS.into_iter().filter(|fault| self.undoes(*fault) && is_broken(node, *fault))
    }
}

fn is_broken(node: &Node, fault: Fault) -> bool {
    match fault {
        Fault::Cut | Fault::Disrupt => node.cut,
        Fault::EtcdStops => !node.etcd_up,
        Fault::LinkDown => !node.link,
        Fault::NodeFreezes | Fault::Unnoticed => node.frozen.is_some(),
        Fault::LoopFreezes => node.watched.process == Process::Frozen && node.frozen.is_none(),
        Fault::KubeletStops => !node.kubelet_acts,
        Fault::KubeletDies => !node.kubelet_runs,
        Fault::DaemonDies => node.daemon.is_none() && node.frozen.is_none(),
        Fault::DaemonFreezes => node.frozen.is_none() && node.daemon.as_ref().is_some_and(|daemon| daemon.frozen.is_some()),
        Fault::Blind(_) => node.blind.is_some(),
        Fault::Pause => node.paused,
        Fault::Shadow => node.manifest.shadowed,
        Fault::Immovable => node.manifest.immovable,
        Fault::Taken => node.manifest.place == Place::Gone,
        Fault::DiskReadOnly => !node.disk_ok,
        Fault::Transfer
        | Fault::LoopDies
        | Fault::LogStops
        | Fault::SecondCopy
        | Fault::LoopLags
        | Fault::HalfRound
        | Fault::EtcdToCome
        | Fault::AliasDeleted
        | Fault::Hand(_) => false,
    }
}

fn can_strike(world: &World, i: usize, fault: Fault, cluster: &Cluster) -> bool {
    let node = &world.nodes[i];
    if node.frozen.is_some() {
        return false;
    }
    let runs = node.watched.process == Process::Works;
    match fault {
        Fault::Transfer => world.leader().is_some() && !node.leads && node.is_connected() && node.stale.is_none(),
        Fault::Cut | Fault::EtcdStops | Fault::LinkDown | Fault::KubeletStops | Fault::KubeletDies | Fault::Pause => {
            !is_broken(node, fault)
        }
        Fault::Shadow | Fault::Immovable | Fault::DiskReadOnly => !is_broken(node, fault),
        Fault::NodeFreezes => true,
        Fault::LoopFreezes | Fault::LoopLags => runs && !node.watched.lags,
        Fault::LoopDies => !matches!(node.watched.process, Process::Absent(_)),
        Fault::LogStops => runs && !node.watched.log_dead,
        Fault::SecondCopy => !node.watched.twice && !matches!(node.watched.process, Process::Absent(_)),
        Fault::DaemonDies => node.daemon.is_some(),
        Fault::DaemonFreezes | Fault::HalfRound | Fault::EtcdToCome => node.acting().is_some(),
        Fault::Blind(_) => node.blind.is_none(),
        Fault::Taken => node.manifest.place == Place::Home,
        Fault::AliasDeleted => node.alias != Alias::Absent,
        Fault::Hand(step) => {
            let idle = node.acting().is_some_and(|daemon| match step {
                StepKind::CycleManifest => daemon.cycle_step.is_none(),
                StepKind::ApplyAlias
                | StepKind::RenewAlias
                | StepKind::HandOverAlias
                | StepKind::LeaseAlias
                | StepKind::ReleaseAlias
                | StepKind::AnnounceAlias => daemon.alias_step.is_none(),
            });
            cluster.hand && idle && !node.paused
        }
        Fault::Disrupt | Fault::Unnoticed => false,
    }
}

/// It goes wrong.
pub fn strike(cluster: &Cluster, world: &mut World, i: usize, fault: Fault) {
    match fault {
        Fault::Transfer => world.set_leader(Some(i)),
        Fault::Cut => world.edit(i).cut = true,
        Fault::EtcdStops => (world.edit(i).etcd_up, world.edit(i).stale) = (false, None),
        Fault::LinkDown => world.edit(i).link = false,
        Fault::NodeFreezes => world.edit(i).frozen = Some(0),
        Fault::LoopFreezes => world.edit(i).watched.process = Process::Frozen,
        Fault::LoopDies => world.edit(i).watched = Loop { process: Process::Absent(0), ..Loop::new() },
        Fault::LogStops => world.edit(i).watched.log_dead = true,
        Fault::SecondCopy => world.edit(i).watched.twice = true,
        Fault::LoopLags => world.edit(i).watched.lags = true,
        Fault::KubeletStops => world.edit(i).kubelet_acts = false,
        Fault::KubeletDies => world.edit(i).kubelet_runs = false,
        Fault::DaemonDies => world.edit(i).daemon = None,
        Fault::DaemonFreezes => stop_daemon(world.edit(i), None),
        Fault::HalfRound | Fault::EtcdToCome => {
            let (etcd, claimed) = (world.ask(i, true), world.is_claimed(i));
            let snapshot = Snapshot::take(world.edit(i), etcd, claimed);
            let half = snapshot.map(|snapshot| HalfRound { snapshot, etcd_to_come: fault == Fault::EtcdToCome });
            stop_daemon(world.edit(i), half);
        }
        Fault::Blind(sense) => world.edit(i).blind = Some(sense),
        Fault::Pause => world.edit(i).paused = true,
        Fault::Shadow => world.edit(i).manifest.shadowed = true,
        Fault::Immovable => world.edit(i).manifest.immovable = true,
        Fault::Taken => world.edit(i).manifest.place = Place::Gone,
        Fault::AliasDeleted => world.edit(i).set_alias(Alias::Absent),
        Fault::DiskReadOnly => world.edit(i).disk_ok = false,
        Fault::Hand(step) => order_by_hand(cluster, world, i, step),
        Fault::Disrupt | Fault::Unnoticed => {}
    }
    world.settle_etcd();
}

fn stop_daemon(node: &mut Node, half_round: Option<HalfRound>) {
    if let Some(daemon) = &mut node.daemon {
        daemon.frozen = Some(0);
        daemon.half_round = half_round;
    }
}

/// As a command would: look, ask the quorum, ask `safety`.
fn order_by_hand(cluster: &Cluster, world: &mut World, i: usize, step: StepKind) {
    let (etcd, claimed, not_leading) = (world.ask(i, true), world.is_claimed(i), world.nodes[i].not_leading);
    let Some(snapshot) = Snapshot::take(world.edit(i), etcd, claimed) else {
        return;
    };
    let Some(daemon) = world.edit(i).daemon.as_mut() else {
        return;
    };
    let observation = snapshot.observation(daemon.resumed);
    let facts = daemon.machine.facts(&observation, &cluster.policy, NOW);
    if unsafe_to_run(step, &observation, &facts, &cluster.policy, cluster.guards, NOW).is_none() {
        crate::tick::order(cluster, world, i, step, &snapshot, not_leading);
    }
}

/// It comes back.
pub fn repair(cluster: &Cluster, world: &mut World, i: usize, fault: Fault) {
    let node = world.edit(i);
    match fault {
        Fault::Cut | Fault::Disrupt => {
            node.cut = false;
            if world.has_quorum() {
                world.edit(i).stale = None;
                if fault == Fault::Disrupt {
                    world.set_leader(None);
                }
            }
        }
        Fault::EtcdStops => node.etcd_up = true,
        Fault::LinkDown => node.link = true,
        Fault::NodeFreezes | Fault::Unnoticed => {
            let noticed = node.frozen.is_some_and(|frozen| frozen >= GAP_NOTICED) && fault == Fault::NodeFreezes;
            node.frozen = None;
            if let Some(daemon) = node.daemon.as_mut().filter(|_| noticed) {
                daemon.resumed = Some(0);
            }
        }
        Fault::LoopFreezes => thaw_loop(node),
        Fault::KubeletStops => node.kubelet_acts = true,
        Fault::KubeletDies => node.kubelet_runs = true,
        Fault::DaemonDies => node.daemon = Some(Watchdog::start(&node.journal, cluster.guards)),
        Fault::DaemonFreezes => thaw_daemon(cluster, world, i),
        Fault::Blind(_) => node.blind = None,
        Fault::Pause => node.paused = false,
        Fault::Shadow => node.manifest.shadowed = false,
        Fault::Immovable => node.manifest.immovable = false,
        Fault::Taken => node.manifest.place = Place::Home,
        Fault::DiskReadOnly => node.disk_ok = true,
        Fault::Transfer
        | Fault::LoopDies
        | Fault::LogStops
        | Fault::SecondCopy
        | Fault::LoopLags
        | Fault::HalfRound
        | Fault::EtcdToCome
        | Fault::AliasDeleted
        | Fault::Hand(_) => {}
    }
    world.settle_etcd();
}

/// A loop that froze between its look and its act finishes the round that it was in.
fn thaw_loop(node: &mut Node) {
    node.watched.process = Process::Works;
    if node.watched.has_led && node.alias == Alias::Absent {
        node.set_alias(Alias::Forever);
    }
}

/// The daemon finishes the round that it was in. It looks at the clock after its senses are read, so it notices the gap
/// before it decides.
fn thaw_daemon(cluster: &Cluster, world: &mut World, i: usize) {
    let Some(daemon) = world.edit(i).daemon.as_mut() else {
        return;
    };
    let noticed = daemon.frozen.take().is_some_and(|frozen| frozen >= GAP_NOTICED);
    if noticed && cluster.gap_in_round {
        daemon.resumed = Some(0);
    }
    if let Some(HalfRound { mut snapshot, etcd_to_come }) = daemon.half_round.take() {
        if etcd_to_come {
            (snapshot.etcd, snapshot.answered) = (world.ask(i, true), 0);
        }
        crate::tick::decide(cluster, world, i, &snapshot);
    }
    if let Some(daemon) = world.edit(i).daemon.as_mut().filter(|_| noticed) {
        daemon.resumed = Some(0);
    }
}
