//! A node's clocks, and what a machine that stands still does to its tasks.
//!
//! [`OnNode`] wraps every task of a node: it shows the task the node's own clocks, and does not poll it while the
//! machine, or the process, stands still. A wait that ended meanwhile is noticed afterwards, as on a real machine.
//! Cancel-safe: dropping it drops the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use fip_watchdog::decision::time::Moment;
use fip_watchdog::runtime::clock::{self, Clocks};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Ms;
use crate::sim::Sim;

/// The world, shared by its own task and those of the nodes.
#[derive(Clone)]
pub struct Shared {
    began: Instant,
    sim: Arc<Mutex<Sim>>,
    /// An event was queued that may be earlier than the one that the world sleeps for.
    pub queued: Arc<Notify>,
}

/// What every node's monotonic clock showed when the schedule began: long enough to look back an hour.
pub const UP_FOR: Ms = 10_000_000;

/// The wall clock at the beginning, ms since the epoch.
const WALL: i64 = 1_800_000_000_000;

impl Shared {
    /// A world that begins now.
    #[must_use]
    pub fn new(sim: Sim) -> Self {
        Self { began: Instant::now(), sim: Arc::new(Mutex::new(sim)), queued: Arc::new(Notify::new()) }
    }

    /// The world as of now.
    pub fn lock(&self) -> MutexGuard<'_, Sim> {
        let mut sim = self.sim.lock().unwrap_or_else(PoisonError::into_inner);
        sim.now = self.now();
        sim
    }

    /// Runs a change of the world, and wakes its task if that queued something.
    pub fn with<T>(&self, change: impl FnOnce(&mut Sim) -> T) -> T {
        let mut sim = self.lock();
        let queued = sim.seq;
        let value = change(&mut sim);
        sim.check();
        if sim.seq != queued || !sim.acts.is_empty() {
            self.queued.notify_one();
        }
        value
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Ms {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Virtual time as tokio's.
    #[must_use]
    pub fn instant(&self, at: Ms) -> Instant {
        self.began + Duration::from_millis(at)
    }
}

impl Sim {
    /// What a node's clocks show.
    #[must_use]
    pub fn clocks(&self, node: usize) -> Clocks {
        let node = &self.nodes[node];
        let wall = WALL + i64::try_from(self.now).unwrap_or(i64::MAX) + node.wall_offset;
        Clocks {
            now: Moment::from_origin(Duration::from_millis(UP_FOR + self.now - node.standstill)),
            boottime: Duration::from_millis(UP_FOR + self.now),
            wall: Duration::from_millis(u64::try_from(wall).unwrap_or(0)),
        }
    }
}

/// A task of a node.
pub struct OnNode<F> {
    shared: Shared,
    node: usize,
    life: u64,
    task: Pin<Box<F>>,
}

impl<F: Future> OnNode<F> {
    /// `task` belongs to the life of the daemon that `node` runs now.
    pub fn new(shared: &Shared, node: usize, task: F) -> Self {
        let life = shared.lock().nodes[node].daemon.life;
        Self { shared: shared.clone(), node, life, task: Box::pin(task) }
    }
}

impl<F: Future> Future for OnNode<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let outside = {
            let mut sim = self.shared.lock();
            let node = self.node;
            if sim.nodes[node].daemon.life != self.life {
                // Killed: it is dropped as soon as its owner is.
                return Poll::Pending;
            }
            if sim.nodes[node].frozen.is_some() || sim.nodes[node].daemon.stopped {
                sim.nodes[node].wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            clock::simulate(Some(sim.clocks(node)))
        };
        let polled = self.task.as_mut().poll(context);
        clock::simulate(outside);
        polled
    }
}
