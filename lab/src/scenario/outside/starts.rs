//! Every daemon that a node's service starts, from its first instruction on: traced, with a wall clock of its own, or both.
//!
//! A drop-in lets the service's process stop itself before it becomes the daemon, so that a restart, a kill or a replacement by
//! systemd leaves no moment unseen: it goes on when it has its clock and its tracer. A daemon that began without makes the
//! run blind. May be dropped at any time: strace ends with its handle, and detaches.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use super::calls::{self, Calls};
use super::own_clock;
use crate::network::namespace_path;
use crate::node::NodeId;
use crate::scenario::lab_api::Lab;
use crate::service::{self, Process};
use crate::units::{HELD, HELD_DROP_IN, HELD_NAME, WATCHDOG_NAME, WATCHDOG_PROCESS};

/// A process that waits for its tracer is found within this time; reading a file of the cgroup costs microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longer than the unit's own TimeoutStartSec.
const START_LIMIT: Duration = Duration::from_secs(70);

/// What each daemon gets before it begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gets {
    /// A tracer, which counts what it does.
    pub tracer: bool,
    /// A wall clock of its own, which the fault `clock-jump` sets.
    pub own_clock: bool,
}

impl Gets {
    /// Whether it gets anything.
    #[must_use]
    pub const fn any(self) -> bool {
        self.tracer || self.own_clock
    }
}

/// Where a node's daemons appear.
pub struct Place {
    groups: Vec<PathBuf>,
    namespace: PathBuf,
    shared: PathBuf,
}

impl Place {
    /// Of a node.
    #[must_use]
    pub fn of(lab: &Lab, node: NodeId) -> Self {
        let namespace = namespace_path(&lab.node(node).netns);
        Self { groups: lab.service_groups(node, WATCHDOG_NAME), namespace, shared: lab.shared(node) }
    }
}

fn is_alive(pid: Pid) -> bool {
    Process::look(pid).is_some_and(|process| process.is_alive())
}

/// Makes the node's service hold each start, and starts its daemon anew.
///
/// # Errors
/// It does not come back.
pub async fn restart_held(lab: &Lab, node: NodeId) -> anyhow::Result<()> {
    let script = "mkdir -p \"${1%/*}\"; printf '[Service]\\nExecStart=\\nExecStart=%s\\n' \"$2\" >\"$1\"; \
                  systemctl daemon-reload; systemctl restart \"$3\"";
    let argv = ["sh", "-euc", script, "fip-lab", HELD_DROP_IN, HELD, WATCHDOG_NAME];
    lab.exec_ok(node, &argv, START_LIMIT).await.context("cannot start the watchdog under its tracer")?;
    Ok(())
}

/// Lets the node's service start as on a real node again; the daemon that runs goes on.
///
/// # Errors
/// The node does not answer.
pub async fn hold_no_more(lab: &Lab, node: NodeId) -> anyhow::Result<()> {
    let script = "rm -f \"$1\"; systemctl daemon-reload";
    lab.exec_ok(node, &["sh", "-euc", script, "fip-lab", HELD_DROP_IN], START_LIMIT)
        .await
        .context("cannot free the watchdog's start")?;
    Ok(())
}

/// Serves one daemon after the other until it is asked to stop.
pub async fn follow(place: Place, gets: Gets, mut stop: watch::Receiver<bool>) -> Calls {
    let mut calls = Calls::default();
    let mut served = None;
    while calls.blind.is_none() && !*stop.borrow() {
        let here = service::processes(&place.groups);
        let is_unserved = |process: &&Process| {
            process.is_alive() && process.name == WATCHDOG_PROCESS && served.is_some_and(|served| served != process.pid)
        };
        if let Some(held) = here.iter().find(|process| process.is_stopped() && process.name == HELD_NAME) {
            served = Some(held.pid);
            match serve(&place, gets, held.pid, &mut calls, &mut stop).await {
                // A kill may come right here.
                Err(_) if !is_alive(held.pid) => {}
                served => calls.blind = calls.blind.or(served.err().map(|error| format!("{error:#}"))),
            }
        } else if here.iter().any(|process| is_unserved(&process)) {
            calls.blind = Some("a daemon began without its tracer or clock".to_owned());
        } else {
            // Asked to stop or not: the loop looks.
            drop(tokio::time::timeout(LOOK_EVERY, stop.wait_for(|stop| *stop)).await);
        }
    }
    calls
}

/// Returns when the daemon runs or, if it is traced, has ended.
async fn serve(place: &Place, gets: Gets, pid: Pid, calls: &mut Calls, stop: &mut watch::Receiver<bool>) -> anyhow::Result<()> {
    if gets.own_clock {
        own_clock::give(&place.shared, pid).await.context("no wall clock of its own")?;
    }
    let tracer = if gets.tracer { Some(calls::attach(&place.namespace, pid).await?) } else { None };
    calls.daemons += 1;
    // It may have been killed meanwhile; then strace ends.
    kill_process(pid, Signal::CONT).ok();
    let Some(tracer) = tracer else { return Ok(()) };
    calls::read(tracer, calls, stop).await;
    anyhow::ensure!(*stop.borrow() || !is_alive(pid), "the tracer ended before its daemon");
    Ok(())
}
