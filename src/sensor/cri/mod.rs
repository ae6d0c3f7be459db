//! Containers, by the container runtime itself: what `crictl ps -a` and `crictl inspect` ask, over the runtime's socket.
//!
//! containerd, CRI-O and the kubelet's old shim for docker all speak the Container Runtime Interface, a gRPC service that needs no API server.
//! Its few messages are in `wire.rs` (docs/decisions/0013).
//!
//! Invariants: only lists and inspects; bounded in time by its caller and in bytes; what a runtime says is data, never trusted to be small or
//! in order. Cancel-safe.

mod client;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use client::Runtime;
use wire::{
    Container, ContainerFilter, ContainerState, ContainerStatusRequest, ContainerStatusResponse, ListContainersRequest,
    ListContainersResponse,
};

/// Runs of one container that are looked at, newest first: the kubelet keeps the running one and the last that ended.
const RUNS_MAX: usize = 3;

/// The labels that the kubelet gives a container.
const NAME: &str = "io.kubernetes.container.name";
const NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// One run of a container. Stamps are nanoseconds since the Unix epoch by the node's wall clock, zero for what has not been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// How it is.
    pub state: RunState,
    /// How often the kubelet had created it anew before this run.
    pub attempt: u32,
    /// When its record was made.
    pub created_at: i64,
    /// When its process was started.
    pub started_at: i64,
    /// When that ended.
    pub finished_at: i64,
    /// What it ended with.
    pub exit_code: i32,
    /// Its process, while it runs, if the runtime tells.
    pub pid: Option<u32>,
}

/// How a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunState {
    /// Not started yet.
    Created,
    /// Its process is there.
    Running,
    /// It ended.
    Exited,
    /// The runtime does not know.
    #[default]
    Unknown,
}

/// The last runs of a container of static or other pods, newest first; none if there is no such container.
///
/// # Errors
/// The runtime cannot be reached or does not tell, as a sentence. Not bounded in time.
pub async fn runs(socket: &Path, namespace: &str, name: &str) -> Result<Vec<Run>, String> {
    let mut runtime = Runtime::connect(socket).await?;
    let label_selector = HashMap::from([(NAME.to_owned(), name.to_owned()), (NAMESPACE.to_owned(), namespace.to_owned())]);
    let question = ListContainersRequest { filter: Some(ContainerFilter { label_selector }) };
    let ListContainersResponse { mut containers } = runtime.call("ListContainers", question).await?;
    // A runtime that does not filter is not believed.
    let is = |container: &Container, label: &str, value: &str| container.labels.get(label).is_some_and(|has| has == value);
    containers.retain(|container| is(container, NAME, name) && is(container, NAMESPACE, namespace));
    containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
    let mut runs = Vec::new();
    for container in containers.into_iter().take(RUNS_MAX) {
        let question = ContainerStatusRequest { container_id: container.id, verbose: true };
        match runtime.call("ContainerStatus", question).await {
            Ok(answer) => runs.extend(run(&answer)),
            // Removed between the two questions; the newest one is what it is about.
            Err(_) if !runs.is_empty() => {}
            Err(reason) => return Err(reason),
        }
    }
    Ok(runs)
}

fn run(answer: &ContainerStatusResponse) -> Option<Run> {
    let status = answer.status.as_ref()?;
    let state = match status.state() {
        ContainerState::Created => RunState::Created,
        ContainerState::Running => RunState::Running,
        ContainerState::Exited => RunState::Exited,
        ContainerState::Unknown => RunState::Unknown,
    };
    let pid = if state == RunState::Running { answer.info.get("info").and_then(|info| pid_in(info)) } else { None };
    Some(Run {
        state,
        attempt: status.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        pid,
    })
}

fn pid_in(info: &str) -> Option<u32> {
    let info: Value = serde_json::from_str(info).ok()?;
    u32::try_from(info.get("pid")?.as_u64()?).ok().filter(|pid| *pid != 0)
}
