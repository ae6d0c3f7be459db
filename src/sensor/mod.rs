//! The senses: one file each, from the world to a [`Reading`](crate::decision::observation::Reading).

pub mod alias;
pub mod api;
pub mod boot;
pub mod certificates;
pub mod conflict;
pub mod cri;
pub mod etcd;
pub mod heartbeat;
pub mod kubelet;
pub mod manifest;
pub mod pressure;
pub mod process;
