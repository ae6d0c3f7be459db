//! Whole nodes in virtual time.
//!
//! ```text
//!  seed ─► schedule of faults ─► world: etcd, loops, kubelets, kernels, wire, clocks (a queue of events)
//!                                  ▲ │ senses, hands: at the traits `World`, `Hands`, `AddressTable`, `ArpWire`, `LeadershipProver`
//!                                  │ ▼
//!                                the real Supervisor, Machine, Executor, AliasSteps, one set a node
//! ```
//!
//! One thread runs one schedule; time is tokio's paused clock, so a wait costs nothing. The same seed gives the same
//! run to the byte. Invariants are checked after each event (`check`).

pub mod address;
pub mod check;
pub mod cli;
pub mod clocks;
pub mod etcd;
pub mod eyes;
pub mod fault;
pub mod hands;
pub mod inflict;
pub mod kept;
pub mod kubelet;
pub mod pauses;
pub mod pod;
pub mod rest;
pub mod rng;
pub mod run;
pub mod shrink;
pub mod sim;
pub mod story;

/// Virtual time: milliseconds since the schedule began.
pub type Ms = u64;

/// Nodes of the cluster; a quorum is two.
pub const NODES: usize = 3;

/// A time as the timeline shows it.
#[must_use]
pub fn stamp(at: Ms) -> String {
    format!("{:>5}.{:03}", at / 1000, at % 1000)
}
