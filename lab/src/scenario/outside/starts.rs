//! Every daemon that a node's service starts, traced from its first instruction on.
//!
//! A drop-in lets the service's process stop itself before it becomes the daemon, so that a restart, a kill or a replacement by
//! systemd leaves no moment unseen: it goes on when its tracer is attached. A daemon that began without one makes the
//! run blind. May be dropped at any time: strace ends with its handle, and detaches.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use super::calls::{self, Calls};
use crate::network::namespace_path;
use crate::node::NodeId;
use crate::scenario::lab_api::Lab;
use crate::units::{HELD, HELD_DROP_IN, WATCHDOG_NAME};

/// A process that waits for its tracer is found within this time; reading a file of the cgroup costs microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longer than the unit's own TimeoutStartSec.
const START_LIMIT: Duration = Duration::from_secs(70);

/// Where a node's daemons appear.
pub struct Place {
    groups: Vec<PathBuf>,
    namespace: PathBuf,
}

impl Place {
    /// Of a node.
    #[must_use]
    pub fn of(lab: &Lab, node: NodeId) -> Self {
        Self { groups: lab.service_groups(node, WATCHDOG_NAME), namespace: namespace_path(&lab.node(node).netns) }
    }

    /// The service's processes, with their state (`proc_pid_stat(5)`) and name.
    fn processes(&self) -> Vec<(Pid, char, String)> {
        let texts = self.groups.iter().filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok());
        let pids: Vec<i32> =
            texts.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>()).collect();
        pids.into_iter().filter_map(|pid| state(Pid::from_raw(pid)?)).collect()
    }
}

fn state(pid: Pid) -> Option<(Pid, char, String)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // "4711 (name) T …"; the name may hold anything.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((pid, after.trim_start().chars().next()?, name))
}

const fn is_alive(state: char) -> bool {
    !matches!(state, 'Z' | 'X' | 'x')
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

/// Traces one daemon after the other until it is asked to stop.
pub async fn follow(place: Place, mut stop: watch::Receiver<bool>) -> Calls {
    let mut calls = Calls::default();
    while calls.blind.is_none() && !*stop.borrow() {
        let here = place.processes();
        let held = here.iter().find(|(_, state, _)| *state == 'T').map(|(pid, ..)| *pid);
        if let Some(pid) = held {
            trace(&place, pid, &mut calls, &mut stop).await;
        } else if calls.daemons > 0 && here.iter().any(|(_, state, name)| is_alive(*state) && name == "fip-watchdog") {
            calls.blind = Some("a daemon began without its tracer".to_owned());
        } else {
            // Asked to stop or not: the loop looks.
            drop(tokio::time::timeout(LOOK_EVERY, stop.wait_for(|stop| *stop)).await);
        }
    }
    calls
}

async fn trace(place: &Place, pid: Pid, calls: &mut Calls, stop: &mut watch::Receiver<bool>) {
    match calls::attach(&place.namespace, pid).await {
        Ok(tracer) => {
            calls.daemons += 1;
            // It may have been killed meanwhile; then strace ends.
            kill_process(pid, Signal::CONT).ok();
            calls::read(tracer, calls, stop).await;
            if !*stop.borrow() && state(pid).is_some_and(|(_, state, _)| is_alive(state)) {
                calls.blind.get_or_insert_with(|| "the tracer ended before its daemon".to_owned());
            }
        }
        // A kill may come right here.
        Err(_) if state(pid).is_none_or(|(_, state, _)| !is_alive(state)) => {}
        Err(error) => calls.blind = Some(format!("{error:#}")),
    }
}
