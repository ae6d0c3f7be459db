//! The steps, phase by phase as `src/actuator` takes them. Between two phases anything can happen.
//!
//! ```text
//! alias   Clear (prove, look, probe) ─► Act (prove again if old, change) ─► Confirm (prove, undo if lost)
//!           ▲        └ answered ► Wait
//! loop    Planned ─► Intended (journalled) ─► Out (renamed) … old pod gone, settled … Back … new pod beats … closed
//! ```

use fip_watchdog::decision::observation::CyclePhase;
use fip_watchdog::decision::step::{StepKind, StepOutcome};

use crate::contract::Broken;
use crate::node::{Alias, AliasStep, CycleStep, Loop, Node, Phase, Place, Process};
use crate::scale::{COOLDOWN, CYCLE_WAIT, CYCLES, HORIZON, KILL_AFTER, NOW, PROOF_AGE, WORST_ROUND, older};
use crate::world::{Cluster, Lane, NODES, World};

/// Whether the lane's step goes on without waiting for time to pass.
#[must_use]
pub fn is_due(node: &Node, lane: Lane) -> bool {
    let Some(daemon) = node.acting() else {
        return false;
    };
    match lane {
        Lane::Alias => daemon.alias_step.is_some_and(|step| step.phase != Phase::Wait),
        Lane::Loop => matches!(daemon.cycle_step, Some(CycleStep::Planned | CycleStep::Intended)),
    }
}

/// The next phase.
pub fn advance(cluster: &Cluster, world: &mut World, i: usize, lane: Lane) {
    match lane {
        Lane::Alias => {
            let Some(step) = world.nodes[i].daemon.as_ref().and_then(|daemon| daemon.alias_step) else {
                return;
            };
            let next = match step.phase {
                Phase::Clear => clear(cluster, world, i, step),
                Phase::Act => act(cluster, world, i, step),
                Phase::Confirm => confirm(cluster, world, i, step),
                Phase::Wait => Ok(step),
            };
            go_on(cluster, world, i, step.kind, next);
        }
        Lane::Loop => advance_cycle(cluster, world, i),
    }
}

/// Every phase that is due, on every node.
pub fn finish_all(cluster: &Cluster, world: &mut World) {
    while let Some((i, lane)) =
        (0..NODES).flat_map(|i| [(i, Lane::Alias), (i, Lane::Loop)]).find(|(i, lane)| is_due(&world.nodes[*i], *lane))
    {
        advance(cluster, world, i, lane);
    }
}

/// How a step of the alias lane ends: well or not.
type Next = Result<AliasStep, bool>;

fn go_on(cluster: &Cluster, world: &mut World, i: usize, kind: StepKind, next: Next) {
    if next == Err(true) {
        cluster.note_reached(kind, true);
    }
    let Some(daemon) = world.edit(i).daemon.as_mut() else {
        return;
    };
    daemon.alias_step = next.ok();
    if let Err(well) = next {
        let text = String::new();
        let outcome = if well { StepOutcome::Succeeded(text) } else { StepOutcome::Failed(text) };
        daemon.machine.on_step_finished(kind, &outcome, NOW);
    }
}

fn clear(cluster: &Cluster, world: &World, i: usize, step: AliasStep) -> Next {
    let (proven, node) = (world.proves(i), &world.nodes[i]);
    if !cluster.steps_check {
        return Ok(AliasStep { phase: Phase::Act, ..step });
    }
    let act = AliasStep { phase: Phase::Act, proof: Some(0), ..step };
    match step.kind {
        StepKind::ReleaseAlias => {
            if proven {
                Err(false)
            } else {
                Ok(act)
            }
        }
        _ if !proven => Err(false),
        StepKind::ApplyAlias if step.conflict.is_some() && node.alias != Alias::Absent => Err(true),
        StepKind::ApplyAlias if node.alias != Alias::Absent || !node.link => Err(false),
        StepKind::ApplyAlias => {
            let answered = (0..NODES).any(|other| world.nodes[other].alias != Alias::Absent && world.reach(i, other));
            let waited = step.conflict.unwrap_or(0);
            if answered && waited < WORST_ROUND {
                return Ok(AliasStep { phase: Phase::Wait, proof: Some(0), conflict: Some(waited), ..step });
            }
            Ok(act)
        }
        StepKind::RenewAlias if !matches!(node.alias, Alias::Leased { .. }) => Err(false),
        StepKind::HandOverAlias | StepKind::AnnounceAlias if node.alias == Alias::Absent => Err(false),
        StepKind::RenewAlias
        | StepKind::HandOverAlias
        | StepKind::AnnounceAlias
        | StepKind::LeaseAlias
        | StepKind::CycleManifest => Ok(act),
    }
}

fn act(cluster: &Cluster, world: &mut World, i: usize, mut step: AliasStep) -> Next {
    let limit = if step.kind == StepKind::ApplyAlias { 0 } else { PROOF_AGE };
    let is_old = step.proof.is_none_or(|age| age > limit);
    if cluster.steps_check && is_old && matches!(step.kind, StepKind::ApplyAlias | StepKind::RenewAlias) {
        if !world.proves(i) {
            return Err(false);
        }
        step.proof = Some(0);
    }
    let proof = step.proof.unwrap_or(HORIZON);
    let node = world.edit(i);
    match (step.kind, node.alias) {
        (StepKind::ApplyAlias, Alias::Absent) => {
            node.set_alias(Alias::Leased { left: cluster.lease, proof });
            return Ok(AliasStep { phase: Phase::Confirm, ..step });
        }
        (StepKind::RenewAlias, Alias::Leased { .. }) => node.alias = Alias::Leased { left: cluster.lease, proof },
        (StepKind::HandOverAlias, Alias::Leased { .. }) => node.alias = Alias::Forever,
        (StepKind::ReleaseAlias, _) => node.set_alias(Alias::Absent),
        (StepKind::AnnounceAlias, _)
        | (StepKind::HandOverAlias, Alias::Forever | Alias::Absent)
        | (StepKind::ApplyAlias | StepKind::RenewAlias | StepKind::LeaseAlias | StepKind::CycleManifest, _) => {}
    }
    Err(true)
}

fn confirm(cluster: &Cluster, world: &mut World, i: usize, step: AliasStep) -> Next {
    if !cluster.steps_check || world.proves(i) {
        return Err(true);
    }
    debug_assert_eq!(step.kind, StepKind::ApplyAlias, "only an application confirms");
    world.edit(i).set_alias(Alias::Absent);
    Err(false)
}

fn advance_cycle(cluster: &Cluster, world: &mut World, i: usize) {
    let node = world.edit(i);
    let sound = node.manifest.place == Place::Home && !node.manifest.shadowed && !node.manifest.immovable;
    let may = !cluster.steps_check || sound && node.disk_ok && node.journal.open.is_none();
    let Some(daemon) = node.daemon.as_mut() else {
        return;
    };
    match daemon.cycle_step {
        Some(CycleStep::Planned) if may => {
            let in_budget = node.journal.begun.len() < CYCLES && node.journal.begun.last().is_none_or(|age| *age >= COOLDOWN);
            node.journal.open = Some(CyclePhase::Intended);
            node.journal.begun.push(0);
            daemon.cycle_step = Some(CycleStep::Intended);
            if !in_budget {
                world.note(Broken::OverBudget);
            }
        }
        Some(CycleStep::Planned) => end_cycle(node, StepOutcome::Refused(String::new())),
        Some(CycleStep::Intended) if node.manifest.place == Place::Home && node.disk_ok => {
            node.manifest.place = Place::Staged;
            node.journal.open = Some(CyclePhase::Out);
            daemon.cycle_step = Some(CycleStep::Out(0));
        }
        Some(CycleStep::Intended) => close(node, StepOutcome::Failed(String::new())),
        Some(CycleStep::Out(_) | CycleStep::Back(_)) | None => {}
    }
}

/// What a cycle does while time passes: back when the old pod is gone and settled, or the deadline has come; closed when
/// the new pod finishes a round, or the deadline has come.
pub fn wait_in_cycle(cluster: &Cluster, node: &mut Node) {
    if node.acting().is_none() {
        return;
    }
    let Some(step) = node.daemon.as_ref().and_then(|daemon| daemon.cycle_step) else {
        return;
    };
    match step {
        CycleStep::Planned | CycleStep::Intended => {}
        CycleStep::Out(waited) => {
            let alive = !matches!(node.watched.process, Process::Absent(_));
            if alive && waited >= KILL_AFTER {
                node.watched = Loop { process: Process::Absent(0), ..Loop::new() };
            }
            let settled = matches!(node.watched.process, Process::Absent(since) if since > 0);
            if !settled && waited < CYCLE_WAIT {
                set_cycle(node, CycleStep::Out(older(waited)));
            } else if !node.disk_ok {
                end_cycle(node, StepOutcome::Failed(String::new()));
            } else {
                bring_home(node);
                node.journal.open = Some(CyclePhase::Back);
                set_cycle(node, CycleStep::Back(0));
            }
        }
        CycleStep::Back(waited) => {
            let beats = node.watched.process == Process::Works && node.watched.unread.is_some();
            if !beats && waited < CYCLE_WAIT {
                set_cycle(node, CycleStep::Back(older(waited)));
            } else {
                if beats {
                    cluster.note_reached(StepKind::CycleManifest, true);
                }
                let text = String::new();
                close(node, if beats { StepOutcome::Succeeded(text) } else { StepOutcome::PodStuck(text) });
            }
        }
    }
}

/// A start, and every round between steps, finishes what is open.
pub fn recover(node: &mut Node) {
    let idle = node.daemon.as_ref().is_some_and(|daemon| daemon.cycle_step.is_none());
    if idle && node.journal.open.is_some() && node.disk_ok {
        bring_home(node);
        node.journal.open = None;
    }
}

/// Ours goes back; if somebody took or replaced it meanwhile, that stays.
fn bring_home(node: &mut Node) {
    if node.manifest.place == Place::Staged {
        node.manifest.place = Place::Home;
    }
}

fn close(node: &mut Node, outcome: StepOutcome) {
    if node.disk_ok {
        node.journal.open = None;
    }
    end_cycle(node, outcome);
}

#[expect(clippy::needless_pass_by_value, reason = "an outcome is told once")]
fn end_cycle(node: &mut Node, outcome: StepOutcome) {
    if let Some(daemon) = node.daemon.as_mut() {
        daemon.cycle_step = None;
        daemon.machine.on_step_finished(StepKind::CycleManifest, &outcome, NOW);
    }
}

fn set_cycle(node: &mut Node, step: CycleStep) {
    if let Some(daemon) = node.daemon.as_mut() {
        daemon.cycle_step = Some(step);
    }
}
