//! What time does: leases run down, loops and kubelets do their round, daemons observe, decide and order.

use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::decision::step::StepKind;

use crate::contract::{Broken, judge_order, release_is_founded};
use crate::node::{Alias, AliasStep, CycleStep, Loop, NOT_LEADING_MAX, Node, Phase, Place, Process, Round, Said, Watchdog};
use crate::scale::{GAP_NOTICED, HORIZON, NOW, PATIENCE, TICK, older};
use crate::sense::{EtcdSeen, Snapshot};
use crate::world::{Cluster, NODES, World};

/// One tick.
pub fn tick(cluster: &Cluster, world: &mut World) {
    world.quiet = older(world.quiet).min(PATIENCE);
    for i in 0..NODES {
        grow_older(cluster, world.edit(i));
    }
    world.leaderless = if world.leader().is_none() { older(world.leaderless).min(2) } else { 0 };
    for i in 0..NODES {
        if world.nodes[i].frozen.is_none() {
            let names_itself = matches!(world.ask(i, false), EtcdSeen::Answered(Said::Itself, _));
            let node = world.edit(i);
            node.not_leading = if names_itself { 0 } else { (node.not_leading + 1).min(NOT_LEADING_MAX) };
            run_loop(world, i);
            run_kubelet(world.edit(i));
            crate::steps::wait_in_cycle(cluster, world.edit(i));
        }
    }
    for i in 0..NODES {
        round(cluster, world, i);
    }
    note_double(world);
    note_lateness(world);
}

fn grow_older(cluster: &Cluster, node: &mut Node) {
    if let Some(frozen) = &mut node.frozen {
        *frozen = older(*frozen).min(GAP_NOTICED);
        return;
    }
    node.stale = node.stale.and_then(|(said, left)| (left > 1).then(|| (said, left - 1)));
    match node.alias {
        Alias::Leased { left: 0 | 1, .. } => node.set_alias(Alias::Absent),
        Alias::Leased { left, proof } => node.alias = Alias::Leased { left: left - 1, proof: older(proof) },
        Alias::Absent | Alias::Forever => {}
    }
    if let Process::Absent(since) = &mut node.watched.process {
        *since = older(*since).min(2);
    }
    node.journal.begun.iter_mut().for_each(|age| *age = older(*age));
    if let Some(daemon) = &mut node.daemon {
        age_daemon(cluster, daemon);
    }
}

fn age_daemon(cluster: &Cluster, daemon: &mut Watchdog) {
    daemon.machine.age(TICK, crate::scale::ticks(HORIZON), &cluster.policy.limits, NOW);
    daemon.resumed = daemon.resumed.map(older);
    if let Some(frozen) = &mut daemon.frozen {
        *frozen = older(*frozen).min(GAP_NOTICED);
    }
    if let Some(half) = &mut daemon.half_round {
        half.snapshot.grow_older();
    }
    if let Some(step) = &mut daemon.alias_step {
        step.proof = step.proof.map(older);
        step.conflict = step.conflict.map(older);
        if step.phase == Phase::Wait {
            step.phase = Phase::Clear;
        }
    }
    daemon.link_is_new = false;
    daemon.following = older(daemon.following);
    daemon.beat = daemon.beat.map(|(round, age)| (round, older(age)));
    daemon.idle = older(daemon.idle);
    daemon.seen = older(daemon.seen);
    daemon.absent = older(daemon.absent);
}

/// A round of the loop: it follows its own member's Status, as the vendor's does.
fn run_loop(world: &mut World, i: usize) {
    let said = world.ask(i, false);
    let node = world.edit(i);
    if node.watched.process != Process::Works || std::mem::take(&mut node.watched.lags) {
        return;
    }
    let round = match (said, node.alias) {
        (EtcdSeen::Unreachable, _) => Round::Failed,
        (EtcdSeen::Answered(Said::Itself, _), Alias::Absent) => {
            node.set_alias(Alias::Forever);
            Round::Assigned
        }
        (EtcdSeen::Answered(Said::Itself, _), Alias::Leased { .. } | Alias::Forever) => Round::Kept,
        (EtcdSeen::Answered(Said::Other | Said::Nobody, _), Alias::Leased { .. } | Alias::Forever) if node.watched.has_led => {
            node.set_alias(Alias::Absent);
            Round::Removed
        }
        (EtcdSeen::Answered(Said::Other | Said::Nobody, _), _) => Round::Untouched,
    };
    let watched = &mut node.watched;
    let leads = matches!(round, Round::Kept | Round::Assigned);
    watched.has_led =
        if round == Round::Failed { watched.has_led } else { leads || watched.has_led && round == Round::Untouched };
    watched.has_seen_fip |= leads;
    watched.stirred = true;
    if !watched.log_dead {
        watched.unread = Some(round);
    }
}

/// The kubelet kills a pod whose manifest is not there, and starts one whose is.
fn run_kubelet(node: &mut Node) {
    if !(node.kubelet_acts && node.kubelet_runs) {
        return;
    }
    let wanted = node.manifest.place == Place::Home;
    match node.watched.process {
        Process::Works | Process::Frozen if !wanted => node.watched = Loop { process: Process::Absent(0), ..Loop::new() },
        Process::Absent(since) if wanted && since > 0 => node.watched = Loop::new(),
        Process::Works | Process::Frozen | Process::Absent(_) => {}
    }
}

/// A round of the daemon: finish what a former life left open, observe, decide, order.
fn round(cluster: &Cluster, world: &mut World, i: usize) {
    if world.nodes[i].acting().is_none() {
        return;
    }
    crate::steps::recover(world.edit(i));
    for _ in 0..3 {
        let ask_quorum = world.nodes[i].daemon.as_ref().is_some_and(|daemon| daemon.ask_quorum);
        let (etcd, claimed) = (world.ask(i, ask_quorum), world.is_claimed(i));
        let Some(snapshot) = Snapshot::take(world.edit(i), etcd, claimed) else {
            return;
        };
        if !decide(cluster, world, i, &snapshot) {
            return;
        }
    }
}

/// Decides on what was read, and orders. Returns whether to look again at once.
pub fn decide(cluster: &Cluster, world: &mut World, i: usize, snapshot: &Snapshot) -> bool {
    let not_leading = world.nodes[i].not_leading;
    let Some(daemon) = world.edit(i).daemon.as_mut() else {
        return false;
    };
    let observation = snapshot.observation(daemon.resumed);
    let decision = daemon.machine.step(&observation, &cluster.policy, NOW);
    daemon.ask_quorum = decision.etcd_depth == EtcdDepth::Proof;
    let again = decision.next_deadline == NOW && decision.start.is_empty();
    for step in decision.start {
        order(cluster, world, i, step, snapshot, not_leading);
    }
    again
}

/// Orders a step, and judges the order.
pub fn order(cluster: &Cluster, world: &mut World, i: usize, step: StepKind, snapshot: &Snapshot, not_leading: u8) {
    cluster.note_reached(step, false);
    for broken in judge_order(step, snapshot) {
        world.note(broken);
    }
    if step == StepKind::ReleaseAlias && !release_is_founded(snapshot, not_leading) {
        world.note(Broken::ReleasedUnproven);
    }
    if step == StepKind::HandOverAlias && !world.nodes[i].watched.has_seen_fip {
        world.note(Broken::HandedToDeadLoop);
    }
    let Some(daemon) = world.edit(i).daemon.as_mut() else {
        return;
    };
    daemon.machine.on_step_started(step, NOW);
    let proof = snapshot.proof().and_then(|(leads, age)| leads.then_some(age));
    if step == StepKind::CycleManifest {
        daemon.cycle_step = Some(CycleStep::Planned);
    } else {
        daemon.alias_step = Some(AliasStep { kind: step, phase: Phase::Clear, proof, conflict: None });
    }
}

fn note_double(world: &mut World) {
    let leased = |i: usize| matches!(world.nodes[i].alias, Alias::Leased { .. });
    let met = (0..NODES).any(|a| (0..a).any(|b| leased(a) && leased(b) && world.reach(a, b)));
    world.double = if met { older(world.double) } else { 0 };
}

/// With nothing in its way and nothing changed for long, a daemon must have put things right.
fn note_lateness(world: &mut World) {
    if world.quiet < PATIENCE || world.leader().is_none() {
        return;
    }
    for i in 0..NODES {
        let node = &world.nodes[i];
        let free = node.acting().is_some() && node.is_connected() && node.link && node.blind.is_none() && !node.paused;
        if !free || node.manifest.place == Place::Gone {
            continue;
        }
        if node.leads && node.alias == Alias::Absent {
            world.note(Broken::LeaderWithoutFip);
        } else if !node.leads && node.alias != Alias::Absent {
            world.note(Broken::FollowerKeepsFip);
        }
    }
}
