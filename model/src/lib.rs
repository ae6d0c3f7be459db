//! Three nodes' real decision code against an abstract world, explored exhaustively.
//!
//! ```text
//!  fault::Fault ──► node::Node ×3 ◄── tick (time, etcd, loops, kubelet) ── round ──► Machine::step (the product's)
//!                        ▲                                                     │ orders
//!                        └────────── steps (prove, probe, add …) ◄─────────────┘ contract ──► Broken
//! ```
//!
//! Real: `Machine`, `judge`, `safety`, `budget` and a `Policy`. Modelled: etcd, the network, the loops, the
//! kubelet, the kernel's lease, and the steps, phase by phase as `src/actuator` takes them; between any two
//! phases a fault can strike. Time goes in ticks, all ages are relative and end at a horizon, and the
//! nodes are interchangeable, so states repeat and the search ends.

pub mod contract;
pub mod etcd;
pub mod fault;
pub mod node;
pub mod removal;
pub mod report;
pub mod scale;
pub mod sense;
pub mod steps;
pub mod tick;
pub mod world;
