//! The lab: three control-plane nodes on one machine, faults, scenarios, and a client that measures.

pub mod kubelet;
