//! Explorations, and what to say of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use stateright::{Checker as _, Model as _};

use crate::contract::Broken;
use crate::world::{Action, Cluster, World, broken_in};

/// How an exploration ended.
#[derive(Debug)]
pub struct Exploration {
    /// Different states.
    pub states: usize,
    /// Steps from state to state.
    pub transitions: usize,
    /// The longest shortest way to a state.
    pub depth: usize,
    /// Whether nothing was left to explore.
    pub complete: bool,
    /// How long it took.
    pub took: Duration,
    /// The shortest way to something broken.
    pub counterexample: Option<Counterexample>,
}

/// A way to something broken.
#[derive(Debug)]
pub struct Counterexample {
    /// What was broken.
    pub broken: Vec<Broken>,
    /// How.
    pub story: Vec<String>,
}

/// Explores breadth first, until everything is seen, something is broken, or the time is up.
#[must_use]
pub fn explore(cluster: Cluster, limit: Duration, threads: usize) -> Exploration {
    #[expect(clippy::disallowed_methods, reason = "the explorer reports its own duration; no model time comes from it")]
    let began = Instant::now();
    let stop = Arc::clone(&cluster.stop);
    let (done, waits) = mpsc::channel::<()>();
    // The checker looks at its own time limit only where threads share work, so one thread never would.
    let timer = std::thread::spawn(move || {
        if waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let stopped = Arc::clone(&cluster.stop);
    let checker = cluster.checker().threads(threads).spawn_bfs().join();
    let took = began.elapsed();
    drop(done);
    let complete = timer.join().is_ok() && !stopped.load(Ordering::Relaxed);
    // The path is found again by the same actions, which a stop would withhold.
    stopped.store(false, Ordering::Relaxed);
    let found = checker.discoveries().into_values().next();
    let counterexample = found.map(|path| {
        let broken = broken_in(path.last_state());
        let story = path.into_vec().into_iter().filter_map(|(world, action)| Some(tell(&world, action?))).collect();
        Counterexample { broken, story }
    });
    Exploration {
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        complete: complete && counterexample.is_none(),
        took,
        counterexample,
    }
}

fn tell(world: &World, action: Action) -> String {
    let name = |i: usize| format!("cp{}", world.nodes[i].name.0 + 1);
    match action {
        Action::Tick => "a tick".to_owned(),
        Action::Elect(i) => format!("{} is elected", name(i)),
        Action::Phase(i, lane) => {
            let daemon = world.nodes[i].daemon.as_ref();
            match lane {
                crate::world::Lane::Alias => {
                    let step = daemon.and_then(|daemon| daemon.alias_step);
                    step.map_or_else(String::new, |step| format!("{}: {} {:?}", name(i), step.kind.name(), step.phase))
                }
                crate::world::Lane::Loop => {
                    let step = daemon.and_then(|daemon| daemon.cycle_step);
                    step.map_or_else(String::new, |step| format!("{}: cycle, {step:?} is over", name(i)))
                }
            }
        }
        Action::Fault(i, fault) => format!("{}: {fault:?}", name(i)),
        Action::Repair(i, fault) => format!("{}: no more {fault:?}", name(i)),
    }
}
