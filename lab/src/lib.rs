//! The lab: three control-plane nodes on one machine, faults, scenarios, and a client that measures.
//!
//! ```text
//!  cli ──► cluster ──► host      what the machine must have          (apt, cgroup layout)
//!                  ├─► rootfs    the nodes' root file system          (cache outside the checkout)
//!                  ├─► network   <lab>-net, <lab>-client, <lab>-cpN   (bridge and veth)
//!                  ├─► seed      what makes a node this node          (pki, units, manifest, policy)
//!                  └─► node      a booted systemd-nspawn container    (cgroup, leader, exec)
//!      ──► fault     breaks one thing by name, and heals it
//!      ──► scenario, probe       scripted runs and the client's view
//!  inside a node: kubelet, agent, etcd_log
//!  from the host: service, wall_clock       a node's processes, and the time that they see
//! ```
//!
//! Invariant: all that an instance owns is found again from its name alone (cgroups, network namespaces, runtime
//! directory), so that `down` works on the remains of a run that was killed at any point.

pub mod agent;
pub mod cgroup;
pub mod cli;
pub mod cluster;
pub mod command;
pub mod etcd_log;
pub mod fault;
pub mod host;
pub mod kubelet;
pub mod lock;
pub mod loops;
pub mod network;
pub mod node;
pub mod paths;
pub mod pki;
pub mod probe;
mod ready;
pub mod rootfs;
pub mod scenario;
pub mod seed;
pub mod service;
pub mod status;
mod teardown;
pub mod units;
pub mod wall_clock;
