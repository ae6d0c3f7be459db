//! fip-watchdog: keeps the floating IP of a vSphere Supervisor control plane on the node whose etcd leads.
//!
//! How an observation becomes an action:
//!
//! ```text
//! sensor/* ──► Observation ──► decision::Machine ──► Decision ──► actuator/* ──► audit
//! ```
//!
//! Events (inotify, netlink, a deadline) only wake the loop in `runtime`; a full read decides.
//! `sensor`, `actuator`, `audit`, `autopsy`, `control`, `cli`, `diagnose` and `runtime` may do I/O; `decision` and `policy`'s types may not.

pub mod actuator;
pub mod audit;
pub mod autopsy;
pub mod cli;
pub mod control;
pub mod decision;
pub mod diagnose;
pub mod policy;
pub mod runtime;
pub mod sensor;
