//! One schedule from its begin to its rest: the world's task, and a task for each life of a daemon.

use fip_watchdog::audit::Audit;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::runtime::clock;
use fip_watchdog::runtime::executor::Executor;
use fip_watchdog::runtime::sd_notify::Notifier;
use fip_watchdog::runtime::startup::recover;
use fip_watchdog::runtime::supervisor::{Parts, Supervisor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};

use crate::check::Violation;
use crate::clocks::{OnNode, Shared};
use crate::eyes::SimWorld;
use crate::fault::{Planned, PolicyKind, schedule};
use crate::hands::SimHands;
use crate::sim::{Act, Sim};
use crate::{Ms, NODES};

/// How a schedule went.
#[derive(Debug)]
pub struct Outcome {
    /// What was broken.
    pub violations: Vec<Violation>,
    /// The timeline, if it was wanted.
    pub timeline: Vec<String>,
    /// Virtual time.
    pub lasted: Ms,
    /// Events of the world.
    pub events: u64,
    /// Steps of the daemons.
    pub steps: u64,
    /// Which, when and where.
    pub begun: Vec<(Ms, usize, StepKind)>,
    /// The longest time that the client was not served.
    pub outage: Ms,
}

/// A daemon's life, as the world's task holds it.
struct Life {
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

/// Runs the schedule of a seed.
///
/// # Errors
/// No runtime can be made.
pub fn seed(seed: u64, timeline: bool) -> std::io::Result<Outcome> {
    plan(seed, schedule(seed), timeline)
}

/// Runs a schedule under a seed's chances.
///
/// # Errors
/// No runtime can be made.
pub fn plan(seed: u64, plan: Vec<Planned>, timeline: bool) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let tasks = LocalSet::new();
    Ok(tasks.block_on(&runtime, world(Sim::new(seed, plan, timeline))))
}

async fn world(sim: Sim) -> Outcome {
    let shared = Shared::new(sim);
    shared.lock().begin();
    let mut lives: [Option<Life>; NODES] = std::array::from_fn(|_| None);
    loop {
        let (acts, next) = {
            let mut sim = shared.lock();
            sim.advance();
            if sim.rest.over || !sim.checks.violations.is_empty() {
                break;
            }
            (std::mem::take(&mut sim.acts), sim.next_due())
        };
        for act in acts {
            carry_out(&shared, &mut lives, act);
        }
        let until = shared.instant(next.unwrap_or(Ms::MAX / 2));
        // Either way the queue is looked at.
        drop(tokio::time::timeout_at(until, shared.queued.notified()).await);
    }
    let mut sim = shared.lock();
    Outcome {
        violations: std::mem::take(&mut sim.checks.violations),
        timeline: sim.timeline.take().unwrap_or_default(),
        lasted: sim.now,
        events: sim.handled,
        steps: sim.checks.steps,
        begun: std::mem::take(&mut sim.checks.begun),
        outage: sim.client.longest,
    }
}

fn carry_out(shared: &Shared, lives: &mut [Option<Life>; NODES], act: Act) {
    match act {
        Act::Start(node) => {
            let (stop, stopped) = oneshot::channel();
            let life = daemon(shared.clone(), node, stopped);
            let task = tokio::task::spawn_local(OnNode::new(shared, node, life));
            lives[node] = Some(Life { task, stop: Some(stop) });
        }
        Act::Kill(node) => {
            if let Some(life) = lives[node].take() {
                life.task.abort();
            }
        }
        Act::Stop(node) => {
            if let Some(stop) = lives[node].as_mut().and_then(|life| life.stop.take()) {
                match stop.send(()) {
                    // A daemon that has just ended needs no telling.
                    Ok(()) | Err(()) => {}
                }
            }
        }
    }
}

/// A daemon from its start to its end, in the order of `runtime::startup`.
async fn daemon(shared: Shared, node: usize, stopped: oneshot::Receiver<()>) {
    let listener = {
        let shared = shared.clone();
        Audit::to_listener(Box::new(move |event| shared.lock().heard(node, event)))
    };
    let kind = shared.lock().nodes[node].daemon.policy.unwrap_or(PolicyKind::Default);
    let policy = kind.policy();
    shared.lock().checks.adopted(node, &policy);
    let executor = Executor::new(SimHands::new(&shared, node));
    recover(&executor, &listener).await;
    let past_cycles = executor.past_cycles(clock::now()).await.unwrap_or_default();
    let (_questions, calls) = mpsc::channel(1);
    let parts = Parts {
        policy,
        world: SimWorld::new(&shared, node),
        executor,
        past_cycles,
        audit: listener,
        notifier: Notifier::from_env(),
        calls,
    };
    let stop = async {
        match stopped.await {
            Ok(()) => "SIGTERM",
            Err(_dropped) => std::future::pending().await,
        }
    };
    Supervisor::new(parts).run(stop).await;
    shared.with(|sim| {
        sim.stopped_in_order(node);
        sim.daemon_ended(node);
    });
}
