//! Where a pod stands, what its worker asks the driver to do, and what from outside changes that.

use super::timing::Stamp;

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Run the pod's container as attempt number `attempt`.
    Start {
        /// Number of restarts in this pod, and the name of the log file.
        attempt: u32,
    },
    /// Ask the container to end.
    Term,
    /// End the container.
    Kill,
    /// Remove the record of the ended container, its cgroup and its logs.
    RemoveRecord,
    /// Remove the log directory of the pod.
    RemoveLogDir,
    /// Something that a kubelet would write into its log.
    Say(String),
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Another pod of the same name has to end first.
    Held,
    /// Will be started.
    Due {
        /// When.
        at: Stamp,
        /// As which attempt.
        attempt: u32,
    },
    /// Its container runs.
    Running,
    /// TERM was sent (or is held back by a mode).
    Terminating {
        /// When KILL follows.
        kill_at: Stamp,
    },
    /// Has no container that could run.
    Ended {
        /// When its container died.
        at: Stamp,
    },
}

/// The run-time modes that change what a worker does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions {
    /// The kubelet has not reached its API server since it started.
    pub sources_not_ready: bool,
    /// Signals have no effect on containers.
    pub unkillable: bool,
    /// The eviction manager ends every pod and lets none start.
    pub evict: bool,
    /// A termination that begins now never comes to its end, although the container dies.
    pub termination_stuck: bool,
}
